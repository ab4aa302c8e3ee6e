/* tokenizer/train_learn.c - learns merges: again and again the most frequent pair of
 * neighbours becomes a token.
 *
 * Counts of pairs are kept up to date merge by merge; a queue holds (count, pair), of
 * which those whose count has changed since are put back when they come up. Equal counts:
 * the pair with the smaller ids first. */
#include "tokenizer/train.h"

#include "base/mem.h"

#include <string.h>

/* A pair of neighbours: how often it occurs, and in which pieces it may (once did). */
struct pair {
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
    struct pair *pairs;
    uint32_t n_pairs;
    uint32_t cap_pairs;
    uint32_t *slots; /* 1 + index of a pair; 0: empty */
    uint32_t mask;
    uint32_t *touched; /* pairs whose count grew */
    uint32_t n_touched;
    struct queued *queue;
    size_t n_queue;
    size_t cap_queue;
};

static sr1_status no_memory(void)
{
    return sr1__fail_nomem("tokenizer training");
}

static uint32_t *pair_slot(const struct learner *l, uint32_t left, uint32_t right)
{
    uint32_t i = sr1__pair_hash(left, right) & l->mask;

    for (; l->slots[i]; i = (i + 1) & l->mask) {
        const struct pair *p = &l->pairs[l->slots[i] - 1];

        if (p->left == left && p->right == right)
            break;
    }
    return &l->slots[i];
}

static sr1_status grow_pairs(struct learner *l)
{
    uint32_t cap = l->cap_pairs ? 2 * l->cap_pairs : 4096;
    struct pair *pairs = sr1__realloc(l->pairs, cap, sizeof *pairs);
    uint32_t *touched = pairs ? sr1__realloc(l->touched, cap, sizeof *touched) : NULL;
    uint32_t *slots = touched ? sr1__calloc(2 * (size_t)cap, sizeof *slots) : NULL;

    l->pairs = pairs ? pairs : l->pairs;
    l->touched = touched ? touched : l->touched;
    if (!slots)
        return no_memory();
    sr1__free(l->slots);
    l->slots = slots;
    l->cap_pairs = cap;
    l->mask = 2 * cap - 1;
    for (uint32_t i = 0; i < l->n_pairs; i++)
        *pair_slot(l, pairs[i].left, pairs[i].right) = i + 1;
    return SR1_OK;
}

static sr1_status note_place(struct pair *p, uint32_t piece)
{
    if (p->n && p->where[p->n - 1] == piece)
        return SR1_OK;
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 4;
        uint32_t *where = sr1__realloc(p->where, cap, sizeof *where);

        if (!where)
            return no_memory();
        p->where = where;
        p->cap = cap;
    }
    p->where[p->n++] = piece;
    return SR1_OK;
}

/* The pair (left, right) occurs `by` times more (fewer when negative) in a piece. */
static sr1_status change(struct learner *l, uint32_t left, uint32_t right, int64_t by,
                         uint32_t piece)
{
    uint32_t *slot;
    struct pair *p;

    if (l->n_pairs == l->cap_pairs)
        SR1__TRY(grow_pairs(l));
    slot = pair_slot(l, left, right);
    if (!*slot) {
        l->pairs[l->n_pairs++] = (struct pair){.left = left, .right = right};
        *slot = l->n_pairs;
    }
    p = &l->pairs[*slot - 1];
    p->count += by;
    if (by < 0)
        return SR1_OK;
    if (!p->touched) {
        p->touched = 1;
        l->touched[l->n_touched++] = *slot - 1;
    }
    return note_place(p, piece);
}

/* Whether a comes out before b. */
static int before(const struct queued *a, const struct queued *b)
{
    if (a->count != b->count)
        return a->count > b->count;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static sr1_status push(struct learner *l, uint32_t pair)
{
    const struct pair *p = &l->pairs[pair];
    const struct queued q = {p->count, p->left, p->right, pair};
    size_t i = l->n_queue;

    if (l->n_queue == l->cap_queue) {
        size_t cap = l->cap_queue ? 2 * l->cap_queue : 4096;
        struct queued *queue = sr1__realloc(l->queue, cap, sizeof *queue);

        if (!queue)
            return no_memory();
        l->queue = queue;
        l->cap_queue = cap;
    }
    l->n_queue++;
    for (; i && before(&q, &l->queue[(i - 1) / 2]); i = (i - 1) / 2)
        l->queue[i] = l->queue[(i - 1) / 2];
    l->queue[i] = q;
    return SR1_OK;
}

static struct queued pop(struct learner *l)
{
    struct queued top = l->queue[0], last = l->queue[--l->n_queue];
    size_t i = 0;

    for (size_t c = 1; c < l->n_queue; i = c, c = 2 * i + 1) {
        if (c + 1 < l->n_queue && before(&l->queue[c + 1], &l->queue[c]))
            c++;
        if (!before(&l->queue[c], &last))
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
        SR1__TRY(push(l, l->touched[i]));
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
            SR1__TRY(change(l, s[to - 1], left, -count, piece));
            SR1__TRY(change(l, s[to - 1], made, count, piece));
        }
        if (i + 2 < n) {
            SR1__TRY(change(l, right, s[i + 2], -count, piece));
            SR1__TRY(change(l, made, s[i + 2], count, piece));
        }
        s[to] = made;
        i++;
    }
    l->length[piece] = to;
    return SR1_OK;
}

static sr1_status merge_everywhere(struct learner *l, uint32_t pair, uint32_t made)
{
    struct pair p = l->pairs[pair];
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

    if (!both)
        return no_memory();
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
    if ((out->n_merges & (out->n_merges - 1)) == 0) { /* full at powers of two */
        struct sr1__merge *m = sr1__realloc(
            out->merges, out->n_merges ? 2 * (size_t)out->n_merges : 1, sizeof *m);

        if (!m)
            return no_memory();
        out->merges = m;
    }
    out->merges[out->n_merges] = (struct sr1__merge){left, right, out->n_merges, made};
    out->n_merges++;
    return SR1_OK;
}

/* The 256 bytes in the order of the characters that stand for them. */
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

static sr1_status begin(struct learner *l, const struct sr1__vocab *v)
{
    const struct sr1__pieces *p = l->pieces;

    l->symbols = sr1__malloc(p->pool.len * sizeof *l->symbols);
    l->length = sr1__malloc(p->n * sizeof *l->length);
    if (!l->symbols || !l->length)
        return no_memory();
    for (size_t i = 0; i < p->pool.len; i++)
        l->symbols[i] = sr1__vocab_find(v, p->pool.data + i, 1);
    for (uint32_t i = 0; i < p->n; i++) {
        const uint32_t *s = l->symbols + p->v[i].at;

        l->length[i] = p->v[i].n;
        for (uint32_t k = 0; k + 1 < p->v[i].n; k++)
            SR1__TRY(change(l, s[k], s[k + 1], p->v[i].count, i));
    }
    return push_touched(l);
}

/* Hostile texts (one letter, a million times) would make tokens without bound. */
static int too_long(const struct sr1__vocab *v, const struct queued *q)
{
    return (uint32_t)v->tokens[q->left].len + v->tokens[q->right].len >
           SR1__TOKEN_LEN_MAX;
}

static sr1_status learn(struct learner *l, struct sr1__learnt *out, uint32_t max_tokens,
                        int64_t min_count)
{
    while (out->vocab.n < max_tokens && l->n_queue) {
        struct queued top = pop(l);
        int64_t now = l->pairs[top.pair].count;
        uint32_t made = 0;

        if (now < min_count || too_long(&out->vocab, &top))
            continue;
        if (now != top.count) {
            SR1__TRY(push(l, top.pair));
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
        status = begin(&l, &out->vocab);
    if (status == SR1_OK)
        status = learn(&l, out, max_tokens, min_count);
    for (uint32_t i = 0; i < l.n_pairs; i++)
        sr1__free(l.pairs[i].where);
    sr1__free(l.pairs);
    sr1__free(l.slots);
    sr1__free(l.touched);
    sr1__free(l.queue);
    sr1__free(l.symbols);
    sr1__free(l.length);
    return status;
}
