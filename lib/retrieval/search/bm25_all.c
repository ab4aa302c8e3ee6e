/* retrieval/search/bm25_all.c - the best documents where there are few and lists are
 * short: every posting is scored, in the order of the lists. */
#include "retrieval/search/bm25_internal.h"

static void add_list(struct sr1__bm25_ranker *r, const struct sr1__scored_list *list,
                     double weight)
{
    uint32_t n = r->n_candidates;

    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t doc = list->docs[i];

        r->candidates[n] = (uint16_t)doc;
        n += r->scores[doc] == 0;
        r->scores[doc] += sr1__bm25_add(weight, list->saturation[i]);
    }
    r->n_candidates = n;
    r->scored += list->n;
}

sr1_status sr1__bm25_rank_all(struct sr1__bm25_ranker *r,
                              const struct sr1__bm25_query_term *terms, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct sr1__scored_list *list = NULL;

        SR1__TRY(sr1__scored_lists_get(r->lists, &terms[i].term, &list));
        add_list(r, list, terms[i].weight);
    }
    for (uint32_t i = 0; i < r->n_candidates; i++) {
        uint32_t doc = r->candidates[i];

        if (r->scores[doc] >= r->best.threshold)
            sr1__best_offer_any(&r->best, doc, r->scores[doc]);
        r->scores[doc] = 0;
    }
    r->n_candidates = 0;
    return SR1_OK;
}
