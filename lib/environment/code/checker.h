/* environment/code/checker.h - the inside of a checker, for its callers and its threads.
 */
#ifndef SR1__CODE_CHECKER_H
#define SR1__CODE_CHECKER_H

#include "environment/code/code_check.h"
#include "environment/code/program_normalizer.h"
#include "environment/code/check_cache.h"

struct sr1_checker {
    atomic_int references;
    sr1_sandbox *box;
    struct sr1__check_limits limits;
    struct sr1__check_cache *results;
    struct sr1__code_normaliser *normaliser;
    int32_t keeps; /* 1: results are kept */
    struct sr1__executor *executor;
    pthread_mutex_t lock;     /* around all below */
    pthread_cond_t ended;     /* one that led has */
    struct sr1_check *checks; /* not yet done */
    sr1_checker_stats stats;
};

/* Give back a reference to a check. */
void sr1__check_drop_ref(struct sr1_check *c);

/* Look a check up or run it, and finish it; a task of the checker's executor. */
void sr1__check_work(void *check);

#endif
