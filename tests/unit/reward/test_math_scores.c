/* Scores of worked solutions: verl's own on the vectors of tests/golden, and rewards of
 * trajectories and rows as published. */
#include "responses.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "signal/reward/math_scores.h"

#include <searchr1/data.h>
#include <searchr1/reward.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/text_metrics.h>

#include "../../support/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef sr1_status (*solution_fn)(const char *solution, size_t len,
                                  const char *const *truths, size_t n, double *out);

static const struct {
    const char *name;
    solution_fn score;
    sr1__extract_fn extract;
} scorers[] = {{"gsm8k", sr1_reward_gsm8k, sr1__extract_gsm8k},
               {"math_reward", sr1_reward_math_reward, sr1__extract_math_reward},
               {"math_dapo", sr1_reward_math_dapo, sr1__extract_math_dapo}};

#define SCORERS (sizeof(scorers) / sizeof(scorers[0]))

/* ---- verl ---- */

/* How often each scorer gave 1, and found an answer. */
static int matches[SCORERS], answers[SCORERS];

static void check_answer(const json_t *row, size_t k)
{
    const json_t *solution = json_object_get(row, "solution");
    const char *want =
        json_string_value(json_array_get(json_object_get(row, "answers"), k));
    struct sr1__str text = {json_string_value(solution), json_string_length(solution)};
    struct sr1__buf got;

    sr1__buf_init(&got, 0);
    assert_int_equal(scorers[k].extract(text, &got), SR1_OK);
    if (strcmp(got.len ? got.data : "", want) != 0)
        fail_msg("%s compares '%s' of '%s', not '%s'", scorers[k].name,
                 got.len ? got.data : "", text.s, want);
    answers[k] += *want != '\0';
    sr1__buf_free(&got);
}

static void check_row(const json_t *row)
{
    const json_t *solution = json_object_get(row, "solution");
    const char *truth = json_string_value(json_object_get(row, "truth"));

    assert_non_null(truth);
    for (size_t k = 0; k < SCORERS; k++) {
        double got = 9, want = json_number_value(json_object_get(row, scorers[k].name));

        assert_int_equal(scorers[k].score(json_string_value(solution),
                                          json_string_length(solution), &truth, 1, &got),
                         SR1_OK);
        if (got != want)
            fail_msg("%s of '%s' for '%s' is %g, not %g", scorers[k].name,
                     json_string_value(solution), truth, got, want);
        matches[k] += got == 1;
        check_answer(row, k);
    }
}

static void scores_are_verls(void **state)
{
    char path[4096];
    struct sr1__buf text;
    int rows = 0;

    (void)state;
    snprintf(path, sizeof(path), "%s/tests/golden/math_scores.jsonl", getenv("SR1_SRC"));
    assert_int_equal(sr1__file_read(path, (size_t)1 << 24, &text), SR1_OK);
    for (const char *at = text.data, *end; (end = strchr(at, '\n')); at = end + 1) {
        json_t *row = NULL;

        assert_int_equal(sr1__json_parse(&row, at, (size_t)(end - at), "vector"), SR1_OK);
        check_row(row);
        json_decref(row);
        rows++;
    }
    sr1__buf_free(&text);
    assert_true(rows > 500);
    for (size_t k = 0; k < SCORERS; k++)
        assert_in_range(matches[k], 20, rows - 20);
    for (size_t k = 0; k < SCORERS; k++)
        assert_in_range(answers[k], 20, rows - 20);
}

/* Bytes that are no UTF-8 count as characters. */
static void any_bytes_are_scored(void **state)
{
    static const char broken[] = "\xff\xff Answer: \xc3 #### 5 \\boxed{\xe2\x82}\xff";
    static const char *const truths[] = {"\xc3", "\xe2\x82"};
    double out;

    (void)state;
    for (size_t k = 0; k < SCORERS; k++)
        assert_int_equal(scorers[k].score(broken, strlen(broken), truths, 2, &out),
                         SR1_OK);
    assert_int_equal(sr1_reward_math_reward(broken, strlen(broken), truths, 2, &out),
                     SR1_OK);
    assert_true(out == 1);
    for (size_t k = 0; k < SCORERS; k++) {
        out = 9;
        assert_int_equal(scorers[k].score(NULL, 1, truths, 2, &out), SR1_E_INVALID);
        assert_int_equal(scorers[k].score("x", 1, truths, 0, &out), SR1_E_INVALID);
        assert_true(out == 9);
        assert_int_equal(scorers[k].score(NULL, 0, truths, 2, &out), SR1_OK);
        assert_true(out == (k == 2 ? -1 : 0));
    }
}

/* Rules that write more than they read, on as much as they may get. */
static void long_answers_are_scored(void **state)
{
    static const char *const parts[] = {"\\frac12", "\\sqrt3", "{", "$x$ ", " .", "frac"};
    size_t n = (size_t)1 << 18;
    char *text = malloc(n + 32);
    double out;

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t len = strlen(parts[i]), at = 7;
        const char *truth = text + 7;

        memcpy(text, "\\boxed{", 7);
        for (; at + len < n; at += len)
            memcpy(text + at, parts[i], len);
        text[at] = '\0';
        for (size_t k = 0; k < SCORERS; k++)
            assert_int_equal(scorers[k].score(text, at, &truth, 1, &out), SR1_OK);
    }
    free(text);
}

/* ---- trajectories ---- */

/* A message without tags, an answer in tags, one that was cut short, and none. */
static void solutions_of_trajectories_are_scored(void **state)
{
    static const struct response by[] = {
        {{"Answer: 5\n#### 5"},
         "It is \\boxed{1/2}\nAnswer: $1,080$\n#### 1,080",
         {" 1,080\n"}},
        {{"6 * 3 = 18, \\boxed{18}"}, NULL, {"17", "18"}},
        {{"<search>q</search>", "#### 18", "#### 17"}, NULL, {"18"}},
        {{""}, NULL, {"18"}},
    };
    static const double want[][SCORERS] = {{1, 0, 1}, {0, 1, 1}, {0, 0, -1}, {0, 0, -1}};
    sr1_reward_options o = {.struct_size = sizeof(o),
                            .rewards = "gsm8k,math_reward,math_dapo"};
    sr1_reward_set *set = NULL;

    (void)state;
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    for (size_t i = 0; i < sizeof(by) / sizeof(by[0]); i++) {
        sr1_trajectory *t = NULL;
        double parts[SCORERS], total;

        assert_int_equal(make_trajectory(&by[i], &t), SR1_OK);
        assert_int_equal(sr1_reward_set_score(set, (const sr1_trajectory *const *)&t, 1,
                                              parts, &total),
                         SR1_OK);
        for (size_t k = 0; k < SCORERS; k++)
            if (parts[k] != want[i][k])
                fail_msg("trajectory %zu, %s: %g", i, scorers[k].name, parts[k]);
        sr1_trajectory_free(t);
    }
    sr1_reward_set_free(set);
}

static void a_solution_needs_a_gold_answer(void **state)
{
    static const struct response none = {{"#### 18"}, NULL, {NULL}};
    sr1_reward_options o = {.struct_size = sizeof(o)};
    sr1_trajectory *t = NULL;

    (void)state;
    assert_int_equal(make_trajectory(&none, &t), SR1_OK);
    for (size_t k = 0; k < SCORERS; k++) {
        sr1_reward_set *set = NULL;

        o.rewards = scorers[k].name;
        assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
        assert_int_equal(sr1_reward_set_apply(set, &t, 1), SR1_E_INVALID);
        assert_non_null(strstr(sr1_last_error(), scorers[k].name));
        sr1_reward_set_free(set);
    }
    sr1_trajectory_free(t);
}

/* ---- rows as published ---- */

static void check_published(const char *text, const char *answer, const char *solution,
                            solution_fn score)
{
    const char *path = scratch_file("rows.jsonl", text, 0), *truth;
    sr1_dataset *d = NULL;
    sr1_row *row = NULL;
    double out = 0;

    assert_int_equal(sr1_dataset_open(&d, &path, 1, NULL), SR1_OK);
    assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
    assert_int_equal(sr1_row_answer_count(row), 1);
    truth = sr1_row_answer(row, 0);
    assert_string_equal(truth, answer);
    assert_int_equal(score(solution, strlen(solution), &truth, 1, &out), SR1_OK);
    assert_true(out == 1);
    sr1_row_free(row);
    sr1_dataset_free(d);
}

static void published_rows_are_scored(void **state)
{
    (void)state;
    check_published("{\"question\": \"How many?\", \"answer\": \"12 * 90 = "
                    "<<12*90=1080>>1,080.\\n#### 1,080\"}",
                    "1,080", "12 * 90 = 1080.\n#### 1080", sr1_reward_gsm8k);
    check_published("{\"problem\": \"What is it?\", \"level\": \"Level 5\", \"type\": "
                    "\"Algebra\", \"solution\": \"Half of one: "
                    "$\\\\boxed{\\\\dfrac{1}{2}}$.\"}",
                    "\\dfrac{1}{2}", "So \\boxed{1/2}.", sr1_reward_math_reward);
    check_published("{\"problem\": \"What is it?\", \"solution\": \"\\\\boxed{18}\", "
                    "\"answer\": \"18\", \"subject\": \"Algebra\", \"level\": 5, "
                    "\"unique_id\": \"test/algebra/1.json\"}",
                    "18", "Answer: $18$", sr1_reward_math_dapo);
    check_published("{\"data_source\": \"math_dapo\", \"prompt\": [{\"role\": \"user\", "
                    "\"content\": \"What is it?\"}], \"ability\": \"MATH\", "
                    "\"reward_model\": {\"ground_truth\": \"34\", \"style\": "
                    "\"rule-lighteval/MATH_v2\"}, \"extra_info\": {\"index\": \"9a9b\"}}",
                    "34", "Answer: 34", sr1_reward_math_dapo);
}

/* ---- memory ---- */

static sr1_status score_all(double *out)
{
    static const char text[] = "\\boxed{\\frac12 .5} #### 5 \n Answer: $\\sqrt3$, 1,080";
    static const char *const truths[] = {"x=\\frac12\\sqrt3", "1,080"};

    for (size_t k = 0; k < SCORERS; k++)
        SR1__TRY(scorers[k].score(text, strlen(text), truths, 2, out));
    return SR1_OK;
}

static void any_allocation_may_fail(void **state)
{
    sr1_status status = SR1_E_NOMEM;
    double out;
    int64_t k;

    (void)state;
    for (k = 1; status != SR1_OK; k++) {
        assert_int_equal(status, SR1_E_NOMEM);
        sr1__mem_fail_at(k);
        status = score_all(&out);
    }
    sr1__mem_fail_at(0);
    assert_true(k > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_verls),
        cmocka_unit_test(any_bytes_are_scored),
        cmocka_unit_test(long_answers_are_scored),
        cmocka_unit_test(solutions_of_trajectories_are_scored),
        cmocka_unit_test(a_solution_needs_a_gold_answer),
        cmocka_unit_test(published_rows_are_scored),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
