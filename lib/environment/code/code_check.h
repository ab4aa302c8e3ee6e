/* environment/code/code_check.h - a check: one program against the tests of one problem,
 * and its outcome.
 */
#ifndef SR1__CODE_CODE_CHECK_H
#define SR1__CODE_CODE_CHECK_H

#include "base/buf.h"
#include "base/executor.h"
#include "environment/code/problems.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- outcome of the tests ---- */

struct sr1__check_outcome {
    unsigned char *verdicts; /* [n] SR1_RUN_*, SR1_CHECK_SKIPPED */
    size_t n;
    int32_t verdict; /* of all: see sr1_check_report */
    int64_t first_failed;
    struct sr1__buf got; /* of that test */
    struct sr1__buf error;
    int32_t inside; /* it was judged by the answer's own process */
    int32_t unsure; /* the next try may end in another way */
    uint64_t text;  /* digest of the program's own text, which a traceback quotes */
};

/* All tests skipped. */
sr1_status sr1__check_outcome_init(struct sr1__check_outcome *o, size_t n);
void sr1__check_outcome_free(struct sr1__check_outcome *o);
/* Tests [from, n) have this verdict. */
void sr1__check_outcome_rest(struct sr1__check_outcome *o, size_t from, int32_t verdict);
/* The verdict of all, and the first failure, from those of the tests. */
void sr1__check_outcome_sum_up(struct sr1__check_outcome *o);
/* Can the outcome be cached? Not when the sandbox failed, a test timed out or the process
 * of the tests died: these may differ next time. */
int sr1__check_outcome_lasts(const struct sr1__check_outcome *o);
void sr1__check_outcome_write(const struct sr1__check_outcome *o, struct sr1__buf *b);
/* 1 when b holds one of o->n tests that may have been kept, and that is true of a program
 * of o->text too; else o is as it was. */
int sr1__check_outcome_read(struct sr1__check_outcome *o, const struct sr1__buf *b);

/* ---- a check ---- */

struct sr1_check {
    atomic_int references; /* the caller's, and its thread's */
    pthread_mutex_t lock;  /* around the next four */
    pthread_cond_t ended;
    int done;
    int cancelled;
    sr1_execution **runs; /* [n_runs] under way; NULL where none is */
    size_t n_runs;
    sr1_problems *problems;
    const sr1_problem *problem;
    char *code;
    size_t code_len;
    struct sr1__check_outcome outcome; /* the rest is set before done */
    int32_t all_or_nothing;
    int32_t cached;
    double seconds;
    struct sr1_checker *checker;
    struct sr1__task task;
    struct sr1__buf
        key;   /* of its results; set by its thread, which then leads or waits */
    int leads; /* it is run; equal ones wait; under the checker's lock */
    struct sr1_check *next; /* of the checker's, under its lock */
};

struct sr1__tester;

/* How programs are run. */
struct sr1__check_limits {
    int32_t all_or_nothing;
    double time_limit;     /* 0: the problem's */
    double max_time_limit; /* bound on that */
    int32_t memory_mib;    /* 0: the sandbox's */
    int64_t value_bytes;   /* memory for results outside the answer's process */
    size_t concurrency;
    int32_t inside_allowed; /* tests that cannot be judged outside may be judged inside */
    struct sr1__tester *tester;
};

double sr1__check_time(const struct sr1__check_limits *l, const sr1_problem *p);

/* Run the tests; *programs counts the programs that were run. The status reports failures
 * of the library: memory, options that a sandbox does not support. */
sr1_status sr1__check_tests(struct sr1_check *c, sr1_sandbox *box,
                            const struct sr1__check_limits *l, int64_t *programs);

/* ---- for the files that run tests ---- */

/* SR1_E_CANCELLED with its text. */
sr1_status sr1__check_fail_cancelled(void);
/* Start a program in place k of c->runs; a cancelled check starts nothing, and
 * SR1_E_CANCELLED comes back. */
sr1_status sr1__check_start(struct sr1_check *c, sr1_sandbox *box,
                            const sr1_program *program, size_t k);
/* The same in place 0, with a socket as its standard input. */
sr1_status sr1__check_start_linked(struct sr1_check *c, sr1_sandbox *box,
                                   const sr1_program *program, int socket);
/* Wait for the run in place k; *out is borrowed until sr1__check_drop. */
sr1_status sr1__check_result(struct sr1_check *c, size_t k, sr1_execution_result *out);
void sr1__check_drop(struct sr1_check *c, size_t k); /* cancels it where it runs */

/* Seconds for all tests together. */
double sr1__check_whole_time(const struct sr1__check_limits *l, const sr1_problem *p);

/* Statements and calls, by a process that does not run the answer. *inside becomes 1 when
 * only the answer's own process can decide the tests; the outcome is then unchanged. */
sr1_status sr1__check_outside(struct sr1_check *c, sr1_sandbox *box,
                              const struct sr1__check_limits *l, int64_t *programs,
                              int *inside);
/* The same by the driver, in the answer's process. */
sr1_status sr1__check_driven(struct sr1_check *c, sr1_sandbox *box,
                             const struct sr1__check_limits *l, int64_t *programs);
/* Standard input and output. */
sr1_status sr1__check_stdio(struct sr1_check *c, sr1_sandbox *box,
                            const struct sr1__check_limits *l, int64_t *programs);

#endif
