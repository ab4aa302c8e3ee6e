/* train/internal.h - the inside of sr1_trainer, shared by the files of this module.
 *
 *     settings*.c the configuration's numbers
 *     trainer.c   build, one step (the spine)
 *     questions.c which rows a step asks
 *     explore.c   the rollouts of a step
 *     shape.c     responses that are too long
 *     refill.c    further questions in place of those that teach nothing
 *     levels.c    steps at other thinking levels
 *     judge.c     what reference and critic say of trajectories
 *     compare.c   trajectories -> advantages
 *     critic.c    the critic's weights
 *     serving.c   a server that generates: how old its weights are
 *     update.c    trajectories -> gradients -> weights
 *     entropy.c   the weight of the entropy bonus
 *     lesson_*.c  what a pass asks of weights, and the loss of what they say
 *     retell.c    ablations: other tokens are trained on
 *     learner.c   weights with their optimizer, replicas for workers
 *     stages.c    a step of a run: reinforcement or imitation
 *     health.c    figures of a step's trajectories, alarms
 *     sft.c       demonstrations -> trajectories
 *     run.c       all steps, run folder, validation
 *     state.c     what a checkpoint holds */
#ifndef SR1__TRAIN_INTERNAL_H
#define SR1__TRAIN_INTERNAL_H

#include "base/json.h"
#include "base/pool.h"
#include "config/config.h"
#include "data/cursor.h"
#include "data/dataset.h"
#include "data/demo.h"
#include "data/events.h"
#include "data/jsonl.h"
#include "loss/loss.h"
#include "rollout/levels.h"
#include "rollout/rollout.h"
#include "train/learner.h"
#include "trajectory/store.h"

#include <searchr1/advantage.h>
#include <searchr1/trainer.h>

#include <stdatomic.h>

struct sr1__settings {
    int64_t batch_size, num_epochs, max_steps, update_times, group_size;
    int64_t micro_batch_tokens, logit_chunk, trajectory_memory;
    int64_t validate_interval, validation_samples, save_interval, keep_checkpoints;
    int64_t log_trajectories, log_interval;
    int32_t checkpointing, skip_dead_groups, shuffle, validate_at_start, save_final_model;
    int32_t frozen_reference, kl_in_reward;
    int64_t critic_update_times, critic_warmup, mini_batch_size;
    int64_t max_staleness;
    /* What trajectories must hold, as bits 1 << SR1_COLUMN_*: */
    uint32_t compare_columns; /* before they are compared, */
    uint32_t update_columns;  /* before the update: of these, what frozen weights give; */
    uint32_t policy_columns;  /* all that the policy's update reads */
    double beta, temperature, max_grad_norm, stop_at_exact_match;
    int64_t max_tokens, overlong_buffer, dynamic_sampling;
    double overlong_penalty;
    int32_t mask_truncated, balance_batches, train_environment, no_think;
    int32_t dense_rewards;
    uint64_t seed;
    double loss_length;
    const struct sr1__loss_row *loss;
    const struct sr1__aggregation *aggregation;
    sr1_loss_options loss_options; /* its texts: the configuration's */
    sr1_value_options value_options;
    sr1_advantage_info estimator; /* its row of the table */
    sr1_advantage_options advantage_options;
    struct sr1__level_options levels; /* its texts: the configuration's */
    int32_t step_on_level;      /* a step's part is on its level's tag alone */
    int32_t levels_informative; /* compare those of successes in unequal groups only */
    const char *kl_kind;  /* borrowed from the configuration */
    sr1_kl_controller kl; /* as a run begins */
    struct sr1__schedule schedule;
};

/* The bonus for entropy in the policy's loss: what of it moves is a part of checkpoints.
 */
struct sr1__entropy {
    int32_t adaptive;
    int32_t by_token; /* a mean over tokens, whatever the loss's is */
    double target, delta, least, most;
    double coef; /* its weight; moves where it is adaptive */
    double now;  /* as this step uses it; 0 until one begins, and in imitation */
};

/* What is known of each row of the data, for choosing among them. */
enum sr1__known { SR1__KNOWN_SEEN, SR1__KNOWN_VARIANCE, SR1__KNOWN_SUCCESS };
#define SR1__KNOWN 3

struct sr1__questions {
    const char *rule; /* NULL: the order of the data; borrowed from the configuration */
    int64_t n;        /* rows */
    float *known;     /* [SR1__KNOWN * n], NULL without a rule; a part of checkpoints */
    int64_t epoch;    /* of the data as the present step began */
};

/* What one step of a run does; a row of the table in stages.c. */
struct sr1__stage {
    const char *name;
    const char *loss; /* NULL: by the key `loss` */
    sr1_status (*open)(sr1_trainer *tr, int64_t *rows);
    /* Work on rows[n] of the data; keep the trajectories worth logging. */
    sr1_status (*step)(sr1_trainer *tr, const int64_t *rows, size_t n,
                       sr1_step_report *report, struct sr1__trajectory_store *log);
};
const struct sr1__stage *sr1__stage_find(const char *name);

struct sr1_trainer {
    sr1_config *config;
    struct sr1__settings set;
    sr1_rollout *rollout;
    sr1_model *model;      /* the rollout's */
    struct sr1__learner policy; /* of the model; its replicas are the rollout's */
    struct sr1__learner critic; /* of critics */
    sr1_model **critics;        /* [n_workers]; NULL: the estimator needs none */
    sr1_kl_controller kl;       /* of the KL in the reward */
    struct sr1__entropy entropy;
    int32_t n_workers;
    struct sr1__pool *pool; /* NULL for one worker */
    sr1_model **references; /* [n_workers] share the frozen weights; NULL without them */
    sr1_reward_set *rewards;
    const struct sr1__stage *stage;
    sr1_dataset *train;       /* NULL when the configuration names none */
    sr1_dataset *validation;
    struct sr1__demos *demos; /* stage sft */
    struct sr1__cursor *cursor;
    struct sr1__questions questions;
    char *run_folder;
    struct sr1__jsonl *metrics,
        *trajectories; /* journals of the run, once it has begun */
    struct sr1__events *events; /* NULL unless the key tensorboard is set */
    /* Told how far a rollout is; NULL outside of a run, or if nobody asks. */
    sr1_status (*phase)(void *user, const char *phase, int64_t done, int64_t total);
    void *phase_user;
    int64_t step;     /* whole steps done */
    int64_t planned;
    int64_t skipped;  /* updates left out, all steps */
    json_t *reward_means; /* of the present step, by metric; NULL before the first */
    uint32_t alarms;  /* that rang after the last step */
    int32_t begun;    /* sr1_trainer_run was called */
    int32_t resumed;
    atomic_int stop;
};

/* Give keys of the loss that were not set the numbers it was published with. */
sr1_status sr1__settings_resolve(sr1_config *c);
sr1_status sr1__settings_read(struct sr1__settings *s, const sr1_config *c);
/* Of these the part about advantages; once the rest is read. */
sr1_status sr1__settings_read_advantage(struct sr1__settings *s, const sr1_config *c);
/* Is the name one of a list with commas? */
int sr1__settings_lists(const char *list, const char *name);

/* A failure that smaller micro-batches may avoid. */
static inline int sr1__is_memory(sr1_status st)
{
    return st == SR1_E_NOMEM || st == SR1_E_DEVICE_NOMEM;
}

/* ---- trainer.c ---- */

/* sr1_trainer_train_step; all trajectories are also added to log (may be NULL), and let
 * go before the update when out is NULL. */
sr1_status sr1__train_step(sr1_trainer *tr, const sr1_query *queries, size_t n,
                           int32_t group_size, sr1_step_report *report,
                           sr1_trajectory **out, struct sr1__trajectory_store *log);
/* The same for rows of the data; further ones may take part (dynamic sampling). */
sr1_status sr1__train_rows(sr1_trainer *tr, const int64_t *rows, size_t n,
                           sr1_step_report *report, struct sr1__trajectory_store *log);

/* AdamW as configured, for every learner. */
struct sr1__adamw sr1__adamw_configured(const sr1_config *c);

/* ---- critic.c ---- */

/* The critic and its learner, where the estimator needs values; once the policy is there.
 */
sr1_status sr1__critic_open(sr1_trainer *tr);
void sr1__critic_close(sr1_trainer *tr);

/* ---- retell.c ---- */

/* t[n] as the update is to see them, in *out; NULL where that is as they are. Free with
 * sr1__retold_free. */
sr1_status sr1__retell(const sr1_trainer *tr, sr1_trajectory *const *t, size_t n,
                       sr1_trajectory ***out);
void sr1__retold_free(sr1_trajectory **told, size_t n); /* NULL is fine */

/* ---- serving.c ---- */

/* Once the plan is known: can every step learn from what the server will generate? */
sr1_status sr1__serving_open(sr1_trainer *tr);
/* Before a rollout: give the server newer weights when they are due; SR1_E_STATE if its
 * are too old. Nothing to do without a server. */
sr1_status sr1__serving_ready(sr1_trainer *tr, sr1_step_report *report);
/* SR1_E_STATE if trajectory i is too old to learn from. */
sr1_status sr1__serving_check(const sr1_trainer *tr, const sr1_trajectory *t, size_t i);
/* Must a checkpoint keep the server's weights? If so, into folder. */
int sr1__serving_keeps(const sr1_trainer *tr);
sr1_status sr1__serving_save(sr1_trainer *tr, const char *folder);
/* tr->step is that of the checkpoint; state NULL: there is none, the run begins anew. */
sr1_status sr1__serving_restore(sr1_trainer *tr, const char *folder, const json_t *state);

/* ---- questions.c ---- */

sr1_status sr1__questions_open(sr1_trainer *tr, int64_t rows);
void sr1__questions_close(sr1_trainer *tr);
/* Leave out questions whose prompts are too long, or refuse them; what: for messages. */
sr1_status sr1__questions_fit(const sr1_trainer *tr, sr1_dataset *d, const char *what);
/* The rows of the next step: rows[batch_size], at least 1. */
sr1_status sr1__questions_next(sr1_trainer *tr, int64_t *rows, size_t *n);
/* What is known of rows, where a rule chooses among them, as a folder. */
sr1_status sr1__questions_save(const sr1_trainer *tr, const char *folder);
sr1_status sr1__questions_restore(sr1_trainer *tr, const char *folder);

/* ---- entropy.c ---- */

void sr1__entropy_read(struct sr1__entropy *e, const sr1_config *c);
/* Before the update of a step whose rollout had this entropy, and after it. */
void sr1__entropy_begin(struct sr1__entropy *e, double entropy);
void sr1__entropy_end(struct sr1__entropy *e, double entropy);

/* ---- health.c ---- */

/* What trajectories with rewards and advantages say by themselves. */
void sr1__describe_trajectories(const sr1_trainer *tr, sr1_trajectory *const *t, size_t n,
                                sr1_step_report *report);
/* Bit i: alarm i rings after this step; its name and text, NULL past the last. */
uint32_t sr1__health_alarms(const sr1_step_report *report);
const char *sr1__health_alarm_name(size_t i);
const char *sr1__health_alarm_text(size_t i);

/* ---- judge.c ---- */

/* Set columns (bits 1 << SR1_COLUMN_REFERENCE, _VALUE, _OLD) of t[n]; those without
 * policy tokens, or left out, get none. */
sr1_status sr1__judge(const sr1_trainer *tr, sr1_trajectory *const *t, size_t n,
                      uint32_t columns);

/* ---- update.c ---- */

/* Where trajectories come from: one of the two. */
struct sr1__source {
    const sr1_trajectory *const *array;
    size_t n;
    struct sr1__trajectory_store *store;
};

struct sr1__lesson;

/* All passes of one step. Fills the update's part of the report. */
sr1_status sr1__update(sr1_trainer *tr, struct sr1__learner *learner,
                       const struct sr1__lesson *lesson, const struct sr1__source *from,
                       int64_t passes, sr1_step_report *report);

/* The critic's passes, where there is one, then the policy's, timed; then room is made
 * for the next rollout. */
sr1_status sr1__trainer_learn(sr1_trainer *tr, const struct sr1__source *from,
                              int64_t passes, sr1_step_report *report);

/* ---- sft.c ---- */

/* Demonstration i as a trajectory whose policy tokens are those to imitate; each has the
 * advantage 1. */
sr1_status sr1__sft_example(sr1_trainer *tr, int64_t i, sr1_trajectory **out);

/* ---- state.c ---- */

/* Write the checkpoint of the present step. */
sr1_status sr1__state_save(sr1_trainer *tr);
/* Continue from the newest whole checkpoint of the run folder. */
sr1_status sr1__state_restore(sr1_trainer *tr);

/* ---- run.c ---- */

/* Open the journals; after a restore at the sizes they had then. */
sr1_status sr1__run_open_journals(sr1_trainer *tr, const json_t *state);

/* ---- metrics.c ---- */

/* The mean of each reward over t[n], before its weight: rewards/NAME/mean, TRL's name. */
sr1_status sr1__metrics_rewards(sr1_trainer *tr, sr1_trajectory *const *t, size_t n);
/* The report as one JSON object, by the seed's, verl's and TRL's names. New reference;
 * NULL without memory. */
json_t *sr1__metrics_row(const sr1_trainer *tr, const sr1_step_report *r);

#endif
