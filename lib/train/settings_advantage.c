/* train/settings_advantage.c - how trajectories are compared: the estimator and its
 * numbers, KL in the reward, the critic. */
#include "train/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- the estimator ---- */

/* Keys that set a field of the estimator's options; -1 leaves its own number. At idle the
 * key asks nothing of an estimator without the option. */
static const struct {
    const char *key;
    const char *option;
    double idle;
    size_t offset;
} numbers[] = {
#define NUMBER(key, field, idle)                                                         \
    {key, #field, idle, offsetof(sr1_advantage_options, field)}
    NUMBER("advantage_eps", eps, -1),
    NUMBER("gamma", gamma, 1),
    NUMBER("gae_lambda", lam, 1),
    NUMBER("turn_advantage_coef", turn_advantage_coef, 1),
    NUMBER("step_advantage_w", step_advantage_w, -1),
    NUMBER("thinking_cost_w", thinking_cost_w, 0),
    NUMBER("thinking_cost_max", thinking_cost_max, 250),
    NUMBER("thinking_diversity_w", thinking_diversity_w, 0),
};

/* Keys whose choices are numbers of a field; others leave its own. */
static const struct {
    const char *key;
    const char *choice;
    const char *option; /* NULL: asks nothing of estimators without it */
    size_t offset;
    int32_t value;
} choices[] = {
#define FIELD(name) offsetof(sr1_advantage_options, name)
    {"advantage_std_kind", "population", "std_kind", FIELD(std_kind),
     SR1_ADVANTAGE_STD_POPULATION},
    {"advantage_std_kind", "unbiased", "std_kind", FIELD(std_kind),
     SR1_ADVANTAGE_STD_UNBIASED},
    {"advantage_whiten", "on", "whiten", FIELD(whiten), 1},
    {"advantage_whiten", "off", NULL, FIELD(whiten), 0},
    {"step_advantage_mode", "mean_norm", "step_mode", FIELD(step_mode),
     SR1_ADVANTAGE_MEAN_NORM},
    {"step_advantage_mode", "mean_std_norm", "step_mode", FIELD(step_mode),
     SR1_ADVANTAGE_MEAN_STD_NORM},
    {"thinking_form", "multiplicative", "multiplicative", FIELD(multiplicative), 1},
};

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

/* What steps of the protocol "rlvcr" have, and of no other. */
#define OF_LEVELS (SR1_ADVANTAGE_NEEDS_TURN_TAGS | SR1_ADVANTAGE_NEEDS_CONFIDENCES)

/* What the estimator needs that the protocol has not. */
static int32_t missing_needs(const struct sr1__settings *s, const sr1_config *c)
{
    return sr1__config_is(c, "protocol", "rlvcr") ? 0 : s->estimator.needs & OF_LEVELS;
}

/* "512", or one number for each of the levels 2 to 4. */
static sr1_status read_level_tokens(struct sr1__level_options *o, const char *list)
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
    s->levels = (struct sr1__level_options){
        .sampling = {.temperature = sr1__config_real(c, "level_temperature"),
                     .top_p = sr1__config_real(c, "level_top_p")},
        .thought = sr1__config_str(c, "level_thought"),
        .prompts = sr1__config_bool(c, "level_prompts"),
        .confidence = sr1__config_str(c, "level_confidence"),
        .temperature = s->temperature};
    s->levels_informative = sr1__config_is(c, "level_expand", "informative");
    return read_level_tokens(&s->levels, sr1__config_str(c, "level_max_tokens"));
}

/* What an estimator does not look at would be asked for in vain. */
static sr1_status check_read(const struct sr1__settings *s, const char *key,
                             const char *option)
{
    if (!option || sr1__settings_lists(s->estimator.options, option))
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "%s: advantage %s does not look at it; leave it out or take an "
                     "estimator that does",
                     key, s->estimator.name);
}

/* Where there is no deviation to divide by, none is missing. */
static sr1_status read_division(struct sr1__settings *s, const sr1_config *c)
{
    if (sr1__config_bool(c, "advantage_std"))
        return SR1_OK;
    if (sr1__settings_lists(s->estimator.options, "std_kind"))
        SR1__TRY(check_read(s, "advantage_std", "divide_by_std"));
    s->advantage_options.divide_by_std = 0;
    return SR1_OK;
}

static sr1_status read_options(struct sr1__settings *s, const sr1_config *c)
{
    char *o = (char *)&s->advantage_options;

    SR1__TRY(read_division(s, c));
    s->advantage_options.pass_k = (int32_t)sr1__config_int(c, "pass_k");
    SR1__TRY(check_read(s, "pass_k", s->advantage_options.pass_k ? "pass_k" : NULL));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        double v = sr1__config_real(c, numbers[i].key);

        if (v < 0)
            continue;
        if (v != numbers[i].idle)
            SR1__TRY(check_read(s, numbers[i].key, numbers[i].option));
        memcpy(o + numbers[i].offset, &v, sizeof(v));
    }
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        if (!sr1__config_is(c, choices[i].key, choices[i].choice))
            continue;
        SR1__TRY(check_read(s, choices[i].key, choices[i].option));
        memcpy(o + choices[i].offset, &choices[i].value, sizeof(int32_t));
    }
    return SR1_OK;
}

static sr1_status read_estimator(struct sr1__settings *s, const sr1_config *c)
{
    const char *name = sr1__config_str(c, "advantage");
    sr1_advantage_options *o = &s->advantage_options;
    int32_t missing;

    SR1__TRY(find_estimator(&s->estimator, name));
    s->step_on_level = sr1__config_is(c, "step_advantage_tokens", "level");
    if (s->step_on_level && !sr1__config_is(c, "protocol", "rlvcr"))
        return sr1__fail(SR1_E_CONFIG, "step_advantage_tokens: level needs the tags of "
                                       "levels, which only the protocol rlvcr has");
    missing = missing_needs(s, c);
    for (size_t i = 0; missing && sr1_advantage_need(i); i++)
        if (missing >> i & 1)
            return sr1__fail(SR1_E_CONFIG,
                             "advantage %s needs %s, which only the protocol rlvcr has",
                             name, sr1_advantage_need(i));
    o->struct_size = sizeof(*o);
    SR1__TRY(sr1_advantage_options_default(name, o));
    return read_options(s, c);
}

/* ---- KL in the reward, critic ---- */

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
    if (s->kl_in_reward)
        s->loss_options.beta = 0.0;
    s->kl_kind = sr1__config_str(c, "kl_kind");
    s->kl = (sr1_kl_controller){
        .struct_size = sizeof(s->kl),
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
    /* Where tokens are corrected for the policy that sampled them, the ratio's
     * denominator is the present weights before the update. */
    uint32_t old = s->loss_options.correction ? 1u << SR1_COLUMN_OLD : 0;
    int values = s->estimator.needs & SR1_ADVANTAGE_NEEDS_VALUES;

    s->compare_columns = (s->kl_in_reward ? reference : 0) |
                         (values ? 1u << SR1_COLUMN_VALUE : 0);
    s->update_columns = old | (reference & ~s->compare_columns);
    s->policy_columns = 1u << SR1_COLUMN_ADVANTAGE | reference | old;
}

sr1_status sr1__settings_read_advantage(struct sr1__settings *s, const sr1_config *c)
{
    if (sr1__config_is(c, "stage", "sft")) {
        s->policy_columns = 1u << SR1_COLUMN_ADVANTAGE;
        return SR1_OK;
    }
    SR1__TRY(read_estimator(s, c));
    SR1__TRY(read_levels(s, c));
    SR1__TRY(read_kl(s, c));
    if (s->train_environment && s->estimator.needs & SR1_ADVANTAGE_NEEDS_VALUES)
        return sr1__fail(SR1_E_CONFIG,
                         "mask_environment: false does not go with advantage %s: the "
                         "critic's values are of sampled tokens; use grpo or another "
                         "without a critic",
                         s->estimator.name);
    read_critic(s, c);
    plan_columns(s);
    return SR1_OK;
}
