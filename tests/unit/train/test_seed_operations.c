/* Every operation of the specification is a public call that works alone, and results
 * carry its names. Only public headers are used for what is tested. */
#include "step_metric.h"
#include "support/tiny.h"

#include <searchr1/ext/estimators.h>
#include <searchr1/ext/kl.h>
#include <searchr1/ext/seed_rewards.h>
#include <searchr1/ext/trajectory_details.h>

#define GROUP 4

static sr1_trainer *trainer;

static int make(void **state)
{
    sr1_config *c;
    sr1_search *e;

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("model", TINY_SEARCHER, 9);
    c = tiny_config("model", "update_times=4", NULL);
    e = tiny_engine();
    OK(sr1_trainer_new(&trainer, c, e));
    sr1_config_free(c);
    sr1_search_free(e);
    return 0;
}

static int clean(void **state)
{
    sr1_trainer_free(trainer);
    return scratch_remove(state);
}

static void generate(sr1_trajectory *t[GROUP])
{
    sr1_query q = tiny_query("Where is the tower?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = GROUP, .seed = 1};

    OK(sr1_rollout_generate(sr1_trainer_rollout(trainer), &q, 1, &o, t));
}

static void generate_trajectory(void **state)
{
    sr1_trajectory *t[GROUP];
    sr1_token_step step = {sizeof step};
    char *json = NULL;
    size_t n;

    (void)state;
    generate(t);
    for (size_t i = 0; i < GROUP; i++) {
        assert_string_equal(sr1_trajectory_query(t[i], &n), "Where is the tower?");
        assert_true(sr1_trajectory_policy_count(t[i]) > 0);
        OK(sr1_trajectory_step(t[i], 0, &step));
        assert_true(step.log_prob <= 0);
    }
    OK(sr1_trajectory_to_json(t[0], &json, &n)); /* the seed's field names */
    assert_non_null(strstr(json, "\"token_steps\""));
    assert_non_null(strstr(json, "\"generated_text\""));
    assert_non_null(strstr(json, "\"full_input_ids\""));
    assert_non_null(strstr(json, "\"generated_positions\""));
    assert_non_null(strstr(json, "\"final_answer\""));
    assert_non_null(strstr(json, "\"advantage\""));
    sr1_free(json);
    tiny_free_all(t, GROUP);
}

static void check_format_correctness(void **state)
{
    static const struct {
        const char *text;
        double want;
    } cases[] = {
        {"<think>a</think><answer>Paris</answer>", 0.5},
        {"<search>t</search><information>x</information><answer>P</answer>", 0.5},
        {"<search>t</search><answer>P</answer>", -1.0},
        {"<answer>P", -1.0},
        {"", -1.0}};
    sr1_reward_scales scales = {.struct_size = sizeof scales};

    (void)state;
    sr1_reward_scales_init(&scales);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double got = 0;

        OK(sr1_reward_check_format(cases[i].text, strlen(cases[i].text), &scales, &got));
        assert_true(got == cases[i].want);
    }
}

static void check_answer_correctness(void **state)
{
    static const char *const truth[] = {"Paris"};
    static const struct {
        const char *answer;
        double want;
    } cases[] = {
        {"Paris", 2.0},
        {"paris ", 1.0},
        {"Pariss", 1.0},
        {"Rome", 0.0},
        {"", 0.0},
        {"\xE6\x9C\xAA\xE6\x89\xBE\xE5\x88\xB0\xE7\x9B\xB8\xE5\x85\xB3\xE5\x86\x85"
         "\xE5\xAE\xB9",
         0.5}};
    sr1_reward_scales scales = {.struct_size = sizeof scales};

    (void)state;
    sr1_reward_scales_init(&scales);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double got = -1;

        OK(sr1_reward_check_answer(cases[i].answer, strlen(cases[i].answer), truth, 1,
                                   &scales, &got));
        assert_true(got == cases[i].want);
    }
}

static void compute_reward(void **state)
{
    static const char text[] = "<answer>Paris</answer>";
    static const char *const truth[] = {"Paris"};
    sr1_reward_scales scales = {.struct_size = sizeof scales};
    double total = 0;

    (void)state;
    sr1_reward_scales_init(&scales);
    OK(sr1_reward_total(text, strlen(text), truth, 1, &scales, &total));
    assert_true(total == 2.5);
}

static void compute_advantages(void **state)
{
    const double rewards[3] = {1, 2, 6};
    double out[3];

    (void)state;
    OK(sr1_advantage_group(rewards, 3, SR1_ADVANTAGE_EPS, out));
    tiny_near(out[0], -2 / sqrt(14.0 / 3), 1e-6);
    tiny_near(out[2], 3 / sqrt(14.0 / 3), 1e-6);
    OK(sr1_advantage_group(rewards, 1, SR1_ADVANTAGE_EPS, out));
    assert_true(out[0] == 0);
}

static void compute_kl_divergence(void **state)
{
    const double old[2] = {-1, -2}, now[2] = {-1.5, -2};
    double mean = 0;

    (void)state;
    OK(sr1_kl_k3(old, now, 2, &mean));
    tiny_near(mean, (exp(0.5) - 0.5 - 1) / 2, 1e-12);
}

static void recompute_log_probs(void **state)
{
    sr1_trajectory *t[GROUP];
    size_t total = 0, at = 0;
    float *again;

    (void)state;
    generate(t);
    for (size_t i = 0; i < GROUP; i++)
        total += sr1_trajectory_policy_count(t[i]);
    again = calloc(total, sizeof *again);
    OK(sr1_rollout_log_probs(sr1_trainer_rollout(trainer),
                             (const sr1_trajectory *const *)t, GROUP, again, total));
    for (size_t i = 0; i < GROUP; i++)
        for (size_t k = 0; k < sr1_trajectory_policy_count(t[i]); k++)
            tiny_near(again[at++], sr1_trajectory_policy_log_probs(t[i])[k], 1e-4);
    free(again);
    tiny_free_all(t, GROUP);
}

static double sum_of(const float *v, size_t n)
{
    double s = 0;

    for (size_t i = 0; i < n; i++)
        s += v[i];
    return s;
}

static void update_policy(void **state)
{
    sr1_trajectory *t[GROUP];
    sr1_step_report r = {.struct_size = sizeof r};
    double better;
    float again[64];
    size_t n;

    (void)state;
    generate(t);
    for (size_t i = 0; i < GROUP; i++) {
        OK(sr1_trajectory_set_reward(t[i], i == 0));
        OK(sr1_trajectory_set_advantage(t[i], i == 0 ? 1.5 : -0.5));
    }
    n = sr1_trajectory_policy_count(t[0]);
    OK(sr1_trainer_update(trainer, t, GROUP, &r));
    assert_true(isfinite(r.loss) && r.kl_div > 0 && r.avg_reward == 0.25 &&
                r.beta == 0.1);
    assert_true(r.avg_tokens > 1 && r.grad_norm > 0 && r.trained == GROUP);
    /* what did well is likelier now */
    OK(sr1_rollout_log_probs(sr1_trainer_rollout(trainer),
                             (const sr1_trajectory *const *)t, 1, again, n));
    better = sum_of(again, n) - sum_of(sr1_trajectory_policy_log_probs(t[0]), n);
    assert_true(better > 0);
    tiny_free_all(t, GROUP);
}

static void train_step(void **state)
{
    sr1_query q[2] = {tiny_query("Where is the tower?"),
                      tiny_query("Where does it stand?")};
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_trajectory *t[2 * GROUP];
    int64_t before = sr1_trainer_steps_done(trainer);
    double sum = 0, tokens = 0, searched = 0;

    (void)state;
    OK(sr1_trainer_train_step(trainer, q, 2, GROUP, &r, t));
    assert_int_equal(sr1_trainer_steps_done(trainer), before + 1);
    assert_int_equal(r.step, before + 1);
    for (size_t i = 0; i < 2 * GROUP; i++) {
        assert_true(sr1_trajectory_has_reward(t[i]) &&
                    sr1_trajectory_has_advantage(t[i]));
        assert_int_equal(sr1_trajectory_reward_component_count(t[i]), 2);
        sum += sr1_trajectory_reward(t[i]);
        tokens += (double)sr1_trajectory_policy_count(t[i]);
        searched += sr1_trajectory_search_count(t[i]) > 0;
    }
    tiny_near(r.avg_reward, sum / 8, 1e-12);
    tiny_near(r.avg_tokens, tokens / 8, 1e-12);
    tiny_near(r.search_trajectories, searched / 8, 1e-12);
    assert_int_equal(step_metric(&r, "training/policy_tokens"), (int64_t)tokens);
    tiny_free_all(t, 2 * GROUP);
    /* groups of one teach nothing and break nothing */
    OK(sr1_trainer_train_step(trainer, q, 1, 1, &r, t));
    assert_true(sr1_trajectory_advantage(t[0]) == 0);
    sr1_trajectory_free(t[0]);
    REFUSED(sr1_trainer_train_step(trainer, q, 1, -1, &r, t), SR1_E_INVALID,
            "group_size is -1, not at least 1");
    REFUSED(sr1_trainer_train_step(trainer, q, SIZE_MAX / 8, 1, &r, NULL), SR1_E_INVALID,
            "questions of 1 trajectories are too many");
    /* the report of an older caller is filled as far as it goes */
    r = (sr1_step_report){.struct_size = offsetof(sr1_step_report, kl_div), .kl_div = 42};
    OK(sr1_trainer_train_step(trainer, q, 1, 2, &r, NULL));
    assert_true(r.kl_div == 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generate_trajectory),
        cmocka_unit_test(check_format_correctness),
        cmocka_unit_test(check_answer_correctness),
        cmocka_unit_test(compute_reward),
        cmocka_unit_test(compute_advantages),
        cmocka_unit_test(compute_kl_divergence),
        cmocka_unit_test(recompute_log_probs),
        cmocka_unit_test(update_policy),
        cmocka_unit_test(train_step),
    };

    return cmocka_run_group_tests(tests, make, clean);
}
