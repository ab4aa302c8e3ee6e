/* train/step.h - what one step of reinforcement learning works on. */
#ifndef SR1__TRAIN_STEP_H
#define SR1__TRAIN_STEP_H

#include "train/internal.h"

struct sr1__step {
    sr1_trainer *tr;
    const sr1_query *queries;
    const int64_t *rows; /* [n_queries] of the data; NULL: the caller's own questions */
    size_t n_queries;
    uint64_t round;      /* of further questions of this step; 0: the first */
    int32_t group_size;
    sr1_trajectory **made; /* [n] query by query */
    size_t n;
    sr1_trajectory **kept; /* [n_kept] of made: those that can be scored; borrowed */
    size_t n_kept;
    double *baselines;     /* [n] reward of the query's greedy rollout, NULL unless the
                              estimator asks for it; once some are left out [n_kept] */
    uint8_t *dead;         /* [n_kept] its group cannot teach */
    uint32_t judged;       /* columns that were found before the rewards */
    struct sr1__level_step *levels; /* of each turn of kept, NULL unless the estimator
                                       asks for its level */
    size_t n_taught;       /* the first of kept, once the dead are dropped */
    sr1_trajectory **told; /* [n_taught] as the update sees them; NULL: as they are */
    struct sr1__trajectory_store *store;
    struct sr1__trajectory_store *log; /* takes all of them, or NULL */
    int keep;                          /* the caller wants them */
    int64_t answers, drifted;          /* of a server that generated; of all rounds */
    sr1_step_report *report;
};

/* ---- trainer.c ---- */

/* Arrays for the trajectories of n_queries groups; sr1__step_free also frees what they
 * hold. */
sr1_status sr1__step_room(struct sr1__step *s);
void sr1__step_free(struct sr1__step *s);
/* Roll out, reward, and learn what the rows are worth. */
sr1_status sr1__step_attempt(struct sr1__step *s);

/* ---- shape.c ---- */

/* Did a limit on tokens end it? */
int sr1__was_cut(const sr1_trajectory *t);
/* What a response loses for its length: 0 or less. */
sr1_status sr1__overlong(const struct sr1__settings *set, const sr1_trajectory *t,
                         double *penalty);
/* That off the rewards of kept. */
sr1_status sr1__step_shape(struct sr1__step *s);

/* ---- questions.c ---- */

/* At most `most` further rows for round `round` (from 1) of a step that has asked
 * used[n_used]; *n 0: there are none. */
sr1_status sr1__questions_more(sr1_trainer *tr, const int64_t *used, size_t n_used,
                               size_t most, uint64_t round, int64_t *rows, size_t *n);
/* What the groups of s->rows say of them. */
sr1_status sr1__questions_learn(struct sr1__step *s);

/* ---- refill.c ---- */

/* Dynamic sampling: further groups in place of those that teach nothing. */
sr1_status sr1__step_refill(struct sr1__step *s);

/* ---- explore.c ---- */

/* Roll out the groups; kept are those that can be scored. */
sr1_status sr1__step_explore(struct sr1__step *s);

/* Once they are scored. An outage is not the policy's failure: trajectories whose search
 * had no answer, or whose reward could not be had, are neither compared nor trained on,
 * only logged and counted. */
void sr1__step_leave_out(struct sr1__step *s);

/* Share of a server's answers whose text alone would have given other ids. */
double sr1__step_drift(const struct sr1__step *s);

/* The seed of the step's random streams. */
uint64_t sr1__step_seed(const struct sr1__step *s);

/* ---- levels.c ---- */

/* The steps of rewarded trajectories at the other levels, for the estimator that asks. */
sr1_status sr1__step_levels(struct sr1__step *s);

/* ---- compare.c ---- */

/* The rewards' KL penalty where one is asked for, then advantages, dead groups. */
sr1_status sr1__step_compare(struct sr1__step *s);

#endif
