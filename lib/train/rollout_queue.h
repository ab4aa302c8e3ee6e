/* train/rollout_queue.h - rollouts of a run that begin before their step (async_level).
 *
 * A queue of steps in their order. Each has the rows of its questions, drawn from the
 * data one after the other, and a rollout by the servers in the background. The head is
 * taken by its step, and leaves the queue once that step is done.
 *
 * A checkpoint keeps the queue: the rows, and the trajectories of rollouts that are over,
 * as they were before anything was scored. What is not over begins again with the weights
 * that the servers had (weight_sync.c), so that a resumed run goes on as if it had never
 * stopped, as far as the servers repeat themselves. */
#ifndef SR1__TRAIN_ROLLOUT_QUEUE_H
#define SR1__TRAIN_ROLLOUT_QUEUE_H

#include "policy/background_rollout.h"
#include "policy/dataset_queries.h"
#include "policy/share_rollout.h"
#include "train/internal.h"

struct sr1__queued_rollout {
    struct sr1__queued_rollout *next;
    int64_t step;                 /* whole steps before the one that it is for */
    struct sr1__data_place place; /* in the data, before its rows were drawn */
    int64_t *rows;                /* [n] */
    size_t n;
    struct sr1__dataset_queries asked; /* the rows; once it has begun */
    struct sr1__rollout_share share;
    struct sr1__background_rollout *run; /* NULL: not begun, or over */
    int64_t version;       /* of the weights that generate it; -1: not begun */
    sr1_trajectory **t;    /* [n * group_size] of all ranks, once it is over; else NULL */
    struct sr1__buf bytes; /* the same in their binary form */
    struct sr1__rollout_stats stats;
    double seconds; /* that it took */
};

/* The rollout of the step under way or next, NULL: it has none. */
static inline struct sr1__queued_rollout *sr1__rollout_queue_head(const sr1_trainer *tr)
{
    struct sr1__queued_rollout *q = tr->queue;

    return q && q->step == tr->step ? q : NULL;
}

/* The rows of the next step: the head's, or the data's next; rows[batch_size]. */
sr1_status sr1__rollout_queue_rows(sr1_trainer *tr, int64_t *rows, size_t *n);
/* The rows of the steps behind the one under way: rows[async_level * batch_size]. Returns
 * how many there are. */
size_t sr1__rollout_queue_list(const sr1_trainer *tr, int64_t *rows);
/* Draw the rows of the steps behind the one under way, which has asked rows[n] that are
 * not scored yet, as far ahead as is configured and planned, and begin all rollouts that
 * have not. */
sr1_status sr1__rollout_queue_fill(sr1_trainer *tr, const int64_t *rows, size_t n);
/* Begin all that have not, and wait until q is over. waits is told how far it is, every
 * now and then, and ends the waiting with a status of its own. */
sr1_status sr1__rollout_queue_wait(sr1_trainer *tr, struct sr1__queued_rollout *q,
                                   sr1_status (*waits)(void *user, int64_t done,
                                                       int64_t total),
                                   void *user);
/* Wait likewise until all are over that have begun. */
sr1_status sr1__rollout_queue_drain(sr1_trainer *tr,
                                    sr1_status (*waits)(void *user, int64_t done,
                                                        int64_t total),
                                    void *user);
/* The step under way is done: its head leaves. */
void sr1__rollout_queue_pop(sr1_trainer *tr);
/* Between steps: note the places in the data, in tr->place and tr->drawn. */
void sr1__rollout_queue_mark(sr1_trainer *tr);
/* A step that failed will draw its further rows again, by the order of the data: back to
 * the last mark, unless all that was drawn since is in the queue. */
sr1_status sr1__rollout_queue_rewind(sr1_trainer *tr);
/* End all that is under way, and forget it. */
void sr1__rollout_queue_clear(sr1_trainer *tr);

/* ---- checkpoints ---- */

/* For the state of a checkpoint; null: there is no queue. NULL without memory. */
json_t *sr1__rollout_queue_pack(sr1_trainer *tr);
/* The trajectories, into the files of a folder. */
sr1_status sr1__rollout_queue_save(sr1_trainer *tr, const char *folder);
/* From the folder of a checkpoint whose state has `packed` (may be NULL); tr->step is
 * that of the checkpoint. The cursor goes behind the rows that were drawn. */
sr1_status sr1__rollout_queue_restore(sr1_trainer *tr, const char *folder,
                                      const json_t *packed);

#endif
