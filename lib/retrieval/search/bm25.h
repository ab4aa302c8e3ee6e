/* retrieval/search/bm25.h - ranking over an open index, below the engine. */
#ifndef SR1__SEARCH_BM25_H
#define SR1__SEARCH_BM25_H

#include <searchr1/ext/bm25.h>

#include "retrieval/search/bm25_index.h"

/* Scores are whole numbers of 2^-32, so that adding them is exact in any order: pruning
 * can then neither lose a document nor change a score. */
#define SR1__BM25_UNIT 4294967296.0

#define SR1__BM25_TF_ROWS 8

/* tf / (tf + k1 * (1 - b + b * len / avglen)) by length code, as 1 / (1 + K / tf): in
 * this form it never falls as tf rises or len falls, after rounding too. */
struct sr1__bm25_norm {
    float saturation[SR1__BM25_TF_ROWS][256]; /* for tf 1 .. SR1__BM25_TF_ROWS */
    double k[256];
};

void sr1__bm25_norm_init(struct sr1__bm25_norm *norm, const struct sr1__index_meta *meta,
                         double k1, double b);

static inline float sr1__bm25_saturation(const struct sr1__bm25_norm *norm, uint32_t tf,
                                         uint8_t length_code)
{
    return tf <= SR1__BM25_TF_ROWS ? norm->saturation[tf - 1][length_code]
                                   : (float)(1.0 / (1.0 + norm->k[length_code] / tf));
}

/* What one posting adds to its document's score; weight from sr1__bm25_weight. At least
 * 1: a document that was found never scores 0. */
static inline int64_t sr1__bm25_add(double weight, float saturation)
{
    return (int64_t)(weight * (double)saturation) + 1;
}

static inline int64_t sr1__bm25_score(const struct sr1__bm25_norm *norm, double weight,
                                      uint32_t tf, uint8_t length_code)
{
    return sr1__bm25_add(weight, sr1__bm25_saturation(norm, tf, length_code));
}

/* qtf * ln(1 + (N - df + 0.5) / (df + 0.5)) in units. */
double sr1__bm25_weight(uint64_t documents, uint32_t df, uint32_t qtf);

/* The most that a posting within these impacts can add. */
int64_t sr1__bm25_bound(const struct sr1__bm25_norm *norm, double weight,
                        const struct sr1__impacts *impacts);

struct sr1__bm25_query_term {
    struct sr1__index_term term; /* df > 0 */
    double weight;
};

struct sr1__bm25_doc {
    int64_t score;
    uint32_t doc;
};

struct sr1__bm25_work {
    uint64_t scored; /* postings whose score was computed */
    uint64_t listed; /* postings in the lists of all query terms */
};

/* Memory of one ranking at a time. */
struct sr1__bm25_ranker;
sr1_status sr1__bm25_ranker_new(struct sr1__bm25_ranker **out,
                                const struct sr1__index *ix,
                                const struct sr1__bm25_norm *norm);
void sr1__bm25_ranker_free(struct sr1__bm25_ranker *r);

/* The top_k documents by score, then by number; *found of them, borrowed until the next
 * call. work is added to. */
sr1_status sr1__bm25_rank(struct sr1__bm25_ranker *r,
                          const struct sr1__bm25_query_term *terms, size_t n,
                          int32_t top_k, const struct sr1__bm25_doc **docs,
                          int32_t *found, struct sr1__bm25_work *work);

/* Work done by a BM25 engine since it was opened. */
sr1_status sr1__bm25_stats(const sr1_search *engine, struct sr1__bm25_work *out);

/* The top_k document numbers (from 0, in corpus order) and scores for a query, without
 * reading the documents. docs and scores: [top_k]. */
sr1_status sr1__bm25_numbers(const sr1_search *engine, const char *query, int32_t top_k,
                             uint32_t *docs, double *scores, int32_t *found);

/* sr1_search_open_bm25 over bytes that stay while the engine lives (see
 * sr1__index_open_memory). options may be NULL. */
sr1_status sr1__search_open_bm25_memory(sr1_search **out, const void *bytes, size_t n,
                                        const sr1_bm25_options *options);

#endif
