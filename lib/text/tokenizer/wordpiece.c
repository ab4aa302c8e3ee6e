/* text/tokenizer/wordpiece.c - split a piece into tokens: at each position the longest
 * matching entry of the vocabulary is taken, with the continuing prefix unless it begins
 * the piece. A piece with a position where no entry matches, or with too many characters,
 * is the unknown token. */
#include "text/tokenizer/tokenizer_internal.h"

#include "base/utf8.h"

/* The longest token at text[0..n) below a root; its length, 0: none. */
static size_t find_longest_token(const struct sr1__trie *trie, uint32_t root,
                                 const char *text, size_t n, int32_t *id)
{
    uint32_t node = root;
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        node = sr1__trie_step(trie, node, (unsigned char)text[i]);
        if (!node)
            break;
        if (trie->ids[node] >= 0) {
            found = i + 1;
            *id = trie->ids[node];
        }
    }
    return found;
}

sr1_status sr1__wordpiece_piece(struct sr1__text_encoder *e, const char *piece, size_t n)
{
    const sr1_tokenizer *t = e->t;
    size_t before = e->out->n;
    uint32_t root = SR1__TRIE_ROOT;

    if (n > t->piece_max && sr1__utf8_count(piece, n) > t->piece_max)
        return sr1__ids_add(e->out, (int32_t)t->unknown);
    for (size_t i = 0; i < n;) {
        int32_t id = 0;
        size_t len = find_longest_token(&t->trie, root, piece + i, n - i, &id);

        if (len == 0) {
            e->out->n = before;
            return sr1__ids_add(e->out, (int32_t)t->unknown);
        }
        SR1__TRY(sr1__ids_add(e->out, id));
        root = SR1__TRIE_SECOND_ROOT;
        i += len;
    }
    return SR1_OK;
}
