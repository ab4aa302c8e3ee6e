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
    int32_t at;  /* the decoder's row: it holds the first `base` tokens of the history */
    size_t base; /* (or, asked in words, something else), then */
    size_t fed;  /* of ids */
    int32_t level; /* from 0 */
    int32_t drawing;
    int32_t asked_in_words;
    int64_t made;        /* tokens drawn */
    int64_t cost;        /* of them and the fixed ones, those of thought */
    struct sr1__ids ids; /* of the message so far; once finished with the action */
    struct sr1__buf text;
    struct sr1__ids ends; /* where in text each of ids ends */
    struct sr1__rng rng;
    sr1_token_stream *stream;
};

/* Begin a message at row->level of the step; the decoder's row holds the history
 * (base). For level 1 the message is complete at once; for other levels only the tag is
 * set and the thoughts are then sampled. */
sr1_status sr1__level_branch_begin(struct sr1__level_branch *row,
                                   const struct sr1__level_branch_call *c,
                                   const struct sr1__level_branch_task *task);
/* The branch of the sampled level: the decoder's row holds everything before the last
 * token of the action's context. */
sr1_status sr1__level_branch_begin_sampled(struct sr1__level_branch *row,
                                           const struct sr1__level_branch_task *task);
/* Take a drawn token. *outcome: SR1__BRANCH_COMPARED while all is well; row->drawing 0:
 * the action has begun. */
sr1_status sr1__level_branch_append(struct sr1__level_branch *row,
                                    const struct sr1__level_branch_call *c,
                                    const struct sr1__level_branch_task *task, int32_t id,
                                    int32_t *outcome);
/* The thoughts end where the action begins, and the step's own action follows: ids is all
 * the decoder has to read behind the history, of which it may have read more than
 * *keep. */
sr1_status sr1__level_branch_finish(struct sr1__level_branch *row,
                                    const struct sr1__level_branch_call *c,
                                    const struct sr1__level_branch_task *task,
                                    size_t *keep, int32_t *outcome);
/* Free a branch; a zeroed one is fine. */
void sr1__level_branch_free(struct sr1__level_branch *row);

/* Tokens of the step's action from `behind` on. */
size_t sr1__level_tail_length(const struct sr1__level_branch_task *task);

#endif
