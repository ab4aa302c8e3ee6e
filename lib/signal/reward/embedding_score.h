/* signal/reward/embedding_score.h - the similarity of answers and ground truths, by their
 * embeddings. */
#ifndef SR1__REWARD_EMBEDDING_SCORE_H
#define SR1__REWARD_EMBEDDING_SCORE_H

#include "signal/reward/ground_truths.h"

#include <searchr1/ext/embed.h>

struct sr1__answer_pair {
    struct sr1__str answer; /* n 0: none */
    struct sr1__ground_truths truths;
};

/* out[i] = max over the gold answers of item i of cos(answer, gold), not below 0; 0
 * without an answer. All texts are embedded in one call, each distinct one once. */
sr1_status sr1__embedding_scores(sr1_embedder *embedder,
                                 const struct sr1__answer_pair *items, size_t n,
                                 double *out);

#endif
