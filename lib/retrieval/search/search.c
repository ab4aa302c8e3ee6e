/* retrieval/search/search.c - engines and the one way to ask them: each distinct query of
 * a batch is looked up in the cache, and what is missing is sent to the engine, in one
 * call or cut into pieces over threads. */
#include <searchr1/search.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/struct.h"
#include "base/utf8.h"
#include "retrieval/search/caller_status.h"
#include "retrieval/search/query_result.h"
#include "retrieval/search/result_cache.h"
#include "retrieval/search/search_engine.h"
#include "retrieval/search/search_results.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

struct sr1_search {
    atomic_int references;
    sr1_search_ops ops; /* name is ours */
    void *self;
    int builtin;
    uint64_t origin;
    sr1__search_count_fn *count; /* of a built-in engine with counts of its own */
    pthread_mutex_t call_lock;   /* around ops.search without SR1_SEARCH_CONCURRENT */
    struct sr1__search_cache *cache;
    struct sr1__pool *pool;
    atomic_llong queries;
    atomic_llong blank;
    atomic_llong duplicates;
    atomic_llong cache_hits;
    atomic_llong sent;
    atomic_llong failed;
    atomic_llong calls;
    atomic_int split; /* a batch of it was asked one by one */
};

/* One sr1_search_run. A NULL entry of results->answers is filled at the end: its query
 * repeats the query that same_as names. */
struct search_batch {
    sr1_search *engine;
    const char *const *queries;
    size_t n;
    int32_t top_k;
    sr1_search_results *results;
    size_t *same_as;                  /* [n] first query with the same text, or BLANK */
    const char **ask;                 /* [n_ask] what the engine is sent */
    struct sr1__query_result **asked; /* [n_ask] */
    size_t n_ask;
    size_t piece; /* queries of one call */
};

/* ---- engines ---- */

static sr1_status read_ops(sr1_search_ops *ops, const sr1_search_ops *given)
{
    if (given == NULL)
        return sr1__fail(SR1_E_INVALID, "search engine: ops is NULL");
    SR1__TRY(sr1__struct_take(ops, sizeof(*ops), given,
                              SR1__STRUCT_END(sr1_search_ops, search),
                              "search engine: ops"));
    if (ops->name == NULL || ops->name[0] == '\0')
        return sr1__fail(SR1_E_INVALID, "search engine: it needs a name");
    if (ops->search == NULL)
        return sr1__fail(SR1_E_INVALID, "search engine '%.100s': no search function",
                         ops->name);
    return SR1_OK;
}

/* 0 where there is none. */
static uint64_t hash_identity(const char *identity)
{
    return identity != NULL && *identity != '\0'
               ? sr1__hash64(identity, strlen(identity), 0)
               : 0;
}

static sr1_status engine_new(sr1_search **out, const sr1_search_ops *given, void *self,
                             int builtin)
{
    sr1_search_ops ops = {0};
    sr1_search *e;

    if (out == NULL)
        return sr1__fail(SR1_E_INVALID, "search engine: out is NULL");
    SR1__TRY(read_ops(&ops, given));
    e = sr1__calloc(1, sizeof(*e));
    if (e == NULL)
        return sr1__fail_nomem("search engine");
    e->ops = ops;
    e->ops.name = sr1__strdup(ops.name);
    if (e->ops.name == NULL) {
        sr1__free(e);
        return sr1__fail_nomem("search engine");
    }
    e->ops.identity = NULL;
    e->origin = hash_identity(ops.identity);
    e->self = self;
    e->builtin = builtin;
    atomic_init(&e->references, 1);
    pthread_mutex_init(&e->call_lock, NULL);
    *out = e;
    return SR1_OK;
}

sr1_status sr1_search_new(sr1_search **out, const sr1_search_ops *ops, void *self)
{
    return engine_new(out, ops, self, 0);
}

sr1_status sr1__search_new_builtin(sr1_search **out, const sr1_search_ops *ops,
                                   void *self)
{
    return engine_new(out, ops, self, 1);
}

int32_t sr1__search_flags(const sr1_search *engine)
{
    return engine->ops.flags;
}

int32_t sr1__search_wait_flags(const sr1_search *engine)
{
    return engine->ops.flags & (SR1_SEARCH_WAITS | SR1_SEARCH_THREADS);
}

void *sr1__search_self(const sr1_search *engine,
                       sr1_status (*search)(void *, const char *const *, size_t, int32_t,
                                            sr1_search_sink *))
{
    return engine != NULL && engine->ops.search == search ? engine->self : NULL;
}

void sr1__search_set_count(sr1_search *engine, sr1__search_count_fn *count)
{
    engine->count = count;
}

void sr1__search_set_origin(sr1_search *engine, uint64_t origin)
{
    engine->origin = origin;
}

uint64_t sr1__search_origin(const sr1_search *engine)
{
    return engine->origin;
}

uint64_t sr1__search_origin_of(sr1_search *const *engines, size_t n, uint64_t options)
{
    uint64_t origin = options;

    for (size_t i = 0; i < n; i++) {
        const sr1_search *e = engines[i];

        if (e->origin == 0)
            return 0;
        origin = sr1__hash64(e->ops.name, strlen(e->ops.name), origin);
        origin = sr1__hash64(&e->origin, sizeof(e->origin), origin);
    }
    return origin;
}

sr1_search *sr1_search_retain(sr1_search *engine)
{
    if (engine != NULL)
        atomic_fetch_add(&engine->references, 1);
    return engine;
}

void sr1_search_free(sr1_search *engine)
{
    if (engine == NULL || atomic_fetch_sub(&engine->references, 1) != 1)
        return;
    if (engine->ops.destroy != NULL)
        engine->ops.destroy(engine->self);
    sr1__search_cache_free(engine->cache);
    sr1__pool_free(engine->pool);
    pthread_mutex_destroy(&engine->call_lock);
    sr1__free((char *)engine->ops.name);
    sr1__free(engine);
}

const char *sr1_search_name(const sr1_search *engine)
{
    return engine != NULL ? engine->ops.name : "";
}

sr1_status sr1_search_set_cache(sr1_search *engine, uint64_t max_bytes)
{
    struct sr1__search_cache *cache = NULL;

    if (engine == NULL)
        return sr1__fail(SR1_E_INVALID, "search cache: engine is NULL");
    if (max_bytes > 0)
        SR1__TRY(sr1__search_cache_new(&cache, max_bytes));
    sr1__search_cache_free(engine->cache);
    engine->cache = cache;
    return SR1_OK;
}

sr1_status sr1_search_set_threads(sr1_search *engine, int32_t threads)
{
    struct sr1__pool *pool = NULL;

    if (engine == NULL)
        return sr1__fail(SR1_E_INVALID, "search threads: engine is NULL");
    if (threads != 1)
        SR1__TRY(sr1__pool_new(&pool, threads));
    sr1__pool_free(engine->pool);
    engine->pool = pool;
    return SR1_OK;
}

sr1_status sr1_search_counters_get(const sr1_search *engine, sr1_search_counters *out)
{
    sr1_search_counters c = {sizeof(c)};

    if (engine == NULL)
        return sr1__fail(SR1_E_INVALID, "search counters: engine is NULL");
    c.queries = atomic_load(&engine->queries);
    c.blank = atomic_load(&engine->blank);
    c.duplicates = atomic_load(&engine->duplicates);
    c.cache_hits = atomic_load(&engine->cache_hits);
    c.sent = atomic_load(&engine->sent);
    c.failed = atomic_load(&engine->failed);
    c.calls = atomic_load(&engine->calls);
    if (engine->count != NULL)
        engine->count(engine->self, &c);
    return sr1__struct_give(out, &c, sizeof(c), "search counters");
}

int sr1__search_note_split(sr1_search *engine)
{
    return !atomic_exchange(&engine->split, 1);
}

void sr1__search_count_inner(const sr1_search *inner, sr1_search_counters *counters)
{
    sr1_search_counters c = {sizeof(c)};

    if (sr1_search_counters_get(inner, &c) != SR1_OK)
        return;
    counters->requests += c.requests;
    counters->retries += c.retries;
    counters->rate_waits += c.rate_waits;
    counters->refused += c.refused;
    counters->disk_hits += c.disk_hits;
    counters->disk_stale += c.disk_stale;
    counters->fallbacks += c.fallbacks;
}

/* ---- one batch ---- */

int sr1__search_is_blank(const char *query)
{
    return query == NULL || query[strspn(query, " \t\r\n\v\f")] == '\0' ||
           !sr1__utf8_valid(query, strlen(query));
}

static sr1_status search_batch_init(struct search_batch *b)
{
    size_t n = b->n;

    b->results = sr1__calloc(1, sizeof(*b->results) + n * sizeof(b->results->answers[0]));
    b->same_as = sr1__calloc(n + 1, sizeof(*b->same_as));
    b->ask = sr1__calloc(n + 1, sizeof(*b->ask));
    b->asked = sr1__calloc(n + 1, sizeof(*b->asked));
    if (b->results == NULL || b->same_as == NULL || b->ask == NULL || b->asked == NULL)
        return sr1__fail_nomem("search batch");
    b->results->n = n;
    return SR1_OK;
}

static void search_batch_free(struct search_batch *b)
{
    for (size_t i = 0; b->asked != NULL && i < b->n_ask; i++)
        sr1__query_result_free(b->asked[i]);
    sr1_search_results_free(b->results);
    sr1__free(b->same_as);
    sr1__free((void *)b->ask);
    sr1__free(b->asked);
}

static sr1_status answer_blank(struct search_batch *b, size_t i)
{
    SR1__TRY(sr1__query_result_new(&b->results->answers[i]));
    atomic_fetch_add(&b->engine->blank, 1);
    return sr1__query_result_close_blank(b->results->answers[i]);
}

#define BLANK SIZE_MAX /* in same_as: a query that is not sent */

/* Set same_as through a table of first occurrences. */
static sr1_status find_repeats(struct search_batch *b)
{
    size_t slots = 2 * b->n + 1;
    size_t *table = sr1__calloc(slots, sizeof(*table)); /* 1 + index, 0: free */

    if (table == NULL)
        return sr1__fail_nomem("search batch");
    for (size_t i = 0; i < b->n; i++) {
        const char *q = b->queries[i];
        size_t at;

        b->same_as[i] = BLANK;
        if (sr1__search_is_blank(q))
            continue;
        at = sr1__hash64(q, strlen(q), 0) % slots;
        while (table[at] != 0 && strcmp(b->queries[table[at] - 1], q) != 0)
            at = (at + 1) % slots;
        if (table[at] == 0)
            table[at] = i + 1;
        b->same_as[i] = table[at] - 1;
    }
    sr1__free(table);
    return SR1_OK;
}

static sr1_status plan_search_batch(struct search_batch *b)
{
    SR1__TRY(find_repeats(b));
    atomic_fetch_add(&b->engine->queries, (long long)b->n);
    for (size_t i = 0; i < b->n; i++) {
        const char *q = b->queries[i];
        struct sr1__query_result **answer = &b->results->answers[i];

        if (b->same_as[i] == BLANK) {
            SR1__TRY(answer_blank(b, i));
            continue;
        }
        if (b->same_as[i] != i) {
            atomic_fetch_add(&b->engine->duplicates, 1);
            continue;
        }
        *answer = sr1__search_cache_get(b->engine->cache, q, b->top_k);
        if (*answer != NULL) {
            atomic_fetch_add(&b->engine->cache_hits, 1);
            continue;
        }
        SR1__TRY(sr1__query_result_new(answer));
        b->asked[b->n_ask] = sr1__query_result_retain(*answer);
        b->ask[b->n_ask++] = q;
    }
    return SR1_OK;
}

/* The engine's status as ours; before: saved ahead of the call. */
static sr1_status engine_error(const sr1_search *e, const struct sr1__error *before,
                               sr1_status status)
{
    if (!e->builtin)
        return sr1__caller_status(before, status, "search engine", e->ops.name);
    return sr1__context(status, "search engine '%s'", e->ops.name);
}

static sr1_status run_engine_call(void *arg, size_t piece)
{
    struct search_batch *b = arg;
    sr1_search *e = b->engine;
    size_t begin = piece * b->piece;
    size_t n = b->n_ask - begin < b->piece ? b->n_ask - begin : b->piece;
    sr1_search_sink sink = {b->asked + begin, n, b->top_k};
    int lock = !(e->ops.flags & SR1_SEARCH_CONCURRENT);
    struct sr1__error before;
    sr1_status status;

    if (lock)
        pthread_mutex_lock(&e->call_lock);
    sr1__error_save(&before, SR1_OK);
    status = e->ops.search(e->self, b->ask + begin, n, b->top_k, &sink);
    if (lock)
        pthread_mutex_unlock(&e->call_lock);
    return engine_error(e, &before, status);
}

/* Is a batch cut up over the pool? Built-in engines that wait are not: they have all of a
 * batch under way at once without it. */
static int can_spread_batch(const sr1_search *e)
{
    int32_t both = SR1_SEARCH_CONCURRENT | SR1_SEARCH_THREADS;

    return e->pool != NULL && (e->ops.flags & both) == both &&
           !(e->builtin && (e->ops.flags & SR1_SEARCH_WAITS));
}

static sr1_status run_engine_calls(struct search_batch *b)
{
    sr1_search *e = b->engine;
    int spread = can_spread_batch(e);
    size_t share = spread ? 4 * (size_t)sr1__pool_threads(e->pool) : 1;
    sr1_status status;

    if (b->n_ask == 0)
        return SR1_OK;
    b->piece = (b->n_ask + share - 1) / share;
    atomic_fetch_add(&e->sent, (long long)b->n_ask);
    atomic_fetch_add(&e->calls, 1);
    status = sr1__pool_run(spread ? e->pool : NULL, (b->n_ask + b->piece - 1) / b->piece,
                           run_engine_call, b);
    if (status != SR1_OK)
        atomic_fetch_add(&e->failed, (long long)b->n_ask);
    return status;
}

static sr1_status settle_search_batch(struct search_batch *b)
{
    for (size_t i = 0; i < b->n_ask; i++) {
        int32_t status;

        SR1__TRY(sr1__query_result_close(b->asked[i], b->ask[i]));
        status = sr1__query_result_status(b->asked[i]);
        if (status == SR1_ACTION_OK || status == SR1_ACTION_EMPTY)
            sr1__search_cache_put(b->engine->cache, b->ask[i], b->top_k, b->asked[i]);
        else
            atomic_fetch_add(&b->engine->failed, 1);
    }
    for (size_t i = 0; i < b->n; i++) {
        if (b->results->answers[i] == NULL)
            b->results->answers[i] =
                sr1__query_result_retain(b->results->answers[b->same_as[i]]);
    }
    return SR1_OK;
}

static _Thread_local struct sr1__search_tally *thread_tally;

struct sr1__search_tally *sr1__search_count_into(struct sr1__search_tally *tally)
{
    struct sr1__search_tally *before = thread_tally;

    thread_tally = tally;
    return before;
}

static void count_batch(const struct search_batch *b)
{
    if (!thread_tally || thread_tally->engine != b->engine)
        return;
    thread_tally->queries += (int64_t)b->n;
    thread_tally->calls += b->n_ask > 0;
}

sr1_status sr1_search_run(sr1_search *engine, const char *const *queries, size_t n,
                          int32_t top_k, sr1_search_results **out)
{
    struct search_batch b = {engine, queries, n, top_k};
    sr1_status status;

    if (engine == NULL || out == NULL || (queries == NULL && n > 0))
        return sr1__fail(SR1_E_INVALID, "search: engine, queries or out is NULL");
    if (top_k < 1 || top_k > SR1_SEARCH_TOP_K_MAX)
        return sr1__fail(SR1_E_INVALID, "search: top_k %d is not in 1..%d", (int)top_k,
                         SR1_SEARCH_TOP_K_MAX);
    if (n > SIZE_MAX / 64)
        return sr1__fail(SR1_E_LIMIT, "search: %zu queries in one batch", n);
    sr1_search_retain(engine); /* its callback may free it */
    status = search_batch_init(&b);
    if (status == SR1_OK)
        status = plan_search_batch(&b);
    if (status == SR1_OK) {
        count_batch(&b);
        status = run_engine_calls(&b);
    }
    if (status == SR1_OK)
        status = settle_search_batch(&b);
    if (status == SR1_OK) {
        *out = b.results;
        b.results = NULL;
    }
    search_batch_free(&b);
    sr1_search_free(engine);
    return status;
}

/* ---- results ---- */

size_t sr1_search_results_count(const sr1_search_results *results)
{
    return results != NULL ? results->n : 0;
}

static const struct sr1__query_result *get_query_result(const sr1_search_results *results,
                                                        size_t query)
{
    return results != NULL && query < results->n ? results->answers[query] : NULL;
}

int32_t sr1_search_results_status(const sr1_search_results *results, size_t query)
{
    const struct sr1__query_result *a = get_query_result(results, query);

    return a != NULL ? sr1__query_result_status(a) : SR1_ACTION_ERROR;
}

const char *sr1_search_results_message(const sr1_search_results *results, size_t query)
{
    const struct sr1__query_result *a = get_query_result(results, query);

    return a != NULL ? sr1__query_result_message(a) : "no such query in these results";
}

int32_t sr1_search_results_hit_count(const sr1_search_results *results, size_t query)
{
    const struct sr1__query_result *a = get_query_result(results, query);

    return a != NULL ? sr1__query_result_hit_count(a) : 0;
}

sr1_status sr1_search_results_hit(const sr1_search_results *results, size_t query,
                                  int32_t k, sr1_search_hit *hit)
{
    sr1_search_hit full = {sizeof(full)};

    if (k < 0 || k >= sr1_search_results_hit_count(results, query))
        return sr1__fail(SR1_E_NOT_FOUND, "search results: query %zu has no hit %d",
                         query, (int)k);
    sr1__query_result_hit(get_query_result(results, query), k, &full);
    return sr1__struct_give(hit, &full, sizeof(full), "search hit");
}

int32_t sr1__search_failed(const sr1_search_results *results, size_t query)
{
    return sr1__search_is_failure(sr1_search_results_status(results, query));
}

int32_t sr1__search_hit_unnamed(const sr1_search_results *results, size_t query,
                                int32_t k)
{
    return sr1__query_result_hit_unnamed(get_query_result(results, query), k);
}

sr1_status sr1__search_copy_hit(sr1_search_sink *sink, size_t i,
                                const sr1_search_results *results, size_t j, int32_t k,
                                double score)
{
    return sr1__sink_copy(sink, i, get_query_result(results, j), k, score);
}

sr1_status sr1__search_pass_on(sr1_search_sink *sink, size_t i,
                               const sr1_search_results *results, size_t j)
{
    const struct sr1__query_result *a = get_query_result(results, j);

    for (int32_t k = 0; k < sr1__query_result_hit_count(a); k++) {
        sr1_search_hit hit = {sizeof(hit)};

        sr1__query_result_hit(a, k, &hit);
        SR1__TRY(sr1__search_copy_hit(sink, i, results, j, k, hit.score));
    }
    return sr1_search_sink_status(sink, i, sr1__query_result_status(a),
                                  sr1__query_result_message(a));
}

void sr1_search_results_free(sr1_search_results *results)
{
    if (results == NULL)
        return;
    for (size_t i = 0; i < results->n; i++)
        sr1__query_result_free(results->answers[i]);
    sr1__hit_table_free(atomic_load(&results->table));
    sr1__free(results);
}
