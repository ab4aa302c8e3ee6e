/* policy/level_branch_engine.h - one decoder that compares steps. */
#ifndef SR1__POLICY_LEVEL_BRANCH_ENGINE_H
#define SR1__POLICY_LEVEL_BRANCH_ENGINE_H

#include "policy/level_branch.h"

/* One call of sr1__rollout_level_branches. */
struct sr1__level_branch_work {
    struct sr1__level_branch_call call;
    struct sr1__level_branch_task *tasks; /* [n_tasks] trajectory by trajectory */
    size_t n_tasks;
    int32_t rows; /* of each engine */
    struct sr1__level_branch_stats stats;
    pthread_mutex_t lock; /* over stats */
};

/* Compare share `worker` of the tasks; a function for sr1__pool_run, arg is the work. */
sr1_status sr1__level_branch_engine_run(void *arg, size_t worker);

#endif
