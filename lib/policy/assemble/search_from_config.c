/* policy/assemble/search_from_config.c - the search engine that a configuration names:
 * one row of a table, a disk cache before those that ask a service, a chain when there
 * are fallbacks, and a reranker behind all where one is named. */
#include "config/config.h"

#include <searchr1/ext/bm25.h>
#include <searchr1/ext/dense.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/engines.h>
#include <searchr1/ext/external.h>
#include <searchr1/ext/faiss.h>
#include <searchr1/rollout.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/num.h"

#include <string.h>

#define MOST_ENGINES 8

static sr1_status open_mock(sr1_search **out, const sr1_config *c)
{
    const char *path = sr1__config_str(c, "mock_knowledge");

    return *path ? sr1_search_open_mock_file(out, path)
                 : sr1_search_open_mock(out, NULL, NULL, 0);
}

static sr1_status open_bm25_engine(sr1_search **out, const sr1_config *c)
{
    sr1_bm25_options o = {.struct_size = sizeof(o)};
    const char *path = sr1__config_str(c, "search_index");

    if (!*path)
        return sr1__fail(SR1_E_CONFIG, "search_engine is bm25 but search_index is empty; "
                                       "make one with sr1-search index CORPUS INDEX");
    sr1_bm25_options_init(&o);
    o.k1 = sr1__config_real(c, "bm25_k1");
    o.b = sr1__config_real(c, "bm25_b");
    return sr1_search_open_bm25(out, path, &o);
}

/* ---- engines with a model ---- */

static void read_encoder(sr1_encoder_options *o, const sr1_config *c)
{
    sr1_encoder_options_init(o);
    o->device = sr1__config_str(c, "search_device");
    o->threads = (int32_t)sr1__config_int(c, "search_threads");
}

/* The encoder of the configuration, or the one that a dense index was made with. */
static sr1_status open_configured_encoder(sr1_embedder **out, const char *index,
                                          const sr1_config *c)
{
    const char *folder = sr1__config_str(c, "search_encoder");
    sr1_encoder_options o;
    char *kept = NULL;
    sr1_status st = SR1_OK;

    read_encoder(&o, c);
    if (!*folder)
        st = sr1_dense_embedder_name(index, &kept);
    if (st == SR1_OK && kept && !*kept)
        st = sr1__fail(SR1_E_CONFIG,
                       "%s does not say which model its vectors are from; set "
                       "search_encoder",
                       index);
    if (st == SR1_OK)
        st = sr1__context(sr1_embedder_open(out, kept ? kept : folder, &o),
                          "search_encoder");
    sr1__free(kept);
    return st;
}

/* Where the vectors of a dense index are searched. */
static const char *index_device(const sr1_config *c)
{
    const char *own = sr1__config_str(c, "search_index_device");

    return strcmp(own, "same") == 0 ? sr1__config_str(c, "search_device") : own;
}

static sr1_status open_dense_engine(sr1_search **out, const sr1_config *c)
{
    const char *path = sr1__config_str(c, "search_dense_index");
    sr1_embedder *embedder = NULL;
    sr1_dense_options o;
    sr1_status st;

    if (!*path)
        return sr1__fail(SR1_E_CONFIG,
                         "search_dense_index is empty; make one with sr1-search index "
                         "--dense MODEL CORPUS INDEX");
    SR1__TRY(open_configured_encoder(&embedder, path, c));
    sr1_dense_options_init(&o);
    o.threads = (int32_t)sr1__config_int(c, "search_threads");
    o.device = index_device(c);
    o.other_weights = sr1__config_bool(c, "search_other_weights");
    st = sr1_search_open_dense(out, path, embedder, &o);
    sr1_embedder_free(embedder);
    return st;
}

static sr1_status open_faiss_engine(sr1_search **out, const sr1_config *c)
{
    const char *path = sr1__config_str(c, "search_faiss_index");
    const char *documents = sr1__config_str(c, "search_documents");
    const char *folder = sr1__config_str(c, "search_encoder");
    sr1_encoder_options encoder;
    sr1_embedder *embedder = NULL;
    sr1_faiss_options o;
    sr1_status st;

    if (!*path || !*documents || !*folder)
        return sr1__fail(SR1_E_CONFIG,
                         "search_engine is faiss: it needs search_faiss_index, "
                         "search_documents (the corpus) and search_encoder");
    read_encoder(&encoder, c);
    SR1__TRY(
        sr1__context(sr1_embedder_open(&embedder, folder, &encoder), "search_encoder"));
    sr1_faiss_options_init(&o);
    o.nprobe = (int32_t)sr1__config_int(c, "search_nprobe");
    o.ef_search = (int32_t)sr1__config_int(c, "search_ef");
    st = sr1_search_open_faiss(out, path, documents, embedder, &o);
    sr1_embedder_free(embedder);
    return st;
}

/* Put the reranker of the configuration, if there is one, behind *engine. */
static sr1_status add_reranker(sr1_search **engine, const sr1_config *c)
{
    const char *folder = sr1__config_str(c, "search_reranker");
    sr1_encoder_options o;
    sr1_rerank_options r;
    sr1_reranker *reranker = NULL;
    sr1_search *all = NULL;
    sr1_status st;

    if (!*folder)
        return SR1_OK;
    read_encoder(&o, c);
    SR1__TRY(sr1__context(sr1_reranker_open(&reranker, folder, &o), "search_reranker"));
    sr1_rerank_options_init(&r);
    r.depth = (int32_t)sr1__config_int(c, "search_rerank_depth");
    st = sr1_search_open_rerank(&all, *engine, reranker, &r);
    sr1_reranker_free(reranker);
    SR1__TRY(st);
    sr1_search_free(*engine);
    *engine = all;
    return SR1_OK;
}

/* ---- engines that ask a service ---- */

static void read_http(sr1_search_http_options *o, const sr1_config *c)
{
    sr1_search_http_options_init(o);
    o->timeout_s = sr1__config_real(c, "search_timeout_s");
    if (o->connect_timeout_s > o->timeout_s)
        o->connect_timeout_s = o->timeout_s;
    o->retries = (int32_t)sr1__config_int(c, "search_retries");
    o->retry_first_s = sr1__config_real(c, "search_retry_wait_s");
    if (o->retry_max_s < o->retry_first_s)
        o->retry_max_s = o->retry_first_s;
    o->concurrency = (int32_t)sr1__config_int(c, "search_concurrency");
    o->rate_limit = sr1__config_real(c, "search_rate_limit");
    o->breaker_failures = (int32_t)sr1__config_int(c, "search_breaker_failures");
    o->breaker_rest_s = sr1__config_real(c, "search_breaker_rest_s");
    o->key_env = sr1__config_str(c, "search_api_key_env");
    o->ca_file = sr1__config_str(c, "search_ca_file");
    o->seed = (uint64_t)sr1__config_int(c, "seed");
}

/* Keep answers on disk where the configuration says so. Takes over the reference. */
static sr1_status wrap_disk_cache(sr1_search **out, sr1_search *engine,
                                  const sr1_config *c)
{
    const char *folder = sr1__config_str(c, "search_cache_dir");
    sr1_disk_cache_options o;
    sr1_status st;

    if (!*folder) {
        *out = engine;
        return SR1_OK;
    }
    sr1_disk_cache_options_init(&o);
    o.ttl_s = sr1__config_real(c, "search_cache_ttl_s");
    o.max_bytes = (uint64_t)sr1__config_int(c, "search_cache_bytes");
    st = sr1_search_open_disk_cache(out, engine, folder, &o);
    sr1_search_free(engine);
    return st;
}

static sr1_status open_remote(sr1_search **out, const sr1_config *c)
{
    const char *url = sr1__config_str(c, "search_url");
    sr1_search_http_options o;
    sr1_search *engine = NULL;

    if (!*url)
        return sr1__fail(SR1_E_CONFIG,
                         "search_url is empty; give the server's address, such as "
                         "http://127.0.0.1:8000/retrieve");
    read_http(&o, c);
    SR1__TRY(sr1_search_open_remote(&engine, url, &o));
    return wrap_disk_cache(out, engine, c);
}

static sr1_status open_opensearch(sr1_search **out, const sr1_config *c)
{
    const char *url = sr1__config_str(c, "opensearch_url");
    sr1_search_http_options o;
    sr1_search *engine = NULL;

    if (!*url)
        return sr1__fail(SR1_E_CONFIG, "opensearch_url is empty; give the address of an "
                                       "index, such as http://127.0.0.1:9200/INDEX");
    read_http(&o, c);
    o.key_env = sr1__config_str(c, "opensearch_api_key_env");
    o.fields = sr1__config_str(c, "opensearch_fields");
    SR1__TRY(sr1_search_open_opensearch(&engine, url, &o));
    return wrap_disk_cache(out, engine, c);
}

static sr1_status open_collection(sr1_search **out, const char *url,
                                  sr1_embedder *embedder, const sr1_config *c)
{
    sr1_search_http_options o;
    sr1_search *engine = NULL;

    read_http(&o, c);
    o.key_env = sr1__config_str(c, "qdrant_api_key_env");
    o.fields = sr1__config_str(c, "qdrant_fields");
    o.vector = sr1__config_str(c, "qdrant_vector");
    o.id_field = sr1__config_str(c, "qdrant_id_field");
    SR1__TRY(sr1_search_open_qdrant(&engine, url, embedder, &o));
    return wrap_disk_cache(out, engine, c);
}

static sr1_status open_qdrant(sr1_search **out, const sr1_config *c)
{
    const char *url = sr1__config_str(c, "qdrant_url");
    const char *folder = sr1__config_str(c, "search_encoder");
    sr1_encoder_options encoder;
    sr1_embedder *embedder = NULL;
    sr1_status st;

    if (!*url || !*folder)
        return sr1__fail(SR1_E_CONFIG,
                         "search_engine is qdrant: it needs qdrant_url, such as "
                         "http://127.0.0.1:6333/collections/NAME, and search_encoder, "
                         "the encoder that made the vectors there");
    read_encoder(&encoder, c);
    SR1__TRY(
        sr1__context(sr1_embedder_open(&embedder, folder, &encoder), "search_encoder"));
    st = open_collection(out, url, embedder, c);
    sr1_embedder_free(embedder);
    return st;
}

static sr1_status open_web(sr1_search **out, const sr1_config *c)
{
    sr1_search_http_options o;
    sr1_search *engine = NULL;

    read_http(&o, c);
    o.url = sr1__config_str(c, "search_web_url");
    o.engine_id = sr1__config_str(c, "search_google_cx");
    SR1__TRY(sr1_search_open_web(&engine, sr1__config_str(c, "search_provider"), &o));
    return wrap_disk_cache(out, engine, c);
}

static sr1_status open_search_program(sr1_search **out, const sr1_config *c)
{
    const char *path = sr1__config_str(c, "search_program");
    sr1_external_options o = {.struct_size = sizeof(o),
                              .timeout_s = sr1__config_real(c, "program_timeout")};

    if (!*path)
        return sr1__fail(SR1_E_CONFIG,
                         "search_program is empty; name the program's file");
    return sr1_search_open_external(out, path, &o);
}

/* ---- by name ---- */

static sr1_status open_hybrid(sr1_search **out, const sr1_config *c);

static const struct {
    const char *name;
    sr1_status (*open)(sr1_search **out, const sr1_config *c);
} engines[] = {
    {"mock", open_mock},
    {"bm25", open_bm25_engine},
    {"dense", open_dense_engine},
    {"faiss", open_faiss_engine},
    {"hybrid", open_hybrid},
    {"remote", open_remote},
    {"opensearch", open_opensearch},
    {"qdrant", open_qdrant},
    {"web", open_web},
    {"program", open_search_program},
};

static sr1_status open_named(sr1_search **out, const char *name, const char *key,
                             const sr1_config *c)
{
    sr1_search *engine = NULL;

    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++) {
        if (strcmp(engines[i].name, name) != 0)
            continue;
        SR1__TRY(sr1__context(engines[i].open(&engine, c), "%s '%s'", key, name));
        (void)sr1_search_set_threads(engine,
                                     (int32_t)sr1__config_int(c, "search_threads"));
        *out = engine;
        return SR1_OK;
    }
    return sr1__fail(SR1_E_CONFIG,
                     "%s '%.64s' cannot be opened; use mock, bm25, dense, faiss, hybrid, "
                     "remote, opensearch, qdrant, web or program",
                     key, name);
}

static sr1_status open_listed_engine(sr1_search **list, size_t *n, const char *name,
                                     const char *key, const char *except,
                                     const sr1_config *c)
{
    if (*n == MOST_ENGINES)
        return sr1__fail(SR1_E_CONFIG, "%s: at most %d names", key, MOST_ENGINES - 1);
    if (strcmp(name, except) == 0)
        return sr1__fail(SR1_E_CONFIG, "%s: '%s' cannot be a part of itself", key,
                         except);
    SR1__TRY(open_named(&list[*n], name, key, c));
    ++*n;
    return SR1_OK;
}

/* The engines that a key names, into list[*n..). `except` is none of them. */
static sr1_status open_listed_engines(sr1_search **list, size_t *n, const char *key,
                                      const char *except, const sr1_config *c)
{
    char **names = NULL;
    size_t n_names = 0;
    sr1_status st;

    SR1__TRY(sr1__config_list(c, key, &names, &n_names));
    st = SR1_OK;
    for (size_t i = 0; i < n_names && st == SR1_OK; i++)
        st = open_listed_engine(list, n, names[i], key, except, c);
    sr1__free(names);
    return st;
}

static void free_engines(sr1_search **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sr1_search_free(list[i]);
}

/* One for each of n engines; *given 0 where the key is empty. */
static sr1_status read_hybrid_weights(const sr1_config *c, size_t n, double *weights,
                                      int *given)
{
    char **items = NULL;
    size_t n_items = 0, k = 0;

    SR1__TRY(sr1__config_list(c, "search_hybrid_weights", &items, &n_items));
    *given = n_items > 0;
    while (k < n_items && k < n &&
           sr1__parse_real(items[k], strlen(items[k]), &weights[k]))
        k++;
    sr1__free(items);
    if (n_items == 0 || (k == n && k == n_items))
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "search_hybrid_weights must be %zu numbers separated by commas, one "
                     "for each engine of search_hybrid",
                     n);
}

static sr1_status open_hybrid(sr1_search **out, const sr1_config *c)
{
    sr1_search *list[MOST_ENGINES] = {NULL};
    double weights[MOST_ENGINES];
    sr1_hybrid_options o;
    int weighted = 0;
    size_t n = 0;
    sr1_status st = open_listed_engines(list, &n, "search_hybrid", "hybrid", c);

    sr1_hybrid_options_init(&o);
    o.rrf_k = sr1__config_real(c, "search_rrf_k");
    o.depth = (int32_t)sr1__config_int(c, "search_hybrid_depth");
    if (st == SR1_OK && n == 0)
        st = sr1__fail(SR1_E_CONFIG, "search_hybrid is empty; name engines: bm25,dense");
    if (st == SR1_OK)
        st = read_hybrid_weights(c, n, weights, &weighted);
    if (st == SR1_OK)
        st = sr1_search_open_hybrid(out, list, weighted ? weights : NULL, n, &o);
    free_engines(list, n);
    return st;
}

sr1_status sr1_search_open(sr1_search **out, const sr1_config *config)
{
    sr1_search *list[MOST_ENGINES] = {NULL};
    sr1_search *all = NULL;
    size_t n = 1;
    sr1_status st;

    if (!out || !config)
        return sr1__fail(SR1_E_INVALID, "search: out and config are required");
    SR1__TRY(open_named(&list[0], sr1__config_str(config, "search_engine"),
                        "search_engine", config));
    st = open_listed_engines(list, &n, "search_fallback", "", config);
    if (st == SR1_OK && n > 1)
        st = sr1_search_open_chain(&all, list, n);
    else if (st == SR1_OK)
        all = sr1_search_retain(list[0]);
    free_engines(list, n);
    if (st == SR1_OK)
        st = add_reranker(&all, config);
    if (st == SR1_OK)
        *out = all;
    else
        sr1_search_free(all);
    return st;
}
