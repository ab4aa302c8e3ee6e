/* retrieval/search/disk_cache.c - the engine that keeps another engine's answers on disk.
 *
 * A fresh answer is given without asking. When the engine fails, an answer past its time
 * is better than none. */
#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/disk_cache.h"
#include "retrieval/search/disk_store.h"
#include "retrieval/search/search_engine.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TTL_S_DEFAULT 86400.0
#define MAX_BYTES_DEFAULT ((uint64_t)1 << 30)
#define MAX_BYTES_LEAST ((uint64_t)1 << 16)

struct disk_cache {
    sr1_search *engine;
    struct sr1__disk_store *store;
    char *scope;
    double ttl_ms;
    int32_t use_stale;
    atomic_llong hits;
    atomic_llong stale;
};

/* One batch. */
struct cache_batch {
    struct disk_cache *c;
    int32_t top_k;
    sr1_search_sink *sink;
    const char **left; /* [n_left] queries for the engine, and which of the sink's */
    size_t *at;
    size_t n_left;
};

static int64_t cache_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- keys and values ---- */

static void write_cache_key(struct sr1__buf *b, const struct disk_cache *c,
                            const char *query, int32_t top_k)
{
    sr1__buf_fmt(b, "%s\n%s\n%d\n", sr1_search_name(c->engine), c->scope, (int)top_k);
    sr1__buf_str(b, query);
}

static void write_cache_text(struct sr1__buf *b, const char *s)
{
    sr1__buf_u32(b, (uint32_t)strlen(s));
    sr1__buf_str(b, s);
    sr1__buf_char(b, '\0');
}

/* Number of hits; of each id, contents, score, HIT_ flags and its row if it has one. */
#define HIT_ROW 1
#define HIT_UNNAMED 2 /* the id is only its rank */

static void write_answer(struct sr1__buf *b, const sr1_search_results *found, size_t i)
{
    int32_t n = sr1_search_results_hit_count(found, i);
    sr1_search_hit hit = {sizeof(hit)};

    sr1__buf_u32(b, (uint32_t)n);
    for (int32_t k = 0; sr1_search_results_hit(found, i, k, &hit) == SR1_OK; k++) {
        int32_t unnamed = sr1__search_hit_unnamed(found, i, k);

        write_cache_text(b, hit.id);
        write_cache_text(b, hit.contents);
        sr1__buf_f64(b, hit.score);
        sr1__buf_u8(b, (hit.row != NULL ? HIT_ROW : 0) | (unnamed ? HIT_UNNAMED : 0));
        if (hit.row != NULL)
            write_cache_text(b, hit.row);
    }
}

/* NULL (r->failed set) when it is not whole. */
static const char *read_cache_text(struct sr1__reader *r)
{
    uint32_t n = sr1__read_u32(r);
    const char *s = sr1__read_bytes(r, (size_t)n + 1);

    if (s != NULL && s[n] != '\0')
        r->failed = 1;
    return r->failed ? NULL : s;
}

/* sink NULL: only read it. */
static sr1_status emit_cached_hit(struct sr1__reader *r, sr1_search_sink *sink, size_t i)
{
    const char *id = read_cache_text(r);
    const char *contents = read_cache_text(r);
    double score = sr1__read_f64(r);
    uint8_t flags = sr1__read_u8(r);
    const char *row = flags & HIT_ROW ? read_cache_text(r) : NULL;

    if (r->failed || !isfinite(score))
        return sr1__fail(SR1_E_CORRUPT, "search cache: an answer is damaged");
    if (sink == NULL)
        return SR1_OK;
    SR1__TRY(sr1_search_sink_hit(sink, i, id, contents, score));
    if (flags & HIT_UNNAMED)
        sr1__search_sink_unnamed(sink, i);
    return row != NULL ? sr1_search_sink_row(sink, i, row) : SR1_OK;
}

static sr1_status read_cached_answer(const struct sr1__buf *value, sr1_search_sink *sink,
                                     size_t i)
{
    struct sr1__reader r;
    uint32_t n;

    sr1__reader_init(&r, value->data, value->len);
    n = sr1__read_u32(&r);
    for (uint32_t k = 0; k < n; k++)
        SR1__TRY(emit_cached_hit(&r, sink, i));
    if (r.failed || sink == NULL)
        return r.failed ? SR1_E_CORRUPT : SR1_OK;
    return sr1_search_sink_status(sink, i, n > 0 ? SR1_ACTION_OK : SR1_ACTION_EMPTY,
                                  NULL);
}

sr1_status sr1__disk_result_read(const struct sr1__buf *value, sr1_search_sink *sink,
                                 size_t i)
{
    SR1__TRY(read_cached_answer(value, NULL, i));
    return read_cached_answer(value, sink, i);
}

/* ---- one batch ---- */

/* Answer query i from the store when the stored answer is at most max_age_ms old;
 * *given is 1 then. An answer that passed its hash but cannot be parsed was written by
 * another version and is ignored. The age is absolute, so that a wrong clock cannot
 * keep an answer forever. */
static sr1_status look_up_answer(struct cache_batch *a, const char *query, size_t i,
                                 double max_age_ms, int32_t *given)
{
    struct sr1__buf key, value;
    int64_t time = 0;
    sr1_status status;

    *given = 0;
    sr1__buf_init(&key, 0);
    sr1__buf_init(&value, 0);
    write_cache_key(&key, a->c, query, a->top_k);
    status = sr1__buf_status(&key, "search cache");
    if (status == SR1_OK &&
        sr1__disk_store_get(a->c->store, key.data, key.len, &value, &time) &&
        fabs((double)cache_now_ms() - (double)time) <= max_age_ms) {
        status = sr1__disk_result_read(&value, a->sink, i);
        *given = status == SR1_OK;
    }
    sr1__buf_free(&key);
    sr1__buf_free(&value);
    return status == SR1_E_CORRUPT ? SR1_OK : status;
}

static void store_answer(struct cache_batch *a, const char *query,
                         const sr1_search_results *found, size_t j)
{
    struct sr1__buf key, value;

    sr1__buf_init(&key, 0);
    sr1__buf_init(&value, 0);
    write_cache_key(&key, a->c, query, a->top_k);
    write_answer(&value, found, j);
    if (key.status == SR1_OK && value.status == SR1_OK)
        sr1__disk_store_put(a->c->store, key.data, key.len, value.data, value.len,
                            cache_now_ms());
    sr1__buf_free(&key);
    sr1__buf_free(&value);
}

/* The engine's answer j, for the sink's query a->at[j]. */
static sr1_status take_engine_answer(struct cache_batch *a,
                                     const sr1_search_results *found, size_t j)
{
    int32_t given = 0;

    if (!sr1__search_failed(found, j)) {
        store_answer(a, a->left[j], found, j);
        return sr1__search_pass_on(a->sink, a->at[j], found, j);
    }
    if (a->c->use_stale)
        SR1__TRY(look_up_answer(a, a->left[j], a->at[j], INFINITY, &given));
    if (!given)
        return sr1__search_pass_on(a->sink, a->at[j], found, j);
    atomic_fetch_add(&a->c->hits, 1);
    atomic_fetch_add(&a->c->stale, 1);
    return SR1_OK;
}

static sr1_status search_missing_queries(struct cache_batch *a)
{
    sr1_search_results *found = NULL;
    sr1_status status;

    if (a->n_left == 0)
        return SR1_OK;
    status = sr1__search_run_each(a->c->engine, a->left, a->n_left, a->top_k, &found);
    for (size_t j = 0; status == SR1_OK && j < a->n_left; j++)
        status = take_engine_answer(a, found, j);
    sr1_search_results_free(found);
    return status;
}

static sr1_status disk_cache_search(void *self, const char *const *queries, size_t n,
                                    int32_t top_k, sr1_search_sink *sink)
{
    struct disk_cache *c = self;
    struct cache_batch a = {c,
                            top_k,
                            sink,
                            sr1__calloc(n + 1, sizeof(*a.left)),
                            sr1__calloc(n + 1, sizeof(*a.at)),
                            0};
    sr1_status status = SR1_OK;

    if (a.left == NULL || a.at == NULL)
        status = sr1__fail_nomem("search cache");
    for (size_t i = 0; status == SR1_OK && i < n; i++) {
        int32_t given = 0;

        status = look_up_answer(&a, queries[i], i, c->ttl_ms, &given);
        if (given) {
            atomic_fetch_add(&c->hits, 1);
        } else {
            a.left[a.n_left] = queries[i];
            a.at[a.n_left++] = i;
        }
    }
    if (status == SR1_OK)
        status = search_missing_queries(&a);
    sr1__free((void *)a.left);
    sr1__free(a.at);
    return status;
}

static void disk_cache_count(const void *self, sr1_search_counters *counters)
{
    const struct disk_cache *c = self;

    sr1__search_count_inner(c->engine, counters);
    counters->disk_hits += atomic_load(&c->hits);
    counters->disk_stale += atomic_load(&c->stale);
}

static void disk_cache_destroy(void *self)
{
    struct disk_cache *c = self;

    sr1_search_free(c->engine);
    sr1__disk_store_close(c->store);
    sr1__free(c->scope);
    sr1__free(c);
}

/* ---- opening ---- */

static const sr1_disk_cache_options defaults = {
    .struct_size = sizeof(sr1_disk_cache_options),
    .ttl_s = TTL_S_DEFAULT,
    .max_bytes = MAX_BYTES_DEFAULT,
    .use_stale = 1,
};

void sr1_disk_cache_options_init(sr1_disk_cache_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status read_disk_cache_options(sr1_disk_cache_options *o,
                                          const sr1_disk_cache_options *given)
{
    *o = defaults;
    SR1__TRY(sr1__struct_take(o, sizeof(*o), given,
                              SR1__STRUCT_END(sr1_disk_cache_options, ttl_s),
                              "search cache options"));
    if (!(o->ttl_s >= 0) || o->max_bytes < MAX_BYTES_LEAST)
        return sr1__fail(SR1_E_INVALID,
                         "search cache: ttl_s must be at least 0, max_bytes at least %d",
                         (int)MAX_BYTES_LEAST);
    return SR1_OK;
}

/* Engines of a name are told apart by where they search, unless the caller says which
 * share answers. */
static sr1_status choose_scope(const sr1_search *engine, const char *given, char **out)
{
    uint64_t origin = sr1__search_origin(engine);
    char text[17];

    snprintf(text, sizeof(text), "%016" PRIx64, origin);
    if (given != NULL && *given != '\0')
        *out = sr1__strdup(given);
    else if (origin != 0)
        *out = sr1__strdup(text);
    else
        return sr1__fail(SR1_E_INVALID,
                         "search cache: nothing tells the engine '%.100s' from others of "
                         "its name, whose answers it would give; set scope, or give the "
                         "engine an identity",
                         sr1_search_name(engine));
    return *out != NULL ? SR1_OK : sr1__fail_nomem("search cache");
}

/* The cache engine has the name of the engine it wraps. */
static sr1_status new_disk_cache_engine(sr1_search **out, struct disk_cache *c)
{
    const sr1_search_ops ops = {
        sizeof(ops), sr1_search_name(c->engine), disk_cache_search, disk_cache_destroy,
        SR1_SEARCH_CONCURRENT | sr1__search_wait_flags(c->engine)};

    SR1__TRY(sr1__search_new_builtin(out, &ops, c));
    sr1__search_set_count(*out, disk_cache_count);
    sr1__search_set_origin(*out, sr1__hash64(c->scope, strlen(c->scope), 0));
    return SR1_OK;
}

sr1_status sr1_search_open_disk_cache(sr1_search **out, sr1_search *engine,
                                      const char *folder,
                                      const sr1_disk_cache_options *options)
{
    sr1_disk_cache_options o;
    struct disk_cache *c;
    sr1_status status;

    if (out == NULL || engine == NULL || folder == NULL || *folder == '\0')
        return sr1__fail(SR1_E_INVALID,
                         "search cache: out, an engine and a folder are needed");
    SR1__TRY(read_disk_cache_options(&o, options));
    c = sr1__calloc(1, sizeof(*c));
    if (c == NULL)
        return sr1__fail_nomem("search cache");
    c->engine = sr1_search_retain(engine);
    c->ttl_ms = 1000 * o.ttl_s;
    c->use_stale = o.use_stale;
    status = choose_scope(engine, o.scope, &c->scope);
    if (status == SR1_OK)
        status = sr1__disk_store_open(&c->store, folder, o.max_bytes);
    if (status == SR1_OK)
        status = new_disk_cache_engine(out, c);
    if (status != SR1_OK)
        disk_cache_destroy(c);
    return status;
}
