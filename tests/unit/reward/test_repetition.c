/* The reward repetition_penalty: TRL's numbers, and several turns. */
#include "responses.h"

#include "base/file.h"
#include "base/json.h"

#include <searchr1/reward.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/seed_rewards.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct sr1__trajectory_builder *begin_trajectory(void)
{
    static const int32_t prompt[1] = {1};
    struct sr1__trajectory_builder *b = NULL;

    assert_int_equal(sr1__trajectory_builder_new(&b, "q", 1, NULL, 0), SR1_OK);
    assert_int_equal(sr1__trajectory_builder_prompt(b, prompt, 1), SR1_OK);
    return b;
}

static void add_ids(struct sr1__trajectory_builder *b, const int32_t *ids, size_t n,
                    int32_t turn)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sr1__trajectory_builder_policy(b, ids[i], -1, turn, "x", 1),
                         SR1_OK);
}

/* The reward of what was built, which ends. */
static double score_built(struct sr1__trajectory_builder *b, const sr1_reward_scales *s)
{
    sr1_reward_options o = {
        .struct_size = sizeof(o), .rewards = "repetition_penalty", .scales = s};
    sr1_reward_set *set = NULL;
    sr1_trajectory *t = NULL;
    double total = 9;

    assert_int_equal(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t),
                     SR1_OK);
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    assert_int_equal(
        sr1_reward_set_score(set, (const sr1_trajectory *const *)&t, 1, NULL, &total),
        SR1_OK);
    sr1_reward_set_free(set);
    sr1_trajectory_free(t);
    return total;
}

static void check_row(const json_t *row)
{
    const json_t *list = json_object_get(row, "ids");
    double want = json_number_value(json_object_get(row, "score")), got;
    struct sr1__trajectory_builder *b = begin_trajectory();
    sr1_reward_scales s = {.struct_size = sizeof(s)};

    sr1_reward_scales_init(&s);
    s.repetition_n_grams = json_integer_value(json_object_get(row, "n"));
    s.repetition_max_penalty = json_number_value(json_object_get(row, "max_penalty"));
    for (size_t i = 0; i < json_array_size(list); i++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(list, i));

        add_ids(b, &id, 1, 0);
    }
    got = score_built(b, &s);
    if (got != want)
        fail_msg("%d-grams of %zu tokens: %g, not %g", (int)s.repetition_n_grams,
                 json_array_size(list), got, want);
}

static void penalties_are_trls(void **state)
{
    char path[4096];
    struct sr1__buf text;
    int rows = 0;

    (void)state;
    snprintf(path, sizeof(path), "%s/tests/golden/repetition.jsonl", getenv("SR1_SRC"));
    assert_int_equal(sr1__file_read(path, (size_t)1 << 24, &text), SR1_OK);
    for (const char *at = text.data, *end; (end = strchr(at, '\n')); at = end + 1) {
        json_t *row = NULL;

        assert_int_equal(sr1__json_parse(&row, at, (size_t)(end - at), "vector"), SR1_OK);
        check_row(row);
        json_decref(row);
        rows++;
    }
    sr1__buf_free(&text);
    assert_int_equal(rows, 150);
}

/* Of the two turns 1 2 3 and 1 2 3 each 2-gram comes twice, but not 3 1, which would
 * reach over the result; its own ids 5 6 5 6 count nowhere. */
static void inserted_tokens_are_no_repetition(void **state)
{
    static const int32_t ids[3] = {1, 2, 3};
    sr1_reward_scales s = {.struct_size = sizeof(s)};
    struct sr1__trajectory_builder *b = begin_trajectory();

    (void)state;
    sr1_reward_scales_init(&s);
    assert_int_equal(s.repetition_n_grams, 3);
    s.repetition_n_grams = 2;
    add_ids(b, ids, 3, 0);
    assert_int_equal(add_block(b, "found", 0), SR1_OK);
    add_ids(b, ids, 3, 1);
    assert_true(score_built(b, &s) == -0.5);
    b = begin_trajectory(); /* nothing was sampled */
    assert_true(score_built(b, &s) == 0);
}

static void a_bonus_is_refused(void **state)
{
    sr1_reward_scales s = {.struct_size = sizeof(s)};
    sr1_reward_options o = {
        .struct_size = sizeof(o), .rewards = "repetition_penalty", .scales = &s};
    sr1_reward_set *set = NULL;

    (void)state;
    sr1_reward_scales_init(&s);
    s.repetition_max_penalty = 0.5;
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "repetition_max_penalty is 0.5"));
    s.repetition_max_penalty = -1;
    s.repetition_n_grams = -1;
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(penalties_are_trls),
        cmocka_unit_test(inserted_tokens_are_no_repetition),
        cmocka_unit_test(a_bonus_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
