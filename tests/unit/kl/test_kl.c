/* Divergences by token against verl and TRL, over a vocabulary against numpy; what k3
 * does far from the reference; penalty and controller. */
#include "base/file.h"
#include "base/json.h"

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

#define MOST 256

static void near_to(double got, double want, double relative, double absolute)
{
    if (!(fabs(got - want) <= relative * fabs(want) + absolute))
        fail_msg("%.15g is not %.15g", got, want);
}

static size_t read_list(const json_t *row, const char *key, double *out)
{
    const json_t *l = json_object_get(row, key);
    size_t n = json_array_size(l);

    assert_true(n > 0 && n <= MOST);
    for (size_t i = 0; i < n; i++)
        out[i] = json_number_value(json_array_get(l, i));
    return n;
}

/* verl's adaptive controller, update by update. */
static void check_controller(const json_t *row)
{
    double kl[MOST], steps[MOST], after[MOST];
    sr1_kl_controller c = {.struct_size = sizeof c};
    size_t n = read_list(row, "kl", kl);

    read_list(row, "steps", steps);
    read_list(row, "after", after);
    c.coef = json_number_value(json_object_get(row, "coef"));
    c.target = json_number_value(json_object_get(row, "target"));
    c.horizon = json_number_value(json_object_get(row, "horizon"));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(sr1_kl_controller_update(&c, kl[i], (int64_t)steps[i]), SR1_OK);
        near_to(c.coef, after[i], 1e-14, 0);
    }
}

static void read_floats(const json_t *row, const char *key, float out[MOST])
{
    double v[MOST];
    size_t n = read_list(row, key, v);

    for (size_t i = 0; i < n; i++)
        out[i] = (float)v[i];
}

/* A batch of sequences: the rewards of their tokens, and what the controller makes of the
 * mean of their means. */
static void check_batch(const json_t *row)
{
    const char *kind = json_string_value(json_object_get(row, "kind"));
    float old[MOST], ref[MOST];
    double want[MOST], got[MOST] = {0}, lengths[MOST], sum = 0;
    size_t n = read_list(row, "lengths", lengths), at = 0;
    sr1_kl_controller c = {.struct_size = sizeof c};

    read_floats(row, "old", old);
    read_floats(row, "ref", ref);
    c.coef = json_number_value(json_object_get(row, "coef"));
    c.target = json_number_value(json_object_get(row, "target"));
    c.horizon = json_number_value(json_object_get(row, "horizon"));
    for (size_t i = 0; i < n; at += (size_t)lengths[i++]) {
        double mean;

        assert_int_equal(sr1_kl_penalty(kind, c.coef, old + at, ref + at,
                                        (size_t)lengths[i], got + at, &mean),
                         SR1_OK);
        sum += mean;
    }
    assert_int_equal(read_list(row, "rewards", want), at);
    for (size_t i = 0; i < at; i++)
        near_to(got[i], want[i], 1e-9, 1e-15);
    near_to(sum / (double)n, json_number_value(json_object_get(row, "mean")), 1e-6, 0);
    assert_int_equal(sr1_kl_controller_update(&c, sum / (double)n, (int64_t)n), SR1_OK);
    near_to(c.coef, json_number_value(json_object_get(row, "after")), 1e-9, 0);
}

static void check_row(const json_t *row)
{
    const char *kind = json_string_value(json_object_get(row, "kind"));
    double now[MOST], ref[MOST], want[MOST], slope[MOST], got[MOST], got_slope[MOST];
    size_t n = read_list(row, "new", now), i, places = read_list(row, "kl", want);

    read_list(row, "ref", ref);
    read_list(row, "slope", slope);
    if (strcmp(kind, "full") == 0)
        assert_int_equal(sr1_kl_full(now, ref, places, n / places, got, got_slope),
                         SR1_OK);
    else
        assert_int_equal(sr1_kl_tokens(kind, now, ref, n, got, got_slope), SR1_OK);
    for (i = 0; i < places; i++)
        near_to(got[i], want[i], 1e-9, 1e-15);
    for (i = 0; i < n; i++)
        near_to(got_slope[i], slope[i], 1e-9, strcmp(kind, "full") ? 1e-14 : 1e-9);
}

static void equals_verl_trl_and_numpy(void **state)
{
    char path[4096], *line, *rest;
    struct sr1__buf text;
    size_t n = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/kl.jsonl", getenv("SR1_SRC"));
    assert_int_equal(sr1__file_read(path, 0, &text), SR1_OK);
    for (line = strtok_r(text.data, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *row = NULL;

        assert_int_equal(sr1__json_parse(&row, line, strlen(line), "vectors"), SR1_OK);
        if (json_object_get(row, "lengths"))
            check_batch(row);
        else if (json_object_get(row, "after"))
            check_controller(row);
        else
            check_row(row);
        json_decref(row);
        n++;
    }
    assert_int_equal(n, 51);
    sr1__buf_free(&text);
}

/* Values of a kind, derivative of k2. */
static void plus_is_straight_through(void **state)
{
    double now[2] = {-1, -2}, ref[2] = {-1.5, -1}, plain[2], kl[2], slope[2];

    (void)state;
    assert_int_equal(sr1_kl_tokens("k3", now, ref, 2, plain, NULL), SR1_OK);
    assert_int_equal(sr1_kl_tokens("k3+", now, ref, 2, kl, slope), SR1_OK);
    assert_true(kl[0] == plain[0] && kl[1] == plain[1]);
    assert_true(slope[0] == 0.5 && slope[1] == -1);
}

static void clamps_have_no_slope(void **state)
{
    double now[3] = {-30, -5, 0}, ref[3] = {0, 0, -30}, kl[3], slope[3];

    (void)state;
    assert_int_equal(sr1_kl_tokens("low_var_kl", now, ref, 3, kl, slope), SR1_OK);
    assert_true(kl[0] == 10 && slope[0] == 0); /* e^20 is far above 10 */
    assert_true(kl[1] == 10 && slope[1] == 0); /* so is e^5 - 6 */
    near_to(kl[2], 10, 0, 1e-12);              /* e^-20 - 1 + 20 = 19 */
    assert_true(slope[2] == 0);
    now[0] = -2.65; /* 14.15 - 3.65 = 10.5 */
    now[1] = -2.6;  /* 13.46 - 3.6 = 9.86 */
    assert_int_equal(sr1_kl_tokens("low_var_kl", now, ref, 2, kl, slope), SR1_OK);
    assert_true(kl[0] == 10 && slope[0] == 0);
    near_to(kl[1], 9.863738035, 1e-9, 0);
    near_to(slope[1], -12.463738035, 1e-9, 0);
}

/* Beyond a difference of 20 the value is on the tangent of Schulman's e^-d + d - 1 at
 * that point; the slope never turns away from the reference, nor jumps. */
static void k3_draws_back_from_any_distance(void **state)
{
    static const double d[] = {-1e30, -700, -25, -24,  -22, -20.001, -20,
                               -19.9, -3,   0,   1e-9, 2,   20,      1e30};
    enum { FAR = sizeof d / sizeof *d };
    double ref[FAR] = {0}, kl[FAR], slope[FAR], mean;

    (void)state;
    assert_int_equal(sr1_kl_tokens("k3", d, ref, FAR, kl, slope), SR1_OK);
    for (int i = 0; i < FAR; i++) {
        assert_true(isfinite((float)slope[i]) && kl[i] >= 0);
        assert_true(d[i] < 0 ? slope[i] < 0 : slope[i] >= 0 && slope[i] <= 1);
        assert_true(i == 0 || slope[i] >= slope[i - 1]); /* convex */
        assert_int_equal(sr1_kl_k3(d + i, ref, 1, &mean), SR1_OK);
        assert_int_equal(sr1_kl_k3(ref, d + i, 1, &mean), SR1_OK);
        assert_true(mean == kl[i]); /* the same function, new its second argument */
    }
    near_to(kl[6], exp(20) - 21, 1e-15, 0);
    near_to(slope[6], 1 - exp(20), 1e-15, 0);
    near_to(kl[5] - kl[6], 0.001 * (exp(20) - 1), 1e-9, 0);
    near_to(kl[2] - kl[3], exp(20) - 1, 1e-12, 0);
    near_to(kl[3] - kl[4], 2 * (exp(20) - 1), 1e-12, 0);
    assert_true(slope[0] == slope[6] && slope[2] == slope[6]);
}

static void certain_and_impossible_tokens(void **state)
{
    double p[2] = {0, -INFINITY}, q[2] = {log(0.5), log(0.5)}, kl = 9, slope[2];

    (void)state;
    assert_int_equal(sr1_kl_full(p, q, 1, 2, &kl, slope), SR1_OK);
    near_to(kl, log(2), 1e-14, 0);
    assert_true(fabs(slope[0]) < 1e-15 && slope[1] == 0);
    kl = 9;
    assert_int_equal(sr1_kl_full(q, p, 1, 2, &kl, slope), SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "token 1 of place 0 no probability"));
    q[0] = NAN;
    assert_int_equal(sr1_kl_full(p, q, 1, 2, &kl, slope), SR1_E_NUMERIC);
    assert_int_equal(sr1_kl_full(p, q, 1, 0, &kl, slope), SR1_E_INVALID);
    assert_int_equal(sr1_kl_full(p, q, SIZE_MAX, 2, &kl, slope), SR1_E_INVALID);
    assert_true(kl == 9);
}

static void the_penalty_goes_into_the_rewards(void **state)
{
    float old[3] = {-1, -2, -3}, ref[3] = {-1.5f, -1, -3};
    double rewards[3] = {0, 1, 2}, mean = 9;

    (void)state;
    assert_int_equal(sr1_kl_penalty("k1", 0.1, old, ref, 3, rewards, &mean), SR1_OK);
    near_to(rewards[0], -0.05, 1e-12, 0);
    near_to(rewards[1], 1.1, 1e-12, 0);
    assert_true(rewards[2] == 2);
    near_to(mean, -0.5 / 3, 1e-12, 0);
    old[1] = NAN;
    assert_int_equal(sr1_kl_penalty("k1", 0.1, old, ref, 3, rewards, &mean),
                     SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "old log-prob of token 1"));
    assert_int_equal(sr1_kl_penalty("k1", -1, old, ref, 3, rewards, &mean),
                     SR1_E_INVALID);
    assert_int_equal(sr1_kl_penalty("k4", 1, old, ref, 3, rewards, &mean),
                     SR1_E_NOT_FOUND);
    assert_int_equal(sr1_kl_penalty("+", 1, old, ref, 3, rewards, &mean),
                     SR1_E_NOT_FOUND);
    assert_int_equal(sr1_kl_penalty("k1", 1, NULL, ref, 3, rewards, &mean),
                     SR1_E_INVALID);
    assert_int_equal(sr1_kl_penalty("k1", 1, NULL, NULL, 0, NULL, &mean), SR1_OK);
    assert_true(mean == 0);
}

static void wrong_log_probs_are_named(void **state)
{
    double now[2] = {-1, -1}, ref[2] = {-1, -INFINITY}, kl[2] = {9, 9};

    (void)state;
    assert_int_equal(sr1_kl_tokens("k2", now, ref, 2, kl, NULL), SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "reference log-prob of token 1"));
    assert_int_equal(sr1_kl_tokens("k9", now, ref, 2, kl, NULL), SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "low_var_kl"));
    assert_int_equal(sr1_kl_tokens(NULL, now, ref, 2, kl, NULL), SR1_E_NOT_FOUND);
    assert_int_equal(sr1_kl_tokens("k2", NULL, ref, 2, kl, NULL), SR1_E_INVALID);
    assert_true(kl[0] == 9 && kl[1] == 9);
}

static sr1_kl_controller adaptive(void)
{
    return (sr1_kl_controller){.struct_size = sizeof(sr1_kl_controller),
                               .coef = 0.2,
                               .target = 6,
                               .horizon = 10000};
}

/* 12 is twice the target: 1 + 0.2 * 256 / 10000; 3 half of it: 1 - 0.2 * ...; 6.6 within:
 * 1 + 0.1 * ... */
static void the_controller_holds_its_target(void **state)
{
    sr1_kl_controller c = adaptive();
    double coef = 0.2;

    (void)state;
    assert_int_equal(sr1_kl_controller_update(&c, 12, 256), SR1_OK);
    near_to(c.coef, coef *= 1.00512, 1e-14, 0);
    assert_int_equal(sr1_kl_controller_update(&c, 3, 256), SR1_OK);
    near_to(c.coef, coef *= 0.99488, 1e-14, 0);
    assert_int_equal(sr1_kl_controller_update(&c, 6.6, 100), SR1_OK);
    near_to(c.coef, coef *= 1.001, 1e-14, 0);
    assert_int_equal(sr1_kl_controller_update(&c, -5, 100), SR1_OK);
    near_to(c.coef, coef * 0.998, 1e-14, 0);
    assert_int_equal(c.updates, 4);
    assert_true(c.last_kl == -5);
}

static void a_fixed_controller_stays(void **state)
{
    sr1_kl_controller c = {.struct_size = sizeof c, .coef = 0.001};

    (void)state;
    assert_int_equal(sr1_kl_controller_update(&c, 100, 1000000), SR1_OK);
    assert_true(c.coef == 0.001 && c.updates == 1 && c.last_kl == 100);
}

static void wrong_controllers_are_refused(void **state)
{
    sr1_kl_controller c = adaptive();

    (void)state;
    assert_int_equal(sr1_kl_controller_update(NULL, 1, 1), SR1_E_INVALID);
    assert_int_equal(sr1_kl_controller_update(&c, NAN, 1), SR1_E_NUMERIC);
    assert_int_equal(sr1_kl_controller_update(&c, 1, -1), SR1_E_INVALID);
    assert_int_equal(sr1_kl_controller_update(&c, 1, 50000), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "raise the horizon"));
    assert_int_equal(sr1_kl_controller_update(&c, 1, 49999), SR1_OK);
    assert_true(c.coef > 0 && c.updates == 1);
    c.target = 0;
    assert_int_equal(sr1_kl_controller_update(&c, 1, 1), SR1_E_INVALID);
    c = adaptive();
    c.coef = -1;
    assert_int_equal(sr1_kl_controller_update(&c, 1, 1), SR1_E_INVALID);
    c = adaptive();
    c.horizon = NAN;
    assert_int_equal(sr1_kl_controller_update(&c, 1, 1), SR1_E_INVALID);
    c = adaptive();
    c.struct_size = 8;
    assert_int_equal(sr1_kl_controller_update(&c, 1, 1), SR1_E_INVALID);
    assert_true(c.coef == 0.2 && c.updates == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_verl_trl_and_numpy),
        cmocka_unit_test(plus_is_straight_through),
        cmocka_unit_test(clamps_have_no_slope),
        cmocka_unit_test(k3_draws_back_from_any_distance),
        cmocka_unit_test(certain_and_impossible_tokens),
        cmocka_unit_test(the_penalty_goes_into_the_rewards),
        cmocka_unit_test(wrong_log_probs_are_named),
        cmocka_unit_test(the_controller_holds_its_target),
        cmocka_unit_test(a_fixed_controller_stays),
        cmocka_unit_test(wrong_controllers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
