/* policy/level_branch.h - one of the four messages of a step that differ in their level
 * alone, up to the action that they share. */
#ifndef SR1__POLICY_LEVEL_BRANCH_H
#define SR1__POLICY_LEVEL_BRANCH_H

#include "environment/env/thinking_turn.h"
#include "policy/rollout_internal.h"
#include "policy/level_branches.h"

/* A step to be compared. */
struct sr1__level_branch_task {
    sr1_trajectory *t; /* borrowed */
    struct sr1__thinking_turn turn;
    float *entropies; /* of its message's tokens, to be filled */
    struct sr1__level_branch_step *out;
};

/* The inputs of branches; borrowed. */
struct sr1__level_branch_call {
    sr1_rollout *rollout;
    const struct sr1__level_branch_options *o;
    const char *action_tag; /* "<action>" */
};

struct sr1__level_branch {
    const struct sr1__level_branch_call *call;
    const struct sr1__level_branch_task *task;
    int32_t level;   /* from 0 */
    int32_t outcome; /* enum sr1__branch_outcome */
    int32_t sampling;
    int32_t asked_in_words;
    struct sr1__ids ids; /* the history (asked in words something else) and the message so
                            far; once finished with the action */
    size_t base;         /* where the message begins in ids */
    size_t n_held;       /* of ids, what an engine has in its slot held_by */
    int32_t held_by;
    int64_t n_sampled;
    int64_t cost; /* of them and the fixed ones, those of thought */
    struct sr1__buf text;
    struct sr1__ids ends; /* where in text each of the message's ids ends */
    struct sr1__rng rng;
    sr1_token_stream *stream;
};

/* Begin a message at this level of the step. The level that was sampled is complete at
 * once, as is level 1; for other levels only the tag is set and the thoughts are then
 * sampled (b->sampling). n_held: ids that it has in common with its trajectory's. In
 * b->outcome: SR1__BRANCH_CONTEXT_FULL where it does not fit. */
sr1_status sr1__level_branch_begin(struct sr1__level_branch *b,
                                   const struct sr1__level_branch_call *call,
                                   const struct sr1__level_branch_task *task,
                                   int32_t level);
/* Append a sampled token. b->outcome: SR1__BRANCH_COMPARED while all is well; b->sampling
 * 0: the action has begun. */
sr1_status sr1__level_branch_append(struct sr1__level_branch *b, int32_t id);
/* Sampled thoughts end where the action begins, and the step's own action follows: ids is
 * the history and the whole message, however it was asked for, and n_held at most what
 * of it the engine was given. */
sr1_status sr1__level_branch_finish(struct sr1__level_branch *b);
/* Free a branch; a zeroed one is fine. */
void sr1__level_branch_free(struct sr1__level_branch *b);

#endif
