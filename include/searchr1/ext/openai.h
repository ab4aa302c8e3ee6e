/* searchr1/ext/openai.h - text from a model behind a server that speaks OpenAI's API.
 *
 *     sr1_openai_request q = { .struct_size = sizeof q, .max_tokens = 256 };
 *     const char *roles[] = { "user" }, *contents[] = { "Where is the tower?" };
 *     sr1_openai_options config = { .struct_size = sizeof config };
 *     sr1_openai *client = NULL;
 *     sr1_openai_results *said = NULL;
 *     sr1_openai_result r = { .struct_size = sizeof r };
 *
 *     q.roles = roles, q.contents = contents, q.n_messages = 1;
 *     sr1_openai_options_init(&config);
 *     config.base_url = "http://127.0.0.1:8000/v1";
 *     sr1_openai_new(&client, &config);
 *     sr1_openai_run(client, &q, 1, &said);
 *     if (sr1_openai_results_get(said, 0, &r) == SR1_OK && r.status == SR1_OK)
 *         puts(r.text);
 *     sr1_openai_results_free(said);
 *     sr1_openai_free(client);
 *
 * A prompt of token ids (or text) goes to /completions, messages to /chat/completions.
 * vLLM and SGLang give the ids and log-probs of what they generated; most others text
 * only (docs/remote.md).
 *
 * Ownership: free a client with sr1_openai_free, results with sr1_openai_results_free.
 * Errors:    a request that fails alone is no error of the call: the status of its
 *            result says so. Outputs are untouched on failure.
 * Threads:   any number of threads may use one client at a time; results are read-only.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_OPENAI_H
#define SEARCHR1_EXT_OPENAI_H

#include <searchr1/base.h>
#include <searchr1/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_openai sr1_openai;
typedef struct sr1_openai_results sr1_openai_results;

/* Which fields a server knows. */
enum {
    SR1_OPENAI_DIALECT_AUTO = 0, /* asked at opening: /models tells max_model_len */
    SR1_OPENAI_DIALECT_PLAIN =
        1, /* OpenAI's own only; others refuse what they do not know */
    SR1_OPENAI_DIALECT_VLLM = 2 /* vLLM's too: top_k, token ids, stop text kept */
};

typedef struct sr1_openai_options {
    size_t struct_size;   /* set by sr1_openai_options_init */
    const char *base_url; /* what stands before /completions:
                             "http://127.0.0.1:8000/v1"; copied; needed */
    const char *model;    /* NULL or "", the default: the one the server lists, if it is
                             one; copied */
    double timeout_s;     /* of one attempt; default 600 */
    double connect_timeout_s; /* default 10 */
    int32_t retries;          /* after the first attempt; default 3 */
    int32_t concurrency;      /* requests under way at once; default 32 */
    double retry_first_s;     /* wait before the first of them; default 0.5 */
    double retry_max_s;       /* default 20 */
    double retry_after_max_s; /* longer Retry-After: no retry; default 60 */
    double rate_limit;        /* attempts a second; default 0: no limit */
    int32_t breaker_failures; /* default 10; 0: no breaker */
    int32_t dialect;          /* SR1_OPENAI_DIALECT_*; default auto */
    double breaker_rest_s;    /* default 10 */
    uint64_t max_body_bytes;  /* of one answer; default 64 MiB */
    const char *key_env; /* environment variable of the key, which may be unset; NULL,
                            the default: OPENAI_API_KEY; "": none is sent */
    const char *ca_file; /* PEM file of certificates to trust in place of the
                            system's; NULL, the default: the system's */
    uint64_t seed;       /* of the jitter of waits; default 0 */
} sr1_openai_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_openai_options_init(sr1_openai_options *options);

/* Open a client and ask the server for its models. SR1_E_NETWORK or SR1_E_TIMEOUT: the
 * server does not answer. SR1_E_CONFIG: no model was named, and the server lists none or
 * several. SR1_E_INVALID: base_url is no http or https URL. The API key appears in no
 * message. Caller frees with sr1_openai_free. */
SR1_API sr1_status sr1_openai_new(sr1_openai **out, const sr1_openai_options *options);

/* Open a client by the keys of a configuration (openai_base_url, openai_model,
 * vllm_server_host, vllm_server_port, ...). Errors as sr1_openai_new. Caller frees with
 * sr1_openai_free. */
SR1_API sr1_status sr1_openai_open(sr1_openai **out, const sr1_config *config);

/* Free a client; no call on it may be running. NULL is fine. */
SR1_API void sr1_openai_free(sr1_openai *client);

/* Return the name of the model that requests ask for. Borrowed until the client is
 * freed. */
SR1_API const char *sr1_openai_model(const sr1_openai *client);

/* Return the context length in tokens, prompt and completion together, as the server
 * states it; 0 if it does not. */
SR1_API int64_t sr1_openai_context(const sr1_openai *client);

/* Return the dialect of the server: SR1_OPENAI_DIALECT_PLAIN or SR1_OPENAI_DIALECT_VLLM,
 * never _AUTO; _AUTO for NULL. */
SR1_API int32_t sr1_openai_dialect(const sr1_openai *client);

/* End all running requests with SR1_E_CANCELLED. May be called from any thread. */
SR1_API void sr1_openai_cancel(sr1_openai *client);

/* Since opening. */
typedef struct sr1_openai_counters {
    size_t struct_size;
    int64_t requests; /* sent, retries among them */
    int64_t retries;
    int64_t failures; /* results that were none */
    int64_t prompt_tokens;
    int64_t completion_tokens; /* as the server counted */
} sr1_openai_counters;

/* Fill *out (struct_size set) with the counts of the client. */
SR1_API sr1_status sr1_openai_counters_get(const sr1_openai *client,
                                           sr1_openai_counters *out);

/* ---- asking ---- */

/* One completion. Zeros but struct_size and max_tokens: greedy, no stop texts. Exactly
 * one of prompt_ids, prompt and roles is given. In an array all have the same
 * struct_size. */
typedef struct sr1_openai_request {
    size_t struct_size;
    const int32_t *prompt_ids; /* [n_prompt_ids] */
    size_t n_prompt_ids;
    const char *prompt;
    size_t prompt_len;           /* bytes; invalid UTF-8 is sent as U+FFFD */
    const char *const *roles;    /* [n_messages] "system", "user", "assistant" */
    const char *const *contents; /* [n_messages] UTF-8 */
    const size_t *content_sizes; /* [n_messages] bytes; NULL: contents end at NUL */
    size_t n_messages;
    int64_t max_tokens;      /* >= 1 */
    double temperature;      /* 0: greedy */
    double top_p;            /* 0 or 1: off */
    int32_t top_k;           /* 0: off; SR1_E_UNSUPPORTED in the plain dialect */
    int32_t log_probs;       /* 1: ask for log-probs of the tokens generated */
    const char *const *stop; /* [n_stop] texts that end it; OpenAI takes at most 4 */
    size_t n_stop;
    int64_t seed;        /* of its sampling; negative or 0: the server's choice */
    int32_t no_thinking; /* messages: enable_thinking false, for chat templates that know
                            it (vLLM) */
} sr1_openai_request;

/* How a completion ended. */
enum {
    SR1_OPENAI_FINISH_STOP = 0, /* by itself, or at a stop text */
    SR1_OPENAI_FINISH_LENGTH =
        1,                      /* tokens ran out: max_tokens, or a limit of the server */
    SR1_OPENAI_FINISH_OTHER = 2 /* a content filter, a tool call, not said */
};

/* Pointers are borrowed until the results are freed. */
typedef struct sr1_openai_result {
    size_t struct_size;
    sr1_status status; /* SR1_OK; _TIMEOUT, _NETWORK, _PARSE, _LIMIT, _CANCELLED, _NOMEM:
                          all below are empty */
    int32_t finish;    /* SR1_OPENAI_FINISH_* */
    const char *message; /* why, unless SR1_OK */
    const char *text;    /* UTF-8 with a NUL behind it */
    size_t text_len;
    const char *stop_text;     /* the stop text that ended it, where the server says; else
                                  NULL */
    int32_t stop_text_kept;    /* 1: text ends with it, where a stop text ended it */
    int32_t n_prompt_ids;      /* of prompt_ids */
    const int32_t *prompt_ids; /* what the server read; NULL: not said */
    size_t n_tokens;           /* of what follows; 0: none of them was given */
    const int32_t *ids;        /* [n_tokens]; NULL: not given */
    const float *log_probs;    /* [n_tokens]; NULL: not given */
    const char *const *tokens; /* [n_tokens] their texts; NULL: not given */
    const size_t *token_sizes; /* [n_tokens] bytes */
    int64_t prompt_tokens;     /* as the server counted; -1: not said */
    int64_t completion_tokens;
    int32_t http_code; /* of a failure; 0: there was no answer */
} sr1_openai_result;

/* Send n requests over `concurrency` connections and wait until each has ended. A request
 * is tried again after failures that may pass and after answers that cannot be parsed.
 * SR1_E_INVALID names a request that is not valid; then nothing is sent. Caller frees
 * *out with sr1_openai_results_free. */
SR1_API sr1_status sr1_openai_run(sr1_openai *client, const sr1_openai_request *requests,
                                  size_t n, sr1_openai_results **out);

/* Free results. NULL is fine. */
SR1_API void sr1_openai_results_free(sr1_openai_results *results);

/* Return the number of results, which is that of the requests. */
SR1_API size_t sr1_openai_results_count(const sr1_openai_results *results);

/* Fill *out (struct_size set) with the result of request i. SR1_E_INVALID: i is out of
 * range. */
SR1_API sr1_status sr1_openai_results_get(const sr1_openai_results *results, size_t i,
                                          sr1_openai_result *out);

#ifdef __cplusplus
}
#endif
#endif
