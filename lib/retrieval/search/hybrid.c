/* retrieval/search/hybrid.c - several engines as one, by reciprocal-rank fusion (Cormack,
 * Clarke, Buettcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank
 * Learning Methods", SIGIR 2009):
 *
 *     score(d) = sum over the engines i that found d of  w_i / (k + rank_i(d))
 *
 * Ranks begin at 1. Documents are the same when their ids are; where one of two has no
 * id, when their contents are, but for white space and double quotes (servers differ in
 * how they put a title). */
#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

#include "base/executor.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/search_engine.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ENGINES 16
#define MOST_THREADS 1024 /* of engines that wait, in all searches at once */

struct hybrid {
    sr1_search *engines[MOST_ENGINES];
    double weights[MOST_ENGINES];
    size_t n;
    double rrf_k;
    int32_t depth;
    struct sr1__executor *executor; /* of engines that wait */
    atomic_llong fallbacks;
    atomic_int out[MOST_ENGINES]; /* its latest batch had failures: said once */
};

/* What one engine is asked, and what it answered. */
struct engine_query {
    sr1_search *engine;
    const char *const *queries;
    size_t n;
    int32_t top_k;
    sr1_search_results *found;
    struct sr1__error error;
    struct sr1__task task;
    int submitted;
};

/* A document that some engine found. */
struct fused {
    const char *id; /* NULL: none */
    const char *contents;
    size_t engine; /* the first that found it, or had its id, and its hit there */
    int32_t hit;
    size_t order; /* of being met */
    double score;
    double parts[MOST_ENGINES]; /* 0: not found by this one */
};

/* The documents of one query. */
struct fused_set {
    struct fused *docs;
    size_t n;
    size_t *by_id; /* [slots] 1 + index of a document; 0: free */
    size_t *by_contents;
    size_t slots;
};

/* A hit, as it is looked for. */
struct found_hit {
    const char *id; /* NULL: none */
    const char *contents;
    size_t engine;
    int32_t hit;
};

static void hybrid_destroy(void *self)
{
    struct hybrid *h = self;

    for (size_t i = 0; i < h->n; i++)
        sr1_search_free(h->engines[i]);
    sr1__executor_free(h->executor);
    sr1__free(h);
}

/* ---- asking ---- */

static void query_engine(void *arg)
{
    struct engine_query *a = arg;
    sr1_status status =
        sr1__search_run_each(a->engine, a->queries, a->n, a->top_k, &a->found);

    sr1__error_save(&a->error, status);
}

/* 0: it is asked by the calling thread. */
static int submit_query(struct hybrid *h, struct engine_query *a)
{
    a->task = (struct sr1__task){.run = query_engine, .arg = a};
    return (sr1__search_flags(a->engine) & SR1_SEARCH_WAITS) &&
           sr1__executor_submit(h->executor, &a->task) == SR1_OK;
}

/* Engines that wait do so side by side; those that work are asked here meanwhile, one
 * after another, for they would share the same processors. */
static sr1_status query_all_engines(struct hybrid *h, struct engine_query *asks)
{
    sr1_status status = SR1_OK;

    for (size_t i = 0; i < h->n; i++)
        asks[i].submitted = submit_query(h, &asks[i]);
    for (size_t i = 0; i < h->n; i++)
        if (!asks[i].submitted)
            query_engine(&asks[i]);
    for (size_t i = 0; i < h->n; i++)
        if (asks[i].submitted)
            (void)sr1__executor_wait(h->executor, &asks[i].task, INFINITY);
    for (size_t i = 0; i < h->n && status == SR1_OK; i++)
        status = sr1__error_raise(&asks[i].error);
    return status;
}

/* ---- fusion ---- */

static void pile_free(struct fused_set *p)
{
    sr1__free(p->docs);
    sr1__free(p->by_id);
    sr1__free(p->by_contents);
}

static sr1_status pile_new(struct fused_set *p, size_t most)
{
    p->slots = 2 * most + 1;
    p->docs = sr1__calloc(most, sizeof(*p->docs));
    p->by_id = sr1__calloc(p->slots, sizeof(*p->by_id));
    p->by_contents = sr1__calloc(p->slots, sizeof(*p->by_contents));
    return p->docs && p->by_id && p->by_contents ? SR1_OK
                                                 : sr1__fail_nomem("fusion of hits");
}

/* The next character that counts in comparing contents; '\0' at the end. */
static char next_counted(const char **p)
{
    while (**p != '\0' && strchr("\" \t\r\n", **p) != NULL)
        ++*p;
    return **p != '\0' ? *(*p)++ : '\0';
}

static uint64_t hash_contents(const char *contents)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

    for (char c = next_counted(&contents); c != '\0'; c = next_counted(&contents))
        h = (h ^ (unsigned char)c) * 0x100000001b3u;
    return h;
}

static int same_contents(const char *a, const char *b)
{
    char c;

    do {
        c = next_counted(&a);
        if (c != next_counted(&b))
            return 0;
    } while (c != '\0');
    return 1;
}

/* The place of the document with this id, or where it would be. */
static size_t *id_slot(struct fused_set *p, const char *id)
{
    size_t at = sr1__hash64(id, strlen(id), 0) % p->slots;

    while (p->by_id[at] != 0 && strcmp(p->docs[p->by_id[at] - 1].id, id) != 0)
        at = (at + 1) % p->slots;
    return &p->by_id[at];
}

/* Find a document with equal contents, among those where the document or the hit has
 * no id. */
static size_t *contents_slot(struct fused_set *p, const struct found_hit *f)
{
    size_t at = hash_contents(f->contents) % p->slots;

    for (; p->by_contents[at] != 0; at = (at + 1) % p->slots) {
        const struct fused *d = &p->docs[p->by_contents[at] - 1];

        if ((d->id == NULL || f->id == NULL) && same_contents(d->contents, f->contents))
            break;
    }
    return &p->by_contents[at];
}

/* The hit stands for the document from now on: it has the id that others lacked. */
static void set_hit(struct fused *d, const struct found_hit *f)
{
    d->id = f->id;
    d->contents = f->contents;
    d->engine = f->engine;
    d->hit = f->hit;
}

/* The document of this hit, made when it is new. */
static struct fused *find_document(struct fused_set *p, const struct found_hit *f)
{
    size_t *named = f->id != NULL ? id_slot(p, f->id) : NULL;
    size_t *alike;
    struct fused *d;

    if (named != NULL && *named != 0)
        return &p->docs[*named - 1];
    alike = contents_slot(p, f);
    if (*alike == 0) {
        d = &p->docs[p->n];
        set_hit(d, f);
        d->order = p->n++;
        *alike = p->n;
    }
    d = &p->docs[*alike - 1];
    if (named != NULL) {
        *named = *alike;
        set_hit(d, f);
    }
    return d;
}

static void get_engine_hit(const struct engine_query *a, size_t query, int32_t k,
                           sr1_search_hit *hit)
{
    hit->struct_size = sizeof(*hit);
    (void)sr1_search_results_hit(a->found, query, k, hit);
}

/* A document that one engine lists twice counts once, at its better rank. */
static void add_hits(struct fused_set *p, const struct hybrid *h,
                     const struct engine_query *asks, size_t e, size_t query)
{
    int32_t n = sr1_search_results_hit_count(asks[e].found, query);

    for (int32_t k = 0; k < n; k++) {
        int32_t unnamed = sr1__search_hit_unnamed(asks[e].found, query, k);
        struct found_hit f = {NULL, NULL, e, k};
        sr1_search_hit hit;
        struct fused *d;

        get_engine_hit(&asks[e], query, k, &hit);
        f.id = unnamed ? NULL : hit.id;
        f.contents = hit.contents;
        d = find_document(p, &f);
        if (d->parts[e] == 0.0)
            d->parts[e] = h->weights[e] / (h->rrf_k + k + 1);
    }
}

static int compare_values(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Added from the smallest on, so that rounding does not tell apart documents with the
 * same parts. */
static void sum_parts(struct fused *d, size_t n)
{
    qsort(d->parts, n, sizeof(d->parts[0]), compare_values);
    for (size_t i = 0; i < n; i++)
        d->score += d->parts[i];
}

static int compare_fused_scores(const void *a, const void *b)
{
    const struct fused *x = a;
    const struct fused *y = b;

    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->order < y->order ? -1 : 1;
}

static sr1_status emit_fused_hits(const struct fused_set *p,
                                  const struct engine_query *asks, size_t query,
                                  sr1_search_sink *sink)
{
    size_t n = p->n < (size_t)sink->top_k ? p->n : (size_t)sink->top_k;

    for (size_t i = 0; i < n; i++) {
        const struct fused *d = &p->docs[i];

        SR1__TRY(sr1__search_copy_hit(sink, query, asks[d->engine].found, query, d->hit,
                                      d->score));
    }
    return SR1_OK;
}

static sr1_status fuse_hits(const struct hybrid *h, const struct engine_query *asks,
                            size_t query, size_t most, sr1_search_sink *sink)
{
    struct fused_set p = {0};
    sr1_status status = pile_new(&p, most);

    for (size_t e = 0; status == SR1_OK && e < h->n; e++)
        add_hits(&p, h, asks, e, query);
    for (size_t i = 0; i < p.n; i++)
        sum_parts(&p.docs[i], h->n);
    if (p.n > 1)
        qsort(p.docs, p.n, sizeof(p.docs[0]), compare_fused_scores);
    if (status == SR1_OK)
        status = emit_fused_hits(&p, asks, query, sink);
    pile_free(&p);
    return status;
}

/* What was found is fused, whoever failed beside it. Where nothing was found and an
 * engine failed, the query fails as that engine did: nothing is known. */
static sr1_status answer_hybrid_query(struct hybrid *h, const struct engine_query *asks,
                                      size_t query, sr1_search_sink *sink)
{
    size_t failed = h->n;
    size_t hits = 0;

    for (size_t e = h->n; e-- > 0;) {
        if (sr1__search_failed(asks[e].found, query))
            failed = e;
        hits += (size_t)sr1_search_results_hit_count(asks[e].found, query);
    }
    if (hits == 0)
        return failed < h->n ? sr1__search_pass_on(sink, query, asks[failed].found, query)
                             : SR1_OK;
    if (failed < h->n)
        atomic_fetch_add(&h->fallbacks, 1);
    return fuse_hits(h, asks, query, hits, sink);
}

static sr1_status hybrid_search(void *self, const char *const *queries, size_t n,
                                int32_t top_k, sr1_search_sink *sink)
{
    struct hybrid *h = self;
    struct engine_query *asks = sr1__calloc(h->n, sizeof(*asks));
    sr1_status status;

    if (asks == NULL)
        return sr1__fail_nomem("hybrid search");
    for (size_t e = 0; e < h->n; e++) {
        asks[e].engine = h->engines[e];
        asks[e].queries = queries;
        asks[e].n = n;
        asks[e].top_k = top_k > h->depth ? top_k : h->depth;
    }
    status = query_all_engines(h, asks);
    for (size_t e = 0; status == SR1_OK && n > 0 && e < h->n; e++)
        sr1__search_tell_outage(&h->out[e], asks[e].engine, asks[e].found,
                                "what the others find stands without it");
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        status = answer_hybrid_query(h, asks, i, sink);
    for (size_t e = 0; e < h->n; e++)
        sr1_search_results_free(asks[e].found);
    sr1__free(asks);
    return status;
}

/* ---- making one ---- */

static void hybrid_count(const void *self, sr1_search_counters *counters)
{
    const struct hybrid *h = self;

    for (size_t i = 0; i < h->n; i++)
        sr1__search_count_inner(h->engines[i], counters);
    counters->fallbacks += atomic_load(&h->fallbacks);
}

static const sr1_hybrid_options defaults = {sizeof(defaults), 60.0, 100, 0};

void sr1_hybrid_options_init(sr1_hybrid_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status read_hybrid_options(const sr1_hybrid_options *options, struct hybrid *h)
{
    sr1_hybrid_options o = defaults;

    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_hybrid_options, rrf_k),
                              "hybrid options"));
    if (!(o.rrf_k >= 0 && isfinite(o.rrf_k)))
        return sr1__fail(SR1_E_INVALID, "hybrid search: rrf_k %g is not 0 or more",
                         o.rrf_k);
    if (o.depth < 1 || o.depth > SR1_SEARCH_TOP_K_MAX)
        return sr1__fail(SR1_E_INVALID, "hybrid search: depth %d is not in 1..%d",
                         (int)o.depth, SR1_SEARCH_TOP_K_MAX);
    h->rrf_k = o.rrf_k;
    h->depth = o.depth;
    return SR1_OK;
}

static sr1_status set_up_hybrid(struct hybrid *h, sr1_search *const *engines,
                                const double *weights, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h->weights[i] = weights != NULL ? weights[i] : 1.0;
        if (engines[i] == NULL)
            return sr1__fail(SR1_E_INVALID, "hybrid search: engine %zu is NULL", i);
        if (!(h->weights[i] > 0 && isfinite(h->weights[i])))
            return sr1__fail(SR1_E_INVALID,
                             "hybrid search: weight %zu is %g; it must be above 0", i,
                             h->weights[i]);
    }
    for (size_t i = 0; i < n; i++)
        h->engines[i] = sr1_search_retain(engines[i]);
    h->n = n;
    return SR1_OK;
}

static uint64_t hash_hybrid_options(const struct hybrid *h)
{
    uint64_t hash = sr1__hash64(&h->rrf_k, sizeof(h->rrf_k), (uint64_t)h->depth);

    return sr1__hash64(h->weights, h->n * sizeof(h->weights[0]), hash);
}

/* A batch may be cut where it may be for every engine; it waits where any does. */
static sr1_status new_hybrid_engine(sr1_search **out, struct hybrid *h)
{
    sr1_search_ops ops = {sizeof(ops), "hybrid", hybrid_search, hybrid_destroy,
                          SR1_SEARCH_CONCURRENT | SR1_SEARCH_THREADS};

    for (size_t i = 0; i < h->n; i++) {
        int32_t flags = sr1__search_wait_flags(h->engines[i]);

        ops.flags |= flags & SR1_SEARCH_WAITS;
        if (!(flags & SR1_SEARCH_THREADS))
            ops.flags &= ~SR1_SEARCH_THREADS;
    }
    SR1__TRY(sr1__search_new_builtin(out, &ops, h));
    sr1__search_set_count(*out, hybrid_count);
    sr1__search_set_origin(
        *out, sr1__search_origin_of(h->engines, h->n, hash_hybrid_options(h)));
    return SR1_OK;
}

sr1_status sr1_search_open_hybrid(sr1_search **out, sr1_search *const *engines,
                                  const double *weights, size_t n,
                                  const sr1_hybrid_options *options)
{
    struct hybrid *h;
    sr1_status status;

    if (out == NULL || engines == NULL || n == 0 || n > MOST_ENGINES)
        return sr1__fail(SR1_E_INVALID,
                         "hybrid search: out and 1 to %d engines are needed",
                         MOST_ENGINES);
    h = sr1__calloc(1, sizeof(*h));
    if (h == NULL)
        return sr1__fail_nomem("hybrid search");
    status = read_hybrid_options(options, h);
    if (status == SR1_OK)
        status = set_up_hybrid(h, engines, weights, n);
    if (status == SR1_OK)
        status = sr1__executor_new(&h->executor, "hybrid search", MOST_THREADS, 0);
    if (status == SR1_OK)
        status = new_hybrid_engine(out, h);
    if (status != SR1_OK)
        hybrid_destroy(h);
    return status;
}
