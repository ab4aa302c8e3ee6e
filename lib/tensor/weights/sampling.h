/* tensor/weights/sampling.h - draw next tokens from rows of logits.
 *
 *     q = softmax(logits / temperature);  keep the top_k largest, then of those,
 *     renormalised, the smallest set whose mass reaches top_p;  renormalise;  draw
 *
 * The order is that of transformers and vLLM. Equal logits at the top_k border are all
 * kept; at the top_p border the lower ids are. A log-prob is the one under exactly the
 * distribution that was drawn from. A row's result depends on that row and its stream
 * alone. */
#ifndef SR1__WEIGHTS_SAMPLING_H
#define SR1__WEIGHTS_SAMPLING_H

#include "base/error.h"
#include "base/rng.h"
#include "base/team.h"

struct sr1__sampling {
    double
        temperature; /* > 0, or 0: greedy, the largest logit (the lowest id of equals) */
    int32_t top_k;   /* 0: all */
    double top_p;    /* (0, 1]; 1: all */
};

/* One drawn token. Greedy is no draw: its log-prob and entropy are those at temperature
 * 1, nothing cut. */
struct sr1__sample {
    int32_t id;
    float log_prob;
    float entropy;  /* of softmax(logits / temperature), before anything is cut; nats */
    float log_kept; /* log of the mass that top_k and top_p left; 0 when all */
};

/* The smallest one to draw with. */
#define SR1__TEMPERATURE_MIN 1e-3

/* SR1_E_INVALID with the reason when the settings are out of bounds. */
sr1_status sr1__sampling_check(const struct sr1__sampling *s);

/* Draw one token from logits[vocab]. One uniform number is taken from rng, none by greedy
 * (rng may be NULL then). SR1_E_NUMERIC when a logit is not finite; rng is then
 * untouched. */
sr1_status sr1__sample_row(const float *logits, size_t vocab,
                           const struct sr1__sampling *s, struct sr1__rng *rng,
                           struct sr1__sample *out);

/* n rows, row i at logits[i] with its own stream rngs[i] (rngs may be NULL for greedy).
 * team may be NULL. On failure the error names the row and the streams of other rows may
 * have moved. */
sr1_status sr1__sample_rows(struct sr1__team *team, const float *const *logits, size_t n,
                            size_t vocab, const struct sr1__sampling *s,
                            struct sr1__rng *const *rngs, struct sr1__sample *out);

/* What sr1__sample_row would report, had it drawn token id; the log-prob is -INFINITY
 * where that is cut. */
sr1_status sr1__sample_given(const float *logits, size_t vocab,
                             const struct sr1__sampling *s, int32_t id,
                             struct sr1__sample *out);
/* Of that the log-prob. */
sr1_status sr1__sample_log_prob(const float *logits, size_t vocab,
                                const struct sr1__sampling *s, int32_t id, float *out);

#endif
