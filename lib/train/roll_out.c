/* train/roll_out.c - the policy's attempts at a step's questions. With dynamic sampling
 * (DAPO, Yu et al. 2025, eq. 11) groups whose rewards are all equal have no gradient, so
 * further questions are asked until as many groups have differing rewards as the step
 * began with, the data's epoch ends, or dynamic_sampling rounds are over. The first round
 * may have begun a step before (async_level); further ones have the same weights. */
#include "train/step_batch.h"

#include "base/mem.h"
#include "policy/dataset_queries.h"
#include "policy/rollout_internal.h"
#include "train/rollout_queue.h"
#include "train/sampler.h"

#include <string.h>

/* The round asks its questions as those of this step, of which some are copies. */
static sr1_status number_questions(struct sr1__step_batch *b)
{
    struct sr1__round *round = &b->round;

    SR1__TRY(sr1__queries_check(round->queries, round->n_queries));
    SR1__CALLOC(round->numbered, round->n_queries + 1, "questions of a step");
    for (size_t i = 0; i < round->n_queries; i++) {
        round->numbered[i] = sr1__query_at(round->queries, i);
        round->numbered[i].struct_size = sizeof(sr1_query);
    }
    round->queries = round->numbered;
    return sr1__query_copies_number(&b->copies, round->numbered, round->n_queries);
}

/* One more round of rows[n]; *effective: how many have rewards that differ. */
static sr1_status sample_round(struct sr1__step_batch *b, const int64_t *rows, size_t n,
                               size_t *effective)
{
    struct sr1__dataset_queries asked;
    sr1_status st = sr1__dataset_queries_read(&asked, b->tr->train, rows, 0, n);

    sr1__free(b->round.numbered);
    b->round = (struct sr1__round){.number = b->round.number + 1,
                                   .queries = asked.queries,
                                   .rows = rows,
                                   .n_queries = n};
    if (st == SR1_OK)
        st = number_questions(b);
    if (st == SR1_OK)
        st = sr1__generate_round(b);
    if (st == SR1_OK)
        st = sr1__score_rewards(b);
    if (st == SR1_OK)
        st = sr1__count_effective_groups(b, b->round.begin, effective);
    b->round.queries = NULL;
    sr1__dataset_queries_free(&asked);
    return st;
}

/* asked: room for the rows of the step and of those behind it. */
static sr1_status sample_until_full(struct sr1__step_batch *b, int64_t *asked)
{
    size_t wanted = b->round.n_queries, effective = 0;
    size_t n_asked = sr1__rollout_queue_list(b->tr, asked);
    uint64_t rounds = (uint64_t)b->tr->set.dynamic_sampling;

    memcpy(asked + n_asked, b->round.rows, wanted * sizeof(*asked));
    n_asked += wanted;
    SR1__TRY(sr1__score_rewards(b));
    SR1__TRY(sr1__count_effective_groups(b, 0, &effective));
    for (uint64_t round = 1; round <= rounds && effective < wanted; round++) {
        size_t found = 0, n = 0;

        SR1__TRY(sr1__sampler_more(b->tr, asked, n_asked, wanted - effective, round,
                                   asked + n_asked, &n));
        if (n == 0)
            break;
        SR1__TRY(sample_round(b, asked + n_asked, n, &found));
        n_asked += n;
        effective += found;
        sr1__metrics_add(b->metrics, "sampling_rounds", 1, SR1__SUM);
    }
    return SR1_OK;
}

static sr1_status sample_dynamically(struct sr1__step_batch *b)
{
    const struct sr1__settings *set = &b->tr->set;
    size_t rounds = (size_t)set->dynamic_sampling;
    size_t ahead = (size_t)(set->async_level * set->batch_size);
    int64_t *asked;
    sr1_status st;

    if (rounds == 0 || !b->round.rows)
        return SR1_OK;
    asked = sr1__calloc(b->round.n_queries * (rounds + 1) + ahead + 1, sizeof(*asked));
    if (!asked)
        return sr1__fail_nomem("rows of a step");
    st = sample_until_full(b, asked);
    b->round.rows = NULL;
    sr1__free(asked);
    return st;
}

sr1_status sr1__roll_out(struct sr1__step_batch *b)
{
    struct sr1__queued_rollout *begun =
        b->in_run && b->round.rows ? sr1__rollout_queue_head(b->tr) : NULL;

    SR1__TRY(number_questions(b));
    SR1__TRY(begun ? sr1__take_queued(b, begun) : sr1__generate_round(b));
    return sample_dynamically(b);
}
