/* retrieval/search/web_providers.h - web search services: how they are asked, what they
 * answer. */
#ifndef SR1__SEARCH_WEB_PROVIDERS_H
#define SR1__SEARCH_WEB_PROVIDERS_H

#include <searchr1/search.h>

#include "base/buf.h"

/* Paths are members of objects with dots between: "web.results". */
struct sr1__web_provider {
    const char *name;
    const char *url;     /* NULL: the user has to give it */
    const char *key_env; /* NULL: it needs no key */
    int32_t needs_engine_id;

    /* The request: fields in a JSON body (post) or in the URL. */
    int32_t post;
    const char *query_field;
    size_t query_max;        /* characters it takes; 0: not known */
    size_t words_max;        /* and words; 0: not known */
    const char *count_field; /* NULL: the service decides how many */
    int32_t count_max;
    const char *fixed;      /* more fields of the URL: "engine=google", or NULL */
    const char *key_header; /* "X-API-KEY: ", or NULL */
    const char *key_field;  /* field of the URL, or NULL */

    /* The answer. */
    const char *mark;       /* path that only an answer to a search has */
    const char *mark_value; /* the string there; NULL: anything */
    const char *list;       /* path of the hits */
    const char *box;        /* path of an answer box, or NULL */
    const char *link;       /* members of a hit */
    const char *text;
    const char *box_text; /* member of a box that goes before text, or NULL */
    const char *troubles; /* path of a list which, when not empty, says that an empty
                             answer is a failure; or NULL */
};

/* NULL past the last. */
const struct sr1__web_provider *sr1__web_provider_at(size_t i);
const struct sr1__web_provider *sr1__web_provider_find(const char *name);

/* Bytes of a query that the service takes, cut between words where that is possible. */
size_t sr1__web_query_length(const struct sr1__web_provider *p, const char *query);

/* The address to ask, with the fields that go there. */
sr1_status sr1__web_write_url(struct sr1__buf *b, const struct sr1__web_provider *p,
                              const char *url, const char *query, int32_t top_k,
                              const char *key, const char *engine_id);
/* The JSON body of a post. */
sr1_status sr1__web_write_body(struct sr1__buf *b, const struct sr1__web_provider *p,
                               const char *query, int32_t top_k);

/* Read an answer into the sink's query i. SR1_E_PARSE when it is none: then nothing was
 * given. */
sr1_status sr1__web_read(const struct sr1__web_provider *p, const char *text, size_t len,
                         size_t i, sr1_search_sink *sink);

#endif
