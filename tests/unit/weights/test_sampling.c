/* Draws against a plain implementation of their definition: sort, cut, renormalise. */
#include "base/mem.h"
#include "tensor/weights/sampling.h"
#include "kernels/softmax.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define QWEN_VOCAB 151936

static const float *sort_key;

static int by_rank(const void *a, const void *b)
{
    size_t i = *(const size_t *)a;
    size_t j = *(const size_t *)b;

    if (sort_key[i] != sort_key[j])
        return sort_key[i] > sort_key[j] ? -1 : 1;
    return (i > j) - (i < j);
}

/* p[i] of the sampling distribution, by the definition, in double. */
static void naive(const float *x, size_t n, const struct sr1__sampling *s, double *p)
{
    size_t *order = malloc(n * sizeof *order);
    double z = 0;
    double mass = 0;
    size_t kept = n;

    for (size_t i = 0; i < n; i++)
        order[i] = i;
    sort_key = x;
    qsort(order, n, sizeof *order, by_rank);
    if (s->top_k > 0 && (size_t)s->top_k < n) {
        kept = (size_t)s->top_k;
        while (kept < n && x[order[kept]] == x[order[kept - 1]])
            kept++;
    }
    for (size_t i = 0; i < n; i++)
        p[i] = 0;
    for (size_t i = 0; i < kept; i++) {
        p[order[i]] = exp(((double)x[order[i]] - (double)x[order[0]]) / s->temperature);
        z += p[order[i]];
    }
    for (size_t i = 0; i < kept; i++) {
        if (i > 0 && mass >= s->top_p * z)
            p[order[i]] = 0;
        mass += p[order[i]];
    }
    for (size_t i = 0, first = 1; i < n; i++, first = 0)
        z = (first ? 0 : z) + p[i];
    for (size_t i = 0; i < n; i++)
        p[i] /= z;
    free(order);
}

static void random_logits(struct sr1__rng *rng, float *x, size_t n, double sd)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(sd * sr1__rng_normal(rng));
}

static const struct sr1__sampling settings[] = {
    {1.0, 0, 1.0},     {0.7, 0, 1.0},    {1.0, 0, 0.9},  {0.7, 20, 1.0},
    {0.6, 20, 0.95},   {1.3, 5, 0.5},    {1.0, 1, 1.0},  {1.0, 0, 1e-9},
    {5.0, 1000, 0.99}, {0.05, 0, 0.999}, {1.0, 50, 1.0}, {2.0, 0, 0.9999}};

#define N_SETTINGS (sizeof settings / sizeof *settings)

/* Kept sets and log-probs of every token equal the definition's. */
static void test_distribution(void **state)
{
    static const size_t sizes[] = {1, 2, 15, 16, 17, 1023, 1024, 1025, 4099};
    struct sr1__rng rng;
    float x[4099];
    double p[4099];

    (void)state;
    sr1__rng_seed(&rng, 7, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t j = 0; j < N_SETTINGS; j++) {
            double total = 0;

            random_logits(&rng, x, sizes[i], j % 3 == 0 ? 0.5 : 3.0);
            naive(x, sizes[i], &settings[j], p);
            for (size_t id = 0; id<sizes[i]; id += sizes[i]> 1000 ? 97 : 1) {
                float lp;

                assert_int_equal(
                    sr1__sample_log_prob(x, sizes[i], &settings[j], (int32_t)id, &lp),
                    SR1_OK);
                total += exp((double)lp);
                if (p[id] == 0)
                    assert_true(isinf(lp));
                else
                    assert_true(fabs((double)lp - log(p[id])) <
                                1e-6 * fmax(1, -log(p[id])));
            }
            if (sizes[i] <= 1000)
                assert_true(fabs(total - 1) < 1e-5);
        }
    }
}

/* Equal logits: all of them survive at top_k, the lower ids at top_p. */
static void test_ties(void **state)
{
    const float x[8] = {1, 3, 3, 2, 3, 1, 2, 2};
    const struct sr1__sampling k2 = {1, 2, 1};
    const struct sr1__sampling p = {1, 0, 0.4};
    double want[8];
    struct sr1__sample out;

    (void)state;
    for (int32_t id = 0; id < 8; id++) {
        float lp;

        assert_int_equal(sr1__sample_log_prob(x, 8, &k2, id, &lp), SR1_OK);
        assert_true(x[id] == 3 ? fabs((double)lp - log(1.0 / 3)) < 1e-6 : isinf(lp));
        naive(x, 8, &p, want);
        assert_int_equal(sr1__sample_log_prob(x, 8, &p, id, &lp), SR1_OK);
        assert_true(id == 1 || id == 2 ? fabs((double)lp - log(0.5)) < 1e-6 : isinf(lp));
    }
    assert_int_equal(sr1__sample_row(x, 8, &(struct sr1__sampling){0, 0, 1}, NULL, &out),
                     SR1_OK);
    assert_int_equal(out.id, 1);
}

/* Chi-square of 30,000 draws against the definition, for each setting. */
static void test_frequencies(void **state)
{
    enum { N = 40, DRAWS = 30000 };
    struct sr1__rng rng;
    float x[N];
    double p[N];

    (void)state;
    sr1__rng_seed(&rng, 11, 3);
    random_logits(&rng, x, N, 1.5);
    for (size_t j = 0; j < N_SETTINGS; j++) {
        int64_t count[N] = {0};
        double chi = 0;
        int cells = 0;

        naive(x, N, &settings[j], p);
        for (int d = 0; d < DRAWS; d++) {
            struct sr1__sample out;

            assert_int_equal(sr1__sample_row(x, N, &settings[j], &rng, &out), SR1_OK);
            count[out.id]++;
            if (d % 1000 == 0)
                assert_true(fabs((double)out.log_prob - log(p[out.id])) < 1e-5);
        }
        for (int i = 0; i < N; i++) {
            double want = p[i] * DRAWS;

            if (p[i] == 0)
                assert_int_equal(count[i], 0);
            if (want < 5)
                continue;
            chi += ((double)count[i] - want) * ((double)count[i] - want) / want;
            cells++;
        }
        /* mean cells - 1, variance twice that: five standard deviations */
        assert_true(chi < cells + 5 * sqrt(2.0 * cells));
    }
}

/* At the true vocabulary: log-prob, entropy and kept mass within 1e-6, relative for
 * entropy. */
static void test_large_vocabulary(void **state)
{
    struct sr1__rng rng;
    float *x = malloc(QWEN_VOCAB * sizeof *x);
    double *p = malloc(QWEN_VOCAB * sizeof *p);
    const struct sr1__sampling plain[] = {
        {0.7, 0, 1}, {1.0, 0, 1}, {1.0, 0, 0.9}, {1, 50, 1}};

    (void)state;
    sr1__rng_seed(&rng, 5, 0);
    for (int round = 0; round < 8; round++) {
        const struct sr1__sampling *s = &plain[round % 4];
        const struct sr1__sampling all = {s->temperature, 0, 1};
        struct sr1__sample out;
        double entropy = 0;
        double log_kept;

        random_logits(&rng, x, QWEN_VOCAB, round < 4 ? 3.0 : 0.3);
        for (size_t i = 0; i < QWEN_VOCAB; i++)
            x[i] += 20.0F;
        assert_int_equal(sr1__sample_row(x, QWEN_VOCAB, s, &rng, &out), SR1_OK);
        naive(x, QWEN_VOCAB, &all, p);
        for (size_t i = 0; i < QWEN_VOCAB; i++)
            entropy -= p[i] > 0 ? p[i] * log(p[i]) : 0;
        log_kept = log(p[out.id]);
        naive(x, QWEN_VOCAB, s, p);
        log_kept -= log(p[out.id]);
        assert_true(fabs((double)out.entropy - entropy) < 2e-6 * entropy);
        assert_true(fabs((double)out.log_prob - log(p[out.id])) < 1.5e-6);
        assert_true(fabs((double)out.log_kept - log_kept) < 1e-5);
    }
    free(x);
    free(p);
}

static void test_extreme_logits(void **state)
{
    const struct sr1__sampling s = {1, 2, 0.9};
    float huge[4] = {-3e38F, 3e38F, 0, 1};
    float flat[5000];
    struct sr1__rng rng;
    struct sr1__sample out;

    (void)state;
    sr1__rng_seed(&rng, 1, 1);
    assert_int_equal(sr1__sample_row(huge, 4, &s, &rng, &out), SR1_OK);
    assert_int_equal(out.id, 1);
    assert_true(out.log_prob == 0 && out.entropy == 0);
    for (size_t i = 0; i < 5000; i++)
        flat[i] = -7;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(
            sr1__sample_row(flat, 5000, &(struct sr1__sampling){1, 3, 0.1}, &rng, &out),
            SR1_OK);
        assert_in_range(out.id, 0,
                        499); /* all 5000 tie at top_k; a tenth of the mass stays */
        assert_true(fabs((double)out.log_prob + log(500)) < 1e-6);
    }
}

/* A weight too small for a float is not cut. */
static void test_kept_depths(void **state)
{
    const struct sr1__sampling k2 = {1, 2, 1};
    const float x[3] = {0, -110, -220};
    float lp = 0;

    (void)state;
    assert_int_equal(sr1__sample_log_prob(x, 3, &k2, 1, &lp), SR1_OK);
    assert_true(fabs((double)lp + 110) < 1e-4);
    assert_int_equal(sr1__sample_log_prob(x, 3, &k2, 2, &lp), SR1_OK);
    assert_true(lp == -INFINITY);
}

static void test_refusals(void **state)
{
    static const struct sr1__sampling bad[] = {{-1, 0, 1},  {NAN, 0, 1},     {1e-9, 0, 1},
                                               {1, -1, 1},  {1, 0, 0},       {1, 0, 1.5},
                                               {1, 0, NAN}, {INFINITY, 0, 1}};
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    const struct sr1__sampling s = {1, 0, 1};
    float x[40] = {0};
    struct sr1__rng rng;
    struct sr1__rng before;
    struct sr1__sample out;
    float lp;

    (void)state;
    sr1__rng_seed(&rng, 1, 1);
    before = rng;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sr1__sample_row(x, 40, &bad[i], &rng, &out), SR1_E_INVALID);
    for (size_t i = 0; i < 3; i++) {
        for (size_t at = 0; at < 40; at += 13) {
            x[at] = odd[i];
            assert_int_equal(sr1__sample_row(x, 40, &s, &rng, &out), SR1_E_NUMERIC);
            x[at] = 0;
        }
    }
    assert_int_equal(sr1__sample_row(x, 0, &s, &rng, &out), SR1_E_INVALID);
    assert_int_equal(sr1__sample_log_prob(x, 40, &s, 40, &lp), SR1_E_INVALID);
    assert_int_equal(sr1__sample_log_prob(x, 40, &s, -1, &lp), SR1_E_INVALID);
    assert_memory_equal(&rng, &before, sizeof rng);
}

/* A row's draw does not depend on its neighbours or on the number of threads. */
static void test_rows(void **state)
{
    enum { N = 9, V = 3000 };
    static float x[N][V];
    const struct sr1__sampling s = {0.8, 100, 0.95};
    const float *rows[N];
    struct sr1__rng streams[N];
    struct sr1__rng *rngs[N];
    struct sr1__sample alone[N];
    struct sr1__sample together[N];
    struct sr1__team *team = NULL;

    (void)state;
    for (size_t i = 0; i < N; i++) {
        sr1__rng_seed(&streams[i], 3, i);
        random_logits(&streams[i], x[i], V, 2);
        rows[i] = x[i];
        rngs[i] = &streams[i];
    }
    for (size_t i = 0; i < N; i++) {
        struct sr1__rng copy = streams[i];

        assert_int_equal(sr1__sample_row(x[i], V, &s, &copy, &alone[i]), SR1_OK);
    }
    assert_int_equal(sr1__team_new(&team, 2), SR1_OK);
    assert_int_equal(sr1__sample_rows(team, rows, N, V, &s, rngs, together), SR1_OK);
    assert_memory_equal(alone, together, sizeof alone);
    x[4][7] = NAN;
    assert_int_equal(sr1__sample_rows(team, rows, N, V, &s, rngs, together),
                     SR1_E_NUMERIC);
    assert_non_null(strstr(sr1_last_error(), "row 4"));
    sr1__team_free(team);
}

static void test_allocation_failures(void **state)
{
    const struct sr1__sampling s = {0.8, 10, 0.95};
    float x[100];
    struct sr1__rng rng;
    struct sr1__sample out;
    sr1_status status = SR1_E_NOMEM;
    int64_t n;

    (void)state;
    sr1__rng_seed(&rng, 1, 1);
    random_logits(&rng, x, 100, 1);
    for (n = 1; status != SR1_OK; n++) {
        sr1__mem_fail_at(n);
        status = sr1__sample_row(x, 100, &s, &rng, &out);
        assert_true(status == SR1_OK || status == SR1_E_NOMEM);
    }
    sr1__mem_fail_at(0);
    assert_true(n > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_kept_depths),
        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_large_vocabulary),
        cmocka_unit_test(test_extreme_logits),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_allocation_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
