/* base/executor.h - a queue of tasks and the threads that run them.
 *
 * Threads start when a task finds none idle, up to a bound, and take no signals of the
 * program. A task lies in the caller's own struct, so that nothing is allocated for it.
 *
 * A task is *posted*, and its run does all that follows from it; or it is *submitted*,
 * and its owner waits for it until a deadline. A call that has not returned by then is
 * abandoned, and so is that of a posted task whose owner says so: its thread counts as
 * lost and another one may take its place, until the call returns. */
#ifndef SR1__BASE_EXECUTOR_H
#define SR1__BASE_EXECUTOR_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct sr1__executor;

struct sr1__task {
    void (*run)(void *arg);  /* on a thread of the executor */
    void (*free)(void *arg); /* of a submitted one, abandoned; it may free the executor */
    void *arg;
    struct sr1__task *next; /* the rest is the executor's */
    int state;
    int posted;
    uint64_t mark; /* sr1_call_mark of the thread that posted it */
    int *lost;     /* while it runs: has its call been abandoned? */
};

/* name begins the texts of errors ("checker") and must outlive the executor. At most
 * `threads` run tasks; while more than max_lost are lost, none is started. */
sr1_status sr1__executor_new(struct sr1__executor **out, const char *name, size_t threads,
                             size_t max_lost);
/* Returns when what is queued has run and no thread is left but those that are lost, of
 * which the last one frees what they use. NULL is fine. */
void sr1__executor_free(struct sr1__executor *x);

/* Queue a task that nobody waits for: once it runs, the executor does not touch it again,
 * so that run may free it or post it anew. SR1_E_LIMIT, and the task is not queued, when
 * there is no thread and the system refuses one; otherwise it waits for those there are.
 */
sr1_status sr1__executor_post(struct sr1__executor *x, struct sr1__task *t);

/* Abandon the call of a posted task, which has begun and not returned, as its owner
 * knows. The task may be posted anew at once. */
void sr1__executor_abandon(struct sr1__executor *x, struct sr1__task *t);

/* Post a task that is waited for, once. */
sr1_status sr1__executor_submit(struct sr1__executor *x, struct sr1__task *t);
/* 1: the task has run. 0: it has not by `until` (as sr1__now() counts; INFINITY waits
 * without end) and is given up: its arg is freed, now if it had not begun, or when its
 * call returns. The struct is the caller's again at once. */
int sr1__executor_wait(struct sr1__executor *x, struct sr1__task *t, double until);

/* Return when a submitted task has run, and run tasks of the queue on this thread until
 * then. */
void sr1__executor_join(struct sr1__executor *x, struct sr1__task *t);

/* Threads that run tasks or would, and those in a call that was abandoned. */
size_t sr1__executor_threads(struct sr1__executor *x);
size_t sr1__executor_lost(struct sr1__executor *x);
/* Forget the posted tasks that have not begun; they are their owners' again. */
void sr1__executor_clear(struct sr1__executor *x);
/* 1 as soon as nothing is queued or runs, lost threads aside; 0: not by `until`. */
int sr1__executor_drain(struct sr1__executor *x, double until);

#endif
