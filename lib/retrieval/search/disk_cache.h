/* retrieval/search/disk_cache.h - answers as the disk cache keeps them. */
#ifndef SR1__SEARCH_DISK_CACHE_H
#define SR1__SEARCH_DISK_CACHE_H

#include <searchr1/search.h>

#include "base/buf.h"

/* Give the sink's query i the answer in these bytes: all of it or, when any of it cannot
 * be read (SR1_E_CORRUPT), nothing. */
sr1_status sr1__disk_result_read(const struct sr1__buf *value, sr1_search_sink *sink,
                                 size_t i);

#endif
