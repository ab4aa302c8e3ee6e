/* policy/sequence.h - one trajectory in the making: appends sampled tokens and
 * observations, and decides after each what it needs next. */
#ifndef SR1__POLICY_SEQUENCE_H
#define SR1__POLICY_SEQUENCE_H

#include "policy/rollout_internal.h"
#include "environment/trajectory/builder.h"
#include "environment/trajectory/trajectory.h"

/* What a sequence needs after a token. */
enum sr1__sequence_need {
    SR1__SEQUENCE_NEEDS_TOKEN,  /* the next token */
    SR1__SEQUENCE_NEEDS_ACTION, /* its action carried out: sr1__sequence_action, then
                                   sr1__sequence_observe */
    SR1__SEQUENCE_DONE          /* nothing: sr1__sequence_finish with its stop */
};

struct sr1__sequence {
    struct sr1__generation *g;
    sr1_query query;
    size_t index; /* of the trajectory in g->out */
    int32_t active;
    int32_t waiting; /* for the answer to its action; samples nothing meanwhile */
    int32_t cut;     /* its message was ended by a limit of tokens, ours or a server's */
    int32_t stop;    /* SR1_STOP_*, once done */
    int32_t turn;
    int32_t searches;    /* actions that were answered */
    int32_t executed;    /* of them carried out */
    int32_t owed;        /* answers that its message still waits for */
    int64_t tokens;      /* sampled */
    int64_t turn_tokens; /* sampled in this turn */
    int64_t episode;     /* the environment's state for it; 0: none */
    struct sr1__rng rng;
    struct sr1__scanner scanner;
    struct sr1__trajectory_builder *builder;
    sr1_token_stream *stream;
    size_t n_held;   /* of its ids, those that the engine has, */
    int32_t held_by; /* in this slot */
    double *entropy; /* sum to which its tokens are added */
    struct sr1__version_run
        *versions; /* [n_versions] of its tokens; 0: the generation's */
    size_t n_versions;
};

/* Begin trajectory `sample` of a query with the prompt[n]. */
sr1_status sr1__sequence_begin(struct sr1__sequence *s, struct sr1__generation *g,
                               size_t query, int32_t sample, const int32_t *prompt,
                               size_t n);
/* Take one sampled token. */
sr1_status sr1__sequence_append(struct sr1__sequence *s, int32_t id, float log_prob,
                                enum sr1__sequence_need *need);
/* The tokens that follow are of weights of this version. */
sr1_status sr1__sequence_version(struct sr1__sequence *s, int64_t version);
/* The sequence's message was truncated from outside, and cannot be continued: what the
 * sequence needs then. */
void sr1__sequence_truncate(struct sr1__sequence *s, enum sr1__sequence_need *need);
/* Actions of its message, at least 1. */
int32_t sr1__sequence_actions(const struct sr1__sequence *s);
/* What the policy is told if action i may not be carried out; NULL: it may. Static. */
const char *sr1__sequence_refusal(const struct sr1__sequence *s, int32_t i);
/* Action i to carry out; text borrowed until the next call on the sequence. */
struct sr1__action sr1__sequence_action(const struct sr1__sequence *s, int32_t i);
/* Insert the answers o[sr1__sequence_actions] as one block and begin the next turn. What
 * of it does not fit is taken off it; of several o[0] becomes the whole block. */
sr1_status sr1__sequence_observe(struct sr1__sequence *s, struct sr1__observation *o,
                                 enum sr1__sequence_need *need);
/* Make the trajectory; the sequence is inactive after it, also on failure. */
sr1_status sr1__sequence_finish(struct sr1__sequence *s, sr1_trajectory **out);
/* Give up whatever was begun; one that is inactive, or zeroed, is fine. */
void sr1__sequence_abandon(struct sr1__sequence *s);
/* All its ids so far; borrowed until the next call on the sequence. */
const int32_t *sr1__sequence_ids(const struct sr1__sequence *s, size_t *n);
/* Tokens it may still take, at least 1: as decided after each of them. */
int64_t sr1__sequence_tokens_left(const struct sr1__sequence *s);

#endif
