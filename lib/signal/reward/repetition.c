/* signal/reward/repetition.c - a penalty for n-grams of tokens that come again (Yeo et
 * al. 2025, arXiv 2502.03373, appendix C.2; TRL's get_repetition_penalty_reward):
 *
 *     (1 - distinct n-grams / n-grams) * repetition_max_penalty
 *
 * The tokens are those that the policy sampled, and no n-gram reaches over inserted
 * ones. */
#include "signal/reward/repetition.h"

#include "base/mem.h"

#include <searchr1/ext/trajectory_details.h>

#include <stdlib.h>
#include <string.h>

struct ngram {
    const int32_t *ids; /* [n] */
    size_t n;
};

static int compare_ngrams(const void *a, const void *b)
{
    const struct ngram *left = a, *right = b;

    return memcmp(left->ids, right->ids, left->n * sizeof(*left->ids));
}

/* Those of t into grams, which has room for one a token; their number. */
static size_t list_ngrams(const sr1_trajectory *t, size_t n, struct ngram *grams)
{
    const int32_t *ids = sr1_trajectory_ids(t);
    const int32_t *at = sr1_trajectory_policy_positions(t);
    size_t tokens = sr1_trajectory_policy_count(t), count = 0;

    for (size_t i = 0; i + n <= tokens; i++)
        if ((size_t)(at[i + n - 1] - at[i]) == n - 1)
            grams[count++] = (struct ngram){ids + at[i], n};
    return count;
}

static size_t count_distinct(struct ngram *grams, size_t count)
{
    size_t distinct = count > 0;

    qsort(grams, count, sizeof(*grams), compare_ngrams);
    for (size_t i = 1; i < count; i++)
        distinct += compare_ngrams(&grams[i - 1], &grams[i]) != 0;
    return distinct;
}

static sr1_status score_one_repetition(const sr1_reward_scales *s,
                                       const sr1_trajectory *t, double *out)
{
    size_t n = s->repetition_n_grams > 0 ? (size_t)s->repetition_n_grams : 3;
    struct ngram *grams = sr1__calloc(sr1_trajectory_policy_count(t) + 1, sizeof(*grams));
    size_t count, distinct;

    SR1__CHECK_ALLOC(grams, "n-grams of a trajectory");
    count = list_ngrams(t, n, grams);
    distinct = count_distinct(grams, count);
    *out = distinct < count
               ? (1 - (double)distinct / (double)count) * s->repetition_max_penalty
               : 0;
    sr1__free(grams);
    return SR1_OK;
}

sr1_status sr1__score_repetition(void *self, const sr1_trajectory *const *t, size_t n,
                                 double *out)
{
    const struct sr1__reward_context *c = self;

    for (size_t i = 0; i < n; i++)
        SR1__TRY(score_one_repetition(&c->scales, t[i], &out[i]));
    return SR1_OK;
}
