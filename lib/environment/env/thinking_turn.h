/* environment/env/thinking_turn.h - the steps of a trajectory in the protocol "rlvcr", as
 * tokens. */
#ifndef SR1__ENV_THINKING_TURN_H
#define SR1__ENV_THINKING_TURN_H

#include <searchr1/env.h>
#include <searchr1/trajectory.h>
#include <searchr1/ext/thinking.h>

/* A run of tokens: positions in the whole sequence. */
struct sr1__span_of_tokens {
    size_t begin, end;
};

struct sr1__thinking_turn {
    int32_t turn;
    const char *said; /* the message; borrowed from the trajectory */
    size_t said_len;
    sr1_thinking_step step; /* read in it */
    struct sr1__span_of_tokens message, thoughts;
    struct sr1__span_of_tokens level; /* its tag's; empty: it has none */
    /* The action's tokens: those whose text is of its content. Those of a level's tag are
     * never among them. Empty: there is no closed action, or none is its own. */
    struct sr1__span_of_tokens action;
    size_t behind;    /* the first token that begins behind the action's opening tag, */
    size_t behind_at; /* and where in the message its text begins */
    size_t next;      /* for sr1__thinking_turn_next: 0 at first */
};

/* Step to the next message of the policy; 0 when there is none, else 1. */
int sr1__thinking_turn_next(const sr1_trajectory *t, struct sr1__thinking_turn *turn);

/* Tokens of thought in all messages. */
int64_t sr1__thinking_tokens(const sr1_trajectory *t);

#endif
