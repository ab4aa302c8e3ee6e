/* text/tokenizer/chat_turn.h - text between turns: what the chat template writes after a
 * policy message and around the next user message. */
#ifndef SR1__TOKENIZER_CHAT_TURN_H
#define SR1__TOKENIZER_CHAT_TURN_H

#include "text/tokenizer/tokenizer.h"

/* The chat template's own words around a user's message in the middle, once for all. */
struct sr1__turn_delimiters {
    char *close; /* behind the policy's message: "<|im_end|>\n<|im_start|>user\n" */
    char *open;  /* behind the user's: "<|im_end|>\n<|im_start|>assistant\n" */
    struct sr1__ids close_ids, open_ids;
    size_t end_len; /* bytes of close, and */
    size_t n_end;   /* ids of close_ids, that end the policy's message: left out where it
                       has ended the message itself */
};

/* no_thinking: as in sr1_chat_options. Free with sr1__turn_delimiters_free, also a zeroed
 * one. SR1_E_UNSUPPORTED: the template writes messages in a way that cannot go on. */
sr1_status sr1__turn_delimiters_make(struct sr1__turn_delimiters *out,
                                     const sr1_tokenizer *t, int no_thinking);
void sr1__turn_delimiters_free(struct sr1__turn_delimiters *b);
/* The same around a tool's message, where the template writes it as the role ipython
 * (Llama 3.1 and later); else *out is zeroed. Content stands there as it is, as in Meta's
 * format: some templates quote a text as JSON. */
sr1_status sr1__ipython_delimiters_make(struct sr1__turn_delimiters *out,
                                        const sr1_tokenizer *t, int no_thinking);

/* Append the ids of text (valid UTF-8), in which added tokens are recognised only where
 * they begin and end within one of the stretches [own[2 k], own[2 k + 1]); the rest is
 * plain text. Text is cut into pieces across the stretches' bounds, as if it had none.
 * continued: it continues another (SR1_ENCODE_CONTINUED). */
sr1_status sr1__tokenizer_encode_own(const sr1_tokenizer *t, const char *text, size_t n,
                                     const size_t *own, size_t n_own, int continued,
                                     struct sr1__ids *ids);

#endif
