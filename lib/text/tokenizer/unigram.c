/* text/tokenizer/unigram.c - split a piece into the tokens with the largest sum of scores
 * (Viterbi). Among equal sums the one found first stays: from the left, shorter tokens
 * first, as the reference does. A character that is no token by itself counts as unknown,
 * at 10 less than the lowest score; neighbouring unknown characters become one token, or,
 * if the file asks for it, a token for each byte. */
#include "text/tokenizer/tokenizer_internal.h"

#include "base/mem.h"

/* The best path to a place in the piece. */
struct sr1__best_path {
    double score;
    uint32_t start; /* of its last token; NONE: not reached */
    int32_t id;
};

#define NONE UINT32_MAX

static size_t char_length(unsigned char c)
{
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static void offer_path(struct sr1__best_path *to, double score, size_t start, int32_t id)
{
    if (to->start != NONE && !(score > to->score))
        return;
    *to = (struct sr1__best_path){score, (uint32_t)start, id};
}

/* All tokens that begin at a place of the piece; whether one is just the character. */
static int offer_tokens(struct sr1__text_encoder *e, const char *piece, size_t n,
                        size_t at)
{
    const struct sr1__trie *trie = &e->t->trie;
    size_t one = at + char_length((unsigned char)piece[at]);
    double score = e->best[at].score;
    uint32_t node = SR1__TRIE_ROOT;
    int single = 0;

    for (size_t i = at; i < n; i++) {
        int32_t id;

        node = sr1__trie_step(trie, node, (unsigned char)piece[i]);
        if (!node)
            break;
        id = trie->ids[node];
        if (id < 0)
            continue;
        offer_path(&e->best[i + 1], score + e->t->scores[id], at, id);
        single |= i + 1 == one;
    }
    return single;
}

static sr1_status find_best(struct sr1__text_encoder *e, const char *piece, size_t n)
{
    const sr1_tokenizer *t = e->t;

    for (size_t i = 0; i <= n; i++)
        e->best[i] = (struct sr1__best_path){.start = NONE};
    for (size_t at = 0; at < n;) {
        size_t next = at + char_length((unsigned char)piece[at]);

        if (!offer_tokens(e, piece, n, at)) {
            if (t->unknown == SR1__NO_TOKEN)
                return sr1__fail(SR1_E_INVALID,
                                 "encode: '%.*s' is not in the vocabulary, and the file "
                                 "has no unk_id",
                                 (int)(next - at), piece + at);
            offer_path(&e->best[next], e->best[at].score + t->unknown_score, at,
                       (int32_t)t->unknown);
        }
        at = next;
    }
    return SR1_OK;
}

/* Unknown text: a token of its own after all, its bytes backwards, or unknown. */
static sr1_status add_unknown(struct sr1__text_encoder *e, const char *text, size_t n)
{
    const sr1_tokenizer *t = e->t;
    uint32_t whole = sr1__vocab_find(&t->vocab, text, n);
    int bytes = whole == SR1__NO_TOKEN && t->byte_fallback;

    for (size_t i = 0; bytes && i < n; i++)
        bytes = t->byte_id[(unsigned char)text[i]] != SR1__NO_TOKEN;
    if (!bytes)
        return sr1__ids_add(e->out,
                            (int32_t)(whole == SR1__NO_TOKEN ? t->unknown : whole));
    while (n-- > 0)
        SR1__TRY(sr1__ids_add(e->out, (int32_t)t->byte_id[(unsigned char)text[n]]));
    return SR1_OK;
}

/* The best path, from its end. */
static sr1_status add_backwards(struct sr1__text_encoder *e, const char *piece, size_t n)
{
    while (n > 0) {
        const struct sr1__best_path *b = &e->best[n];
        size_t start = b->start;

        if ((uint32_t)b->id != e->t->unknown) {
            SR1__TRY(sr1__ids_add(e->out, b->id));
        } else {
            while (start > 0 && (uint32_t)e->best[start].id == e->t->unknown)
                start = e->best[start].start;
            SR1__TRY(add_unknown(e, piece + start, n - start));
        }
        n = start;
    }
    return SR1_OK;
}

static void reverse_ids(int32_t *v, size_t n)
{
    for (size_t i = 0; i < n / 2; i++) {
        int32_t held = v[i];

        v[i] = v[n - 1 - i];
        v[n - 1 - i] = held;
    }
}

sr1_status sr1__unigram_piece(struct sr1__text_encoder *e, const char *piece, size_t n)
{
    size_t before = e->out->n;

    SR1__RESERVE(e->best, e->best_n, n + 1, "a long piece");
    SR1__TRY(find_best(e, piece, n));
    SR1__TRY(add_backwards(e, piece, n));
    reverse_ids(e->out->v + before, e->out->n - before);
    return SR1_OK;
}
