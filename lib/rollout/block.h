/* rollout/block.h - what an environment answered, as the tokens and the text that go into
 * a trajectory. */
#ifndef SR1__ROLLOUT_BLOCK_H
#define SR1__ROLLOUT_BLOCK_H

#include "env/env.h"
#include "tokenizer/chat_turn.h"

struct sr1__block {
    struct sr1__ids ids;
    struct sr1__buf text;
    size_t body_begin, body_len; /* within text: without its own tags */
};

/* Make the block of at most `room` tokens: the body is shortened to fit, ending on a
 * whole character. border NULL: it runs on in the text; else it is a message of the user,
 * and a new one of the policy begins. ended: the policy has ended its message itself.
 * *fits 0: there is no room for the tags; then, and on failure, the block is empty. */
sr1_status sr1__block_make(struct sr1__block *b, const sr1_tokenizer *t,
                           const struct sr1__chat_border *border,
                           const struct sr1__observation *o, int ended, int64_t room,
                           int *fits);
void sr1__block_free(struct sr1__block *b);

#endif
