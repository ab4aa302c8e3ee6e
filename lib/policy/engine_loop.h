/* policy/engine_loop.h - the one loop over a generation engine.
 *
 * A round: the client begins what it has room for, says what each slot is to read, sample
 * or score next, the engine steps, and the client takes the outputs. Clients:
 *
 *     multi_turn.c      trajectories in an environment
 *     level_branches.c  steps of trajectories at other thinking levels */
#ifndef SR1__POLICY_ENGINE_LOOP_H
#define SR1__POLICY_ENGINE_LOOP_H

#include "base/error.h"
#include "base/pool.h"
#include "policy/generation_engine.h"

#include <stdatomic.h>

/* Engines that work side by side on shares of one thing. */
struct sr1__engine_set {
    struct sr1__engine *engines; /* [n_engines] */
    int32_t n_engines;
    struct sr1__pool *pool; /* of as many threads; NULL for one engine */
    int32_t n_slots;        /* of each engine at once: */
    int32_t least_slots;    /* memory that runs out halves them, to no fewer than these */
    const char *name;       /* what is done, for that warning: "a rollout" */
    /* Do the share of an engine, by sr1__engine_loop_run. */
    sr1_status (*run)(void *arg, size_t engine);
    void (*forget)(void *arg); /* what a try has left that ran out of memory */
    void *arg;
    /* The first failure, after which the other engines end before their next round. */
    atomic_int stopped;
    struct sr1__error failure;
};

/* All shares to the end, again with fewer slots where memory ran out and the engines are
 * synchronous: how many sequences are continued side by side changes their log-probs by
 * rounding only. The first failure is that of all. */
sr1_status sr1__engine_set_run(struct sr1__engine_set *set);

/* What fills the slots of an engine. The loop calls the engine's begin, step and end, the
 * client the rest: open, accept, next_turn, close. A status other than SR1_OK ends the
 * loop. */
struct sr1__engine_client {
    /* Begin sequences in free slots, and take up what has come from elsewhere.
     * *over: nothing is under way, and nothing is left. */
    sr1_status (*begin_round)(void *self, int *over);
    /* 1 with the next input of a slot, whose `slot` is set; 0: it is free, or waits.
     * Asked once a round of each slot that owes no output. */
    int (*next_input)(void *self, struct sr1__engine_input *in);
    /* An output of an input of this round or an earlier one. */
    sr1_status (*take_output)(void *self, struct sr1__engine_output *o);
    /* All outputs of the round are taken. */
    sr1_status (*end_round)(void *self);
};

/* Rounds of an engine of the set until the client is over, on task->n_slots slots. */
sr1_status sr1__engine_loop_run(const struct sr1__engine_set *set, size_t engine,
                                const struct sr1__engine_task *task,
                                const struct sr1__engine_client *client, void *self);

#endif
