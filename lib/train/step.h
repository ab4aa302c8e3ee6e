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
    struct sr1__level_step *levels; /* of each turn of kept, NULL unless the estimator
                                       asks for its level */
    size_t n_taught;       /* the first of kept, once the dead are dropped */
    struct sr1__trajectory_store *store;
    struct sr1__trajectory_store *log; /* takes all of them, or NULL */
    int keep;                          /* the caller wants them */
    sr1_step_report *report;
};

/* ---- explore.c ---- */

/* Roll out the groups, and leave out what says nothing about the policy. */
sr1_status sr1__step_explore(struct sr1__step *s);

/* The seed of the step's random streams. */
uint64_t sr1__step_seed(const struct sr1__step *s);

/* ---- levels.c ---- */

/* The steps of rewarded trajectories at the other levels, for the estimator that asks. */
sr1_status sr1__step_levels(struct sr1__step *s);

/* ---- compare.c ---- */

/* The rewards' KL penalty where one is asked for, then advantages, dead groups. */
sr1_status sr1__step_compare(struct sr1__step *s);

#endif
