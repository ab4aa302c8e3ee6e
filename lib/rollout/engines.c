/* rollout/engines.c - the search engine that a configuration names: one row of a table,
 * a disk cache before those that ask a service, and a chain when there are fallbacks. */
#include "rollout/internal.h"

#include <string.h>

#define MOST_ENGINES 8
#define LONGEST_NAME 32

static sr1_status open_mock(sr1_search **out, const sr1_config *c)
{
    const char *path = sr1__config_str(c, "mock_knowledge");

    return *path ? sr1_search_open_mock_file(out, path)
                 : sr1_search_open_mock(out, NULL, NULL, 0);
}

static sr1_status open_bm25(sr1_search **out, const sr1_config *c)
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
static sr1_status keep_answers(sr1_search **out, sr1_search *engine, const char *scope,
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
    o.scope = scope;
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
    return keep_answers(out, engine, url, c);
}

static sr1_status open_web(sr1_search **out, const sr1_config *c)
{
    sr1_search_http_options o;
    sr1_search *engine = NULL;

    read_http(&o, c);
    o.url = sr1__config_str(c, "search_web_url");
    o.engine_id = sr1__config_str(c, "search_google_cx");
    SR1__TRY(sr1_search_open_web(&engine, sr1__config_str(c, "search_provider"), &o));
    return keep_answers(out, engine, o.url, c);
}

/* ---- by name ---- */

static const struct {
    const char *name;
    sr1_status (*open)(sr1_search **out, const sr1_config *c);
} engines[] = {
    {"mock", open_mock},
    {"bm25", open_bm25},
    {"remote", open_remote},
    {"web", open_web},
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
                     "%s '%.64s' cannot be opened; use mock, bm25, remote or web", key,
                     name);
}

/* The engines of search_fallback into list[*n..). */
static sr1_status open_fallbacks(sr1_search **list, size_t *n, const sr1_config *c)
{
    const char *at = sr1__config_str(c, "search_fallback");

    while (*at) {
        size_t len = strcspn(at, ",");
        char name[LONGEST_NAME];

        if (*n == MOST_ENGINES || len >= sizeof(name))
            return sr1__fail(SR1_E_CONFIG,
                             "search_fallback: at most %d names, each of at most %d "
                             "characters",
                             MOST_ENGINES - 1, LONGEST_NAME - 1);
        memcpy(name, at, len);
        name[len] = '\0';
        SR1__TRY(open_named(&list[*n], name, "search_fallback", c));
        ++*n;
        at += len + (at[len] == ',');
    }
    return SR1_OK;
}

sr1_status sr1_search_open(sr1_search **out, const sr1_config *config)
{
    sr1_search *list[MOST_ENGINES] = {NULL};
    size_t n = 1;
    sr1_status st;

    if (!out || !config)
        return sr1__fail(SR1_E_INVALID, "search: out and config are required");
    SR1__TRY(open_named(&list[0], sr1__config_str(config, "search_engine"),
                        "search_engine", config));
    st = open_fallbacks(list, &n, config);
    if (st == SR1_OK && n > 1)
        st = sr1_search_open_chain(out, list, n);
    else if (st == SR1_OK)
        *out = sr1_search_retain(list[0]);
    for (size_t i = 0; i < n; i++)
        sr1_search_free(list[i]);
    return st;
}
