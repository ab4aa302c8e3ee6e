/* train/unread_keys.c - warnings about keys that are set and that nothing reads, since
 * another key that they serve has another value: a row a key. */
#include "train/internal.h"

#include "config/choices.h"

#include <stdio.h>
#include <string.h>

/* ---- by the value of one key ---- */

/* Keys that one value of another key alone reads, or (but) every one but that. */
static const struct {
    const char *key, *by, *value;
    int but;
} read_by[] = {
    {"importance_high", "importance_correction", "none", 1},
    {"importance_low", "importance_correction", "none", 1},
    {"kl_target", "kl_controller", "adaptive", 0},
    {"kl_horizon", "kl_controller", "adaptive", 0},
    {"entropy_target", "entropy_controller", "adaptive", 0},
    {"entropy_coef_delta", "entropy_controller", "adaptive", 0},
    {"loss_length", "loss_aggregation", "seq-mean-token-sum-norm", 0},
    {"thinking_cost_w", "protocol", "rlvcr", 0},
    {"thinking_cost_max", "protocol", "rlvcr", 0},
    {"level_max_tokens", "protocol", "rlvcr", 0},
    {"proxy_model", "environment", "critique", 0},
    {"reference_dtype", "kl_reference", "old", 1},
};

#define READ_BY (sizeof(read_by) / sizeof(read_by[0]))

/* The value of a key; a protocol's file takes the place of its name. */
static const char *read_value(const sr1_config *c, const char *key)
{
    return strcmp(key, "protocol") == 0 ? sr1__config_protocol(c)
                                        : sr1__config_str(c, key);
}

static int warn_by_value(const sr1_config *c, size_t i, char *text, size_t size)
{
    const char *value = read_value(c, read_by[i].by);

    if ((strcmp(value, read_by[i].value) == 0) != read_by[i].but ||
        !sr1__config_is_set(c, read_by[i].key))
        return 0;
    snprintf(text, size, "%s is set, and %s is %.200s: nothing reads it", read_by[i].key,
             read_by[i].by, value);
    return 1;
}

/* ---- by more than that ---- */

static int reads_no_low_clip(const sr1_trainer *tr)
{
    return !sr1__settings_lists(tr->set.loss->options, "clip_low");
}

static int draws_by_no_covariance(const sr1_trainer *tr)
{
    return !sr1__settings_lists(tr->set.loss->options, "clip_cov_ratio");
}

static int holds_by_no_covariance(const sr1_trainer *tr)
{
    return !sr1__settings_lists(tr->set.loss->options, "kl_cov_ratio");
}

static int reads_no_high_clip(const sr1_trainer *tr)
{
    return !sr1__settings_lists(tr->set.loss->options, "clip_high");
}

static int subtracts_nothing(const sr1_trainer *tr)
{
    return sr1__config_is(tr->config, "kl_in", "reward") && !tr->set.kl_in_reward;
}

static int subtracts_kl(const sr1_trainer *tr)
{
    return tr->set.kl_in_reward;
}

/* With + an estimate has the gradient of another. */
static int subtracts_without_gradient(const sr1_trainer *tr)
{
    return tr->set.kl_in_reward && strchr(tr->set.kl_kind, '+');
}

static int reads_no_pass_k(const sr1_trainer *tr)
{
    return !sr1__settings_lists(tr->set.estimator.options, "pass_k");
}

static int has_no_adapter(const sr1_trainer *tr)
{
    return tr->set.lora.rank == 0;
}

static int has_no_critic(const sr1_trainer *tr)
{
    return !(tr->set.estimator.needs & SR1_ADVANTAGE_NEEDS_VALUES);
}

static int has_no_critic_adapter(const sr1_trainer *tr)
{
    return tr->set.critic_lora.rank == 0;
}

static int has_no_server(const sr1_trainer *tr)
{
    return !sr1__config_bool(tr->config, "use_openai");
}

static int acts_otherwise(const sr1_trainer *tr)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(tr->config);

    return !e || !e->of_user;
}

static int names_engine(const sr1_config *c, const char *engine)
{
    return sr1__config_has_item(c, "search_engine", engine) ||
           sr1__config_has_item(c, "search_fallback", engine);
}

static int lacks_engine(const sr1_config *c, const char *engine)
{
    return !names_engine(c, engine) &&
           !(names_engine(c, "hybrid") &&
             sr1__config_has_item(c, "search_hybrid", engine));
}

static int searches_without_program(const sr1_trainer *tr)
{
    return lacks_engine(tr->config, "program");
}

static int searches_without_vectors(const sr1_trainer *tr)
{
    return lacks_engine(tr->config, "dense");
}

static int searches_without_bm25(const sr1_trainer *tr)
{
    return lacks_engine(tr->config, "bm25");
}

static int rejects_nothing(const sr1_trainer *tr)
{
    return tr->set.rejection.n == 0;
}

static int has_no_judge(const sr1_trainer *tr)
{
    return !sr1__config_has_item(tr->config, "rewards", "judge");
}

static int imitates_nothing(const sr1_trainer *tr)
{
    return !sr1__config_imitates(tr->config);
}

static int has_no_validation(const sr1_trainer *tr)
{
    return !tr->validation;
}

static int validates_greedily(const sr1_trainer *tr)
{
    return tr->set.validation_sampling.temperature == 0.0;
}

static int keeps_its_reference(const sr1_trainer *tr)
{
    return tr->set.reference_sync_steps == 0;
}

static int takes_any_length(const sr1_trainer *tr)
{
    return sr1__config_int(tr->config, "overlong_buffer") == 0;
}

static int replaces_no_group(const sr1_trainer *tr)
{
    return tr->set.dynamic_sampling == 0;
}

static int runs_no_program(const sr1_trainer *tr)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(tr->config);

    return !(e && e->revises) &&
           !sr1__config_has_item(tr->config, "rewards", "execution");
}

static int keeps_weights_whole(const sr1_trainer *tr)
{
    return sr1__config_bool(tr->config, "forward_prefetch") &&
           !sr1__config_bool(tr->config, "reshard_after_forward");
}

static int tells_no_server(const sr1_trainer *tr)
{
    return *sr1__config_str(tr->config, "mlflow_tracking_uri") == '\0';
}

static int has_rule_of_order(const sr1_trainer *tr)
{
    return tr->sampler.rule != NULL;
}

static int compares_nothing(const sr1_trainer *tr)
{
    return !*tr->set.best_metric;
}

static int counts_no_validation(const sr1_trainer *tr)
{
    return tr->set.stops[SR1__STOP_PATIENCE] == 0;
}

static int writes_no_model(const sr1_trainer *tr)
{
    return tr->set.load_best && !tr->set.save_final_model;
}

static int measures_no_kl(const sr1_trainer *tr)
{
    return tr->set.beta == 0.0 || sr1__config_imitates(tr->config);
}

static int samples_nothing(const sr1_trainer *tr)
{
    return sr1__config_imitates(tr->config);
}

static int is_never_asked(const sr1_trainer *tr)
{
    (void)tr;
    return 1;
}

static int leaves_rows_out(const sr1_trainer *tr)
{
    return sr1__config_real(tr->config, "test_split") > 0;
}

static const char no_adapter[] =
    "lora_rank is 0: all weights are trained; set lora_rank to train an adapter";
static const char no_critic[] =
    "only an advantage with a critic (gae), in stage rl, reads it";
static const char no_clip[] = "the loss does not look at it: it has no such bound";
static const char no_clip_cov[] =
    "the loss does not look at it: clip_cov alone leaves out tokens by covariance";
static const char no_kl_cov[] =
    "the loss does not look at it: kl_cov alone holds tokens by covariance";
static const char no_critic_adapter[] =
    "critic_lora_rank is 0: no adapter of a critic is trained";
static const char no_validation[] = "there are no questions for validation: none is made";
static const char greedy[] =
    "validation_temperature is 0: a validation takes the likeliest token";

static const struct {
    const char *key;
    int (*is_unread)(const sr1_trainer *tr);
    const char *why;
} unread[] = {
    {"lora_alpha", has_no_adapter, no_adapter},
    {"lora_targets", has_no_adapter, no_adapter},
    {"lora_dropout", has_no_adapter, no_adapter},
    {"critic_learning_rate", has_no_critic, no_critic},
    {"critic_warmup", has_no_critic, no_critic},
    {"critic_model", has_no_critic, no_critic},
    {"value_clip", has_no_critic, no_critic},
    {"critic_max_grad_norm", has_no_critic, no_critic},
    {"critic_update_times", has_no_critic, no_critic},
    {"critic_lora_alpha", has_no_critic_adapter, no_critic_adapter},
    {"critic_lora_targets", has_no_critic_adapter, no_critic_adapter},
    {"rollout_rs_threshold", rejects_nothing,
     "rollout_rs is empty: no token is rejected"},
    {"pass_k", reads_no_pass_k, "the advantage does not look at it"},
    {"clip_epsilon", reads_no_low_clip, no_clip},
    {"clip_epsilon_high", reads_no_high_clip, no_clip},
    {"clip_cov_ratio", draws_by_no_covariance, no_clip_cov},
    {"clip_cov_lb", draws_by_no_covariance, no_clip_cov},
    {"clip_cov_ub", draws_by_no_covariance, no_clip_cov},
    {"kl_cov_ratio", holds_by_no_covariance, no_kl_cov},
    {"ppo_kl_coef", holds_by_no_covariance, no_kl_cov},
    {"kl_in", subtracts_nothing, "beta is 0: there is no KL"},
    {"kl_weighted", subtracts_kl,
     "kl_in is reward: what is subtracted there is not weighed"},
    {"kl_kind", subtracts_without_gradient,
     "kl_in is reward, which has no gradient: the + changes nothing"},
    {"openai_base_url", has_no_server,
     "use_openai is off: the policy generates in this process"},
    {"environment_program", acts_otherwise,
     "environment is not program: it is not started"},
    {"search_program", searches_without_program,
     "search_engine is not program: it is not started"},
    {"search_index_device", searches_without_vectors,
     "no search engine is dense: the others, FAISS too, search on the CPU"},
    {"judge_base_url", has_no_judge, "rewards do not name judge: none of them asks it"},
    {"sft_file", imitates_nothing,
     "stage is not sft: no demonstration is read; set stage: sft to train on them"},
    {"stop_at_exact_match", has_no_validation,
     "there are no questions for validation: the run goes to its end"},
    {"metric_for_best_model", has_no_validation, no_validation},
    {"greater_is_better", compares_nothing, "metric_for_best_model is not"},
    {"early_stopping_threshold", counts_no_validation, "early_stopping_patience is 0"},
    {"load_best_model_at_end", writes_no_model,
     "save_final_model is off: no model is written; RUN/best has the best one"},
    {"stop_at_kl", measures_no_kl, "beta is 0, or stage is sft: there is no KL"},
    {"stop_below_entropy", samples_nothing, "stage is sft: nothing is sampled"},
    {"validation_temperature", has_no_validation, no_validation},
    {"validation_group_size", has_no_validation, no_validation},
    {"log_validation_trajectories", has_no_validation, no_validation},
    {"validation_top_p", validates_greedily, greedy},
    {"validation_top_k", validates_greedily, greedy},
    {"reference_mixup_alpha", keeps_its_reference,
     "reference_sync_steps is 0: the reference does not move"},
    {"validation_samples", has_no_validation, no_validation},
    {"overlong_penalty", takes_any_length,
     "overlong_buffer is 0: no response loses reward by its length"},
    {"validate_interval", has_no_validation, no_validation},
    {"openai_sync_url", has_no_server,
     "use_openai is off: this process generates, and has the weights"},
    {"filter_groups_metric", replaces_no_group,
     "dynamic_sampling is 0: no group is replaced"},
    {"weight_sync_backend", has_no_server,
     "use_openai is off: this process generates, and has the weights"},
    {"search_index", searches_without_bm25,
     "search_engine is not bm25: the index is not opened"},
    {"code_problems", runs_no_program,
     "environment is not critique, and rewards do not name execution: no program runs"},
    {"forward_prefetch", keeps_weights_whole,
     "reshard_after_forward is off: no weights travel in an update; set it, and "
     "fsdp_size"},
    {"mlflow_experiment", tells_no_server,
     "mlflow_tracking_uri is not: nothing is sent; set it to the server's address, or to "
     "env"},
    {"curriculum_field", has_rule_of_order,
     "query_selection chooses the questions, in no order of theirs; take order"},
    {"test_file", is_never_asked,
     "no step and no validation asks its questions: sr1-eval RUN FILE does"},
    {"test_split", leaves_rows_out,
     "its part of train_file is left out, and no tool asks it: put these rows into a "
     "file of their own, which sr1-eval RUN FILE asks"},
};

#define UNREAD (sizeof(unread) / sizeof(unread[0]))

static int warn_by_predicate(const sr1_trainer *tr, size_t i, char *text, size_t size)
{
    if (!sr1__config_is_set(tr->config, unread[i].key) || !unread[i].is_unread(tr))
        return 0;
    snprintf(text, size, "%s is set, and %s", unread[i].key, unread[i].why);
    return 1;
}

int sr1__warn_unread(const sr1_trainer *tr, size_t i, char *text, size_t size)
{
    if (i < UNREAD)
        return warn_by_predicate(tr, i, text, size);
    i -= UNREAD;
    return i < READ_BY ? warn_by_value(tr->config, i, text, size) : -1;
}
