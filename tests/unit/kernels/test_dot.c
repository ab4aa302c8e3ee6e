/* Inner products of rows of every type with queries, against sums in double; conversions
 * against their definition. */
#include "base/rng.h"
#include "kernels/dot.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define QUERIES_MAX 9
#define ROWS_MAX 13
#define DIM_MAX 8208 /* more than one run of int8 sums */

struct data {
    struct sr1__dot dot;
    float row_scales[ROWS_MAX];
    float query_scales[QUERIES_MAX];
    double *rows; /* what they stand for */
    double *queries;
    double *lengths; /* sum of |row| |query|, for bounds */
    size_t n_rows;
};

static void make_rows(struct data *d, struct sr1__rng *rng)
{
    size_t dim = d->dot.dim;
    float *v = malloc(dim * sizeof(*v));
    unsigned char *rows = malloc(d->n_rows * dim * 4);

    d->rows = malloc(d->n_rows * dim * sizeof(*d->rows));
    for (size_t r = 0; r < d->n_rows; r++) {
        for (size_t k = 0; k < dim; k++)
            v[k] = (float)(sr1__rng_normal(rng) * (r == 2 ? 1e-6 : 1.0));
        if (d->dot.type == SR1__DOT_FP16) {
            uint16_t *h = (uint16_t *)(void *)rows + r * dim;

            sr1__f32_to_f16(v, h, dim);
            sr1__f16_to_f32(h, v, dim);
        } else if (d->dot.type == SR1__DOT_INT8) {
            int8_t *b = (int8_t *)rows + r * dim;

            d->row_scales[r] = sr1__to_int8(v, b, dim);
            for (size_t k = 0; k < dim; k++)
                v[k] = b[k];
        } else {
            memcpy((float *)(void *)rows + r * dim, v, dim * sizeof(*v));
        }
        for (size_t k = 0; k < dim; k++)
            d->rows[r * dim + k] = d->dot.type == SR1__DOT_INT8
                                       ? (double)v[k] * (double)d->row_scales[r]
                                       : (double)v[k];
    }
    d->dot.rows = rows;
    d->dot.row_scales = d->row_scales;
    free(v);
}

static void make_queries(struct data *d, struct sr1__rng *rng)
{
    size_t dim = d->dot.dim;
    float *q = malloc(d->dot.n * dim * sizeof(*q));
    int16_t *s = malloc(d->dot.n * dim * sizeof(*s));

    d->queries = malloc(d->dot.n * dim * sizeof(*d->queries));
    for (size_t i = 0; i < d->dot.n * dim; i++)
        q[i] = (float)sr1__rng_normal(rng);
    for (size_t i = 0; i < d->dot.n; i++)
        d->query_scales[i] = sr1__to_int16(q + i * dim, s + i * dim, dim);
    for (size_t i = 0; i < d->dot.n * dim; i++)
        d->queries[i] = d->dot.type == SR1__DOT_INT8
                            ? (double)s[i] * (double)d->query_scales[i / dim]
                            : (double)q[i];
    d->dot.queries = d->dot.type == SR1__DOT_INT8 ? (void *)s : (void *)q;
    free(d->dot.type == SR1__DOT_INT8 ? (void *)q : (void *)s);
    d->dot.query_scales = d->query_scales;
}

static void make(struct data *d, enum sr1__dot_type type, size_t rows, size_t n,
                 size_t dim)
{
    struct sr1__rng rng;

    memset(d, 0, sizeof(*d));
    sr1__rng_seed(&rng, rows * 100 + n, dim * 3 + type);
    d->dot.type = type;
    d->dot.dim = dim;
    d->dot.n = n;
    d->n_rows = rows;
    make_rows(d, &rng);
    make_queries(d, &rng);
}

static void drop(struct data *d)
{
    free((void *)(uintptr_t)d->dot.rows);
    free((void *)(uintptr_t)d->dot.queries);
    free(d->rows);
    free(d->queries);
}

/* Rounding of dim products and sums in fp32; one rounding at the end for int8. */
static void check(const struct data *d, size_t from, size_t to, const float *out)
{
    size_t dim = d->dot.dim;

    for (size_t i = 0; i < d->dot.n; i++) {
        for (size_t r = from; r < to; r++) {
            double want = 0;
            double size = 0;
            double most;

            for (size_t k = 0; k < dim; k++) {
                double p = d->rows[r * dim + k] * d->queries[i * dim + k];

                want += p;
                size += fabs(p);
            }
            most = d->dot.type == SR1__DOT_INT8 ? 1e-7 * fabs(want) + 1e-12 * size
                                                : 1e-6 * size;
            assert_true(fabs((double)out[i * (to - from) + r - from] - want) <= most);
        }
    }
}

static void products_are_those_of_double(void **state)
{
    static const size_t dims[] = {16, 48, 384, 4096, 4112, DIM_MAX};
    static float out[QUERIES_MAX * ROWS_MAX];

    (void)state;
    for (int type = 0; type < 3; type++)
        for (size_t j = 0; j < sizeof(dims) / sizeof(dims[0]); j++)
            for (size_t n = 1; n <= QUERIES_MAX; n += dims[j] > 4096 ? 4 : 1)
                for (size_t rows = 1; rows <= ROWS_MAX; rows += 4) {
                    struct data d;

                    make(&d, (enum sr1__dot_type)type, rows, n, dims[j]);
                    sr1__dot(&d.dot, 0, rows, out);
                    check(&d, 0, rows, out);
                    sr1__dot(&d.dot, rows / 2, rows, out);
                    check(&d, rows / 2, rows, out);
                    sr1__dot_portable(&d.dot, 0, rows, out);
                    check(&d, 0, rows, out);
                    drop(&d);
                }
}

/* Bit for bit, whatever else is in the call. */
static void a_score_depends_on_its_row_and_query_alone(void **state)
{
    static float all[QUERIES_MAX * ROWS_MAX];

    (void)state;
    for (int type = 0; type < 3; type++) {
        struct data d;

        make(&d, (enum sr1__dot_type)type, ROWS_MAX, QUERIES_MAX, 400);
        sr1__dot(&d.dot, 0, ROWS_MAX, all);
        for (size_t first = 0; first < QUERIES_MAX; first++) {
            for (size_t n = 1; first + n <= QUERIES_MAX; n++) {
                struct sr1__dot part = d.dot;
                float out[QUERIES_MAX * ROWS_MAX];

                part.n = n;
                part.queries = (const char *)d.dot.queries +
                               first * 400 * (type == SR1__DOT_INT8 ? 2 : 4);
                part.query_scales = d.query_scales + first;
                for (size_t r = 0; r < ROWS_MAX; r += 3) {
                    size_t to = r + 1 + n < ROWS_MAX ? r + 1 + n : ROWS_MAX;

                    sr1__dot(&part, r, to, out);
                    for (size_t i = 0; i < n; i++)
                        assert_memory_equal(out + i * (to - r),
                                            all + (first + i) * ROWS_MAX + r,
                                            (to - r) * sizeof(*out));
                }
            }
        }
        drop(&d);
    }
}

static void whole_numbers_have_the_same_bits_everywhere(void **state)
{
    static float a[QUERIES_MAX * ROWS_MAX];
    static float b[QUERIES_MAX * ROWS_MAX];
    struct data d;

    (void)state;
    make(&d, SR1__DOT_INT8, ROWS_MAX, QUERIES_MAX, DIM_MAX);
    sr1__dot(&d.dot, 0, ROWS_MAX, a);
    sr1__dot_portable(&d.dot, 0, ROWS_MAX, b);
    assert_memory_equal(a, b, sizeof(a));
    drop(&d);
}

/* The largest sums there can be, -128 included, which a damaged file may have. */
static void sums_do_not_overflow(void **state)
{
    size_t dim = 65536;
    int8_t *row = malloc(4 * dim);
    int16_t *query = malloc(3 * dim * sizeof(*query));
    const float ones[4] = {1, 1, 1, 1};
    float out[12];
    struct sr1__dot d = {SR1__DOT_INT8, dim, row, ones, query, ones, 3};

    (void)state;
    memset(row, -128, 4 * dim);
    for (size_t i = 0; i < 3 * dim; i++)
        query[i] = 32767;
    sr1__dot(&d, 0, 4, out);
    for (size_t i = 0; i < 12; i++)
        assert_true((double)out[i] == (double)(float)(-128.0 * 32767.0 * 65536.0));
    sr1__dot_portable(&d, 0, 4, out);
    for (size_t i = 0; i < 12; i++)
        assert_true((double)out[i] == (double)(float)(-128.0 * 32767.0 * 65536.0));
    free(row);
    free(query);
}

/* What only damage can bring into a row shows in its products, whatever multiplies. */
static void damaged_halves_show(void **state)
{
    static const uint16_t damage[] = {0x7c00, 0xfc00, 0x7e00, 0x7c01};
    uint16_t rows[4 * 16] = {0};
    float query[16] = {1};
    float out[2][4];
    struct sr1__dot d = {
        .type = SR1__DOT_FP16, .dim = 16, .rows = rows, .queries = query, .n = 1};

    (void)state;
    for (size_t r = 0; r < 4; r++)
        rows[r * 16] = damage[r];
    sr1__dot(&d, 0, 4, out[0]);
    sr1__dot_portable(&d, 0, 4, out[1]);
    for (size_t i = 0; i < 2; i++) {
        assert_true(out[i][0] == INFINITY && out[i][1] == -INFINITY);
        assert_true(isnan(out[i][2]) && isnan(out[i][3]));
    }
}

/* ---- conversions ---- */

/* A half's value by its definition. */
static double half_value(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double mantissa = h & 1023;
    double v = exponent == 31 ? (mantissa > 0 ? NAN : INFINITY)
               : exponent > 0 ? ldexp(1024 + mantissa, exponent - 25)
                              : ldexp(mantissa, -24);

    return h & 0x8000 ? -v : v;
}

static void halves_are_what_they_are_defined_as(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t bits = (uint16_t)h;
        uint16_t back;
        float v;

        sr1__f16_to_f32(&bits, &v, 1);
        assert_int_equal(signbit(v) != 0, h >> 15);
        if (isnan(half_value(bits))) {
            assert_true(isnan(v));
            continue;
        }
        assert_true((double)v == half_value(bits));
        sr1__f32_to_f16(&v, &back, 1);
        assert_int_equal(back, bits);
    }
}

/* Between neighbours the nearer, in the middle the even one. */
static void halves_are_rounded_to_the_nearest(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        double low = half_value((uint16_t)h);
        double high = half_value((uint16_t)(h + 1));
        float middle = (float)((low + high) / 2); /* exact */
        float in[3] = {nextafterf(middle, 0.0F), middle, nextafterf(middle, INFINITY)};
        uint16_t out[3];

        sr1__f32_to_f16(in, out, 3);
        assert_int_equal(out[0], h);
        assert_int_equal(out[1], h + (h & 1));
        assert_int_equal(out[2], h + 1);
    }
}

static void halves_end_at_65504(void **state)
{
    const float in[] = {65519.0F, 65520.0F, -1e30F, INFINITY, 1e-30F, -0.0F};
    const uint16_t want[] = {0x7bff, 0x7c00, 0xfc00, 0x7c00, 0, 0x8000};
    uint16_t out[6];

    (void)state;
    sr1__f32_to_f16(in, out, 6);
    assert_memory_equal(out, want, sizeof(want));
}

static void bytes_are_within_half_a_step(void **state)
{
    struct sr1__rng rng;
    float v[333];
    int8_t b[333];
    int16_t s[333];
    const float zeros[3] = {0, 0, 0};

    (void)state;
    sr1__rng_seed(&rng, 5, 5);
    for (int t = 0; t < 100; t++) {
        float scale;
        double most = 0;

        for (size_t i = 0; i < 333; i++) {
            v[i] = (float)(sr1__rng_normal(&rng) * pow(10, t % 20 - 10));
            most = fmax(most, fabs((double)v[i]));
        }
        scale = sr1__to_int8(v, b, 333);
        assert_true(fabs((double)scale - most / 127) <= 1e-7 * most);
        for (size_t i = 0; i < 333; i++)
            assert_true(fabs((double)v[i] - (double)b[i] * (double)scale) <=
                        0.5001 * (double)scale);
        scale = sr1__to_int16(v, s, 333);
        assert_true(fabs((double)scale - most / 32767) <= 1e-7 * most);
        for (size_t i = 0; i < 333; i++)
            assert_true(fabs((double)v[i] - (double)s[i] * (double)scale) <=
                        0.503 * (double)scale);
    }
    assert_true(sr1__to_int8(zeros, b, 3) == 1.0F && b[0] == 0 && b[2] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_double),
        cmocka_unit_test(a_score_depends_on_its_row_and_query_alone),
        cmocka_unit_test(whole_numbers_have_the_same_bits_everywhere),
        cmocka_unit_test(sums_do_not_overflow),
        cmocka_unit_test(damaged_halves_show),
        cmocka_unit_test(halves_are_what_they_are_defined_as),
        cmocka_unit_test(halves_are_rounded_to_the_nearest),
        cmocka_unit_test(halves_end_at_65504),
        cmocka_unit_test(bytes_are_within_half_a_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
