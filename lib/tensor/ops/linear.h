/* tensor/ops/linear.h - products with a weight matrix and their gradients. In fp32 and
 * bf16 on the CPU they are those of kernels/matmul.h, else tensor operations. There a row
 * of y, and of the gradient of x, has the same bits whatever other rows there are. */
#ifndef SR1__OPS_LINEAR_H
#define SR1__OPS_LINEAR_H

#include "tensor/ops/ops.h"

/* y = x w^T + bias, with gradients: x [n,in], w [out,in], bias [out] or NULL. */
sr1_tensor *sr1__linear(sr1_scope *s, sr1_tensor *x, sr1_tensor *w, sr1_tensor *bias);

/* The same where nothing reads the numbers of y, only its gradients are wanted: by
 * kernels they are zeros, which take neither time nor memory. */
sr1_tensor *sr1__linear_unread(sr1_scope *s, sr1_tensor *x, sr1_tensor *w,
                               sr1_tensor *bias);

/* x w^T of any type as the sums in fp32 that they are, with gradients of the types of x
 * and w: for what decides by small differences. */
sr1_tensor *sr1__linear_f32(sr1_scope *s, sr1_tensor *x, sr1_tensor *w);

/* Do kernels take x w^T? Then its parts, without gradients, into dense tensors that are
 * fp32 or of the matrices' type: x w^T + bias, the gradient g w of x from that of y, and
 * g^T x of w. add: to what gx or gw has, which is fp32. */
int sr1__linear_has_kernel(const sr1_tensor *x, const sr1_tensor *w);
void sr1__linear_into(sr1_scope *s, sr1_tensor *y, sr1_tensor *x, sr1_tensor *w,
                      sr1_tensor *bias);
void sr1__linear_grad_x(sr1_scope *s, sr1_tensor *gx, sr1_tensor *g, sr1_tensor *w,
                        int add);
void sr1__linear_grad_w(sr1_scope *s, sr1_tensor *gw, sr1_tensor *g, sr1_tensor *x,
                        int add);

#endif
