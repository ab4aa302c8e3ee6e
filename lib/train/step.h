/* train/step.h - what one step of reinforcement learning works on. */
#ifndef SR1__TRAIN_STEP_H
#define SR1__TRAIN_STEP_H

#include "train/internal.h"

struct sr1__step {
    sr1_trainer *tr;
    const sr1_query *queries;
    size_t n_queries;
    int32_t group_size;
    sr1_trajectory **made; /* [n] query by query */
    size_t n;
    sr1_trajectory **kept; /* [n_kept] of made: those that can be scored; borrowed */
    size_t n_kept;
    double *baselines;     /* [n] reward of the query's greedy rollout, NULL unless the
                              estimator asks for it; once some are left out [n_kept] */
    uint8_t *dead;         /* [n_kept] its group cannot teach */
    uint32_t judged;       /* columns that were found before the rewards */
    size_t n_taught;       /* the first of kept, once the dead are dropped */
    struct sr1__trajectory_store *store;
    struct sr1__trajectory_store *log; /* takes all of them, or NULL */
    int keep;                          /* the caller wants them */
    sr1_step_report *report;
};

/* ---- explore.c ---- */

/* Roll out the groups; kept are those that can be scored. */
sr1_status sr1__step_explore(struct sr1__step *s);

/* Once they are scored. An outage is not the policy's failure: trajectories whose search
 * had no answer, or whose reward could not be had, are neither compared nor trained on,
 * only logged and counted. */
void sr1__step_leave_out(struct sr1__step *s);

/* ---- compare.c ---- */

/* The rewards' KL penalty where one is asked for, then advantages, dead groups. */
sr1_status sr1__step_compare(struct sr1__step *s);

#endif
