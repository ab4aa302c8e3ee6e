/* rollout/rollout.h - rollouts as the trainer sees them (see searchr1/rollout.h). */
#ifndef SR1__ROLLOUT_ROLLOUT_H
#define SR1__ROLLOUT_ROLLOUT_H

#include "model/model.h"
#include "trajectory/batch.h"

#include <searchr1/rollout.h>

struct sr1__pool;

/* Lanes work side by side on trajectories of their own (key `workers`): their number, a
 * model for each that shares the weights, and a pool of as many threads (NULL for one
 * lane). All borrowed until the rollout is freed. */
int32_t sr1__rollout_lanes(const sr1_rollout *r, sr1_model ***replicas,
                           struct sr1__pool **pool);

/* The model that revises critiques; NULL without one that is local. It stands still.
 * Borrowed until the rollout is freed. */
sr1_model *sr1__rollout_reviser(const sr1_rollout *r);
/* The problems of the environment critique, else NULL. Borrowed likewise. */
struct sr1_problems *sr1__rollout_problems(const sr1_rollout *r);
/* Give a query the row's history, borrowed from the row. */
void sr1__query_remember(sr1_query *q, const sr1_row *row);

/* Sums over one sr1_rollout_generate. */
struct sr1__rollout_stats {
    double entropy;         /* nats, over policy tokens */
    double search_seconds;  /* in which a lane could do nothing but wait for answers */
    int64_t policy_tokens;
    int64_t decode_steps;   /* forwards of the decoders */
    int64_t searches;
    int64_t failed_searches;
};

/* Of the last generate. */
void sr1__rollout_stats(const sr1_rollout *r, struct sr1__rollout_stats *out);
/* Steps the weights have seen, recorded in trajectories. */
void sr1__rollout_set_version(sr1_rollout *r, int64_t version);

/* Log-probs [M] of a micro-batch's policy tokens by a model: the training forward. */
struct sr1__score_options {
    double temperature;
    int64_t logit_chunk;
    int checkpoint;
    sr1_tensor **entropy; /* receives their distributions' entropies [M]; or NULL */
};
sr1_tensor *sr1__score(sr1_scope *s, sr1_model *m, const struct sr1__microbatch *mb,
                       const struct sr1__score_options *o);
/* A critic's values [M] of the states before these tokens, fp32. */
sr1_tensor *sr1__score_values(sr1_scope *s, sr1_model *critic,
                              const struct sr1__microbatch *mb, int checkpoint);

#endif
