/* What does not fit together, or is no number, is refused by name and place, and changes
 * nothing; the table describes itself. */
#include "estimate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Two trajectories with everything: 2 and 1 tokens, 1 and 2 turns. */
static double rewards[2], turn_rewards[3], token_rewards[3], bootstrap[2], baselines[2],
    components[4], component_weights[2], confidences[12], costs[12];
static uint64_t groups[2], states[3];
static int64_t token_begin[3], turn_begin[3];
static int32_t token_turns[3], tags[3], result_turn[2], places[3];
static float values[3], norms[3];
static sr1_advantage_batch b;

static int make(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++)
        confidences[i] = costs[i] = 1;
    rewards[0] = 1;
    token_begin[1] = 2;
    token_begin[2] = 3;
    turn_begin[1] = 1;
    turn_begin[2] = 3;
    token_turns[2] = 1;
    places[1] = 1;
    norms[0] = norms[1] = norms[2] = 1;
    b = (sr1_advantage_batch){.struct_size = sizeof b,
                              .n = 2,
                              .rewards = rewards,
                              .groups = groups,
                              .token_begin = token_begin,
                              .token_turns = token_turns,
                              .turn_begin = turn_begin,
                              .turn_rewards = turn_rewards,
                              .token_rewards = token_rewards,
                              .values = values,
                              .bootstrap = bootstrap,
                              .n_components = 2,
                              .components = components,
                              .component_weights = component_weights,
                              .turn_states = states,
                              .turn_tags = tags,
                              .confidences = confidences,
                              .thinking_costs = costs,
                              .result_turn = result_turn,
                              .baselines = baselines,
                              .score_norms = norms,
                              .token_places = places};
    return 0;
}

static void refused_as(const char *name, const sr1_advantage_batch *batch,
                       const sr1_advantage_options *o, sr1_status status,
                       const char *words)
{
    double each[2] = {9, 9};
    float tokens[3] = {9, 9, 9};

    assert_int_equal(estimate(name, batch, o, each, tokens), status);
    if (strstr(sr1_last_error(), words) == NULL)
        fail_msg("'%s' is not in '%s'", words, sr1_last_error());
    assert_true(each[0] == 9 && each[1] == 9 && tokens[0] == 9 && tokens[2] == 9);
}

static void refused(const char *words, sr1_status status)
{
    refused_as("grpo", &b, NULL, status, words);
}

static void everything_is_accepted_by_all(void **state)
{
    double each[2];
    float tokens[3];

    (void)state;
    for (size_t i = 0; sr1_advantage_name(i) != NULL; i++)
        if (estimate(sr1_advantage_name(i), &b, NULL, each, tokens) != SR1_OK)
            fail_msg("%s: %s", sr1_advantage_name(i), sr1_last_error());
}

#define BAD(array, at, value, status, words)                                             \
    do {                                                                                 \
        __typeof__(array[0]) kept = array[at];                                           \
        array[at] = (value);                                                             \
        refused(words, status);                                                          \
        array[at] = kept;                                                                \
    } while (0)

static void numbers_that_are_none_are_named(void **state)
{
    (void)state;
    BAD(rewards, 1, NAN, SR1_E_NUMERIC, "reward of trajectory 1 ");
    BAD(turn_rewards, 2, INFINITY, SR1_E_NUMERIC, "reward of turn 2 ");
    BAD(token_rewards, 1, NAN, SR1_E_NUMERIC, "reward of token 1 ");
    BAD(values, 0, NAN, SR1_E_NUMERIC, "value of token 0 ");
    BAD(bootstrap, 1, -INFINITY, SR1_E_NUMERIC, "bootstrap value of trajectory 1 ");
    BAD(baselines, 0, NAN, SR1_E_NUMERIC, "baseline of trajectory 0 ");
    BAD(components, 3, NAN, SR1_E_NUMERIC, "component 1 (no name) of trajectory 1 ");
    BAD(component_weights, 1, NAN, SR1_E_NUMERIC, "weight of component 1 ");
    BAD(confidences, 6, INFINITY, SR1_E_NUMERIC, "confidence of turn 1, level 2 ");
    BAD(costs, 11, -INFINITY, SR1_E_NUMERIC, "thinking cost of turn 2, level 3 ");
    BAD(norms, 2, NAN, SR1_E_NUMERIC, "score norm of token 2 ");
    BAD(norms, 0, -1, SR1_E_NUMERIC, "score norm of token 0 ");
}

static void components_are_named(void **state)
{
    static const char *const names[2] = {"format", "exact_match"};

    (void)state;
    b.component_names = names;
    BAD(components, 1, NAN, SR1_E_NUMERIC, "component 1 (exact_match) of trajectory 0 ");
}

static void maps_that_contradict_themselves_are_named(void **state)
{
    (void)state;
    BAD(token_begin, 0, 1, SR1_E_INVALID, "token_begin must start at 0");
    BAD(token_begin, 1, 4, SR1_E_INVALID, "token_begin falls after trajectory 1");
    BAD(turn_begin, 2, 0, SR1_E_INVALID, "turn_begin falls after trajectory 1");
    BAD(token_turns, 0, -1, SR1_E_INVALID, "token_turns falls to -1 at token 0");
    BAD(token_turns, 1, 1, SR1_E_INVALID, "token 1 is of turn 1, but trajectory 0 has 1");
    BAD(result_turn, 1, 2, SR1_E_INVALID, "result_turn of trajectory 1 is 2");
    BAD(result_turn, 0, -2, SR1_E_INVALID, "result_turn of trajectory 0 is -2");
    BAD(places, 0, -1, SR1_E_INVALID, "token_places do not rise from 0: -1 at token 0");
    BAD(places, 1, 0, SR1_E_INVALID, "token_places do not rise from 0: 0 at token 1");
    b.token_turns = NULL;
    refused("token_turns is NULL, but trajectory 1 has 2 turns", SR1_E_INVALID);
}

static void turns_that_fall_are_named(void **state)
{
    (void)state;
    turn_begin[1] = 2;
    turn_begin[2] = 4;
    token_turns[0] = 1;
    b.turn_rewards = NULL;
    b.turn_states = NULL;
    b.turn_tags = NULL;
    b.confidences = b.thinking_costs = NULL;
    refused("token_turns falls to 0 at token 1", SR1_E_INVALID);
    memset(token_turns, 0, sizeof token_turns);
}

/* Take away each field that a row needs. */
static void what_is_missing_is_named(void **state)
{
    static const size_t at[] = {
        offsetof(sr1_advantage_batch, token_begin),
        offsetof(sr1_advantage_batch, turn_begin),
        offsetof(sr1_advantage_batch, turn_rewards),
        offsetof(sr1_advantage_batch, values),
        offsetof(sr1_advantage_batch, components),
        offsetof(sr1_advantage_batch, turn_states),
        offsetof(sr1_advantage_batch, turn_tags),
        offsetof(sr1_advantage_batch, confidences),
        offsetof(sr1_advantage_batch, result_turn),
        offsetof(sr1_advantage_batch, baselines),
        offsetof(sr1_advantage_batch, score_norms),
    };
    size_t tried = 0;

    (void)state;
    for (size_t i = 0; sr1_advantage_name(i) != NULL; i++) {
        sr1_advantage_info info = {.struct_size = sizeof info};

        assert_int_equal(sr1_advantage_describe(i, &info), SR1_OK);
        for (size_t k = 0; sr1_advantage_need(k) != NULL; k++) {
            sr1_advantage_batch less = b;

            if (!(info.needs >> k & 1))
                continue;
            memset((char *)&less + at[k], 0, sizeof(void *));
            refused_as(info.name, &less, NULL, SR1_E_INVALID, sr1_advantage_need(k));
            if (k > 1) /* the maps are asked for by the arrays themselves */
                assert_non_null(strstr(sr1_last_error(), info.name));
            tried++;
        }
    }
    assert_true(tried > 20);
}

static void options_out_of_bounds_are_refused(void **state)
{
    sr1_advantage_options o = {.struct_size = sizeof o};

    (void)state;
#define WRONG(field, value, words)                                                       \
    assert_int_equal(sr1_advantage_options_init(&o, "rlvcr"), SR1_OK);                   \
    o.field = (value);                                                                   \
    refused_as("rlvcr", &b, &o, SR1_E_INVALID, words)
    WRONG(eps, -1, "eps");
    WRONG(eps, NAN, "eps");
    WRONG(gamma, 1.5, "gamma");
    WRONG(lam, NAN, "lam");
    WRONG(turn_advantage_coef, -1, "turn_advantage_coef");
    WRONG(step_advantage_w, INFINITY, "step_advantage_w");
    WRONG(thinking_diversity_w, -1, "thinking_diversity_w");
    WRONG(thinking_cost_w, -1, "thinking_cost_w");
    WRONG(std_kind, 3, "std_kind");
    WRONG(std_over, 2, "std_over");
    WRONG(step_mode, -1, "step_mode");
    WRONG(pass_k, 1, "pass_k");
    o.pass_k = 0;
    o.thinking_cost_w = 1;
    o.thinking_cost_max = 0;
    refused_as("rlvcr", &b, &o, SR1_E_INVALID, "thinking_cost_max must be above 0");
    o.thinking_cost_max = 10;
    costs[5] = -1;
    refused_as("rlvcr", &b, &o, SR1_E_INVALID, "thinking cost of turn 1, level 1");
    b.thinking_costs = NULL;
    refused_as("rlvcr", &b, &o, SR1_E_INVALID, "lacks thinking_costs");
}

static void kinds_out_of_bounds_are_refused(void **state)
{
    (void)state;
    tags[1] = 4;
    refused_as("rlvcr", &b, NULL, SR1_E_INVALID, "level 4 of turn 1");
    tags[1] = -2;
    refused_as("rlvmr", &b, NULL, SR1_E_INVALID, "tag -2 of turn 1");
    tags[1] = 0;
}

static void outputs_that_are_not_given_are_refused(void **state)
{
    float returns[3];
    double turns[3];
    sr1_advantage_outputs out = {.struct_size = sizeof out, .returns = returns};
    sr1_advantage_report report = {0};

    (void)state;
    assert_int_equal(sr1_advantage_estimate("grpo", &b, NULL, &out, NULL), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "grpo: gives no returns"));
    assert_int_equal(sr1_advantage_estimate("gae", &b, NULL, &out, NULL), SR1_OK);
    out.turn_advantages = turns;
    assert_int_equal(sr1_advantage_estimate("gae", &b, NULL, &out, NULL), SR1_E_INVALID);
    out.returns = NULL;
    assert_int_equal(sr1_advantage_estimate("gigpo", &b, NULL, &out, NULL), SR1_OK);
    assert_int_equal(sr1_advantage_estimate("gigpo", &b, NULL, &out, &report),
                     SR1_E_INVALID);
    assert_int_equal(sr1_advantage_estimate("gigpo", &b, NULL, NULL, NULL),
                     SR1_E_INVALID);
    out.struct_size = 0;
    assert_int_equal(sr1_advantage_estimate("gigpo", &b, NULL, &out, NULL),
                     SR1_E_INVALID);
}

static void results_out_of_range_are_refused(void **state)
{
    (void)state;
    rewards[0] = 1.7e308;
    rewards[1] = -1.7e308;
    for (size_t i = 0; sr1_advantage_name(i) != NULL; i++)
        if (strcmp(sr1_advantage_name(i), "gdpo") != 0) /* reads components only */
            refused_as(sr1_advantage_name(i), &b, NULL, SR1_E_NUMERIC, "large");
    rewards[0] = 1e200; /* its square is none; it is no float */
    rewards[1] = 0;
    for (size_t i = 0; sr1_advantage_name(i) != NULL; i++)
        if (strcmp(sr1_advantage_name(i), "gdpo") != 0)
            refused_as(sr1_advantage_name(i), &b, NULL, SR1_E_NUMERIC, "large");
    refused_as("dr_grpo", &b, NULL, SR1_E_NUMERIC, "dr_grpo: that of token 0 is out of");
    rewards[0] = rewards[1] = 0;
}

static void older_callers_have_the_defaults_behind_their_fields(void **state)
{
    sr1_advantage_options o = {.struct_size = offsetof(sr1_advantage_options, whiten),
                               .whiten = 77,
                               .gamma = 77};
    sr1_advantage_batch old = b;
    double each[2];

    (void)state;
    assert_int_equal(estimate("gae", &b, &o, each, NULL), SR1_OK);
    old.struct_size = offsetof(sr1_advantage_batch, token_turns);
    old.values = NULL;
    assert_int_equal(estimate("grpo", &old, NULL, each, NULL), SR1_OK);
    refused_as("gae", &old, NULL, SR1_E_INVALID, "gae: the batch lacks values");
}

/* An array of components that has none is no array. */
static void no_components_are_missing_components(void **state)
{
    (void)state;
    b.n_components = 0;
    refused_as("gdpo", &b, NULL, SR1_E_INVALID, "gdpo: the batch lacks components");
}

static void whitening_over_tokens_needs_them(void **state)
{
    sr1_advantage_batch without = {.struct_size = sizeof without,
                                   .n = b.n,
                                   .rewards = b.rewards,
                                   .groups = b.groups,
                                   .n_components = b.n_components,
                                   .components = b.components};
    sr1_advantage_options o = {.struct_size = sizeof o};
    double each[2];

    (void)state;
    assert_int_equal(sr1_advantage_options_init(&o, "gdpo"), SR1_OK);
    assert_int_equal(estimate("gdpo", &without, &o, each, NULL), SR1_OK);
    o.whiten = SR1_ADVANTAGE_WHITEN_TOKENS;
    assert_int_equal(estimate("gdpo", &without, &o, each, NULL), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "gdpo: the batch lacks token_begin"));
    o.whiten++;
    refused_as("gdpo", &b, &o, SR1_E_INVALID, "whiten 3 is not known");
}

/* 0 in a field of kinds is the estimator's own; the report counts groups. */
static void no_kind_is_the_published_one(void **state)
{
    static double scores[2] = {1, 0};
    double want[2], got[2];
    sr1_advantage_outputs out = {.struct_size = sizeof out, .advantages = got};
    sr1_advantage_report report = {.struct_size = sizeof report};
    sr1_advantage_options o = {.struct_size = sizeof o};

    (void)state;
    b.rewards = scores;
    turn_rewards[0] = 0.5;
    for (size_t i = 0; sr1_advantage_name(i) != NULL; i++) {
        const char *name = sr1_advantage_name(i);

        assert_int_equal(sr1_advantage_options_init(&o, name), SR1_OK);
        o.std_kind = o.step_mode = 0;
        assert_int_equal(estimate(name, &b, NULL, want, NULL), SR1_OK);
        assert_int_equal(sr1_advantage_estimate(name, &b, &o, &out, &report), SR1_OK);
        assert_memory_equal(got, want, sizeof got);
        assert_int_equal(report.groups, 1);
        assert_int_equal(report.zero_variance_groups, 0);
        assert_int_equal(report.trajectories, 2);
        assert_int_equal(report.tokens, 3);
        assert_int_equal(report.turns, 3);
    }
    scores[1] = 1;
    groups[1] = 5;
    assert_int_equal(sr1_advantage_estimate("grpo", &b, NULL, &out, &report), SR1_OK);
    assert_true(report.groups == 2 && report.zero_variance_groups == 2);
    groups[1] = 0;
    assert_int_equal(sr1_advantage_estimate("grpo", &b, NULL, &out, &report), SR1_OK);
    assert_true(report.groups == 1 && report.zero_variance_groups == 1);
    turn_rewards[0] = 0;
}

static void the_table_describes_itself(void **state)
{
    sr1_advantage_info info = {.struct_size = sizeof info};
    sr1_advantage_options o = {.struct_size = sizeof o};
    size_t i, needs = 0;

    (void)state;
    while (sr1_advantage_need(needs) != NULL)
        needs++;
    for (i = 0; sr1_advantage_name(i) != NULL; i++) {
        assert_int_equal(sr1_advantage_describe(i, &info), SR1_OK);
        assert_string_equal(info.name, sr1_advantage_name(i));
        assert_true(info.formula[0] && info.source[0] && info.options[0]);
        assert_true(info.needs >> needs == 0);
    }
    assert_int_equal(sr1_advantage_describe(i, &info), SR1_E_INVALID);
    assert_int_equal(sr1_advantage_options_init(&o, "mt_grpo"), SR1_OK);
    assert_true(o.eps == 1e-4 && o.std_kind == SR1_ADVANTAGE_STD_UNBIASED);
    assert_int_equal(sr1_advantage_options_init(&o, "nope"), SR1_E_NOT_FOUND);
    assert_int_equal(sr1_advantage_options_init(NULL, "grpo"), SR1_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(everything_is_accepted_by_all, make),
        cmocka_unit_test_setup(numbers_that_are_none_are_named, make),
        cmocka_unit_test_setup(components_are_named, make),
        cmocka_unit_test_setup(maps_that_contradict_themselves_are_named, make),
        cmocka_unit_test_setup(turns_that_fall_are_named, make),
        cmocka_unit_test_setup(what_is_missing_is_named, make),
        cmocka_unit_test_setup(options_out_of_bounds_are_refused, make),
        cmocka_unit_test_setup(kinds_out_of_bounds_are_refused, make),
        cmocka_unit_test_setup(outputs_that_are_not_given_are_refused, make),
        cmocka_unit_test_setup(results_out_of_range_are_refused, make),
        cmocka_unit_test_setup(older_callers_have_the_defaults_behind_their_fields, make),
        cmocka_unit_test_setup(no_components_are_missing_components, make),
        cmocka_unit_test_setup(whitening_over_tokens_needs_them, make),
        cmocka_unit_test_setup(no_kind_is_the_published_one, make),
        cmocka_unit_test_setup(the_table_describes_itself, make),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
