/* retrieval/faiss/bridge.h - the C face of FAISS, in a library of its own that is loaded
 * on demand.
 *
 * libsearchr1_faiss.so exports one symbol, the table below. Every entry returns a status
 * of searchr1/base.h and, on failure, a text in error; no exception leaves. The bridge
 * does not check indexes: retrieval/search/faiss_file.h checks a file before it comes
 * here. */
#ifndef SR1__FAISS_BRIDGE_H
#define SR1__FAISS_BRIDGE_H

#include <searchr1/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SR1__FAISS_LIBRARY "libsearchr1_faiss.so"
#define SR1__FAISS_TABLE "sr1__faiss_table"
#define SR1__FAISS_VERSION 1 /* of the table */

typedef struct sr1__faiss_index sr1__faiss_index;

struct sr1__faiss_error {
    char text[512];
};

/* Take n bytes of a file being written; not 0 stops it. */
typedef int32_t (*sr1__faiss_put)(void *arg, const void *bytes, size_t n);

struct sr1__faiss_table {
    size_t size;     /* sizeof(struct sr1__faiss_table): a stale bridge is noticed */
    int32_t version; /* SR1__FAISS_VERSION */

    /* An index from the bytes of a file, which are not needed afterwards. */
    sr1_status (*read)(sr1__faiss_index **out, const void *bytes, size_t n,
                       struct sr1__faiss_error *error);
    void (*release)(sr1__faiss_index *index);
    /* Lists visited of IVF, width of the walk of HNSW; 0: as it is. */
    sr1_status (*tune)(sr1__faiss_index *index, int32_t nprobe, int32_t ef_search,
                       struct sr1__faiss_error *error);
    /* The k best of each of n queries [n, dim]: FAISS's distances [n, k] and ids [n, k],
     * -1 beyond the last hit. Several threads may call it at a time. */
    sr1_status (*search)(const sr1__faiss_index *index, const float *queries, int64_t n,
                         int64_t k, float *distances, int64_t *ids,
                         struct sr1__faiss_error *error);

    /* An empty index by FAISS's description ("IVF256,Flat"); metric as in its files: 0
     * inner product, 1 squared L2 distance. */
    sr1_status (*make)(sr1__faiss_index **out, int32_t dim, const char *factory,
                       int32_t metric, struct sr1__faiss_error *error);
    int32_t (*trained)(const sr1__faiss_index *index); /* is there nothing to train? */
    sr1_status (*train)(sr1__faiss_index *index, const float *vectors, int64_t n,
                        struct sr1__faiss_error *error);
    sr1_status (*add)(sr1__faiss_index *index, const float *vectors, int64_t n,
                      struct sr1__faiss_error *error);
    sr1_status (*write)(const sr1__faiss_index *index, sr1__faiss_put put, void *arg,
                        struct sr1__faiss_error *error);
    /* Threads of the calls that this thread makes; returns how many there were. */
    int32_t (*threads)(int32_t n);
};

#ifdef __cplusplus
}
#endif
#endif
