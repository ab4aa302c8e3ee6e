/* retrieval/net/http_client.h - an HTTP client over libcurl: many requests at once, over
 * connections that are reused.
 *
 * Each request is queued, is sent when the rate limit, the limit on concurrent requests
 * and the circuit breaker allow it, and is retried after temporary failures. Only http
 * and https; certificates and host names are verified, and nothing turns that off;
 * redirects are refused; proxies of the environment, .netrc and cookies are not used.
 *
 * A URL's query and the headers may hold keys: no message and no log line shows more of a
 * request than the scheme, host and port it went to.
 *
 * Threads: one client serves any number of threads at a time. A thread of its own, made
 * at opening, moves the bytes; it sleeps while there is nothing to do. */
#ifndef SR1__NET_HTTP_CLIENT_H
#define SR1__NET_HTTP_CLIENT_H

#include "base/buf.h"
#include "retrieval/net/retry.h"

struct sr1__http;

/* All must be set. */
struct sr1__http_options {
    double connect_timeout_s;
    double timeout_s;    /* of one attempt, connecting included, queueing not */
    size_t max_body;     /* bytes of an answer, decompressed */
    int32_t concurrency; /* requests under way at once, >= 1 */
    double rate;         /* attempts a second; 0: no limit */
    struct sr1__retry retry;
    int32_t breaker_failures; /* in a row; 0: no breaker */
    double breaker_rest_s;
    const char *ca_file; /* PEM, in place of the system's; NULL or "": the system's */
    uint64_t seed;       /* of the jitter between retries */
};

struct sr1__http_request {
    const char *url;
    const char *const *headers; /* [n_headers] "Name: value" */
    size_t n_headers;
    const char *body; /* NULL: GET, else POST */
    size_t body_len;
    double timeout_s; /* of one attempt, in place of the client's; 0: the client's */
    double wait_s;    /* before the first attempt */
    const char *want_header; /* whose value the response is to have; NULL: none */
    const char *method;      /* NULL: as body says */
};

#define SR1__HTTP_HEADER_MAX 4096 /* bytes of want_header's value */

struct sr1__http_response {
    /* SR1_OK: an answer with a code 200 to 299 came whole. SR1_E_TIMEOUT; SR1_E_LIMIT:
     * longer than max_body, or its wanted header than SR1__HTTP_HEADER_MAX;
     * SR1_E_CANCELLED; SR1_E_NOMEM; SR1_E_NETWORK: the rest. */
    sr1_status status;
    int32_t code;         /* HTTP's; 0: no answer */
    struct sr1__buf body; /* of the last answer, whatever its code */
    char *header;         /* the value wanted; NULL: none came */
    char message[256];    /* why, unless SR1_OK */
    double retry_after;   /* seconds asked for by the server; 0: none */
    int32_t again;        /* the failure may pass */
    int32_t outage;       /* the failure counts for the breaker */
};

/* Since opening. */
struct sr1__http_counts {
    int64_t attempts; /* requests sent, retries among them */
    int64_t retries;
    int64_t rate_waits;  /* attempts that had to wait for the rate limit */
    int64_t refused;     /* requests the open breaker turned down */
    int64_t connections; /* opened */
};

/* options are copied. */
sr1_status sr1__http_new(struct sr1__http **out, const struct sr1__http_options *options);
/* Not while a call on it runs. NULL is fine. */
void sr1__http_free(struct sr1__http *h);

/* Send requests[n] (borrowed for the call) and wait until each has its response, which
 * is initialised here; free each with sr1__http_response_free. A failure of the call
 * itself, in which no request was sent, leaves all of them empty. */
sr1_status sr1__http_run(struct sr1__http *h, const struct sr1__http_request *requests,
                         size_t n, struct sr1__http_response *responses);
void sr1__http_response_free(struct sr1__http_response *r);

/* End every request that is queued or under way with SR1_E_CANCELLED, and none that comes
 * later. From any thread. */
void sr1__http_cancel(struct sr1__http *h);

void sr1__http_counts_get(const struct sr1__http *h, struct sr1__http_counts *out);

/* Check a URL (http or https, a host, no user or password) and return its scheme, host
 * and port, which messages may show. Errors call the URL `what`. */
#define SR1__ORIGIN_MAX 320
sr1_status sr1__url_origin(const char *url, const char *what,
                           char origin[SR1__ORIGIN_MAX]);
/* Append text percent-encoded, for the value of a field in a query. */
void sr1__url_escape(struct sr1__buf *b, const char *text);

#endif
