/* train/settings.c - the numbers of a configuration that training uses. */
#include "train/internal.h"

#include "base/num.h"
#include "config/choices.h"
#include "policy/assemble/assemble.h"
#include "tensor/weights/sampling.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the loss ---- */

/* What the user set, and what compat brings unless the user chose the loss, stays as it
 * is. */
static int is_given(const sr1_config *c, const char *key)
{
    return sr1__config_is_set(c, key) ||
           (!sr1__config_is_set(c, "loss") && sr1__config_by_compat(c, key));
}

static sr1_status preset_real(sr1_config *c, const char *key, double v)
{
    char text[32];

    if (is_given(c, key) || sr1__config_real(c, key) == v)
        return SR1_OK;
    sr1__format_real(v, text);
    return sr1_config_set(c, key, text);
}

/* Either that was not given is the loss's own; high is not below a low that was. */
static sr1_status preset_clip(sr1_config *c, const sr1_loss_options *o)
{
    if (o->clip_low == 0.0)
        return SR1_OK;
    SR1__TRY(preset_real(c, "clip_epsilon", o->clip_low));
    return preset_real(c, "clip_epsilon_high",
                       o->clip_high > o->clip_low &&
                               o->clip_high > sr1__config_real(c, "clip_epsilon")
                           ? o->clip_high
                           : 0.0);
}

/* A beta that nobody chose would turn off what was asked for. */
static sr1_status check_subtracted_kl(const sr1_config *c,
                                      const struct sr1__loss_row *row)
{
    int of_compat = is_given(c, "beta");

    if (!sr1__config_is(c, "kl_in", "reward") || sr1__config_is_set(c, "beta") ||
        (of_compat ? sr1__config_real(c, "beta") : row->defaults.beta) != 0.0)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "kl_in reward takes beta times the KL off the rewards, and the beta "
                     "of %s %s is 0; set beta",
                     of_compat ? "compat" : "loss",
                     of_compat ? sr1__config_str(c, "compat") : row->name);
}

/* compat counts it in groups of its own size: it is as many of another size. */
static sr1_status preset_mini_batch(sr1_config *c)
{
    const char *group = sr1__config_preset(c, "group_size");
    const char *size = sr1__config_preset(c, "mini_batch_size");
    int64_t now = sr1__config_int(c, "group_size"), then;
    char text[32];

    if (!group || !size || sr1__config_is_set(c, "mini_batch_size"))
        return SR1_OK;
    then = strtoll(group, NULL, 10);
    if (then == now)
        return SR1_OK;
    snprintf(text, sizeof(text), "%lld", strtoll(size, NULL, 10) / then * (long long)now);
    return sr1_config_set(c, "mini_batch_size", text);
}

sr1_status sr1__settings_resolve(sr1_config *c)
{
    const struct sr1__loss_row *row = sr1__loss_find(sr1__config_str(c, "loss"));

    SR1__TRY(sr1__config_check_names(c));
    if (sr1__config_imitates(c))
        return SR1_OK;
    SR1__TRY(check_subtracted_kl(c, row));
    SR1__TRY(preset_mini_batch(c));
    SR1__TRY(preset_clip(c, &row->defaults));
    SR1__TRY(preset_real(c, "beta", row->defaults.beta));
    SR1__TRY(preset_real(c, "dual_clip", row->defaults.dual_clip));
    SR1__TRY(preset_real(c, "ratio_cap", row->defaults.ratio_cap));
    if (is_given(c, "loss_aggregation") ||
        sr1__config_is(c, "loss_aggregation", row->aggregation))
        return SR1_OK;
    return sr1_config_set(c, "loss_aggregation", row->aggregation);
}

/* Bounds that the loss does not have would be set in vain. */
static sr1_status check_bounds(const struct sr1__settings *s, const sr1_config *c)
{
    const char *const keys[] = {"dual_clip", "ratio_cap"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !sr1__config_imitates(c);
         i++)
        if (sr1__config_real(c, keys[i]) > 0 &&
            !sr1__settings_lists(s->loss->options, keys[i]))
            return sr1__fail(SR1_E_CONFIG,
                             "%s: loss %s does not look at it; leave it out or take a "
                             "loss that does",
                             keys[i], s->loss->name);
    return SR1_OK;
}

static void read_loss_options(struct sr1__settings *s, const sr1_config *c)
{
    sr1_loss_options *o = &s->loss_options;
    double high = sr1__config_real(c, "clip_epsilon_high");

    *o = s->loss->defaults;
    o->clip_low = sr1__config_real(c, "clip_epsilon");
    o->clip_high = high > 0 ? high : o->clip_low;
    o->dual_clip = sr1__config_real(c, "dual_clip");
    o->ratio_cap = sr1__config_real(c, "ratio_cap");
    o->beta = s->beta;
    o->kl_kind = sr1__config_str(c, "kl_kind");
    o->kl_weighted = sr1__config_bool(c, "kl_weighted");
    if (!sr1__config_is(c, "importance_correction", "none"))
        o->correction = sr1__config_str(c, "importance_correction");
    o->correction_low = sr1__config_real(c, "importance_low");
    o->correction_high = sr1__config_real(c, "importance_high");
    o->off_policy_delta = sr1__config_real(c, "off_policy_delta");
    o->clip_cov_ratio = sr1__config_real(c, "clip_cov_ratio");
    o->clip_cov_lb = sr1__config_real(c, "clip_cov_lb");
    o->clip_cov_ub = sr1__config_real(c, "clip_cov_ub");
    o->kl_cov_ratio = sr1__config_real(c, "kl_cov_ratio");
    o->ppo_kl_coef = sr1__config_real(c, "ppo_kl_coef");
    o->dro_beta = sr1__config_real(c, "dro_beta");
}

static sr1_status check_correction(const struct sr1__settings *s)
{
    if (!s->loss_options.correction || s->loss->ratio != SR1__RATIO_SEQUENCE_SUM)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "loss %s weighs trajectories by their importance itself; set "
                     "importance_correction to none",
                     s->loss->name);
}

/* The first criterion that leaves out single tokens; NULL: none. */
static const char *find_token_criterion(const struct sr1__settings *s)
{
    for (size_t i = 0; i < s->rejection.n; i++)
        if (sr1__criterion_by_token(&s->rejection.criteria[i]))
            return sr1__criterion_name(&s->rejection.criteria[i]);
    return NULL;
}

/* What judges a trajectory needs all its tokens: its weight (verl's rollout_is:
 * sequence), and the mean of off_policy_delta. */
static sr1_status check_rejection(const struct sr1__settings *s)
{
    const char *correction = s->loss_options.correction, *name = find_token_criterion(s);
    const struct sr1__correction *row = NULL;

    if (s->loss->ratio == SR1__RATIO_SEQUENCE_SUM)
        return sr1__fail(SR1_E_CONFIG,
                         "loss %s weighs trajectories by their importance itself, and "
                         "needs all their tokens; leave rollout_rs out",
                         s->loss->name);
    SR1__TRY(sr1__correction_find(correction, &row));
    if (name && row && row->by_sequence)
        return sr1__fail(SR1_E_CONFIG,
                         "importance_correction %s weighs a trajectory by all its "
                         "tokens, and rollout_rs %s leaves some out; set the former "
                         "to token_truncate, or take seq_mean_k1 for the latter",
                         correction, name);
    if (name && s->loss_options.off_policy_delta > 0)
        return sr1__fail(SR1_E_CONFIG,
                         "off_policy_delta judges a trajectory by all its tokens, and "
                         "rollout_rs %s leaves some out; set the former to 0, or take "
                         "seq_mean_k1 for the latter",
                         name);
    return SR1_OK;
}

static sr1_status read_rejection(struct sr1__settings *s, const sr1_config *c)
{
    const char *criteria = sr1__config_str(c, "rollout_rs");

    if (!*criteria || sr1__config_imitates(c))
        return SR1_OK;
    if (sr1__rejection_parse(&s->rejection, criteria,
                             sr1__config_str(c, "rollout_rs_threshold")) != SR1_OK)
        return sr1__fail(SR1_E_CONFIG, "%s", sr1_last_error());
    return check_rejection(s);
}

/* Keys with which what is sampled is not quite the policy, but with `exact` or in a type
 * that rounds no more (NULL: in none). */
static const struct {
    const char *key, *exact, *why, *exact_dtype;
} rounding_keys[] = {
    {"quantization", "none", "with other weights than are trained", NULL},
    {"kv_cache_dtype", "auto", "after keys and values that training does not round",
     "bf16"}};

static sr1_status check_rounded_policy(const struct sr1__settings *s, const sr1_config *c)
{
    if (sr1__config_imitates(c) || s->loss_options.correction ||
        s->loss->ratio == SR1__RATIO_SEQUENCE_SUM)
        return SR1_OK;
    for (size_t i = 0; i < sizeof rounding_keys / sizeof rounding_keys[0]; i++) {
        const char *key = rounding_keys[i].key, *exact = rounding_keys[i].exact;
        const char *dtype = rounding_keys[i].exact_dtype;

        if (!sr1__config_is(c, key, exact) &&
            !(dtype && sr1__config_is(c, "dtype", dtype)))
            return sr1__fail(SR1_E_CONFIG,
                             "%s %s: tokens are sampled %s; set importance_correction "
                             "(token_truncate) so that the difference is weighed, or %s "
                             "to %s",
                             key, sr1__config_str(c, key), rounding_keys[i].why, key,
                             exact);
    }
    return SR1_OK;
}

/* verl has no default either. */
static sr1_status check_dro_beta(const struct sr1__settings *s)
{
    if (!sr1__settings_lists(s->loss->options, "dro_beta") ||
        s->loss_options.dro_beta > 0.0)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "loss %s needs the weight of its penalty, which has no default; set "
                     "dro_beta above 0",
                     s->loss->name);
}

/* A cap inside the clip would hold a ratio that the clip lets through. */
static sr1_status check_cap(const struct sr1__settings *s)
{
    const sr1_loss_options *o = &s->loss_options;

    if (o->ratio_cap == 0.0 || o->ratio_cap >= 1.0 + o->clip_high ||
        sr1__loss_holds_divergence(s->loss))
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "ratio_cap is %g, inside the clip, which ends at 1 + "
                     "clip_epsilon_high = %g; raise ratio_cap to that or set it to 0",
                     o->ratio_cap, 1.0 + o->clip_high);
}

static sr1_status read_loss(struct sr1__settings *s, const sr1_config *c)
{
    int64_t length = sr1__config_int(c, "loss_length");

    s->beta = sr1__config_real(c, "beta");
    s->loss = sr1__loss_find(sr1__config_str(c, "loss"));
    s->router_aux_loss_coef = sr1__config_real(c, "router_aux_loss_coef");
    s->router_replay = sr1__config_is(c, "router_replay", "r2");
    s->top_entropy_quantile = sr1__config_real(c, "top_entropy_quantile");
    s->loss_length = (double)(length ? length : sr1__config_int(c, "max_tokens"));
    SR1__TRY(
        sr1__aggregation_find(sr1__config_str(c, "loss_aggregation"), &s->aggregation));
    SR1__TRY(check_bounds(s, c));
    read_loss_options(s, c);
    SR1__TRY(check_correction(s));
    SR1__TRY(read_rejection(s, c));
    SR1__TRY(check_rounded_policy(s, c));
    SR1__TRY(check_cap(s));
    if (!sr1__config_imitates(c))
        SR1__TRY(check_dro_beta(s));
    s->frozen_reference = sr1__config_is(c, "kl_reference", "frozen") && s->beta > 0 &&
                          !sr1__config_imitates(c);
    s->reference_sync_steps = sr1__config_int(c, "reference_sync_steps");
    s->reference_mixup_alpha = sr1__config_real(c, "reference_mixup_alpha");
    s->skip_zero_variance_groups = sr1__config_bool(c, "skip_zero_variance_groups") ||
                                   sr1__config_int(c, "dynamic_sampling") > 0;
    return SR1_OK;
}

static void read_schedule(struct sr1__settings *s, const sr1_config *c)
{
    s->schedule = (struct sr1__schedule){
        .shape = sr1__config_str(c, "lr_schedule"),
        .rate = sr1__config_real(c, "learning_rate"),
        .warmup = sr1__config_int(c, "warmup_steps"),
        .warmup_ratio = sr1__config_real(c, "warmup_ratio"),
        .decay_start = sr1__config_real(c, "lr_decay_start"),
        .final_ratio = sr1__config_real(c, "lr_final_ratio"),
    };
    s->max_grad_norm = sr1__config_real(c, "max_grad_norm");
}

static sr1_status read_validation(struct sr1__settings *s, const sr1_config *c)
{
    s->validation_group_size = (int32_t)sr1__config_int(c, "validation_group_size");
    s->validation_sampling = (struct sr1__sampling){
        .temperature = sr1__config_real(c, "validation_temperature"),
        .top_k = (int32_t)sr1__config_int(c, "validation_top_k"),
        .top_p = sr1__config_real(c, "validation_top_p")};
    return sr1__context(sr1__sampling_check(&s->validation_sampling), "validation");
}

/* Unless it is said, as transformers': of a loss less is better, whose ever it is. */
static int is_greater_better(const sr1_config *c)
{
    static const char loss[] = "loss";
    const char *metric = sr1__config_str(c, "metric_for_best_model");
    size_t n = strlen(metric), end = strlen(loss);

    if (sr1__config_is_set(c, "greater_is_better"))
        return sr1__config_bool(c, "greater_is_better");
    return n < end || strcmp(metric + n - end, loss) != 0;
}

static void read_best(struct sr1__settings *s, const sr1_config *c)
{
    s->best_metric = sr1__config_str(c, "metric_for_best_model");
    s->greater_is_better = is_greater_better(c);
    s->load_best = sr1__config_bool(c, "load_best_model_at_end");
    s->early_stopping_threshold = sr1__config_real(c, "early_stopping_threshold");
}

static void read_run(struct sr1__settings *s, const sr1_config *c)
{
    s->validate_interval = sr1__config_int(c, "validate_interval");
    s->validation_samples = sr1__config_int(c, "validation_samples");
    sr1__stops_read(s->stops, c);
    read_best(s, c);
    s->validate_at_start = sr1__config_bool(c, "validate_at_start");
    s->save_interval = sr1__config_int(c, "save_interval");
    s->save_seconds = 60.0 * sr1__config_real(c, "save_interval_minutes");
    s->keep_checkpoints = sr1__config_int(c, "keep_checkpoints");
    s->save_final_model = sr1__config_bool(c, "save_final_model");
    s->log_trajectories = sr1__config_int(c, "log_trajectories");
    s->log_validation_trajectories = sr1__config_int(c, "log_validation_trajectories");
    s->log_interval = sr1__config_int(c, "log_interval");
}

/* Training needs log-probs of the distribution that is trained: the whole one. */
static sr1_status check_sampling(const sr1_config *c)
{
    if (sr1__config_imitates(c))
        return SR1_OK;
    if (sr1__config_real(c, "top_p") < 1.0 || sr1__config_int(c, "top_k") > 0)
        return sr1__fail(
            SR1_E_CONFIG,
            "top_p and top_k cut the distribution that is sampled but not the "
            "one that is trained, which biases the update; set top_p: 1 and "
            "top_k: 0 for stage rl (sr1-infer and sr1-eval may use them)");
    if (sr1__config_real(c, "temperature") < SR1__TEMPERATURE_MIN)
        return sr1__fail(SR1_E_CONFIG,
                         "temperature is %g: a greedy policy does not explore; set it to "
                         "%g or more for stage rl",
                         sr1__config_real(c, "temperature"), SR1__TEMPERATURE_MIN);
    return SR1_OK;
}

/* A sum over the rows of a micro-batch has an order that all of them choose: a trajectory
 * has a gradient of its own, to the bit, where it is alone with its prompt. */
void sr1__settings_isolate(struct sr1__settings *s, const sr1_config *c,
                           sr1__device device)
{
    s->alone = sr1__has_own_order(c, device);
    if (!s->alone)
        return;
    s->micro_batch_tokens = 1;
    s->share_prompts = 0;
    s->balance_batches = 0;
}

sr1_status sr1__settings_read(struct sr1__settings *s, const sr1_config *c)
{
    SR1__TRY(check_sampling(c));
    s->batch_size = sr1__config_int(c, "batch_size");
    s->max_steps = sr1__config_int(c, "max_steps");
    s->num_epochs = sr1__config_int(c, "num_epochs");
    s->update_times = sr1__config_int(c, "update_times");
    s->group_size = sr1__config_int(c, "group_size");
    s->mini_batch_size = sr1__config_int(c, "mini_batch_size");
    s->micro_batch_tokens = sr1__config_int(c, "micro_batch_tokens");
    s->share_prompts = sr1__config_bool(c, "share_prompts");
    s->logit_chunk = sr1__config_int(c, "logit_chunk");
    s->trajectory_memory = sr1__config_int(c, "trajectory_memory");
    s->max_staleness = sr1__config_int(c, "max_staleness");
    s->async_level = sr1__config_int(c, "async_level");
    s->partial_rollout = sr1__config_bool(c, "partial_rollout");
    s->checkpointing = sr1__config_bool(c, "gradient_checkpointing");
    s->shuffle = sr1__config_bool(c, "shuffle") &&
                 (sr1__config_imitates(c) || !*sr1__config_str(c, "curriculum_field"));
    s->temperature = sr1__config_imitates(c) ? 1.0 : sr1__config_real(c, "temperature");
    s->seed = (uint64_t)sr1__config_int(c, "seed");
    s->max_tokens = sr1__config_int(c, "max_tokens");
    s->overlong_buffer = sr1__config_int(c, "overlong_buffer");
    s->overlong_penalty = sr1__config_real(c, "overlong_penalty");
    s->mask_truncated = sr1__config_bool(c, "mask_truncated_completions");
    s->train_environment =
        !sr1__config_bool(c, "mask_environment") && !sr1__config_imitates(c);
    s->no_think = sr1__config_bool(c, "no_think_rl") && !sr1__config_imitates(c);
    s->dense_rewards = sr1__config_bool(c, "dense_rewards");
    s->balance_batches = sr1__config_bool(c, "balance_batches");
    s->dynamic_sampling = sr1__config_int(c, "dynamic_sampling");
    s->filter_groups_metric =
        s->dynamic_sampling > 0 ? sr1__config_str(c, "filter_groups_metric") : "";
    if (s->overlong_buffer > s->max_tokens)
        return sr1__fail(SR1_E_CONFIG,
                         "overlong_buffer is %lld, max_tokens only %lld; the buffer is a "
                         "part of it",
                         (long long)s->overlong_buffer, (long long)s->max_tokens);
    SR1__TRY(sr1__lora_configured(&s->lora, "", c));
    SR1__TRY(sr1__lora_configured(&s->critic_lora, "critic_", c));
    SR1__TRY(read_loss(s, c));
    SR1__TRY(sr1__settings_read_advantage(s, c));
    read_schedule(s, c);
    read_run(s, c);
    SR1__TRY(sr1__best_check_name(s->best_metric));
    return read_validation(s, c);
}

struct sr1__adamw sr1__adamw_configured(const sr1_config *c)
{
    return (struct sr1__adamw){
        .beta1 = sr1__config_real(c, "adam_beta1"),
        .beta2 = sr1__config_real(c, "adam_beta2"),
        .eps = sr1__config_real(c, "adam_epsilon"),
        .weight_decay = sr1__config_real(c, "weight_decay"),
        .offload = sr1__config_bool(c, "optimizer_offload"),
    };
}
