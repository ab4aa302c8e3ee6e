/* tensor/model/kv_layout.h - how sequences lie in a cache of tensors (kv_slots.c).
 *
 * Places are cut into blocks of one size. A block begins with prefixes, what sequences
 * begin with, and goes on with a tail for each of its rows. One attention call lets all
 * rows of a block look at the whole block, behind a mask, so rows that begin alike (a
 * family: the samples of a prompt) have one prefix in it. */
#ifndef SR1__MODEL_KV_LAYOUT_H
#define SR1__MODEL_KV_LAYOUT_H

#include <stdint.h>

#define SR1__KV_STEP 64     /* sizes of prefixes and tails are multiples of it */
#define SR1__KV_MOST_ROWS 8 /* of a block */

struct sr1__kv_layout {
    int64_t n_blocks;
    int64_t rows;   /* of a block */
    int64_t prefix; /* places of all its prefixes */
    int64_t tail;   /* places of a row's tail */
};

/* Rows that begin with the same `prefix` tokens. */
struct sr1__kv_family {
    int64_t rows;
    int64_t prefix;
};

/* Families, a list and as many times the same again, in the order in which they fill
 * blocks. */
struct sr1__kv_need {
    const struct sr1__kv_family *families;
    int64_t n_families;
    int64_t times;
    int64_t tail;       /* tokens of the longest */
    int64_t max_rows;   /* that there ever will be, */
    int64_t max_tokens; /* of as many tokens each */
    int64_t queries;    /* heads that share a key-value head */
};

/* The one of fewest places. More rows in a block are more work for an attention call:
 * they have to save an eighth. Blocks double, lengths grow by quarters of a power of two.
 */
struct sr1__kv_layout sr1__kv_layout_choose(const struct sr1__kv_need *need);

int64_t sr1__kv_layout_block(const struct sr1__kv_layout *l); /* places of a block */
int64_t sr1__kv_layout_places(const struct sr1__kv_layout *l);
/* Twice from 1 on until it is n, at most `most`. */
int64_t sr1__kv_double(int64_t n, int64_t most);

#endif
