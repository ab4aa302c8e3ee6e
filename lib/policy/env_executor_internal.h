/* policy/env_executor_internal.h - what env_executor.c (threads, calls)
 * and env_completions.c (engines) share.
 * Guarded by the executor's lock. */
#ifndef SR1__POLICY_ENV_EXECUTOR_INTERNAL_H
#define SR1__POLICY_ENV_EXECUTOR_INTERNAL_H

#include "policy/env_executor.h"

#include "base/error.h"
#include "base/executor.h"

#include <pthread.h>

enum sr1__env_request_state {
    SR1__REQUEST_NONE,
    SR1__REQUEST_QUEUED,
    SR1__REQUEST_RUNNING,
    SR1__REQUEST_DONE
};

/* The action of one row of an engine. */
struct sr1__env_request {
    struct sr1__env_request *next; /* in the queue */
    struct sr1__env_completions *completions;
    enum sr1__env_request_state state;
    struct sr1__action action; /* text is ours until the call begins */
    double asked;              /* when; the deadline counts from there */
    struct sr1__observation observation;
};

struct sr1__env_completions {
    struct sr1__env_executor *executor;
    struct sr1__env_request *requests; /* [rows] */
    int32_t n_rows;
    size_t waiting;
    int stuck;     /* its owner can do nothing but wait */
    uint64_t mark; /* sr1_call_mark of its owner */
    pthread_cond_t answered;
    void (*on_answer)(void *arg); /* NULL: nobody else waits */
    void *on_answer_arg;
    struct sr1__search_tally *tally; /* NULL: searches are not counted */
    struct sr1__error error;         /* the environment failed as a whole */
};

/* A task of base/executor.h that takes actions until none is queued. */
struct sr1__env_worker {
    struct sr1__env_executor *executor;
    struct sr1__task task;
    int active; /* posted, and not ended or given up */
};

/* One call of the environment. */
struct sr1__env_call {
    struct sr1__env_call *next; /* of those under way */
    struct sr1__env_worker *worker;
    uint64_t mark; /* of all its requests */
    int lost;
    size_t n;
    struct sr1__env_request *
        *requests; /* [n]; NULL: nobody wants it; not to be touched once lost */
    struct sr1__action *actions;
    struct sr1__observation *observations;
    struct sr1__search_tally tally;
};

struct sr1__env_executor {
    pthread_mutex_t lock;
    struct sr1__executor *threads;
    pthread_cond_t wake; /* what is queued may be due */
    sr1_env *env;
    double deadline;
    double wait;
    pthread_mutex_t *env_lock; /* NULL: none */
    int separate; /* a call may carry some of what is queued, else all of it */
    int single;   /* a call carries one, or those that the environment joins */
    struct sr1__env_request *first, *last; /* the queue */
    size_t n_queued;
    double since; /* when the first of them was queued */
    int32_t n_engines, n_stuck;
    struct sr1__env_call *calls;     /* under way, not lost */
    struct sr1__env_worker *workers; /* [n_workers] */
    int32_t n_workers;
    int32_t n_active;
    int32_t n_calling; /* of the active ones, those in a call */
    int32_t n_lost;    /* calls that were given up and have not returned */
    int quit;          /* nothing gathers any more */
    int orphaned;      /* the last lost call frees the executor */
};

/* Append to the queue. */
void sr1__env_executor_enqueue(struct sr1__env_executor *a, struct sr1__env_request *k);
/* Have as many workers active as what is queued wants, and let those that wait look
 * whether it is due. */
void sr1__env_executor_notify(struct sr1__env_executor *a);
/* Time out what is past the deadline, and give up calls that nobody waits for. */
void sr1__env_executor_abandon_late(struct sr1__env_executor *a);
/* Free the text that the request still owns. */
void sr1__env_request_free_text(struct sr1__env_request *k);

#endif
