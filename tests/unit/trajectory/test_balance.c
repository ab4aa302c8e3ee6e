/* Lengths over parts: nothing lost, sizes as asked, sums near each other. */
#include "base/rng.h"
#include "../../support/torture.h"

#include <searchr1/ext/batching.h>

#include <string.h>

#define MOST 64

static sr1_balance_report balance(const int64_t *lengths, size_t n, size_t k, int equal,
                                  int32_t *part)
{
    sr1_balance_report r = {.struct_size = sizeof r};

    if (sr1_balance(lengths, n, k, equal, part, &r) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return r;
}

/* 8 7 6 5 4. Two parts: 8-7=1, 6-5=1, 4-1=3, 3-1=2: 16 and 14. Three: (8 7 -) (8 7 6),
 * (5 4 -), so 8, 7+4, 6+5. */
static void the_textbook_case(void **state)
{
    static const int64_t lengths[5] = {8, 7, 6, 5, 4};
    static const int32_t two[5] = {0, 1, 0, 1, 1}, three[5] = {0, 1, 2, 2, 1};
    int32_t part[5];
    sr1_balance_report r = balance(lengths, 5, 2, 0, part);

    (void)state;
    assert_memory_equal(part, two, sizeof two);
    assert_true(r.balanced_min == 14 && r.balanced_max == 16 && r.mean == 15);
    assert_true(r.min == 9 && r.max == 21);
    r = balance(lengths, 5, 3, 0, part);
    assert_memory_equal(part, three, sizeof three);
    assert_true(r.balanced_min == 8 && r.balanced_max == 11);
    r = balance(lengths, 5, 1, 1, part);
    assert_true(r.balanced_max == 30 && part[0] == 0 && part[4] == 0);
}

static void check_parts(const int64_t *lengths, size_t n, size_t k, int equal)
{
    int32_t part[MOST], again[MOST];
    int64_t sums[MOST] = {0}, low = INT64_MAX, high = 0, longest = 0, total = 0;
    size_t sizes[MOST] = {0};
    int32_t known = 0;
    sr1_balance_report r = balance(lengths, n, k, equal, part);

    for (size_t i = 0; i < n; i++) {
        assert_true(part[i] >= 0 && part[i] <= known && part[i] < (int32_t)k);
        known += part[i] == known;
        sums[part[i]] += lengths[i];
        sizes[part[i]]++;
        total += lengths[i];
        longest = lengths[i] > longest ? lengths[i] : longest;
    }
    for (size_t p = 0; p < k; p++) {
        low = sums[p] < low ? sums[p] : low;
        high = sums[p] > high ? sums[p] : high;
        if (equal)
            assert_true(sizes[p] == n / k || sizes[p] == n / k + 1);
    }
    assert_true(r.balanced_min == low && r.balanced_max == high);
    assert_true(r.mean * (double)k - (double)total < 1e-6 * (double)(total + 1));
    if (!equal) /* no more than the longest item lies between two parts */
        assert_true(high - low <= longest);
    balance(lengths, n, k, equal, again);
    assert_memory_equal(part, again, n * sizeof *part);
}

static void nothing_is_lost_and_sizes_are_as_asked(void **state)
{
    struct sr1__rng r;

    (void)state;
    sr1__rng_seed(&r, 5, 5);
    for (int round = 0; round < 2000; round++) {
        int64_t lengths[MOST];
        size_t n = (size_t)sr1__rng_below(&r, MOST), k = 1 + sr1__rng_below(&r, 9);

        for (size_t i = 0; i < n; i++)
            lengths[i] = (int64_t)sr1__rng_below(&r, round % 2 ? 5 : 4000);
        check_parts(lengths, n, k, round / 2 % 2);
    }
}

/* The least largest sum of all assignments. */
static int64_t best(const int64_t *lengths, size_t n, size_t k)
{
    size_t all = 1;
    int64_t found = INT64_MAX;

    for (size_t i = 0; i < n; i++)
        all *= k;
    for (size_t code = 0; code < all; code++) {
        int64_t sums[4] = {0}, high = 0;

        for (size_t i = 0, c = code; i < n; i++, c /= k)
            sums[c % k] += lengths[i];
        for (size_t p = 0; p < k; p++)
            high = sums[p] > high ? sums[p] : high;
        found = high < found ? high : found;
    }
    return found;
}

/* Within 4/3 - 1/(3k) of the best, and mostly the best itself. */
static void near_the_best_there_is(void **state)
{
    struct sr1__rng r;
    int exact = 0;

    (void)state;
    sr1__rng_seed(&r, 6, 5);
    for (int round = 0; round < 200; round++) {
        size_t n = 3 + sr1__rng_below(&r, 5), k = 2 + sr1__rng_below(&r, 2);
        int64_t lengths[8], least;
        sr1_balance_report got;
        int32_t part[8];

        for (size_t i = 0; i < n; i++)
            lengths[i] = 1 + (int64_t)sr1__rng_below(&r, 30);
        got = balance(lengths, n, k, 0, part);
        least = best(lengths, n, k);
        assert_true(got.balanced_max >= least);
        assert_true((double)got.balanced_max <=
                    (4.0 / 3 - 1 / (3.0 * (double)k)) * (double)least + 1e-9);
        exact += got.balanced_max == least;
    }
    assert_true(exact > 120);
}

static void balancing_narrows_the_spread(void **state)
{
    struct sr1__rng r;
    int64_t lengths[MOST];
    int32_t part[MOST];
    sr1_balance_report got;

    (void)state;
    sr1__rng_seed(&r, 7, 5);
    for (size_t i = 0; i < MOST; i++)
        lengths[i] = 100 + (int64_t)sr1__rng_below(&r, 3000);
    got = balance(lengths, MOST, 8, 1, part);
    assert_true(20 * (got.balanced_max - got.balanced_min) < got.max - got.min);
}

static void wrong_lengths_are_refused(void **state)
{
    static const int64_t negative[2] = {1, -1}, huge[2] = {INT64_MAX, 1}, one[1] = {3};
    sr1_balance_report r = {0};
    int32_t part[2] = {9, 9};

    (void)state;
    assert_int_equal(sr1_balance(negative, 2, 2, 0, part, NULL), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "length 1"));
    assert_int_equal(sr1_balance(huge, 2, 2, 0, part, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_balance(one, 1, 0, 0, part, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_balance(NULL, 1, 1, 0, part, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_balance(one, 1, 1, 0, NULL, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_balance(one, 1, 1, 0, part, &r), SR1_E_INVALID);
    assert_true(part[0] == 9);
    assert_int_equal(sr1_balance(NULL, 0, 3, 1, NULL, NULL), SR1_OK);
    assert_int_equal(sr1_balance(one, 1, INT32_MAX, 0, part, NULL), SR1_E_INVALID);
}

static void many_parts_cost_nothing_and_too_much_is_refused(void **state)
{
    static int64_t lengths[20000];
    static int32_t part[20000];
    sr1_balance_report r = balance(lengths, 2, INT32_MAX - 2, 0, part);

    (void)state;
    assert_true(part[0] == 0 && part[1] == 1 && r.balanced_min == 0);
    r = balance(lengths, 2, INT32_MAX - 2, 1, part);
    assert_true(part[0] == 0 && part[1] == 1 && r.min == 0);
    balance(lengths, 20000, 20000, 1, part);
    assert_int_equal(sr1_balance(lengths, 20000, 20000, 0, part, NULL), SR1_E_LIMIT);
}

static sr1_status balance_some(void *arg)
{
    static const int64_t lengths[7] = {3, 1, 4, 1, 5, 9, 2};
    int32_t part[7];

    return sr1_balance(lengths, 7, 3, *(int *)arg, part, NULL);
}

static void any_allocation_may_fail(void **state)
{
    int equal = 0;

    (void)state;
    assert_int_equal(torture(balance_some, &equal), 3);
    equal = 1;
    assert_int_equal(torture(balance_some, &equal), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_textbook_case),
        cmocka_unit_test(nothing_is_lost_and_sizes_are_as_asked),
        cmocka_unit_test(near_the_best_there_is),
        cmocka_unit_test(balancing_narrows_the_spread),
        cmocka_unit_test(wrong_lengths_are_refused),
        cmocka_unit_test(many_parts_cost_nothing_and_too_much_is_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
