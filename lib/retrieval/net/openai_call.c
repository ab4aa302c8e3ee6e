/* retrieval/net/openai_call.c - send a set of requests at once, retry those whose answers
 * cannot be read or whose server gave up, and collect the results. */
#include "retrieval/net/openai_client.h"

#include "base/mem.h"
#include "base/struct.h"
#include "retrieval/net/service.h"

#include <math.h>

struct sr1_openai_results {
    size_t n;
    struct sr1__openai_completion answers[];
};

/* ---- one call ---- */

struct openai_call {
    sr1_openai *client;
    const sr1_openai_request *requests; /* struct_size apart */
    struct sr1__buf *bodies;            /* [n] */
    struct sr1__http_request *asked;    /* [n] those still to be answered */
    struct sr1__http_response *responses;
    size_t *index; /* [n] of each of them */
    size_t n;
    sr1_openai_results *results;
};

static sr1_openai_request request_at(const struct openai_call *c, size_t i)
{
    sr1_openai_request q = {0};

    (void)sr1__struct_take(
        &q, sizeof(q), (const char *)c->requests + i * c->requests->struct_size, 0, "");
    return q;
}

/* Texts that requests point to. */
static int has_texts(const char *const *texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!texts || !texts[i])
            return 0;
    return 1;
}

static sr1_status check_request(const struct openai_call *c, size_t i)
{
    sr1_openai_request q = request_at(c, i);
    int kinds = (q.prompt_ids != NULL) + (q.prompt != NULL) + (q.roles != NULL);

    if (kinds != 1 || (q.roles && (!q.contents || q.n_messages == 0)) ||
        (q.prompt_ids && q.n_prompt_ids == 0) || (!q.roles && q.n_messages))
        return sr1__fail(SR1_E_INVALID,
                         "openai request %zu: give one of prompt_ids, prompt and "
                         "messages",
                         i);
    if (!has_texts(q.stop, q.n_stop) || !has_texts(q.roles, q.n_messages) ||
        !has_texts(q.contents, q.n_messages))
        return sr1__fail(SR1_E_INVALID,
                         "openai request %zu: a role, content or stop text is NULL", i);
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

static sr1_status check_requests(const struct openai_call *c)
{
    size_t size = c->n ? c->requests->struct_size : 0;

    if (c->n && (size < SR1__STRUCT_END(sr1_openai_request, max_tokens) ||
                 size % _Alignof(sr1_openai_request)))
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

static sr1_status call_begin(struct openai_call *c)
{
    c->results = sr1__calloc(1, sizeof(*c->results) +
                                    c->n * sizeof(struct sr1__openai_completion));
    c->bodies = sr1__calloc(c->n + 1, sizeof(*c->bodies));
    c->asked = sr1__calloc(c->n + 1, sizeof(*c->asked));
    c->responses = sr1__calloc(c->n + 1, sizeof(*c->responses));
    c->index = sr1__calloc(c->n + 1, sizeof(*c->index));
    SR1__CHECK_ALLOC(c->results && c->bodies && c->asked && c->responses && c->index,
                     "openai requests");
    c->results->n = c->n;
    for (size_t i = 0; i < c->n; i++) {
        sr1_openai_request q = request_at(c, i);

        sr1__buf_init(&c->bodies[i], 0);
        SR1__TRY(sr1__openai_request_write(&c->bodies[i], &q, &c->client->style));
    }
    return SR1_OK;
}

static void call_end(struct openai_call *c)
{
    for (size_t i = 0; c->bodies && i < c->n; i++)
        sr1__buf_free(&c->bodies[i]);
    sr1__free(c->bodies);
    sr1__free(c->asked);
    sr1__free(c->responses);
    sr1__free(c->index);
    sr1_openai_results_free(c->results);
}

static struct sr1__http_request to_http(const struct openai_call *c, size_t i,
                                        double wait_s)
{
    return (struct sr1__http_request){
        .url = request_at(c, i).n_messages ? c->client->chat : c->client->completions,
        .body = sr1__buf_cstr(&c->bodies[i]),
        .body_len = c->bodies[i].len,
        .wait_s = wait_s};
}

/* This thread's error becomes the answer. */
static sr1_status store_request_error(struct sr1__openai_completion *a, sr1_status status)
{
    if (status == SR1_E_NOMEM)
        return status;
    a->status = status;
    sr1__free(a->message);
    a->message = sr1__strdup(sr1_last_error());
    return a->message ? SR1_OK : sr1__fail_nomem("answer");
}

static sr1_status read_completion_response(struct openai_call *c, size_t i,
                                           const struct sr1__http_response *r)
{
    struct sr1__openai_completion *a = &c->results->answers[i];
    struct sr1__openai_completion read = {0};
    sr1_openai_request q = request_at(c, i);
    sr1_status st;

    a->http_code = r->code;
    a->is_none = 0;
    if (r->status != SR1_OK)
        return store_request_error(a, sr1__service_fail(c->client->key, r));
    st = sr1__context(
        sr1__openai_completion_read(&read, sr1__buf_cstr(&r->body), r->body.len, &q),
        "%s", c->client->origin);
    a->is_none = st == SR1_E_PARSE || st == SR1_E_NETWORK;
    if (st != SR1_OK)
        return store_request_error(a, st);
    sr1__openai_completion_clear(a);
    *a = read;
    return SR1_OK;
}

/* Ask for the first m of index after a wait; *m becomes the number of those whose answers
 * could not be read, or are none. */
static sr1_status send_unanswered(struct openai_call *c, double wait_s, size_t *m)
{
    size_t n = *m, again = 0;
    sr1_status st = SR1_OK;

    for (size_t k = 0; k < n; k++)
        c->asked[k] = to_http(c, c->index[k], wait_s);
    SR1__TRY(sr1__openai_send(c->client, c->asked, n, c->responses));
    for (size_t k = 0; k < n; k++) {
        size_t i = c->index[k];

        if (st == SR1_OK)
            st = read_completion_response(c, i, &c->responses[k]);
        if (c->results->answers[i].is_none)
            c->index[again++] = i;
        sr1__http_response_free(&c->responses[k]);
    }
    *m = again;
    return st;
}

static sr1_status send_until_answered(struct openai_call *c)
{
    const struct sr1__retry *retry = &c->client->retry;
    size_t m = c->n;
    struct sr1__rng rng;

    sr1__rng_seed(&rng, c->client->seed,
                  (uint64_t)atomic_fetch_add(&c->client->calls, 1));
    for (size_t i = 0; i < c->n; i++)
        c->index[i] = i;
    SR1__TRY(send_unanswered(c, 0, &m));
    for (int32_t k = 0; k < retry->retries && m > 0; k++)
        SR1__TRY(send_unanswered(c, sr1__retry_wait(retry, k, 0, &rng), &m));
    return SR1_OK;
}

static void count_completions(sr1_openai *client, const sr1_openai_results *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct sr1__openai_completion *a = &r->answers[i];

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
    struct openai_call c = {.client = client, .requests = requests, .n = n};
    sr1_status st;

    if (!client || !out || (n && !requests))
        return sr1__fail(SR1_E_INVALID, "openai: client, requests and out are required");
    SR1__TRY(check_requests(&c));
    st = call_begin(&c);
    if (st == SR1_OK)
        st = send_until_answered(&c);
    if (st == SR1_OK) {
        count_completions(client, c.results);
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
        sr1__openai_completion_clear(&r->answers[i]);
    sr1__free(r);
}

size_t sr1_openai_results_count(const sr1_openai_results *r)
{
    return r ? r->n : 0;
}

sr1_status sr1_openai_results_get(const sr1_openai_results *r, size_t i,
                                  sr1_openai_result *out)
{
    const struct sr1__openai_completion *a;
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
