/* train/ranks.h - a trainer that is one process of a job (lib/dist). All ranks run the
 * same step on the same whole batch: each rolls out its share of the questions, scores
 * what comes of them, and computes its share of the micro-batches; the shares are
 * exchanged. Only the first rank writes. */
#ifndef SR1__TRAIN_RANKS_H
#define SR1__TRAIN_RANKS_H

#include "policy/share_rollout.h"
#include "train/internal.h"

/* Meet the other processes, where the keys and the environment say that there are any;
 * before anything else is opened. SR1_E_STATE names ranks with another configuration. */
sr1_status sr1__ranks_open(sr1_trainer *tr);
/* Groups before their job. */
void sr1__ranks_close(sr1_trainer *tr);
/* The configuration as this process computes by it, with its share of the machine: its
 * part of the threads, its GPU. That of the run is the same for all. Caller frees with
 * sr1_config_free. */
sr1_status sr1__ranks_config(const sr1_trainer *tr, sr1_config **out);
/* Once the rest is opened, which had status st: that of all. SR1_E_STATE names ranks that
 * have something else under the same names: weights, prompts, files of rules, rows for
 * validation. */
sr1_status sr1__ranks_opened(sr1_trainer *tr, sr1_status st);
/* SR1_E_STATE names ranks whose trained weights are not rank 0's: processors that differ
 * round otherwise, and what each rank adds up for itself drifts apart. */
sr1_status sr1__ranks_compare_weights(const sr1_trainer *tr);

/* Does this process write the run's folder? */
static inline int sr1__is_first_rank(const sr1_trainer *tr)
{
    return sr1__dist_rank(tr->dist) == 0;
}

/* Workers of all ranks, and the number of this rank's first. */
static inline size_t sr1__all_workers(const sr1_trainer *tr)
{
    return (size_t)tr->n_workers * (size_t)sr1__dist_size(tr->dist);
}

static inline size_t sr1__first_worker(const sr1_trainer *tr)
{
    return (size_t)tr->n_workers * (size_t)sr1__dist_rank(tr->dist);
}

/* Trajectories [begin, end) to be cut into micro-batches. Attention over shared prompts
 * is there for CPUs. */
static inline struct sr1__batch_part sr1__part_of(const sr1_trainer *tr, size_t begin,
                                                  size_t end)
{
    return (struct sr1__batch_part){.begin = begin,
                                    .end = end,
                                    .share_prompts = tr->set.share_prompts &&
                                                     tr->model->device == SR1__CPU};
}

/* What this process is, for a log: "rank 1 of 2 by torchrun on HOST"; 0: there is one
 * process only. */
int sr1__ranks_text(const sr1_trainer *tr, char *text, size_t size);

/* ---- share_rewards.c ---- */

/* SR1_E_STATE unless every rank has the same n trajectories in t, to the bit. */
sr1_status sr1__check_shared(sr1_trainer *tr, sr1_trajectory *const *t, size_t n);

#endif
