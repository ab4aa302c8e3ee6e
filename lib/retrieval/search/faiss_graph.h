/* retrieval/search/faiss_graph.h - the links of a HNSW index as FAISS stores them. */
#ifndef SR1__SEARCH_FAISS_GRAPH_H
#define SR1__SEARCH_FAISS_GRAPH_H

#include "base/error.h"

/* Arrays in the file, little-endian, not aligned. */
struct sr1__faiss_graph {
    const unsigned char
        *per_level;               /* i32: places for links up to each level, from 0 on */
    const unsigned char *levels;  /* i32 a vector: how many levels it is in */
    const unsigned char *offsets; /* u64 a vector, and the end: where its links begin */
    const unsigned char *neighbors; /* i32: a vector, or -1 */
    uint64_t n_per_level;
    uint64_t n_levels;
    uint64_t n_offsets;
    uint64_t n_neighbors;
    int32_t entry;
    int32_t max_level;
    int32_t ef_search;
    int32_t beam;
};

/* Does every walk over the links stay within the arrays? */
sr1_status sr1__faiss_graph_check(const struct sr1__faiss_graph *g, int64_t vectors);

#endif
