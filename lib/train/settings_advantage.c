/* train/settings_advantage.c - settings of the advantages: the estimator and its options,
 * KL in the reward, the critic. */
#include "train/internal.h"

#include "config/choices.h"
#include "environment/env/protocol.h"
#include "tensor/weights/sampling.h"

#include <stdlib.h>
#include <string.h>

/* ---- the estimator ---- */

/* Keys that set a field of the estimator's options; -1 leaves its own number. */
static const struct {
    const char *key;
    size_t offset;
} numbers[] = {
    {"advantage_eps", offsetof(sr1_advantage_options, eps)},
    {"gamma", offsetof(sr1_advantage_options, gamma)},
    {"gae_lambda", offsetof(sr1_advantage_options, lam)},
    {"turn_advantage_coef", offsetof(sr1_advantage_options, turn_advantage_coef)},
    {"step_advantage_w", offsetof(sr1_advantage_options, step_advantage_w)},
    {"thinking_cost_w", offsetof(sr1_advantage_options, thinking_cost_w)},
    {"thinking_cost_max", offsetof(sr1_advantage_options, thinking_cost_max)},
    {"thinking_diversity_w", offsetof(sr1_advantage_options, thinking_diversity_w)},
};

/* Keys whose choices are numbers of a field; others leave its own. */
static const struct {
    const char *key;
    const char *choice;
    size_t offset;
    int32_t value;
} choices[] = {
    {"advantage_std_over", "batch", offsetof(sr1_advantage_options, std_over),
     SR1_ADVANTAGE_STD_OVER_BATCH},
    {"advantage_std_kind", "population", offsetof(sr1_advantage_options, std_kind),
     SR1_ADVANTAGE_STD_POPULATION},
    {"advantage_std_kind", "unbiased", offsetof(sr1_advantage_options, std_kind),
     SR1_ADVANTAGE_STD_UNBIASED},
    {"advantage_whiten", "on", offsetof(sr1_advantage_options, whiten),
     SR1_ADVANTAGE_WHITEN},
    {"advantage_whiten", "tokens", offsetof(sr1_advantage_options, whiten),
     SR1_ADVANTAGE_WHITEN_TOKENS},
    {"advantage_whiten", "off", offsetof(sr1_advantage_options, whiten), 0},
    {"step_advantage_mode", "mean_norm", offsetof(sr1_advantage_options, step_mode),
     SR1_ADVANTAGE_MEAN_NORM},
    {"step_advantage_mode", "mean_std_norm", offsetof(sr1_advantage_options, step_mode),
     SR1_ADVANTAGE_MEAN_STD_NORM},
    {"thinking_form", "multiplicative", offsetof(sr1_advantage_options, multiplicative),
     1},
};

int sr1__settings_lists(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ',' || at[n] == '\0'))
            return 1;
    return 0;
}

static sr1_status find_estimator(sr1_advantage_info *out, const char *name)
{
    const char *at;

    out->struct_size = sizeof(*out);
    for (size_t i = 0; (at = sr1_advantage_name(i)) != NULL; i++)
        if (strcmp(at, name) == 0)
            return sr1_advantage_describe(i, out);
    return sr1__fail(SR1_E_INTERNAL, "advantage '%s' is a key's choice but no estimator",
                     name);
}

static int has_levels(const sr1_config *c)
{
    const struct sr1__protocol *p = sr1__protocol_find(sr1__config_protocol(c));

    return p && p->levels;
}

/* What steps of a protocol with levels of thinking have, and of no other. */
#define OF_LEVELS (SR1_ADVANTAGE_NEEDS_TURN_TAGS | SR1_ADVANTAGE_NEEDS_CONFIDENCES)

/* What the estimator needs that the protocol has not. */
static int32_t missing_needs(const struct sr1__settings *s, const sr1_config *c)
{
    return has_levels(c) ? 0 : s->estimator.needs & OF_LEVELS;
}

/* Where a file describes the protocol, the name beside it counts for nothing. */
static const char *name_file(const sr1_config *c)
{
    return *sr1__config_str(c, "protocol_file") ? "; protocol_file takes its place" : "";
}

/* "512", or one number for each of the levels 2 to 4. */
static sr1_status read_level_tokens(struct sr1__level_branch_options *o, const char *list)
{
    int64_t v[SR1_THINKING_LEVELS - 1];
    size_t n = 0;
    char *end = (char *)(uintptr_t)list;

    do {
        if (n == SR1_THINKING_LEVELS - 1 || *list < '0' || *list > '9')
            break;
        v[n++] = strtoll(list, &end, 10);
        list = end + (*end == ',');
    } while (*end == ',');
    if (*end != '\0' || (n != 1 && n != SR1_THINKING_LEVELS - 1))
        return sr1__fail(SR1_E_CONFIG, "level_max_tokens must be one number, or three "
                                       "with commas, for the levels 2 to 4");
    for (size_t i = 0; i < SR1_THINKING_LEVELS - 1; i++) {
        o->max_tokens[i + 1] = v[n == 1 ? 0 : i];
        if (o->max_tokens[i + 1] < 1 || o->max_tokens[i + 1] > 1 << 20)
            return sr1__fail(SR1_E_CONFIG, "level_max_tokens: a number is not in "
                                           "1..1048576");
    }
    return SR1_OK;
}

static sr1_status read_levels(struct sr1__settings *s, const sr1_config *c)
{
    s->levels = (struct sr1__level_branch_options){
        .sampling = {.temperature = sr1__config_real(c, "level_temperature"),
                     .top_p = sr1__config_real(c, "level_top_p")},
        .thought = sr1__config_str(c, "level_thought"),
        .prompts = sr1__config_bool(c, "level_prompts"),
        .confidence = sr1__config_str(c, "level_confidence"),
        .temperature = s->temperature};
    s->levels_informative = sr1__config_is(c, "level_expand", "informative");
    SR1__TRY(sr1__context(sr1__sampling_check(&s->levels.sampling), "level_temperature"));
    return read_level_tokens(&s->levels, sr1__config_str(c, "level_max_tokens"));
}

/* Keys that promise something of any estimator, where this one does not look at them.
 * Those that name theirs may stand beside another, which compares them all else equal. */
static sr1_status check_asked(const sr1_advantage_info *estimator, const sr1_config *c)
{
    double gamma = sr1__config_real(c, "gamma");
    const struct {
        const char *key;
        const char *option;
        int asked;
    } keys[] = {
        {"gamma", "gamma", gamma >= 0 && gamma != 1},
        {"gae_lambda", "lam", sr1__config_real(c, "gae_lambda") != 1},
        {"advantage_whiten", "whiten",
         sr1__config_is(c, "advantage_whiten", "on") ||
             sr1__config_is(c, "advantage_whiten", "tokens")},
        {"advantage_std", "divide_by_std",
         !sr1__config_bool(c, "advantage_std") &&
             sr1__settings_lists(estimator->options, "std_kind")}, /* it does divide */
        {"advantage_std_over", "std_over",
         sr1__config_is(c, "advantage_std_over", "batch")},
    };

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (keys[i].asked && !sr1__settings_lists(estimator->options, keys[i].option))
            return sr1__fail(SR1_E_CONFIG,
                             "%s: advantage %s does not look at it; leave it out or take "
                             "an estimator that does",
                             keys[i].key, estimator->name);
    if (sr1__config_is(c, "advantage_std_over", "batch") &&
        !sr1__config_bool(c, "advantage_std"))
        return sr1__fail(SR1_E_CONFIG,
                         "advantage_std_over: batch says whose deviation divides, and "
                         "advantage_std: false that none does; leave one of them out");
    return SR1_OK;
}

/* Of one sample the best is the sample itself, and a group has no more than it has. */
static sr1_status read_pass_k(struct sr1__settings *s, const sr1_config *c)
{
    int64_t k = sr1__config_int(c, "pass_k");

    if (!sr1__settings_lists(s->estimator.options, "pass_k"))
        return SR1_OK;
    if (k == 1 || k > s->group_size)
        return sr1__fail(SR1_E_CONFIG,
                         "pass_k is %lld and group_size %lld; set pass_k from 2 to "
                         "group_size, or to 0 for the whole group (dr_grpo is the "
                         "advantage of one)",
                         (long long)k, (long long)s->group_size);
    s->advantage_options.pass_k = (int32_t)k;
    return SR1_OK;
}

static sr1_status read_estimator(struct sr1__settings *s, const sr1_config *c)
{
    const char *name = sr1__config_str(c, "advantage");
    sr1_advantage_options *o = &s->advantage_options;
    int32_t missing;

    SR1__TRY(find_estimator(&s->estimator, name));
    s->step_on_level = sr1__config_is(c, "step_advantage_tokens", "level");
    if (s->step_on_level && !has_levels(c))
        return sr1__fail(SR1_E_CONFIG,
                         "step_advantage_tokens: level needs the tags of "
                         "levels, which only the protocol rlvcr has%s",
                         name_file(c));
    missing = missing_needs(s, c);
    for (size_t i = 0; missing && sr1_advantage_need(i); i++)
        if (missing >> i & 1)
            return sr1__fail(SR1_E_CONFIG,
                             "advantage %s needs %s, which only the protocol rlvcr "
                             "has%s",
                             name, sr1_advantage_need(i), name_file(c));
    SR1__TRY(check_asked(&s->estimator, c));
    o->struct_size = sizeof(*o);
    SR1__TRY(sr1_advantage_options_init(o, name));
    o->divide_by_std = o->divide_by_std && sr1__config_bool(c, "advantage_std");
    SR1__TRY(read_pass_k(s, c));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        double v = sr1__config_real(c, numbers[i].key);

        if (v >= 0)
            memcpy((char *)o + numbers[i].offset, &v, sizeof(v));
    }
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
        if (sr1__config_is(c, choices[i].key, choices[i].choice))
            memcpy((char *)o + choices[i].offset, &choices[i].value, sizeof(int32_t));
    return SR1_OK;
}

/* ---- KL in the reward, critic ---- */

/* Estimators that compare the components of the reward by themselves: what is subtracted
 * from a token is in none of them. */
static sr1_status check_kl_counts(const struct sr1__settings *s)
{
    if (!s->kl_in_reward || !(s->estimator.needs & SR1_ADVANTAGE_NEEDS_COMPONENTS))
        return SR1_OK;
    return sr1__fail(
        SR1_E_CONFIG,
        "kl_in reward does not go with advantage %s, which compares the "
        "components of the reward and would lose the KL; set kl_in: loss, or "
        "take another estimator",
        s->estimator.name);
}

/* Groups of equal rewards are skipped only where they teach nothing. */
static sr1_status check_skipped_groups(const struct sr1__settings *s, const sr1_config *c)
{
    if (!sr1__config_bool(c, "skip_zero_variance_groups"))
        return SR1_OK;
    if (s->estimator.gives & SR1_ADVANTAGE_GIVES_GROUP_RELATIVE && !s->kl_in_reward)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "skip_zero_variance_groups does not go with advantage %s%s: groups "
                     "whose rewards are all equal teach there too; leave it out",
                     s->estimator.name, s->kl_in_reward ? " and kl_in: reward" : "");
}

/* What the controller would refuse once the first step is done. */
static sr1_status check_horizon(const struct sr1__settings *s)
{
    int64_t most = s->batch_size * s->group_size * (1 + s->dynamic_sampling);
    sr1_kl_controller first = s->kl;

    if (!s->kl_in_reward || sr1_kl_controller_update(&first, 0.0, most) == SR1_OK)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "kl_horizon is %g, and a step may have %lld trajectories, which "
                     "could turn beta negative; raise it",
                     s->kl.horizon, (long long)most);
}

static sr1_status read_kl(struct sr1__settings *s, const sr1_config *c)
{
    s->kl_in_reward = sr1__config_is(c, "kl_in", "reward") && s->beta > 0;
    if (sr1__config_is(c, "kl_controller", "adaptive") && !s->kl_in_reward)
        return sr1__fail(SR1_E_CONFIG,
                         "kl_controller adaptive moves the beta of KL in the reward; set "
                         "kl_in: reward and beta above 0, or leave it out");
    if (s->kl_in_reward && !s->frozen_reference)
        return sr1__fail(SR1_E_CONFIG,
                         "kl_in reward needs kl_reference frozen: at sampling the policy "
                         "and the old one are the same");
    SR1__TRY(check_kl_counts(s));
    if (s->kl_in_reward)
        s->loss_options.beta = 0.0;
    s->kl_kind = sr1__config_str(c, "kl_kind");
    s->kl = (sr1_kl_controller){.struct_size = sizeof(s->kl),
                                .coef = s->beta,
                                .target = sr1__config_real(c, "kl_target"),
                                .horizon = sr1__config_is(c, "kl_controller", "adaptive")
                                               ? sr1__config_real(c, "kl_horizon")
                                               : 0.0};
    return check_horizon(s);
}

static void read_critic(struct sr1__settings *s, const sr1_config *c)
{
    s->critic_update_times = sr1__config_int(c, "critic_update_times");
    if (s->critic_update_times == 0)
        s->critic_update_times = s->update_times;
    s->critic_warmup = sr1__config_int(c, "critic_warmup");
    s->value_options =
        (sr1_value_options){.struct_size = sizeof(s->value_options),
                            .clip_range = sr1__config_real(c, "value_clip")};
}

/* Which columns are asked for, and when. */
static void plan_columns(struct sr1__settings *s)
{
    uint32_t reference = s->frozen_reference ? 1u << SR1_COLUMN_REFERENCE : 0;
    /* Where tokens are corrected for the policy that sampled them, or rejected, the
     * ratio's denominator is the present weights before the update, and so is what a
     * reward's KL is of (verl's old_log_probs). */
    int corrects = s->loss_options.correction || s->rejection.n > 0;
    uint32_t old = corrects ? 1u << SR1_COLUMN_OLD : 0;
    uint32_t entropies = s->top_entropy_quantile < 1.0 ? 1u << SR1_COLUMN_ENTROPY : 0;
    int values = s->estimator.needs & SR1_ADVANTAGE_NEEDS_VALUES;

    s->advantage_columns =
        (s->kl_in_reward ? reference | old : 0) | (values ? 1u << SR1_COLUMN_VALUE : 0);
    if (s->estimator.needs & SR1_ADVANTAGE_NEEDS_SCORE_NORMS)
        s->advantage_columns |=
            1u << SR1_COLUMN_SCORE_NORM | (s->loss_options.correction ? old : 0);
    s->update_columns = (old | entropies | reference) & ~s->advantage_columns;
    s->policy_columns = 1u << SR1_COLUMN_ADVANTAGE | reference | old | entropies;
}

sr1_status sr1__settings_read_advantage(struct sr1__settings *s, const sr1_config *c)
{
    if (sr1__config_imitates(c)) {
        s->policy_columns = 1u << SR1_COLUMN_ADVANTAGE;
        return SR1_OK;
    }
    SR1__TRY(read_estimator(s, c));
    SR1__TRY(read_levels(s, c));
    SR1__TRY(read_kl(s, c));
    SR1__TRY(check_skipped_groups(s, c));
    if (s->train_environment && s->estimator.needs & SR1_ADVANTAGE_NEEDS_VALUES)
        return sr1__fail(SR1_E_CONFIG,
                         "mask_environment: false does not go with advantage %s: the "
                         "critic's values are of sampled tokens; use grpo or another "
                         "without a critic",
                         s->estimator.name);
    if (s->critic_lora.rank > 0 && !(s->estimator.needs & SR1_ADVANTAGE_NEEDS_VALUES))
        return sr1__fail(SR1_E_CONFIG,
                         "critic_lora_rank does not go with advantage %s, which has no "
                         "critic; leave it out, or use gae",
                         s->estimator.name);
    read_critic(s, c);
    plan_columns(s);
    return SR1_OK;
}
