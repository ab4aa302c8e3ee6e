/* The seed's scales and totals, and sets of weighted rewards over trajectories. */
#include "responses.h"

#include "base/mem.h"

#include <searchr1/reward.h>
#include <searchr1/ext/config_names.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/seed_rewards.h>
#include <searchr1/ext/text_metrics.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const paris[] = {"Paris"};

static double total(const char *text, const sr1_reward_scales *scales)
{
    double out = 99;

    assert_int_equal(sr1_reward_total(text, strlen(text), paris, 1, scales, &out),
                     SR1_OK);
    return out;
}

static void totals_of_the_seed(void **state)
{
    (void)state;
    assert_true(total("<answer>Paris</answer>", NULL) == 2.5);
    assert_true(total("<answer>paris</answer>", NULL) == 1.5);
    assert_true(
        total("<answer>\xe6\x9c\xaa\xe6\x89\xbe\xe5\x88\xb0\xe7\x9b\xb8\xe5\x85\xb3"
              "\xe5\x86\x85\xe5\xae\xb9</answer>",
              NULL) == 1.0);
    assert_true(total("<answer>Rome</answer>", NULL) == 0.5);
    assert_true(total("<answer>Paris", NULL) == 1.0); /* cut short: -1 + 2 */
    assert_true(total("", NULL) == -1.0);
}

static void scales_come_from_the_caller(void **state)
{
    sr1_reward_scales s = {sizeof s};

    (void)state;
    sr1_reward_scales_init(&s);
    assert_true(total("<answer>Paris</answer>", &s) == 2.5);
    s.format_reward = 0.25;
    s.format_penalty = -3;
    s.exact_match_bonus = 8;
    s.answer_reward = 4;
    s.no_content_reward = 16;
    s.no_content_text = "dunno";
    assert_true(total("<answer>Paris</answer>", &s) == 8.25);
    assert_true(total("<answer>paris</answer> x", &s) == 1);
    assert_true(total("<answer>dunno</answer>", &s) == 16.25);
    s.similarity_threshold = 0.9; /* 2 * 4 / 9 is below */
    assert_true(total("<answer>Pari</answer>", &s) == 0.25);
    s.similarity_threshold = 0.8;
    assert_true(total("<answer>Pari</answer>", &s) == 4.25);
    s.answer_reward = NAN;
    {
        double out = 9;

        assert_int_equal(sr1_reward_check_format("", 0, &s, &out), SR1_E_NUMERIC);
        s.struct_size = 0;
        assert_int_equal(sr1_reward_check_format("", 0, &s, &out), SR1_E_INVALID);
        assert_true(out == 9);
    }
}

static void wrong_arguments_are_refused(void **state)
{
    const char *const holes[] = {"x", NULL};
    double out = 9;

    (void)state;
    assert_int_equal(sr1_reward_check_answer("a", 1, NULL, 1, NULL, &out), SR1_E_INVALID);
    assert_int_equal(sr1_reward_check_answer("a", 1, paris, 0, NULL, &out),
                     SR1_E_INVALID);
    assert_int_equal(sr1_reward_check_answer("a", 1, holes, 2, NULL, &out),
                     SR1_E_INVALID);
    assert_int_equal(sr1_reward_check_answer(NULL, 1, paris, 1, NULL, &out),
                     SR1_E_INVALID);
    assert_int_equal(sr1_reward_f1("a", 1, paris, 1, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_metric_rouge_n("a", 1, paris, 1, 5, &out), SR1_E_INVALID);
    assert_int_equal(sr1_metric_bleu("a", 1, paris, 0, &out), SR1_E_INVALID);
    assert_int_equal(sr1_reward_normalize(NULL, 1, NULL, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_similarity_ratio(NULL, 1, "", 0, &out), SR1_E_INVALID);
    assert_true(out == 9);
    assert_int_equal(sr1_reward_check_answer(NULL, 0, paris, 1, NULL, &out), SR1_OK);
    assert_true(out == 0);
}

/* ---- sets ---- */

static const struct response responses[] = {
    {{"<search>q</search>", "Paris", "<answer>Paris</answer>"},
     "Paris",
     {"Rome", "Paris"}},
    {{"<answer>the PARIS!</answer>"}, "the PARIS!", {"Paris"}},
    {{"<answer>Par"}, "Par", {"Paris"}},
    {{"<think>no idea"}, "", {"Paris"}},
};

#define N_RESPONSES (sizeof responses / sizeof responses[0])

static void make_all(sr1_trajectory **t)
{
    size_t i;

    for (i = 0; i < N_RESPONSES; i++)
        assert_int_equal(make_trajectory(&responses[i], &t[i]), SR1_OK);
}

static void free_all(sr1_trajectory **t)
{
    size_t i;

    for (i = 0; i < N_RESPONSES; i++)
        sr1_trajectory_free(t[i]);
}

static void every_builtin_scores(void **state)
{
    static const double want[N_RESPONSES][5] = {
        {0.5, 2, 1, 1, 1},
        {0.5, 1, 1, 1, 1},
        {-1, 1, 0, 0, 0}, /* the seed keeps an answer cut short, Search-R1 does not */
        {-1, 0, 0, 0, 0},
    };
    sr1_reward_options o = {sizeof o, " format, answer,exact_match,sub_match ,f1",
                            "1,1,0.5,0,-2", NULL, NULL};
    sr1_trajectory *t[N_RESPONSES];
    sr1_reward_set *set = NULL;
    double parts[N_RESPONSES][5], totals[N_RESPONSES], value, weight;
    const char *name;
    size_t i, k;

    (void)state;
    make_all(t);
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    assert_int_equal(sr1_reward_set_count(set), 5);
    assert_string_equal(sr1_reward_set_name(set, 2), "exact_match");
    assert_null(sr1_reward_set_name(set, 5));
    assert_int_equal(sr1_reward_set_score(set, (const sr1_trajectory *const *)t,
                                          N_RESPONSES, &parts[0][0], totals),
                     SR1_OK);
    assert_false(sr1_trajectory_has_reward(t[0]));
    assert_int_equal(sr1_reward_set_apply(set, t, N_RESPONSES), SR1_OK);
    for (i = 0; i < N_RESPONSES; i++) {
        for (k = 0; k < 5; k++)
            assert_true(parts[i][k] == want[i][k]);
        assert_true(totals[i] ==
                    want[i][0] + want[i][1] + 0.5 * want[i][2] - 2 * want[i][4]);
        assert_true(sr1_trajectory_reward(t[i]) == totals[i]);
    }
    assert_int_equal(sr1_trajectory_reward_component_count(t[0]), 5);
    assert_int_equal(sr1_trajectory_reward_component(t[0], 4, &name, &value, &weight),
                     SR1_OK);
    assert_string_equal(name, "f1");
    assert_true(value == 1 && weight == -2);
    sr1_reward_set_free(set);
    free_all(t);
}

/* "Jörg" with one letter, and with "o" and a mark, by the policy or in a row, where a
 * cell may have white space around it. */
static void answers_are_compared_in_normal_form(void **state)
{
    static const char one[] = "J\xc3\xb6rg", two[] = "Jo\xcc\x88rg";
    static const struct response by[] = {
        {{"<answer>J\xc3\xb6rg</answer>"}, one, {"x", " Jo\xcc\x88rg\n"}},
        {{"<answer>Jo\xcc\x88rg</answer>"}, two, {one}},
        {{"<answer>Jo\xcc\x88rg\xff</answer>"}, "Jo\xcc\x88rg\xff", {one}}, /* no UTF-8 */
    };
    static const double want[][6] = {
        {2, 1, 1, 1, 0, 1}, /* answer_present looks for white space too, as published */
        {2, 1, 1, 1, 0.5, 1},
        {1, 0, 0, 0, 0, 0}};
    sr1_reward_options o = {
        .struct_size = sizeof o,
        .rewards = "answer,exact_match,sub_match,f1,answer_present,mt_exact_match"};
    const char *const truths[] = {two};
    sr1_reward_set *set = NULL;
    sr1_trajectory *t = NULL;
    double parts[6], total, published;

    (void)state;
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        assert_int_equal(make_trajectory(&by[i], &t), SR1_OK);
        assert_int_equal(sr1_reward_set_score(set, (const sr1_trajectory *const *)&t, 1,
                                              parts, &total),
                         SR1_OK);
        for (size_t k = 0; k < 6; k++)
            if (parts[k] != want[i][k])
                fail_msg("response %zu, %s: %g", i, sr1_reward_set_name(set, k),
                         parts[k]);
        sr1_trajectory_free(t);
    }
    sr1_reward_set_free(set);
    /* the published function compares the texts as they are */
    assert_int_equal(sr1_reward_exact_match(one, strlen(one), truths, 1, &published),
                     SR1_OK);
    assert_true(published == 0);
}

/* 0.5 - 2 for two actions, 0 where nothing was earned. */
static void an_environment_gives_rewards(void **state)
{
    static const int32_t prompt[1] = {1};
    sr1_reward_options o = {.struct_size = sizeof o, .rewards = "environment"};
    struct sr1__trajectory_builder *b = NULL;
    sr1_trajectory *t = NULL;
    sr1_reward_set *set = NULL;

    (void)state;
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    for (int earns = 0; earns < 2; earns++) {
        assert_int_equal(sr1__trajectory_builder_new(&b, "q", 1, "q", 0), SR1_OK);
        assert_int_equal(sr1__trajectory_builder_prompt(b, prompt, 1), SR1_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(sr1__trajectory_builder_action(b, i, "x", 1, 0, 0, NULL),
                             SR1_OK);
            if (earns)
                assert_int_equal(
                    sr1__trajectory_builder_action_reward(b, i ? -2 : 0.5, 0), SR1_OK);
        }
        assert_int_equal(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t),
                         SR1_OK);
        (void)sr1_set_error(SR1_E_STATE, "as before");
        assert_int_equal(sr1_reward_set_apply(set, &t, 1), SR1_OK);
        assert_string_equal(sr1_last_error(), "as before"); /* nothing failed */
        assert_true(sr1_trajectory_reward(t) == (earns ? -1.5 : 0.0));
        sr1_trajectory_free(t);
    }
    sr1_reward_set_free(set);
}

static void the_default_set_is_the_seed(void **state)
{
    sr1_trajectory *t[N_RESPONSES];
    sr1_reward_set *set = NULL;

    (void)state;
    make_all(t);
    assert_int_equal(sr1_reward_set_new(&set, NULL), SR1_OK);
    assert_int_equal(sr1_reward_set_apply(set, t, N_RESPONSES), SR1_OK);
    assert_true(sr1_trajectory_reward(t[0]) == 2.5);
    assert_true(sr1_trajectory_reward(t[3]) == -1);
    assert_int_equal(sr1_reward_set_apply(set, NULL, 0), SR1_OK);
    sr1_reward_set_free(set);
    free_all(t);
}

/* An empty closed answer is an answer; none is not, even where the gold answer normalises
 * to nothing. */
static void no_answer_is_no_match(void **state)
{
    static const struct response two[2] = {
        {{"<answer></answer>"}, "", {"The"}},
        {{"nothing"}, "", {"The"}},
    };
    sr1_reward_options o = {sizeof o, "exact_match", NULL, NULL, NULL};
    sr1_reward_set *set = NULL;
    sr1_trajectory *t[2];
    double totals[2];

    (void)state;
    assert_int_equal(make_trajectory(&two[0], &t[0]), SR1_OK);
    assert_int_equal(make_trajectory(&two[1], &t[1]), SR1_OK);
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    assert_int_equal(
        sr1_reward_set_score(set, (const sr1_trajectory *const *)t, 2, NULL, totals),
        SR1_OK);
    assert_true(totals[0] == 1 && totals[1] == 0);
    sr1_reward_set_free(set);
    sr1_trajectory_free(t[0]);
    sr1_trajectory_free(t[1]);
}

static void a_missing_gold_answer_is_named(void **state)
{
    static const struct response lost = {{"<answer>a</answer>"}, "a", {NULL}};
    sr1_reward_set *set = NULL;
    sr1_trajectory *t[2];

    (void)state;
    assert_int_equal(make_trajectory(&responses[0], &t[0]), SR1_OK);
    assert_int_equal(make_trajectory(&lost, &t[1]), SR1_OK);
    assert_int_equal(sr1_reward_set_new(&set, NULL), SR1_OK);
    assert_int_equal(sr1_reward_set_apply(set, t, 2), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "reward 'answer'"));
    assert_non_null(strstr(sr1_last_error(), "trajectory 1, of the question 'q', has"));
    assert_false(sr1_trajectory_has_reward(t[0]));
    sr1_reward_set_free(set);
    sr1_trajectory_free(t[0]);
    sr1_trajectory_free(t[1]);
}

/* The names that the key lists are those that there are. */
static void the_key_lists_every_reward(void **state)
{
    sr1_config_key_info k = {.struct_size = sizeof k};
    sr1_reward_options o = {sizeof o, "none such", NULL, NULL, NULL};
    sr1_reward_set *set = NULL;
    char names[1024];
    size_t i = 0, n = 0;

    (void)state;
    while (sr1_config_key_describe(i, &k) == SR1_OK && strcmp(k.name, "rewards") != 0)
        i++;
    assert_non_null(k.choices);
    for (const char *at = k.choices; *at && n + 3 < sizeof names; at++)
        n += (size_t)snprintf(names + n, sizeof names - n, *at == '|' ? ", " : "%c", *at);
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "known: "));
    assert_memory_equal(strstr(sr1_last_error(), "known: ") + 7, names, strlen(names));
    assert_int_equal(strstr(sr1_last_error(), "known: ")[7 + strlen(names)], ';');
}

static void wrong_options_are_named(void **state)
{
    static const struct {
        const char *rewards, *weights, *protocol;
        sr1_status status;
        const char *said;
    } cases[] = {
        {"format,formal", NULL, NULL, SR1_E_NOT_FOUND, "'formal'"},
        {"my.py", NULL, NULL, SR1_E_NOT_FOUND, "(reward_programs=FILE:NAME)"},
        {"format,,answer", NULL, NULL, SR1_E_NOT_FOUND, "known: format"},
        {"format,format", NULL, NULL, SR1_E_INVALID, "already"},
        {"format,answer", "1", NULL, SR1_E_CONFIG, "'answer'"},
        {"format,answer", "1,2,3", NULL, SR1_E_CONFIG, "more numbers"},
        {"format,answer", "1,x", NULL, SR1_E_CONFIG, "'x'"},
        {"format,answer", "1,inf", NULL, SR1_E_CONFIG, "'inf'"},
        {"format", NULL, "nope", SR1_E_NOT_FOUND, "protocol 'nope'"},
    };
    sr1_reward_set *set = NULL;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sr1_reward_options o = {sizeof o, cases[i].rewards, cases[i].weights,
                                cases[i].protocol, NULL};

        assert_int_equal(sr1_reward_set_new(&set, &o), cases[i].status);
        assert_non_null(strstr(sr1_last_error(), cases[i].said));
        assert_null(set);
    }
    assert_int_equal(sr1_reward_set_new(NULL, NULL), SR1_E_INVALID);
    sr1_reward_set_free(NULL);
}

/* ---- a reward of the caller's ---- */

struct custom {
    int destroyed;
    sr1_status status;
    double score;
};

static sr1_status custom_score(void *self, const sr1_trajectory *const *t, size_t n,
                               double *out)
{
    struct custom *c = self;
    size_t i;

    for (i = 0; i < n; i++)
        out[i] = c->score + (double)sr1_trajectory_policy_count(t[i]);
    return c->status == SR1_OK ? SR1_OK : sr1_set_error(c->status, "on strike");
}

static void custom_destroy(void *self)
{
    ((struct custom *)self)->destroyed++;
}

static void callers_can_add_rewards(void **state)
{
    sr1_reward_ops ops = {sizeof ops, "length", custom_score, custom_destroy};
    sr1_reward_options o = {sizeof o, "", "", NULL, NULL};
    struct custom c = {0, SR1_OK, 0};
    sr1_trajectory *t[N_RESPONSES];
    sr1_reward_set *set = NULL;

    (void)state;
    make_all(t);
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    assert_int_equal(sr1_reward_set_apply(set, t, N_RESPONSES), SR1_OK);
    assert_true(sr1_trajectory_reward(t[0]) == 0);
    assert_int_equal(sr1_reward_set_add(set, &ops, &c, 0.25), SR1_OK);
    assert_int_equal(sr1_reward_set_add(set, &ops, &c, 1), SR1_E_INVALID);
    assert_int_equal(sr1_reward_set_apply(set, t, N_RESPONSES), SR1_OK);
    assert_true(sr1_trajectory_reward(t[0]) == 0.5);
    c.status = SR1_E_NETWORK;
    assert_int_equal(sr1_reward_set_apply(set, t, N_RESPONSES), SR1_E_NETWORK);
    assert_string_equal(sr1_last_error(), "reward 'length': on strike");
    c.status = SR1_OK;
    c.score = NAN;
    assert_int_equal(sr1_reward_set_apply(set, t, N_RESPONSES), SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "'length' of trajectory 0"));
    assert_true(sr1_trajectory_reward(t[0]) == 0.5); /* as it was */
    ops.name = "endless";
    assert_int_equal(sr1_reward_set_add(set, &ops, &c, INFINITY), SR1_E_INVALID);
    assert_int_equal(c.destroyed, 0);
    sr1_reward_set_free(set);
    assert_int_equal(c.destroyed, 1);
    free_all(t);
}

struct grower {
    sr1_reward_set *set;
    sr1_status status;
};

static sr1_status grow_set(void *self, const sr1_trajectory *const *t, size_t n,
                           double *out)
{
    struct grower *g = self;
    sr1_reward_ops ops = {sizeof ops, "late", grow_set, NULL};

    (void)t;
    memset(out, 0, n * sizeof *out);
    g->status = sr1_reward_set_add(g->set, &ops, g, 1);
    return SR1_OK;
}

/* What TRL makes of (1, None), (None, 4), (2, 4): nansum of (weight * score), weights 1
 * and 0.5; and what it does not have: a score that could not be had, and none at all. */
static const double given[5][2] = {{1, 0}, {0, 4}, {2, 4}, {1, 0}, {0, 0}};
static const int32_t marks[5][2] = {
    {SR1_REWARD_SCORED, SR1_REWARD_NOT_APPLICABLE},
    {SR1_REWARD_NOT_APPLICABLE, SR1_REWARD_SCORED},
    {SR1_REWARD_SCORED, SR1_REWARD_SCORED},
    {SR1_REWARD_SCORED, SR1_REWARD_UNKNOWN},
    {SR1_REWARD_NOT_APPLICABLE, SR1_REWARD_NOT_APPLICABLE},
};

static sr1_status tell_states(void *self, const sr1_trajectory *const *t, size_t n,
                              double *out, int32_t *states)
{
    int k = *(const int *)self;

    (void)t;
    for (size_t i = 0; i < n; i++) {
        out[i] = marks[i][k] == SR1_REWARD_SCORED ? given[i][k] : NAN;
        states[i] = marks[i][k];
    }
    return SR1_OK;
}

static sr1_status tell_wrong_state(void *self, const sr1_trajectory *const *t, size_t n,
                                   double *out, int32_t *states)
{
    (void)self, (void)t, (void)n;
    out[0] = 1;
    states[0] = 3;
    return SR1_OK;
}

static void check_applied(sr1_trajectory *t, double want)
{
    const char *name;
    double value, weight;

    if (isnan(want)) {
        assert_false(sr1_trajectory_has_reward(t));
        assert_int_equal(sr1_trajectory_stop_reason(t), SR1_STOP_UNSCORED);
        return;
    }
    assert_true(sr1_trajectory_reward(t) == want);
    for (size_t k = 0; k < 2; k++) {
        assert_int_equal(sr1_trajectory_reward_component(t, k, &name, &value, &weight),
                         SR1_OK);
        assert_true(isnan(value) ? weight == 0 : weight == (k ? 0.5 : 1));
    }
}

static void rewards_need_not_apply_to_all(void **state)
{
    static int columns[2] = {0, 1};
    static const double totals_of_trl[3] = {1, 2, 4};
    sr1_reward_options none = {.struct_size = sizeof none, .rewards = ""};
    sr1_reward_ops ops = {.struct_size = sizeof ops, .score_states = tell_states};
    sr1_trajectory *t[5];
    double parts[5][2], totals[5];
    sr1_reward_set *set = NULL;

    (void)state;
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(make_trajectory(&responses[i % N_RESPONSES], &t[i]), SR1_OK);
    assert_int_equal(sr1_reward_set_new(&set, &none), SR1_OK);
    ops.name = "first";
    assert_int_equal(sr1_reward_set_add(set, &ops, &columns[0], 1), SR1_OK);
    ops.name = "second";
    assert_int_equal(sr1_reward_set_add(set, &ops, &columns[1], 0.5), SR1_OK);
    assert_int_equal(sr1_reward_set_score(set, (const sr1_trajectory *const *)t, 5,
                                          &parts[0][0], totals),
                     SR1_OK);
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 2; k++)
            assert_true(marks[i][k] == SR1_REWARD_SCORED ? parts[i][k] == given[i][k]
                                                         : isnan(parts[i][k]));
    assert_int_equal(sr1_reward_set_apply(set, t, 5), SR1_OK);
    for (size_t i = 0; i < 5; i++) {
        double want = i < 3 ? totals_of_trl[i] : NAN;

        assert_true(isnan(want) ? isnan(totals[i]) : totals[i] == want);
        check_applied(t[i], want);
    }
    ops.name = "wrong";
    ops.score_states = tell_wrong_state;
    assert_int_equal(sr1_reward_set_add(set, &ops, NULL, 1), SR1_OK);
    assert_int_equal(sr1_reward_set_apply(set, t, 5), SR1_E_CALLBACK);
    assert_non_null(strstr(sr1_last_error(), "'wrong' of trajectory 0: state 3"));
    sr1_reward_set_free(set);
    for (size_t i = 0; i < 5; i++)
        sr1_trajectory_free(t[i]);
}

/* Metrics hold a name whole, and are JSON. */
static void names_are_short_texts(void **state)
{
    char longest[202];
    sr1_reward_ops ops = {sizeof ops, longest, custom_score, NULL};
    sr1_reward_options o = {sizeof o, "", "", NULL, NULL};
    sr1_reward_set *set = NULL;

    (void)state;
    memset(longest, 'n', 201);
    longest[201] = '\0';
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    assert_int_equal(sr1_reward_set_add(set, &ops, NULL, 1), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "UTF-8 of 1 to 200 bytes"));
    longest[200] = '\0';
    assert_int_equal(sr1_reward_set_add(set, &ops, NULL, 1), SR1_OK);
    ops.name = "caf\xe9";
    assert_int_equal(sr1_reward_set_add(set, &ops, NULL, 1), SR1_E_INVALID);
    assert_int_equal(sr1_reward_set_count(set), 1);
    sr1_reward_set_free(set);
}

/* The array of rewards would move under the loop over it. */
static void a_reward_cannot_add_to_its_own_set(void **state)
{
    struct grower g = {NULL, SR1_OK};
    sr1_reward_ops ops = {sizeof ops, "grower", grow_set, NULL};
    sr1_reward_options o = {sizeof o, "", "", NULL, NULL};
    sr1_trajectory *t[N_RESPONSES];

    (void)state;
    make_all(t);
    assert_int_equal(sr1_reward_set_new(&g.set, &o), SR1_OK);
    assert_int_equal(sr1_reward_set_add(g.set, &ops, &g, 1), SR1_OK);
    assert_int_equal(sr1_reward_set_apply(g.set, t, N_RESPONSES), SR1_OK);
    assert_int_equal(g.status, SR1_E_STATE);
    assert_int_equal(sr1_reward_set_count(g.set), 1);
    ops.name = "after";
    assert_int_equal(sr1_reward_set_add(g.set, &ops, &g, 1), SR1_OK);
    sr1_reward_set_free(g.set);
    free_all(t);
}

/* Every allocation of a set's life fails once: no reward is set then, nothing leaks. */
static void any_allocation_may_fail(void **state)
{
    sr1_reward_options o = {sizeof o, "format,answer,sub_match,f1", "1,1,1,1", NULL,
                            NULL};
    sr1_trajectory *t[N_RESPONSES];
    sr1_status status = SR1_E_NOMEM;
    int64_t k;

    (void)state;
    make_all(t);
    for (k = 1; status != SR1_OK; k++) {
        sr1_reward_set *set = NULL;
        double totals[N_RESPONSES] = {9};

        assert_int_equal(status, SR1_E_NOMEM);
        sr1__mem_fail_at(k);
        status = sr1_reward_set_new(&set, &o);
        if (status == SR1_OK)
            status = sr1_reward_set_score(set, (const sr1_trajectory *const *)t,
                                          N_RESPONSES, NULL, totals);
        sr1__mem_fail_at(0);
        assert_true(status == SR1_OK || totals[0] == 9);
        sr1_reward_set_free(set);
    }
    assert_true(k > 40);
    free_all(t);
}

static sr1_status all_metrics(double *out)
{
    const char *s = "the city of Paris";
    size_t n = strlen(s);

    SR1__TRY(sr1_metric_bleu(s, n, paris, 1, out));
    SR1__TRY(sr1_metric_rouge_n(s, n, paris, 1, 1, out));
    return sr1_metric_rouge_l(s, n, paris, 1, out);
}

static void metrics_survive_no_memory(void **state)
{
    sr1_status status = SR1_E_NOMEM;
    double out;
    int64_t k;

    (void)state;
    for (k = 1; status != SR1_OK; k++) {
        assert_int_equal(status, SR1_E_NOMEM);
        sr1__mem_fail_at(k);
        status = all_metrics(&out);
    }
    sr1__mem_fail_at(0);
    assert_true(k > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_of_the_seed),
        cmocka_unit_test(scales_come_from_the_caller),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(every_builtin_scores),
        cmocka_unit_test(answers_are_compared_in_normal_form),
        cmocka_unit_test(an_environment_gives_rewards),
        cmocka_unit_test(the_default_set_is_the_seed),
        cmocka_unit_test(no_answer_is_no_match),
        cmocka_unit_test(a_missing_gold_answer_is_named),
        cmocka_unit_test(the_key_lists_every_reward),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(callers_can_add_rewards),
        cmocka_unit_test(rewards_need_not_apply_to_all),
        cmocka_unit_test(names_are_short_texts),
        cmocka_unit_test(a_reward_cannot_add_to_its_own_set),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(metrics_survive_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
