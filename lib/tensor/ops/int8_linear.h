/* tensor/ops/int8_linear.h - a matrix as int8 with one scale for each output row:
 *
 *     scale[i] = max_j |w[i,j]| / 127          q[i,j] = round(w[i,j] / scale[i])
 *
 * (absmax by row, as in LLM.int8() of Dettmers et al. 2022, section 2). The product with
 * q scale is computed in blocks of rows, so that no second whole copy exists. */
#ifndef SR1__OPS_INT8_LINEAR_H
#define SR1__OPS_INT8_LINEAR_H

#include "tensor/ops/ops.h"

/* Numbers of a block. */
#define SR1__INT8_BLOCK ((int64_t)1 << 22)

/* Fill q int8 [out,in] and scale fp32 [out,1] from w [out,in] of any type, which may be
 * on another device. The same bits on every device. */
void sr1__int8_quantize(sr1_scope *s, sr1_tensor *q, sr1_tensor *scale, sr1_tensor *w);

/* x (q scale)^T + bias in the type of x, without gradients; bias may be NULL. */
sr1_tensor *sr1__int8_linear(sr1_scope *s, sr1_tensor *x, sr1_tensor *q,
                             sr1_tensor *scale, sr1_tensor *bias);

#endif
