/* retrieval/net/openai.c - open a client of OpenAI's API over the HTTP client: server,
 * model, and the requests that are not completions. */
#include "retrieval/net/openai_client.h"

#include "base/mem.h"
#include "base/struct.h"
#include "retrieval/net/service.h"

#include <stdlib.h>
#include <string.h>

#define KEY_ENV "OPENAI_API_KEY"
#define OFFICIAL "https://api.openai.com"

static const sr1_openai_options defaults = {
    .struct_size = sizeof(sr1_openai_options),
    .timeout_s = 600,
    .connect_timeout_s = 10,
    .retries = 3,
    .concurrency = 32,
    .retry_first_s = 0.5,
    .retry_max_s = 20,
    .retry_after_max_s = 60,
    .breaker_failures = 10,
    .breaker_rest_s = 10,
    .max_body_bytes = (uint64_t)64 << 20,
};

void sr1_openai_options_init(sr1_openai_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

/* ---- opening ---- */

void sr1_openai_free(sr1_openai *c)
{
    if (!c)
        return;
    sr1__http_free(c->http);
    sr1__service_wipe(c->authorization);
    sr1__service_wipe(c->key);
    sr1__free(c->completions);
    sr1__free(c->chat);
    sr1__free(c->models);
    sr1__free(c->model);
    sr1__free(c);
}

/* A private server needs no key; a server that needs one reports it. */
static sr1_status read_openai_key(sr1_openai *c, const char *key_env)
{
    const char *name = key_env ? key_env : KEY_ENV;
    const char *value = getenv(name);

    if (!value || !*value)
        return SR1_OK;
    SR1__TRY(sr1__service_key(&c->key, name));
    return c->key ? sr1__service_bearer(&c->authorization, c->key) : SR1_OK;
}

/* *out = base without trailing slashes, followed by path. */
static sr1_status join_url(char **out, const char *base, const char *path)
{
    size_t n = strlen(base);
    struct sr1__buf b;

    while (n > 0 && base[n - 1] == '/')
        n--;
    sr1__buf_init(&b, 0);
    sr1__buf_add(&b, base, n);
    sr1__buf_str(&b, path);
    *out = sr1__buf_take(&b);
    if (*out)
        return SR1_OK;
    sr1__buf_free(&b);
    return sr1__fail_nomem("server address");
}

static sr1_status open_openai_http(sr1_openai *c, const sr1_openai_options *o)
{
    const struct sr1__retry retry = {o->retries, o->retry_first_s, o->retry_max_s,
                                     o->retry_after_max_s};
    struct sr1__http_options h = {
        .connect_timeout_s = o->connect_timeout_s,
        .timeout_s = o->timeout_s,
        .max_body = o->max_body_bytes < SIZE_MAX / 4 ? (size_t)o->max_body_bytes : 0,
        .concurrency = o->concurrency,
        .rate = o->rate_limit,
        .retry = retry,
        .breaker_failures = o->breaker_failures,
        .breaker_rest_s = o->breaker_rest_s,
        .ca_file = o->ca_file,
        .seed = o->seed,
    };

    c->retry = retry;
    c->seed = o->seed;
    return sr1__http_new(&c->http, &h);
}

sr1_status sr1__openai_send(const sr1_openai *c, struct sr1__http_request *requests,
                            size_t n, struct sr1__http_response *responses)
{
    const char *headers[] = {"Content-Type: application/json", "Accept: application/json",
                             c->authorization};

    for (size_t i = 0; i < n; i++) {
        requests[i].headers = headers;
        requests[i].n_headers = c->authorization ? 3 : 2;
    }
    return sr1__http_run(c->http, requests, n, responses);
}

static sr1_status choose_model(sr1_openai *c, const char *wanted,
                               const struct sr1__openai_models *m)
{
    const char *name = *wanted ? wanted : m->only;

    if (!name)
        return sr1__fail(SR1_E_CONFIG, "%.200s has %zu models; say which (openai_model)",
                         c->origin, m->n);
    c->model = sr1__strdup(name);
    c->style.model = c->model;
    c->context = m->context > 0 ? m->context : 0;
    return c->model ? SR1_OK : sr1__fail_nomem("model name");
}

/* Servers need not have /models; its information is then missing. */
static sr1_status request_models(sr1_openai *c, const char *wanted)
{
    struct sr1__openai_models m = {0};
    struct sr1__http_request request = {.url = c->models};
    struct sr1__http_response response;
    sr1_status st;

    SR1__TRY(sr1__openai_send(c, &request, 1, &response));
    if (response.status == SR1_OK)
        st = sr1__openai_read_models(&m, sr1__buf_cstr(&response.body), response.body.len,
                                     wanted);
    else if (response.code == 404 || response.code == 405)
        st = SR1_OK;
    else
        st = sr1__context(sr1__service_fail(c->key, &response),
                          "is a model served there?");
    if (st == SR1_OK)
        st = choose_model(c, wanted, &m);
    sr1__free(m.only);
    sr1__http_response_free(&response);
    return st;
}

static sr1_status check_openai_options(const sr1_openai_options *o)
{
    if (o->dialect < SR1_OPENAI_DIALECT_AUTO || o->dialect > SR1_OPENAI_DIALECT_VLLM)
        return sr1__fail(SR1_E_INVALID, "openai: dialect %d is not known",
                         (int)o->dialect);
    return SR1_OK;
}

static sr1_status set_up_openai_client(sr1_openai *c, const sr1_openai_options *o)
{
    SR1__TRY(check_openai_options(o));
    SR1__TRY(sr1__url_origin(o->base_url, "openai server", c->origin));
    SR1__TRY(join_url(&c->completions, o->base_url, "/completions"));
    SR1__TRY(join_url(&c->chat, o->base_url, "/chat/completions"));
    SR1__TRY(join_url(&c->models, o->base_url, "/models"));
    SR1__TRY(read_openai_key(c, o->key_env));
    SR1__TRY(open_openai_http(c, o));
    c->style.completion = strcmp(c->origin, OFFICIAL) == 0;
    SR1__TRY(request_models(c, o->model ? o->model : ""));
    c->style.dialect = o->dialect;
    if (o->dialect == SR1_OPENAI_DIALECT_AUTO)
        c->style.dialect =
            c->context > 0 ? SR1_OPENAI_DIALECT_VLLM : SR1_OPENAI_DIALECT_PLAIN;
    return SR1_OK;
}

sr1_status sr1_openai_new(sr1_openai **out, const sr1_openai_options *options)
{
    sr1_openai_options o = defaults;
    sr1_openai *c;

    if (!out || !options)
        return sr1__fail(SR1_E_INVALID, "openai: out and options are required");
    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_openai_options, base_url),
                              "openai options"));
    SR1__CALLOC(c, 1, "openai client");
    SR1__RETURN_NEW(out, c, set_up_openai_client(c, &o), sr1_openai_free);
}

const char *sr1_openai_model(const sr1_openai *client)
{
    return client ? client->model : "";
}

sr1_status sr1__openai_set_model(sr1_openai *c, const char *name)
{
    char *copy = sr1__strdup(name);

    if (!copy)
        return sr1__fail_nomem("model name");
    sr1__free(c->model);
    c->model = copy;
    c->style.model = copy;
    return SR1_OK;
}

int64_t sr1_openai_context(const sr1_openai *client)
{
    return client ? client->context : 0;
}

int32_t sr1_openai_dialect(const sr1_openai *client)
{
    return client ? client->style.dialect : SR1_OPENAI_DIALECT_AUTO;
}

void sr1_openai_cancel(sr1_openai *client)
{
    if (client)
        sr1__http_cancel(client->http);
}

sr1_status sr1_openai_counters_get(const sr1_openai *client, sr1_openai_counters *out)
{
    sr1_openai_counters k = {0};
    struct sr1__http_counts h;

    SR1__REQUIRE(client, "openai counters: client");
    k.failures = atomic_load(&client->failures);
    k.prompt_tokens = atomic_load(&client->prompt_tokens);
    k.completion_tokens = atomic_load(&client->completion_tokens);
    sr1__http_counts_get(client->http, &h);
    k.requests = h.attempts;
    k.retries = h.retries;
    return sr1__struct_give(out, &k, sizeof(k), "openai counters");
}
