/* environment/env/search_env.h - the environment that answers actions by searching. */
#ifndef SR1__ENV_SEARCH_ENV_H
#define SR1__ENV_SEARCH_ENV_H

#include "environment/env/document_formats.h"

#include <searchr1/env.h>
#include <searchr1/search.h>

/* A new one, with ops to call it by; engine is retained. Freed by ops->destroy. */
sr1_status sr1__search_env_new(void **self, sr1_env_ops *ops, sr1_search *engine,
                               const struct sr1__document_format *format, int32_t top_k);

/* Write the hits of query i of a search, one after the other, into answer `at`. */
sr1_status sr1__search_put_hits(const struct sr1__document_format *format,
                                const sr1_search_results *found, size_t i,
                                sr1_env_sink *sink, size_t at);

#endif
