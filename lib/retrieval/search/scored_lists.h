/* retrieval/search/scored_lists.h - the postings of terms, decoded, each with what its
 * score depends on; the lists that queries share are decoded once. */
#ifndef SR1__SEARCH_SCORED_LISTS_H
#define SR1__SEARCH_SCORED_LISTS_H

#include "retrieval/search/bm25.h"

struct sr1__scored_list {
    uint32_t *docs;    /* [n] rising */
    float *saturation; /* [n] as of sr1__bm25_saturation */
    uint32_t n;
};

/* Memory of one thread, at most some 8 MB and the lists of one query. */
struct sr1__scored_lists;
/* ix and norm are borrowed. */
sr1_status sr1__scored_lists_new(struct sr1__scored_lists **out,
                                 const struct sr1__index *ix,
                                 const struct sr1__bm25_norm *norm);
void sr1__scored_lists_free(struct sr1__scored_lists *s); /* NULL is fine */
/* The list of a term, borrowed until the next call. */
sr1_status sr1__scored_lists_get(struct sr1__scored_lists *s,
                                 const struct sr1__index_term *term,
                                 const struct sr1__scored_list **out);

#endif
