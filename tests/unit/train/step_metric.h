/* train/step_metric.h - a metric of a report by name, for tests. */
#ifndef SR1_TESTS_TRAIN_STEP_METRIC_H
#define SR1_TESTS_TRAIN_STEP_METRIC_H

#include "support/tiny.h"

#include "train/metrics.h"

static inline double step_metric(const sr1_step_report *r, const char *name)
{
    double value = 0;

    OK(sr1_step_metric(r, name, &value));
    return value;
}

/* Let the report (may be NULL) be read when its trainer is gone, until eight others were
 * kept. */
static inline void keep_metrics(sr1_step_report *r)
{
    static struct sr1_step_metrics kept[8];
    static unsigned next;
    struct sr1_step_metrics *k = &kept[next++ % 8];

    if (!r)
        return;
    *k = *r->metrics;
    k->others = NULL; /* these stay the trainer's */
    k->n_others = 0;
    r->metrics = k;
}

#endif
