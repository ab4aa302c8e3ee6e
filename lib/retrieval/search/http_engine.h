/* retrieval/search/http_engine.h - what engines behind HTTP share: options, key, causes
 * of failure. */
#ifndef SR1__SEARCH_HTTP_ENGINE_H
#define SR1__SEARCH_HTTP_ENGINE_H

#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

#include "base/json.h"
#include "retrieval/net/http_client.h"

#include <stdatomic.h>

struct sr1__client {
    struct sr1__http *http;
    char *key;             /* NULL: none */
    char *key_env;         /* where it is from; NULL: nowhere */
    const char *key_name;  /* the configuration's key for key_env; static */
    int32_t grace;         /* rejections believed before the first answer */
    atomic_int answered;   /* the service has answered a query */
    atomic_int rejections; /* before that */
    atomic_int refusals;   /* HTTP 403 since the last answer */
};

/* Read the options (NULL: defaults) into *o. */
sr1_status sr1__client_options(sr1_search_http_options *o,
                               const sr1_search_http_options *given);
/* Open with options read as above; key_env NULL or "": no key. */
sr1_status sr1__client_open(struct sr1__client *c, const sr1_search_http_options *o,
                            const char *key_env);
void sr1__client_close(struct sr1__client *c);

/* What tells an engine from others of its service: where it asks, and what its hits are
 * made of (sr1__search_set_origin). */
uint64_t sr1__client_origin(const char *url, const sr1_search_http_options *o);

/* The service has answered a query. */
void sr1__client_note_answer(struct sr1__client *c);
/* Does the response turn down what it was asked (HTTP 400, 414, 422), as one that answers
 * others? */
int sr1__client_rejects(const struct sr1__client *c, const struct sr1__http_response *r);

/* End queries [first, first + n) of the sink as the failed response says. One query that
 * is turned down has found nothing: whoever wrote it, it is no outage. SR1_E_CONFIG: the
 * service refuses the key (HTTP 401; 403 unless it answers others). SR1_E_NOMEM. */
sr1_status sr1__client_fail(struct sr1__client *c, const struct sr1__http_response *r,
                            sr1_search_sink *sink, size_t first, size_t n);

/* End these queries as failures of the server at origin, whose answer cannot be read as
 * this thread's error says: SR1_E_PARSE, or SR1_E_LIMIT where it holds too much. Another
 * status is passed on. */
sr1_status sr1__client_fail_unreadable(const char *origin, sr1_status status,
                                       sr1_search_sink *sink, size_t first, size_t n);

/* The address of what is at url, below it: url, which may end with slashes, and a path.
 * origin is url's. Errors call it `what` ("the address of an index"). Caller frees with
 * sr1__free. SR1_E_INVALID: url is none, has no path of its own, or more than a path. */
sr1_status sr1__client_address(char **out, char origin[SR1__ORIGIN_MAX], const char *url,
                               const char *what, const char *below);

/* Send one request at opening to the server (`what`: "a Qdrant server") at origin. A
 * failure is an error that says what to do; free the response in any case. */
sr1_status sr1__client_probe(struct sr1__client *c,
                             const struct sr1__http_request *request, const char *origin,
                             const char *what, struct sr1__http_response *response);

/* For sr1_search_counters. */
void sr1__client_count(const struct sr1__client *c, sr1_search_counters *counters);

#endif
