/* tensor/ops/sample_logits.h - draw tokens from logits where the logits lie.
 *
 * The distribution, its order and its borders are those of tensor/weights/sampling.h, but
 * the logits never leave the device: ids, log-probs and entropies of all rows are one
 * small tensor. */
#ifndef SR1__OPS_SAMPLE_LOGITS_H
#define SR1__OPS_SAMPLE_LOGITS_H

#include "tensor/ops/ops.h"
#include "tensor/weights/sampling.h"

#define SR1__SAMPLE_COLUMNS 5

/* One token for each row of logits [n,V], any float type: fp64 [n,SR1__SAMPLE_COLUMNS];
 * the tokens alone are ids, i64 [n,1].
 * uniforms: fp64 [n,1] in [0, 1), NULL for greedy; the settings have been checked.
 * Sums are fp64, weights fp32: an id differs from that of sr1__sample_row only where the
 * uniform lies within their rounding of the border between two tokens. */
sr1_tensor *sr1__nn_sample(sr1_scope *s, sr1_tensor *logits, sr1_tensor *uniforms,
                           const struct sr1__sampling *how, sr1_tensor **ids);

/* The n rows of such a tensor once they are on the host. SR1_E_NUMERIC names the first
 * row with a logit that is not finite; out is then unchanged. */
sr1_status sr1__samples_unpack(const double *columns, size_t n, struct sr1__sample *out);

#endif
