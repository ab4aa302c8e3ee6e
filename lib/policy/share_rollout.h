/* policy/share_rollout.h - what the ranks of a job (lib/dist) do together with a policy:
 * each takes its share of the questions, and all get all trajectories and rewards. d NULL
 * is one process. All ranks make the same calls. */
#ifndef SR1__POLICY_SHARE_ROLLOUT_H
#define SR1__POLICY_SHARE_ROLLOUT_H

#include "base/buf.h"
#include "dist/dist.h"

#include <searchr1/reward.h>
#include <searchr1/rollout.h>

/* Which rank asks question q of a call, and scores what comes of it: q mod N, as it is
 * worker q mod N's in one process. */
static inline int32_t sr1__rank_of_question(const struct sr1__dist *d, size_t q)
{
    return (int32_t)(q % (size_t)sr1__dist_size(d));
}

/* Prompts that show the date show that of rank 0. */
sr1_status sr1__share_date(struct sr1__dist *d, sr1_rollout *rollout);

/* sr1_rollout_generate by all ranks: the rollout's statistics are those of all. */
sr1_status sr1__generate_shared(struct sr1__dist *d, sr1_rollout *rollout,
                                const sr1_query *queries, size_t n,
                                const sr1_rollout_options *o, sr1_trajectory **out);

/* The same, and every rank scores what it generated (sr1_reward_set_apply) before the
 * exchange. */
sr1_status sr1__generate_scored(struct sr1__dist *d, sr1_rollout *rollout,
                                sr1_reward_set *rewards, const sr1_query *queries,
                                size_t n, const sr1_rollout_options *o,
                                sr1_trajectory **out);
/* The questions of one rank, and their trajectories, for those who generate by other
 * means. */
struct sr1__rollout_share {
    struct sr1__dist *dist;
    size_t n_queries; /* of all ranks */
    size_t group;
    sr1_query *queries;   /* [n] of this rank, of the caller's struct_size */
    sr1_trajectory **own; /* [n * group] to be filled */
    size_t n;
};
/* This rank's of queries[n], whose texts are borrowed. Free also after a failure. */
sr1_status sr1__rollout_share_begin(struct sr1__rollout_share *s, struct sr1__dist *d,
                                    const sr1_query *queries, size_t n, size_t group);
/* With the status st of this rank's: exchange what is in `own`, and the statistics of the
 * rollout's last generation; out[n_queries * group]. */
sr1_status sr1__rollout_share_exchange(struct sr1__rollout_share *s, sr1_rollout *rollout,
                                       sr1_status st, sr1_trajectory **out);
void sr1__rollout_share_free(struct sr1__rollout_share *s); /* a zeroed one is fine */

/* t[n] in their binary form, one behind the other, and back. */
sr1_status sr1__trajectories_encode(sr1_trajectory *const *t, size_t n,
                                    struct sr1__buf *out);
sr1_status sr1__trajectories_decode(struct sr1__reader *r, sr1_trajectory **t, size_t n);

/* The next n numbers as a column (SR1_COLUMN_*) of t. */
sr1_status sr1__trajectory_read_column(struct sr1__reader *r, sr1_trajectory *t,
                                       int32_t column, size_t n);

/* Rewards of t[n], `group` of each question, question by question, which every rank has;
 * NaN where it is dropped or its reward could not be had. */
sr1_status sr1__score_shared(struct sr1__dist *d, sr1_reward_set *rewards,
                             sr1_trajectory *const *t, size_t n, size_t group,
                             double *totals);

#endif
