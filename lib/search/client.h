/* search/client.h - what engines behind HTTP share: options, key, causes of failure. */
#ifndef SR1__SEARCH_CLIENT_H
#define SR1__SEARCH_CLIENT_H

#include <searchr1/search.h>

#include "base/json.h"
#include "net/http.h"

struct sr1__client {
    struct sr1__http *http;
    char *key; /* NULL: none */
};

/* Read the options (NULL: defaults) into *o. */
sr1_status sr1__client_options(sr1_search_http_options *o,
                               const sr1_search_http_options *given);
/* Open with options read as above; key_env NULL or "": no key. */
sr1_status sr1__client_open(struct sr1__client *c, const sr1_search_http_options *o,
                            const char *key_env);
void sr1__client_close(struct sr1__client *c);

/* End queries [first, first + n) of the sink as the failed response says. Returns a
 * failure only when memory is short. */
sr1_status sr1__client_fail(const struct sr1__client *c,
                            const struct sr1__http_response *r, sr1_search_sink *sink,
                            size_t first, size_t n);

/* For sr1_search_counters. */
void sr1__client_count(const struct sr1__client *c, sr1_search_counters *counters);

/* text[0..] of a JSON string for a sink, which takes C strings: NUL becomes U+FFFD. */
void sr1__add_json_text(struct sr1__buf *b, const json_t *string);

#endif
