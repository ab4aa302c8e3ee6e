/* net/openai.c - a client of OpenAI's API over the HTTP client: which server and model,
 * requests that are asked again while their answers cannot be read, results. */
#include <searchr1/openai.h>

#include "base/mem.h"
#include "base/struct.h"
#include "net/openai_wire.h"
#include "net/service.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define KEY_ENV "OPENAI_API_KEY"
#define OFFICIAL "https://api.openai.com"

struct sr1_openai {
    struct sr1__http *http;
    char *key;                         /* NULL: none */
    char *authorization;               /* header with the key; NULL: none */
    char *completions, *chat, *models; /* URLs */
    char origin[SR1__ORIGIN_MAX];
    char *model;
    int64_t context;
    struct sr1__openai_style style;
    int32_t retries;
    atomic_llong failures, prompt_tokens, completion_tokens;
};

struct sr1_openai_results {
    size_t n;
    struct sr1__openai_answer answers[];
};

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
    sr1__struct_init(options, &defaults, SR1__STRUCT_END(sr1_openai_options, seed));
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

/* A server of one's own needs no key; one that does says so. */
static sr1_status read_key(sr1_openai *c, const char *key_env)
{
    const char *name = key_env ? key_env : KEY_ENV;
    const char *value = getenv(name);

    if (!value || !*value)
        return SR1_OK;
    SR1__TRY(sr1__service_key(&c->key, name));
    return c->key ? sr1__service_bearer(&c->authorization, c->key) : SR1_OK;
}

/* base_url with or without a slash at its end, and this behind it. */
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

static sr1_status open_http(sr1_openai *c, const sr1_openai_options *o)
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

    return sr1__http_new(&c->http, &h);
}

static sr1_status http_run(const sr1_openai *c, struct sr1__http_request *requests,
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

/* The cause of a failed response as this thread's error. */
static sr1_status response_failed(const sr1_openai *c, const struct sr1__http_response *r)
{
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    sr1__service_explain(c->key, r, &text);
    st = sr1__buf_status(&text, "answer");
    if (st == SR1_OK)
        st = sr1__fail(r->status, "%s", sr1__buf_cstr(&text));
    sr1__buf_free(&text);
    return st;
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

/* Servers need not have /models; what it says is then not known. */
static sr1_status ask_models(sr1_openai *c, const char *wanted)
{
    struct sr1__openai_models m = {0};
    struct sr1__http_request request = {.url = c->models};
    struct sr1__http_response response;
    sr1_status st;

    SR1__TRY(http_run(c, &request, 1, &response));
    if (response.status == SR1_OK)
        st = sr1__openai_read_models(&m, sr1__buf_cstr(&response.body), response.body.len,
                                     wanted);
    else if (response.code == 404 || response.code == 405)
        st = SR1_OK;
    else
        st = sr1__context(response_failed(c, &response), "is a model served there?");
    if (st == SR1_OK)
        st = choose_model(c, wanted, &m);
    sr1__free(m.only);
    sr1__http_response_free(&response);
    return st;
}

static sr1_status check_options(const sr1_openai_options *o)
{
    if (o->dialect < SR1_OPENAI_DIALECT_AUTO || o->dialect > SR1_OPENAI_DIALECT_VLLM)
        return sr1__fail(SR1_E_INVALID, "openai: dialect %d is not known",
                         (int)o->dialect);
    return SR1_OK;
}

static sr1_status set_up(sr1_openai *c, const sr1_openai_options *o)
{
    SR1__TRY(check_options(o));
    SR1__TRY(sr1__url_origin(o->base_url, "openai server", c->origin));
    SR1__TRY(join_url(&c->completions, o->base_url, "/completions"));
    SR1__TRY(join_url(&c->chat, o->base_url, "/chat/completions"));
    SR1__TRY(join_url(&c->models, o->base_url, "/models"));
    SR1__TRY(read_key(c, o->key_env));
    SR1__TRY(open_http(c, o));
    c->retries = o->retries;
    c->style.completion = strcmp(c->origin, OFFICIAL) == 0;
    SR1__TRY(ask_models(c, o->model ? o->model : ""));
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
    sr1_status st;

    if (!out || !options)
        return sr1__fail(SR1_E_INVALID, "openai: out and options are required");
    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_openai_options, base_url),
                              "openai options"));
    c = sr1__calloc(1, sizeof(*c));
    if (!c)
        return sr1__fail_nomem("openai client");
    st = set_up(c, &o);
    if (st != SR1_OK) {
        sr1_openai_free(c);
        return st;
    }
    *out = c;
    return SR1_OK;
}

const char *sr1_openai_model(const sr1_openai *client)
{
    return client->model;
}

int64_t sr1_openai_context(const sr1_openai *client)
{
    return client->context;
}

int32_t sr1_openai_dialect(const sr1_openai *client)
{
    return client->style.dialect;
}

void sr1_openai_cancel(sr1_openai *client)
{
    sr1__http_cancel(client->http);
}

sr1_status sr1_openai_counters_get(const sr1_openai *client, sr1_openai_counters *out)
{
    sr1_openai_counters k = {.failures = atomic_load(&client->failures),
                             .prompt_tokens = atomic_load(&client->prompt_tokens),
                             .completion_tokens =
                                 atomic_load(&client->completion_tokens)};
    struct sr1__http_counts h;

    sr1__http_counts_get(client->http, &h);
    k.requests = h.attempts;
    k.retries = h.retries;
    return sr1__struct_give(out, &k, sizeof(k), "openai counters");
}

/* ---- one call ---- */

struct call {
    sr1_openai *client;
    const sr1_openai_request *requests; /* struct_size apart */
    struct sr1__buf *bodies;            /* [n] */
    struct sr1__http_request *asked;    /* [n] those still to be answered */
    struct sr1__http_response *responses;
    size_t *index; /* [n] of each of them */
    size_t n;
    sr1_openai_results *results;
};

static sr1_openai_request request_at(const struct call *c, size_t i)
{
    sr1_openai_request q = {0};

    (void)sr1__struct_take(
        &q, sizeof(q), (const char *)c->requests + i * c->requests->struct_size, 0, "");
    return q;
}

static sr1_status check_request(const struct call *c, size_t i)
{
    sr1_openai_request q = request_at(c, i);
    int kinds = (q.prompt_ids != NULL) + (q.prompt != NULL) + (q.roles != NULL);

    if (kinds != 1 || (q.roles && (!q.contents || q.n_messages == 0)) ||
        (q.prompt_ids && q.n_prompt_ids == 0) || (!q.roles && q.n_messages))
        return sr1__fail(SR1_E_INVALID,
                         "openai request %zu: give one of prompt_ids, prompt and "
                         "messages",
                         i);
    if (q.max_tokens < 1 || !(q.temperature >= 0.0) || !isfinite(q.temperature) ||
        !(q.top_p >= 0.0 && q.top_p <= 1.0) || q.top_k < 0)
        return sr1__fail(SR1_E_INVALID,
                         "openai request %zu: max_tokens, temperature, top_p or top_k is "
                         "out of range",
                         i);
    if (q.top_k > 0 && c->client->style.dialect != SR1_OPENAI_DIALECT_VLLM)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "openai request %zu: OpenAI's API has no top_k; set it to 0, or "
                         "the dialect to vllm where the server knows it",
                         i);
    return SR1_OK;
}

static sr1_status check_requests(const struct call *c)
{
    size_t size = c->n ? c->requests->struct_size : 0;

    if (c->n && size < SR1__STRUCT_END(sr1_openai_request, max_tokens))
        return sr1__fail(SR1_E_INVALID, "openai request: struct_size is not set");
    for (size_t i = 0; i < c->n; i++) {
        const sr1_openai_request *q =
            (const void *)((const char *)c->requests + i * size);

        if (q->struct_size != size)
            return sr1__fail(SR1_E_INVALID,
                             "openai request %zu: its struct_size differs from the "
                             "first's",
                             i);
        SR1__TRY(check_request(c, i));
    }
    return SR1_OK;
}

static sr1_status call_begin(struct call *c)
{
    c->results =
        sr1__calloc(1, sizeof(*c->results) + c->n * sizeof(struct sr1__openai_answer));
    c->bodies = sr1__calloc(c->n + 1, sizeof(*c->bodies));
    c->asked = sr1__calloc(c->n + 1, sizeof(*c->asked));
    c->responses = sr1__calloc(c->n + 1, sizeof(*c->responses));
    c->index = sr1__calloc(c->n + 1, sizeof(*c->index));
    if (!c->results || !c->bodies || !c->asked || !c->responses || !c->index)
        return sr1__fail_nomem("openai requests");
    c->results->n = c->n;
    for (size_t i = 0; i < c->n; i++) {
        sr1_openai_request q = request_at(c, i);

        sr1__buf_init(&c->bodies[i], 0);
        SR1__TRY(sr1__openai_write(&c->bodies[i], &q, &c->client->style));
    }
    return SR1_OK;
}

static void call_end(struct call *c)
{
    for (size_t i = 0; c->bodies && i < c->n; i++)
        sr1__buf_free(&c->bodies[i]);
    sr1__free(c->bodies);
    sr1__free(c->asked);
    sr1__free(c->responses);
    sr1__free(c->index);
    sr1_openai_results_free(c->results);
}

static struct sr1__http_request to_http(const struct call *c, size_t i)
{
    return (struct sr1__http_request){
        .url = request_at(c, i).n_messages ? c->client->chat : c->client->completions,
        .body = sr1__buf_cstr(&c->bodies[i]),
        .body_len = c->bodies[i].len};
}

/* This thread's error becomes the answer. */
static sr1_status answer_failed(struct sr1__openai_answer *a, sr1_status status)
{
    if (status == SR1_E_NOMEM)
        return status;
    a->status = status;
    sr1__free(a->message);
    a->message = sr1__strdup(sr1_last_error());
    return a->message ? SR1_OK : sr1__fail_nomem("answer");
}

static sr1_status read_response(struct call *c, size_t i,
                                const struct sr1__http_response *r)
{
    struct sr1__openai_answer *a = &c->results->answers[i];
    struct sr1__openai_answer read = {0};
    sr1_openai_request q = request_at(c, i);
    sr1_status st;

    a->http_code = r->code;
    if (r->status != SR1_OK)
        return answer_failed(a, response_failed(c->client, r));
    st = sr1__context(sr1__openai_read(&read, sr1__buf_cstr(&r->body), r->body.len, &q),
                      "%s", c->client->origin);
    if (st != SR1_OK)
        return answer_failed(a, st);
    sr1__openai_answer_clear(a);
    *a = read;
    return SR1_OK;
}

/* Ask for the first m of index; *m becomes the number of those whose answers could not
 * be read. */
static sr1_status ask_once(struct call *c, size_t *m)
{
    size_t n = *m, again = 0;
    sr1_status st = SR1_OK;

    for (size_t k = 0; k < n; k++)
        c->asked[k] = to_http(c, c->index[k]);
    SR1__TRY(http_run(c->client, c->asked, n, c->responses));
    for (size_t k = 0; k < n; k++) {
        size_t i = c->index[k];

        if (st == SR1_OK)
            st = read_response(c, i, &c->responses[k]);
        if (c->results->answers[i].status == SR1_E_PARSE)
            c->index[again++] = i;
        sr1__http_response_free(&c->responses[k]);
    }
    *m = again;
    return st;
}

static sr1_status ask(struct call *c)
{
    size_t m = c->n;

    for (size_t i = 0; i < c->n; i++)
        c->index[i] = i;
    for (int32_t k = 0; k <= c->client->retries && m > 0; k++)
        SR1__TRY(ask_once(c, &m));
    return SR1_OK;
}

static void count(sr1_openai *client, const sr1_openai_results *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct sr1__openai_answer *a = &r->answers[i];

        atomic_fetch_add(&client->failures, a->status != SR1_OK);
        if (a->status != SR1_OK)
            continue;
        atomic_fetch_add(&client->prompt_tokens,
                         a->prompt_tokens > 0 ? a->prompt_tokens : 0);
        atomic_fetch_add(&client->completion_tokens,
                         a->completion_tokens > 0 ? a->completion_tokens : 0);
    }
}

sr1_status sr1_openai_run(sr1_openai *client, const sr1_openai_request *requests,
                          size_t n, sr1_openai_results **out)
{
    struct call c = {.client = client, .requests = requests, .n = n};
    sr1_status st;

    if (!client || !out || (n && !requests))
        return sr1__fail(SR1_E_INVALID, "openai: client, requests and out are required");
    SR1__TRY(check_requests(&c));
    st = call_begin(&c);
    if (st == SR1_OK)
        st = ask(&c);
    if (st == SR1_OK) {
        count(client, c.results);
        *out = c.results;
        c.results = NULL;
    }
    call_end(&c);
    return st;
}

/* ---- results ---- */

void sr1_openai_results_free(sr1_openai_results *r)
{
    for (size_t i = 0; r && i < r->n; i++)
        sr1__openai_answer_clear(&r->answers[i]);
    sr1__free(r);
}

size_t sr1_openai_results_count(const sr1_openai_results *r)
{
    return r->n;
}

sr1_status sr1_openai_results_get(const sr1_openai_results *r, size_t i,
                                  sr1_openai_result *out)
{
    const struct sr1__openai_answer *a;
    sr1_openai_result x = {0};

    if (!r || i >= r->n)
        return sr1__fail(SR1_E_INVALID, "openai: there is no result %zu", i);
    a = &r->answers[i];
    x.status = a->status;
    x.finish = a->finish;
    x.message = a->message ? a->message : "";
    x.text = a->text ? a->text : "";
    x.text_len = a->text_len;
    x.stop_text = a->stop_text;
    x.stop_text_kept = a->stop_kept;
    x.n_prompt_ids = (int32_t)a->n_prompt_ids;
    x.prompt_ids = a->prompt_ids;
    x.n_tokens = a->n_tokens;
    x.ids = a->ids;
    x.log_probs = a->log_probs;
    x.tokens = a->tokens;
    x.token_sizes = a->tokens ? a->token_sizes : NULL;
    x.prompt_tokens = a->prompt_tokens;
    x.completion_tokens = a->completion_tokens;
    x.http_code = a->http_code;
    return sr1__struct_give(out, &x, sizeof(x), "openai result");
}
