/* retrieval/search/http_engine.c - options of HTTP engines, and what is told about
 * failures. */
#include "retrieval/search/http_engine.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"
#include "retrieval/net/service.h"

#include <stdio.h>
#include <string.h>

static const sr1_search_http_options defaults = {
    .struct_size = sizeof(sr1_search_http_options),
    .timeout_s = 30,
    .connect_timeout_s = 5,
    .retries = 3,
    .retry_first_s = 0.5,
    .retry_max_s = 20,
    .retry_after_max_s = 60,
    .concurrency = 16,
    .breaker_failures = 10,
    .breaker_rest_s = 10,
    .max_body_bytes = (uint64_t)64 << 20,
    .probe = 1,
};

void sr1_search_http_options_init(sr1_search_http_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

sr1_status sr1__client_options(sr1_search_http_options *o,
                               const sr1_search_http_options *given)
{
    *o = defaults;
    return sr1__struct_take(o, sizeof(*o), given,
                            SR1__STRUCT_END(sr1_search_http_options, timeout_s),
                            "search options");
}

uint64_t sr1__client_origin(const char *url, const sr1_search_http_options *o)
{
    const char *const texts[] = {url, o->fields, o->vector, o->id_field, o->engine_id};
    uint64_t origin = 0;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *text = texts[i] != NULL ? texts[i] : "";

        origin = sr1__hash64(text, strlen(text) + 1, origin);
    }
    return origin;
}

/* ---- opening ---- */

sr1_status sr1__client_open(struct sr1__client *c, const sr1_search_http_options *o,
                            const char *key_env)
{
    struct sr1__http_options h = {
        .connect_timeout_s = o->connect_timeout_s,
        .timeout_s = o->timeout_s,
        .max_body = o->max_body_bytes < SIZE_MAX / 4 ? (size_t)o->max_body_bytes : 0,
        .concurrency = o->concurrency,
        .rate = o->rate_limit,
        .retry = {o->retries, o->retry_first_s, o->retry_max_s, o->retry_after_max_s},
        .breaker_failures = o->breaker_failures,
        .breaker_rest_s = o->breaker_rest_s,
        .ca_file = o->ca_file,
        .seed = o->seed,
    };
    sr1_status status;

    *c = (struct sr1__client){.key_name = "search_api_key_env"};
    status = sr1__service_key(&c->key, key_env);
    if (status == SR1_OK && c->key != NULL && (c->key_env = sr1__strdup(key_env)) == NULL)
        status = sr1__fail_nomem("key");
    if (status == SR1_OK)
        status = sr1__http_new(&c->http, &h);
    if (status != SR1_OK)
        sr1__client_close(c);
    return status;
}

void sr1__client_close(struct sr1__client *c)
{
    sr1__http_free(c->http);
    sr1__service_wipe(c->key);
    sr1__free(c->key_env);
    c->http = NULL;
    c->key = c->key_env = NULL;
}

/* ---- failures ---- */

void sr1__client_note_answer(struct sr1__client *c)
{
    atomic_store(&c->answered, 1);
    atomic_store(&c->refusals, 0);
}

static int is_rejection(const struct sr1__http_response *r)
{
    return r->code == 400 || r->code == 414 || r->code == 422;
}

int sr1__client_rejects(const struct sr1__client *c, const struct sr1__http_response *r)
{
    return is_rejection(r) && atomic_load(&c->answered);
}

/* Before its first answer a service that turns everything down may be asked wrongly. */
static int is_query_at_fault(struct sr1__client *c, const struct sr1__http_response *r)
{
    if (!is_rejection(r))
        return 0;
    return atomic_load(&c->answered) || atomic_fetch_add(&c->rejections, 1) < c->grace;
}

#define REFUSALS 8 /* HTTP 403 in a row: no firewall that dislikes one query */

/* Google tells a wrong key by 400. */
static int is_key_refused(struct sr1__client *c, const struct sr1__http_response *r,
                          const char *words)
{
    if (r->code == 403 && atomic_load(&c->answered))
        return atomic_fetch_add(&c->refusals, 1) + 1 >= REFUSALS;
    if (r->code == 400 && !atomic_load(&c->answered))
        return strcasestr(words, "api key") != NULL;
    return r->code == 401 || r->code == 403;
}

static sr1_status fail_refused_key(const struct sr1__client *c, const char *words)
{
    if (c->key_env != NULL)
        return sr1__fail(
            SR1_E_CONFIG,
            "%.600s; the service refuses the key in the environment variable "
            "%.100s",
            words, c->key_env);
    return sr1__fail(
        SR1_E_CONFIG,
        "%.600s; the service wants a key: name the environment variable that "
        "holds it (%s; of sr1-search: --key-env)",
        words, c->key_name);
}

static sr1_status end_queries(struct sr1__client *c, const struct sr1__http_response *r,
                              const char *words, sr1_search_sink *sink, size_t first,
                              size_t n)
{
    int32_t how = r->status == SR1_E_TIMEOUT ? SR1_ACTION_TIMEOUT : SR1_ACTION_ERROR;

    if (is_key_refused(c, r, words))
        return fail_refused_key(c, words);
    if (n == 1 && is_query_at_fault(c, r))
        return SR1_OK;
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_search_sink_status(sink, first + i, how, words));
    return SR1_OK;
}

sr1_status sr1__client_fail(struct sr1__client *c, const struct sr1__http_response *r,
                            sr1_search_sink *sink, size_t first, size_t n)
{
    struct sr1__buf text;
    sr1_status status;

    if (r->status == SR1_E_NOMEM)
        return sr1__fail(SR1_E_NOMEM, "%s", r->message);
    sr1__buf_init(&text, 0);
    sr1__service_explain(c->key, r, &text);
    status = sr1__buf_status(&text, "search message");
    if (status == SR1_OK)
        status = end_queries(c, r, sr1__buf_cstr(&text), sink, first, n);
    sr1__buf_free(&text);
    return status;
}

sr1_status sr1__client_fail_unreadable(const char *origin, sr1_status status,
                                       sr1_search_sink *sink, size_t first, size_t n)
{
    char text[SR1__ERROR_MAX];

    if (status != SR1_E_PARSE && status != SR1_E_LIMIT)
        return status;
    snprintf(text, sizeof text, "%.150s: %.800s", origin, sr1_last_error());
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_search_sink_status(sink, first + i, SR1_ACTION_ERROR, text));
    return SR1_OK;
}

/* ---- the service ---- */

sr1_status sr1__client_address(char **out, char origin[SR1__ORIGIN_MAX], const char *url,
                               const char *what, const char *below)
{
    struct sr1__buf b;
    const char *path;
    size_t n;

    SR1__TRY(sr1__url_origin(url, what, origin));
    path = strstr(url, "://") + 3;
    path += strcspn(path, "/?#");
    n = strlen(url);
    while (n > (size_t)(path - url) && url[n - 1] == '/')
        n--;
    if (strpbrk(path, "?#") != NULL || n == (size_t)(path - url))
        return sr1__fail(SR1_E_INVALID, "%s: it is %.150s/ and a path, nothing behind it",
                         what, origin);
    sr1__buf_init(&b, 0);
    sr1__buf_add(&b, url, n);
    sr1__buf_str(&b, below);
    return sr1__buf_finish(&b, what, out);
}

static sr1_status fail_probe(struct sr1__client *c, const struct sr1__http_response *r,
                             const char *words, const char *origin, const char *what)
{
    if (is_key_refused(c, r, words))
        return fail_refused_key(c, words);
    if (r->code != 0)
        return sr1__fail(SR1_E_NETWORK, "%.600s", words);
    return sr1__fail(r->status, "%.600s; is %s running at %.200s?", words, what, origin);
}

sr1_status sr1__client_probe(struct sr1__client *c,
                             const struct sr1__http_request *request, const char *origin,
                             const char *what, struct sr1__http_response *response)
{
    struct sr1__buf text;
    sr1_status status;

    *response = (struct sr1__http_response){0};
    SR1__TRY(sr1__http_run(c->http, request, 1, response));
    if (response->status == SR1_OK)
        return SR1_OK;
    if (response->status == SR1_E_NOMEM)
        return sr1__fail(SR1_E_NOMEM, "%s", response->message);
    sr1__buf_init(&text, 0);
    sr1__service_explain(c->key, response, &text);
    status = sr1__buf_status(&text, "search message");
    if (status == SR1_OK)
        status = fail_probe(c, response, sr1__buf_cstr(&text), origin, what);
    sr1__buf_free(&text);
    return status;
}

void sr1__client_count(const struct sr1__client *c, sr1_search_counters *counters)
{
    struct sr1__http_counts h;

    sr1__http_counts_get(c->http, &h);
    counters->requests += h.attempts;
    counters->retries += h.retries;
    counters->rate_waits += h.rate_waits;
    counters->refused += h.refused;
}
