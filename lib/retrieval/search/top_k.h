/* retrieval/search/top_k.h - the top_k documents so far: by score, then by number. */
#ifndef SR1__SEARCH_TOP_K_H
#define SR1__SEARCH_TOP_K_H

#include "retrieval/search/bm25.h"

struct sr1__top_k {
    struct sr1__bm25_doc *docs; /* a heap, the worst on top */
    int32_t n;
    int32_t top_k;
    int32_t capacity;
    int64_t threshold; /* a document must score more; -1: anything */
};

/* Empty, for top_k documents. A zeroed struct is fine. */
sr1_status sr1__top_k_begin(struct sr1__top_k *b, int32_t top_k);
void sr1__top_k_free(struct sr1__top_k *b);
/* Documents come in rising order, so that of equal scores the first stays. */
void sr1__top_k_offer(struct sr1__top_k *b, uint32_t doc, int64_t score);
/* The same of documents in any order. */
void sr1__best_offer_any(struct sr1__top_k *b, uint32_t doc, int64_t score);
/* Forget the documents but what was learned of them: top_k score at least the worst of
 * them, if there were so many. */
void sr1__top_k_restart(struct sr1__top_k *b);
/* Best first, in place. */
void sr1__top_k_sort(struct sr1__top_k *b);

#endif
