/* retrieval/search/dense_scan.c - see dense_scan.h.
 *
 * Threads take blocks of rows in rising order from a common counter. Each keeps the best
 * of what it saw for each query; at the end these lists are merged. Queries are taken in
 * groups, which bounds the memory: a group reads all rows once. */
#include "retrieval/search/dense_scan.h"

#include "base/mem.h"
#include "retrieval/search/top_k.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define GROUP 64                      /* queries that go through the rows together */
#define BLOCK ((size_t)256)           /* rows scored at once */
#define SHARE_BYTES ((size_t)1 << 18) /* of rows, before another share is taken */

struct vector_scan;

/* What one thread has. */
struct scan_worker {
    struct vector_scan *scan;
    struct sr1__top_k best[GROUP];
    float *scores; /* [GROUP, BLOCK] */
};

struct vector_scan {
    const struct sr1__dense_index *ix;
    struct sr1__dot dot; /* its queries: those of the group */
    void *queries;       /* [GROUP, stride] as the kernel takes them */
    float scales[GROUP];
    int32_t top_k;
    size_t share;       /* rows */
    atomic_ullong next; /* row that no thread has taken */
    struct scan_worker *workers;
    size_t n_workers;
    int32_t *at; /* [n_workers] next of their lists, when merging */
};

/* ---- order ---- */

/* Floats as whole numbers of the same order, at least 0, and back. */
static int64_t score_to_key(float score)
{
    uint32_t bits;

    score += 0.0F; /* no -0 */
    memcpy(&bits, &score, sizeof(bits));
    return bits >> 31 ? (int64_t)(~bits) : (int64_t)bits + 0x80000000;
}

static float key_to_score(int64_t key)
{
    uint32_t bits = key >= 0x80000000 ? (uint32_t)(key - 0x80000000) : ~(uint32_t)key;
    float score;

    memcpy(&score, &bits, sizeof(score));
    return score;
}

/* ---- a thread's part ---- */

/* The score a row must exceed. NAN while the list is not full: every comparison with
 * it is false, so every row is offered. */
static float least_of(const struct sr1__top_k *best)
{
    return best->threshold < 0 ? NAN : key_to_score(best->threshold);
}

/* Scores of rows [first, first + n) to the best of a query. */
static sr1_status offer_scores(struct sr1__top_k *best, const float *scores, size_t n,
                               uint64_t first)
{
    float least = least_of(best);

    for (size_t i = 0; i < n; i++) {
        if (scores[i] <= least && scores[i] >= -FLT_MAX)
            continue;
        if (!isfinite(scores[i]))
            return sr1__fail(SR1_E_CORRUPT,
                             "index is damaged: the score of document %llu is not finite",
                             (unsigned long long)(first + i));
        sr1__top_k_offer(best, (uint32_t)(first + i), score_to_key(scores[i]));
        least = least_of(best);
    }
    return SR1_OK;
}

static sr1_status score_rows(struct scan_worker *w, uint64_t from, uint64_t to)
{
    struct vector_scan *s = w->scan;

    for (uint64_t r = from; r < to; r += BLOCK) {
        uint64_t end = to - r < BLOCK ? to : r + BLOCK;

        sr1__dot(&s->dot, (size_t)r, (size_t)end, w->scores);
        for (size_t i = 0; i < s->dot.n; i++)
            SR1__TRY(offer_scores(&w->best[i], w->scores + i * (size_t)(end - r),
                                  (size_t)(end - r), r));
    }
    return SR1_OK;
}

/* sr1__pool_fn */
static sr1_status scan_shares(void *arg, size_t i)
{
    struct vector_scan *s = arg;
    uint64_t documents = sr1__dense_meta(s->ix)->documents;

    for (;;) {
        uint64_t from = atomic_fetch_add(&s->next, s->share);

        if (from >= documents)
            return SR1_OK;
        SR1__TRY(score_rows(&s->workers[i], from,
                            documents - from < s->share ? documents : from + s->share));
    }
}

/* ---- the whole ---- */

/* Lists of the workers, each best first, to one. */
static void merge_worker_hits(struct vector_scan *s, size_t query,
                              struct sr1__dense_hit *out, int32_t found)
{
    int32_t *at = s->at;

    for (size_t i = 0; i < s->n_workers; i++) {
        sr1__top_k_sort(&s->workers[i].best[query]);
        at[i] = 0;
    }
    for (int32_t k = 0; k < found; k++) {
        const struct sr1__bm25_doc *top = NULL;
        size_t from = 0;

        for (size_t i = 0; i < s->n_workers; i++) {
            const struct sr1__top_k *b = &s->workers[i].best[query];
            const struct sr1__bm25_doc *d = &b->docs[at[i]];

            if (at[i] < b->n && (top == NULL || d->score > top->score ||
                                 (d->score == top->score && d->doc < top->doc))) {
                top = d;
                from = i;
            }
        }
        out[k] = (struct sr1__dense_hit){key_to_score(top->score), top->doc};
        at[from]++;
    }
}

void sr1__dense_queries(const struct sr1__dense_meta *m, const float *queries, size_t n,
                        void *out, float *scales)
{
    for (size_t i = 0; i < n; i++) {
        const float *q = queries + i * m->dim;

        if (m->type->dot == SR1__DOT_INT8) {
            scales[i] = sr1__to_int16(q, (int16_t *)out + i * m->stride, m->dim);
        } else {
            scales[i] = 1.0F;
            memcpy((float *)out + i * m->stride, q, m->dim * sizeof(*q));
        }
    }
}

static sr1_status scan_query_group(struct vector_scan *s, struct sr1__pool *pool,
                                   const float *queries, size_t n,
                                   struct sr1__dense_hit *out, int32_t found)
{
    s->dot.n = n;
    sr1__dense_queries(sr1__dense_meta(s->ix), queries, n, s->queries, s->scales);
    for (size_t i = 0; i < s->n_workers; i++)
        for (size_t q = 0; q < n; q++)
            SR1__TRY(sr1__top_k_begin(&s->workers[i].best[q], s->top_k));
    atomic_store(&s->next, 0);
    SR1__TRY(sr1__pool_run(pool, s->n_workers, scan_shares, s));
    for (size_t q = 0; q < n; q++)
        merge_worker_hits(s, q, out + q * (size_t)s->top_k, found);
    return SR1_OK;
}

static sr1_status make_workers(struct vector_scan *s, size_t group)
{
    s->workers = sr1__calloc(s->n_workers, sizeof(*s->workers));
    s->at = sr1__calloc(s->n_workers, sizeof(*s->at));
    s->queries = sr1__calloc(group, s->dot.dim * sizeof(float));
    if (s->workers == NULL || s->at == NULL || s->queries == NULL)
        return sr1__fail_nomem("search");
    for (size_t i = 0; i < s->n_workers; i++) {
        s->workers[i].scan = s;
        s->workers[i].scores = sr1__calloc(group * BLOCK, sizeof(float));
        if (s->workers[i].scores == NULL)
            return sr1__fail_nomem("search");
    }
    s->dot.queries = s->queries;
    s->dot.query_scales = s->scales;
    return SR1_OK;
}

static void scan_free(struct vector_scan *s)
{
    for (size_t i = 0; s->workers != NULL && i < s->n_workers; i++) {
        for (size_t q = 0; q < GROUP; q++)
            sr1__top_k_free(&s->workers[i].best[q]);
        sr1__free(s->workers[i].scores);
    }
    sr1__free(s->workers);
    sr1__free(s->at);
    sr1__free(s->queries);
}

sr1_status sr1__dense_scan(const struct sr1__dense_index *ix, struct sr1__pool *pool,
                           const float *queries, size_t n, int32_t top_k,
                           struct sr1__dense_hit *out, int32_t *found)
{
    const struct sr1__dense_meta *m = sr1__dense_meta(ix);
    struct vector_scan s = {.ix = ix, .top_k = top_k};
    sr1_status status;
    int32_t count = m->documents < (uint64_t)top_k ? (int32_t)m->documents : top_k;

    s.dot = (struct sr1__dot){.type = m->type->dot,
                              .dim = m->stride,
                              .rows = sr1__dense_vectors(ix),
                              .row_scales = sr1__dense_scales(ix)};
    s.share = SHARE_BYTES / (m->stride * m->type->size) + 1;
    s.n_workers = (size_t)sr1__pool_threads(pool);
    status = make_workers(&s, n < GROUP ? n : GROUP);
    for (size_t i = 0; status == SR1_OK && i < n; i += GROUP)
        status = scan_query_group(&s, pool, queries + i * m->dim,
                                  n - i < GROUP ? n - i : GROUP, out + i * (size_t)top_k,
                                  count);
    scan_free(&s);
    if (status == SR1_OK)
        *found = count;
    return status;
}
