/* reward/embedding.h - how alike answers and gold answers are, by their embeddings. */
#ifndef SR1__REWARD_EMBEDDING_H
#define SR1__REWARD_EMBEDDING_H

#include "reward/truths.h"

#include <searchr1/embed.h>

struct sr1__answered {
    struct sr1__text answer; /* n 0: none */
    struct sr1__truths truths;
};

/* out[i] = max over the gold answers of item i of cos(answer, gold), not below 0; 0
 * without an answer. All texts are embedded in one call, each distinct one once. */
sr1_status sr1__embedding_scores(sr1_embedder *embedder,
                                 const struct sr1__answered *items, size_t n,
                                 double *out);

#endif
