/* policy/env_executor.h - an executor for slow environments: actions are queued and run
 * on its own threads, so that sequences without a pending action keep decoding.
 *
 * Actions are batched until the oldest has been queued for `wait` seconds, or until every
 * engine is only waiting for observations. Then threads of the executor take what is
 * queued, all of it or each its share; answers come into the completion queue of the loop
 * that asked. A request that has no answer at its deadline, which counts from when it was
 * queued, gets SR1_ACTION_TIMEOUT. Where nobody waits for a call any more, another thread
 * takes its place, and the answer, should it ever come, is thrown away. */
#ifndef SR1__POLICY_ENV_EXECUTOR_H
#define SR1__POLICY_ENV_EXECUTOR_H

#include "environment/env/env.h"
#include "retrieval/search/search_engine.h"

#include <pthread.h>

struct sr1__env_executor;
struct sr1__env_completions;

/* What came of one action. */
struct sr1__env_completion {
    int32_t row;                         /* as submitted */
    struct sr1__observation observation; /* the receiver frees it */
};

struct sr1__env_executor_options {
    int32_t threads;
    double deadline; /* of a request in seconds; 0: none */
    double wait;     /* seconds in which actions gather; 0: they do not */
    /* NULL, or held around a call: the environment is no one that waits, and a call
     * carries out all that is queued. */
    pthread_mutex_t *env_lock;
};

/* Keeps a reference to env; env_lock must outlive the executor. */
sr1_status sr1__env_executor_new(struct sr1__env_executor **out, sr1_env *env,
                                 const struct sr1__env_executor_options *options);
/* After all completion queues are gone. Does not wait for calls under way, unless they
 * hold env_lock: their threads end when the calls do, and the last one frees what they
 * use. NULL is fine. */
void sr1__env_executor_free(struct sr1__env_executor *a);

/* The completion queue of one engine for its sequences [0, rows), or their places where
 * one may have several actions under way. While it exists, the
 * engine counts as one that may still submit actions. One thread uses it. */
sr1_status sr1__env_completions_new(struct sr1__env_completions **out,
                                    struct sr1__env_executor *a, int32_t rows);
/* Call fn(arg) from any thread whenever an observation has come; it may not call back. */
void sr1__env_completions_on_answer(struct sr1__env_completions *b, void (*fn)(void *arg),
                                    void *arg);
/* Count the searches for its actions into *tally, whose engine is set, before their
 * observations come; queues that share it are counted together. A call that others share
 * counts for each. */
void sr1__env_completions_count(struct sr1__env_completions *b,
                                struct sr1__search_tally *tally);
/* Cancels queued requests; observations of requests already running are dropped when
 * they arrive. NULL is fine. */
void sr1__env_completions_free(struct sr1__env_completions *b);

/* Queue actions[n] of rows[n], none of which has an action under way. Texts are copied.
 */
sr1_status sr1__env_completions_submit(struct sr1__env_completions *b,
                                       const int32_t *rows,
                                       const struct sr1__action *actions, size_t n);
/* Move what has come to replies (room for all rows), *n of them; wait at most `seconds`
 * for the first. An environment that failed as a whole fails this call. */
sr1_status sr1__env_completions_collect(struct sr1__env_completions *b, double seconds,
                                        struct sr1__env_completion *replies, size_t *n);
/* Actions without a reply yet. */
size_t sr1__env_completions_pending(const struct sr1__env_completions *b);

#endif
