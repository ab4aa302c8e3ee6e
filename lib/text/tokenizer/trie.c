/* text/tokenizer/trie.c - see trie.h. All edges are in one hash table: a step is one
 * look-up. */
#include "text/tokenizer/trie.h"

#include "base/mem.h"

#include <string.h>

#define NODES_MAX (1u << 24)
#define TOKEN_MAX ((size_t)1024) /* bytes; what a place of a text may cost */

void sr1__trie_free(struct sr1__trie *t)
{
    sr1__free(t->edges);
    sr1__free(t->ids);
    memset(t, 0, sizeof *t);
}

static void place_trie_edge(struct sr1__trie *t, struct sr1__trie_edge edge)
{
    uint32_t mask = UINT32_MAX >> t->shift, i = sr1__trie_slot(edge.key, t->shift);

    while (t->edges[i].key)
        i = (i + 1) & mask;
    t->edges[i] = edge;
}

static sr1_status grow_edges(struct sr1__trie *t)
{
    struct sr1__trie_edge *old = t->edges;
    uint32_t old_n = old ? 1u << (32 - t->shift) : 0;
    uint32_t shift = old ? t->shift - 1 : 22;
    struct sr1__trie_edge *edges = sr1__calloc((size_t)1 << (32 - shift), sizeof *edges);

    SR1__CHECK_ALLOC(edges, "vocabulary");
    t->edges = edges;
    t->shift = shift;
    for (uint32_t i = 0; i < old_n; i++)
        if (old[i].key)
            place_trie_edge(t, old[i]);
    sr1__free(old);
    return SR1_OK;
}

static sr1_status new_trie_node(struct sr1__trie *t)
{
    SR1__RESERVE(t->ids, t->cap, t->n + 1, "vocabulary");
    if (t->n == NODES_MAX)
        return sr1__fail(SR1_E_LIMIT, "the vocabulary has more than %u prefixes",
                         NODES_MAX);
    t->ids[t->n++] = -1;
    return SR1_OK;
}

sr1_status sr1__trie_add(struct sr1__trie *t, uint32_t root, const char *bytes, size_t n,
                         int32_t id)
{
    uint32_t node = root;

    if (n > TOKEN_MAX)
        return sr1__fail(SR1_E_LIMIT,
                         "the vocabulary has a token of %zu bytes; at most %zu are read",
                         n, TOKEN_MAX);
    while (t->n <= SR1__TRIE_SECOND_ROOT)
        SR1__TRY(new_trie_node(t));
    for (size_t i = 0; i < n; i++) {
        uint32_t next;

        if (!t->edges || t->used >= 1u << (31 - t->shift))
            SR1__TRY(grow_edges(t));
        next = sr1__trie_step(t, node, (unsigned char)bytes[i]);
        if (!next) {
            SR1__TRY(new_trie_node(t));
            next = t->n - 1;
            place_trie_edge(
                t, (struct sr1__trie_edge){node << 8 | (unsigned char)bytes[i], next});
            t->used++;
        }
        node = next;
    }
    t->ids[node] = id;
    return SR1_OK;
}
