/* text/tokenizer/bpe.c - merges the bytes, or the characters, of one piece into tokens.
 *
 * Among all neighbouring pairs that have a merge, the one of the lowest rank is merged,
 * the leftmost among equals, until none is left. Short pieces are scanned; long ones use
 * a queue over a linked list, n log n. */
#include "text/tokenizer/tokenizer_internal.h"

#include "base/mem.h"
#include "base/utf8.h"

#define SHORT_PIECE 32
#define NO_RANK UINT32_MAX

/* A token of a long piece and the merge with its right neighbour. */
struct sr1__merge_room {
    uint32_t id;
    uint32_t prev;
    uint32_t next; /* NO_RANK: the last */
    uint32_t rank; /* of merging with next; NO_RANK: does not merge */
    uint32_t made; /* id of that merge */
};

/* id [n] are the symbols, which are merged in place. */
static sr1_status merge_short(struct sr1__text_encoder *e, uint32_t *id, size_t n)
{
    const sr1_tokenizer *t = e->t;
    const struct sr1__merge *with_next[SHORT_PIECE];

    for (size_t i = 0; i + 1 < n; i++)
        with_next[i] = sr1__merges_find(&t->merges, id[i], id[i + 1]);
    while (n > 1) {
        size_t best = n;

        for (size_t i = 0; i + 1 < n; i++)
            if (with_next[i] && (best == n || with_next[i]->rank < with_next[best]->rank))
                best = i;
        if (best == n)
            break;
        id[best] = with_next[best]->id;
        n--;
        for (size_t i = best + 1; i < n; i++) {
            id[i] = id[i + 1];
            if (i + 1 < n)
                with_next[i] = with_next[i + 1];
        }
        if (best > 0)
            with_next[best - 1] = sr1__merges_find(&t->merges, id[best - 1], id[best]);
        if (best + 1 < n)
            with_next[best] = sr1__merges_find(&t->merges, id[best], id[best + 1]);
    }
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1__ids_add(e->out, (int32_t)id[i]));
    return SR1_OK;
}

/* The queue is a binary heap of rank << 32 | position. */
static void queue_push(uint64_t *q, size_t *n, uint64_t key)
{
    size_t i = (*n)++;

    for (; i && q[(i - 1) / 2] > key; i = (i - 1) / 2)
        q[i] = q[(i - 1) / 2];
    q[i] = key;
}

static uint64_t queue_pop(uint64_t *q, size_t *n)
{
    uint64_t top = q[0], last = q[--*n];
    size_t i = 0;

    for (size_t c = 1; c < *n; i = c, c = 2 * i + 1) {
        if (c + 1 < *n && q[c + 1] < q[c])
            c++;
        if (q[c] >= last)
            break;
        q[i] = q[c];
    }
    q[i] = last;
    return top;
}

/* Look up the merge of the token at `at` with the one behind it, and queue it. */
static void queue_merge(struct sr1__text_encoder *e, uint32_t at, size_t *n_queue)
{
    struct sr1__merge_room *r = e->room;
    const struct sr1__merge *m = NULL;

    if (r[at].next != NO_RANK)
        m = sr1__merges_find(&e->t->merges, r[at].id, r[r[at].next].id);
    r[at].rank = m ? m->rank : NO_RANK;
    r[at].made = m ? m->id : 0;
    if (m)
        queue_push(e->queue, n_queue, (uint64_t)m->rank << 32 | at);
}

/* Each merge queues two pairs at most and removes a token: 3 n keys are enough. */
static sr1_status reserve_merge_room(struct sr1__text_encoder *e, size_t n)
{
    struct sr1__merge_room *room;
    uint64_t *queue;

    if (n <= e->room_n)
        return SR1_OK;
    room = sr1__realloc(e->room, n, sizeof *room);
    e->room = room ? room : e->room;
    queue = room ? sr1__realloc(e->queue, n, 3 * sizeof *queue) : NULL;
    e->queue = queue ? queue : e->queue;
    SR1__CHECK_ALLOC(queue, "merging a long piece");
    e->room_n = n;
    return SR1_OK;
}

static sr1_status merge_long(struct sr1__text_encoder *e, const uint32_t *id, size_t n)
{
    struct sr1__merge_room *r;
    size_t n_queue = 0;

    SR1__TRY(reserve_merge_room(e, n));
    r = e->room;
    for (size_t i = 0; i < n; i++)
        r[i] = (struct sr1__merge_room){.id = id[i],
                                        .prev = (uint32_t)i - 1,
                                        .next = i + 1 < n ? (uint32_t)i + 1 : NO_RANK};
    for (size_t i = 0; i < n; i++)
        queue_merge(e, (uint32_t)i, &n_queue);
    while (n_queue) {
        uint64_t key = queue_pop(e->queue, &n_queue);
        uint32_t at = (uint32_t)key, gone;

        if (r[at].rank != (uint32_t)(key >> 32))
            continue; /* one of the two has changed since */
        gone = r[at].next;
        r[at].id = r[at].made;
        r[at].next = r[gone].next;
        r[gone].rank = NO_RANK;
        if (r[at].next != NO_RANK)
            r[r[at].next].prev = at;
        queue_merge(e, at, &n_queue);
        if (at)
            queue_merge(e, r[at].prev, &n_queue);
    }
    for (uint32_t i = 0; i != NO_RANK; i = r[i].next)
        SR1__TRY(sr1__ids_add(e->out, (int32_t)r[i].id));
    return SR1_OK;
}

static sr1_status merge_symbols(struct sr1__text_encoder *e, size_t n)
{
    return n <= SHORT_PIECE ? merge_short(e, e->symbols, n)
                            : merge_long(e, e->symbols, n);
}

/* The token that is the whole piece, where such ones go before merges. */
static uint32_t find_whole_piece(const struct sr1__text_encoder *e, const char *piece,
                                 size_t n)
{
    return e->t->ignore_merges ? sr1__vocab_find(&e->t->vocab, piece, n) : SR1__NO_TOKEN;
}

sr1_status sr1__merge_piece(struct sr1__text_encoder *e, const char *piece, size_t n)
{
    uint32_t whole = find_whole_piece(e, piece, n);

    if (whole != SR1__NO_TOKEN)
        return sr1__ids_add(e->out, (int32_t)whole);
    SR1__RESERVE(e->symbols, e->symbols_cap, n, "merging a piece");
    for (size_t i = 0; i < n; i++)
        e->symbols[i] = e->t->byte_id[(unsigned char)piece[i]];
    return merge_symbols(e, n);
}

/* ---- characters ---- */

/* The tokens of a character's bytes, if there is one of each. */
static int put_byte_symbols(const struct sr1__text_encoder *e, const char *c, size_t n,
                            uint32_t *to)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = e->t->byte_id[(unsigned char)c[i]];
        if (to[i] == SR1__NO_TOKEN)
            return 0;
    }
    return 1;
}

/* A character is its token, its bytes, or unknown; an unknown one waits for what follows,
 * as in the reference: bytes go before it. */
static size_t put_symbols(const struct sr1__text_encoder *e, const char *piece, size_t n,
                          uint32_t *to)
{
    const sr1_tokenizer *t = e->t;
    size_t at = 0;
    int waits = 0;

    for (size_t i = 0; i < n;) {
        uint32_t cp = (unsigned char)piece[i];
        size_t len = cp < 0x80 ? 1 : (size_t)sr1__utf8_next(piece + i, n - i, &cp);
        uint32_t id = sr1__vocab_find(&t->vocab, piece + i, len);

        if (id != SR1__NO_TOKEN) {
            if (waits)
                to[at++] = t->unknown;
            to[at++] = id;
            waits = 0;
        } else if (t->byte_fallback && put_byte_symbols(e, piece + i, len, to + at)) {
            at += len;
        } else if (t->unknown != SR1__NO_TOKEN) {
            if (waits && !t->fuse_unknown)
                to[at++] = t->unknown;
            waits = 1;
        }
        i += len;
    }
    if (waits)
        to[at++] = t->unknown;
    return at;
}

sr1_status sr1__merge_text_piece(struct sr1__text_encoder *e, const char *piece, size_t n)
{
    uint32_t whole = find_whole_piece(e, piece, n);

    if (whole != SR1__NO_TOKEN)
        return sr1__ids_add(e->out, (int32_t)whole);
    SR1__RESERVE(e->symbols, e->symbols_cap, n + 4, "merging a piece");
    n = put_symbols(e, piece, n, e->symbols);
    return n ? merge_symbols(e, n) : SR1_OK;
}
