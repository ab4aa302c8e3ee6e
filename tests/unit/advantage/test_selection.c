/* Which groups and queries teach, overlong shaping, confidences. */
#include "base/mem.h"

#include <searchr1/ext/batching.h>
#include <searchr1/ext/thinking.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* ---- lengths and groups ---- */

static void long_answers_are_punished_softly(void **state)
{
    static const int64_t lengths[6] = {0, 80, 81, 90, 100, 1000};
    static const double want[6] = {0, 0, -0.025, -0.25, -0.5, -0.5};
    double got[6];

    (void)state;
    assert_int_equal(sr1_overlong_penalty(lengths, 6, 100, 20, 0.5, got), SR1_OK);
    for (int i = 0; i < 6; i++)
        assert_true(fabs(got[i] - want[i]) < 1e-15);
    assert_int_equal(sr1_overlong_penalty(NULL, 0, 100, 20, 1, NULL), SR1_OK);
    got[0] = 9;
    assert_int_equal(sr1_overlong_penalty(lengths, 6, 100, 0, 1, got), SR1_E_INVALID);
    assert_int_equal(sr1_overlong_penalty(lengths, 6, 10, 20, 1, got), SR1_E_INVALID);
    assert_int_equal(sr1_overlong_penalty(lengths, 6, 100, 20, -1, got), SR1_E_INVALID);
    assert_int_equal(sr1_overlong_penalty(lengths, 6, 100, 20, NAN, got), SR1_E_INVALID);
    assert_int_equal(sr1_overlong_penalty(NULL, 6, 100, 20, 1, got), SR1_E_INVALID);
    assert_int_equal(sr1_overlong_penalty((const int64_t[1]){-1}, 1, 100, 20, 1, got),
                     SR1_E_INVALID);
    assert_true(got[0] == 9);
}

/* All right, all wrong, mixed, one single right one; interleaved. */
static const double scores[8] = {1, 0, 1, 0, 1, 0, 0, 1};
static const uint64_t groups[8] = {5, 6, 7, 7, 5, 6, 7, UINT64_MAX};

static void groups_all_right_or_all_wrong_are_left_out(void **state)
{
    static const uint8_t want[8] = {0, 0, 1, 1, 0, 0, 1, 0};
    double ones[10];
    uint64_t same[10];
    uint8_t keep[8];
    size_t all, kept;

    (void)state;
    assert_int_equal(sr1_dynamic_sampling(scores, groups, 8, 0, 1, keep, &all, &kept),
                     SR1_OK);
    assert_memory_equal(keep, want, 8);
    assert_int_equal(all, 4);
    assert_int_equal(kept, 1);
    for (int i = 0; i < 10; i++) { /* ten tenths must be one */
        ones[i] = 1;
        same[i] = 3;
    }
    assert_int_equal(sr1_dynamic_sampling(ones, same, 10, 0, 1, NULL, NULL, &kept),
                     SR1_OK);
    assert_int_equal(kept, 0);
    /* bounds of their own: a third right is too few */
    assert_int_equal(sr1_dynamic_sampling(scores, groups, 8, 0.4, 2, keep, NULL, &kept),
                     SR1_OK);
    assert_int_equal(kept, 2);
    assert_true(keep[0] == 1 && keep[4] == 1 && keep[7] == 1 && keep[2] == 0);
    assert_int_equal(sr1_dynamic_sampling(scores, groups, 8, 1, 1, keep, NULL, NULL),
                     SR1_E_INVALID);
    assert_int_equal(sr1_dynamic_sampling(NULL, groups, 8, 0, 1, keep, NULL, NULL),
                     SR1_E_INVALID);
    assert_int_equal(
        sr1_dynamic_sampling((const double[1]){NAN}, groups, 1, 0, 1, keep, NULL, NULL),
        SR1_E_NUMERIC);
}

/* ---- queries ---- */

static const int64_t seen[6] = {4, 0, 2, 9, 2, 0};
static const double variance[6] = {0.25, 0, 0.1, 0.25, 0, 0};
static const double success[6] = {0.5, 0, 0.9, 0.4, 0, 0};

static sr1_query_stats stats(void)
{
    return (sr1_query_stats){sizeof(sr1_query_stats), 6, seen, variance, success};
}

static int among(int64_t query, int64_t a, int64_t b)
{
    return query == a || query == b;
}

static void rules_take_what_they_want_first(void **state)
{
    sr1_query_stats s = stats();
    int64_t c[6];
    int other[2] = {0, 0};

    (void)state;
    for (uint64_t stream = 0; stream < 50; stream++) {
        assert_int_equal(sr1_query_select("reward_variance", &s, 6, 1, stream, c),
                         SR1_OK);
        assert_true(among(c[0], 1, 5) && among(c[1], 1, 5) && among(c[2], 0, 3) &&
                    among(c[3], 0, 3) && c[4] == 2 && c[5] == 4);
        other[c[2] == 0]++;
        assert_int_equal(sr1_query_select("success_half", &s, 6, 1, stream, c), SR1_OK);
        assert_true(among(c[0], 1, 5) && c[2] == 0 && c[3] == 3 && c[4] == 2 &&
                    c[5] == 4);
        assert_int_equal(sr1_query_select("least_seen", &s, 4, 1, stream, c), SR1_OK);
        assert_true(among(c[0], 1, 5) && among(c[1], 1, 5) && among(c[2], 2, 4) &&
                    among(c[3], 2, 4) && c[2] != c[3]);
    }
    assert_true(other[0] > 10 && other[1] > 10); /* ties fall either way */
}

static void uniform_takes_each_as_often_and_none_twice(void **state)
{
    sr1_query_stats s = {.struct_size = sizeof s, .n = 10};
    int counts[10] = {0};
    int64_t c[3], again[3];

    (void)state;
    for (uint64_t stream = 0; stream < 3000; stream++) {
        assert_int_equal(sr1_query_select("uniform", &s, 3, 7, stream, c), SR1_OK);
        assert_true(c[0] != c[1] && c[0] != c[2] && c[1] != c[2]);
        for (int i = 0; i < 3; i++)
            counts[c[i]]++;
    }
    for (int i = 0; i < 10; i++) /* 900 +- 25 */
        assert_true(counts[i] > 775 && counts[i] < 1025);
    assert_int_equal(sr1_query_select("uniform", &s, 3, 7, 2999, again), SR1_OK);
    assert_memory_equal(c, again, sizeof c);
}

static void wrong_statistics_are_refused(void **state)
{
    static const double bad[6] = {0, 0, 1.5, 0, 0, 0};
    static const int64_t below[6] = {0, -1, 0, 0, 0, 0};
    sr1_query_stats s = stats();
    int64_t c[6] = {99};

    (void)state;
    assert_int_equal(sr1_query_select("best", &s, 1, 1, 1, c), SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "least_seen"));
    assert_int_equal(sr1_query_select("uniform", &s, 7, 1, 1, c), SR1_E_INVALID);
    assert_int_equal(sr1_query_select("uniform", NULL, 1, 1, 1, c), SR1_E_INVALID);
    assert_int_equal(sr1_query_select("uniform", &s, 1, 1, 1, NULL), SR1_E_INVALID);
    s.success = bad;
    assert_int_equal(sr1_query_select("success_half", &s, 1, 1, 1, c), SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "query 2"));
    s.success = NULL;
    assert_int_equal(sr1_query_select("success_half", &s, 1, 1, 1, c), SR1_E_INVALID);
    s.seen = below;
    assert_int_equal(sr1_query_select("least_seen", &s, 1, 1, 1, c), SR1_E_INVALID);
    s.n = 0;
    assert_int_equal(sr1_query_select("least_seen", &s, 0, 1, 1, NULL), SR1_OK);
    assert_true(c[0] == 99);
}

static void any_allocation_may_fail(void **state)
{
    sr1_query_stats s = stats();
    sr1_status status = SR1_E_NOMEM;
    int64_t c[6] = {99}, live = sr1__mem_live(), k;

    (void)state;
    for (k = 1; status != SR1_OK; k++) {
        assert_true(status == SR1_E_NOMEM && c[0] == 99);
        sr1__mem_fail_at(k);
        status = sr1_query_select("least_seen", &s, 6, 1, 1, c);
        sr1__mem_fail_at(0);
        assert_int_equal(sr1__mem_live(), live);
    }
    assert_true(k > 3);
}

/* ---- confidences ---- */

static void confidence_in_four_forms(void **state)
{
    static const float log_probs[4] = {-9, -1, -3, -2}, entropies[4] = {7, 1, 0.5, 0};
    static const uint8_t include[4] = {0, 1, 1, 1}, none[4] = {0};
    double c = 9;

    (void)state;
    assert_int_equal(sr1_thinking_confidence("entropy", NULL, entropies, include, 4, &c),
                     SR1_OK);
    assert_true(c == -0.5);
    assert_int_equal(sr1_thinking_confidence("mean", log_probs, NULL, include, 4, &c),
                     SR1_OK);
    assert_true(c == -2);
    assert_int_equal(
        sr1_thinking_confidence("mean_prob", log_probs, NULL, include, 4, &c), SR1_OK);
    assert_true(fabs(c - exp(-2)) < 1e-15);
    assert_int_equal(sr1_thinking_confidence("mean_prob", (const float[2]){-30, -40},
                                             NULL, NULL, 2, &c),
                     SR1_OK);
    assert_true(c == 1e-6);
    assert_int_equal(sr1_thinking_confidence("min", log_probs, NULL, include, 4, &c),
                     SR1_OK);
    assert_true(fabs(c - exp(-3)) < 1e-15);
    assert_int_equal(sr1_thinking_confidence("min", log_probs, NULL, NULL, 4, &c),
                     SR1_OK);
    assert_true(fabs(c - exp(-9)) < 1e-15);
    assert_int_equal(sr1_thinking_confidence("mean", log_probs, NULL, none, 4, &c),
                     SR1_OK);
    assert_true(isnan(c));
    c = 9;
    assert_int_equal(sr1_thinking_confidence("max", log_probs, NULL, NULL, 4, &c),
                     SR1_E_NOT_FOUND);
    assert_int_equal(sr1_thinking_confidence(NULL, log_probs, NULL, NULL, 4, &c),
                     SR1_E_NOT_FOUND);
    assert_int_equal(sr1_thinking_confidence("entropy", log_probs, NULL, NULL, 4, &c),
                     SR1_E_INVALID);
    assert_int_equal(
        sr1_thinking_confidence("mean", (const float[1]){NAN}, NULL, NULL, 1, &c),
        SR1_E_NUMERIC);
    assert_true(c == 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_answers_are_punished_softly),
        cmocka_unit_test(groups_all_right_or_all_wrong_are_left_out),
        cmocka_unit_test(rules_take_what_they_want_first),
        cmocka_unit_test(uniform_takes_each_as_often_and_none_twice),
        cmocka_unit_test(wrong_statistics_are_refused),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(confidence_in_four_forms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
