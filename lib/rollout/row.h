/* rollout/row.h - one trajectory in the making: takes sampled tokens, tells what follows.
 */
#ifndef SR1__ROLLOUT_ROW_H
#define SR1__ROLLOUT_ROW_H

#include "rollout/internal.h"
#include "trajectory/builder.h"

/* What a row wants after a token. */
enum sr1__row_want {
    SR1__ROW_TOKEN,  /* the next token */
    SR1__ROW_ACTION, /* its action carried out: sr1__row_action, then sr1__row_observe */
    SR1__ROW_DONE    /* nothing: sr1__row_finish with row->stop */
};

struct sr1__row {
    struct sr1__generation *g;
    sr1_query query;
    size_t index;  /* of the trajectory in g->out */
    int32_t active;
    int32_t waiting; /* for the answer to its action; draws nothing meanwhile */
    int32_t cut;     /* its message was ended by a limit of tokens, ours or a server's */
    int32_t stop;  /* SR1_STOP_*, once done */
    int32_t turn;
    int32_t searches;    /* actions that were answered */
    int32_t executed;    /* of them carried out */
    int64_t tokens;      /* sampled */
    int64_t turn_tokens; /* sampled in this turn */
    int64_t episode;     /* the environment's state for it; 0: none */
    struct sr1__rng rng;
    struct sr1__scanner scanner;
    struct sr1__trajectory_builder *builder;
    sr1_token_stream *stream;
    int32_t *pending; /* ids the decoder has not seen yet */
    size_t n_pending;
    size_t cap_pending;
};

/* Begin trajectory `sample` of a query. prompt[n] is recorded, not queued. */
sr1_status sr1__row_begin(struct sr1__row *row, struct sr1__generation *g, size_t query,
                          int32_t sample, const int32_t *prompt, size_t n);
/* Take one sampled token. */
sr1_status sr1__row_take(struct sr1__row *row, int32_t id, float log_prob,
                         enum sr1__row_want *want);
/* The row's message has been cut short from outside, and cannot be gone on with: what the
 * row wants then. */
void sr1__row_cut(struct sr1__row *row, enum sr1__row_want *want);
/* The action to carry out; text borrowed until the next call on the row. */
struct sr1__action sr1__row_action(const struct sr1__row *row);
/* Insert the answer to the action: queued for the decoder, recorded, next turn. What of
 * it does not fit is taken off it. */
sr1_status sr1__row_observe(struct sr1__row *row, struct sr1__observation *o,
                            enum sr1__row_want *want);
/* Make the trajectory; the row is inactive after it, also on failure. */
sr1_status sr1__row_finish(struct sr1__row *row, sr1_trajectory **out);
/* Give up whatever was begun; an inactive row is fine. */
void sr1__row_abandon(struct sr1__row *row);
/* Queue ids for the decoder. */
sr1_status sr1__row_queue(struct sr1__row *row, const int32_t *ids, size_t n);
/* Free what rows keep between trajectories. */
void sr1__row_free(struct sr1__row *row);

#endif
