/* text/tokenizer/added.c - see added.h. Children of a node are a linked list: there are
 * few added tokens, and they are short. */
#include "text/tokenizer/added.h"

#include "base/mem.h"

#include <string.h>

void sr1__added_free(struct sr1__added *a)
{
    sr1__free(a->nodes);
    memset(a, 0, sizeof *a);
}

static sr1_status new_added_node(struct sr1__added *a, unsigned char byte)
{
    SR1__RESERVE(a->nodes, a->cap, a->n + 1, "added tokens");
    a->nodes[a->n++] = (struct sr1__added_node){.id = -1, .byte = byte};
    return SR1_OK;
}

static uint32_t child_of(const struct sr1__added *a, uint32_t node, unsigned char byte)
{
    uint32_t c = a->nodes[node].child;

    while (c && a->nodes[c].byte != byte)
        c = a->nodes[c].sibling;
    return c;
}

sr1_status sr1__added_insert(struct sr1__added *a, const char *text, size_t n, int32_t id,
                             int flags)
{
    uint32_t node = 0;

    if (n > SR1__ADDED_LEN_MAX)
        return sr1__fail(SR1_E_LIMIT, "an added token is longer than %d bytes",
                         SR1__ADDED_LEN_MAX);
    if (a->n == 0)
        SR1__TRY(new_added_node(a, 0));
    for (size_t i = 0; i < n; i++) {
        uint32_t next = child_of(a, node, (unsigned char)text[i]);

        if (!next) {
            SR1__TRY(new_added_node(a, (unsigned char)text[i]));
            next = a->n - 1;
            a->nodes[next].sibling = a->nodes[node].child;
            a->nodes[node].child = next;
        }
        node = next;
    }
    if (a->nodes[node].id >= 0)
        return sr1__fail(SR1_E_PARSE, "added token '%.*s' is given twice", (int)n, text);
    a->nodes[node].id = id;
    a->nodes[node].flags = (unsigned char)flags;
    a->first[(unsigned char)text[0]] = 1;
    a->longest = n > a->longest ? (uint32_t)n : a->longest;
    return SR1_OK;
}

int32_t sr1__added_exact(const struct sr1__added *a, const char *text, size_t n)
{
    uint32_t node = 0;

    if (a->n == 0 || n == 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        node = child_of(a, node, (unsigned char)text[i]);
        if (!node)
            return -1;
    }
    return a->nodes[node].id;
}

/* The longest token that begins at text[0]; its length, 0: none. */
static size_t longest_at(const struct sr1__added *a, const char *text, size_t n,
                         struct sr1__added_match *m)
{
    uint32_t node = 0;
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        node = child_of(a, node, (unsigned char)text[i]);
        if (!node)
            break;
        if (a->nodes[node].id >= 0) {
            found = i + 1;
            m->id = a->nodes[node].id;
            m->flags = a->nodes[node].flags;
        }
    }
    return found;
}

int sr1__added_find(const struct sr1__added *a, const char *text, size_t n, size_t from,
                    struct sr1__added_match *m)
{
    if (a->n == 0)
        return 0;
    for (size_t i = from; i < n; i++) {
        if (!a->first[(unsigned char)text[i]])
            continue;
        m->n = longest_at(a, text + i, n - i, m);
        if (m->n) {
            m->at = i;
            return 1;
        }
    }
    return 0;
}
