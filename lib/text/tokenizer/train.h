/* text/tokenizer/train.h - the three steps of training: count pieces, learn merges,
 * write. */
#ifndef SR1__TOKENIZER_TRAIN_H
#define SR1__TOKENIZER_TRAIN_H

#include "text/tokenizer/tokenizer_internal.h"

#include "base/hash_index.h"

/* The distinct pieces of the texts, in the order they were met. */
struct sr1__piece {
    uint32_t at; /* in the pool */
    uint32_t n;
    int64_t count;
};

struct sr1__pieces {
    struct sr1__buf pool;
    struct sr1__piece *v;
    uint32_t n;
    uint32_t cap;
    struct sr1__hash_index by_bytes;
};

struct sr1__corpus {
    const char *const *texts;
    const size_t *sizes;    /* NULL: texts end at NUL */
    const int64_t *weights; /* NULL: 1 each */
    size_t n;
};

void sr1__pieces_init(struct sr1__pieces *p);
void sr1__pieces_free(struct sr1__pieces *p);
/* Count the pieces that encoding would merge: texts cut at the added tokens, in normal
 * form, split by Qwen's pattern. */
sr1_status sr1__pieces_count(struct sr1__pieces *p, const struct sr1__corpus *corpus,
                             const struct sr1__added *added);

/* The learned tokenizer: vocab holds the 256 bytes (ids in the order of the byte
 * alphabet) and the tokens made, merges[rank] the pairs. */
struct sr1__learnt {
    struct sr1__vocab vocab;
    struct sr1__merge *merges;
    uint32_t n_merges;
    uint32_t cap_merges;
};
void sr1__learnt_init(struct sr1__learnt *l);
void sr1__learnt_free(struct sr1__learnt *l);
sr1_status sr1__learn(struct sr1__learnt *l, const struct sr1__pieces *pieces,
                      uint32_t max_tokens, int64_t min_count);

/* tokenizer.json and tokenizer_config.json. */
struct sr1__added_names {
    const char *const *special;
    size_t n_special;
    const char *const *other;
    size_t n_other;
};
sr1_status sr1__learnt_write(const struct sr1__learnt *l,
                             const struct sr1__added_names *names, const char *dir);

#endif
