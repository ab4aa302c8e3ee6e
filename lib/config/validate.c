/* config/validate.c - rules between keys: one small function a rule, one table of them.
 */
#include "config/config.h"

#include "base/error.h"
#include "base/num.h"

#include <string.h>

static int given(const sr1_config *c, const char *key)
{
    return sr1__config_str(c, key)[0] != '\0';
}

static sr1_status turn_budget(const sr1_config *c)
{
    if (sr1__config_int(c, "max_tokens_per_turn") > sr1__config_int(c, "max_tokens"))
        return sr1__fail(SR1_E_CONFIG,
                         "max_tokens_per_turn is above max_tokens; lower it or "
                         "set it to 0");
    return SR1_OK;
}

static sr1_status warmup(const sr1_config *c)
{
    int64_t steps = sr1__config_int(c, "max_steps");

    if (steps > 0 && sr1__config_int(c, "warmup_steps") > steps)
        return sr1__fail(SR1_E_CONFIG, "warmup_steps is above max_steps; lower it");
    return SR1_OK;
}

static sr1_status schedule(const sr1_config *c)
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

static sr1_status clipping(const sr1_config *c)
{
    double high = sr1__config_real(c, "clip_epsilon_high");

    if (high != 0.0 && high < sr1__config_real(c, "clip_epsilon"))
        return sr1__fail(SR1_E_CONFIG,
                         "clip_epsilon_high is below clip_epsilon; raise it or "
                         "set it to 0");
    return SR1_OK;
}

/* Bounds of the ratio lie above 1. */
static sr1_status ratio_bounds(const sr1_config *c)
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

static sr1_status correction(const sr1_config *c)
{
    if (sr1__config_is(c, "importance_correction", "none"))
        return SR1_OK;
    if (sr1__config_is(c, "loss", "vespo"))
        return sr1__fail(SR1_E_CONFIG,
                         "loss vespo weighs trajectories by their importance itself; set "
                         "importance_correction to none");
    if (sr1__config_real(c, "importance_low") > sr1__config_real(c, "importance_high"))
        return sr1__fail(SR1_E_CONFIG,
                         "importance_low is above importance_high; lower it");
    return SR1_OK;
}

static sr1_status splits(const sr1_config *c)
{
    double validation = sr1__config_real(c, "validation_split");
    double test = sr1__config_real(c, "test_split");

    if (validation + test >= 1.0)
        return sr1__fail(SR1_E_CONFIG,
                         "validation_split and test_split leave nothing to train "
                         "on; their sum must be below 1");
    if (validation > 0.0 && given(c, "validation_file"))
        return sr1__fail(SR1_E_CONFIG,
                         "both validation_file and validation_split are set; "
                         "choose one");
    if (test > 0.0 && given(c, "test_file"))
        return sr1__fail(SR1_E_CONFIG,
                         "both test_file and test_split are set; choose one");
    return SR1_OK;
}

static sr1_status validation(const sr1_config *c)
{
    int wanted = sr1__config_int(c, "validate_interval") > 0 ||
                 sr1__config_bool(c, "validate_at_start");

    if (wanted && sr1__config_is(c, "stage", "rl") && !given(c, "validation_file") &&
        sr1__config_real(c, "validation_split") <= 0.0)
        return sr1__fail(SR1_E_CONFIG, "validation is asked for without questions; set "
                                       "validation_file or validation_split");
    return SR1_OK;
}

static sr1_status engine(const sr1_config *c)
{
    if (sr1__config_is(c, "environment", "search") &&
        sr1__config_is(c, "search_engine", "none"))
        return sr1__fail(SR1_E_CONFIG,
                         "environment search needs a search_engine; choose mock "
                         "or bm25, or set environment to none");
    if (sr1__config_is(c, "search_engine", "bm25") && !given(c, "search_index"))
        return sr1__fail(SR1_E_CONFIG,
                         "search_engine bm25 needs search_index; make one with "
                         "sr1-search index");
    if (sr1__config_is(c, "search_engine", "dense") && !given(c, "search_dense_index"))
        return sr1__fail(SR1_E_CONFIG,
                         "search_engine dense needs search_dense_index; make one with "
                         "sr1-search index --dense MODEL");
    return SR1_OK;
}

/* Critiques are whole messages, and nothing else is. */
static sr1_status critiques(const sr1_config *c)
{
    int critic = sr1__config_is(c, "environment", "critique");
    int whole = sr1__config_is(c, "protocol", "ctrl");

    if (critic && !whole)
        return sr1__fail(SR1_E_CONFIG, "environment critique needs protocol ctrl");
    if (whole && !critic && !sr1__config_is(c, "environment", "none"))
        return sr1__fail(SR1_E_CONFIG,
                         "protocol ctrl goes with environment critique (or none)");
    return SR1_OK;
}

static sr1_status stage_files(const sr1_config *c)
{
    if (sr1__config_is(c, "stage", "sft") && !given(c, "sft_file"))
        return sr1__fail(SR1_E_CONFIG, "stage sft needs sft_file, the demonstrations");
    return SR1_OK;
}

/* Items of a comma list; an empty text has none. *bad is set for an empty item and, when
 * numbers are wanted, for one that is none. */
static size_t count_items(const char *list, int numbers, int *bad)
{
    size_t count = 0;
    double v;

    *bad = 0;
    while (*list) {
        size_t n = strcspn(list, ",");

        count++;
        *bad |= n == 0 || (numbers && !sr1__parse_real(list, n, &v));
        list += n;
        if (*list == ',') {
            list++;
            *bad |= *list == '\0';
        }
    }
    return count;
}

static sr1_status rewards(const sr1_config *c)
{
    int bad_names, bad_weights;
    size_t names = count_items(sr1__config_str(c, "rewards"), 0, &bad_names);
    size_t weights = count_items(sr1__config_str(c, "reward_weights"), 1, &bad_weights);

    if (names == 0 || bad_names)
        return sr1__fail(SR1_E_CONFIG,
                         "rewards must name at least one reward, and none may be "
                         "empty between commas");
    if (bad_weights)
        return sr1__fail(SR1_E_CONFIG,
                         "reward_weights must be numbers separated by commas");
    if (weights != 0 && weights != names)
        return sr1__fail(SR1_E_CONFIG,
                         "reward_weights has %zu numbers for %zu rewards; give "
                         "one each, or none",
                         weights, names);
    return SR1_OK;
}

sr1_status sr1_config_validate(const sr1_config *config)
{
    static sr1_status (*const rules[])(const sr1_config *) = {
        turn_budget, warmup,     schedule, clipping,    ratio_bounds, correction,
        splits,      validation, engine,   critiques, stage_files, rewards};

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        SR1__TRY(rules[i](config));
    return SR1_OK;
}
