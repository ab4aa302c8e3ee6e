/* env/search_env.h - the environment that answers actions by searching. */
#ifndef SR1__ENV_SEARCH_ENV_H
#define SR1__ENV_SEARCH_ENV_H

#include "env/documents.h"

#include <searchr1/env.h>
#include <searchr1/search.h>

/* A new one, with ops to call it by; engine is retained. Freed by ops->destroy. */
sr1_status sr1__search_env_new(void **self, sr1_env_ops *ops, sr1_search *engine,
                               const struct sr1__document_format *format, int32_t top_k);

#endif
