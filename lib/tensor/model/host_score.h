/* tensor/model/host_score.h - log-probs of given tokens by the decoder's pass in C: those
 * that it would have reported while sampling them, to the bit, whatever else is packed
 * beside them. */
#ifndef SR1__MODEL_HOST_SCORE_H
#define SR1__MODEL_HOST_SCORE_H

#include "base/pool.h"
#include "tensor/model/host_pass.h"
#include "tensor/model/model.h"
#include "tensor/weights/sampling.h"

#define SR1__SCORE_TOKENS 1024               /* of a pass; a sequence is not cut */
#define SR1__SCORE_LOGITS ((size_t)32 << 20) /* bytes of them at a time, or one row */

/* Token ids[i], predicted by packed token rows[i]. Borrowed. */
struct sr1__score_targets {
    const int32_t *rows;
    const int32_t *ids;
    size_t n;
};

/* Is this how the model's log-probs are computed where no gradient is wanted? In fp32
 * only: in bf16 a training pass rounds what its operations pass on, where this one goes
 * on in fp32, and what its log-probs are compared with is to round likewise. */
int sr1__host_scores(const sr1_model *m);

/* log_probs[targets->n] under the distribution of `how`. chunk: rows of logits at a time;
 * 0: about 32 MiB of them. */
sr1_status sr1__host_score(sr1_model *m, const struct sr1__packed *in,
                           const struct sr1__score_targets *targets,
                           const struct sr1__sampling *how, int64_t chunk,
                           float *log_probs);

/* Log-probs and entropies [n] of ids[n], which the n hidden states predict that the pass
 * kept last: by its weights, so by int8 ones where those are sampled from. */
sr1_status sr1__host_score_kept(const sr1_model *m, struct sr1__host_pass *pass,
                                struct sr1__pool *pool, const int64_t *ids, size_t n,
                                const struct sr1__sampling *how, float *log_probs,
                                float *entropies);

#endif
