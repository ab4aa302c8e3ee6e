/* text/tokenizer/trie.h - a trie of tokens, followed one byte at a time. */
#ifndef SR1__TOKENIZER_TRIE_H
#define SR1__TOKENIZER_TRIE_H

#include "base/error.h"

/* Two tries share the tables: nodes 1 and 2 are their roots, 0 is no node. */
#define SR1__TRIE_ROOT 1u
#define SR1__TRIE_SECOND_ROOT 2u

struct sr1__trie_edge {
    uint32_t key; /* node * 256 + byte; 0: empty slot */
    uint32_t child;
};

struct sr1__trie {
    struct sr1__trie_edge *edges; /* open addressing, at most half full */
    uint32_t shift;               /* 32 - log2 of the slots */
    uint32_t used;
    int32_t *ids; /* [n] of the token that ends at a node; -1: none */
    uint32_t n;
    uint32_t cap;
};

void sr1__trie_free(struct sr1__trie *t);
/* A token of n > 0 bytes; a later one of the same bytes takes its place. SR1_E_LIMIT: it
 * is so long that texts full of it would take too long. */
sr1_status sr1__trie_add(struct sr1__trie *t, uint32_t root, const char *bytes, size_t n,
                         int32_t id);

static inline uint32_t sr1__trie_slot(uint32_t key, uint32_t shift)
{
    return (key * 0x9e3779b1u) >> shift;
}

/* The node below `node` by a byte; 0: none. The trie has a token. */
static inline uint32_t sr1__trie_step(const struct sr1__trie *t, uint32_t node,
                                      unsigned char byte)
{
    uint32_t key = node << 8 | byte, mask = UINT32_MAX >> t->shift;
    uint32_t i = sr1__trie_slot(key, t->shift);

    while (t->edges[i].key && t->edges[i].key != key)
        i = (i + 1) & mask;
    return t->edges[i].key ? t->edges[i].child : 0;
}

#endif
