/* policy/engine_loop.h - the one loop over a generation engine.
 *
 * A round: the client begins what it has room for, says what each slot is to read, sample
 * or score next, the engine steps, and the client takes the outputs. Clients:
 *
 *     multi_turn.c      trajectories in an environment
 *     level_branches.c  steps of trajectories at other thinking levels */
#ifndef SR1__POLICY_ENGINE_LOOP_H
#define SR1__POLICY_ENGINE_LOOP_H

#include "policy/generation_engine.h"

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

/* Rounds until the client is over, on the task->n_slots slots of the engine. */
sr1_status sr1__engine_loop_run(struct sr1__engine *e,
                                const struct sr1__engine_task *task,
                                const struct sr1__engine_client *client, void *self);

#endif
