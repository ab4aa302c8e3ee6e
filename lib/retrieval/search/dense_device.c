/* retrieval/search/dense_device.c - see dense_device.h: the device names candidates, the
 * CPU scores them again and sees whether they are enough. */
#include "retrieval/search/dense_device.h"

#include "base/mem.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define GROUP SR1__SCORER_QUERIES
#define MARGIN ((size_t)128)
#define BLOCK_FLOATS ((size_t)32 << 20) /* of a block's elements as fp32 */
#define BLOCK_ROWS ((size_t)1 << 18)
#define SCORES 4 /* of a block, at a time: as summed, scaled, and what choosing takes */
/* Lists of candidates, and what the device's libraries take for themselves. */
#define FIXED_BYTES ((uint64_t)128 << 20)
/* Memory of a device is given out in such steps (libtorch's allocator of CUDA's). */
#define LARGE_STEP ((uint64_t)2 << 20)
#define SMALL_STEP ((uint64_t)512)

#define SHARE_BYTES ((size_t)1 << 18) /* of rows that a thread measures at a time */
#define F16_MAX 65504.0F
#define RANGE 0x1p126 /* sums below it are far from the end of fp32 */

struct sr1__dense_device {
    const struct sr1__dense_index *ix;
    const struct sr1__scorer_ops *ops;
    void *scorer;
    pthread_mutex_t turn; /* around ops->best */
    size_t margin;
    double longest; /* length of the longest row */
    atomic_ullong queries;
    atomic_ullong rescans;
};

/* ---- how long the rows are ---- */

struct row_measure {
    const struct sr1__dense_index *ix;
    atomic_ullong next; /* row that no thread has taken */
    float *rows;        /* [threads, stride] */
    double *longest;    /* [threads] */
};

/* Not finite when a number of it is not. */
static double length_of(const struct sr1__dense_meta *m, const void *row, float scale,
                        float *v)
{
    float most = m->type->dot == SR1__DOT_FP16 ? F16_MAX : INFINITY;
    double sum = 0;

    sr1__dense_decode(m->type, row, 1.0F, m->stride, v);
    for (size_t k = 0; k < m->stride; k++) {
        if (fabsf(v[k]) > most)
            return INFINITY; /* how the decoder gives what is not finite in fp16 */
        sum += (double)v[k] * (double)v[k];
    }
    return fabs((double)scale) * sqrt(sum);
}

static sr1_status measure_rows(struct row_measure *w, size_t thread, uint64_t from,
                               uint64_t to)
{
    const struct sr1__dense_meta *m = sr1__dense_meta(w->ix);
    const float *scales = sr1__dense_scales(w->ix);
    size_t row_bytes = m->stride * m->type->size;

    for (uint64_t r = from; r < to; r++) {
        const char *row = (const char *)sr1__dense_vectors(w->ix) + r * row_bytes;
        double length = length_of(m, row, scales != NULL ? scales[r] : 1.0F,
                                  w->rows + thread * m->stride);

        if (!isfinite(length))
            return sr1__fail(SR1_E_CORRUPT,
                             "index is damaged: the vector of document %llu is not "
                             "finite",
                             (unsigned long long)r);
        if (length > w->longest[thread])
            w->longest[thread] = length;
    }
    return SR1_OK;
}

/* sr1__pool_fn */
static sr1_status measure_some(void *arg, size_t i)
{
    struct row_measure *w = arg;
    const struct sr1__dense_meta *m = sr1__dense_meta(w->ix);
    size_t share = SHARE_BYTES / (m->stride * m->type->size) + 1;

    for (;;) {
        uint64_t from = atomic_fetch_add(&w->next, share);

        if (from >= m->documents)
            return SR1_OK;
        SR1__TRY(measure_rows(w, i, from,
                              m->documents - from < share ? m->documents : from + share));
    }
}

static sr1_status measure_longest_row(struct sr1__dense_device *d, struct sr1__pool *pool)
{
    size_t threads = (size_t)sr1__pool_threads(pool);
    struct row_measure w = {.ix = d->ix};
    sr1_status status;

    w.rows = sr1__calloc(threads, sr1__dense_meta(d->ix)->stride * sizeof(*w.rows));
    w.longest = sr1__calloc(threads, sizeof(*w.longest));
    if (w.rows == NULL || w.longest == NULL)
        status = sr1__fail_nomem("dense search");
    else
        status = sr1__pool_run(pool, threads, measure_some, &w);
    for (size_t i = 0; status == SR1_OK && i < threads; i++)
        d->longest = fmax(d->longest, w.longest[i]);
    sr1__free(w.rows);
    sr1__free(w.longest);
    return status;
}

/* ---- open and close ---- */

static size_t block_of(const struct sr1__dense_meta *m, size_t asked)
{
    size_t block = asked > 0 ? asked : BLOCK_FLOATS / m->stride;

    block = block < BLOCK_ROWS ? block : BLOCK_ROWS;
    return block < m->documents ? block : (size_t)m->documents;
}

static uint64_t round_up_bytes(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

static uint64_t bytes_of(const struct sr1__dense_meta *m, size_t block)
{
    uint64_t blocks = (m->documents + block - 1) / block;
    uint64_t vectors = round_up_bytes(block * m->stride * m->type->size, LARGE_STEP);
    uint64_t scales =
        round_up_bytes(m->type->scaled ? block * sizeof(float) : 0, SMALL_STEP);
    uint64_t as_floats = m->type->dot == SR1__DOT_FP32 ? 0 : m->stride;

    return blocks * (vectors + scales) + FIXED_BYTES +
           block * sizeof(float) * (as_floats + (uint64_t)SCORES * GROUP);
}

uint64_t sr1__dense_device_bytes(const struct sr1__dense_meta *m)
{
    return bytes_of(m, block_of(m, 0));
}

static sr1_status open_scorer(struct sr1__dense_device *d, const char *device,
                              size_t block)
{
    const struct sr1__dense_meta *m = sr1__dense_meta(d->ix);
    const struct sr1__scorer_rows rows = {.type = m->type->dot,
                                          .n = (size_t)m->documents,
                                          .dim = m->stride,
                                          .rows = sr1__dense_vectors(d->ix),
                                          .scales = sr1__dense_scales(d->ix),
                                          .block = block,
                                          .bytes = bytes_of(m, block)};

    return d->ops->open(&d->scorer, device, &rows);
}

sr1_status sr1__dense_device_open(struct sr1__dense_device **out,
                                  const struct sr1__dense_index *ix,
                                  struct sr1__pool *pool,
                                  const struct sr1__scorer_ops *ops, const char *device,
                                  const struct sr1__dense_device_settings *settings)
{
    struct sr1__dense_device *d = sr1__calloc(1, sizeof(*d));
    struct sr1__dense_device_settings s = {0};
    sr1_status status;

    if (d == NULL)
        return sr1__fail_nomem("dense search");
    if (settings != NULL)
        s = *settings;
    d->ix = ix;
    d->ops = ops;
    d->margin = s.margin > 0 ? s.margin : MARGIN;
    pthread_mutex_init(&d->turn, NULL);
    status = open_scorer(d, device, block_of(sr1__dense_meta(ix), s.block));
    if (status == SR1_OK)
        status = measure_longest_row(d, pool);
    if (status != SR1_OK) {
        sr1__dense_device_close(d);
        return status;
    }
    *out = d;
    return SR1_OK;
}

void sr1__dense_device_close(struct sr1__dense_device *d)
{
    if (d == NULL)
        return;
    if (d->scorer != NULL)
        d->ops->close(d->scorer);
    pthread_mutex_destroy(&d->turn);
    sr1__free(d);
}

const char *sr1__dense_device_name(const struct sr1__dense_device *d)
{
    return d->ops->device(d->scorer);
}

void sr1__dense_device_counts(const struct sr1__dense_device *d, uint64_t *queries,
                              uint64_t *rescans)
{
    *queries = atomic_load(&d->queries);
    *rescans = atomic_load(&d->rescans);
}

/* ---- a search ---- */

/* One call. */
struct device_call {
    struct sr1__dense_device *d;
    const struct sr1__dense_meta *m;
    struct sr1__pool *pool;
    size_t top_k;
    size_t found;  /* of each query */
    size_t most;   /* candidates of each */
    void *queries; /* [GROUP, stride], as the kernel takes them */
    float scales[GROUP];
    float *floats;                /* [GROUP, stride], as the device takes them */
    float *scores;                /* [GROUP, most], of the device */
    int64_t *rows;                /* [GROUP, most] */
    struct sr1__dense_hit *named; /* [most], of one query */
    size_t again[GROUP];          /* queries that the CPU goes through all rows for */
    size_t n_again;
    float *again_queries;              /* [GROUP, dim] */
    struct sr1__dense_hit *again_hits; /* [GROUP, top_k] */
};

static sr1_status device_call_init(struct device_call *c, size_t group)
{
    size_t stride = c->m->stride;

    c->queries = sr1__calloc(group, stride * sizeof(float));
    c->floats = sr1__calloc(group, stride * sizeof(float));
    c->scores = sr1__calloc(group, c->most * sizeof(*c->scores));
    c->rows = sr1__calloc(group, c->most * sizeof(*c->rows));
    c->named = sr1__calloc(c->most, sizeof(*c->named));
    c->again_queries = sr1__calloc(group, c->m->dim * sizeof(float));
    c->again_hits = sr1__calloc(group, c->top_k * sizeof(*c->again_hits));
    if (c->queries == NULL || c->floats == NULL || c->scores == NULL || c->rows == NULL ||
        c->named == NULL || c->again_queries == NULL || c->again_hits == NULL)
        return sr1__fail_nomem("search");
    return SR1_OK;
}

static void device_call_free(struct device_call *c)
{
    sr1__free(c->queries);
    sr1__free(c->floats);
    sr1__free(c->scores);
    sr1__free(c->rows);
    sr1__free(c->named);
    sr1__free(c->again_queries);
    sr1__free(c->again_hits);
}

/* The kernel's queries as the device takes them: int16 become floats of the same value.
 */
static void convert_query_floats(struct device_call *c, size_t n)
{
    size_t count = n * c->m->stride;

    if (c->m->type->dot != SR1__DOT_INT8) {
        memcpy(c->floats, c->queries, count * sizeof(float));
        return;
    }
    for (size_t i = 0; i < count; i++)
        c->floats[i] = (float)((const int16_t *)c->queries)[i];
}

static sr1_status name_candidates(struct device_call *c, size_t n)
{
    struct sr1__dense_device *d = c->d;
    sr1_status status;

    pthread_mutex_lock(&d->turn);
    status = d->ops->best(d->scorer, c->floats, n, c->most, c->scores, c->rows);
    pthread_mutex_unlock(&d->turn);
    return status;
}

/* qsort: the order of hits */
static int compare_dense_hits(const void *a, const void *b)
{
    const struct sr1__dense_hit *x = a;
    const struct sr1__dense_hit *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->doc < y->doc ? -1 : x->doc > y->doc;
}

/* What scores of the CPU and of the device differ by at most for query q, as the CPU's;
 * infinite where that cannot be said. The formula is in dense_device.h; `tiny` is what
 * products and numbers below the normal ones may lose, all of dim of them, when they
 * become 0. */
static double slack_of(const struct device_call *c, size_t q)
{
    const float *v = c->floats + q * c->m->stride;
    double n = (double)c->m->stride + 4;
    double rounding = n * 0x1p-24 / (1 - n * 0x1p-24);
    double scale = (double)c->scales[q];
    double length = 0;
    double reach;
    double tiny;

    for (size_t k = 0; k < c->m->stride; k++)
        length += (double)v[k] * (double)v[k];
    length = sqrt(length);
    reach = c->d->longest * length;
    if (!(reach < RANGE && scale * reach < RANGE))
        return INFINITY;
    tiny = n * 0x1p-119 * (1 + c->d->longest) * (1 + length);
    return scale * (2 * rounding * reach + tiny) + tiny;
}

/* Scores of the CPU for what the device named for query q, in order. *good: they are
 * finite, and within the slack of the device's, or it is no device of the kind that the
 * slack is for. */
static sr1_status score_named(struct device_call *c, size_t q, double slack, int *good)
{
    const struct sr1__dense_meta *m = c->m;
    size_t size = m->type->dot == SR1__DOT_INT8 ? sizeof(int16_t) : sizeof(float);
    struct sr1__dot dot = {.type = m->type->dot,
                           .dim = m->stride,
                           .rows = sr1__dense_vectors(c->d->ix),
                           .row_scales = sr1__dense_scales(c->d->ix),
                           .queries = (char *)c->queries + q * m->stride * size,
                           .query_scales = &c->scales[q],
                           .n = 1};

    *good = 1;
    for (size_t i = 0; i < c->most; i++) {
        int64_t row = c->rows[q * c->most + i];
        double there = (double)c->scales[q] * (double)c->scores[q * c->most + i];
        float score;

        if (row < 0 || (uint64_t)row >= m->documents)
            return sr1__fail(SR1_E_INTERNAL, "the device named row %lld of %llu",
                             (long long)row, (unsigned long long)m->documents);
        sr1__dot(&dot, (size_t)row, (size_t)row + 1, &score);
        c->named[i] = (struct sr1__dense_hit){score + 0.0F /* no -0 */, (uint32_t)row};
        *good = *good && isfinite(score) && fabs((double)score - there) <= slack;
    }
    if (*good)
        qsort(c->named, c->most, sizeof(*c->named), compare_dense_hits);
    return SR1_OK;
}

/* Write the hits of query q when the candidates are proven complete; else mark the
 * query for a scan on the CPU. */
static sr1_status settle_device_query(struct device_call *c, size_t q,
                                      struct sr1__dense_hit *out)
{
    double slack = slack_of(c, q);
    double last = (double)c->scales[q] * (double)c->scores[q * c->most + c->most - 1];
    int good;

    SR1__TRY(score_named(c, q, slack, &good));
    if (good && (c->most == c->m->documents ||
                 (double)c->named[c->found - 1].score > last + slack))
        memcpy(out, c->named, c->found * sizeof(*out));
    else
        c->again[c->n_again++] = q;
    return SR1_OK;
}

/* The queries that were noted, by going through all rows here. */
static sr1_status scan_again(struct device_call *c, const float *queries,
                             struct sr1__dense_hit *out)
{
    size_t dim = c->m->dim;
    int32_t found;

    if (c->n_again == 0)
        return SR1_OK;
    for (size_t i = 0; i < c->n_again; i++)
        memcpy(c->again_queries + i * dim, queries + c->again[i] * dim,
               dim * sizeof(float));
    SR1__TRY(sr1__dense_scan(c->d->ix, c->pool, c->again_queries, c->n_again,
                             (int32_t)c->top_k, c->again_hits, &found));
    for (size_t i = 0; i < c->n_again; i++)
        memcpy(out + c->again[i] * c->top_k, c->again_hits + i * c->top_k,
               (size_t)found * sizeof(*out));
    atomic_fetch_add(&c->d->rescans, c->n_again);
    return SR1_OK;
}

static sr1_status scan_device_group(struct device_call *c, const float *queries, size_t n,
                                    struct sr1__dense_hit *out)
{
    c->n_again = 0;
    sr1__dense_queries(c->m, queries, n, c->queries, c->scales);
    convert_query_floats(c, n);
    SR1__TRY(name_candidates(c, n));
    for (size_t q = 0; q < n; q++)
        SR1__TRY(settle_device_query(c, q, out + q * c->top_k));
    SR1__TRY(scan_again(c, queries, out));
    atomic_fetch_add(&c->d->queries, n);
    return SR1_OK;
}

sr1_status sr1__dense_device_scan(struct sr1__dense_device *d, struct sr1__pool *pool,
                                  const float *queries, size_t n, int32_t top_k,
                                  struct sr1__dense_hit *out, int32_t *found)
{
    const struct sr1__dense_meta *m = sr1__dense_meta(d->ix);
    struct device_call c = {.d = d, .m = m, .pool = pool, .top_k = (size_t)top_k};
    size_t rows = (size_t)m->documents;
    sr1_status status;

    c.found = rows < c.top_k ? rows : c.top_k;
    c.most = rows - c.found < d->margin ? rows : c.found + d->margin;
    status = device_call_init(&c, n < GROUP ? n : GROUP);
    for (size_t i = 0; status == SR1_OK && i < n; i += GROUP)
        status = scan_device_group(&c, queries + i * m->dim,
                                   n - i < GROUP ? n - i : GROUP, out + i * c.top_k);
    device_call_free(&c);
    if (status == SR1_OK)
        *found = (int32_t)c.found;
    return status;
}
