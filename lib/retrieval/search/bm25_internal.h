/* retrieval/search/bm25_internal.h - the state of a ranking, for the files that rank. */
#ifndef SR1__SEARCH_BM25_INTERNAL_H
#define SR1__SEARCH_BM25_INTERNAL_H

#include "retrieval/search/top_k.h"
#include "retrieval/search/bm25.h"
#include "retrieval/search/scored_lists.h"

#define SR1__WINDOW 8192
#define SR1__FEW_DOCUMENTS 16384 /* that may be ranked all at once */

struct sr1__term {
    struct sr1__postings p;
    double weight;
    uint32_t pos;  /* in the decoded block */
    int by_group;  /* bounds are of groups of blocks */
    int64_t bound; /* of documents before `until` */
    uint32_t until;
    int64_t list_bound;
    uint32_t per_window;  /* postings in a window, on average */
    uint32_t bound_block; /* block that block_bound is of; UINT32_MAX: none */
    int64_t block_bound;
};

struct sr1__bm25_ranker {
    const struct sr1__index *ix;
    const struct sr1__bm25_norm *norm;
    const uint8_t *codes;
    uint32_t documents;

    struct sr1__term **terms; /* [n], rising bound in the current window */
    int64_t *sums;            /* [n] of the bounds of terms[0..i] */
    size_t n;
    size_t capacity; /* of terms, all allocated */

    struct sr1__top_k best;

    struct sr1__scored_lists *lists;

    int64_t scores[SR1__FEW_DOCUMENTS]; /* of the window, or all; 0: not a candidate */
    uint16_t candidates[SR1__FEW_DOCUMENTS + 1]; /* [n_candidates], counted in the window;
                                                    one more may be written */
    uint32_t n_candidates;
    uint64_t marks[SR1__WINDOW / 64]; /* all 0 between uses */
    uint64_t scored;
};

static inline int64_t sr1__posting_score(const struct sr1__bm25_ranker *r,
                                         const struct sr1__term *t, uint32_t pos)
{
    return sr1__bm25_score(r->norm, t->weight, t->p.tfs[pos], r->codes[t->p.docs[pos]]);
}

/* Decode the current block if it is not yet. */
static inline sr1_status sr1__need_docs(struct sr1__term *t)
{
    return t->p.count > 0 ? SR1_OK : sr1__postings_decode(&t->p);
}

static inline void sr1__next_block(struct sr1__term *t)
{
    t->p.block++;
    t->pos = 0;
    if (t->p.dir != NULL)
        t->p.count = t->p.n_tfs = 0;
}

/* Add postings [pos, stop) of the decoded block to the window's scores. */
static inline void sr1__add_postings(struct sr1__bm25_ranker *r,
                                     const struct sr1__term *t, uint32_t stop,
                                     uint32_t base)
{
    uint32_t n = r->n_candidates;

    for (uint32_t i = t->pos; i < stop; i++) {
        uint32_t at = t->p.docs[i] - base;

        r->candidates[n] = (uint16_t)at;
        n += r->scores[at] == 0;
        r->scores[at] += sr1__posting_score(r, t, i);
    }
    r->n_candidates = n;
    r->scored += stop - t->pos;
}

/* Rank all documents, at most SR1__FEW_DOCUMENTS, scoring every posting. */
sr1_status sr1__bm25_rank_all(struct sr1__bm25_ranker *r,
                              const struct sr1__bm25_query_term *terms, size_t n);

#endif
