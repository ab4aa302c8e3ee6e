/* Training on conversations with tools: a demonstration has the tokens of a rollout that
 * said the same, and steps with turn rewards are made. */
#include "step_metric.h"
#include "support/tiny.h"

#include "train/internal.h"

static int make(void **state)
{
    static const struct tiny_rule either[] = {
        {"", "<tool>"},          {"<tool>", TINY_CALL},  {TINY_CALL, "</tool>"},
        {"", "<answer>"},        {"<answer>", " Paris"}, {"<answer>", " Rome"},
        {" Paris", "</answer>"}, {" Rome", "</answer>"}};
    static const struct tiny_rule wrong[] = {
        {"", "<tool>"}, {"<tool>", " Paris"}, {" Paris", "</tool>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("model", either, 8, 12);
    tiny_model("wrong", wrong, 3, 12);
    return 0;
}

static sr1_config *config(const char *more, const char *and)
{
    return tiny_config("model", "protocol=mt-grpo", "environment=tools",
                       "max_env_steps=1", "max_tokens=40", more, and, NULL);
}

/* Segment i of a trajectory as one of a demonstration; of a message without its border.
 */
static json_t *segment(const sr1_trajectory *t, size_t i)
{
    const char *text = sr1_trajectory_generated_text(t, NULL), *begin, *end;
    sr1_text_segment s = {sizeof s};
    int policy;

    OK(sr1_trajectory_segment(t, i, &s));
    policy = s.source == SR1_SOURCE_POLICY;
    begin = policy ? text + s.text_begin : strstr(text + s.text_begin, "<result>");
    end = policy ? begin + s.text_len : strstr(begin, "</result>") + strlen("</result>");
    return json_pack("{s:s, s:s%}", "source", policy ? "policy" : "environment", "text",
                     begin, (size_t)(end - begin));
}

static const char *write_demo(const sr1_trajectory *t)
{
    json_t *segments = json_array(),
           *row = json_pack("{s:s, s:o}", "question", "Where?", "segments", segments);
    struct sr1__buf line;
    static char pair[600];

    for (size_t i = 0; i < sr1_trajectory_segment_count(t); i++)
        json_array_append_new(segments, segment(t, i));
    sr1__buf_init(&line, 0);
    OK(sr1__json_dump(row, 0, &line));
    snprintf(pair, sizeof pair, "sft_file=%s", scratch_file("demo.jsonl", line.data, 0));
    sr1__buf_free(&line);
    json_decref(row);
    return pair;
}

/* One that calls the tool and then answers. */
static sr1_trajectory *roll(void)
{
    sr1_rollout *r = tiny_rollout(config("seed=11", "seed=11"), tiny_engine());
    sr1_trajectory *found = tiny_find_answer(r, 16, 1, 2);

    sr1_rollout_free(r);
    return found;
}

static void a_demonstration_has_the_tokens_of_a_rollout(void **state)
{
    sr1_trajectory *said = roll(), *shown = NULL;
    sr1_trainer *tr = tiny_trainer(config("stage=sft", write_demo(said)));
    size_t n = sr1_trajectory_token_count(said);

    (void)state;
    OK(sr1__sft_example(tr, 0, &shown));
    assert_int_equal(sr1_trajectory_token_count(shown), n);
    assert_memory_equal(sr1_trajectory_ids(shown), sr1_trajectory_ids(said),
                        n * sizeof(int32_t));
    assert_memory_equal(sr1_trajectory_policy_mask(shown),
                        sr1_trajectory_policy_mask(said), n);
    assert_memory_equal(sr1_trajectory_turns(shown), sr1_trajectory_turns(said),
                        n * sizeof(int32_t));
    assert_string_equal(sr1_trajectory_generated_text(shown, NULL),
                        sr1_trajectory_generated_text(said, NULL));
    sr1_trajectory_free(shown);
    sr1_trajectory_free(said);
    sr1_trainer_free(tr);
}

static void steps_are_made(void **state)
{
    sr1_trainer *tr = tiny_trainer(
        config("rewards=tool_execution,answer_in_results,mt_exact_match,mt_format,xml",
               "skip_zero_variance_groups=false"));
    sr1_query q = tiny_query("Where?");

    (void)state;
    for (int i = 0; i < 2; i++) {
        sr1_step_report r = {.struct_size = sizeof r};

        OK(sr1_trainer_train_step(tr, &q, 1, 0, &r, NULL));
        assert_int_equal(step_metric(&r, "training/excluded_trajectories"), 0);
        assert_true(r.avg_reward > 0 && r.avg_reward < 2.6);
        assert_true(step_metric(&r, "env/number_of_searches") > 0);
        assert_true(step_metric(&r, "env/refused_rate") == 0);
    }
    sr1_trainer_free(tr);
}

/* No call of this model can be read. */
static void refused_calls_are_a_share_of_the_actions(void **state)
{
    sr1_trainer *tr = tiny_trainer(
        tiny_config("wrong", "protocol=mt-grpo", "environment=tools", "max_env_steps=2",
                    "max_tokens=40", "skip_zero_variance_groups=false", NULL));
    sr1_query q = tiny_query("Where?");
    sr1_step_report r = {.struct_size = sizeof r};

    (void)state;
    OK(sr1_trainer_train_step(tr, &q, 1, 0, &r, NULL));
    assert_true(step_metric(&r, "env/number_of_searches") > 0);
    assert_true(step_metric(&r, "env/refused_rate") == 1);
    sr1_trainer_free(tr);
}

/* The turn's advantage is on the tokens up to the result, not behind it. */
static void turns_have_credit_of_their_own(void **state)
{
    sr1_trainer *tr = tiny_trainer(
        config("rewards=tool_execution,mt_exact_match", "advantage=mt_grpo"));
    sr1_query q = tiny_query("Where?");
    sr1_trajectory *t[16] = {NULL};
    size_t called = 0, not_called = 0;

    (void)state;
    OK(sr1_trainer_train_step(tr, &q, 1, 16, NULL, t));
    for (size_t i = 0; i < 16; i++) {
        const float *a = sr1_trajectory_column(t[i], SR1_COLUMN_ADVANTAGE);
        const int32_t *turns = sr1_trajectory_turns(t[i]);
        const int32_t *at = sr1_trajectory_policy_positions(t[i]);
        size_t n = sr1_trajectory_policy_count(t[i]);

        assert_non_null(a);
        if (sr1_trajectory_search_count(t[i]) == 0) {
            for (size_t k = 1; k < n; k++)
                assert_true(a[k] == a[0]);
            not_called++;
            continue;
        }
        if (turns[at[n - 1]] == 0)
            continue;
        called++;
        for (size_t k = 1; k < n; k++)
            assert_true(turns[at[k]] == turns[at[k - 1]] ? a[k] == a[k - 1]
                                                         : a[k] < a[k - 1]);
    }
    if (called == 0 || not_called == 0)
        fail_msg("%zu of 16 called the tool, %zu did not", called, not_called);
    tiny_free_all(t, 16);
    sr1_trainer_free(tr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_demonstration_has_the_tokens_of_a_rollout),
        cmocka_unit_test(steps_are_made),
        cmocka_unit_test(refused_calls_are_a_share_of_the_actions),
        cmocka_unit_test(turns_have_credit_of_their_own),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
