/* environment/sandbox/sandbox_execution.h - one execution from its start to its verdict.
 *
 * The caller's sr1_execution and the engine that works on it share one counted struct.
 * Until `done` the outcome belongs to the engine, afterwards it never changes. */
#ifndef SR1__SANDBOX_SANDBOX_EXECUTION_H
#define SR1__SANDBOX_SANDBOX_EXECUTION_H

#include <searchr1/ext/sandbox.h>

#include "base/buf.h"
#include "environment/sandbox/job.h"

#include <pthread.h>
#include <stdatomic.h>

/* The outcome of an execution, or of one test of a submission. Zeroed by
 * sr1__outcome_init. */
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

struct sr1_execution {
    atomic_int refs;
    pthread_mutex_t lock; /* over done, and box until then */
    pthread_cond_t ended;
    int done;
    sr1_sandbox *box; /* borrowed until done */
    atomic_int cancelled;
    struct sr1__sandbox_job *job; /* the engine's; freed when done */
    struct sr1__outcome outcome;
    struct sr1__outcome *tests;
    size_t n_tests;
    int32_t attempts;
    double asked_at;            /* sr1__now() */
    double begun_at;            /* of the last attempt; 0: none */
    double due;                 /* the engine's: not before this time */
    struct sr1_execution *next; /* in the one list that holds it */
};

/* A run of job, which it owns from success on. Two references: the caller's and the
 * engine's. */
sr1_status sr1__execution_new(struct sr1_execution **out, sr1_sandbox *box,
                              struct sr1__sandbox_job *job);
/* The engine has filled the outcome: wake who waits, drop the engine's reference. */
void sr1__execution_end(struct sr1_execution *run);
void sr1__execution_drop(struct sr1_execution *run); /* one reference */

/* First in, first out. */
struct sr1__executions {
    struct sr1_execution *first;
    struct sr1_execution **end;
};

void sr1__executions_init(struct sr1__executions *q);
void sr1__executions_add(struct sr1__executions *q, struct sr1_execution *run);
/* Take the run at *at (&q->first, or &other->next) out. */
struct sr1_execution *sr1__executions_take(struct sr1__executions *q,
                                           struct sr1_execution **at);

#endif
