/* search/client.c - options of HTTP engines, and what is told about failures. */
#include "search/client.h"

#include "base/mem.h"
#include "base/struct.h"
#include "net/service.h"

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
    sr1__struct_init(options, &defaults,
                     SR1__STRUCT_END(sr1_search_http_options, engine_id));
}

sr1_status sr1__client_options(sr1_search_http_options *o,
                               const sr1_search_http_options *given)
{
    *o = defaults;
    return sr1__struct_take(o, sizeof(*o), given,
                            SR1__STRUCT_END(sr1_search_http_options, timeout_s),
                            "search options");
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

    c->http = NULL;
    c->key = NULL;
    status = sr1__service_key(&c->key, key_env);
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
    c->http = NULL;
    c->key = NULL;
}

/* ---- failures ---- */

sr1_status sr1__client_fail(const struct sr1__client *c,
                            const struct sr1__http_response *r, sr1_search_sink *sink,
                            size_t first, size_t n)
{
    struct sr1__buf text;
    int32_t how = r->status == SR1_E_TIMEOUT ? SR1_SEARCH_TIMEOUT : SR1_SEARCH_ERROR;
    sr1_status status;

    if (r->status == SR1_E_NOMEM)
        return sr1__fail(SR1_E_NOMEM, "%s", r->message);
    sr1__buf_init(&text, 0);
    sr1__service_explain(c->key, r, &text);
    status = sr1__buf_status(&text, "search message");
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        status = sr1_search_sink_status(sink, first + i, how, sr1__buf_cstr(&text));
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

void sr1__add_json_text(struct sr1__buf *b, const json_t *string)
{
    const char *s = json_string_value(string);
    size_t n = json_string_length(string);

    for (size_t i = 0; i < n; i++) {
        if (s[i] != '\0')
            sr1__buf_char(b, s[i]);
        else
            sr1__buf_str(b, "\xEF\xBF\xBD");
    }
}
