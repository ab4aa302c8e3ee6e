/* text/tokenizer/train_learn.c - learns merges: again and again the most frequent pair of
 * neighbours becomes a token.
 *
 * Counts of pairs are updated with every merge. A queue holds (count, pair); an entry
 * whose count has changed since is queued again when it is taken. Among equal counts the
 * pair with the smaller ids comes first. */
#include "text/tokenizer/train.h"

#include "base/mem.h"

#include <string.h>

#define WHAT "tokenizer training" /* there is no memory for */

/* A pair of neighbours: how often it occurs, and in which pieces it may (once did). */
struct symbol_pair {
    uint32_t left;
    uint32_t right;
    int64_t count;
    uint32_t *where;
    uint32_t n;
    uint32_t cap;
    int touched; /* count grew since the last merge */
};

struct queued {
    int64_t count;
    uint32_t left;
    uint32_t right;
    uint32_t pair;
};

struct learner {
    const struct sr1__pieces *pieces;
    uint32_t *symbols; /* all pieces' tokens; each piece at its place in the pool */
    uint32_t *length;  /* of each piece, in tokens */
    struct symbol_pair *pairs;
    uint32_t n_pairs;
    uint32_t cap_pairs;
    struct sr1__hash_index by_tokens;
    uint32_t *touched; /* pairs whose count grew */
    uint32_t n_touched;
    uint32_t cap_touched;
    struct queued *queue;
    size_t n_queue;
    size_t cap_queue;
};

static sr1_status note_place(struct symbol_pair *p, uint32_t piece)
{
    if (p->n && p->where[p->n - 1] == piece)
        return SR1_OK;
    SR1__RESERVE(p->where, p->cap, p->n + 1, WHAT);
    p->where[p->n++] = piece;
    return SR1_OK;
}

/* The number of the pair, added when it is new. */
static sr1_status get_pair(struct learner *l, uint32_t left, uint32_t right,
                           uint32_t *out)
{
    struct sr1__hash_probe at = {sr1__pair_hash(left, right)};

    while (sr1__hash_index_next(&l->by_tokens, &at)) {
        *out = (uint32_t)at.item;
        if (l->pairs[*out].left == left && l->pairs[*out].right == right)
            return SR1_OK;
    }
    SR1__RESERVE(l->pairs, l->cap_pairs, l->n_pairs + 1, WHAT);
    *out = l->n_pairs;
    l->pairs[l->n_pairs++] = (struct symbol_pair){.left = left, .right = right};
    return sr1__hash_index_add(&l->by_tokens, at.hash, *out);
}

/* The pair (left, right) occurs `by` times more (fewer when negative) in a piece. */
static sr1_status change_pair_count(struct learner *l, uint32_t left, uint32_t right,
                                    int64_t by, uint32_t piece)
{
    struct symbol_pair *p;
    uint32_t pair = 0;

    SR1__TRY(get_pair(l, left, right, &pair));
    p = &l->pairs[pair];
    p->count += by;
    if (by < 0)
        return SR1_OK;
    if (!p->touched) {
        SR1__RESERVE(l->touched, l->cap_touched, l->n_touched + 1, WHAT);
        p->touched = 1;
        l->touched[l->n_touched++] = pair;
    }
    return note_place(p, piece);
}

/* Whether a comes out before b. */
static int queued_before(const struct queued *a, const struct queued *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static sr1_status push_queued_pair(struct learner *l, uint32_t pair)
{
    const struct symbol_pair *p = &l->pairs[pair];
    const struct queued q = {p->count, p->left, p->right, pair};
    size_t i = l->n_queue;

    SR1__RESERVE(l->queue, l->cap_queue, l->n_queue + 1, WHAT);
    l->n_queue++;
    for (; i && queued_before(&q, &l->queue[(i - 1) / 2]); i = (i - 1) / 2)
        l->queue[i] = l->queue[(i - 1) / 2];
    l->queue[i] = q;
    return SR1_OK;
}

static struct queued pop_queued_pair(struct learner *l)
{
    struct queued top = l->queue[0], last = l->queue[--l->n_queue];
    size_t i = 0;

    for (size_t c = 1; c < l->n_queue; i = c, c = 2 * i + 1) {
        if (c + 1 < l->n_queue && queued_before(&l->queue[c + 1], &l->queue[c]))
            c++;
        if (!queued_before(&l->queue[c], &last))
            break;
        l->queue[i] = l->queue[c];
    }
    l->queue[i] = last;
    return top;
}

/* Queue the pairs whose counts grew. */
static sr1_status push_touched(struct learner *l)
{
    for (uint32_t i = 0; i < l->n_touched; i++) {
        l->pairs[l->touched[i]].touched = 0;
        SR1__TRY(push_queued_pair(l, l->touched[i]));
    }
    l->n_touched = 0;
    return SR1_OK;
}

/* Replace each (left, right) in one piece by `made`, counting what neighbours that
 * changes. The pair's own count is settled by the caller. */
static sr1_status merge_in_piece(struct learner *l, uint32_t piece, uint32_t left,
                                 uint32_t right, uint32_t made)
{
    uint32_t *s = l->symbols + l->pieces->v[piece].at, n = l->length[piece], to = 0;
    int64_t count = l->pieces->v[piece].count;

    for (uint32_t i = 0; i < n; i++, to++) {
        if (i + 1 == n || s[i] != left || s[i + 1] != right) {
            s[to] = s[i];
            continue;
        }
        if (to) {
            SR1__TRY(change_pair_count(l, s[to - 1], left, -count, piece));
            SR1__TRY(change_pair_count(l, s[to - 1], made, count, piece));
        }
        if (i + 2 < n) {
            SR1__TRY(change_pair_count(l, right, s[i + 2], -count, piece));
            SR1__TRY(change_pair_count(l, made, s[i + 2], count, piece));
        }
        s[to] = made;
        i++;
    }
    l->length[piece] = to;
    return SR1_OK;
}

static sr1_status merge_everywhere(struct learner *l, uint32_t pair, uint32_t made)
{
    struct symbol_pair p = l->pairs[pair];
    sr1_status status = SR1_OK;

    l->pairs[pair].where = NULL;
    l->pairs[pair].n = l->pairs[pair].cap = 0;
    for (uint32_t i = 0; i < p.n && status == SR1_OK; i++)
        status = merge_in_piece(l, p.where[i], p.left, p.right, made);
    l->pairs[pair].count = 0;
    sr1__free(p.where);
    return status == SR1_OK ? push_touched(l) : status;
}

/* The token that a merge makes: a new id, or that of the same bytes made another way. */
static sr1_status make_token(struct sr1__vocab *v, uint32_t left, uint32_t right,
                             uint32_t *id)
{
    size_t n_left = 0, n_right = 0;
    const char *a = sr1__vocab_bytes(v, left, &n_left);
    const char *b = sr1__vocab_bytes(v, right, &n_right);
    char *both = sr1__malloc(n_left + n_right);
    sr1_status status = SR1_OK;

    SR1__CHECK_ALLOC(both, WHAT);
    memcpy(both, a, n_left);
    memcpy(both + n_left, b, n_right);
    *id = sr1__vocab_find(v, both, n_left + n_right);
    if (*id == SR1__NO_TOKEN) {
        *id = v->n;
        status = sr1__vocab_add(v, *id, both, n_left + n_right, SR1__TOKEN_MODEL);
    }
    sr1__free(both);
    return status;
}

static sr1_status add_merge(struct sr1__learnt *out, uint32_t left, uint32_t right,
                            uint32_t made)
{
    SR1__RESERVE(out->merges, out->cap_merges, out->n_merges + 1, WHAT);
    out->merges[out->n_merges] = (struct sr1__merge){left, right, out->n_merges, made};
    out->n_merges++;
    return SR1_OK;
}

/* The 256 bytes in the order of their characters in the byte alphabet. */
static sr1_status add_bytes(struct sr1__vocab *v)
{
    for (uint32_t cp = 0, id = 0; id < 256; cp++) {
        int byte = sr1__char_byte(cp);
        char c = (char)byte;

        if (byte >= 0)
            SR1__TRY(sr1__vocab_add(v, id++, &c, 1, SR1__TOKEN_MODEL));
    }
    return SR1_OK;
}

static sr1_status count_initial_pairs(struct learner *l, const struct sr1__vocab *v)
{
    const struct sr1__pieces *p = l->pieces;

    l->symbols = sr1__malloc(p->pool.len * sizeof *l->symbols);
    l->length = sr1__malloc(p->n * sizeof *l->length);
    SR1__CHECK_ALLOC(l->symbols && l->length, WHAT);
    for (size_t i = 0; i < p->pool.len; i++)
        l->symbols[i] = sr1__vocab_find(v, p->pool.data + i, 1);
    for (uint32_t i = 0; i < p->n; i++) {
        const uint32_t *s = l->symbols + p->v[i].at;

        l->length[i] = p->v[i].n;
        for (uint32_t k = 0; k + 1 < p->v[i].n; k++)
            SR1__TRY(change_pair_count(l, s[k], s[k + 1], p->v[i].count, i));
    }
    return push_touched(l);
}

/* Hostile texts (one letter, a million times) would make tokens without bound. */
static int too_long(const struct sr1__vocab *v, const struct queued *q)
{
    return (uint32_t)v->tokens[q->left].len + v->tokens[q->right].len >
           SR1__TOKEN_LEN_MAX;
}

static sr1_status learn_merges(struct learner *l, struct sr1__learnt *out,
                               uint32_t max_tokens, int64_t min_count)
{
    while (out->vocab.n < max_tokens && l->n_queue) {
        struct queued top = pop_queued_pair(l);
        int64_t now = l->pairs[top.pair].count;
        uint32_t made = 0;

        if (now < min_count || too_long(&out->vocab, &top))
            continue;
        if (now != top.count) {
            SR1__TRY(push_queued_pair(l, top.pair));
            continue;
        }
        SR1__TRY(make_token(&out->vocab, top.left, top.right, &made));
        SR1__TRY(add_merge(out, top.left, top.right, made));
        SR1__TRY(merge_everywhere(l, top.pair, made));
    }
    return SR1_OK;
}

void sr1__learnt_init(struct sr1__learnt *l)
{
    memset(l, 0, sizeof *l);
    sr1__vocab_init(&l->vocab);
}

void sr1__learnt_free(struct sr1__learnt *l)
{
    sr1__vocab_free(&l->vocab);
    sr1__free(l->merges);
    sr1__learnt_init(l);
}

sr1_status sr1__learn(struct sr1__learnt *out, const struct sr1__pieces *pieces,
                      uint32_t max_tokens, int64_t min_count)
{
    struct learner l = {.pieces = pieces};
    sr1_status status = add_bytes(&out->vocab);

    if (status == SR1_OK)
        status = count_initial_pairs(&l, &out->vocab);
    if (status == SR1_OK)
        status = learn_merges(&l, out, max_tokens, min_count);
    for (uint32_t i = 0; i < l.n_pairs; i++)
        sr1__free(l.pairs[i].where);
    sr1__free(l.pairs);
    sr1__hash_index_free(&l.by_tokens);
    sr1__free(l.touched);
    sr1__free(l.queue);
    sr1__free(l.symbols);
    sr1__free(l.length);
    return status;
}
