/* retrieval/search/run_merge.c - runs of segments merged by term: a heap of runs by the
 * term each is at. */
#include "retrieval/search/segment.h"

#include "base/mem.h"

#include <string.h>

#define BUFFER_LEAST ((size_t)1 << 12)
#define BUFFER_MOST ((size_t)1 << 20)

struct merge_run {
    const struct sr1__spool *spool;
    uint64_t offset; /* of what follows the buffer */
    uint64_t size;
    unsigned char *buffer; /* [at, end) is not read yet */
    size_t capacity;
    size_t at;
    size_t end;

    char text[SR1__TOKEN_MAX_BYTES]; /* the record under way */
    size_t n;
    uint32_t bytes; /* of its postings not read yet */
    int done;
};

struct run_heap {
    struct merge_run *runs; /* in document order */
    size_t *heap; /* of runs: the lowest term, and of equal ones the first, on top */
    size_t n;     /* in the heap */
    const struct sr1__term_sink *sink;
};

/* ---- one run ---- */

/* Have `need` bytes in the buffer, or all that are left. */
static sr1_status fill_run_buffer(struct merge_run *r, size_t need)
{
    size_t room;
    size_t n;

    if (r->end - r->at >= need || r->offset == r->size)
        return SR1_OK;
    memmove(r->buffer, r->buffer + r->at, r->end - r->at);
    r->end -= r->at;
    r->at = 0;
    room = r->capacity - r->end;
    n = r->size - r->offset < room ? (size_t)(r->size - r->offset) : room;
    SR1__TRY(sr1__spool_read(r->spool, r->offset, r->buffer + r->end, n));
    r->offset += n;
    r->end += n;
    return SR1_OK;
}

static uint32_t read_varint(struct merge_run *r)
{
    uint32_t v = 0;

    for (int shift = 0;; shift += 7) {
        unsigned char byte = r->buffer[r->at++];

        v |= (uint32_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return v;
    }
}

static sr1_status next_record(struct merge_run *r)
{
    SR1__TRY(fill_run_buffer(r, SR1__TOKEN_MAX_BYTES + 10));
    r->done = r->at == r->end;
    if (r->done)
        return SR1_OK;
    r->n = read_varint(r);
    memcpy(r->text, r->buffer + r->at, r->n);
    r->at += r->n;
    r->bytes = read_varint(r);
    return SR1_OK;
}

static sr1_status give_postings(struct merge_run *r, const struct sr1__term_sink *sink)
{
    uint32_t doc = 0;

    while (r->bytes > 0) {
        const unsigned char *from;
        const unsigned char *p;
        uint32_t gap;
        uint32_t tf;

        SR1__TRY(fill_run_buffer(r, SR1__POSTING_BYTES));
        from = r->buffer + r->at;
        p = sr1__posting_get(from, &gap, &tf);
        r->at += (size_t)(p - from);
        r->bytes -= (uint32_t)(p - from);
        doc += gap;
        SR1__TRY(sink->posting(sink->self, doc++, tf));
    }
    return SR1_OK;
}

static sr1_status run_open(struct merge_run *r, const struct sr1__spool *spool,
                           size_t buffer)
{
    r->spool = spool;
    r->size = sr1__spool_size(spool);
    r->capacity = buffer;
    r->buffer = sr1__malloc(buffer);
    return r->buffer != NULL ? next_record(r) : sr1__fail_nomem("merging postings");
}

/* ---- the heap ---- */

static int is_run_before(const struct run_heap *m, size_t a, size_t b)
{
    const struct merge_run *x = &m->runs[a];
    const struct merge_run *y = &m->runs[b];
    int c = memcmp(x->text, y->text, x->n < y->n ? x->n : y->n);

    return c != 0 ? c < 0 : x->n != y->n ? x->n < y->n : a < b;
}

static void sift_down_run(struct run_heap *m, size_t at)
{
    size_t moving = m->heap[at];

    for (size_t child = 2 * at + 1; child < m->n; child = 2 * at + 1) {
        if (child + 1 < m->n && is_run_before(m, m->heap[child + 1], m->heap[child]))
            child++;
        if (!is_run_before(m, m->heap[child], moving))
            break;
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = moving;
}

/* The run on top has ended its record. */
static sr1_status advance_top_run(struct run_heap *m)
{
    struct merge_run *r = &m->runs[m->heap[0]];

    SR1__TRY(next_record(r));
    if (r->done)
        m->heap[0] = m->heap[--m->n];
    if (m->n > 0)
        sift_down_run(m, 0);
    return SR1_OK;
}

static sr1_status merge_all_runs(struct run_heap *m)
{
    while (m->n > 0) {
        char text[SR1__TOKEN_MAX_BYTES];
        size_t n = m->runs[m->heap[0]].n;

        memcpy(text, m->runs[m->heap[0]].text, n);
        SR1__TRY(m->sink->term(m->sink->self, text, n));
        while (m->n > 0) {
            struct merge_run *r = &m->runs[m->heap[0]];

            if (r->n != n || memcmp(r->text, text, n) != 0)
                break;
            SR1__TRY(give_postings(r, m->sink));
            SR1__TRY(advance_top_run(m));
        }
    }
    return SR1_OK;
}

static sr1_status open_all_runs(struct run_heap *m, struct sr1__spool *const *runs,
                                size_t n, size_t memory)
{
    size_t buffer = memory / n;

    buffer = buffer < BUFFER_LEAST  ? BUFFER_LEAST
             : buffer > BUFFER_MOST ? BUFFER_MOST
                                    : buffer;
    for (size_t i = 0; i < n; i++) {
        SR1__TRY(run_open(&m->runs[i], runs[i], buffer));
        if (!m->runs[i].done)
            m->heap[m->n++] = i;
    }
    for (size_t i = m->n / 2; i-- > 0;)
        sift_down_run(m, i);
    return SR1_OK;
}

sr1_status sr1__runs_merge(struct sr1__spool *const *runs, size_t n, size_t memory,
                           const struct sr1__term_sink *sink)
{
    struct run_heap m = {.sink = sink};
    sr1_status status = SR1_OK;

    if (n == 0)
        return SR1_OK;
    m.runs = sr1__calloc(n, sizeof(*m.runs));
    m.heap = sr1__calloc(n, sizeof(*m.heap));
    if (m.runs == NULL || m.heap == NULL)
        status = sr1__fail_nomem("merging postings");
    if (status == SR1_OK)
        status = open_all_runs(&m, runs, n, memory);
    if (status == SR1_OK)
        status = merge_all_runs(&m);
    for (size_t i = 0; m.runs != NULL && i < n; i++)
        sr1__free(m.runs[i].buffer);
    sr1__free(m.runs);
    sr1__free(m.heap);
    return status;
}

/* ---- into one run ---- */

struct joiner {
    struct sr1__spool *out;
    struct sr1__buf head;
    struct sr1__buf postings; /* of the term in `text` */
    char text[SR1__TOKEN_MAX_BYTES];
    size_t n;
    uint32_t next_doc;
};

static void add_run_varint(struct sr1__buf *b, uint32_t v)
{
    for (; v >= 0x80; v >>= 7)
        sr1__buf_u8(b, (uint8_t)(v | 0x80));
    sr1__buf_u8(b, (uint8_t)v);
}

static sr1_status flush_term(struct joiner *j)
{
    if (j->n == 0)
        return SR1_OK;
    sr1__buf_clear(&j->head);
    add_run_varint(&j->head, (uint32_t)j->n);
    sr1__buf_add(&j->head, j->text, j->n);
    add_run_varint(&j->head, (uint32_t)j->postings.len);
    SR1__TRY(sr1__buf_status(&j->head, "postings"));
    SR1__TRY(sr1__buf_status(&j->postings, "postings"));
    SR1__TRY(sr1__spool_add(j->out, j->head.data, j->head.len));
    return sr1__spool_add(j->out, j->postings.data, j->postings.len);
}

static sr1_status join_term(void *self, const char *text, size_t n)
{
    struct joiner *j = self;

    SR1__TRY(flush_term(j));
    memcpy(j->text, text, n);
    j->n = n;
    j->next_doc = 0;
    sr1__buf_clear(&j->postings);
    return SR1_OK;
}

static sr1_status join_posting(void *self, uint32_t doc, uint32_t tf)
{
    struct joiner *j = self;
    unsigned char bytes[SR1__POSTING_BYTES];
    unsigned char *end = sr1__posting_put(bytes, doc - j->next_doc, tf);

    sr1__buf_add(&j->postings, bytes, (size_t)(end - bytes));
    j->next_doc = doc + 1;
    return SR1_OK;
}

sr1_status sr1__runs_join(struct sr1__spool *const *runs, size_t n, size_t memory,
                          struct sr1__spool *out)
{
    struct joiner j = {.out = out};
    const struct sr1__term_sink sink = {join_term, join_posting, &j};
    sr1_status status;

    sr1__buf_init(&j.head, 0);
    sr1__buf_init(&j.postings, (size_t)UINT32_MAX);
    status = sr1__runs_merge(runs, n, memory, &sink);
    if (status == SR1_OK)
        status = flush_term(&j);
    if (status == SR1_OK)
        status = sr1__spool_finish(out);
    sr1__buf_free(&j.head);
    sr1__buf_free(&j.postings);
    return status;
}
