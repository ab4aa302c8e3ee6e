/* policy/level_branches.h - the same action after thinking at other levels (RLVCR).
 *
 * A step of a trajectory is history, level, thoughts, action. With history and action
 * fixed, thoughts are made at the levels that it did not choose, and the policy's
 * confidence in the action is measured after each of the four levels. */
#ifndef SR1__POLICY_LEVEL_BRANCHES_H
#define SR1__POLICY_LEVEL_BRANCHES_H

#include "tensor/weights/sampling.h"

#include <searchr1/rollout.h>
#include <searchr1/ext/thinking.h>

/* What came of a step. */
enum sr1__branch_outcome {
    SR1__BRANCH_COMPARED,     /* all four levels have a confidence */
    SR1__BRANCH_EXCLUDED,     /* nobody asked for its trajectory */
    SR1__BRANCH_UNPARSED,     /* it has no level, or no closed action */
    SR1__BRANCH_TRUNCATED,    /* thoughts reached the limit of tokens */
    SR1__BRANCH_NO_ACTION,    /* a message ended before an action */
    SR1__BRANCH_MALFORMED,    /* thoughts are not closed */
    SR1__BRANCH_CONTEXT_FULL, /* the context is full */
    SR1__BRANCH_OUTCOMES
};

/* One turn of a trajectory, compared or not. */
struct sr1__level_branch_step {
    int32_t level;                           /* the one it chose, from 0; -1: unknown */
    int32_t outcome;                         /* enum sr1__branch_outcome */
    double confidences[SR1_THINKING_LEVELS]; /* NaN unless compared */
    double costs[SR1_THINKING_LEVELS];       /* tokens of thought; NaN likewise */
};

struct sr1__level_branch_options {
    struct sr1__sampling sampling;
    int64_t
        max_tokens[SR1_THINKING_LEVELS]; /* of a message before its action, by level */
    const char *thought;    /* of level 1, which is not sampled; "": no thoughts */
    int32_t prompts;        /* 1: thoughts are asked for in the words of their level */
    const char *confidence; /* kind, see sr1_thinking_confidence */
    double temperature;     /* at which the action is scored */
    uint64_t
        seed; /* thoughts of a step depend on (seed, query id, sample, turn, level) */
    /* Shown each message that is scored, ids[n] behind the history up to the last of its
     * `asked` tokens of the action; may be NULL. Not at the same time from two threads.
     */
    void (*look)(void *user, const sr1_trajectory *t, int32_t turn, int32_t level,
                 const int32_t *ids, size_t n, size_t asked);
    void *user;
};

/* What it took. */
struct sr1__level_branch_stats {
    int64_t outcomes[SR1__BRANCH_OUTCOMES]; /* turns */
    int64_t tokens_made;                    /* of thoughts at other levels */
    int64_t tokens_fed;                     /* through the model, and */
    int64_t tokens_alone; /* if each of the sequences had been read by itself */
};

/* Steps of t[n], of which those with wanted[i] are compared (NULL: all), into out: one
 * for each turn, trajectory by trajectory (sr1_trajectory_turn_count). Trajectories that
 * are compared get the columns SR1_COLUMN_LEVEL_ENTROPY, the entropy at each of the
 * action's tokens behind the thoughts that were thought, 0 elsewhere, and
 * SR1_COLUMN_THINKING_COST, 1 at each token of thought, 0 elsewhere. The protocol must be
 * "rlvcr": SR1_E_CONFIG. stats may be NULL. */
sr1_status sr1__rollout_level_branches(sr1_rollout *r, sr1_trajectory *const *t, size_t n,
                                       const uint8_t *wanted,
                                       const struct sr1__level_branch_options *o,
                                       struct sr1__level_branch_step *out,
                                       struct sr1__level_branch_stats *stats);

#endif
