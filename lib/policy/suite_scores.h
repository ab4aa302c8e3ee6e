/* policy/suite_scores.h - figures of sets of questions with several answers each, and
 * their intervals of 95 %. */
#ifndef SR1__POLICY_SUITE_SCORES_H
#define SR1__POLICY_SUITE_SCORES_H

#include "base/error.h"

/* A question. */
struct sr1__suite_row {
    int32_t right;       /* answers that match exactly */
    int32_t majority;    /* 1: so does the answer that most gave */
    double f1;           /* mean over the answers */
    double searches;     /* likewise */
    double tokens;       /* likewise */
    double hit_rate;     /* likewise: does a result hold a gold answer? NaN: not known */
    double recall;       /* likewise, of the row's gold documents */
    unsigned char done;  /* 1: it was asked */
    unsigned char known; /* 1: every answer could be had */
};

struct sr1__suite_set {
    char *name;
    struct sr1__suite_row *rows; /* [n] */
    int64_t n;
};

struct sr1__suite_value {
    double value, low, high;
};

/* A figure of one set, or the average of it over several, of `samples` answers. name and
 * k as of sr1_suite_figure. */
sr1_status sr1__suite_figure(const struct sr1__suite_set *sets, size_t n_sets,
                             int32_t samples, const char *name, int32_t k,
                             struct sr1__suite_value *out);

/* Questions of a set that every answer could be had of. */
int64_t sr1__suite_set_known(const struct sr1__suite_set *set);

#endif
