/* sandbox/run.h - a run from its start to its verdict.
 *
 * The caller's sr1_run and the engine that works on it share one counted struct. Until
 * `done` the outcome belongs to the engine, afterwards it never changes. */
#ifndef SR1__SANDBOX_RUN_H
#define SR1__SANDBOX_RUN_H

#include <searchr1/sandbox.h>

#include "base/buf.h"
#include "sandbox/job.h"

#include <pthread.h>
#include <stdatomic.h>

/* What a run, or one test of a submission, came to. Zeroed by sr1__outcome_init. */
struct sr1__outcome {
    int32_t verdict;
    int32_t exit_code;
    int32_t signal;
    int32_t accepted;
    struct sr1__buf out;
    struct sr1__buf err;
    int64_t err_total;
    char message[512];
    double wall_s;
    double cpu_s;
    int64_t peak_bytes;
};

void sr1__outcome_init(struct sr1__outcome *o);
void sr1__outcome_free(struct sr1__outcome *o);
/* The verdict, with why. Text that is not UTF-8 or has line ends is mended. */
void sr1__outcome_set(struct sr1__outcome *o, int32_t verdict, const char *fmt, ...)
    SR1__PRINTF(3, 4);

struct sr1_run {
    atomic_int refs;
    pthread_mutex_t lock; /* over done, and box until then */
    pthread_cond_t ended;
    int done;
    sr1_sandbox *box; /* borrowed until done */
    atomic_int cancelled;
    struct sr1__job *job; /* the engine's; freed when done */
    struct sr1__outcome outcome;
    struct sr1__outcome *tests;
    size_t n_tests;
    int32_t attempts;
    double asked_at;      /* sr1__now() */
    double begun_at;      /* of the last attempt; 0: none */
    double due;           /* the engine's: not before this time */
    struct sr1_run *next; /* in the one list that holds it */
};

/* A run of job, which it owns from success on. Two references: the caller's and the
 * engine's. */
sr1_status sr1__run_new(struct sr1_run **out, sr1_sandbox *box, struct sr1__job *job);
/* The engine has filled the outcome: wake who waits, drop the engine's reference. */
void sr1__run_end(struct sr1_run *run);
void sr1__run_drop(struct sr1_run *run); /* one reference */

/* First in, first out. */
struct sr1__runs {
    struct sr1_run *first;
    struct sr1_run **end;
};

void sr1__runs_init(struct sr1__runs *q);
void sr1__runs_add(struct sr1__runs *q, struct sr1_run *run);
/* Take the run at *at (&q->first, or &other->next) out. */
struct sr1_run *sr1__runs_take(struct sr1__runs *q, struct sr1_run **at);

#endif
