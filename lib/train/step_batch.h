/* train/step_batch.h - the trajectories of one step: one array, which is never compacted,
 * and columns of the same length with values of each trajectory. A trajectory that is
 * excluded from the update has a drop reason and keeps its index. */
#ifndef SR1__TRAIN_STEP_BATCH_H
#define SR1__TRAIN_STEP_BATCH_H

#include "policy/query_copies.h"
#include "train/internal.h"

/* Why a trajectory is dropped from the update. A trajectory with a reason before
 * SR1__DROP_TRUNCATED does not count in the baseline of its group either, because what
 * happened to it says nothing about the policy; with a later reason it counts there. */
enum sr1__drop {
    SR1__DROP_NONE,
    SR1__DROP_FAILED,        /* its search, or the server that generates it, failed */
    SR1__DROP_NO_BASELINE,   /* the greedy rollout that it is compared with failed */
    SR1__DROP_UNSCORED,      /* its reward could not be had */
    SR1__DROP_TRUNCATED,     /* a limit on tokens ended it (mask_truncated_completions) */
    SR1__DROP_ZERO_VARIANCE, /* the rewards of its group are all equal, or what
                                filter_groups_metric compares in their place */
};

/* Questions that are asked together. Dynamic sampling has further rounds of them. */
struct sr1__round {
    uint64_t number; /* from 0 */
    const sr1_query *queries;
    sr1_query *numbered; /* [n_queries] which they are once their copies are counted */
    const int64_t *rows; /* [n_queries] of the data; NULL: the caller's own questions */
    size_t n_queries;
    size_t begin;            /* its first trajectory */
    sr1_trajectory **greedy; /* [n_queries] of estimators that compare with them; NULL */
};

struct sr1__step_batch {
    sr1_trainer *tr;
    struct sr1_step_metrics *metrics; /* the trainer's */
    double began;                     /* sr1__now() then */
    int32_t group_size;
    int32_t keep;      /* the caller wants the trajectories */
    int32_t on_policy; /* sampled in this step, by a server maybe from older weights */
    int32_t in_run;    /* a step of a run, which logs its metrics */
    int64_t epochs;    /* of the policy's update */
    struct sr1__round round;         /* the present one */
    struct sr1__query_copies copies; /* of all rounds */

    sr1_trajectory **t;   /* [n] group by group; NULL once they are let go */
    uint8_t *drop;        /* [n] enum sr1__drop */
    uint32_t *filled;     /* [n] columns that forward passes gave, 1 << SR1_COLUMN_* */
    double *baselines;    /* [n] reward of the greedy rollout; 0 without one */
    int64_t *turn_begin;  /* [n + 1] into turn_rewards, of those that are scored */
    double *turn_rewards; /* of each turn, from rewards of level turn */
    size_t n;
    size_t n_scored;

    struct sr1__step_batch
        *masked;       /* copies with other loss masks; NULL: there are none */
    int32_t is_masked; /* this is such a batch */
    struct sr1__trajectory_store *selected; /* what the update reads */
    struct sr1__trajectory_store *log;      /* takes all of them, or NULL; borrowed */
    int64_t answers, drifted;               /* of a server that generates */
    int64_t actions, refused;               /* by the environment */
    double entropy;           /* at sampling, nats a policy token, of all rounds */
    int64_t sampled;          /* policy tokens in it */
    double searches_per_call; /* of the search engine, of all rounds */
    int64_t search_calls;
    double reward_kl; /* KL taken off the rewards: mean over trajectories of that of
                         tokens */
    int64_t tokens;   /* prompts, sampled and inserted, of all trajectories */
};

/* ---- step_batch.c ---- */

/* Room for `more` trajectories behind the others, NULL at first, whose columns are 0. */
sr1_status sr1__step_batch_extend(struct sr1__step_batch *b, size_t more);
/* Append t[n], of which the batch takes references of its own. */
sr1_status sr1__step_batch_append(struct sr1__step_batch *b, sr1_trajectory *const *t,
                                  size_t n);
void sr1__step_batch_free(struct sr1__step_batch *b); /* a zeroed one is fine */

/* Trajectories of a batch side by side. */
struct sr1__batch_view {
    sr1_trajectory **t; /* [n] borrowed */
    size_t *index;      /* [n] in the batch */
    size_t n;
};
/* Those from `begin` on that count in their groups. Free with sr1__batch_view_free. */
sr1_status sr1__step_batch_in_groups(const struct sr1__step_batch *b, size_t begin,
                                     struct sr1__batch_view *out);
/* Those from `begin` on that takes() says. */
sr1_status sr1__batch_view_of(const struct sr1__step_batch *b, size_t begin,
                              int (*takes)(const struct sr1__step_batch *b, size_t i,
                                           int32_t arg),
                              int32_t arg, struct sr1__batch_view *out);
void sr1__batch_view_free(struct sr1__batch_view *v); /* a zeroed one is fine */

static inline int sr1__counts_in_group(const struct sr1__step_batch *b, size_t i)
{
    return b->drop[i] == SR1__DROP_NONE || b->drop[i] >= SR1__DROP_TRUNCATED;
}

/* The seed of the random streams of a round of the present step; 0: the first. */
uint64_t sr1__step_seed(const sr1_trainer *tr, uint64_t round);
/* The same of the step that so many whole ones precede. */
uint64_t sr1__round_seed(const sr1_trainer *tr, int64_t step, uint64_t round);

/* ---- drops.c ---- */

/* Did a limit on tokens end it? */
int sr1__is_truncated(const sr1_trajectory *t);
/* Before the new trajectories are scored: those that cannot be. */
void sr1__drop_failed(struct sr1__step_batch *b);
/* Once they are scored: those that could not be; groups without any other are counted. */
void sr1__drop_unscored(struct sr1__step_batch *b);
/* Of all that are scored: those that are not trained on. */
sr1_status sr1__drop_untrained(struct sr1__step_batch *b);
/* Groups from trajectory `begin` on whose rewards differ, or what stands for them. */
sr1_status sr1__count_effective_groups(const struct sr1__step_batch *b, size_t begin,
                                       size_t *effective);

/* ---- the step, in order ---- */

/* weight_sync.c: a server that generates gets newer weights when they are due, unless
 * the step's rollout has begun; SR1_E_STATE if those of the rollout are too old. Nothing
 * to do without a server. */
sr1_status sr1__sync_policy(struct sr1__step_batch *b);
/* Its first half; are there any to send? */
sr1_status sr1__push_due_weights(sr1_trainer *tr);
int sr1__weights_are_due(const sr1_trainer *tr);

/* roll_out.c: the policy's attempts at the questions; with dynamic sampling, rounds of
 * further questions until enough groups have rewards that differ. */
sr1_status sr1__roll_out(struct sr1__step_batch *b);
/* generate_round.c: one round of attempts. */
sr1_status sr1__generate_round(struct sr1__step_batch *b);
/* The same by the rollout that began before the step (rollout_queue.h). */
struct sr1__queued_rollout;
sr1_status sr1__take_queued(struct sr1__step_batch *b, struct sr1__queued_rollout *q);

/* roll_out_ahead.c: with async_level, the rollouts of the steps that follow begin, by
 * servers that get newer weights before if they are due; those of this step are over. */
sr1_status sr1__roll_out_ahead(struct sr1__step_batch *b);

/* score_rewards.c: the rewards of trajectories that have none yet, turn by turn too, and
 * who is dropped. */
sr1_status sr1__score_rewards(struct sr1__step_batch *b);

/* share_rewards.c: the configured rewards of trajectories that have none yet, each scored
 * by the rank that rolled it out. */
sr1_status sr1__apply_shared(struct sr1__step_batch *b);

/* fill_log_probs.c: forward passes without gradient (the reference's and the policy's
 * log-probs, the critic's values), where their numbers are needed and
 * missing. */
sr1_status sr1__fill_log_probs(struct sr1__step_batch *b);
/* The same for trajectories that are still to be scored: what does not depend on rewards.
 */
sr1_status sr1__fill_log_probs_early(struct sr1__step_batch *b);
/* One column of t[n] anew. */
sr1_status sr1__forward_column(const sr1_trainer *tr, int32_t column,
                               sr1_trajectory *const *t, size_t n);

/* compute_advantages.c: KL in the reward, thinking levels, then the estimator. */
sr1_status sr1__compute_advantages(struct sr1__step_batch *b);
/* expand_levels.c: the turns of v at the thinking levels that were not chosen, for
 * estimators that compare them; *out[turns], NULL for others. Free with sr1__free. */
sr1_status sr1__expand_levels(struct sr1__step_batch *b, const struct sr1__batch_view *v,
                              struct sr1__level_branch_step **out);

/* batch_metrics.c: figures of the trajectories. */
sr1_status sr1__batch_metrics(struct sr1__step_batch *b);

/* select_for_update.c: what is not dropped, with its loss mask, is stored for the update
 * within the memory allowed; all are logged, and let go unless they are kept. */
sr1_status sr1__select_for_update(struct sr1__step_batch *b);
/* mask_ablations.c: copies with other loss masks in b->masked, for ablations that ask for
 * them. */
sr1_status sr1__mask_loss(struct sr1__step_batch *b);
static inline int sr1__masks_loss(const struct sr1__settings *set)
{
    return set->train_environment || set->no_think;
}

/* update_critic.c, update_policy.c: the epochs of either; the critic's where there is
 * one. */
sr1_status sr1__update_critic(struct sr1__step_batch *b);
sr1_status sr1__update_policy(struct sr1__step_batch *b);

/* adapt_controllers.c: the coefficients of KL and entropy follow what the step measured.
 */
sr1_status sr1__adapt_controllers(struct sr1__step_batch *b);
/* The weight of the entropy bonus in this update: that of a rollout with the entropy of
 * the batch. */
void sr1__entropy_choose(struct sr1__step_batch *b);

#endif
