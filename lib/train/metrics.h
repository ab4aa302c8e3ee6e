/* train/metrics.h - the figures of one step, as a stream: each is added where it arises,
 * by name, and published under the names of metrics.def. */
#ifndef SR1__TRAIN_METRICS_H
#define SR1__TRAIN_METRICS_H

#include "base/json.h"

#include <searchr1/trainer.h>

/* How several values of one figure in a step become one. */
enum sr1__reduction {
    SR1__LAST, /* the last one: figures of the last epoch of an update */
    SR1__MEAN,
    SR1__SUM,
    SR1__MAX
};

struct sr1__figure {
    double value; /* their sum, of means */
    int64_t n;    /* values added; 0: the figure is 0 */
    enum sr1__reduction reduction;
};

/* A figure that no row of metrics.def names, such as the mean of a reward. */
struct sr1__named_figure {
    char *name;
    struct sr1__figure figure;
};

#define METRIC(name, figure) +1
#define ALARM(name, text) +1
enum {
    SR1__N_METRICS = 0
#include "train/metrics.def"
    ,
    SR1__N_ALARMS = 0
#include "config/alarms.def"
};
#undef ALARM
#undef METRIC

/* What happened in a step; bits. */
enum sr1__step_event {
    SR1__ROLLED_OUT = 1,
    SR1__COMPARED = 2, /* trajectories with their advantages were looked at */
    SR1__POLICY_UPDATED = 4,
    SR1__CRITIC_UPDATED = 8,
    SR1__WORSE_THAN_GUESSING = 16, /* imitation: the loss is that of no sound model */
    SR1__UNSCORED_FOR_LONG = 32    /* as those before it, it has no reward at all */
};

/* Zeroed, it is that of no step. */
struct sr1_step_metrics {
    int64_t step;
    uint32_t events;
    int64_t searches_made; /* or other actions: all that were not refused */
    /* Of rows of the table: that of the first row with the figure. */
    struct sr1__figure figures[SR1__N_METRICS + SR1__N_ALARMS + 1];
    struct sr1__named_figure *others;
    size_t n_others;
    int32_t failed; /* memory ran out */
};

/* Forget all, for a new step. */
void sr1__metrics_begin(struct sr1_step_metrics *m, int64_t step);
/* Let go of its memory. */
void sr1__metrics_close(struct sr1_step_metrics *m);

/* Add a value to the figure; each figure has one reduction. A want of memory is kept for
 * sr1__metrics_status. */
void sr1__metrics_add(struct sr1_step_metrics *m, const char *figure, double value,
                      enum sr1__reduction reduction);
sr1_status sr1__metrics_status(const struct sr1_step_metrics *m);
/* The figure so far; 0 where nothing was added. */
double sr1__metrics_get(const struct sr1_step_metrics *m, const char *figure);

/* All metrics as one JSON object, in the order of metrics.def. New reference; NULL
 * without memory. */
json_t *sr1__metrics_row(const struct sr1_step_metrics *m);

/* The fields of a report. */
void sr1__metrics_report(const struct sr1_step_metrics *m, sr1_step_report *out);

#endif
