/* rollout/level_lane.h - one decoder that compares steps. */
#ifndef SR1__ROLLOUT_LEVEL_LANE_H
#define SR1__ROLLOUT_LEVEL_LANE_H

#include "rollout/level_row.h"

/* One call of sr1__rollout_levels. */
struct sr1__level_work {
    struct sr1__level_call call;
    struct sr1__level_task *tasks; /* [n_tasks] trajectory by trajectory */
    size_t n_tasks;
    int32_t rows; /* of each lane */
    struct sr1__level_stats stats;
    pthread_mutex_t lock; /* over stats */
};

/* Compare share `lane` of the tasks; a function for sr1__pool_run, arg is the work. */
sr1_status sr1__level_lane_run(void *arg, size_t lane);

#endif
