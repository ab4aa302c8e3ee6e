/* text/tokenizer/tokenizer.h - functions for other modules, beyond
 * searchr1/ext/tokenizer.h. */
#ifndef SR1__TOKENIZER_TOKENIZER_H
#define SR1__TOKENIZER_TOKENIZER_H

#include "base/buf.h"
#include "base/messages.h"

#include <searchr1/ext/tokenizer.h>

/* A growable list of ids. */
struct sr1__ids {
    int32_t *v;
    size_t n;
    size_t cap;
};
void sr1__ids_free(struct sr1__ids *ids); /* leaves it empty, reusable */
sr1_status sr1__ids_add(struct sr1__ids *ids, int32_t id);
sr1_status sr1__ids_append(struct sr1__ids *ids, const int32_t *v, size_t n);

/* tokenizer.json from memory; name is what errors call it. */
sr1_status sr1__tokenizer_parse(sr1_tokenizer **out, const char *json, size_t n,
                                const char *name);

/* Another reference, given back with sr1_tokenizer_free. */
sr1_tokenizer *sr1__tokenizer_ref(sr1_tokenizer *t);

/* Another tokenizer that shares the parts of t and follows the chat rules of a family; t
 * stays as it is. SR1_E_NOT_FOUND lists the names. Free with sr1_tokenizer_free. */
sr1_status sr1__tokenizer_with_family(sr1_tokenizer **out, sr1_tokenizer *t,
                                      const char *name);
/* The same with one of the folder's chat templates. */
sr1_status sr1__tokenizer_with_template(sr1_tokenizer **out, sr1_tokenizer *t,
                                        const char *name);

/* The same where those of the texts [n] that are special tokens are text: who leaves
 * special tokens out keeps them. */
sr1_status sr1__tokenizer_with_text(sr1_tokenizer **out, sr1_tokenizer *t,
                                    const char *const *texts, size_t n);

/* SR1_E_UNSUPPORTED unless the tokenizer is BPE; `what` cannot do without. */
sr1_status sr1__needs_bpe(const sr1_tokenizer *t, const char *what);

/* SR1_E_UNSUPPORTED, with the remedy, when no rules of chat are known. */
sr1_status sr1__chat_check_family(const sr1_tokenizer *t);

/* The ids of a conversation, as sr1_tokenizer_chat; caller frees with sr1_free. */
sr1_status sr1__tokenizer_chat_ids(const sr1_tokenizer *t,
                                   const struct sr1__messages *messages,
                                   const sr1_chat_options *options, int32_t **ids,
                                   size_t *n_ids);

/* Do prompts end in the opening of a thought? no_thinking: as in sr1_chat_options. */
int sr1__chat_opens_thought(const sr1_tokenizer *t);
int sr1__chat_begins_in_thought(const sr1_tokenizer *t, int no_thinking);

/* The time (in seconds since 1970) that templates show as the present one: that at which
 * t was opened, until it is set, while no other thread uses t. 0 where no template is
 * run, also for NULL. */
int64_t sr1__chat_time(const sr1_tokenizer *t);
void sr1__chat_set_time(sr1_tokenizer *t, int64_t now);

/* The id that ends a message of the policy in the template; -1: none. */
int32_t sr1__chat_end_id(const sr1_tokenizer *t);

/* Append the ids of text; on failure ids is unchanged. */
sr1_status sr1__tokenizer_encode(const sr1_tokenizer *t, const char *text, size_t n,
                                 int32_t mode, struct sr1__ids *ids);

/* Appends the text of ids to out. */
sr1_status sr1__tokenizer_decode(const sr1_tokenizer *t, const int32_t *ids, size_t n,
                                 int skip_special, struct sr1__buf *out);

/* The same of ids that continue a text, as a token stream gives them: a mark of space
 * that stands in front is one. */
sr1_status sr1__tokenizer_spell(const sr1_tokenizer *t, const int32_t *ids, size_t n,
                                int skip_special, struct sr1__buf *out);

/* The bytes of one token (not always whole characters); NULL for an id without a token.
 * Borrowed until the tokenizer is freed. */
const char *sr1__tokenizer_token_bytes(const sr1_tokenizer *t, int32_t id, size_t *n);

/* sr1_tokenizer_open of a folder that may be an adapter's, whose base is `base` (NULL or
 * "": as config/model_folder.h finds it). */
sr1_status sr1__tokenizer_open_on(sr1_tokenizer **out, const char *path,
                                  const char *base);
/* Go on with *hash by the files that the tokenizer was read from, as they were then:
 * tokenizer.json, tokenizer_config.json and the chat template; with `more` the others
 * that decide prompts and their ends, generation_config.json and the named templates. Of
 * one that was opened from its file alone none is kept. */
void sr1__tokenizer_hash_files(const sr1_tokenizer *t, int more, uint64_t *hash);
/* SR1_E_STATE, as of sr1_tokenizer_save: it was opened from its file alone. */
sr1_status sr1__tokenizer_check_saved(const sr1_tokenizer *t);
/* 1 if this id ends a model's message (sr1_tokenizer_stop_ids). */
int sr1__tokenizer_stops(const sr1_tokenizer *t, int32_t id);

int sr1__tokenizer_is_special(const sr1_tokenizer *t, int32_t id);

/* Valid UTF-8 from any bytes: each maximal subpart that is not UTF-8 becomes U+FFFD. With
 * `more` set an incomplete character at the end is left; *used tells how far it came. */
void sr1__utf8_repair(const char *bytes, size_t n, int more, struct sr1__buf *out,
                      size_t *used);

#endif
