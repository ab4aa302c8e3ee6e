/* Group advantages and k3: equal to numpy's, and the properties that define them. */
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"

#include "estimate.h"

#include <searchr1/advantage.h>
#include <searchr1/ext/kl.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_GROUP 256

static int close_to(double got, double want, double tolerance)
{
    return fabs(got - want) <= tolerance * (fabs(want) > 1 ? fabs(want) : 1);
}

/* n numbers at *s; *s moves past them. */
static void read_numbers(char **s, double *v, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        char *end;

        v[i] = strtod(*s, &end);
        assert_ptr_not_equal(end, *s);
        *s = end;
    }
}

static void check_group_line(char *s)
{
    double rewards[MAX_GROUP], want[MAX_GROUP], got[MAX_GROUP], n, eps;
    size_t i;

    read_numbers(&s, &n, 1);
    read_numbers(&s, &eps, 1);
    read_numbers(&s, rewards, (size_t)n);
    read_numbers(&s, want, (size_t)n);
    assert_int_equal(sr1_advantage_group(rewards, (size_t)n, eps, got), SR1_OK);
    for (i = 0; i < (size_t)n; i++)
        assert_true(close_to(got[i], want[i], 1e-12));
}

static void check_k3_line(char *s)
{
    double old[MAX_GROUP], new_[MAX_GROUP], want, got, n;

    read_numbers(&s, &n, 1);
    read_numbers(&s, old, (size_t)n);
    read_numbers(&s, new_, (size_t)n);
    read_numbers(&s, &want, 1);
    assert_int_equal(sr1_kl_k3(old, new_, (size_t)n, &got), SR1_OK);
    assert_true(fabs(got - want) <= 1e-12 * fabs(want) + 1e-22);
}

static void equals_numpy(void **state)
{
    char path[4096], *line, *rest;
    struct sr1__buf text;
    int groups = 0, k3s = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/advantage.txt", getenv("SR1_SRC"));
    assert_int_equal(sr1__file_read(path, 0, &text), SR1_OK);
    for (line = strtok_r(text.data, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "group ", 6) == 0) {
            check_group_line(line + 6);
            groups++;
        } else {
            assert_memory_equal(line, "k3 ", 3);
            check_k3_line(line + 3);
            k3s++;
        }
    }
    assert_int_equal(groups, 80);
    assert_int_equal(k3s, 60);
    sr1__buf_free(&text);
}

static void moments(const double *v, size_t n, double *mean, double *std)
{
    size_t i;

    *mean = *std = 0;
    for (i = 0; i < n; i++)
        *mean += v[i] / (double)n;
    for (i = 0; i < n; i++)
        *std += (v[i] - *mean) * (v[i] - *mean) / (double)n;
    *std = sqrt(*std);
}

static void mean_zero_std_one_and_equivariant(void **state)
{
    struct sr1__rng r;
    int round;

    (void)state;
    sr1__rng_seed(&r, 3, 1);
    for (round = 0; round < 500; round++) {
        size_t n = 2 + sr1__rng_below(&r, 30), i;
        double rewards[32], turned[32], a[32], b[32], mean, std;
        int64_t order[32];

        for (i = 0; i < n; i++) {
            rewards[i] = sr1__rng_normal(&r);
            order[i] = (int64_t)i;
        }
        sr1__rng_shuffle(&r, order, n);
        for (i = 0; i < n; i++)
            turned[i] = rewards[order[i]];
        assert_int_equal(sr1_advantage_group(rewards, n, 0, a), SR1_OK);
        assert_int_equal(sr1_advantage_group(turned, n, 0, b), SR1_OK);
        moments(a, n, &mean, &std);
        assert_true(fabs(mean) < 1e-12 && fabs(std - 1) < 1e-12);
        for (i = 0; i < n; i++)
            assert_true(close_to(b[i], a[order[i]], 1e-12));
        /* moving and stretching the rewards changes nothing */
        for (i = 0; i < n; i++)
            turned[i] = 3 * rewards[i] - 7;
        assert_int_equal(sr1_advantage_group(turned, n, 0, b), SR1_OK);
        for (i = 0; i < n; i++)
            assert_true(close_to(b[i], a[i], 1e-12));
    }
}

static void small_and_flat_groups_give_zero(void **state)
{
    double one[1] = {2.5}, flat[3] = {0.1, 0.1, 0.1}, out[3] = {9, 9, 9};

    (void)state;
    assert_int_equal(sr1_advantage_group(one, 1, 1e-8, out), SR1_OK);
    assert_true(out[0] == 0);
    assert_int_equal(sr1_advantage_group(flat, 3, 1e-8, out), SR1_OK);
    assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0);
    assert_int_equal(sr1_advantage_group(flat, 3, 0, out), SR1_OK);
    assert_true(out[2] == 0);
    assert_int_equal(sr1_advantage_group(NULL, 0, 1e-8, NULL), SR1_OK);
}

static void bad_rewards_are_named(void **state)
{
    double r[3] = {1, NAN, 2}, huge[2] = {1.7e308, -1.7e308}, out[3] = {9, 9, 9};

    (void)state;
    assert_int_equal(sr1_advantage_group(r, 3, 1e-8, out), SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "reward 1 "));
    r[1] = INFINITY;
    assert_int_equal(sr1_advantage_group(r, 3, 1e-8, out), SR1_E_NUMERIC);
    assert_int_equal(sr1_advantage_group(huge, 2, 1e-8, out), SR1_E_NUMERIC);
    assert_int_equal(sr1_advantage_group(r, 3, -1, out), SR1_E_INVALID);
    assert_int_equal(sr1_advantage_group(NULL, 3, 1e-8, out), SR1_E_INVALID);
    assert_true(out[0] == 9 && out[1] == 9 && out[2] == 9);
}

/* Three groups, interleaved; token counts 2, 0, 1, 3, 1, 1. */
static const double rewards6[6] = {2.5, 0.5, -1.0, 0.5, 2.5, 0.5};
static const uint64_t groups6[6] = {7, 9, 7, 9, UINT64_MAX, 9};
static const int64_t tokens6[7] = {0, 2, 2, 3, 6, 7, 8};

static sr1_advantage_batch batch6(void)
{
    sr1_advantage_batch b = {sizeof b, 6, rewards6, groups6, tokens6};

    return b;
}

static void groups_by_key(void **state)
{
    sr1_advantage_batch b = batch6();
    sr1_advantage_options o = {sizeof o, 0, 0};
    double a[6];
    float t[8];

    (void)state;
    assert_int_equal(estimate("grpo", &b, NULL, a, t), SR1_OK);
    assert_true(close_to(a[0], 1, 1e-7) && close_to(a[2], -1, 1e-7));
    assert_true(a[1] == 0 && a[3] == 0 && a[4] == 0 && a[5] == 0);
    assert_true(t[0] == (float)a[0] && t[1] == (float)a[0] && t[2] == (float)a[2]);
    assert_true(t[3] == 0 && t[7] == 0);
    /* centred only */
    assert_int_equal(estimate("grpo", &b, &o, a, NULL), SR1_OK);
    assert_true(a[0] == 1.75 && a[2] == -1.75 && a[4] == 0);
}

static void zero_variance_groups_are_found(void **state)
{
    static const uint8_t want[6] = {0, 1, 0, 1, 1, 1};
    uint8_t dead[6];
    size_t n_groups, n_dead;

    (void)state;
    assert_int_equal(sr1_advantage_zero_variance_groups(rewards6, groups6, 6, dead,
                                                        &n_groups, &n_dead),
                     SR1_OK);
    assert_memory_equal(dead, want, 6);
    assert_int_equal(n_groups, 3);
    assert_int_equal(n_dead, 2);
    assert_int_equal(
        sr1_advantage_zero_variance_groups(NULL, NULL, 0, NULL, &n_groups, NULL), SR1_OK);
    assert_int_equal(n_groups, 0);
}

static void wrong_batches_are_refused(void **state)
{
    static const int64_t falling[7] = {0, 2, 1, 3, 6, 7, 8};
    sr1_advantage_batch b = batch6();
    sr1_advantage_options o = {0};
    double a[6] = {9, 9, 9, 9, 9, 9}, bad[6];
    float t[8];

    (void)state;
    assert_int_equal(estimate("nope", &b, NULL, a, t), SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "grpo"));
    assert_int_equal(estimate(NULL, &b, NULL, a, t), SR1_E_INVALID);
    assert_int_equal(estimate("grpo", NULL, NULL, a, t), SR1_E_INVALID);
    assert_int_equal(estimate("grpo", &b, &o, a, t), SR1_E_INVALID);
    b.token_begin = falling;
    assert_int_equal(estimate("grpo", &b, NULL, a, t), SR1_E_INVALID);
    b.token_begin = NULL;
    assert_int_equal(estimate("grpo", &b, NULL, a, t), SR1_E_INVALID);
    memcpy(bad, rewards6, sizeof bad);
    bad[4] = NAN;
    b.rewards = bad;
    assert_int_equal(estimate("grpo", &b, NULL, a, NULL), SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "trajectory 4"));
    b.struct_size = 0;
    assert_int_equal(estimate("grpo", &b, NULL, a, NULL), SR1_E_INVALID);
    assert_true(a[0] == 9 && a[5] == 9);
    assert_string_equal(sr1_advantage_name(0), "grpo");
    assert_null(sr1_advantage_name(100));
}

static void any_allocation_may_fail(void **state)
{
    sr1_advantage_batch b = batch6();
    double a[6] = {9};
    int64_t k;
    sr1_status status = SR1_E_NOMEM;

    (void)state;
    for (k = 1; status != SR1_OK; k++) {
        assert_int_equal(status, SR1_E_NOMEM);
        assert_true(a[0] == 9);
        sr1__mem_fail_at(k);
        status = estimate("grpo", &b, NULL, a, NULL);
    }
    sr1__mem_fail_at(0);
    assert_true(k > 3);
}

static void k3_is_never_negative_nor_infinite(void **state)
{
    double old[3] = {-1, 0, -1e300}, new_[3] = {-1, -2000, 0}, mean = 9;
    float old32[2] = {-1, -2}, new32[2] = {-1.5f, -1};
    double want = (expm1(0.5) - 0.5 + expm1(-1) + 1) / 2;
    struct sr1__rng r;
    int i;

    (void)state;
    assert_int_equal(sr1_kl_k3(old, new_, 1, &mean), SR1_OK);
    assert_true(mean == 0);
    assert_int_equal(sr1_kl_k3(old, new_, 3, &mean), SR1_OK);
    assert_true(isfinite(mean) && mean > 1e299);
    assert_int_equal(sr1_kl_k3(old, new_, 0, &mean), SR1_OK);
    assert_true(mean == 0);
    assert_int_equal(sr1_kl_k3_f32(old32, new32, 2, &mean), SR1_OK);
    assert_true(close_to(mean, want, 1e-14));
    sr1__rng_seed(&r, 1, 1);
    for (i = 0; i < 10000; i++) {
        double a = -sr1__rng_uniform(&r);
        double b = a + sr1__rng_normal(&r) * pow(10, -(double)sr1__rng_below(&r, 12));

        assert_int_equal(sr1_kl_k3(&a, &b, 1, &mean), SR1_OK);
        assert_true(mean >= 0);
    }
}

static void k3_names_what_is_not_finite(void **state)
{
    double old[2] = {-1, -1}, new_[2] = {-1, -INFINITY}, mean = 9;

    (void)state;
    assert_int_equal(sr1_kl_k3(old, new_, 2, &mean), SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "new log-prob of token 1"));
    assert_int_equal(sr1_kl_k3(NULL, new_, 2, &mean), SR1_E_INVALID);
    assert_int_equal(sr1_kl_k3_f32(NULL, NULL, 2, &mean), SR1_E_INVALID);
    assert_true(mean == 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_numpy),
        cmocka_unit_test(mean_zero_std_one_and_equivariant),
        cmocka_unit_test(small_and_flat_groups_give_zero),
        cmocka_unit_test(bad_rewards_are_named),
        cmocka_unit_test(groups_by_key),
        cmocka_unit_test(zero_variance_groups_are_found),
        cmocka_unit_test(wrong_batches_are_refused),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(k3_is_never_negative_nor_infinite),
        cmocka_unit_test(k3_names_what_is_not_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
