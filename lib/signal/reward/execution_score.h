/* signal/reward/execution_score.h - rewards by running code; see searchr1/reward.h. */
#ifndef SR1__REWARD_EXECUTION_SCORE_H
#define SR1__REWARD_EXECUTION_SCORE_H

#include <searchr1/ext/code.h>
#include <searchr1/trajectory.h>

/* What is under way for one reward, and for which trajectories. */
struct sr1__pending_checks;

struct sr1__execution {
    sr1_checker *checker; /* NULL: none of these rewards */
    sr1_problems *problems;
    int32_t judgement_required;
    int32_t revised; /* a message is a critique, and what is inserted its revision */
    struct sr1__pending_checks *execution; /* made when first needed */
    struct sr1__pending_checks *judgement;
};

/* Drops what is under way, and the handles. */
void sr1__execution_close(struct sr1__execution *x);

/* self: a struct sr1__reward_context. */
sr1_status sr1__execution_begin(void *self, sr1_trajectory *t);
sr1_status sr1__judgement_begin(void *self, sr1_trajectory *t);
sr1_status sr1__score_execution(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out);
sr1_status sr1__score_judgement(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out);
void sr1__execution_forget(void *self);
void sr1__judgement_forget(void *self);

#endif
