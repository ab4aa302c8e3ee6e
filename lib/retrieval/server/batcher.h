/* retrieval/server/batcher.h - execute the jobs of many requests on a few threads.
 *
 * A search job is cut into tasks of at most `batch` queries, so that a request with many
 * queries is spread over all threads; jobs take turns, so a large one does not delay
 * small ones; waiting tasks are merged, up to the same number, into one call of the
 * engine. Accepted jobs are finished: closing waits for them. */
#ifndef SR1__SERVER_BATCHER_H
#define SR1__SERVER_BATCHER_H

#include <searchr1/search.h>

#include "retrieval/server/server_metrics.h"

#include <stdatomic.h>

struct sr1__server_task;

struct sr1__server_job {
    /* Set by who hands it over; all of it stays until done is called. */
    const char *const *queries; /* [n] */
    size_t n;
    int32_t top_k;
    int32_t scores;
    const struct sr1__dialect *dialect; /* of a search */
    /* NULL: search. Else this is called once, on a worker; returns the HTTP status and
     * leaves the answer, or the text of the error, in answer. */
    int (*run)(struct sr1__server_job *job);
    /* Called once, on a worker, when status and answer are set. */
    void (*done)(struct sr1__server_job *job);
    void *owner;

    int status;             /* HTTP */
    struct sr1__buf answer; /* JSON; initialised by who hands the job over */

    /* Inside. */
    struct sr1__server_job *next;   /* in the queue */
    struct sr1__server_task *tasks; /* [n_tasks] */
    size_t n_tasks;
    size_t taken;             /* tasks that workers have */
    atomic_size_t left;       /* tasks not done */
    atomic_size_t bytes;      /* of answer, in all tasks; also in all_bytes */
    atomic_size_t *all_bytes; /* of all jobs that are not freed */
    char failure[256];
};

struct sr1__batcher;

struct sr1__batcher_options {
    sr1_search *engine; /* borrowed */
    struct sr1__server_metrics *metrics;
    int32_t threads;
    int32_t batch;     /* most queries of one call */
    int32_t window_us; /* how long a call waits for more queries */
    size_t max_answer; /* bytes */
};

sr1_status sr1__batcher_open(struct sr1__batcher **out,
                             const struct sr1__batcher_options *options);
/* From any thread. An error (no memory, closed) hands the job back: done is not called.
 */
sr1_status sr1__batcher_submit(struct sr1__batcher *b, struct sr1__server_job *job);
/* Finish the submitted jobs, then stop. Later jobs are refused. */
void sr1__batcher_close(struct sr1__batcher *b);
/* 1: this is one of its threads, or another that works for one (sr1_call_mark), which
 * cannot wait for itself. */
int sr1__batcher_is_here(const struct sr1__batcher *b);
void sr1__batcher_free(struct sr1__batcher *b);
/* Free the memory that submit added to a job; after done, or if it was never submitted.
 */
void sr1__server_job_free(struct sr1__server_job *job);

#endif
