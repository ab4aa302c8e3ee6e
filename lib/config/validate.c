/* config/validate.c - rules between keys: a table of small functions, one for each rule.
 */
#include "config/config.h"

#include "base/error.h"
#include "base/num.h"
#include "base/text.h"
#include "config/choices.h"
#include "config/keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int is_key_given(const sr1_config *c, const char *key)
{
    return sr1__config_str(c, key)[0] != '\0';
}

/* Where the value of a key comes from, if compat gave it: " (compat: trl)". */
static const char *name_preset(const sr1_config *c, const char *key, char text[32])
{
    text[0] = '\0';
    if (!sr1__config_is_set(c, key) && sr1__config_by_compat(c, key))
        snprintf(text, 32, " (compat: %.16s)", sr1__config_str(c, "compat"));
    return text;
}

static sr1_status check_turn_budget(const sr1_config *c)
{
    int64_t turn = sr1__config_int(c, "max_tokens_per_turn");
    int64_t all = sr1__config_int(c, "max_tokens");
    char turn_preset[32], all_preset[32];

    if (turn > all)
        return sr1__fail(SR1_E_CONFIG,
                         "max_tokens_per_turn is %" PRId64
                         "%s, above max_tokens, which is %" PRId64
                         "%s; lower it or set it to 0",
                         turn, name_preset(c, "max_tokens_per_turn", turn_preset), all,
                         name_preset(c, "max_tokens", all_preset));
    return SR1_OK;
}

static sr1_status check_lr_schedule(const sr1_config *c)
{
    if (!sr1__config_is(c, "lr_schedule", "constant"))
        return SR1_OK;
    if (sr1__config_real(c, "lr_decay_start") > 0.0 ||
        sr1__config_real(c, "lr_final_ratio") > 0.0)
        return sr1__fail(SR1_E_CONFIG,
                         "lr_decay_start and lr_final_ratio mean nothing to "
                         "lr_schedule constant; choose linear or cosine");
    return SR1_OK;
}

static sr1_status check_clip_epsilon(const sr1_config *c)
{
    double high = sr1__config_real(c, "clip_epsilon_high");
    double low = sr1__config_real(c, "clip_epsilon");
    char high_preset[32], low_preset[32];

    if (high != 0.0 && high < low)
        return sr1__fail(SR1_E_CONFIG,
                         "clip_epsilon_high is %g%s, below clip_epsilon, which is %g%s; "
                         "raise it or set it to 0",
                         high, name_preset(c, "clip_epsilon_high", high_preset), low,
                         name_preset(c, "clip_epsilon", low_preset));
    return SR1_OK;
}

/* What moves needs weights of its own that can be added up. */
static sr1_status check_moving_reference(const sr1_config *c)
{
    if (sr1__config_int(c, "reference_sync_steps") == 0)
        return SR1_OK;
    if (sr1__config_real(c, "beta") == 0.0)
        return sr1__fail(SR1_E_CONFIG,
                         "reference_sync_steps: with beta 0 there is no reference; set "
                         "beta, or reference_sync_steps to 0");
    if (!sr1__config_is(c, "kl_reference", "frozen"))
        return sr1__fail(
            SR1_E_CONFIG,
            "reference_sync_steps moves a frozen reference; set kl_reference "
            "to frozen, or reference_sync_steps to 0");
    if (!sr1__config_is(c, "reference_quantization", "none"))
        return sr1__fail(SR1_E_CONFIG,
                         "reference_sync_steps: an int8 reference cannot move; set "
                         "reference_quantization to none, or reference_sync_steps to 0");
    if (sr1__config_int(c, "lora_rank") > 0)
        return sr1__fail(
            SR1_E_CONFIG,
            "reference_sync_steps: with lora_rank the reference is the model "
            "without its adapter, which does not move; set "
            "reference_sync_steps to 0");
    return SR1_OK;
}

static sr1_status check_reference(const sr1_config *c)
{
    SR1__TRY(check_moving_reference(c));
    if (sr1__config_is(c, "reference_quantization", "none"))
        return SR1_OK;
    if (!sr1__config_is(c, "kl_reference", "frozen"))
        return sr1__fail(SR1_E_CONFIG,
                         "reference_quantization is of a frozen reference; set "
                         "kl_reference to frozen, or reference_quantization to none");
    if (sr1__config_int(c, "lora_rank") > 0)
        return sr1__fail(SR1_E_CONFIG,
                         "reference_quantization: with lora_rank the reference is the "
                         "model without its adapter and takes no memory of its own; set "
                         "reference_quantization to none");
    return SR1_OK;
}

static sr1_status check_own_generation(const sr1_config *c)
{
    if (!sr1__config_bool(c, "use_openai"))
        return SR1_OK;
    if (!sr1__config_is(c, "quantization", "none"))
        return sr1__fail(SR1_E_CONFIG,
                         "quantization is of the weights that this process generates "
                         "with, and a server (use_openai) has its own; set it there, and "
                         "quantization to none");
    if (!sr1__config_is(c, "kv_cache_dtype", "auto"))
        return sr1__fail(SR1_E_CONFIG,
                         "kv_cache_dtype is of the cache that this process generates "
                         "with, and a server (use_openai) has its own; set it there, and "
                         "kv_cache_dtype to auto");
    return SR1_OK;
}

/* Bounds of the ratio lie above 1. */
static sr1_status check_ratio_bounds(const sr1_config *c)
{
    static const char *const keys[] = {"dual_clip", "ratio_cap"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        double v = sr1__config_real(c, keys[i]);

        if (v > 0.0 && v <= 1.0)
            return sr1__fail(SR1_E_CONFIG, "%s is %g; set it above 1, or to 0 for none",
                             keys[i], v);
    }
    return SR1_OK;
}

static sr1_status check_importance_correction(const sr1_config *c)
{
    double low = sr1__config_real(c, "importance_low");
    double high = sr1__config_real(c, "importance_high");

    if (sr1__config_is(c, "importance_correction", "none"))
        return SR1_OK;
    if (low > high)
        return sr1__fail(SR1_E_CONFIG,
                         "importance_low is %g, above importance_high, which is %g; "
                         "lower it",
                         low, high);
    return SR1_OK;
}

/* The adaptive controller begins at entropy_coef. */
static sr1_status check_entropy_bounds(const sr1_config *c)
{
    double least = sr1__config_real(c, "entropy_coef_min");
    double most = sr1__config_real(c, "entropy_coef_max");
    double first = sr1__config_real(c, "entropy_coef");

    if (!sr1__config_is(c, "entropy_controller", "adaptive"))
        return SR1_OK;
    if (least > most)
        return sr1__fail(SR1_E_CONFIG,
                         "entropy_coef_min is %g, above entropy_coef_max, which is %g; "
                         "lower it",
                         least, most);
    if (first < least || first > most)
        return sr1__fail(SR1_E_CONFIG,
                         "entropy_coef is %g, and entropy_controller adaptive keeps it "
                         "within entropy_coef_min and entropy_coef_max, which are %g and "
                         "%g; move one of them",
                         first, least, most);
    return SR1_OK;
}

static sr1_status check_data_splits(const sr1_config *c)
{
    double validation = sr1__config_real(c, "validation_split");
    double test = sr1__config_real(c, "test_split");

    if (validation + test >= 1.0)
        return sr1__fail(SR1_E_CONFIG,
                         "validation_split and test_split leave nothing to train "
                         "on; their sum must be below 1");
    if (validation > 0.0 && is_key_given(c, "validation_file"))
        return sr1__fail(SR1_E_CONFIG,
                         "both validation_file and validation_split are set; "
                         "choose one");
    if (test > 0.0 && is_key_given(c, "test_file"))
        return sr1__fail(SR1_E_CONFIG,
                         "both test_file and test_split are set; choose one");
    return SR1_OK;
}

static sr1_status check_validation_data(const sr1_config *c)
{
    int wanted = sr1__config_int(c, "validate_interval") > 0 ||
                 sr1__config_bool(c, "validate_at_start");

    if (wanted && !sr1__config_imitates(c) && !is_key_given(c, "validation_file") &&
        sr1__config_real(c, "validation_split") <= 0.0)
        return sr1__fail(SR1_E_CONFIG, "validation is asked for without questions; set "
                                       "validation_file or validation_split");
    return SR1_OK;
}

/* What is best is found in validations, by one figure of theirs. */
static sr1_status check_best(const sr1_config *c)
{
    int by_metric = is_key_given(c, "metric_for_best_model");
    const char *needs =
        sr1__config_int(c, "early_stopping_patience") > 0 ? "early_stopping_patience"
        : sr1__config_bool(c, "load_best_model_at_end")   ? "load_best_model_at_end"
                                                          : NULL;

    if (needs && !by_metric)
        return sr1__fail(SR1_E_CONFIG,
                         "%s goes by a figure of validations; set metric_for_best_model "
                         "(val/exact_match), or leave %s out",
                         needs, needs);
    if (by_metric && sr1__config_int(c, "validate_interval") == 0)
        return sr1__fail(SR1_E_CONFIG,
                         "metric_for_best_model compares validations, and "
                         "validate_interval is 0: there are none; set it to the steps "
                         "between them");
    return SR1_OK;
}

static sr1_status check_validation_sampling(const sr1_config *c)
{
    int64_t n = sr1__config_int(c, "validation_group_size");

    if (n == 1 || sr1__config_real(c, "validation_temperature") > 0)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "validation_group_size is %" PRId64
                     " and validation_temperature 0: all answers to a question would be "
                     "the same; set validation_temperature (1.0), or "
                     "validation_group_size to 1",
                     n);
}

/* An engine over an index needs the index. */
static sr1_status check_search_index(const sr1_config *c)
{
    static const struct {
        const char *engine, *key, *command;
    } rows[] = {{"bm25", "search_index", "sr1-search index"},
                {"dense", "search_dense_index", "sr1-search index --dense MODEL"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (sr1__config_is(c, "search_engine", rows[i].engine) &&
            !is_key_given(c, rows[i].key))
            return sr1__fail(SR1_E_CONFIG, "search_engine %s needs %s; make one with %s",
                             rows[i].engine, rows[i].key, rows[i].command);
    return SR1_OK;
}

static sr1_status check_search_engine(const sr1_config *c)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(c);

    if (e && e->needs_engine && sr1__config_is(c, "search_engine", "none"))
        return sr1__fail(SR1_E_CONFIG,
                         "environment %s needs a search_engine other than none (%s); "
                         "leave the key out where the program gives an engine, or set "
                         "environment to none",
                         e->name, sr1__config_keys[CONFIG_KEY_search_engine].choices);
    return SR1_OK;
}

/* Some protocols are of one environment, and the other way round. */
static sr1_status check_protocol(const sr1_config *c)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(c);
    const struct sr1__protocol_choice *p = sr1__protocol_choice(c);

    if (e && e->protocol && !sr1__config_is(c, "protocol", e->protocol))
        return sr1__fail(SR1_E_CONFIG, "environment %s needs protocol %s", e->name,
                         e->protocol);
    if (e && e->acts && p && p->refusal &&
        (!p->environment || !sr1__config_is(c, "environment", p->environment)))
        return sr1__fail(SR1_E_CONFIG, "%s", p->refusal);
    return SR1_OK;
}

static sr1_status check_tools(const sr1_config *c)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(c);

    if (!e || e->takes_tools || !*sr1__config_str(c, "tools"))
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "tools is set, but the environment is %s; set environment: tools "
                     "and a protocol of tool calls, such as hermes, or leave tools empty",
                     e->name);
}

static sr1_status check_chat_template(const sr1_config *c)
{
    if (!*sr1__config_str(c, "chat_template_name") ||
        sr1__config_is(c, "chat_template", "auto"))
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "chat_template_name chooses among the templates of the tokenizer's "
                     "folder, and chat_template: %s takes none of them; leave one of the "
                     "two out",
                     sr1__config_str(c, "chat_template"));
}

static sr1_status check_stage_files(const sr1_config *c)
{
    if (sr1__config_imitates(c) && !is_key_given(c, "sft_file"))
        return sr1__fail(SR1_E_CONFIG, "stage sft needs sft_file, the demonstrations");
    return SR1_OK;
}

/* Items of a comma list, stripped as rewards strip them; an empty text has none. *bad is
 * set for an empty item and, when numbers are wanted, for one that is none. */
static size_t count_items(const char *list, int numbers, int *bad)
{
    size_t count = 0;
    double v;

    *bad = 0;
    while (*list) {
        size_t length = strcspn(list, ","), begin = 0, n = length;

        sr1__strip(list, &begin, &n);
        count++;
        *bad |= n == 0 || (numbers && !sr1__parse_real(list + begin, n, &v));
        list += length;
        if (*list == ',') {
            list++;
            *bad |= *list == '\0';
        }
    }
    return count;
}

static sr1_status data_files(const sr1_config *c)
{
    static const char *const keys[] = {"train_file", "validation_file", "test_file"};
    int bad;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        (void)count_items(sr1__config_str(c, keys[i]), 0, &bad);
        if (bad)
            return sr1__fail(SR1_E_CONFIG,
                             "%s names no file beside one of its commas; several files "
                             "are separated by single commas, or given as a list",
                             keys[i]);
    }
    return SR1_OK;
}

static sr1_status check_reward_weights(const sr1_config *c)
{
    int bad_names, bad_weights;
    int none = sr1__config_is(c, "rewards", "none");
    size_t names = count_items(sr1__config_str(c, "rewards"), 0, &bad_names);
    size_t weights = count_items(sr1__config_str(c, "reward_weights"), 1, &bad_weights);

    if (names == 0 || bad_names)
        return sr1__fail(SR1_E_CONFIG,
                         "rewards must name at least one reward, and none may be "
                         "empty between commas; rewards=none leaves it to those given "
                         "from C or Python");
    if (none && weights != 0)
        return sr1__fail(SR1_E_CONFIG,
                         "reward_weights has %zu number%s, but rewards is none", weights,
                         weights == 1 ? "" : "s");
    if (bad_weights)
        return sr1__fail(SR1_E_CONFIG,
                         "reward_weights must be numbers separated by commas");
    if (weights != 0 && weights != names)
        return sr1__fail(SR1_E_CONFIG,
                         "reward_weights has %zu number%s for %zu reward%s; give "
                         "one each, or none%s",
                         weights, weights == 1 ? "" : "s", names, names == 1 ? "" : "s",
                         *sr1__config_str(c, "reward_programs")
                             ? "; a program is weighed where rewards names it"
                             : "");
    return SR1_OK;
}

static sr1_status check_fsdp_size(const sr1_config *c)
{
    if (sr1__config_int(c, "fsdp_size") == 0)
        return sr1__fail(SR1_E_CONFIG,
                         "fsdp_size is 0; -1 shards over all processes, 1 over none");
    if (sr1__config_bool(c, "reshard_after_forward") &&
        sr1__config_bool(c, "use_no_sync_for_gradient_accumulation"))
        return sr1__fail(SR1_E_CONFIG,
                         "reshard_after_forward exchanges gradients layer by layer; "
                         "set use_no_sync_for_gradient_accumulation: false");
    return SR1_OK;
}

/* Weights that an update changes cannot generate meanwhile; a server has its own. */
static sr1_status check_async_level(const sr1_config *c)
{
    if (sr1__config_bool(c, "partial_rollout") && sr1__config_int(c, "async_level") < 2)
        return sr1__fail(SR1_E_CONFIG,
                         "partial_rollout: with async_level %d no rollout is under way "
                         "when weights are sent; set async_level to 2 or more, or "
                         "partial_rollout to false",
                         (int)sr1__config_int(c, "async_level"));
    if (sr1__config_int(c, "async_level") == 0)
        return SR1_OK;
    if (sr1__config_imitates(c))
        return sr1__fail(SR1_E_CONFIG, "async_level: stage sft has no rollouts; leave "
                                       "async_level out");
    if (!sr1__config_bool(c, "use_openai"))
        return sr1__fail(SR1_E_CONFIG,
                         "async_level: rollouts that go on during the update need "
                         "weights of their own, those of a server; set use_openai and "
                         "openai_base_url, or async_level to 0");
    return SR1_OK;
}

/* Where out is empty it is the name of a folder in runs/. */
static sr1_status check_name(const sr1_config *c)
{
    const char *name = sr1__config_str(c, "name");

    if (*sr1__config_str(c, "out"))
        return SR1_OK;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return sr1__fail(
            SR1_E_CONFIG,
            "name %s, and the run would lie in %s itself; give it a name, or "
            "set out",
            *name ? name[1] ? "is '..'" : "is '.'" : "is empty",
            *name && name[1] ? "the working folder" : "runs");
    for (const char *at = name; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return sr1__fail(SR1_E_CONFIG, "name has a control character, and is to be "
                                           "the name of a folder; leave it out");
    return SR1_OK;
}

typedef sr1_status (*config_rule)(const sr1_config *);

static const config_rule rules[] = {check_turn_budget,    check_lr_schedule,
                                    check_clip_epsilon,   check_reference,
                                    check_ratio_bounds,   check_importance_correction,
                                    check_entropy_bounds, check_data_splits,
                                    check_best,           check_validation_sampling,
                                    check_tools,          check_search_engine,
                                    check_protocol,       data_files,
                                    check_reward_weights, check_fsdp_size,
                                    check_async_level,    check_chat_template,
                                    check_own_generation, check_name};

/* Files that a run cannot do without. */
static const config_rule file_rules[] = {check_validation_data, check_search_index,
                                         check_stage_files};

static sr1_status apply_rules(const sr1_config *c, const config_rule *of, size_t n)
{
    for (size_t i = 0; i < n; i++)
        SR1__TRY(of[i](c));
    return SR1_OK;
}

sr1_status sr1__config_validate_shape(const sr1_config *config)
{
    return apply_rules(config, rules, sizeof rules / sizeof *rules);
}

sr1_status sr1_config_validate(const sr1_config *config)
{
    SR1__REQUIRE(config, "configuration: config");
    SR1__TRY(sr1__config_validate_shape(config));
    return apply_rules(config, file_rules, sizeof file_rules / sizeof *file_rules);
}
