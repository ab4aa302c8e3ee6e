/* policy/observation_tokens.h - an observation as the tokens and the text that are
 * inserted into a trajectory. */
#ifndef SR1__POLICY_OBSERVATION_TOKENS_H
#define SR1__POLICY_OBSERVATION_TOKENS_H

#include "environment/env/env.h"
#include "text/tokenizer/chat_turn.h"

struct sr1__observation_tokens {
    struct sr1__ids ids;
    struct sr1__buf text;
    size_t body_begin, body_len; /* within text: without its own tags */
};

/* Make the block of at most `room` tokens: the body is shortened to fit, ending on a
 * whole character. n > 1, of a message only: o[n] one after the other, `between` between
 * two; the longest body is shortened first, and body_begin to body_len reaches from the
 * first to the last. border NULL: it runs on in the text; else it is a message of the
 * user, and a new one of the policy begins. ended: the policy has ended its message
 * itself. p says what stands between two, and whether it is encoded whole and loses its
 * end (search_r1_compat). *fits 0: there is no room for the tags (search_r1_compat: the
 * first of them); then, and on failure, the block is empty. */
sr1_status sr1__observation_tokens_make(struct sr1__observation_tokens *b,
                                        const sr1_tokenizer *t,
                                        const struct sr1__turn_delimiters *border,
                                        const struct sr1__protocol *p,
                                        const struct sr1__observation *o, size_t n,
                                        int ended, int64_t room, int *fits);
void sr1__observation_tokens_free(struct sr1__observation_tokens *b);

#endif
