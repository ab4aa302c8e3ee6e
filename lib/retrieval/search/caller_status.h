/* retrieval/search/caller_status.h - the failure of a function of the caller's (a search
 * engine, an embedder, a reranker) as a status of ours. */
#ifndef SR1__SEARCH_CALLER_STATUS_H
#define SR1__SEARCH_CALLER_STATUS_H

#include "base/error.h"

/* before: saved ahead of the call, whose text is what was set since. SR1_OK passes;
 * SR1_E_TIMEOUT, _CANCELLED, _NOMEM and _CONFIG say more than that the function failed
 * and stay; all others become SR1_E_CALLBACK. The text names the function: "KIND 'NAME'
 * failed with SR1_E_IO (-3): text". */
sr1_status sr1__caller_status(const struct sr1__error *before, sr1_status status,
                              const char *kind, const char *name);

#endif
