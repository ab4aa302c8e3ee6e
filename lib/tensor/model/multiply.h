/* tensor/model/multiply.h - a weight matrix times the few rows of a decode step. */
#ifndef SR1__MODEL_MULTIPLY_H
#define SR1__MODEL_MULTIPLY_H

#include "base/pool.h"
#include "tensor/ops/ops.h"

/* x w^T + bias as t_linear, but without gradients: up to 8 rows on the CPU in fp32 or
 * bf16 go through kernels/gemv.h, which reads the matrix once at the speed of memory.
 * pool is for big matrices; bias may be NULL. */
sr1_tensor *sr1__multiply(sr1_scope *s, struct sr1__pool *pool, sr1_tensor *x,
                          sr1_tensor *w, sr1_tensor *bias);

#endif
