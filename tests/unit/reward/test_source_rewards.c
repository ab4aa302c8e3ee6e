/* Rewards by the data source of a row (data_source_rewards). */
#include "responses.h"

#include "base/mem.h"

#include <searchr1/reward.h>
#include <searchr1/ext/reward_set.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* What the policy said to a question of a data source; truth NULL: it has no answer. */
static sr1_trajectory *say(const char *source, const char *text, const char *truth)
{
    struct sr1__trajectory_context c = {.temperature = 1,
                                        .top_p = 1,
                                        .data_source = source,
                                        .ground_truths = &truth,
                                        .n_ground_truths = truth != NULL};
    const struct response r = {{text}, NULL, {NULL}};
    struct sr1__trajectory_builder *b = NULL;
    sr1_trajectory *t = NULL;

    assert_int_equal(sr1__trajectory_builder_new(&b, "q", 1, NULL, 0), SR1_OK);
    assert_int_equal(sr1__trajectory_builder_context(b, &c), SR1_OK);
    assert_int_equal(add_pieces(b, &r), SR1_OK);
    assert_int_equal(sr1__trajectory_builder_finish(b, SR1_STOP_ANSWER, "", 0, &t),
                     SR1_OK);
    return t;
}

static sr1_reward_set *open_set(const char *rewards, const char *weights,
                                const char *sources)
{
    sr1_reward_options o = {.struct_size = sizeof(o),
                            .rewards = rewards,
                            .weights = weights,
                            .data_source_rewards = sources};
    sr1_reward_set *set = NULL;

    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    return set;
}

static void free_trajectories(sr1_trajectory **t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sr1_trajectory_free(t[i]);
}

/* The entry of the source itself, of its longest beginning, and of all others. */
static void sources_have_their_rewards(void **state)
{
    sr1_reward_set *set = open_set(
        "gsm8k,math_reward,format,mt_format", "1,2,0.5,0",
        "openai/gsm8k=gsm8k + format, a*=format,aime*=math_reward,aime/2024=gsm8k,"
        "*=format");
    sr1_trajectory *t[] = {say("openai/gsm8k", "#### 18", "18"),
                           say("aime/2025", "\\boxed{5}", "5"),
                           say("aime/2024", "\\boxed{5}", "5"),
                           say("amc", "\\boxed{5}", NULL), say("", "#### 18", NULL)};
    static const double want[5][3] = {
        {1, NAN, -1}, {NAN, 1, NAN}, {0, NAN, NAN}, {NAN, NAN, -1}, {NAN, NAN, -1}};
    static const double sums[5] = {0.5, 2, 0, -0.5, -0.5};
    double parts[5][4], totals[5];

    (void)state;
    assert_int_equal(sr1_reward_set_score(set, (const sr1_trajectory *const *)t, 5,
                                          &parts[0][0], totals),
                     SR1_OK);
    assert_int_equal(sr1_reward_set_apply(set, t, 5), SR1_OK);
    for (size_t i = 0; i < 5; i++) {
        for (size_t k = 0; k < 3; k++)
            if (isnan(want[i][k]) ? !isnan(parts[i][k]) : parts[i][k] != want[i][k])
                fail_msg("trajectory %zu, reward %zu: %g", i, k, parts[i][k]);
        assert_true(isfinite(parts[i][3])); /* no entry names it */
        assert_true(totals[i] == sums[i]);
        assert_true(sr1_trajectory_reward(t[i]) == sums[i]);
    }
    sr1_reward_set_free(set);
    free_trajectories(t, 5);
}

static void a_source_without_an_entry_is_refused(void **state)
{
    sr1_reward_set *set = open_set("gsm8k,format", NULL, "openai/gsm8k=gsm8k");
    sr1_trajectory *t[] = {say("openai/gsm8k", "#### 18", "18"), say("nq", "x", "x")};

    (void)state;
    assert_int_equal(sr1_reward_set_apply(set, t, 2), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "no entry for the data source 'nq'"));
    assert_false(sr1_trajectory_has_reward(t[0]));
    assert_int_equal(sr1_reward_set_apply(set, t, 1), SR1_OK);
    sr1_reward_set_free(set);
    free_trajectories(t, 2);
}

static void wrong_entries_are_named(void **state)
{
    static const struct {
        const char *sources, *said;
    } cases[] = {
        {"gsm8k", "'gsm8k' is not SOURCE=REWARD"},
        {"=gsm8k", "'=gsm8k' is not SOURCE=REWARD"},
        {"a=", "'a=' is not SOURCE=REWARD"},
        {"a=gsm8k+", "'a=gsm8k+' is not SOURCE=REWARD"},
        {"a=gsm8k++f1", "'a=gsm8k++f1' is not SOURCE=REWARD"},
        {"a=gsm8k,,b=f1", "'' is not SOURCE=REWARD"},
        {"a=gsm8k,a=gsm8k", "'a' has the reward 'gsm8k' twice"},
        {"a*=gsm8k+gsm8k", "'a*' has the reward 'gsm8k' twice"},
    };
    sr1_reward_options o = {.struct_size = sizeof(o), .rewards = "gsm8k,f1"};
    sr1_trajectory *t = say("a=b", "#### 18", "18");
    sr1_reward_set *set = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        o.data_source_rewards = cases[i].sources;
        assert_int_equal(sr1_reward_set_new(&set, &o), SR1_E_CONFIG);
        assert_null(set);
        if (!strstr(sr1_last_error(), cases[i].said))
            fail_msg("%s: %s", cases[i].sources, sr1_last_error());
    }
    set = open_set("gsm8k", NULL, "a=b=gsm8k,*=mine");
    assert_int_equal(sr1_reward_set_apply(set, &t, 1), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "'mine' is none of the rewards"));
    sr1_reward_set_free(set);
    sr1_trajectory_free(t);
}

/* ---- rewards of the caller's ---- */

struct mine {
    int begun, scored, turns;
};

static sr1_status begin_mine(void *self, sr1_trajectory *t)
{
    (void)t;
    ((struct mine *)self)->begun++;
    return SR1_OK;
}

static sr1_status score_mine(void *self, const sr1_trajectory *const *t, size_t n,
                             double *out)
{
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(sr1_trajectory_data_source(t[i]), "mine");
        out[i] = sr1_trajectory_ground_truth_count(t[i]) > 0 ? NAN : 3;
        ((struct mine *)self)->scored++;
    }
    return SR1_OK;
}

static sr1_status score_mines_turns(void *self, const sr1_trajectory *t, double *out)
{
    assert_string_equal(sr1_trajectory_data_source(t), "mine");
    ((struct mine *)self)->turns++;
    out[0] = 1;
    return SR1_OK;
}

/* It is begun, called and split over turns for its sources alone. */
static void rewards_see_their_sources_alone(void **state)
{
    struct mine mine = {0};
    sr1_reward_ops ops = {.struct_size = sizeof(ops),
                          .name = "mine",
                          .score = score_mine,
                          .begin = begin_mine,
                          .level = SR1_REWARD_TURN,
                          .score_turns = score_mines_turns};
    sr1_reward_set *set = open_set("format", NULL, "mine=mine,*=format");
    sr1_trajectory *t[] = {say("nq", "x", NULL), say("mine", "x", NULL),
                           say("mine", "x", "x")};
    static const int64_t begin[] = {0, 1, 2};
    double turns[2];

    (void)state;
    assert_int_equal(sr1_reward_set_add(set, &ops, &mine, 0.5), SR1_OK);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(sr1_reward_set_begin(set, t[i]), SR1_OK);
    assert_int_equal(sr1_reward_set_apply(set, t, 2), SR1_OK);
    assert_true(sr1_trajectory_reward(t[1]) == 1.5);
    assert_int_equal(sr1_reward_set_score_turns(set, (const sr1_trajectory *const *)t, 2,
                                                begin, NULL, turns),
                     SR1_OK);
    assert_true(turns[0] == 0 && turns[1] == 1.5);
    assert_int_equal(mine.begun, 1);
    assert_int_equal(mine.scored, 2);
    assert_int_equal(mine.turns, 1);
    /* an error names the trajectory by its place among all */
    assert_int_equal(sr1_reward_set_apply(set, t, 3), SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "'mine' of trajectory 2 is not finite"));
    sr1_reward_set_free(set);
    free_trajectories(t, 3);
}

static void any_allocation_may_fail(void **state)
{
    sr1_reward_options o = {.struct_size = sizeof(o),
                            .rewards = "format,gsm8k",
                            .data_source_rewards = "a=gsm8k+format,*=format"};
    sr1_trajectory *t[] = {say("a", "#### 18", "18"), say("b", "x", NULL)};
    sr1_status status = SR1_E_NOMEM;
    int64_t k;

    (void)state;
    for (k = 1; status != SR1_OK; k++) {
        sr1_reward_set *set = NULL;
        double totals[2] = {9, 9};

        assert_int_equal(status, SR1_E_NOMEM);
        sr1__mem_fail_at(k);
        status = sr1_reward_set_new(&set, &o);
        if (status == SR1_OK)
            status = sr1_reward_set_score(set, (const sr1_trajectory *const *)t, 2, NULL,
                                          totals);
        sr1__mem_fail_at(0);
        assert_true(status == SR1_OK || totals[0] == 9);
        sr1_reward_set_free(set);
    }
    assert_true(k > 15);
    free_trajectories(t, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_have_their_rewards),
        cmocka_unit_test(a_source_without_an_entry_is_refused),
        cmocka_unit_test(wrong_entries_are_named),
        cmocka_unit_test(rewards_see_their_sources_alone),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
