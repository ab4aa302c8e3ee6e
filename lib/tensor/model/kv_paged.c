/* tensor/model/kv_paged.c - keys and values in pages of host memory
 * (kernels/attention.h).
 *
 * A page holds SR1__PAGE tokens of a row in all layers. Forked rows share pages; before a
 * row writes into a shared page it gets a copy. For one new token of a row the kernel
 * reads the pages directly; several new tokens go through libtorch over a gathered copy.
 */
#include "tensor/model/kv.h"

#include "base/mem.h"
#include "kernels/bf16.h"

#include <math.h>
#include <string.h>

#define PARALLEL_WORK                                                                    \
    400000 /* multiplications below which waking threads does not pay                    \
            */

#define SLAB_MOST ((size_t)64 << 20) /* bytes of pages that are allocated together */

struct page {
    struct page *next; /* in the free list */
    struct slab *slab; /* that it lies in */
    int64_t refs;
    unsigned char data[] __attribute__((aligned(64)));
};

/* Pages side by side, which lie in huge pages of the system where they are many. */
struct slab {
    struct slab *next;
    unsigned char *memory;
    size_t n;    /* pages that it has room for, */
    size_t made; /* the first so many of which have been handed out, */
    size_t used; /* and so many are some row's */
};

struct page_table {
    unsigned char **pages; /* their data */
    size_t n;
    size_t cap;
};

struct paged {
    struct sr1__kv base;
    struct sr1__pool *pool;              /* borrowed */
    const struct sr1__hf_config *config; /* borrowed */
    struct page_table *rows;
    int32_t n_rows;
    int64_t heads; /* of queries */
    int64_t kv_heads;
    int64_t layers;
    int32_t dim;
    int bf16;
    size_t keys_bytes;
    size_t values_bytes;
    size_t page_bytes;
    struct slab *slabs; /* the newest first; only that has room */
    struct page *free;
};

/* ---- pages ---- */

static struct page *get_cache_page(unsigned char *data)
{
    return (struct page *)(void *)(data - offsetof(struct page, data));
}

static size_t count_made_pages(const struct paged *c)
{
    size_t n = 0;

    for (const struct slab *s = c->slabs; s; s = s->next)
        n += s->made;
    return n;
}

/* As many pages as there are already, which are all in use: what is not handed out costs
 * addresses, no memory. */
static int add_slab(struct paged *c)
{
    size_t each = sizeof(struct page) + c->page_bytes;
    size_t most = SLAB_MOST > each ? SLAB_MOST / each : 1;
    size_t n = count_made_pages(c);
    struct slab *s = sr1__calloc(1, sizeof *s);

    if (!s)
        return 0;
    s->n = n < 1 ? 1 : n > most ? most : n;
    s->memory = sr1__malloc_aligned(s->n * each);
    if (!s->memory) {
        sr1__free(s);
        return 0;
    }
    s->next = c->slabs;
    c->slabs = s;
    return 1;
}

/* The next page of the newest slab; NULL without memory. */
static struct page *make_page(struct paged *c)
{
    struct page *p;
    struct slab *s;

    if ((!c->slabs || c->slabs->made == c->slabs->n) && !add_slab(c))
        return NULL;
    s = c->slabs;
    p = (struct page *)(void *)(s->memory +
                                s->made++ * (sizeof(struct page) + c->page_bytes));
    p->slab = s;
    return p;
}

static unsigned char *take_page(struct paged *c)
{
    struct page *p = c->free;

    if (p)
        c->free = p->next;
    else
        p = make_page(c);
    if (!p)
        return NULL;
    p->slab->used++;
    p->refs = 1;
    return p->data;
}

static void drop_page(struct paged *c, unsigned char *data)
{
    struct page *p = get_cache_page(data);

    if (--p->refs > 0)
        return;
    p->slab->used--;
    p->next = c->free;
    c->free = p;
}

/* Copy page i of the row if other rows share it, so that it can be written. */
static sr1_status own_page(struct paged *c, struct page_table *r, size_t i)
{
    unsigned char *copy;

    if (get_cache_page(r->pages[i])->refs == 1)
        return SR1_OK;
    copy = take_page(c);
    SR1__CHECK_ALLOC(copy, "key-value cache");
    memcpy(copy, r->pages[i], c->page_bytes);
    drop_page(c, r->pages[i]);
    r->pages[i] = copy;
    return SR1_OK;
}

static sr1_status reserve_row(struct paged *c, const struct sr1__kv_span *sp)
{
    struct page_table *r = &c->rows[sp->row];
    size_t used = (size_t)((sp->past + SR1__PAGE - 1) / SR1__PAGE);
    size_t want = (size_t)((sp->past + sp->n + SR1__PAGE - 1) / SR1__PAGE);

    SR1__RESERVE(r->pages, r->cap, want, "key-value cache");
    if (sp->past % SR1__PAGE != 0)
        SR1__TRY(own_page(c, r, used - 1));
    while (r->n < want) {
        r->pages[r->n] = take_page(c);
        SR1__CHECK_ALLOC(r->pages[r->n], "key-value cache");
        r->n++;
    }
    return SR1_OK;
}

static sr1_status paged_reserve(struct sr1__kv *kv, const struct sr1__kv_span *spans,
                                size_t n)
{
    for (size_t i = 0; i < n; i++)
        SR1__TRY(reserve_row((struct paged *)(void *)kv, &spans[i]));
    return SR1_OK;
}

/* End to end. */
static int64_t paged_layout(struct sr1__kv *kv, struct sr1__kv_span *spans, size_t n)
{
    int64_t at = 0;

    (void)kv;
    for (size_t i = 0; i < n; i++) {
        spans[i].first = at;
        at += spans[i].n;
    }
    return at;
}

static void paged_clear(struct sr1__kv *kv, int32_t row)
{
    struct paged *c = (struct paged *)(void *)kv;
    struct page_table *r = &c->rows[row];

    while (r->n > 0)
        drop_page(c, r->pages[--r->n]);
}

static sr1_status paged_fork(struct sr1__kv *kv, int32_t from, int32_t to,
                             int64_t n_tokens)
{
    struct paged *c = (struct paged *)(void *)kv;
    const struct page_table *a = &c->rows[from];
    struct page_table *b = &c->rows[to];
    size_t n = (size_t)((n_tokens + SR1__PAGE - 1) / SR1__PAGE);

    SR1__RESERVE(b->pages, b->cap, n, "key-value cache");
    for (; b->n < n; b->n++) {
        b->pages[b->n] = a->pages[b->n];
        get_cache_page(b->pages[b->n])->refs++;
    }
    return SR1_OK;
}

/* ---- attention ---- */

static struct sr1__page_head locate_page_head(const struct paged *c, int32_t layer,
                                              int32_t row, int64_t head, int64_t n)
{
    struct sr1__page_head h = {
        .pages = c->rows[row].pages, .n = n, .dim = c->dim, .bf16 = c->bf16};

    h.keys = (size_t)(layer * c->kv_heads + head) * (c->keys_bytes + c->values_bytes);
    h.values = h.keys + c->keys_bytes;
    return h;
}

/* One layer of one pass. */
struct paged_layer {
    const struct paged *c;
    int32_t layer;
    const struct sr1__kv_span *spans;
    const unsigned char *q; /* [N,H,D] */
    const unsigned char *k; /* [N,Hkv,D] */
    const unsigned char *v;
    unsigned char *out; /* [N,H*D] */
};

/* Store keys and values of span i / Hkv, head i % Hkv; if the span has one token, compute
 * its attention too. */
static sr1_status store_and_attend_head(void *arg, size_t i)
{
    const struct paged_layer *w = arg;
    const struct paged *c = w->c;
    const struct sr1__kv_span *sp = &w->spans[i / (size_t)c->kv_heads];
    int64_t head = (int64_t)(i % (size_t)c->kv_heads);
    struct sr1__page_head h =
        locate_page_head(c, w->layer, sp->row, head, sp->past + sp->n);
    size_t size = (size_t)c->dim * (c->bf16 ? sizeof(uint16_t) : sizeof(float));
    size_t group = (size_t)(c->heads / c->kv_heads);
    size_t d = (size_t)c->dim;
    size_t at = ((size_t)sp->first * (size_t)c->heads + (size_t)head * group) * size;
    int64_t window = sr1__hf_config_window(c->config, w->layer);
    float scale = 1.0F / sqrtf((float)c->dim);

    for (int64_t t = 0; t < sp->n; t++) {
        size_t from =
            ((size_t)(sp->first + t) * (size_t)c->kv_heads + (size_t)head) * size;

        sr1__page_put(&h, sp->past + t, w->k + from, w->v + from);
    }
    if (sp->n > 1)
        return SR1_OK;
    for (size_t g = 0; g < group; g++) { /* a head at a time: room on the stack */
        float q[SR1__HEAD_DIM_MAX];
        float out[SR1__HEAD_DIM_MAX];

        if (c->bf16)
            sr1__bf16_to_f32((const uint16_t *)(const void *)(w->q + at + g * size), q,
                             d);
        else
            memcpy(q, w->q + at + g * size, size);
        for (size_t j = 0; j < d; j++)
            q[j] *= scale;
        sr1__page_attend(
            &h, &(struct sr1__page_query){q, out, h.n, sr1__window_start(h.n, window)},
            1);
        if (c->bf16)
            sr1__f32_to_bf16(out, (uint16_t *)(void *)(w->out + at + g * size), d);
        else
            memcpy(w->out + at + g * size, out, size);
    }
    return SR1_OK;
}

/* A span of several tokens that follow others, over a copy of the row's keys and values.
 */
static sr1_tensor *attend_gathered(sr1_scope *s, const struct paged_layer *w,
                                   const struct sr1__kv_span *sp, sr1_tensor *q)
{
    const struct paged *c = w->c;
    int64_t total = sp->past + sp->n;
    int32_t dtype = t_dtype(q);
    size_t head_bytes =
        (size_t)(total * c->dim) * (c->bf16 ? sizeof(uint16_t) : sizeof(float));
    sr1_tensor *k = t_empty(s, dtype, T_SHAPE(1, c->kv_heads, total, c->dim));
    sr1_tensor *v = t_empty(s, dtype, T_SHAPE(1, c->kv_heads, total, c->dim));
    unsigned char *keys = sr1__shim_data(k);
    unsigned char *values = sr1__shim_data(v);

    for (int64_t head = 0; keys && values && head < c->kv_heads; head++) {
        struct sr1__page_head h = locate_page_head(c, w->layer, sp->row, head, total);

        sr1__page_get(&h, keys + (size_t)head * head_bytes,
                      values + (size_t)head * head_bytes);
    }
    return sr1__kv_attend_span(s, q, k, v, sp->past,
                               sr1__hf_config_window(c->config, w->layer));
}

/* Attention of spans with several tokens. Adjacent spans that start a row (past 0), from
 * i on, are computed in one call; returns how many spans were done. */
static size_t attend_spans(sr1_scope *outer, const struct paged_layer *w, size_t i,
                           size_t n, sr1_tensor *q, sr1_tensor *k, sr1_tensor *v,
                           sr1_tensor *out)
{
    const struct sr1__kv_span *sp = &w->spans[i];
    sr1_scope *s = sr1__scope_nest(outer, "row %d", (int)sp->row);
    int64_t window = sr1__hf_config_window(w->c->config, w->layer);
    int64_t cu[65] = {0};
    size_t m = 0;
    sr1_tensor *y;

    while (m < 64 && i + m < n && sp[m].past == 0 && sp[m].n > 1 &&
           (window == 0 || sp[m].n <= window)) {
        cu[m + 1] = cu[m] + sp[m].n;
        m++;
    }
    if (m > 0)
        y = sr1__nn_attention(s, t_narrow(s, q, 0, sp->first, cu[m]),
                              t_narrow(s, k, 0, sp->first, cu[m]),
                              t_narrow(s, v, 0, sp->first, cu[m]), cu, m);
    else
        y = attend_gathered(s, w, sp, t_narrow(s, q, 0, sp->first, sp->n));
    t_copy_(s, t_narrow(s, out, 0, sp->first, m ? cu[m] : sp->n), y);
    (void)sr1__scope_close(s);
    return m ? m : 1;
}

static sr1_tensor *paged_attend(sr1_scope *s, struct sr1__kv *kv, int32_t layer,
                                const struct sr1__kv_span *spans, size_t n, sr1_tensor *q,
                                sr1_tensor *k, sr1_tensor *v)
{
    struct paged *c = (struct paged *)(void *)kv;
    struct paged_layer w = {.c = c, .layer = layer, .spans = spans};
    sr1_tensor *out = t_empty(s, t_dtype(q), T_SHAPE(t_size(q, 0), c->heads * c->dim));
    int64_t cost = 0;

    q = t_contiguous(s, q);
    k = t_contiguous(s, k);
    v = t_contiguous(s, v);
    w.q = sr1__shim_data(q);
    w.k = sr1__shim_data(k);
    w.v = sr1__shim_data(v);
    w.out = sr1__shim_data(out);
    if (!w.q || !w.k || !w.v || !w.out)
        return out;
    for (size_t i = 0; i < n; i++)
        cost += (spans[i].past + spans[i].n) * 2 * c->heads * c->dim;
    sr1__scope_check(s,
                     sr1__pool_run(cost > PARALLEL_WORK ? c->pool : NULL,
                                   n * (size_t)c->kv_heads, store_and_attend_head, &w));
    for (size_t i = 0; i < n;)
        i += spans[i].n > 1 ? attend_spans(s, &w, i, n, q, k, v, out) : 1;
    return out;
}

struct sr1__page_head sr1__kv_paged_head(const struct sr1__kv *kv, int32_t layer,
                                         int32_t row, int64_t head, int64_t n)
{
    return locate_page_head((const struct paged *)(const void *)kv, layer, row, head, n);
}

/* ---- the whole ---- */

static void paged_trim(struct sr1__kv *kv)
{
    struct paged *c = (struct paged *)(void *)kv;
    struct page **at = &c->free;

    while (*at)
        if ((*at)->slab->used > 0)
            at = &(*at)->next;
        else
            *at = (*at)->next;
    for (struct slab **s = &c->slabs; *s;) {
        struct slab *gone = *s;

        if (gone->used > 0) {
            s = &gone->next;
            continue;
        }
        *s = gone->next;
        sr1__free(gone->memory);
        sr1__free(gone);
    }
}

static int64_t paged_bytes(const struct sr1__kv *kv)
{
    const struct paged *c = (const struct paged *)(const void *)kv;

    return (int64_t)(count_made_pages(c) * (sizeof(struct page) + c->page_bytes));
}

static void paged_free(struct sr1__kv *kv)
{
    struct paged *c = (struct paged *)(void *)kv;

    paged_trim(kv);
    for (int32_t i = 0; i < c->n_rows; i++)
        sr1__free(c->rows[i].pages);
    sr1__free(c->rows);
    sr1__free(c);
}

static const struct sr1__kv_ops paged_ops = {
    .reserve = paged_reserve,
    .layout = paged_layout,
    .attend = paged_attend,
    .fork = paged_fork,
    .clear = paged_clear,
    .trim = paged_trim,
    .bytes = paged_bytes,
    .free = paged_free,
};

static void set_cache_type(struct paged *c, int bf16)
{
    c->bf16 = bf16;
    c->keys_bytes = sr1__page_keys_bytes(c->dim, bf16);
    c->values_bytes = sr1__page_values_bytes(c->dim, bf16);
    c->page_bytes = (size_t)(c->layers * c->kv_heads) * (c->keys_bytes + c->values_bytes);
}

void sr1__kv_paged_narrow(struct sr1__kv *kv)
{
    set_cache_type((struct paged *)(void *)kv, 1);
}

sr1_status sr1__kv_paged_new(struct sr1__kv **out, const sr1_model *m, int32_t max_rows,
                             struct sr1__pool *pool)
{
    const struct sr1__hf_config *config = &m->config;
    struct paged *c = sr1__calloc(1, sizeof *c);

    SR1__CHECK_ALLOC(c, "key-value cache");
    c->base.ops = &paged_ops;
    c->pool = pool;
    c->config = config;
    c->heads = config->n_heads;
    c->kv_heads = config->n_kv_heads;
    c->layers = config->n_layers;
    c->dim = (int32_t)config->head_dim;
    set_cache_type(c, m->dtype == SR1__BF16);
    c->n_rows = max_rows;
    c->rows = sr1__calloc((size_t)max_rows, sizeof *c->rows);
    if (!c->rows) {
        sr1__free(c);
        return sr1__fail_nomem("key-value cache");
    }
    *out = &c->base;
    return SR1_OK;
}
