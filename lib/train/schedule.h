/* train/schedule.h - the learning rate of a step. */
#ifndef SR1__TRAIN_SCHEDULE_H
#define SR1__TRAIN_SCHEDULE_H

#include <stdint.h>

/* Linear warm-up over warmup steps, the full rate until decay_start (a fraction of all
 * steps) or the warm-up's end if that is later, then the shape's way down to final_ratio
 * of the rate, which the step after the last one would have. */
struct sr1__schedule {
    const char *shape; /* "constant", "linear" or "cosine" (borrowed) */
    double rate;
    int64_t first; /* steps before it begins; the others count from there */
    int64_t warmup;
    double warmup_ratio; /* of total, where warmup is 0 */
    int64_t total;       /* steps; 0: unknown, the rate does not decay */
    double decay_start;
    double final_ratio;
};

/* Does it depend on how many steps there are? */
int sr1__schedule_needs_total(const struct sr1__schedule *s);

/* The number of steps that it was planned for, the first ones included. */
int64_t sr1__schedule_steps(const struct sr1__schedule *s);

/* How many steps there are, the first ones included, is known now; a warm-up that is a
 * part of them, too. */
void sr1__schedule_plan(struct sr1__schedule *s, int64_t total);

/* step counts from 0, the first ones included. */
double sr1__schedule_rate(const struct sr1__schedule *s, int64_t step);

#endif
