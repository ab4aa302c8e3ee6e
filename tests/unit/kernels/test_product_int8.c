/* Products of int8 panels: the numbers that packing makes against the formulas of
 * product_int8.h in double, and every variant that this processor can run bit for bit the
 * same, whatever the number of rows. */
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/bf16.h"
#include "kernels/product_int8.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS_MAX 13

/* A random matrix, packed, and rows. */
struct numbers {
    struct sr1__panels panels;
    float *w;      /* [n_out, k] */
    float *x;      /* [ROWS_MAX, k] */
    int16_t *rows; /* [ROWS_MAX, row] */
};

/* Outputs and blocks of a row differ a thousandfold in size. */
static float draw(struct sr1__rng *rng, size_t scale)
{
    return (float)(sr1__rng_normal(rng) * pow(10.0, (double)(scale % 4) - 1));
}

static void pack_all(struct numbers *m, const void *w, int bf16)
{
    size_t size = bf16 ? 2 : 4;

    for (size_t i = 0; i < sr1__panels_groups(m->panels.n_out) * SR1__PANEL_GROUP; i++) {
        size_t from = i * SR1__PANEL;
        size_t n = from < m->panels.n_out ? m->panels.n_out - from : 0;

        sr1__int8_pack(&m->panels, i, (const char *)w + from * m->panels.k * size, bf16,
                       n < SR1__PANEL ? n : SR1__PANEL);
    }
}

static void make_numbers(struct numbers *m, size_t n_out, size_t k, int bf16)
{
    uint16_t *half = calloc(n_out * k, sizeof *half);
    struct sr1__rng rng;

    m->panels = (struct sr1__panels){NULL, n_out, k, SR1__PANELS_INT8};
    m->panels.data = sr1__malloc_aligned(sr1__panels_bytes(n_out, k, SR1__PANELS_INT8));
    m->w = calloc(n_out * k, sizeof *m->w);
    m->x = calloc(ROWS_MAX * k, sizeof *m->x);
    m->rows = sr1__malloc_aligned(ROWS_MAX * sr1__int8_row(k) * sizeof *m->rows);
    sr1__rng_seed(&rng, n_out, k);
    for (size_t i = 0; i < n_out * k; i++)
        m->w[i] = draw(&rng, i / k);
    for (size_t i = 0; i < ROWS_MAX * k; i++)
        m->x[i] = draw(&rng, i % k / SR1__PRODUCT_DEPTH);
    if (bf16) {
        sr1__f32_to_bf16(m->w, half, n_out * k);
        sr1__bf16_to_f32(half, m->w, n_out * k);
    }
    pack_all(m, bf16 ? (const void *)half : m->w, bf16);
    for (size_t r = 0; r < ROWS_MAX; r++)
        sr1__int8_row_fill(m->x + r * k, k, m->rows + r * sr1__int8_row(k));
    free(half);
}

static void free_numbers(struct numbers *m)
{
    sr1__free(m->panels.data);
    sr1__free(m->rows);
    free(m->w);
    free(m->x);
}

/* What an output of row r is by the formulas; q as fp32 rounds it. */
static double expected(const struct numbers *m, size_t r, size_t out)
{
    size_t k = m->panels.k;
    const float *w = m->w + out * k, *x = m->x + r * k;
    float most = 0;
    double sum = 0;

    for (size_t i = 0; i < k; i++)
        most = fmaxf(most, fabsf(w[i]));
    for (size_t i = 0; i < k; i++)
        sum += (double)x[i] * rint((double)(w[i] / (most / 127))) * (double)(most / 127);
    return sum;
}

/* Half a step of int16 for each number, and the rounding of fp32. */
static double allowed(const struct numbers *m, size_t r, size_t out)
{
    size_t k = m->panels.k;
    double wide = 0, sum = 1e-30;

    for (size_t i = 0; i < k; i++)
        wide = fmax(wide, fabs((double)m->w[out * k + i]));
    for (size_t at = 0; at < k; at += SR1__PRODUCT_DEPTH) {
        double most = 0;

        for (size_t i = at; i < k && i < at + SR1__PRODUCT_DEPTH; i++)
            most = fmax(most, fabs((double)m->x[r * k + i]));
        for (size_t i = at; i < k && i < at + SR1__PRODUCT_DEPTH; i++)
            sum +=
                most / 16384 / 2 * fabs((double)m->w[out * k + i]) + most * wide * 1e-6;
    }
    return sum * 1.02;
}

static void check_sums(const struct numbers *m, const float *tile, size_t group)
{
    for (size_t r = 0; r < ROWS_MAX; r++) {
        for (size_t o = 0; o < SR1__GROUP_OUT; o++) {
            size_t out = group * SR1__GROUP_OUT + o;
            double got = (double)tile[r * SR1__GROUP_OUT + o];

            if (out >= m->panels.n_out)
                assert_true(got == 0);
            else
                assert_true(fabs(got - expected(m, r, out)) <= allowed(m, r, out));
        }
    }
}

/* Any rows together have the bits that each has alone, in any variant. */
static void check_bits(const struct numbers *m, size_t group, sr1__int8_fn fn,
                       sr1__int8_fn portable)
{
    size_t depth = sr1__panels_depth(m->panels.k), row = sr1__int8_row(m->panels.k);
    float whole[ROWS_MAX * SR1__GROUP_OUT], tile[ROWS_MAX * SR1__GROUP_OUT];
    struct sr1__int8_work w = {(const int8_t *)m->panels.data +
                                   group * SR1__GROUP_OUT * depth,
                               m->rows, ROWS_MAX, m->panels.k, whole};

    portable(&w);
    w.tile = tile;
    for (w.n = 1; w.n <= ROWS_MAX; w.n++) {
        for (size_t first = 0; first + w.n <= ROWS_MAX; first += w.n) {
            memset(tile, 0xff, sizeof tile);
            w.rows = m->rows + first * row;
            fn(&w);
            assert_memory_equal(tile, whole + first * SR1__GROUP_OUT,
                                w.n * SR1__GROUP_OUT * sizeof *tile);
        }
    }
}

static void every_variant_is_the_sum_to_the_same_bits(void **state)
{
    static const size_t ks[] = {1, 31, 32, 100, 256, 257, 600};
    static const size_t outs[] = {1, 16, 63, 64, 90};
    size_t n;
    const struct sr1__int8_variant *v = sr1__int8_variants(&n);

    (void)state;
    for (size_t i = 0; i < 2 * sizeof ks / sizeof *ks; i++) {
        for (size_t j = 0; j < sizeof outs / sizeof *outs; j++) {
            struct numbers m;

            make_numbers(&m, outs[j], ks[i / 2], (int)(i % 2));
            for (size_t g = 0; g < sr1__panels_groups(outs[j]); g++) {
                float tile[ROWS_MAX * SR1__GROUP_OUT];

                sr1__int8_product(&m.panels, g, m.rows, ROWS_MAX, tile);
                check_sums(&m, tile, g);
                for (size_t k = 0; k < n; k++) {
                    if (v[k].usable())
                        check_bits(&m, g, v[k].fn, v[n - 1].fn);
                    else
                        print_message("%s: this processor lacks it\n", v[k].name);
                }
            }
            free_numbers(&m);
        }
    }
}

/* Of a row with one, and of no other. */
static void what_is_not_finite_shows(void **state)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    struct numbers m;
    float tile[ROWS_MAX * SR1__GROUP_OUT];

    (void)state;
    make_numbers(&m, SR1__GROUP_OUT, 300, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        m.x[300 + 280] = bad[i];
        sr1__int8_row_fill(m.x + 300, 300, m.rows + sr1__int8_row(300));
        sr1__int8_product(&m.panels, 0, m.rows, 3, tile);
        for (size_t o = 0; o < SR1__GROUP_OUT; o++) {
            assert_true(isnan(tile[SR1__GROUP_OUT + o]));
            assert_true(isfinite(tile[o]) && isfinite(tile[2 * SR1__GROUP_OUT + o]));
        }
    }
    free_numbers(&m);
}

/* A weight that is not finite makes NaN of its own output, as in other types. */
static void weights_that_are_not_finite_show(void **state)
{
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    struct numbers m;
    float tile[SR1__GROUP_OUT];

    (void)state;
    for (size_t i = 0; i < 2 * sizeof bad / sizeof *bad; i++) {
        uint16_t *half = calloc(SR1__GROUP_OUT * 300, sizeof *half);

        make_numbers(&m, SR1__GROUP_OUT, 300, 0);
        m.w[5 * 300 + 270] = bad[i / 2];
        sr1__f32_to_bf16(m.w, half, SR1__GROUP_OUT * 300);
        pack_all(&m, i % 2 ? (const void *)half : m.w, i % 2);
        sr1__int8_product(&m.panels, 0, m.rows, 1, tile);
        for (size_t o = 0; o < SR1__GROUP_OUT; o++)
            assert_int_equal(isnan(tile[o]) != 0, o == 5);
        free(half);
        free_numbers(&m);
    }
}

/* The least that floats have, large ones, and nothing but zeros. */
static void rows_of_any_size_are_kept(void **state)
{
    static const float sizes[] = {0, 1e-45F, 1e-38F, 1e-20F, 1, 1e30F};
    float w[32], x[32], tile[SR1__GROUP_OUT];
    int16_t row[64];
    struct sr1__panels p = {NULL, 1, 32, SR1__PANELS_INT8};

    (void)state;
    p.data = sr1__malloc_aligned(sr1__panels_bytes(1, 32, SR1__PANELS_INT8));
    assert_true(sr1__int8_row(32) <= sizeof row / sizeof *row);
    for (size_t i = 0; i < 32; i++)
        w[i] = i == 5 ? 0.25F : 0;
    for (size_t i = 0; i < SR1__PANEL_GROUP; i++)
        sr1__int8_pack(&p, i, w, 0, i == 0);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (size_t i = 0; i < 32; i++)
            x[i] = i % 2 ? sizes[k] : -sizes[k];
        sr1__int8_row_fill(x, 32, row);
        sr1__int8_product(&p, 0, row, 1, tile);
        assert_true(fabs((double)tile[0] - (double)sizes[k] / 4) <=
                    (double)sizes[k] / 4 / 16384 + 1e-37);
    }
    sr1__free(p.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_is_the_sum_to_the_same_bits),
        cmocka_unit_test(what_is_not_finite_shows),
        cmocka_unit_test(weights_that_are_not_finite_show),
        cmocka_unit_test(rows_of_any_size_are_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
