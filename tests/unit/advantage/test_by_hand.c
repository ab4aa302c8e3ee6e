/* Every estimator on a case small enough to work out on paper; the numbers stand beside.
 * docs/algorithms.md names the test of each row. */
#include "estimate.h"

#include <searchr1/ext/thinking.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MOST 16

static void near_to(double got, double want)
{
    if (!(fabs(got - want) <= 1e-6))
        fail_msg("%.9g is not %.9g", got, want);
}

static sr1_advantage_options defaults(const char *name)
{
    sr1_advantage_options o = {.struct_size = sizeof o};

    assert_int_equal(sr1_advantage_options_init(&o, name), SR1_OK);
    return o;
}

/* o NULL: the published options. */
static void check_each(const char *name, const sr1_advantage_batch *b,
                       const sr1_advantage_options *o, const double *want)
{
    double got[MOST];

    if (estimate(name, b, o, got, NULL) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    for (size_t i = 0; i < b->n; i++)
        near_to(got[i], want[i]);
}

static sr1_advantage_report check_tokens(const char *name, const sr1_advantage_batch *b,
                                         const sr1_advantage_options *o,
                                         const double *want)
{
    float got[MOST];
    sr1_advantage_outputs out = {sizeof out, NULL, got, NULL, NULL};
    sr1_advantage_report report = {.struct_size = sizeof report};

    if (sr1_advantage_estimate(name, b, o, &out, &report) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    for (int64_t t = 0; t < b->token_begin[b->n]; t++)
        near_to((double)got[t], want[t]);
    return report;
}

/* ---- one number a trajectory ---- */

/* One group of 0, 1, 2, 5 (mean 2, squares 4 + 1 + 0 + 9 = 14) around one of a single. */
static const double rewards[5] = {0, 1, 3, 2, 5};
static const uint64_t groups[5] = {4, 4, UINT64_MAX, 4, 4};
static const int64_t lengths[6] = {0, 1, 3, 3, 4, 8}; /* 1, 2, 0, 1, 4 tokens */

static sr1_advantage_batch five(void)
{
    return (sr1_advantage_batch){.struct_size = sizeof(sr1_advantage_batch),
                                 .n = 5,
                                 .rewards = rewards,
                                 .groups = groups,
                                 .token_begin = lengths};
}

static void grpo_by_hand(void **state)
{
    double s = sqrt(14.0 / 4), u = sqrt(14.0 / 3);
    double want[5] = {-2 / s, -1 / s, 0, 0, 3 / s};
    double unbiased[5] = {-2 / (u + 1), -1 / (u + 1), 1.5, 0, 3 / (u + 1)};
    sr1_advantage_options o = defaults("grpo");
    sr1_advantage_batch b = five();

    (void)state;
    check_each("grpo", &b, NULL, want);
    o.std_kind = SR1_ADVANTAGE_STD_UNBIASED;
    o.eps = o.single_raw = 1;
    check_each("grpo", &b, &o, unbiased); /* the single one: 3 / (1 + eps) */
}

static void the_deviation_of_the_batch_by_hand(void **state)
{
    /* of all five: mean 2.2, squares 4.84 + 1.44 + 0.64 + 0.04 + 7.84 = 14.8 */
    double s = sqrt(14.8 / 5), u = sqrt(14.8 / 4) + 1;
    sr1_advantage_options o = defaults("grpo");
    sr1_advantage_batch b = five();

    (void)state;
    o.std_over = SR1_ADVANTAGE_STD_OVER_BATCH;
    check_each("grpo", &b, &o, (const double[5]){-2 / s, -1 / s, 0, 0, 3 / s});
    o.std_kind = SR1_ADVANTAGE_STD_UNBIASED;
    o.eps = o.single_raw = 1;
    check_each("grpo", &b, &o, (const double[5]){-2 / u, -1 / u, 3 / u, 0, 3 / u});
    o.divide_by_std = 0; /* nothing divides */
    check_each("grpo", &b, &o, (const double[5]){-2, -1, 3, 0, 3});
    o.divide_by_std = 1;
    o.eps = 0;
    b.rewards = (const double[5]){7, 7, 7, 7, 7};
    check_each("grpo", &b, &o, (const double[5]){0, 0, 7, 0, 0});
}

static void dr_grpo_by_hand(void **state)
{
    static const double want[5] = {-2, -1, 0, 0, 3};
    sr1_advantage_batch b = five();

    (void)state;
    check_each("dr_grpo", &b, NULL, want);
}

static void rloo_by_hand(void **state)
{
    /* others of 0: (1 + 2 + 5) / 3; of 1: 7 / 3; of 2: 2; of 5: 1 */
    static const double want[5] = {-8.0 / 3, -4.0 / 3, 0, 0, 4};
    sr1_advantage_batch b = five();

    (void)state;
    check_each("rloo", &b, NULL, want);
}

static void opo_by_hand(void **state)
{
    /* (1*0 + 2*1 + 1*2 + 4*5) / 8 = 3 */
    static const double want[5] = {-3, -2, 0, -1, 2};
    sr1_advantage_batch b = five();

    (void)state;
    check_each("opo", &b, NULL, want);
}

static void gpg_by_hand(void **state)
{
    /* 4 of 5 are in a group that teaches; verl: 4 of 5 rewards are not 0 */
    static const double want[5] = {-2.5, -1.25, 0, 0, 3.75};
    static const double three[5] = {0, 0, 3, 2, 6}, one[5] = {0, 0, 0, 0, 8};
    static const double odd[5] = {-10.0 / 3, -10.0 / 3, 0, 0, 20.0 / 3};
    sr1_advantage_options o = defaults("gpg");
    sr1_advantage_batch b = five();

    (void)state;
    check_each("gpg", &b, NULL, want);
    b.rewards = three; /* 3 of 5 are not 0: 5/3 of -2, -2, 0, 4 */
    o.gpg_nonzero = 1;
    check_each("gpg", &b, &o, odd);
    b.rewards = one; /* 5/1 of -2, -2, -2, 6 */
    check_each("gpg", &b, &o, (const double[5]){-10, -10, 0, -10, 30});
}

static void pass_at_k_by_hand(void **state)
{
    /* all four: 5 - 2 for the best. Two: of 5 the mean of 5, 4, 3; of 2 of 2, 1, 0; of 1
       of 1, 0, 0 */
    static const double best[5] = {0, 0, 0, 0, 3}, two[5] = {0, 1.0 / 3, 0, 1, 4};
    double s = sqrt(14.0 / 3) + 1e-6, scaled[5] = {0, 0, 0, 0, 3 / s};
    sr1_advantage_options o = defaults("pass_at_k");
    sr1_advantage_batch b = five();

    (void)state;
    check_each("pass_at_k", &b, NULL, scaled);
    o.divide_by_std = 0;
    check_each("pass_at_k", &b, &o, best);
    o.pass_k = 2;
    check_each("pass_at_k", &b, &o, two);
    o.pass_k = 99; /* more than there are: all */
    check_each("pass_at_k", &b, &o, best);
}

static void gdpo_by_hand(void **state)
{
    /* component 0: 0, 2 -> -1/sqrt(2), 1/sqrt(2), and 1, 1 -> 0, 0
       component 1, weight 2: 10, 10 -> 0, 0, and 0, 4 -> -sqrt(2), sqrt(2) */
    static const double components[8] = {0, 10, 2, 10, 1, 0, 1, 4}, weights[2] = {1, 2};
    static const uint64_t keys[4] = {1, 1, 2, 2};
    double h = sqrt(0.5), s = sqrt((1 + 4) / 3.0); /* std of -h, h, -2h, 2h */
    double sum[4] = {-h, h, -2 * h, 2 * h};
    double want[4] = {-h / s, h / s, -2 * h / s, 2 * h / s};
    sr1_advantage_options o = defaults("gdpo");
    sr1_advantage_batch b = five();

    (void)state;
    b.n = 4;
    b.groups = keys;
    b.components = components;
    b.component_weights = weights;
    b.n_components = 2;
    o.eps = 0;
    check_each("gdpo", &b, &o, want);
    o.whiten = 0;
    check_each("gdpo", &b, &o, sum);
    b.component_weights = NULL; /* 1 each */
    check_each("gdpo", &b, &o, (const double[4]){-h, h, -h, h});
}

/* A component that a trajectory does not have is not compared: of component 0 the first
 * group has 0 and 2, the second 1 alone; component 1 is only the second group's. */
static void gdpo_without_some_components(void **state)
{
    static const double components[10] = {0, NAN, 2, NAN, NAN, NAN, 1, 0, NAN, 4};
    static const uint8_t absent[10] = {0, 1, 0, 1, 1, 1, 0, 0, 1, 0};
    static const uint64_t keys[5] = {1, 1, 1, 2, 2};
    double h = sqrt(0.5);
    sr1_advantage_options o = defaults("gdpo");
    sr1_advantage_batch b = five();

    (void)state;
    b.n = 5;
    b.groups = keys;
    b.components = components;
    b.component_absent = absent;
    b.n_components = 2;
    o.eps = 0;
    o.whiten = 0;
    check_each("gdpo", &b, &o, (const double[5]){-h, h, 0, -h, h});
}

static void reinforce_plus_plus_baseline_by_hand(void **state)
{
    /* centred -2 -1 . 0 3, of 1, 2, 0, 1, 4 tokens: -2 -1 -1 0 3 3 3 3, mean 1,
       squares 9 + 4 + 4 + 1 + 4 * 4 = 34 */
    double s = sqrt(34.0 / 7 + 1e-8);
    double want[5] = {-3 / s, -2 / s, -1 / s, -1 / s, 2 / s};
    sr1_advantage_batch b = five();

    (void)state;
    check_each("reinforce_plus_plus_baseline", &b, NULL, want);
}

/* ---- by token ---- */

/* Two trajectories of one group: turns of 2 and 1 tokens, and a turn of 2. Turn rewards
 * 1, 0 and 3; the outcomes are 4 and 2. */
static const double sums[2] = {5, 5}, turn_rewards[3] = {1, 0, 3};
static const uint64_t same_group[2] = {7, 7};
static const int64_t token_begin[3] = {0, 3, 5}, turn_begin[3] = {0, 2, 3};
static const int32_t token_turns[5] = {0, 0, 1, 0, 0};

static sr1_advantage_batch two(void)
{
    return (sr1_advantage_batch){.struct_size = sizeof(sr1_advantage_batch),
                                 .n = 2,
                                 .rewards = sums,
                                 .groups = same_group,
                                 .token_begin = token_begin,
                                 .token_turns = token_turns,
                                 .turn_begin = turn_begin,
                                 .turn_rewards = turn_rewards};
}

static void reinforce_plus_plus_by_hand(void **state)
{
    /* rewards by token: 0 1 4, 0 (3 + 2); gamma 1/2: 1.5 3 4, 2.5 5; mean 3.2 */
    static const double returns[5] = {1.5, 3, 4, 2.5, 5};
    double s = sqrt((1.7 * 1.7 + 0.04 + 0.64 + 0.49 + 1.8 * 1.8) / 4 + 1e-8);
    double want[5] = {-1.7 / s, -0.2 / s, 0.8 / s, -0.7 / s, 1.8 / s};
    sr1_advantage_options o = defaults("reinforce_plus_plus");
    sr1_advantage_batch b = two();

    (void)state;
    o.gamma = 0.5;
    check_tokens("reinforce_plus_plus", &b, &o, want);
    o.whiten = 0;
    check_tokens("reinforce_plus_plus", &b, &o, returns);
}

static void remax_by_hand(void **state)
{
    /* returns 5 5 4, 5 5 and a penalty of 0.5 at the second token: 4.5 4.5 4 */
    static const double baselines[2] = {4, 6}, penalty[5] = {0, -0.5, 0, 0, 0};
    static const double want[5] = {0.5, 0.5, 0, -1, -1};
    sr1_advantage_batch b = two();

    (void)state;
    b.baselines = baselines;
    b.token_rewards = penalty;
    check_tokens("remax", &b, NULL, want);
}

static void gae_by_hand(void **state)
{
    /* One observation lies between tokens 1 and 2, of which nothing is seen here.
       rewards 0 1 4 | 0 5, values 1 2 3 | 1 1, gamma = lam = 1/2, second one cut short
       with bootstrap 2: d = 0, 0.5, 1 | -0.5, 5
       A = 0.1875 0.75 1 | 0.75 5 */
    static const float values[5] = {1, 2, 3, 1, 1};
    static const double bootstrap[2] = {100, 2};
    static const uint8_t completed[2] = {1, 0};
    static const double want[5] = {0.1875, 0.75, 1, 0.75, 5};
    sr1_advantage_options o = defaults("gae");
    sr1_advantage_batch b = two();
    float returns[5];
    sr1_advantage_outputs out = {sizeof out, NULL, NULL, returns, NULL};

    (void)state;
    b.values = values;
    b.bootstrap = bootstrap;
    b.completed = completed;
    o.gamma = o.lam = 0.5;
    o.whiten = 0;
    check_tokens("gae", &b, &o, want);
    assert_int_equal(sr1_advantage_estimate("gae", &b, &o, &out, NULL), SR1_OK);
    for (size_t t = 0; t < 5; t++)
        near_to((double)returns[t], want[t] + (double)values[t]);
    /* gamma = lam = 1: the reward to go minus the value */
    o.gamma = o.lam = 1;
    b.bootstrap = NULL;
    check_tokens("gae", &b, &o, (const double[5]){4, 3, 1, 4, 4});
}

/* ---- by turn ---- */

/* A group of three: outcomes 1 0 2, turns' sums 0.5 0 1 (so combined 1.5 0 3). The first
 * has turns of 1 and 2 tokens, a result behind turn 0; the second one turn and no result;
 * the third turns of 1, 1, 1 tokens, its first result behind turn 1. */
static const double mt_rewards[3] = {1.5, 0, 3},
                    mt_turn_rewards[6] = {0.5, 0, 0, 0.25, 0.75, 0};
static const uint64_t mt_groups[3] = {9, 9, 9};
static const int64_t mt_tokens[4] = {0, 3, 4, 7}, mt_turns[4] = {0, 2, 3, 6};
static const int32_t mt_token_turns[7] = {0, 1, 1, 0, 0, 1, 2};
static const int32_t mt_results[3] = {0, -1, 1};

static sr1_advantage_batch tools(void)
{
    return (sr1_advantage_batch){.struct_size = sizeof(sr1_advantage_batch),
                                 .n = 3,
                                 .rewards = mt_rewards,
                                 .groups = mt_groups,
                                 .token_begin = mt_tokens,
                                 .token_turns = mt_token_turns,
                                 .turn_begin = mt_turns,
                                 .turn_rewards = mt_turn_rewards,
                                 .result_turn = mt_results};
}

static void mt_grpo_by_hand(void **state)
{
    /* O = 0 -1 1, T = 0 -1 1, C = 0 -1 1, each of std e / (e + 1e-4) */
    double o = 1 / 1.0001, t = 0.5 / 0.5001, c = 1.5 / 1.5001;
    double want[7] = {0, 0, 0, -c, o + 2 * t, o + 2 * t, o};
    sr1_advantage_options options = defaults("mt_grpo");
    sr1_advantage_batch b = tools();
    sr1_advantage_report report;

    (void)state;
    options.turn_advantage_coef = 2;
    report = check_tokens("mt_grpo", &b, &options, want);
    assert_int_equal(report.no_result, 1);
}

static void mt_grpo_outcome_by_hand(void **state)
{
    /* 0.3 left in each, but for rounding */
    static const double turns[6] = {0.1, 0, 0.7, 0.2, 0, 0};
    double o = 1 / 1.0001, rounded[3] = {0.1 + 0.3, 0.7 + 0.3, 0.2 + 0.3};
    sr1_advantage_options options = defaults("mt_grpo_outcome");
    sr1_advantage_batch b = tools();

    (void)state;
    check_each("mt_grpo_outcome", &b, NULL, (const double[3]){0, -o, o});
    assert_true(rounded[2] - 0.2 != rounded[0] - 0.1);
    b.rewards = rounded;
    b.turn_rewards = turns;
    options.eps = 0;
    check_each("mt_grpo_outcome", &b, &options, (const double[3]){0, 0, 0});
}

static void mt_grpo_merged_by_hand(void **state)
{
    double c = 1.5 / 1.5001;
    sr1_advantage_batch b = tools();

    (void)state;
    check_each("mt_grpo_merged", &b, NULL, (const double[3]){0, -c, c});
}

static void mt_grpo_turns_by_hand(void **state)
{
    /* rewards to go: turn 0: 0.5 0 1, turn 1: 0 . 0.75, turn 2: . . 0 (alone) */
    double o = 1 / 1.0001, t = 0.5 / 0.5001;
    double s = sqrt(2 * 0.375 * 0.375), u = 0.375 / (s + 1e-4);
    double want[7] = {0, -u, -u, -o - t, o + t, o + u, o};
    sr1_advantage_batch b = tools();
    sr1_advantage_report report;

    (void)state;
    report = check_tokens("mt_grpo_turns", &b, NULL, want);
    assert_int_equal(report.turns_compared, 5);
    assert_int_equal(report.turns_alone, 1);
}

/* A group of two, of 3 and 2 tokens, around a group of one; scores 4, 1 and 7. Norms 1 1
 * 2 and 2 1, W: 1 2 4 and 2 3. */
static sr1_advantage_batch normed(void)
{
    static const double scores[3] = {4, 7, 1};
    static const uint64_t keys[3] = {5, 6, 5};
    static const int64_t begin[4] = {0, 3, 4, 6};
    static const float norms[6] = {1, 1, 2, 3, 2, 1};

    return (sr1_advantage_batch){.struct_size = sizeof(sr1_advantage_batch),
                                 .n = 3,
                                 .rewards = scores,
                                 .groups = keys,
                                 .token_begin = begin,
                                 .score_norms = norms};
}

/* token 0: (4 1 + 1 2) / 3 = 2, token 1: (4 2 + 1 3) / 5 = 2.2; the third is alone */
static const double by_number[6] = {2, 1.8, 4, 7, -1, -1.2};
/* at 0 2 3 and 0 1: only 0 is shared, of the others each has its own return; from 2 on
   the first is alone */
static const int32_t places[6] = {0, 2, 3, 0, 0, 1};

static void optimal_token_baseline_by_hand(void **state)
{
    static const double by_place[6] = {2, 4, 4, 7, -1, 0};
    sr1_advantage_options o = defaults("optimal_token_baseline");
    sr1_advantage_batch b = normed();

    (void)state;
    check_tokens("optimal_token_baseline", &b, NULL, by_number);
    b.token_places = places;
    check_tokens("optimal_token_baseline", &b, NULL, by_place);
    o.eps = 0; /* would divide nothing by nothing */
    assert_int_equal(estimate("optimal_token_baseline", &b, &o, (double[3]){0}, NULL),
                     SR1_E_INVALID);
}

static void tir_optimal_token_baseline_by_hand(void **state)
{
    /* beside the score, which is earned at the end, 1 at the second token: returns 5 5 4;
       at 0 (5 1 + 1 2) / 3, at 1 (5 2 + 1 3) / 5 */
    static const double dense[6] = {0, 1, 0, 0, 0, 0};
    static const double earned[6] = {8.0 / 3, 2.4, 4, 7, -4.0 / 3, -1.6};
    sr1_advantage_batch b = normed();

    (void)state;
    b.token_places = places; /* nothing to it */
    check_tokens("tir_optimal_token_baseline", &b, NULL, by_number);
    b.token_rewards = dense;
    check_tokens("tir_optimal_token_baseline", &b, NULL, earned);
}

static void gigpo_by_hand(void **state)
{
    /* own rewards 0.5 1 | 0 | 0.25 0.75 2, gamma 1/2: to go 1 1 | 0 | 1.125 1.75 2.
       States a b | a | a c b: a 1 0 1.125 (mean 17/24), b 1 2, c alone.
       Episodes 1.5 0 3: 0 -1.5 1.5 */
    static const uint64_t states[6] = {1, 2, 1, 1, 3, 2};
    double m = 17.0 / 24,
           want[7] = {1 - m, -0.5, -0.5, -1.5 - m, 1.5 + 1.125 - m, 1.5, 2};
    sr1_advantage_options o = defaults("gigpo");
    sr1_advantage_batch b = tools();
    sr1_advantage_report report;

    (void)state;
    b.turn_states = states;
    o.gamma = 0.5;
    report = check_tokens("gigpo", &b, &o, want);
    assert_int_equal(report.turns_compared, 5);
    assert_int_equal(report.turns_alone, 1);
}

static void rlvmr_by_hand(void **state)
{
    /* outcomes 1 0 2; tags 0 - | 0 | 0 1 1: kind 0 of 0.5 0 0.25, kind 1 of 0.75 0 */
    static const int32_t tags[6] = {0, -1, 0, 0, 1, 1};
    double want[7] = {0.125, 0, 0, -1 - 0.125, 1, 1 + 0.1875, 1 - 0.1875};
    sr1_advantage_options o = defaults("rlvmr");
    sr1_advantage_batch b = tools();
    sr1_advantage_report report;

    (void)state;
    b.turn_tags = tags;
    o.step_mode = SR1_ADVANTAGE_MEAN_NORM;
    report = check_tokens("rlvmr", &b, &o, want);
    assert_int_equal(report.turns_unscored, 1);
    assert_int_equal(report.turns_compared, 5);
}

/* Turn 0 at level 2, turn 1 at none, | turn 0 at level 2, but level 3 was not made, |
 * turn 0 at level 1, turns 1 and 2 at level 0 with all four equal. G = 5, F of level 2 is
 * 2, of level 1 1. */
static const int32_t levels[6] = {2, -1, 2, 1, 0, 0};
static const double confidences[24] = {-4, -3, -1, -4, -1, -1, -1, -1, -1, -1, -1, NAN,
                                       -2, -1, -4, -1, -3, -3, -3, -3, -3, -3, -3, -3};

static sr1_advantage_batch thinking(void)
{
    sr1_advantage_batch b = tools();

    b.turn_tags = levels;
    b.confidences = confidences;
    return b;
}

static void rlvcr_by_hand(void **state)
{
    /* trajectories 0 -e e with e = 1.5 / (1.5 + 1e-6)
       turn 0: -1 + 3 = 2, times 1 + 0.5 * 3/5; of the third: -1 + 2 = 1, 1 + 0.5 * 4/5 */
    double e = 1.5 / (1.5 + 1e-6);
    double want[7] = {2 * 1.3, 0, 0, -e, e + 1.4, e, e};
    /* the four of the third: squares 0 1 4 1 */
    double s = sqrt(6.0 / 3) + 1e-6, t = sqrt(6.0 / 3) + 1e-6;
    double divided[7] = {2 * 1.3 / t, 0, 0, -e, e + 1.4 / s, e, e};
    sr1_advantage_options o = defaults("rlvcr");
    sr1_advantage_batch b = thinking();
    sr1_advantage_report report;

    (void)state;
    report = check_tokens("rlvcr", &b, NULL, want);
    assert_int_equal(report.turns_unscored, 2);
    assert_int_equal(report.turns_compared, 4);
    o.step_mode = SR1_ADVANTAGE_MEAN_STD_NORM;
    check_tokens("rlvcr", &b, &o, divided);
}

static void rlvcr_costs_and_published_form_by_hand(void **state)
{
    /* alpha 2, cost_max 100: turn 0 of the third at level 1 with costs 0 50 100 50 gains
       2 (0.5 - 0.5) = 0 against 1 0 -1 0: c = -1 -1 -5 -1, h = -1 + 2 = 1 */
    static const double costs[24] = {[12] = 0, 50, 100, 50};
    double e = 1.5 / (1.5 + 1e-6);
    double want[7] = {2, 0, 0, -e, e + 1, e, e};
    /* the other form: c = -4 -3 -1 -4, p = 0 1/3 1 0; c = -2 -1 -4 -1, p = 2/3 1 0 1 */
    double w = 4 * exp(2) / (exp(4.0 / 3) + 2 * exp(2) + 1);
    double other[7] = {0, 0, 0, -e, e * w, e, e};
    sr1_advantage_options o = defaults("rlvcr");
    sr1_advantage_batch b = thinking();

    (void)state;
    b.thinking_costs = costs;
    o.thinking_cost_w = 2;
    o.thinking_cost_max = 100;
    o.thinking_diversity_w = 0;
    check_tokens("rlvcr", &b, &o, want);
    o = defaults("rlvcr");
    o.multiplicative = 1;
    check_tokens("rlvcr", &b, &o, other);
}

/* Weights of four mean log-probs by the lines of the published code (its core_copo.py,
 * step 3, in numpy), and of four confidences that differ by no more than 1e-6. */
static void rlvcr_is_the_published_code_by_hand(void **state)
{
    static const float mean[4] = {-0.01F, -0.5F, -2, -6};
    static const double weights[4] = {2.256855364, 1.037984265, 0.399728211, 0.305432160};
    double confidence[24];
    double e = 1.5 / (1.5 + 1e-6);
    sr1_advantage_options o = defaults("rlvcr");

    (void)state;
    o.multiplicative = 1;
    for (int32_t level = 0; level < 4; level++) {
        int32_t tags[6] = {-1, -1, -1, level, -1, -1};
        double want[7] = {0, 0, 0, -e, e * weights[level], e, e}, flat[7];
        sr1_advantage_batch b = thinking();

        memcpy(flat, want, sizeof flat);
        flat[4] = e;
        b.turn_tags = tags;
        b.confidences = confidence;
        for (int k = 0; k < 24; k++) {
            assert_int_equal(sr1_thinking_confidence("mean_prob", &mean[k % 4], NULL,
                                                     NULL, 1, &confidence[k]),
                             SR1_OK);
        }
        check_tokens("rlvcr", &b, &o, want);
        for (int k = 0; k < 24; k++)
            confidence[k] = 0.5 + 0.9e-6 * (k % 2);
        check_tokens("rlvcr", &b, &o, flat);
    }
}

/* The part of a turn on the tokens that chose it, the trajectory's on all. */
static void steps_on_tokens_by_hand(void **state)
{
    static const uint8_t first[7] = {0, 0, 0, 0, 1, 0, 0}, none[7] = {0};
    static const int32_t tags[6] = {0, -1, 0, 0, 1, 1};
    double e = 1.5 / (1.5 + 1e-6);
    double want[7] = {0, 0, 0, -e, e + 1.4, e, e}, plain[7] = {0, 0, 0, -e, e, e, e};
    /* c = -2 -1 -4 -1, p = 2/3 1 0 1 */
    double w = 4 * exp(2) / (exp(4.0 / 3) + 2 * exp(2) + 1);
    double other[7] = {0, 0, 0, -e, e * w, e, e};
    double kinds[7] = {0, 0, 0, -1, 1, 1, 1};
    sr1_advantage_options o = defaults("rlvcr");
    sr1_advantage_batch b = thinking();

    (void)state;
    b.step_tokens = first;
    check_tokens("rlvcr", &b, NULL, want);
    o.multiplicative = 1;
    check_tokens("rlvcr", &b, &o, other);
    b.step_tokens = none;
    check_tokens("rlvcr", &b, NULL, plain);
    check_tokens("rlvcr", &b, &o, plain);
    o = defaults("rlvmr");
    o.step_mode = SR1_ADVANTAGE_MEAN_NORM;
    b.turn_tags = tags;
    check_tokens("rlvmr", &b, &o, kinds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grpo_by_hand),
        cmocka_unit_test(the_deviation_of_the_batch_by_hand),
        cmocka_unit_test(dr_grpo_by_hand),
        cmocka_unit_test(rloo_by_hand),
        cmocka_unit_test(opo_by_hand),
        cmocka_unit_test(gpg_by_hand),
        cmocka_unit_test(pass_at_k_by_hand),
        cmocka_unit_test(gdpo_by_hand),
        cmocka_unit_test(gdpo_without_some_components),
        cmocka_unit_test(reinforce_plus_plus_baseline_by_hand),
        cmocka_unit_test(reinforce_plus_plus_by_hand),
        cmocka_unit_test(remax_by_hand),
        cmocka_unit_test(gae_by_hand),
        cmocka_unit_test(mt_grpo_by_hand),
        cmocka_unit_test(mt_grpo_outcome_by_hand),
        cmocka_unit_test(mt_grpo_merged_by_hand),
        cmocka_unit_test(mt_grpo_turns_by_hand),
        cmocka_unit_test(optimal_token_baseline_by_hand),
        cmocka_unit_test(tir_optimal_token_baseline_by_hand),
        cmocka_unit_test(gigpo_by_hand),
        cmocka_unit_test(rlvmr_by_hand),
        cmocka_unit_test(steps_on_tokens_by_hand),
        cmocka_unit_test(rlvcr_by_hand),
        cmocka_unit_test(rlvcr_is_the_published_code_by_hand),
        cmocka_unit_test(rlvcr_costs_and_published_form_by_hand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
