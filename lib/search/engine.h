/* search/engine.h - what built-in engines and tests need beyond searchr1/search.h. */
#ifndef SR1__SEARCH_ENGINE_H
#define SR1__SEARCH_ENGINE_H

#include <searchr1/search.h>

#include "base/error.h"

/* sr1_search_new for an engine of the library: its statuses are passed on as they are. */
sr1_status sr1__search_new_builtin(sr1_search **out, const sr1_search_ops *ops,
                                   void *self);

/* What its ops say: SR1_SEARCH_CONCURRENT, ... */
int32_t sr1__search_flags(const sr1_search *engine);

/* self when the engine was made with this search function, else NULL. */
void *sr1__search_self(const sr1_search *engine,
                       sr1_status (*search)(void *, const char *const *, size_t, int32_t,
                                            sr1_search_sink *));

#endif
