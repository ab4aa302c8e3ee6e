/* retrieval/server/rerank_request.h - order documents that a request contains. */
#ifndef SR1__SERVER_RERANK_REQUEST_H
#define SR1__SERVER_RERANK_REQUEST_H

#include <searchr1/ext/embed.h>

#include "retrieval/server/wire.h"

/* The scorer of a pair of query and document: BM25 or a cross-encoder. */
struct sr1__pair_scorer {
    const char *name;
    /* scores[i] of documents[i], finite, higher is better. From several threads at a
     * time. */
    sr1_status (*score)(void *self, const char *query, const char *const *documents,
                        size_t n, double *scores);
    void *self;
};

/* BM25 with the statistics of the given documents alone. */
extern const struct sr1__pair_scorer sr1__pair_scorer_bm25;
/* A cross-encoder, borrowed. */
struct sr1__pair_scorer sr1__pair_scorer_model(sr1_reranker *reranker);

/* Append "(Title: first line) rest". */
void sr1__rerank_passage(struct sr1__buf *b, const char *text);

/* Append {"result": [[document, ...], ...]} for each query's own documents, best first;
 * a document is written "(Title: first line) rest", as a cross-encoder reads it. */
sr1_status sr1__rerank_write_answer(const struct sr1__rerank_request *r,
                                    const struct sr1__pair_scorer *scorer,
                                    struct sr1__buf *answer);

#endif
