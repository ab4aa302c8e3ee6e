/* The two losses with functions of their own: against numpy and finite differences. */
#include "support/files.h"

#include "base/json.h"
#include "base/rng.h"
#include "signal/loss/loss.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX 64

static void near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * fmax(1.0, fabs(b))))
        fail_msg("%.12g is not %.12g", a, b);
}

static size_t floats(const json_t *row, const char *key, float out[MAX])
{
    const json_t *list = json_object_get(row, key);
    size_t n = json_array_size(list);

    assert_true(n > 0 && n <= MAX);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)json_real_value(json_array_get(list, i));
    return n;
}

static double number(const json_t *row, const char *key)
{
    assert_true(json_is_number(json_object_get(row, key)));
    return json_number_value(json_object_get(row, key));
}

static void check_case(const json_t *row)
{
    float now[MAX], old[MAX], ref[MAX], adv[MAX], weight[MAX], want[MAX], got[MAX];
    sr1_loss_batch b = {sizeof b, floats(row, "new", now), now, old, ref, adv, weight};
    sr1_loss_options o = {sizeof o, number(row, "low"), number(row, "high"),
                          number(row, "beta")};
    sr1_loss_report r = {.struct_size = sizeof r};

    floats(row, "old", old);
    floats(row, "ref", ref);
    floats(row, "advantage", adv);
    floats(row, "weight", weight);
    floats(row, "gradient", want);
    assert_int_equal(sr1_loss_grpo(&b, &o, got, &r), SR1_OK);
    for (size_t i = 0; i < b.n; i++)
        near(got[i], want[i], 1e-6);
    near(r.loss, number(row, "loss"), 1e-9);
    near(r.policy_loss, number(row, "policy_loss"), 1e-9);
    near(r.kl, number(row, "kl"), 1e-9);
    near(r.clip_fraction, number(row, "clip_fraction"), 1e-9);
    near(r.approx_kl, number(row, "approx_kl"), 1e-9);
    near(r.ratio_max, number(row, "ratio_max"), 1e-9);
    near(r.log_ratio_max, number(row, "log_ratio_max"), 1e-9);
}

static void equals_numpy(void **state)
{
    char path[600], line[16384];
    size_t n = 0;
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/loss.jsonl", getenv("SR1_SRC"));
    f = fopen(path, "r");
    assert_non_null(f);
    for (; fgets(line, sizeof line, f); n++) {
        json_t *row = NULL;

        assert_int_equal(sr1__json_parse(&row, line, strlen(line), "case"), SR1_OK);
        check_case(row);
        json_decref(row);
    }
    fclose(f);
    assert_int_equal(n, 40);
}

/* One random batch; the loss is smooth at nearly every point. */
struct batch {
    float now[16], old[16], ref[16], adv[16];
    sr1_loss_batch b;
};

static void fill(struct batch *x, uint64_t seed)
{
    struct sr1__rng rng;

    sr1__rng_seed(&rng, seed, 0);
    for (int i = 0; i < 16; i++) {
        x->old[i] = (float)-fabs(sr1__rng_normal(&rng));
        x->now[i] = x->old[i] + (float)(0.2 * sr1__rng_normal(&rng));
        x->ref[i] = x->old[i] + (float)(0.2 * sr1__rng_normal(&rng));
        x->adv[i] = (float)sr1__rng_normal(&rng);
    }
    x->b = (sr1_loss_batch){sizeof x->b, 16, x->now, x->old, x->ref, x->adv, NULL};
}

static double value(const struct batch *x, const sr1_loss_options *o)
{
    sr1_loss_report r = {.struct_size = sizeof r};

    assert_int_equal(sr1_loss_grpo(&x->b, o, NULL, &r), SR1_OK);
    return r.loss;
}

static void gradient_is_the_slope(void **state)
{
    sr1_loss_options o = {sizeof o, 0.2, 0.2, 0.3};
    struct batch x;
    float g[16];

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        fill(&x, seed);
        assert_int_equal(sr1_loss_grpo(&x.b, &o, g, NULL), SR1_OK);
        for (int i = 0; i < 16; i++) {
            double r = exp((double)x.now[i] - x.old[i]);
            float at = x.now[i], up, down;
            double high, low;

            if (fabs(r - 0.8) < 0.02 || fabs(r - 1.2) < 0.02)
                continue; /* a corner */
            x.now[i] = up = at + 1e-2f;
            high = value(&x, &o);
            x.now[i] = down = at - 1e-2f;
            low = value(&x, &o);
            x.now[i] = at;
            near(g[i], (high - low) / ((double)up - down), 2e-4);
        }
    }
}

static void parts_add_up(void **state)
{
    sr1_loss_options o = {sizeof o, 0.2, 0.2, 0.3};
    sr1_loss_report whole = {.struct_size = sizeof whole},
                    sum = {.struct_size = sizeof sum};
    float weights[16], g[16], part[16];
    struct batch x;

    (void)state;
    fill(&x, 5);
    for (int i = 0; i < 16; i++)
        weights[i] = 1.0f / 16;
    assert_int_equal(sr1_loss_grpo(&x.b, &o, g, &whole), SR1_OK); /* NULL: 1/n each */
    for (size_t i = 0; i < 16; i += 4) {
        sr1_loss_batch b = {sizeof b,  4,         x.now + i,  x.old + i,
                            x.ref + i, x.adv + i, weights + i};
        sr1_loss_report r = {.struct_size = sizeof r};

        assert_int_equal(sr1_loss_grpo(&b, &o, part + i, &r), SR1_OK);
        sr1__loss_report_add(&sum, &r);
    }
    assert_memory_equal(g, part, sizeof g);
    near(sum.loss, whole.loss, 1e-12);
    near(sum.kl, whole.kl, 1e-12);
    near(sum.clip_fraction, whole.clip_fraction, 1e-12);
    near(sum.approx_kl, whole.approx_kl, 1e-12);
    assert_true(sum.ratio_max == whole.ratio_max);
    assert_true(sum.log_ratio_max == whole.log_ratio_max);
}

/* The specification's example by hand: r = e^0.5, A = 1 is clipped to 1.2; KL to itself
 * 0. */
static void the_seed_formula_by_hand(void **state)
{
    float now = -0.5f, old = -1.0f, adv = 1.0f, g = 9;
    sr1_loss_batch b = {sizeof b, 1, &now, &old, &old, &adv, NULL};
    sr1_loss_options o = {sizeof o, 0.2, 0.2, 0.1};
    sr1_loss_report r = {.struct_size = sizeof r};

    (void)state;
    assert_int_equal(sr1_loss_grpo(&b, &o, &g, &r), SR1_OK);
    near(r.policy_loss, -1.2, 1e-12);
    near(r.kl, exp(-0.5) + 0.5 - 1, 1e-12);
    near(r.loss, -1.2 + 0.1 * (exp(-0.5) - 0.5), 1e-12);
    near(g, 0.1 * (1 - exp(-0.5)), 1e-7);
    adv = -1; /* the unclipped branch is the smaller one */
    assert_int_equal(sr1_loss_grpo(&b, &o, &g, &r), SR1_OK);
    near(r.policy_loss, exp(0.5), 1e-12);
    assert_true(r.clip_fraction == 0);
}

static void bad_input_is_refused_and_outputs_kept(void **state)
{
    sr1_loss_options o = {sizeof o, 0.2, 0.2, 0.1};
    sr1_loss_report r = {.struct_size = sizeof r, .loss = 7};
    struct batch x;
    float g[16] = {3};

    (void)state;
    fill(&x, 1);
    x.now[9] = NAN;
    assert_int_equal(sr1_loss_grpo(&x.b, &o, g, &r), SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "token 9 of 16"));
    assert_int_equal(sr1_loss_nll(&x.b, NULL, g, &r), SR1_E_NUMERIC);
    assert_true(g[0] == 3 && r.loss == 7);
    fill(&x, 1);
    x.adv[2] = -INFINITY;
    assert_int_equal(sr1_loss_grpo(&x.b, &o, g, &r), SR1_E_NUMERIC);
    fill(&x, 1);
    x.b.ref_log_probs = NULL;
    assert_int_equal(sr1_loss_grpo(&x.b, &o, g, &r), SR1_E_INVALID);
    o.beta = 0; /* no anchor needed then */
    assert_int_equal(sr1_loss_grpo(&x.b, &o, g, &r), SR1_OK);
    x.b.old_log_probs = NULL;
    assert_int_equal(sr1_loss_grpo(&x.b, &o, g, &r), SR1_E_INVALID);
    assert_int_equal(sr1_loss_nll(&x.b, NULL, g, &r), SR1_OK);
    assert_int_equal(sr1_loss_grpo(NULL, &o, g, &r), SR1_E_INVALID);
    x.b = (sr1_loss_batch){.struct_size = sizeof x.b};
    assert_int_equal(sr1_loss_grpo(&x.b, &o, NULL, &r), SR1_OK); /* nothing gives 0 */
    assert_true(r.loss == 0);
    assert_null(sr1__loss_find("nothing"));
}

static void nll_is_the_mean(void **state)
{
    float now[2] = {-1, -3}, w[2] = {0.25f, 0.5f}, g[2];
    sr1_loss_batch b = {.struct_size = sizeof b, .n = 2, .new_log_probs = now};
    sr1_loss_report r = {.struct_size = sizeof r};

    (void)state;
    assert_int_equal(sr1_loss_nll(&b, NULL, g, &r), SR1_OK);
    near(r.loss, 2, 1e-12);
    assert_true(g[0] == -0.5f && g[1] == -0.5f);
    b.weights = w;
    assert_int_equal(sr1_loss_nll(&b, NULL, g, &r), SR1_OK);
    near(r.loss, 1.75, 1e-12);
    assert_true(g[0] == -0.25f && g[1] == -0.5f);
}

static void an_older_report_is_filled_as_far_as_it_goes(void **state)
{
    sr1_loss_report r = {.struct_size = offsetof(sr1_loss_report, kl), .kl = 42};
    float now = -1;
    sr1_loss_batch b = {.struct_size = sizeof b, .n = 1, .new_log_probs = &now};

    (void)state;
    assert_int_equal(sr1_loss_nll(&b, NULL, NULL, &r), SR1_OK);
    assert_true(r.loss == 1 && r.kl == 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_numpy),
        cmocka_unit_test(gradient_is_the_slope),
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(the_seed_formula_by_hand),
        cmocka_unit_test(bad_input_is_refused_and_outputs_kept),
        cmocka_unit_test(nll_is_the_mean),
        cmocka_unit_test(an_older_report_is_filled_as_far_as_it_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
