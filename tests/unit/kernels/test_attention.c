/* Attention over pages against its formula in double. */
#include "base/rng.h"
#include "kernels/attention.h"
#include "kernels/bf16.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOKENS_MAX 100
#define PAGES_MAX ((TOKENS_MAX + SR1__PAGE - 1) / SR1__PAGE)

/* One head in the second half of pages of garbage. */
static struct sr1__page_head make_head(unsigned char **pages, int32_t dim, int bf16)
{
    struct sr1__page_head h = {.pages = pages, .dim = dim, .bf16 = bf16};

    h.keys = 64;
    h.values = h.keys + sr1__page_keys_bytes(dim, bf16);
    for (size_t i = 0; i < PAGES_MAX; i++) {
        size_t size = h.values + sr1__page_values_bytes(dim, bf16);

        pages[i] = malloc(size);
        memset(pages[i], 0xff, size); /* NaN in both types */
    }
    return h;
}

static float normal(struct sr1__rng *rng, double sd, int bf16)
{
    float v = (float)(sd * sr1__rng_normal(rng));
    uint16_t half;

    if (bf16) {
        sr1__f32_to_bf16(&v, &half, 1);
        sr1__bf16_to_f32(&half, &v, 1);
    }
    return v;
}

static void fill(struct sr1__rng *rng, struct sr1__page_head *h, float *k, float *v,
                 double sd)
{
    size_t d = (size_t)h->dim;

    for (int64_t t = 0; t < TOKENS_MAX; t++) {
        uint16_t k16[SR1__HEAD_DIM_MAX];
        uint16_t v16[SR1__HEAD_DIM_MAX];
        float *kt = k + (size_t)t * d;
        float *vt = v + (size_t)t * d;

        for (size_t i = 0; i < d; i++) {
            kt[i] = normal(rng, sd, h->bf16);
            vt[i] = normal(rng, 1, h->bf16);
        }
        sr1__f32_to_bf16(kt, k16, d);
        sr1__f32_to_bf16(vt, v16, d);
        sr1__page_put(h, t, h->bf16 ? (void *)k16 : kt, h->bf16 ? (void *)v16 : vt);
    }
}

static void expected(const float *q, const float *k, const float *v, int64_t from,
                     int64_t n, size_t d, double *out)
{
    double s[TOKENS_MAX];
    double top = -INFINITY;
    double total = 0;

    for (int64_t t = from; t < n; t++) {
        s[t] = 0;
        for (size_t i = 0; i < d; i++)
            s[t] += (double)q[i] * (double)k[(size_t)t * d + i];
        top = fmax(top, s[t]);
    }
    memset(out, 0, d * sizeof *out);
    for (int64_t t = from; t < n; t++)
        total += exp(s[t] - top);
    for (int64_t t = from; t < n; t++)
        for (size_t i = 0; i < d; i++)
            out[i] += exp(s[t] - top) / total * (double)v[(size_t)t * d + i];
}

/* Heads of the last of h's tokens, each to a window one longer than the one before. */
static void attend_windows(const struct sr1__page_head *h, const float *q, size_t n_heads,
                           int64_t window, float *out)
{
    struct sr1__page_query queries[8];

    for (size_t g = 0; g < n_heads; g++)
        queries[g] = (struct sr1__page_query){
            q + g * (size_t)h->dim, out + g * (size_t)h->dim, h->n,
            window ? sr1__window_start(h->n, window + (int64_t)g) : 0};
    sr1__page_attend(h, queries, n_heads);
}

static void attend(const struct sr1__page_head *h, const float *q, size_t n_heads,
                   float *out)
{
    attend_windows(h, q, n_heads, 0, out);
}

static void check(int32_t dim, int bf16, double sd)
{
    enum { HEADS = 3 };
    static const int64_t lengths[] = {1, 2, 31, 32, 33, 64, 65, TOKENS_MAX};
    static const int64_t windows[] = {0, 1, 30, 32, 40, 70};
    unsigned char *pages[PAGES_MAX];
    struct sr1__page_head h = make_head(pages, dim, bf16);
    size_t d = (size_t)dim;
    float *k = malloc(TOKENS_MAX * d * sizeof *k);
    float *v = malloc(TOKENS_MAX * d * sizeof *v);
    float *q = malloc(HEADS * d * sizeof *q);
    float *out = malloc(HEADS * d * sizeof *out);
    double *want = malloc(d * sizeof *want);
    struct sr1__rng rng;

    sr1__rng_seed(&rng, (uint64_t)dim, (uint64_t)bf16);
    fill(&rng, &h, k, v, sd);
    for (size_t i = 0; i < HEADS * d; i++)
        q[i] = (float)(sr1__rng_normal(&rng) / sqrt((double)dim));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        h.n = lengths[i];
        for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
            attend_windows(&h, q, HEADS, windows[w], out);
            for (size_t g = 0; g < HEADS; g++) {
                int64_t window = windows[w] ? windows[w] + (int64_t)g : 0;

                expected(q + g * d, k, v, sr1__window_start(h.n, window), h.n, d, want);
                for (size_t j = 0; j < d; j++)
                    assert_true(fabs((double)out[g * d + j] - want[j]) < 4e-6 * sd);
            }
        }
    }
    for (size_t i = 0; i < PAGES_MAX; i++)
        free(pages[i]);
    free(k);
    free(v);
    free(q);
    free(out);
    free(want);
}

static void test_attend(void **state)
{
    static const int32_t dims[] = {2, 8, 12, 16, 64, 80, 128, 1024};

    (void)state;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        check(dims[i], 0, 1.0);
        check(dims[i], 1, 1.0);
        check(dims[i], 0, 30.0); /* scores far apart: weights underflow to 0 */
    }
}

/* A prompt's tokens at once, each of which sees those before it, have the bits of each
 * alone, in tiles of any size. */
static void check_queries(int32_t dim, int bf16, int64_t window)
{
    unsigned char *pages[PAGES_MAX];
    struct sr1__page_head h = make_head(pages, dim, bf16);
    size_t d = (size_t)dim;
    float *k = malloc(TOKENS_MAX * d * sizeof *k);
    float *v = malloc(TOKENS_MAX * d * sizeof *v);
    float *q = malloc(TOKENS_MAX * d * sizeof *q);
    float *one = malloc(TOKENS_MAX * d * sizeof *one);
    float *all = malloc(TOKENS_MAX * d * sizeof *all);
    struct sr1__page_query queries[TOKENS_MAX];
    struct sr1__rng rng;

    sr1__rng_seed(&rng, 8, (uint64_t)dim);
    fill(&rng, &h, k, v, 1);
    h.n = TOKENS_MAX;
    for (size_t i = 0; i < TOKENS_MAX * d; i++)
        q[i] = (float)sr1__rng_normal(&rng);
    for (size_t t = 0; t < TOKENS_MAX; t++) {
        queries[t] = (struct sr1__page_query){q + t * d, one + t * d, (int64_t)t + 1,
                                              sr1__window_start((int64_t)t + 1, window)};
        sr1__page_attend(&h, &queries[t], 1);
        queries[t].out = all + t * d;
    }
    for (size_t first = 0; first < 4; first++) {
        memset(all, 0xff, TOKENS_MAX * d * sizeof *all);
        sr1__page_attend(&h, queries, first);
        sr1__page_attend(&h, queries + first, TOKENS_MAX - first);
        assert_memory_equal(one, all, TOKENS_MAX * d * sizeof *all);
    }
    for (size_t i = 0; i < PAGES_MAX; i++)
        free(pages[i]);
    free(k);
    free(v);
    free(q);
    free(one);
    free(all);
}

static void test_queries(void **state)
{
    static const int32_t dims[] = {8, 12, 64, 80, 128};

    (void)state;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        check_queries(dims[i], 0, 0);
        check_queries(dims[i], 1, 0);
        check_queries(dims[i], 0, 33);
        check_queries(dims[i], 1, 3);
    }
}

/* A number that is none is not taken for a token of no weight: in the key of any one
 * token, or in the query. */
static void test_nan_shows(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        unsigned char *pages[PAGES_MAX];
        struct sr1__page_head h = make_head(pages, 8, bf16);
        float bad[8] = {0, NAN};
        uint16_t bad16[8] = {0, 0x7fc0};
        float k[TOKENS_MAX * 8];
        float v[TOKENS_MAX * 8];
        float q[8] = {1, 1};
        float out[8];
        struct sr1__rng rng;

        sr1__rng_seed(&rng, 3, (uint64_t)bf16);
        for (int64_t t = 0; t < TOKENS_MAX; t += 7) {
            fill(&rng, &h, k, v, 1);
            h.n = TOKENS_MAX;
            attend(&h, q, 1, out);
            assert_true(isfinite(out[0]));
            sr1__page_put(&h, t, bf16 ? (void *)bad16 : bad, v);
            attend(&h, q, 1, out);
            for (size_t i = 0; i < 8; i++)
                assert_true(isnan(out[i]));
        }
        fill(&rng, &h, k, v, 1);
        attend(&h, bad, 1, out);
        assert_true(isnan(out[0]) && isnan(out[7]));
        for (size_t i = 0; i < PAGES_MAX; i++)
            free(pages[i]);
    }
}

/* Nor does a token that a query does not see touch it, a later one or one before its
 * window, whatever its value is, and whoever sees it in the same tile. */
static void check_later_tokens(float bad, int bf16, int64_t window)
{
    unsigned char *pages[PAGES_MAX];
    struct sr1__page_head h = make_head(pages, 64, bf16);
    static float k[TOKENS_MAX * 64], v[TOKENS_MAX * 64], q[TOKENS_MAX * 64];
    static float one[TOKENS_MAX * 64], all[TOKENS_MAX * 64];
    struct sr1__page_query queries[TOKENS_MAX];
    float value[64];
    uint16_t value16[64];
    struct sr1__rng rng;

    sr1__rng_seed(&rng, 9, (uint64_t)bf16);
    for (size_t i = 0; i < 64; i++)
        value[i] = bad;
    sr1__f32_to_bf16(value, value16, 64);
    for (size_t i = 0; i < TOKENS_MAX * 64; i++)
        q[i] = (float)sr1__rng_normal(&rng);
    for (size_t at = 1; at < TOKENS_MAX; at += 5) {
        fill(&rng, &h, k, v, 1);
        h.n = TOKENS_MAX;
        sr1__page_put(&h, (int64_t)at, k, bf16 ? (void *)value16 : (void *)value);
        for (size_t t = 0; t < TOKENS_MAX; t++) {
            int64_t n = (int64_t)t + 1;

            queries[t] = (struct sr1__page_query){q + t * 64, one + t * 64, n,
                                                  n > window ? n - window : 0};
            sr1__page_attend(&h, &queries[t], 1);
            queries[t].out = all + t * 64;
        }
        sr1__page_attend(&h, queries, TOKENS_MAX);
        for (size_t t = 0; t < TOKENS_MAX; t++) {
            int sees = queries[t].from <= (int64_t)at && (int64_t)at < queries[t].n;

            assert_int_equal(isfinite(all[t * 64]) != 0, !sees);
            if (!sees)
                assert_memory_equal(one + t * 64, all + t * 64, 64 * sizeof *one);
        }
    }
    for (size_t i = 0; i < PAGES_MAX; i++)
        free(pages[i]);
}

static void test_later_tokens(void **state)
{
    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        check_later_tokens(INFINITY, bf16, TOKENS_MAX);
        check_later_tokens(NAN, bf16, TOKENS_MAX);
        check_later_tokens(NAN, bf16, 5);
        check_later_tokens(INFINITY, bf16, 37);
    }
}

static void test_get(void **state)
{
    unsigned char *pages[PAGES_MAX];
    float k[TOKENS_MAX * 6];
    float v[TOKENS_MAX * 6];
    float k2[TOKENS_MAX * 6];
    float v2[TOKENS_MAX * 6];
    struct sr1__page_head h = make_head(pages, 6, 0);
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 1, 1);
    fill(&rng, &h, k, v, 1);
    h.n = TOKENS_MAX;
    sr1__page_get(&h, k2, v2);
    assert_memory_equal(k, k2, sizeof k);
    assert_memory_equal(v, v2, sizeof v);
    for (size_t i = 0; i < PAGES_MAX; i++)
        free(pages[i]);
}

static void test_bf16_rounding(void **state)
{
    const float in[] = {1.0F, 1.00390625F, 1.01171875F, -0.0F, 3.4e38F, INFINITY, NAN};
    const uint16_t want[] = {0x3f80, 0x3f80, 0x3f82, 0x8000, 0x7f80, 0x7f80, 0x7fc0};
    uint16_t out[7];

    (void)state;
    sr1__f32_to_bf16(in, out, 7);
    assert_memory_equal(out, want, sizeof want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attend),    cmocka_unit_test(test_queries),
        cmocka_unit_test(test_nan_shows), cmocka_unit_test(test_later_tokens),
        cmocka_unit_test(test_get),       cmocka_unit_test(test_bf16_rounding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
