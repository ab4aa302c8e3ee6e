/* retrieval/search/faiss_file.h - may this index file be given to FAISS?
 *
 * FAISS's reader believes what a file says: sizes are allocated, links followed, enums
 * cast. Here a file is walked through first, and what FAISS would trip over is refused.
 * Known: Flat, IVF (Flat, PQ, SQ; over a Flat or HNSW quantizer), HNSW (Flat, PQ, SQ),
 * PQ, SQ, each also with an IDMap or linear transforms (OPQ, PCA, ...) before it. */
#ifndef SR1__SEARCH_FAISS_FILE_H
#define SR1__SEARCH_FAISS_FILE_H

#include "base/error.h"

struct sr1__faiss_meta {
    int32_t dim;
    int64_t vectors;
    int32_t metric; /* 0: inner product, 1: squared L2 distance */
    int has_ivf;    /* nprobe means something */
    int has_hnsw;   /* ef_search does */
};

/* Do n bytes begin as a FAISS index of a type that is known here? */
int sr1__faiss_begins(const char *bytes, size_t n);

/* SR1_E_CORRUPT, or SR1_E_UNSUPPORTED for what FAISS might know but is not known here. */
sr1_status sr1__faiss_check(const void *bytes, size_t n, struct sr1__faiss_meta *out);

#endif
