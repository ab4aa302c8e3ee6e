/* searchr1/trainer.h - train a policy: the whole run, or one operation at a time.
 *
 *     query -> rollout -> trajectory -> reward -> advantage -> loss -> update -> metrics
 *
 * Ownership: free a trainer with sr1_trainer_free; it holds its own references.
 * Errors:    outputs are untouched on failure; a pass of an update that fails leaves the
 *            weights as they were before that pass.
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

/* What one step did. The seed document's names first. "Last update" is the last of its
 * update_times passes; where mini_batch_size cuts a pass into several optimizer steps,
 * figures are means over them, each counting as often as it has policy tokens. */
typedef struct sr1_step_report {
    size_t struct_size;
    int64_t step;               /* 1 for the first */
    double loss;                /* mean over policy tokens, last update of the step */
    double kl_div;              /* to the reference (key kl_kind), same mean */
    double avg_reward;
    double beta;
    double avg_tokens;          /* sampled tokens per trajectory */
    double search_trajectories; /* share of trajectories that searched */
    double policy_loss;
    double clip_fraction;
    double approx_kl;
    double entropy;             /* nats per policy token, at sampling */
    double grad_norm;           /* before clipping */
    double learning_rate;
    double rollout_diff_max;    /* |rollout - recomputed log-prob|, first update */
    double rollout_diff_mean;
    int64_t trajectories;
    int64_t trained;            /* of them in the update */
    int64_t dead_groups;        /* groups whose rewards are all equal */
    int64_t policy_tokens;
    int64_t environment_tokens;
    int64_t searches;
    int64_t failed_searches;
    int64_t skipped_updates;    /* a non-finite loss or gradient */
    double seconds;             /* whole step, and its phases: */
    double seconds_rollout;
    double seconds_reference;   /* frozen reference, values of the critic */
    double seconds_update;
    double seconds_search;      /* inside the rollout */
    double reward_std;          /* over trajectories; 0 to 1 the shares */
    double reward_min;
    double reward_max;
    double advantage_mean;
    double advantage_min;
    double advantage_max;
    double tokens_min; /* sampled tokens of the shortest and longest trajectory */
    double tokens_max;
    double prompt_tokens;       /* mean */
    double cut_short;           /* share that a token limit ended */
    double format_rate;         /* share of well-formed responses */
    double answer_rate;         /* share that closed an answer */
    int64_t excluded;           /* trajectories left out of all means and of the update: a
                                   search of theirs failed (key search_failure), the
                                   server that generated them did, or their reward could
                                   not be had */
    int64_t excluded_groups;    /* groups of which nothing was left */
    double reward_kl;           /* KL taken off the rewards (key kl_in), before beta; mean
                                   over policy tokens */
    double value_loss;          /* the critic's, last update of the step; 0 without one */
    double value_clip_fraction;
    double value_mean;          /* over policy tokens, as the batch was compared */
    double return_mean;         /* what they should have been */
    double explained_variance;  /* 1 - var(returns - values) / var(returns) */
    double critic_grad_norm;    /* before clipping */
    double critic_learning_rate;
    double seconds_critic;
    double clip_low_fraction;   /* parts of clip_fraction, by the bound that holds */
    double clip_high_fraction;
    double dual_clip_fraction;  /* tokens that dual_clip or ratio_cap bounds */
    double ratio_max;           /* largest probability ratio of the last update */
    double importance_mean;     /* importance weights before their cut; 1 without a
                                   correction */
    double importance_max;
    double importance_ess;      /* effective share of the sample: mean^2 / mean square */
    double importance_cut;      /* share of tokens whose weight was cut or dropped */
    double off_policy_cut;      /* share of tokens that off_policy_delta left out */
    int64_t sampling_rounds;    /* of further questions (key dynamic_sampling) */
    int64_t masked;             /* trajectories kept from the update because a limit on
                                   tokens ended them (key mask_truncated_completions) */
    int64_t micro_batches;      /* of the step's last mini-batch, and their tokens: */
    int64_t batch_tokens_min;
    int64_t batch_tokens_max;
    int64_t unbalanced_min;     /* had they been cut in the order given (key
                                   balance_batches) */
    int64_t unbalanced_max;
    double entropy_coef;        /* weight of the entropy bonus in this step */
    double trained_entropy;     /* nats per policy token under the weights being trained,
                                   last update of the step; 0 without the bonus */
    int64_t unscored;           /* of excluded: their reward could not be had */
    double seconds_reward;      /* scoring; what programs take beyond the rollout and the
                                   reference is in it */
    int64_t staleness;          /* steps by which the server's weights were behind, where
                                   one generates (use_openai) */
    double text_drift;          /* share of its answers whose text alone would have given
                                   other token ids */
    double success_rate;        /* share of trajectories with an action that reached the
                                   goal */
    double thinking_tokens;     /* tokens of thought per trajectory */
    double level_1;             /* share of messages that chose this thinking level */
    double level_2;
    double level_3;
    double level_4;
    int64_t levels_compared;    /* steps that were made at the other levels too; the
                                   thinking advantage of the others is 0: */
    int64_t levels_left_out;    /* key level_expand */
    int64_t levels_unread;      /* no level, or no closed action */
    int64_t levels_too_long;    /* a level's thoughts reached level_max_tokens */
    int64_t levels_no_action;   /* a level's message ended without an action */
    int64_t levels_malformed;   /* a level's thoughts were not closed */
    int64_t levels_no_room;     /* the context was full */
    int64_t level_tokens;       /* drawn for the other levels */
    double seconds_levels;
    double probs_diff_max;      /* |rollout - recomputed probability|, first update */
    double probs_diff_mean;
    double net_reward_mean;     /* rewards with the KL taken off (key kl_in); over
                                   trajectories */
    double net_reward_std;
    double net_reward_min;
    double net_reward_max;
    double token_advantage_mean; /* over policy tokens */
    double token_advantage_min;
    double token_advantage_max;
    int64_t tokens;             /* prompts, sampled and inserted, of all trajectories */
    int64_t device_bytes;       /* most that tensors ever took on the model's device; 0 on
                                   the CPU */
} sr1_step_report;

/* Build a trainer from a configuration (copied). search: the engine to use instead of the
 * configured one, or NULL. Nothing is written until sr1_trainer_run. Since 0.1. */
SR1_API sr1_status sr1_trainer_new(sr1_trainer **out, const sr1_config *config,
                                   sr1_search *search);
SR1_API void sr1_trainer_free(sr1_trainer *trainer);

/* Add a reward of the caller's to the configured ones (ops copied; see reward.h). Not
 * once a run has begun: SR1_E_STATE. Since 0.1. */
SR1_API sr1_status sr1_trainer_add_reward(sr1_trainer *trainer,
                                          const sr1_reward_ops *ops, void *self,
                                          double weight);

/* The rollout that shares the trainer's weights; borrowed until the trainer is freed.
 * With use_openai the server generates what is asked of it. Since 0.1. */
SR1_API sr1_rollout *sr1_trainer_rollout(sr1_trainer *trainer);

/* Optimizer steps taken by whole steps so far (0 for a fresh trainer). Since 0.1. */
SR1_API int64_t sr1_trainer_steps_done(const sr1_trainer *trainer);
/* Steps the configuration asks for; 0 when it names no data. Since 0.1. */
SR1_API int64_t sr1_trainer_steps_planned(const sr1_trainer *trainer);

/* One update, by the configured loss, from trajectories that have rewards and advantages
 * (with a critic, returns too): update_times passes (seed document: update_policy). The
 * trajectories are borrowed; those without policy tokens, or left out (SR1_STOP_ERROR,
 * SR1_STOP_SEARCH_FAILED, SR1_STOP_UNSCORED), are skipped and counted. With a frozen
 * reference its log-probs are set in their column. SR1_E_STATE names the first without an
 * advantage, SR1_E_INVALID one sampled at another temperature or with top-p or top-k,
 * SR1_E_LIMIT one longer than the model reads, SR1_E_STATE one of a server's that is
 * older than max_staleness. report may be NULL. Since 0.1. */
SR1_API sr1_status sr1_trainer_update(sr1_trainer *trainer,
                                      sr1_trajectory *const *trajectories, size_t n,
                                      sr1_step_report *report);

/* Roll out group_size trajectories per query (0: as configured), reward, compare within
 * the group, update (seed document: train_step). out: n * group_size references for the
 * caller, or NULL. Since 0.1. */
SR1_API sr1_status sr1_trainer_train_step(sr1_trainer *trainer, const sr1_query *queries,
                                          size_t n, int32_t group_size,
                                          sr1_step_report *report, sr1_trajectory **out);

typedef struct sr1_run_callbacks {
    size_t struct_size;
    void *user;
    /* Each may be NULL. A status other than SR1_OK ends the run with it. */
    sr1_status (*step)(void *user, const sr1_step_report *report, int64_t planned);
    sr1_status (*phase)(void *user, const char *phase, int64_t done, int64_t total);
    sr1_status (*validation)(void *user, int64_t step, const sr1_evaluation *evaluation);
    /* One line worth showing: checkpoint written, alarm raised. */
    void (*note)(void *user, const char *text);
} sr1_run_callbacks;

/* Run to the planned end: data, steps, validation, metrics, checkpoints in the run folder
 * (key `out`). Returns SR1_OK when all work is done, SR1_E_CANCELLED after
 * sr1_trainer_stop (a checkpoint is written first). Since 0.1. */
SR1_API sr1_status sr1_trainer_run(sr1_trainer *trainer,
                                   const sr1_run_callbacks *callbacks);

/* Continue the run in this folder from its newest whole checkpoint, by the config.json it
 * holds, as if it had never stopped. Since 0.1. */
SR1_API sr1_status sr1_trainer_resume(sr1_trainer **out, const char *run_folder,
                                      sr1_search *search);

/* Ask a running sr1_trainer_run to end after the present step. Async-signal-safe. Since
 * 0.1. */
SR1_API void sr1_trainer_stop(sr1_trainer *trainer);

/* Write the policy as a Hugging Face folder (weights, config, tokenizer). Since 0.1. */
SR1_API sr1_status sr1_trainer_save_model(sr1_trainer *trainer, const char *folder);

/* The run folder of the configuration; borrowed until the trainer is freed. Since 0.1. */
SR1_API const char *sr1_trainer_run_folder(const sr1_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
