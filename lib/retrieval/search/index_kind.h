/* retrieval/search/index_kind.h - what a new index may replace. */
#ifndef SR1__SEARCH_INDEX_KIND_H
#define SR1__SEARCH_INDEX_KIND_H

#include "base/error.h"

#include <stdint.h>

/* SR1_E_INVALID unless nothing is at path, or an empty file, or an index of this kind of
 * sr1_index_kind, or with force any file. Called before a build, which may take hours. */
sr1_status sr1__index_place_check(const char *path, const char *kind, int32_t force);

#endif
