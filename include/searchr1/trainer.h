/* searchr1/trainer.h - train a policy: the whole run, or one operation at a time.
 *
 *     query -> rollout -> trajectory -> reward -> advantage -> loss -> update -> metrics
 *
 * Ownership: free a trainer with sr1_trainer_free; it holds its own references.
 * Errors:    outputs are untouched on failure; the weights are as the last optimizer step
 *            that was finished left them (mini_batch_size cuts a pass into several).
 * Threads:   one thread at a time per trainer; sr1_trainer_stop may be called from any
 *            thread and from a signal handler. */
#ifndef SEARCHR1_TRAINER_H
#define SEARCHR1_TRAINER_H

#include <searchr1/reward.h>
#include <searchr1/rollout.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_trainer sr1_trainer;

/* All metrics of one step by name (sr1_step_metric). */
typedef struct sr1_step_metrics sr1_step_metrics;

/* What one step did: the figures of the specification and a few more. "Last update" is
 * the last of its update_times passes; where mini_batch_size cuts a pass into several
 * optimizer steps, figures are means over them, each counting as often as it has policy
 * tokens. */
typedef struct sr1_step_report {
    size_t struct_size; /* set by the caller; later versions append fields */
    int64_t step;       /* 1 for the first */
    double loss;        /* over policy tokens, each with the share that the key
                           loss_aggregation gives it; last update of the step */
    double kl_div;      /* to the reference (key kl_kind), with the same shares */
    double avg_reward;
    double beta;
    double avg_tokens;          /* sampled tokens per trajectory */
    double search_trajectories; /* share of trajectories that searched */
    double entropy;             /* nats per policy token, at sampling */
    double grad_norm;           /* before clipping, last update */
    double learning_rate;
    double seconds; /* whole step */
    int64_t trajectories;
    int64_t trained; /* of them in the update */
    /* The rest, for sr1_step_metric and sr1_step_metric_at. The trainer's: valid until it
     * is freed. */
    const sr1_step_metrics *metrics;
} sr1_step_report;

/* Check a configuration for all that sr1_trainer_run would refuse, without opening model
 * or data: values, a search engine that is not named, a missing train_file, a run folder
 * that holds a run or is in use. SR1_E_CONFIG says which. */
SR1_API sr1_status sr1_trainer_check(const sr1_config *config);

/* Make a trainer by a configuration (copied). search (retained) replaces the configured
 * engine; NULL: the configured one. Nothing is written before sr1_trainer_run.
 * SR1_E_CONFIG names the key that does not fit, or two that do not fit together. Errors
 * of the model and the device as sr1_model_open, of data files as sr1_dataset_open, of
 * the engine as sr1_search_open. In a job of several processes the ranks meet here:
 * SR1_E_TIMEOUT names those that did not come. Caller frees with sr1_trainer_free. */
SR1_API sr1_status sr1_trainer_new(sr1_trainer **out, const sr1_config *config,
                                   sr1_search *search);

/* Free a trainer. NULL is fine. When one of the trainer's own callbacks (a reward, an
 * engine, step) calls this, the run ends after the present step, as after
 * sr1_trainer_stop, and the trainer is freed when the call that runs the callback
 * returns. */
SR1_API void sr1_trainer_free(sr1_trainer *trainer);

/* Add a reward of the caller's to the configured ones, times weight; with the setting
 * "rewards: none" the added rewards are the only ones. ops is copied. On success the
 * trainer owns self; on failure the caller still does. SR1_E_STATE: a run has begun. */
SR1_API sr1_status sr1_trainer_add_reward(sr1_trainer *trainer, const sr1_reward_ops *ops,
                                          void *self, double weight);

/* Return the rollout that shares the trainer's weights. With the key use_openai the
 * server generates. Borrowed until the trainer is freed. */
SR1_API sr1_rollout *sr1_trainer_rollout(sr1_trainer *trainer);

/* Return the trainer's configuration; keys of the loss that were not set have the
 * published values of the configured loss. Borrowed until the trainer is freed. NULL for
 * NULL. */
SR1_API const sr1_config *sr1_trainer_config(const sr1_trainer *trainer);

/* Return the number of training steps done so far, whatever optimizer steps each took; 0
 * for a fresh trainer. */
SR1_API int64_t sr1_trainer_steps_done(const sr1_trainer *trainer);

/* Return the number of training steps that the configuration asks for; 0 when it names no
 * data. */
SR1_API int64_t sr1_trainer_steps_planned(const sr1_trainer *trainer);

/* Update the policy by the configured loss from n trajectories (borrowed) that have
 * rewards and advantages and, with a critic, returns: update_times passes (specification:
 * update_policy). Trajectories without policy tokens, and those that stopped with
 * SR1_STOP_ERROR, SR1_STOP_SEARCH_FAILED or SR1_STOP_UNSCORED, are skipped and counted.
 * With a frozen reference the reference log-probs of each trajectory are set. report
 * (struct_size set) may be NULL. SR1_E_STATE names the first trajectory without an
 * advantage, or one whose weights are more than max_staleness steps old. SR1_E_INVALID
 * names one that was sampled at another temperature, or with top-p or top-k. SR1_E_LIMIT
 * names one that is longer than the model's context. */
SR1_API sr1_status sr1_trainer_update(sr1_trainer *trainer,
                                      sr1_trajectory *const *trajectories, size_t n,
                                      sr1_step_report *report);

/* Do one training step on n queries (specification: train_step): generate group_size
 * trajectories per query (0: as configured), score them, compute advantages within each
 * group, update the policy. report (struct_size set) may be NULL. out [n * group_size]
 * (may be NULL) receives the trajectories; caller frees each with sr1_trajectory_free.
 * Learning rates that fall, or rise by warmup_ratio, do so over max_steps such steps. */
SR1_API sr1_status sr1_trainer_train_step(sr1_trainer *trainer, const sr1_query *queries,
                                          size_t n, int32_t group_size,
                                          sr1_step_report *report, sr1_trajectory **out);

/* ---- metrics ---- */

/* Name i of the metrics that every step has: those of the specification, of verl and of
 * TRL, in the order of a row of metrics.jsonl (docs/formats.md has their meanings);
 * one figure may have several names. Static; NULL past the last. */
SR1_API const char *sr1_step_metric_name(size_t i);

/* The metric of this name; counts as doubles. Beside the names above, the mean of each
 * reward, "rewards/NAME/mean". Read a report before its trainer makes the next step.
 * SR1_E_NOT_FOUND: there is none of this name. SR1_E_STATE: the report is of an earlier
 * step. */
SR1_API sr1_status sr1_step_metric(const sr1_step_report *report, const char *name,
                                   double *value);

/* The name of metric i of this step, with its value in *value, in the order of a row;
 * NULL past the last, or for a report of an earlier step. The name is borrowed until the
 * next step. */
SR1_API const char *sr1_step_metric_at(const sr1_step_report *report, size_t i,
                                       double *value);

/* Where metrics go beside the run folder: one call for each row that metrics.jsonl gets
 * (key log_interval), with the figures of a validation after the step in it ("val/..."),
 * and, outside of sr1_trainer_run, one for each sr1_trainer_train_step and
 * sr1_trainer_update. names[n] and values[n] are borrowed for the call; a figure that is
 * not a number is NaN. Called by the thread that trains. A status other than SR1_OK ends
 * the run, or fails the call, whose step is done all the same; explain it with
 * sr1_set_error. */
typedef sr1_status (*sr1_metric_sink_fn)(void *user, int64_t step,
                                         const char *const *names, const double *values,
                                         size_t n);

/* Give the trainer a sink, in place of the one it has; NULL: none. user is handed to each
 * call and stays the caller's: it must be valid until the sink is replaced or the trainer
 * is freed. SR1_E_INVALID: trainer is NULL. */
SR1_API sr1_status sr1_trainer_set_metric_sink(sr1_trainer *trainer,
                                               sr1_metric_sink_fn sink, void *user);

typedef struct sr1_run_callbacks {
    size_t struct_size;
    void *user;
    /* Each may be NULL. A status other than SR1_OK ends the run with it. */
    sr1_status (*step)(void *user, const sr1_step_report *report, int64_t planned);
    sr1_status (*phase)(void *user, const char *phase, int64_t done, int64_t total);
    sr1_status (*validation)(void *user, int64_t step, const sr1_evaluation *evaluation);
    /* One line worth showing: checkpoint written, alarm raised. */
    void (*note)(void *user, const char *text);
    const char *command; /* what started the run, and which commit that was built from: */
    const char *commit;  /* for run.json; NULL: not told */
} sr1_run_callbacks;

/* Run to the planned end: data, steps, validation, metrics and checkpoints in the run
 * folder (key `out`). callbacks may be NULL. SR1_OK: all work is done. SR1_E_CANCELLED:
 * sr1_trainer_stop was called; a checkpoint was written first. Another error also leaves
 * a checkpoint of the steps that were done before it, unless it came while weights were
 * being changed, or questions are chosen by a rule (query_selection). SR1_E_NETWORK:
 * every search failed in as many steps as the key search_max_failed_steps allows; a
 * checkpoint was written first. */
SR1_API sr1_status sr1_trainer_run(sr1_trainer *trainer,
                                   const sr1_run_callbacks *callbacks);

typedef struct sr1_resume_options {
    size_t struct_size;       /* set by sr1_resume_options_init */
    sr1_search *search;       /* the engine to use instead of the configured one; NULL,
                                 the default: the configured one */
    const char *const *pairs; /* [n_pairs] "key=value": what changes from here on */
    size_t n_pairs;
} sr1_resume_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_resume_options_init(sr1_resume_options *options);

/* Continue the run in this folder from its newest whole checkpoint, with the config.json
 * it holds and the changes in config-changes.jsonl, as if it had never stopped. options
 * may be NULL. Its pairs may change keys that no checkpoint depends on: max_steps,
 * intervals, learning rates, threads, devices, addresses of services, places of files
 * (docs/formats.md has the list); SR1_E_CONFIG names another key and why it cannot
 * change. A change is appended to config-changes.jsonl when the run goes on; config.json
 * stays as it was. The folder is this trainer's until the run ends or the trainer is
 * freed; SR1_E_CONFIG while another trainer has it. Caller frees with
 * sr1_trainer_free. */
SR1_API sr1_status sr1_trainer_resume(sr1_trainer **out, const char *run_folder,
                                      const sr1_resume_options *options);

/* Ask a running sr1_trainer_run to end after the present step. A step that waits for
 * nothing but answers to its actions, or for the scores of a program, is given up after
 * some seconds; the steps before it are kept, and resuming does it again. May be called
 * from any thread and from a signal handler. NULL is fine. */
SR1_API void sr1_trainer_stop(sr1_trainer *trainer);

/* Write the policy as a Hugging Face folder: config, tokenizer and weights; with
 * lora_rank above 0 the adapter alone, which needs its base (sr1_model_save). The folder
 * is made if it is missing, and each file is replaced whole. SR1_E_IO: a file cannot be
 * written. */
SR1_API sr1_status sr1_trainer_save_model(sr1_trainer *trainer, const char *folder);

/* Return the run folder of the configuration. Borrowed until the trainer is freed. */
SR1_API const char *sr1_trainer_run_folder(const sr1_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
