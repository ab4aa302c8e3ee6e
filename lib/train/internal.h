/* train/internal.h - the inside of sr1_trainer, shared by the files of this module.
 *
 *     trainer.c           build; trainer_free.c: calls, and the end
 *     ranks.h             one process of several: what they exchange
 *     settings*.c         the configuration's numbers
 *     stages.c            what a step of a run is: reinforcement or imitation
 *
 *     step.c              one step, in the order of step_batch.h, which says what each of
 *                         its files does
 *     objective.h         what an update minimises; optimise.c: by which steps
 *     groups.c            tokens of groups, for means over them
 *     learner.c           weights with their optimizer, replicas for workers
 *     critic.c            the critic's weights; reference.c: the frozen reference's
 *     schedule.c          the learning rate
 *
 *     rollout_queue.c     rollouts that begin before their step
 *     sampler.c           which rows a step asks; prompt_filter.c,
 *                         problem_filter.c: which never
 *     sft.c               demonstrations -> trajectories
 *     metrics.h           the figures of a step; metric_sink.c: for the caller
 *     alarms.c            signs that a run goes wrong
 *
 *     run.c               all steps
 *     validation.c        a validation between them
 *     check.c             what a run would refuse, before anything is opened
 *     best.c              the best validation, and its checkpoint
 *     stops.c             keys that end a run early
 *     outage.c            the end of a run whose searches all fail
 *     startup_warnings.c           what to know of the settings before the first step
 *     folder.c            the run folder; folder_place.c: is it where the run began?
 *     record.c            when, where and by what it was started
 *     state.c             what a checkpoint holds; state_size.c: how large that is
 *     checkpoint.c        checkpoints as folders
 *     caller_parts.c             what a run's program gave it beside the configuration
 *     resume.c            go on with a run, by other keys */
#ifndef SR1__TRAIN_INTERNAL_H
#define SR1__TRAIN_INTERNAL_H

#include "base/file.h"
#include "base/json.h"
#include "base/life.h"
#include "base/pool.h"
#include "config/config.h"
#include "dist/dist.h"
#include "text/data/cursor.h"
#include "text/data/dataset.h"
#include "text/data/demo.h"
#include "text/data/events.h"
#include "text/data/jsonl.h"
#include "text/data/zlines.h"
#include "signal/loss/loss.h"
#include "policy/level_branches.h"
#include "policy/rollout.h"
#include "train/learner.h"
#include "train/metrics.h"
#include "train/mlflow.h"
#include "environment/trajectory/trajectory_store.h"

#include <searchr1/advantage.h>
#include <searchr1/trainer.h>
#include <searchr1/ext/estimators.h>
#include <searchr1/ext/kl.h>
#include <searchr1/ext/run_info.h>

#include <stdatomic.h>

/* Those of a run: of its steps, and of its validations. */
enum { SR1__LOG_STEPS, SR1__LOG_VALIDATIONS, SR1__TRAJECTORY_LOGS };

/* What ends a run before its last planned step: the rows of stops.c. */
enum sr1__stop {
    SR1__STOP_NONE,
    SR1__STOP_EXACT_MATCH,
    SR1__STOP_PATIENCE,
    SR1__STOP_KL,
    SR1__STOP_ENTROPY,
    SR1__STOPS
};

struct sr1__settings {
    int64_t batch_size, num_epochs, max_steps, update_times, group_size;
    int64_t micro_batch_tokens, logit_chunk, trajectory_memory;
    int64_t validate_interval, validation_samples, save_interval, keep_checkpoints;
    int64_t log_trajectories, log_validation_trajectories, log_interval;
    int32_t validation_group_size;
    struct sr1__sampling validation_sampling; /* temperature 0: greedy */
    int32_t share_prompts;
    int32_t alone; /* a trajectory shares a micro-batch with none */
    int32_t checkpointing, skip_zero_variance_groups, shuffle, validate_at_start,
        save_final_model;
    int32_t frozen_reference, kl_in_reward;
    int64_t reference_sync_steps; /* 0: the frozen reference stays where it is */
    double reference_mixup_alpha;
    int64_t critic_update_times, critic_warmup, mini_batch_size;
    int64_t max_staleness, async_level;
    /* What trajectories must hold, as bits 1 << SR1_COLUMN_*: */
    uint32_t advantage_columns; /* before they are compared, */
    uint32_t update_columns; /* before the update: of these, what forward passes give; */
    uint32_t policy_columns; /* all that the policy's update reads */
    double beta, temperature, max_grad_norm;
    double stops[SR1__STOPS]; /* values of the keys of stops.c; 0: never */
    const char *best_metric;  /* borrowed from the configuration; "": none */
    double early_stopping_threshold;
    int32_t greater_is_better, load_best;
    double router_aux_loss_coef;
    int32_t router_replay;
    double save_seconds; /* between checkpoints; 0: by steps alone */
    int64_t max_tokens, overlong_buffer, dynamic_sampling;
    const char *filter_groups_metric; /* borrowed from the configuration; "": none */
    double overlong_penalty;
    int32_t mask_truncated, balance_batches, train_environment, no_think;
    int32_t dense_rewards, partial_rollout;
    uint64_t seed;
    double loss_length;
    double top_entropy_quantile; /* share of tokens with a policy loss; 1: all */
    const struct sr1__loss_row *loss;
    const struct sr1__aggregation *aggregation;
    sr1_loss_options loss_options; /* its texts: the configuration's */
    struct sr1__rejection rejection;
    sr1_value_options value_options;
    sr1_advantage_info estimator; /* its row of the table */
    sr1_advantage_options advantage_options;
    struct sr1__level_branch_options levels; /* its texts: the configuration's */
    int32_t step_on_level;      /* a step's part is on its level's tag alone */
    int32_t levels_informative; /* compare those of successes in unequal groups only */
    const char *kl_kind;        /* borrowed from the configuration */
    sr1_kl_controller kl;       /* as a run begins */
    struct sr1__schedule schedule;
    struct sr1__lora_config lora;        /* rank 0: all weights are trained */
    struct sr1__lora_config critic_lora; /* the same of the critic's */
};

/* What the plan chose for keys that are 0; 0: they were given. */
struct sr1__chosen {
    int64_t micro_batch_tokens, max_rows;
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

/* The best validation so far, by the key metric_for_best_model. */
struct sr1__best {
    int64_t step; /* of its checkpoint; 0: there is none yet */
    double value;
    int64_t worse; /* validations since the last one that was clearly better */
};

/* Why a run has ended. */
struct sr1__stopped {
    int32_t by;   /* enum sr1__stop */
    double value; /* at which the key's was reached */
};

/* Policy tokens of a mini-batch that the loss treats apart. */
struct sr1__token_choice {
    int32_t at_old;   /* new and old log-probs are of the same weights, and something in
                         the loss has a slope that jumps there */
    double threshold; /* of a lower entropy they have no policy loss; 0: all have */
    int64_t kept;     /* so many have */
    size_t first;     /* trajectory of the mini-batch */
    size_t *begin;    /* [trajectories] places of each one's tokens in chosen */
    uint8_t *chosen;  /* by sr1_loss_choose; NULL: the loss has none */
};

/* Statistics of each row of the data, for choosing among them. */
enum sr1__row_stat { SR1__ROW_SEEN, SR1__ROW_VARIANCE, SR1__ROW_SUCCESS };
#define SR1__ROW_STATS 3

struct sr1__sampler {
    const char *rule; /* NULL: the order of the data; borrowed from the configuration */
    int64_t n;        /* rows */
    float *stats;  /* [SR1__ROW_STATS * n], NULL without a rule; a part of checkpoints */
    int64_t epoch; /* of the data as the present step began */
};

/* By which rows are known again. */
struct sr1__row_mark {
    int64_t rows;
    uint64_t hash; /* once a run has begun, or was restored */
    int32_t other; /* not the rows of the checkpoint; their order begins anew */
};

/* A place in the order of the data. */
struct sr1__data_place {
    int64_t epoch, position;
};

/* What one step of a run does; a row of the table in stages.c. */
struct sr1__stage {
    const char *name;
    const char *loss; /* NULL: by the key `loss` */
    const char *data; /* the key of the file of its rows */
    sr1_status (*open)(sr1_trainer *tr, int64_t *rows);
    /* A hash of all rows, in order; once they are open. */
    sr1_status (*hash)(const sr1_trainer *tr, uint64_t *out);
    /* Work on rows[n] of the data; keep the trajectories worth logging. */
    sr1_status (*step)(sr1_trainer *tr, const int64_t *rows, size_t n,
                       sr1_step_report *report, struct sr1__trajectory_store *log);
};
const struct sr1__stage *sr1__stage_find(const char *name);

struct sr1_trainer {
    sr1_config *config;
    struct sr1__launch launch;
    struct sr1__dist *dist; /* the job's other processes; NULL: there are none */
    struct sr1__mesh mesh;  /* the same in their roles; its world is dist */
    int32_t sharded;        /* each of a group has a part of the optimizers' states */
    int32_t sums_by_rank;   /* gradients are exchanged once a step */
    int32_t reshards;       /* and of the weights, during updates */
    int32_t prefetches;     /* which are gathered a unit ahead */
    struct sr1__settings set;
    struct sr1__chosen chosen; /* of them, and set in config */
    sr1_rollout *rollout;
    sr1_model *model;           /* the rollout's */
    struct sr1__learner policy; /* of the model; its replicas are the rollout's */
    struct sr1__learner critic; /* of critics */
    sr1_model **critics;        /* [n_workers]; NULL: the estimator needs none */
    sr1_kl_controller kl;       /* of the KL in the reward */
    struct sr1__entropy entropy;
    int32_t n_workers;
    struct sr1__pool *pool; /* NULL for one worker */
    sr1_model **references; /* [n_workers] share the frozen weights; NULL without them, */
    sr1_model *host_reference; /* and between the passes of those that lie on the host */
    int32_t reference_moved;   /* it is no more what training began with */
    sr1_reward_set *rewards;
    const struct sr1__stage *stage;
    sr1_dataset *train; /* NULL when the configuration names none */
    sr1_dataset *validation;
    struct sr1__demos *demos; /* stage sft */
    struct sr1__cursor *cursor;
    struct sr1__row_mark mark; /* of the rows that the cursor goes through */
    /* After the last whole step of a run: of the first row that no step has done, and of
     * the first that is not drawn ahead either. */
    struct sr1__data_place place, drawn;
    struct sr1__sampler sampler;
    struct sr1__queued_rollout *queue; /* rollouts that begin before their step */
    char *run_folder;
    struct sr1__path_id folder_id; /* the folder itself, once the run has begun */
    struct sr1__lock *lock;        /* of the run folder, while it is this trainer's */
    struct sr1__jsonl *metrics;    /* journals of the run, once it has begun */
    struct sr1__zlines *logs[SR1__TRAJECTORY_LOGS]; /* NULL: nothing is logged */
    struct sr1__events *events; /* NULL unless the key tensorboard is set */
    struct sr1__mlflow *mlflow; /* NULL unless mlflow_tracking_uri is set, or after */
    /* Told how far a rollout is; NULL outside of a run, or if nobody asks. */
    sr1_status (*phase)(void *user, const char *phase, int64_t done, int64_t total);
    void *phase_user;
    sr1_metric_sink_fn sink; /* of the caller's; NULL: none */
    void *sink_user;
    struct sr1_step_metrics step_metrics; /* of the present step, or of the last one */
    int64_t step;                         /* whole steps done */
    int64_t planned;
    int64_t rate_steps_then; /* that rates went by before a resume; 0: not known */
    int64_t saved;           /* step of the newest checkpoint; -1: there is none */
    int64_t skipped;         /* updates left out, all steps */
    int64_t unscored_steps;  /* in a row up to the last one: sr1__scored_nothing */
    int64_t failed_steps;    /* likewise: every search of them failed */
    uint32_t alarms;         /* that rang after the last step */
    uint32_t unlogged;       /* alarms of the steps since the last row of metrics */
    json_t *record;          /* the configuration as the run folder has it */
    json_t *changes;         /* of it since the checkpoint, to be written */
    json_t *starts;          /* of the run, the present one last; NULL before it */
    json_t *rule_files;      /* by key, their hashes when it was opened: rule_files.c */
    json_t *restored;        /* the checkpoint's state that it goes on from, or NULL */
    json_t *pending_row;     /* metrics of a step whose record failed, or NULL */
    int64_t pending_row_at;  /* where in metrics.jsonl they are to be, */
    uint64_t validation_at;  /* and its validation's trajectories in their log */
    struct sr1__best best;
    struct sr1__stopped stopped;
    char stopped_why[128];   /* in words; "": by nothing */
    size_t n_configured;     /* rewards; the program's follow them */
    sr1_env *configured_env; /* borrowed: the rollout's as configured */
    int32_t engine_given;    /* by the program */
    int64_t model_step;      /* of the weights in RUN/model; 0: not written */
    int32_t begun;           /* sr1_trainer_run was called */
    int32_t server_known;    /* the server that generates was told its weights */
    char *adapter_name;      /* that the servers have; NULL: none */
    struct sr1__weight_link
        *link;           /* by which they get tensors; NULL: they load folders */
    char *server_loaded; /* the checkpoint's, if it still has them; else NULL */
    int32_t in_update;   /* the step under way may have changed weights */
    struct sr1__token_dropout dropout; /* of the epoch of an update that is under way */
    struct sr1__token_choice choice;   /* of its mini-batch */
    struct sr1__route_log *routes; /* of the update under way; NULL: experts are chosen */
    int32_t resumed;
    atomic_int stop;
    struct sr1__life life;
};

/* Give keys of the loss that were not set the numbers it was published with. */
sr1_status sr1__settings_resolve(sr1_config *c);
/* plan.c: set micro_batch_tokens and max_rows where they are 0 from what is free on the
 * device, and say so in *chosen. SR1_E_DEVICE_NOMEM, SR1_E_NOMEM: nothing fits. */
sr1_status sr1__settings_choose(sr1_config *c, struct sr1__chosen *chosen);
sr1_status sr1__settings_read(struct sr1__settings *s, const sr1_config *c);
/* What full_determinism changes on this device: on a CPU, how updates are cut. */
void sr1__settings_isolate(struct sr1__settings *s, const sr1_config *c,
                           sr1__device device);
/* Of these the part about advantages; once the rest is read. */
sr1_status sr1__settings_read_advantage(struct sr1__settings *s, const sr1_config *c);
/* Is the name one of a list with commas? */
int sr1__settings_lists(const char *list, const char *name);

/* Is the step under way one of the critic's alone (critic_warmup)? */
static inline int sr1__in_critic_warmup(const sr1_trainer *tr)
{
    return tr->critics && tr->step < tr->set.critic_warmup;
}

/* ---- trainer_free.c ---- */

/* Around a call that trains: it holds the trainer (base/life.h), whose workers' threads
 * the caller's thread has meanwhile. Pass on what the first returns. */
int32_t sr1__trainer_enter(sr1_trainer *tr);
void sr1__trainer_leave(sr1_trainer *tr, int32_t threads);

/* ---- step.c ---- */

/* SR1_E_CONFIG where there is no reward to learn from. */
sr1_status sr1__check_rewards(const sr1_trainer *tr);
/* sr1_trainer_train_step; all trajectories are also added to log (may be NULL), and let
 * go before the update when out is NULL. */
sr1_status sr1__train_step(sr1_trainer *tr, const sr1_query *queries, size_t n,
                           int32_t group_size, sr1_step_report *report,
                           sr1_trajectory **out, struct sr1__trajectory_store *log);
/* The same for rows of the data; further ones may take part (dynamic sampling). */
sr1_status sr1__train_rows(sr1_trainer *tr, const int64_t *rows, size_t n,
                           sr1_step_report *report, struct sr1__trajectory_store *log);
/* A step of imitation on these demonstrations; nothing is logged. */
sr1_status sr1__imitate_rows(sr1_trainer *tr, const int64_t *rows, size_t n,
                             sr1_step_report *report, struct sr1__trajectory_store *log);

/* ---- settings.c ---- */

/* AdamW as configured, for every learner. */
struct sr1__adamw sr1__adamw_configured(const sr1_config *c);

/* ---- critic.c ---- */

/* The critic and its learner, where the estimator needs values; once the policy is there.
 */
sr1_status sr1__critic_open(sr1_trainer *tr);
void sr1__critic_close(sr1_trainer *tr);

/* ---- reference.c ---- */

/* The frozen reference, where the settings want one; once the policy is there. */
sr1_status sr1__reference_open(sr1_trainer *tr);
/* Where its weights lie between passes; NULL: there is none. */
sr1_model *sr1__reference_weights(const sr1_trainer *tr);
/* At the end of this step: let it move towards the policy, where that is due. */
sr1_status sr1__reference_move(sr1_trainer *tr, int64_t step);
/* Go on from where it had moved to, as a checkpoint's folder of weights has it. */
sr1_status sr1__reference_restore(sr1_trainer *tr, const char *folder);
void sr1__reference_close(sr1_trainer *tr);
/* Around its passes: bring it from the host to the device, and let that go again. */
sr1_status sr1__reference_raise(sr1_trainer *tr);
void sr1__reference_lower(sr1_trainer *tr);

/* ---- weight_sync.c ---- */

/* Once the plan is known: can every step learn from what the server will generate? */
sr1_status sr1__weight_sync_open(sr1_trainer *tr);
void sr1__weight_sync_close(sr1_trainer *tr);
/* What the servers are given in folders. */
enum sr1__sync_form { SR1__SYNC_NOTHING, SR1__SYNC_MODELS, SR1__SYNC_ADAPTERS };
enum sr1__sync_form sr1__weight_sync_form(const sr1_trainer *tr);
/* SR1_E_STATE if trajectory i is too old to learn from. */
sr1_status sr1__check_staleness(const sr1_trainer *tr, const sr1_trajectory *t, size_t i);
/* Must a checkpoint keep the server's weights? If so, into folder. */
int sr1__weight_sync_keeps(const sr1_trainer *tr);
sr1_status sr1__weight_sync_save(sr1_trainer *tr, const char *folder);
/* tr->step is that of the checkpoint; state NULL: there is none, the run begins anew. */
sr1_status sr1__weight_sync_restore(sr1_trainer *tr, const char *folder,
                                    const json_t *state);

/* ---- prompt_filter.c ---- */

/* Leave out questions whose prompts are too long, or refuse them; what: for messages. */
sr1_status sr1__filter_prompts(const sr1_trainer *tr, sr1_dataset *d, const char *what);
/* Make each demonstration's trajectory once, so that none can end a run in its midst:
 * leave out those that are too long, or refuse them; any other failure names its row. */
sr1_status sr1__filter_demonstrations(sr1_trainer *tr);

/* ---- problem_filter.c ---- */

/* Where tests of problems judge: leave out questions whose problems have none.
 * SR1_E_CONFIG for one without a problem. */
sr1_status sr1__filter_problems(const sr1_trainer *tr, sr1_dataset *d, const char *what);

/* ---- adapt_controllers.c ---- */

void sr1__entropy_read(struct sr1__entropy *e, const sr1_config *c);
/* Before the update of a step whose rollout had this entropy, and after it. */
void sr1__entropy_begin(struct sr1__entropy *e, double entropy);
void sr1__entropy_end(struct sr1__entropy *e, double entropy);

/* ---- alarms.c ---- */

/* Bit i: alarm i (sr1_alarm_name) rings after this step. */
uint32_t sr1__find_alarms(const struct sr1_step_metrics *m);
/* Had the step nothing to learn from: no advantage, and no entropy bonus, or nothing that
 * could be trained on? */
int32_t sr1__learned_nothing(const struct sr1_step_metrics *m);
/* Were there trajectories to reward, and could the reward of none be computed? */
int32_t sr1__scored_nothing(const struct sr1_step_metrics *m);

/* ---- outage.c ---- */

/* Why the last search failed of those that did (tr->failed_steps). */
struct sr1__outage {
    char why[512];
};
/* Right after a step's rollout: another one replaces what it left. Steps without a search
 * count neither way. */
void sr1__outage_watch(struct sr1__outage *o, sr1_trainer *tr);
/* Has it lasted as long as search_max_failed_steps allows? */
int sr1__outage_ends(const sr1_trainer *tr);
/* SR1_E_NETWORK with the engine or environment, its address and the last error. */
sr1_status sr1__outage_fail(const struct sr1__outage *o, const sr1_trainer *tr);

/* ---- best.c ---- */

/* SR1_E_CONFIG: neither a step nor a validation has a metric of this name. */
sr1_status sr1__best_check_name(const char *metric);
/* After the validation of the present step, whose metrics row has. */
sr1_status sr1__best_take(sr1_trainer *tr, const json_t *row);
/* Is the checkpoint of the present step to be the best one? */
int sr1__best_is_new(const sr1_trainer *tr);
/* What a checkpoint knows of it, null where there is none; NULL without memory. */
json_t *sr1__best_pack(const sr1_trainer *tr);
/* Of a checkpoint's state, where it was found by the same keys and is still there. */
void sr1__best_restore(sr1_trainer *tr, const json_t *state);
/* Let RUN/best lead to its checkpoint, or to nothing. What fails is told to the log. */
void sr1__best_link(const sr1_trainer *tr);
/* Is RUN/model to be the best one's, and can it? For the first rank. */
sr1_status sr1__best_is_final(const sr1_trainer *tr, int32_t *yes);
/* Copy its model into folder. */
sr1_status sr1__best_copy_model(const sr1_trainer *tr, const char *folder);

/* ---- stops.c ---- */

void sr1__stops_read(double stops[SR1__STOPS], const sr1_config *c);
/* Is it on, and does this value reach it? */
int sr1__stop_is_reached(const struct sr1__settings *s, enum sr1__stop by, double value);
/* End the run with the present step, unless something has already. 1: it ends by this. */
int sr1__stop_by(sr1_trainer *tr, enum sr1__stop by, double value);
/* Likewise, by the figures of the present step. */
int sr1__stop_when_diverged(sr1_trainer *tr);
/* With the words for it. */
void sr1__stopped_set(sr1_trainer *tr, struct sr1__stopped stopped);
/* The name of its key; "" for none. */
const char *sr1__stop_key(enum sr1__stop by);
json_t *sr1__stopped_pack(const sr1_trainer *tr);
/* What ended the run of a checkpoint, if that ends it by the present keys too. */
void sr1__stopped_restore(sr1_trainer *tr, const json_t *state);

/* ---- startup_warnings.c ---- */

/* Is there warning i to give of the settings? 1 with its text, 0: no, -1: i is past the
 * last. */
int sr1__startup_warning(const sr1_trainer *tr, size_t i, char *text, size_t size);
/* Of a rank beyond the model's width, which a plan tells too: 1 and the text. */
int sr1__rank_warning(int64_t rank, int64_t width, char *text, size_t size);

/* ---- unread_keys.c ---- */

/* Is the key of row i set, and does nothing read it? 1 with the text, 0: no, -1: i is
 * past the last row. */
int sr1__warn_unread(const sr1_trainer *tr, size_t i, char *text, size_t size);

/* ---- sft.c ---- */

/* Demonstration i as a trajectory whose policy tokens are those to imitate; each has the
 * advantage 1. */
sr1_status sr1__sft_example(sr1_trainer *tr, int64_t i, sr1_trajectory **out);

/* ---- state.c ---- */

/* Write the checkpoint of the present step. */
sr1_status sr1__state_save(sr1_trainer *tr);
/* Continue from the newest whole checkpoint of the run folder; nothing in the folder
 * changes. changed: the step from which on other rows of data are wanted (-1: never);
 * those of an older checkpoint may then differ. *config becomes the configuration it was
 * made with (new reference), NULL where that is not known. */
sr1_status sr1__state_restore(sr1_trainer *tr, int64_t changed, json_t **config);

/* ---- state_size.c ---- */

/* Bytes of a checkpoint's tensors, and of one model: nearly all that they take. */
int64_t sr1__state_bytes(const sr1_trainer *tr);
int64_t sr1__state_model_bytes(const sr1_model *m);
/* Of RUN/served once servers were given weights (0: they are not), and of those the ones
 * that a checkpoint keeps. */
int64_t sr1__served_bytes(const sr1_trainer *tr);
int64_t sr1__served_kept_bytes(const sr1_trainer *tr);

/* ---- folder.c ---- */

/* The logs of trajectories: their files, and what a checkpoint's state calls the bytes of
 * each. */
struct sr1__trajectory_log_row {
    const char *file, *size_key;
};
extern const struct sr1__trajectory_log_row sr1__trajectory_logs[SR1__TRAJECTORY_LOGS];

/* Keep others out of the run folder; SR1_E_CONFIG names who has it. */
sr1_status sr1__folder_lock(sr1_trainer *tr);
/* The folder that a run of this configuration goes to; NULL without memory. */
char *sr1__folder_name(const sr1_config *c);
/* Is nobody training in it? Nor a run in it that a new one would replace? */
sr1_status sr1__folder_check_idle(const char *folder);
sr1_status sr1__folder_check_free(const char *folder);
void sr1__folder_unlock(sr1_trainer *tr);
/* Make the folder of a new run. What a run without any work left there is replaced. */
sr1_status sr1__folder_begin(sr1_trainer *tr);
/* Its config.json; once run.json tells that a run wrote it. */
sr1_status sr1__folder_write_config(sr1_trainer *tr);
/* Checkpoints that lie on the disk at once: those that are there and all that the steps
 * left will write, or those kept and the one being written. */
int64_t sr1__checkpoints_at_once(const struct sr1__settings *set, int64_t left,
                                 int64_t there);
/* The fields of the plan about the disk. */
void sr1__folder_room(const sr1_trainer *tr, sr1_run_plan *plan);
sr1_status sr1__folder_check_room(const sr1_trainer *tr, char *warning, size_t size);
/* 1 with what to say where an older version left its trajectories in the folder. */
int sr1__folder_text_older(const sr1_trainer *tr, char *text, size_t size);
/* What lies in the folder of a new run that no run wrote. 0: nothing. */
int sr1__folder_text_others(const sr1_trainer *tr, char *text, size_t size);
/* SR1_E_IO: what is now at the run's path is another folder, or none. */
sr1_status sr1__folder_check_there(const sr1_trainer *tr);
/* Had a run that goes on come further than to the step it goes on from? 1 with what to
 * say of it; before its journals are opened, which cuts them there. */
int sr1__folder_text_lost(const sr1_trainer *tr, char *text, size_t size);
/* Add a trajectory of the present step to a log of the run; it is written with the log's
 * next frame. */
sr1_status sr1__folder_log(const sr1_trainer *tr, int which, const sr1_trajectory *t);
/* Open the journals; after a restore they are cut to the sizes they had then. */
sr1_status sr1__folder_open_journals(sr1_trainer *tr);

/* ---- validation.c ---- */

/* Validate after the present step: scores into row, and trajectories into their log. Free
 * *out with sr1_evaluation_free. */
sr1_status sr1__validate(sr1_trainer *tr, json_t *row, sr1_evaluation **out);
/* May a validation's metric have this name? That of a data source depends on the rows. */
int sr1__validation_may_have(const char *metric);
/* The record of the step failed, and its validation will be made again. */
void sr1__validation_take_back(const sr1_trainer *tr);

/* ---- resume.c ---- */

/* Append what changed to the run's record. */
sr1_status sr1__resume_write_changes(sr1_trainer *tr);
/* 1 with what to say of change i, 0: it was told when it was found. */
int sr1__resume_change_text(const sr1_trainer *tr, size_t i, char *text, size_t size);
/* 1 with how the learning rate of the next step differs, since the number of steps does.
 */
int sr1__resume_rate_text(const sr1_trainer *tr, char *text, size_t size);

/* ---- caller_parts.c ---- */

/* What the program gave beside the configuration; NULL without memory. */
json_t *sr1__given_json(const sr1_trainer *tr);
/* SR1_E_CONFIG names what the checkpoint's run was given and this one was not, or a
 * reward that differs; the log, what is given in place of another. */
sr1_status sr1__given_check(const sr1_trainer *tr);

/* ---- rule_files.c ---- */

/* A checkpoint's member that has them. */
#define SR1__RULE_FILES "rule_files"
/* {"KEY": "HASH", ...} of the files that the keys name; the rollout is open. */
sr1_status sr1__rule_files_hash(const sr1_trainer *tr, json_t **out);
/* Log which are not those of the checkpoint; then NULL: an older one. */
void sr1__rule_files_compare(const sr1_trainer *tr, const json_t *then);

/* ---- record.c ---- */

/* Now, as "2026-01-31T12:00:00Z". */
void sr1__record_time(char out[32]);
/* Keep the configuration as config.json has it, a text, for the checkpoints. */
sr1_status sr1__record_config(sr1_trainer *tr, const char *config);
/* Put into the record what the plan chose. */
sr1_status sr1__record_chosen(sr1_trainer *tr);
/* Does it tell that the run once wrote a checkpoint? */
int sr1__record_has_checkpoint(const sr1_trainer *tr);
/* Once a checkpoint is written. */
sr1_status sr1__record_saved(sr1_trainer *tr);
/* Write that the run has begun, or goes on; and how that ended. */
sr1_status sr1__record_begin(sr1_trainer *tr, const sr1_run_callbacks *cb);
/* Prompts show the date of the run's first start: in every process, and on resuming. */
void sr1__record_keep_date(const sr1_trainer *tr);
void sr1__record_end(sr1_trainer *tr, sr1_status status);

/* ---- metric_sink.c ---- */

/* Give a row of metrics to the caller's sink, if there is one. */
sr1_status sr1__metric_sink_give(const sr1_trainer *tr, json_t *row);
/* Give it the metrics of the present step. */
sr1_status sr1__metric_sink_step(const sr1_trainer *tr);

#endif
