/* signal/measure/ranking.h - the measures of one ranking. */
#ifndef SR1__MEASURE_RANKING_H
#define SR1__MEASURE_RANKING_H

#include "signal/measure/qrels.h"

struct sr1__ranking {
    double recall, success, reciprocal_rank, ndcg;
};

/* Measure ids [n] of documents, best first, of which the first top_k >= 1 count, against
 * judged [n_judged], at least one and sorted by document. Formulas:
 * searchr1/ext/search_measures.h. SR1_E_NOMEM. */
sr1_status sr1__ranking_measure(struct sr1__ranking *out,
                                const struct sr1__judgement *judged, size_t n_judged,
                                const char *const *ids, size_t n, int32_t top_k);

#endif
