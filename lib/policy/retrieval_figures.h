/* policy/retrieval_figures.h - what the searches of one answer found. */
#ifndef SR1__POLICY_RETRIEVAL_FIGURES_H
#define SR1__POLICY_RETRIEVAL_FIGURES_H

#include <searchr1/rollout.h>

struct sr1__retrieval_figures {
    double hit_rate; /* 1: a result holds a gold answer, else 0 */
    double recall;   /* share of the row's gold documents that were hits */
};

/* Those of t, which the rollout generated. NaN: the rollout has no search engine, or
 * no_search was asked for, or there is no gold answer, or no gold id that can be read. */
sr1_status sr1__retrieval_figures(const sr1_rollout *r, int no_search,
                                  const sr1_trajectory *t,
                                  struct sr1__retrieval_figures *out);

#endif
