/* retrieval/net/serving.c - see serving.h. */
#include "retrieval/net/serving.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/thread.h"
#include "config/config.h"
#include "retrieval/net/service.h"

#include <inttypes.h>
#include <string.h>

/* ---- one request ---- */

/* A server that answers may still have failed: {"success": false, "message": ...}. */
static sr1_status check_success(const struct sr1__serving_call *c, const json_t *answer)
{
    const char *why = json_string_value(json_object_get(answer, "message"));

    if (!json_is_false(json_object_get(answer, "success")))
        return SR1_OK;
    return sr1__fail(SR1_E_NETWORK, "%.200s: it reports a failure: %.300s", c->origin,
                     why ? why : "it does not say why");
}

static sr1_status read_serving_answer(struct sr1__serving_call *c,
                                      const struct sr1__http_response *r, json_t **answer)
{
    json_t *all = NULL;
    sr1_status st;

    c->code = r->code;
    if (r->status != SR1_OK)
        return sr1__service_fail(c->key, r);
    /* it need not say anything */
    (void)sr1__json_parse(&all, sr1__buf_cstr(&r->body), r->body.len, "answer");
    st = check_success(c, all);
    if (st == SR1_OK && answer)
        *answer = all;
    else
        json_decref(all);
    return st;
}

/* body NULL: GET. */
static sr1_status send_serving_request(struct sr1__serving_call *c, const char *path,
                                       const char *body, size_t n, json_t **answer)
{
    const char *headers[] = {"Content-Type: application/json", c->authorization};
    struct sr1__http_request q = {.headers = headers,
                                  .n_headers = c->authorization ? 2 : 1,
                                  .body = body,
                                  .body_len = n,
                                  .timeout_s = c->deadline - sr1__now()};
    struct sr1__http_response r;
    struct sr1__buf url;
    sr1_status st;

    if (q.timeout_s <= 0)
        return sr1__fail(SR1_E_TIMEOUT, "%.200s: weight_sync_timeout has passed",
                         c->origin);
    sr1__buf_init(&url, 0);
    sr1__buf_fmt(&url, "%s%s", *path == '/' ? c->root : "", path);
    st = sr1__buf_status(&url, "address");
    q.url = sr1__buf_cstr(&url);
    c->code = 0;
    if (st == SR1_OK)
        st = sr1__http_run(c->http, &q, 1, &r);
    if (st == SR1_OK) {
        st = read_serving_answer(c, &r, answer);
        sr1__http_response_free(&r);
    }
    sr1__buf_free(&url);
    return *path == '/' ? sr1__context(st, "%.60s", path) : st;
}

sr1_status sr1__serving_get(struct sr1__serving_call *c, const char *path,
                            json_t **answer)
{
    return send_serving_request(c, path, NULL, 0, answer);
}

sr1_status sr1__serving_post(struct sr1__serving_call *c, const char *path, json_t *body)
{
    struct sr1__buf text;
    sr1_status st = SR1_OK;

    sr1__buf_init(&text, 0);
    if (body)
        st = sr1__json_dump(body, 0, &text);
    if (st == SR1_OK)
        st = send_serving_request(c, path, sr1__buf_cstr(&text), text.len, NULL);
    sr1__buf_free(&text);
    json_decref(body);
    return st;
}

/* A request that a thread of its own sends. */
struct request_beside {
    struct sr1__serving_call *c;
    const char *path;
    json_t *body;
    atomic_int failed;
    struct sr1__error error;
};

static void *send_request_beside(void *arg)
{
    struct request_beside *r = arg;
    sr1_status st = sr1__serving_post(r->c, r->path, r->body);

    sr1__error_save(&r->error, st);
    if (st != SR1_OK)
        atomic_store(&r->failed, 1);
    return NULL;
}

sr1_status sr1__serving_post_beside(struct sr1__serving_call *c, const char *path,
                                    json_t *body, sr1__serving_work work, void *arg)
{
    struct request_beside r = {.c = c, .path = path, .body = body};
    struct sr1__serving_wait wait = {c->deadline, &r.failed};
    struct sr1__error own;
    pthread_t thread;

    if (!body)
        return sr1__fail_nomem("request");
    if (sr1__thread_start(&thread, send_request_beside, &r) != 0) {
        json_decref(body);
        return sr1__fail(SR1_E_NOMEM, "no thread for %.60s", path);
    }
    sr1__error_save(&own, work(c, &wait, arg));
    (void)pthread_join(thread, NULL);
    if (own.code != SR1_OK && own.code != SR1_E_CANCELLED)
        return sr1__error_raise(&own);
    return sr1__error_raise(&r.error);
}

sr1_status sr1__serving_check_version(const struct sr1__serving_call *c,
                                      const json_t *answer)
{
    const char *said = json_string_value(json_object_get(answer, "weight_version"));
    char wanted[32];

    snprintf(wanted, sizeof(wanted), "%" PRId64, c->weights->version);
    if (!said || strcmp(said, wanted) == 0)
        return SR1_OK;
    return sr1__fail(SR1_E_STATE,
                     "%.200s took the weights of version %s and reports version %.60s",
                     c->origin, wanted, said);
}

/* ---- the engine of a server ---- */

/* Does it answer GET path with this member? */
static int has_member(struct sr1__serving_call *c, const char *path, const char *member)
{
    json_t *answer = NULL;
    int has = sr1__serving_get(c, path, &answer) == SR1_OK &&
              json_is_string(json_object_get(answer, member));

    json_decref(answer);
    return has;
}

/* Routes that one kind alone has. */
static sr1_status detect_engine(struct sr1__serving_call *c)
{
    static const struct {
        const char *path, *member;
        const struct sr1__serving_ops *ops;
    } marks[] = {{"/model_info", "model_path", &sr1__serving_sglang},
                 {"/get_model_info", "model_path", &sr1__serving_sglang},
                 {"/version", "version", &sr1__serving_vllm}};

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (has_member(c, marks[i].path, marks[i].member)) {
            c->ops = marks[i].ops;
            return SR1_OK;
        }
        if (c->code == 0) /* nobody answers */
            return sr1__context(SR1_E_NETWORK, "engine");
    }
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%.200s has neither vLLM's routes (/version) nor SGLang's "
                     "(/model_info); set openai_engine, or openai_sync_url",
                     c->origin);
}

static const struct sr1__serving_ops *find_configured_engine(const sr1_config *c)
{
    static const struct sr1__serving_ops *const engines[] = {&sr1__serving_vllm,
                                                             &sr1__serving_sglang};

    if (*sr1__config_str(c, "openai_sync_url"))
        return &sr1__serving_url;
    for (size_t i = 0; i < sizeof(engines) / sizeof(engines[0]); i++)
        if (sr1__config_is(c, "openai_engine", engines[i]->name))
            return engines[i];
    return NULL; /* auto */
}

/* ---- one server ---- */

static sr1_status run_step(struct sr1__serving_call *c,
                           sr1_status (*step)(struct sr1__serving_call *c))
{
    return step ? step(c) : SR1_OK;
}

static sr1_status join_server(struct sr1__serving_call *c)
{
    if (!c->weights->link)
        return SR1_OK;
    if (!c->ops->join)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%.200s: engine %s takes no weights by NCCL; set "
                         "weight_sync_backend to disk",
                         c->origin, c->ops->name);
    return c->ops->join(c);
}

static sr1_status push_model_to(struct sr1__serving_call *c)
{
    SR1__TRY(join_server(c));
    SR1__TRY(run_step(c, c->ops->pause));
    SR1__TRY(run_step(c, c->weights->link ? c->ops->receive : c->ops->update));
    SR1__TRY(run_step(c, c->ops->flush));
    SR1__TRY(run_step(c, c->ops->version));
    return run_step(c, c->ops->resume);
}

static sr1_status push_adapter_to(struct sr1__serving_call *c)
{
    if (!c->ops->adapt)
        return sr1__fail(SR1_E_UNSUPPORTED, "the engine takes no adapters");
    return c->ops->adapt(c);
}

static sr1_status push_to_server(struct sr1__serving_call *c)
{
    if (!c->ops)
        SR1__TRY(detect_engine(c));
    SR1__TRY(run_step(c, c->ops->probe));
    return c->weights->adapter ? push_adapter_to(c) : push_model_to(c);
}

/* ---- all servers ---- */

struct serving_push {
    struct sr1__server_pool *pool;
    struct sr1__serving_call *calls; /* [n] */
    size_t n;
    char *key, *authorization;
    struct sr1__http *http;
    char **sync_urls;
    size_t n_sync_urls;
};

/* Requests that ask for an adapter name it. */
static sr1_status admit_server(struct serving_push *p, size_t i)
{
    struct sr1__serving_call *c = &p->calls[i];
    struct sr1__buf name;
    sr1_status st = SR1_OK;

    sr1__buf_init(&name, 0);
    if (c->weights->adapter)
        st = c->ops->name_adapter(&name, sr1__server_pool_model(p->pool),
                                  c->weights->adapter);
    if (st == SR1_OK)
        st = sr1__server_pool_admit(p->pool, i,
                                    c->weights->adapter ? sr1__buf_cstr(&name) : NULL);
    sr1__buf_free(&name);
    return st;
}

/* A call of the pool of threads; its failure is the server's. */
static sr1_status push_one(void *arg, size_t i)
{
    struct serving_push *p = arg;
    struct sr1__serving_call *c = &p->calls[i];
    sr1_status st = push_to_server(c);

    if (st == SR1_OK)
        st = admit_server(p, i);
    if (st != SR1_OK) {
        sr1__error_save(&c->error, st);
        if (c->weights->link) /* after a failure a group is good for nothing */
            c->weights->link->close(c->weights->link->self, i);
        sr1__server_pool_exclude(p->pool, i, c->error.text);
    }
    return SR1_OK;
}

/* The address without /v1. */
static sr1_status make_root(char **root, const char *url)
{
    size_t n = strlen(url);

    while (n > 0 && url[n - 1] == '/')
        n--;
    if (n > 3 && memcmp(url + n - 3, "/v1", 3) == 0)
        n -= 3;
    *root = sr1__strndup(url, n);
    return *root ? SR1_OK : sr1__fail_nomem("server address");
}

static sr1_status open_push_http(struct serving_push *p, const sr1_config *c)
{
    int by_url = find_configured_engine(c) == &sr1__serving_url;
    struct sr1__http_options o = {
        .connect_timeout_s = 10,
        .timeout_s = sr1__config_real(c, "weight_sync_timeout"),
        .max_body = (size_t)1 << 20,
        .concurrency = (int32_t)p->n,
        .retry = {by_url ? (int32_t)sr1__config_int(c, "openai_retries") : 0, 0.5, 20,
                  60},
        .ca_file = sr1__config_str(c, "openai_ca_file"),
    };

    if (*sr1__config_secret(c, "openai_api_key"))
        SR1__TRY(sr1__service_key(&p->key, "OPENAI_API_KEY"));
    if (p->key)
        SR1__TRY(sr1__service_bearer(&p->authorization, p->key));
    return sr1__http_new(&p->http, &o);
}

static sr1_status read_sync_urls(struct serving_push *p, const sr1_config *c)
{
    SR1__TRY(sr1__config_list(c, "openai_sync_url", &p->sync_urls, &p->n_sync_urls));
    if (p->n_sync_urls == 0 || p->n_sync_urls == p->n)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "openai_sync_url names %zu addresses, openai_base_url %zu servers; "
                     "give one for each, in the same order",
                     p->n_sync_urls, p->n);
}

static sr1_status begin_push(struct serving_push *p, const sr1_config *c,
                             const struct sr1__serving_weights *weights)
{
    double deadline = sr1__now() + sr1__config_real(c, "weight_sync_timeout");

    SR1__CALLOC(p->calls, p->n, "weight sync");
    SR1__TRY(read_sync_urls(p, c));
    SR1__TRY(open_push_http(p, c));
    for (size_t i = 0; i < p->n; i++) {
        p->calls[i] = (struct sr1__serving_call){
            .ops = find_configured_engine(c),
            .weights = weights,
            .http = p->http,
            .key = p->key,
            .authorization = p->authorization,
            .pause_mode = sr1__config_str(c, "pause_mode"),
            .sync_url = p->n_sync_urls ? p->sync_urls[i] : "",
            .origin = sr1__server_pool_origin(p->pool, i),
            .server = i,
            .deadline = deadline,
        };
        SR1__TRY(make_root(&p->calls[i].root, sr1__server_pool_url(p->pool, i)));
    }
    return SR1_OK;
}

static void end_push(struct serving_push *p)
{
    for (size_t i = 0; p->calls && i < p->n; i++)
        sr1__free(p->calls[i].root);
    sr1__free(p->calls);
    sr1__free(p->sync_urls);
    sr1__http_free(p->http);
    sr1__service_wipe(p->authorization);
    sr1__service_wipe(p->key);
}

/* No server took them: each with its reason. */
static sr1_status fail_push(const struct serving_push *p)
{
    const struct sr1__serving_ops *ops = p->calls[0].ops;
    struct sr1__buf text;
    sr1_status st = p->calls[0].error.code;

    if (p->n == 1)
        return sr1__context(sr1__error_raise(&p->calls[0].error), "%s",
                            ops ? ops->name : "openai_engine");
    sr1__buf_init(&text, 0);
    for (size_t i = 0; i < p->n; i++)
        sr1__buf_fmt(&text, "%s%s (%.120s)", i ? "; " : "", p->calls[i].origin,
                     p->calls[i].error.text);
    st = sr1__fail(st, "no server took the weights of step %" PRId64 ": %.700s. %s",
                   p->calls[0].weights->version, sr1__buf_cstr(&text),
                   ops ? ops->remedy : "set openai_engine");
    sr1__buf_free(&text);
    return st;
}

static sr1_status run_push(struct serving_push *p, uint8_t *taken)
{
    struct sr1__pool *threads = NULL;
    size_t n = 0;

    sr1__server_pool_hold(p->pool);
    SR1__TRY(sr1__pool_new(&threads, (int32_t)p->n));
    (void)sr1__pool_run(threads, p->n, push_one, p);
    sr1__pool_free(threads);
    for (size_t i = 0; i < p->n; i++) {
        taken[i] = p->calls[i].error.code == SR1_OK;
        n += taken[i];
    }
    return n > 0 ? SR1_OK : fail_push(p);
}

sr1_status sr1__serving_push(struct sr1__server_pool *pool, const sr1_config *c,
                             const struct sr1__serving_weights *weights, uint8_t *taken)
{
    struct serving_push p = {.pool = pool, .n = sr1__server_pool_size(pool)};
    sr1_status st = begin_push(&p, c, weights);

    if (st == SR1_OK)
        st = run_push(&p, taken);
    end_push(&p);
    return st;
}
