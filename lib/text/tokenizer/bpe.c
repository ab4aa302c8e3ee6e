/* text/tokenizer/bpe.c - merges the bytes of one piece into tokens.
 *
 * Among all neighbouring pairs that have a merge, the one of the lowest rank is merged,
 * the leftmost among equals, until none is left. Short pieces are scanned; long ones use
 * a queue over a linked list, n log n. */
#include "text/tokenizer/tokenizer_internal.h"

#include "base/mem.h"

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

static sr1_status merge_short(struct sr1__text_encoder *e, const char *piece, size_t n)
{
    const sr1_tokenizer *t = e->t;
    uint32_t id[SHORT_PIECE];
    const struct sr1__merge *with_next[SHORT_PIECE];

    for (size_t i = 0; i < n; i++)
        id[i] = t->byte_id[(unsigned char)piece[i]];
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

static sr1_status merge_long(struct sr1__text_encoder *e, const char *piece, size_t n)
{
    struct sr1__merge_room *r;
    size_t n_queue = 0;

    SR1__TRY(reserve_merge_room(e, n));
    r = e->room;
    for (size_t i = 0; i < n; i++)
        r[i] = (struct sr1__merge_room){.id = e->t->byte_id[(unsigned char)piece[i]],
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

sr1_status sr1__merge_piece(struct sr1__text_encoder *e, const char *piece, size_t n)
{
    if (e->t->ignore_merges) {
        uint32_t whole = sr1__vocab_find(&e->t->vocab, piece, n);

        if (whole != SR1__NO_TOKEN)
            return sr1__ids_add(e->out, (int32_t)whole);
    }
    return n <= SHORT_PIECE ? merge_short(e, piece, n) : merge_long(e, piece, n);
}
