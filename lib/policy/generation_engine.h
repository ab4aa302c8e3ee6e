/* policy/generation_engine.h - what continues sequences: a decoder of this process, a
 * server, or what a test makes up.
 *
 * An engine has slots [0, n_slots). A slot holds the tokens of one sequence. Token ids go
 * in; ids, log-probs and entropies of what was sampled or scored come out; where the
 * logits lie is the engine's own business. What ends a turn is decided by the caller,
 * token by token: what an engine samples behind that is dropped, never part of a
 * trajectory. One loop calls an engine (engine_loop.h).
 *
 *     begin  ( open  ( step  [accept]  [next_turn] )*  close )*  end
 *
 * Many engines work side by side on sequences of their own, each called by one thread at
 * a time; wake alone may be called from any thread. */
#ifndef SR1__POLICY_GENERATION_ENGINE_H
#define SR1__POLICY_GENERATION_ENGINE_H

#include "environment/env/env.h"
#include "tensor/weights/sampling.h"

#include <searchr1/rollout.h>

#include <pthread.h>

struct sr1__error;
struct sr1__rollout_stats;

/* The longest that a step without outputs takes, in seconds: after it the caller of the
 * rollout is asked whether to go on. */
#define SR1__ENGINE_PATIENCE 0.2

/* What the loop works on from begin to end; borrowed. */
struct sr1__engine_task {
    const struct sr1__sampling *sampling;
    double score_temperature; /* at which ids are scored */
    const sr1_env *env;       /* its protocol has the tags that end a turn */
    int32_t n_slots;
    struct sr1__rollout_stats *stats; /* what the engine counts is added here, */
    pthread_mutex_t *lock;            /* under this lock */
};

/* What is wanted next for a slot: its sequence as a whole, of which the first n_held ids
 * need not be read, then tokens or scores.
 *
 * They need not be read because slot held_by begins with them: the slot itself, whose
 * tokens behind them are dropped (for that a decoder has a row more than n_slots), or,
 * where the engine copies, another one, once its own input of this step was read. */
struct sr1__engine_input {
    int32_t slot;
    int32_t held_by;
    const int32_t *ids; /* [n_ids] borrowed for the call */
    size_t n_ids;
    size_t n_held;
    int64_t max_tokens;   /* that may be sampled: at least one is; 0: none */
    struct sr1__rng *rng; /* to sample with; borrowed for the call */
    /* Without max_tokens: the last ids that are scored, fewer than are read; 0: none, and
     * the input has no output. Only engines of this process score. */
    size_t n_scored;
};

/* What follows the tokens of an output while they leave the turn open. */
enum sr1__engine_finish {
    SR1__ENGINE_GOES_ON,   /* the slot can be continued */
    SR1__ENGINE_ENDED,     /* the message is over */
    SR1__ENGINE_TRUNCATED, /* a limit has ended the message; nothing can follow it */
    SR1__ENGINE_FAILED     /* no tokens; the trajectory is dropped */
};

/* Sampled tokens, borrowed until the slot's next input or close; or the scores of the
 * input's last n ids, each conditioned on the ids before it, borrowed until the next
 * step. */
struct sr1__engine_output {
    int32_t slot;
    const int32_t *ids;     /* [n]; NULL: scores */
    const float *log_probs; /* [n] in nats; NULL: not known, recorded as 0 */
    const float *entropies; /* [n] in nats; NULL: -log_prob estimates them */
    size_t n;
    enum sr1__engine_finish finish;
    const struct sr1__error *error; /* why it FAILED */
    int32_t versioned; /* 1: version is that of the weights; 0: they are the task's */
    int64_t version;
};

/* Outputs are those of the step's own inputs, in their order; then results depend on the
 * inputs alone, and a generation that ran out of memory is repeated with fewer slots. */
#define SR1__ENGINE_SYNCHRONOUS 1
/* held_by may be another slot: the sequences of a group begin together, and their prompt
 * is read once. */
#define SR1__ENGINE_COPIES 2

/* A status other than SR1_OK ends the whole generation. Optional slots may be NULL. */
struct sr1__generation_ops {
    const char *name;
    int32_t flags;
    /* Take up work: memory and threads for task->n_slots. */
    sr1_status (*begin)(void *self, const struct sr1__engine_task *task);
    /* Optional: a sequence of this query begins in an empty slot. */
    sr1_status (*open)(void *self, int32_t slot, const sr1_query *query);
    /* Take inputs of different slots that are not under way, and give outputs (room for
     * all slots; *n_outputs is 0) of those or earlier ones. With anything under way, wait
     * until there is an output, wake was called, or SR1__ENGINE_PATIENCE is over. */
    sr1_status (*step)(void *self, const struct sr1__engine_input *inputs, size_t n,
                       struct sr1__engine_output *outputs, size_t *n_outputs);
    /* Optional: the sequence took the first n tokens of its output *o. With `open` it
     * took all, and its turn goes on: *o becomes what is to be taken behind them
     * (tokens that were sampled and not delivered), and what follows. */
    sr1_status (*accept)(void *self, size_t n, int open, struct sr1__engine_output *o);
    /* Optional: a turn is over, and this was inserted; its ids are in the next input. */
    sr1_status (*next_turn)(void *self, int32_t slot, const struct sr1__observation *o);
    /* The sequence has ended, or never will; the slot is empty. */
    void (*close)(void *self, int32_t slot);
    /* Optional: step, now or when it is called next, does not wait. */
    void (*wake)(void *self);
    /* Give up what is under way, free what begin took. Called once for each begin, also
     * for one that failed. */
    void (*end)(void *self);
    void (*destroy)(void *self);
};

/* Owned by whoever keeps it; ops NULL: none. */
struct sr1__engine {
    const struct sr1__generation_ops *ops;
    void *self;
    int32_t n_slots;   /* most sequences at once */
    const char *model; /* of a server, by the name that it has there; else NULL */
};

static inline int sr1__engine_is(const struct sr1__engine *e, int32_t flag)
{
    return (e->ops->flags & flag) != 0;
}

/* One that is not there is fine. */
static inline void sr1__engine_free(struct sr1__engine *e)
{
    if (e->ops)
        e->ops->destroy(e->self);
    e->ops = NULL;
}

#endif
