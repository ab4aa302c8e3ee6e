/* server/batch.h - jobs of many requests, carried out by a few threads.
 *
 * A search job is cut into tasks of at most `batch` queries, so that a request with many
 * queries is spread over all threads; jobs take turns, so that it does not hold up small
 * ones; tasks that wait are put together, up to the same number, into one call of the
 * engine. What was accepted is
 * finished: closing waits for it. */
#ifndef SR1__SERVER_BATCH_H
#define SR1__SERVER_BATCH_H

#include <searchr1/search.h>

#include "server/metrics.h"

#include <stdatomic.h>

struct sr1__task;

struct sr1__job {
    /* Set by who hands it over; all of it stays until done is called. */
    const char *const *queries; /* [n] */
    size_t n;
    int32_t top_k;
    int32_t scores;
    /* NULL: search. Else this is called once, on a worker; returns the HTTP status and
     * leaves the answer, or the text of the error, in answer. */
    int (*run)(struct sr1__job *job);
    /* Called once, on a worker, when status and answer are set. */
    void (*done)(struct sr1__job *job);
    void *owner;

    int status;             /* HTTP */
    struct sr1__buf answer; /* JSON; initialised by who hands the job over */

    /* Inside. */
    struct sr1__job *next;   /* in the queue */
    struct sr1__task *tasks; /* [n_tasks] */
    size_t n_tasks;
    size_t taken;        /* tasks that workers have */
    atomic_size_t left;  /* tasks not done */
    atomic_size_t bytes; /* of answer, in all tasks */
    char failure[256];
};

struct sr1__batcher;

struct sr1__batch_options {
    sr1_search *engine; /* borrowed */
    struct sr1__metrics *metrics;
    int32_t threads;
    int32_t batch;     /* most queries of one call */
    int32_t window_us; /* how long a call waits for more queries */
    size_t max_answer; /* bytes */
};

sr1_status sr1__batcher_open(struct sr1__batcher **out,
                             const struct sr1__batch_options *options);
/* From any thread. An error (no memory, closed) hands the job back: done is not called.
 */
sr1_status sr1__batcher_submit(struct sr1__batcher *b, struct sr1__job *job);
/* Finish what was handed over, then stop. Later jobs are refused. */
void sr1__batcher_close(struct sr1__batcher *b);
void sr1__batcher_free(struct sr1__batcher *b);
/* Free what submit added to a job; after done, or when it was never handed over. */
void sr1__job_free(struct sr1__job *job);

#endif
