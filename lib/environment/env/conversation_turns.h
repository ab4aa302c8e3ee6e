/* environment/env/conversation_turns.h - the turns of a trajectory as a conversation: the
 * policy's message of each turn, and whether it got a result. */
#ifndef SR1__ENV_CONVERSATION_TURNS_H
#define SR1__ENV_CONVERSATION_TURNS_H

#include "base/str.h"
#include "environment/env/protocol.h"

#include <searchr1/ext/trajectory_details.h>

/* The policy's text of one turn, and the text inserted after it. */
struct sr1__turn {
    int32_t turn;
    const char *said; /* borrowed from the trajectory */
    size_t said_len;
    int answered;       /* a block follows */
    const char *result; /* its body, stripped; NULL: no block with result tags follows */
    size_t result_len;
    size_t next; /* for sr1__turn_next: 0 at first */
};

/* Find the policy's next segment from *next on and advance *next past it; 0: there is
 * none. */
int sr1__policy_segment_next(const sr1_trajectory *t, size_t *next, sr1_text_segment *s);

/* Actions of a turn that were answered. */
size_t sr1__turn_actions(const sr1_trajectory *t, int32_t turn);

/* Split a block of several results at the words that stand between two: the end of one,
 * the beginning of the next, and what separates them. *n is how many there are, and the
 * first of them, at most max, are in parts. What a result says may look like such words:
 * there may be more than were asked for. */
sr1_status sr1__protocol_split_results(const struct sr1__protocol *p,
                                       struct sr1__str block, struct sr1__str *parts,
                                       size_t max, size_t *n);

/* Step to the next message of the policy; 0 when there is none, else 1. */
int sr1__turn_next(const struct sr1__protocol *p, const sr1_trajectory *t,
                   struct sr1__turn *turn);

#endif
