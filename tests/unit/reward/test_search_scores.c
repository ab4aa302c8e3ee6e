/* Rewards about searching: gold documents, passages with the answer, the price. */
#include "responses.h"

#include "base/mem.h"
#include "environment/trajectory/row_text.h"
#include "support/torture.h"

#include <searchr1/reward.h>
#include <searchr1/search.h>
#include <searchr1/ext/reward_set.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Two searches: the first found a and b, the second b and c. row NULL: none is known. */
static sr1_trajectory *search_twice(const char *row)
{
    static const char *const first[] = {"a", "b"}, *const second[] = {"b", "c"};
    const struct response r = {
        {"<search>x</search>", "Rome: the Old City", "<search>y</search>", "Paris."},
        NULL,
        {NULL}};
    static const char *const truths[] = {"the old, city"};
    struct sr1__trajectory_context c = {
        .temperature = 1, .top_p = 1, .ground_truths = truths, .n_ground_truths = 1};
    struct sr1__trajectory_builder *b = NULL;
    struct sr1__row_text *text = NULL;
    sr1_trajectory *t = NULL;

    assert_int_equal(sr1__trajectory_builder_new(&b, "q", 1, NULL, 0), SR1_OK);
    assert_int_equal(sr1__trajectory_builder_context(b, &c), SR1_OK);
    assert_int_equal(add_pieces(b, &r), SR1_OK);
    assert_int_equal(
        sr1__trajectory_builder_action(b, 0, "x", 1, SR1_ACTION_OK, 2, first), SR1_OK);
    assert_int_equal(
        sr1__trajectory_builder_action(b, 1, "y", 1, SR1_ACTION_OK, 2, second), SR1_OK);
    if (row) {
        assert_int_equal(sr1__row_text_new(&text, row, strlen(row)), SR1_OK);
        sr1__trajectory_builder_row(b, text);
        sr1__row_text_free(text);
    }
    assert_int_equal(sr1__trajectory_builder_finish(b, SR1_STOP_ANSWER, "", 0, &t),
                     SR1_OK);
    return t;
}

/* The parts and the total of a trajectory by three rewards. */
static sr1_status score_row(const char *row, const char *field, double parts[3],
                            double *total)
{
    sr1_reward_options o = {.struct_size = sizeof(o),
                            .rewards = "retrieval_recall,answer_retrieved,search_cost",
                            .weights = "1,2,3",
                            .gold_ids_field = field};
    sr1_reward_set *set = NULL;
    sr1_trajectory *t = search_twice(row);
    sr1_status status;

    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    status =
        sr1_reward_set_score(set, (const sr1_trajectory *const *)&t, 1, parts, total);
    sr1_reward_set_free(set);
    sr1_trajectory_free(t);
    return status;
}

/* Of a, c, d and e two were found, b twice counts for nothing. */
static void recall_is_of_the_gold_ids(void **state)
{
    double parts[3], total;

    (void)state;
    assert_int_equal(score_row("{\"gold_ids\": [\"a\", \"c\", \"d\", \"e\", \"a\"]}",
                               NULL, parts, &total),
                     SR1_OK);
    assert_true(parts[0] == 0.5 && parts[1] == 1);
    assert_true(fabs(parts[2] + 0.2) < 1e-12 && fabs(total - 1.9) < 1e-12);
    assert_int_equal(score_row("{\"supporting_facts\": [[\"b\", 0], [\"z\", 1]]}",
                               "supporting_facts", parts, &total),
                     SR1_OK);
    assert_true(parts[0] == 0.5);
    assert_int_equal(score_row("{\"meta\": {\"ids\": \"c\"}}", "meta.ids", parts, &total),
                     SR1_OK);
    assert_true(parts[0] == 1);
}

static void rows_without_gold_ids_are_scored_by_the_others(void **state)
{
    static const char *const rows[] = {NULL, "{}", "{\"gold_ids\": []}",
                                       "{\"gold_ids\": null}", "{\"gold_ids\": \" \"}"};
    double parts[3], total;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(score_row(rows[i], NULL, parts, &total), SR1_OK);
        assert_true(isnan(parts[0]) && fabs(total - 1.4) < 1e-12);
    }
    assert_int_equal(score_row("{\"gold_ids\": [true]}", NULL, parts, &total),
                     SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "field 'gold_ids' has no ids of documents"));
}

static void any_result_may_hold_the_answer(void **state)
{
    static const struct {
        struct response r;
        double want;
    } cases[] = {
        {{{"a", "Paris.", "b", "It is the OLD CITY!"}, NULL, {"old city"}}, 1},
        {{{"a", "Paris.", "old city"}, NULL, {"old city"}}, 0}, /* the policy's words */
        {{{"a", "Paris."}, NULL, {"Rome", "paris"}}, 1},
        {{{"a", "Paris."}, NULL, {"The"}}, 0},
        {{{"a"}, NULL, {"a"}}, 0},
    };
    sr1_reward_options o = {.struct_size = sizeof(o), .rewards = "answer_retrieved"};
    sr1_reward_set *set = NULL;

    (void)state;
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sr1_trajectory *t = NULL;
        double total = 9;

        assert_int_equal(make_trajectory(&cases[i].r, &t), SR1_OK);
        assert_int_equal(
            sr1_reward_set_score(set, (const sr1_trajectory *const *)&t, 1, NULL, &total),
            SR1_OK);
        if (total != cases[i].want)
            fail_msg("case %zu: %g", i, total);
        sr1_trajectory_free(t);
    }
    sr1_reward_set_free(set);
}

static void a_price_is_not_negative(void **state)
{
    sr1_reward_scales s;
    sr1_reward_options o = {
        .struct_size = sizeof(o), .rewards = "search_cost", .scales = &s};
    sr1_reward_set *set = NULL;

    (void)state;
    sr1_reward_scales_init(&s);
    assert_true(s.search_price == 0.1);
    s.search_price = -1;
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "search_price is -1"));
    s.search_price = NAN;
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_E_NUMERIC);
}

static sr1_status score_torn(void *t)
{
    sr1_reward_options o = {.struct_size = sizeof(o),
                            .rewards = "retrieval_recall,answer_retrieved,search_cost"};
    sr1_reward_set *set = NULL;
    const sr1_trajectory *one = t;
    double total;
    sr1_status status = sr1_reward_set_new(&set, &o);

    if (status == SR1_OK)
        status = sr1_reward_set_score(set, &one, 1, NULL, &total);
    sr1_reward_set_free(set);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    sr1_trajectory *t = search_twice("{\"gold_ids\": [\"a\", \"z\"]}");

    (void)state;
    torture(score_torn, t);
    sr1_trajectory_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recall_is_of_the_gold_ids),
        cmocka_unit_test(rows_without_gold_ids_are_scored_by_the_others),
        cmocka_unit_test(any_result_may_hold_the_answer),
        cmocka_unit_test(a_price_is_not_negative),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
