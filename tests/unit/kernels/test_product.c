/* Packed products: against sums in double, and bit for bit whatever the number of rows;
 * every variant that this processor can run. */
#include "base/mem.h"
#include "base/rng.h"
#include "kernels/bf16.h"
#include "kernels/product.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS_MAX 40

/* A random matrix, packed, and rows. */
struct numbers {
    struct sr1__panels panels;
    size_t depth;
    float *w; /* [n_out, k], as the panels hold it */
    float *x; /* [ROWS_MAX, depth], as x holds it, zeros behind k */
    void *rows;
    float *tile; /* [ROWS_MAX, SR1__GROUP_OUT] */
};

static void round_bf16(float *v, uint16_t *half, size_t n)
{
    sr1__f32_to_bf16(v, half, n);
    sr1__bf16_to_f32(half, v, n);
}

static void pack_all(struct numbers *m, const void *w)
{
    size_t size = m->panels.type ? 2 : 4;
    size_t n_panels = sr1__panels_groups(m->panels.n_out) * SR1__PANEL_GROUP;

    for (size_t i = 0; i < n_panels; i++) {
        size_t from = i * SR1__PANEL;
        size_t n = from < m->panels.n_out ? m->panels.n_out - from : 0;

        sr1__panels_pack(&m->panels, i, (const char *)w + from * m->panels.k * size,
                         n < SR1__PANEL ? n : SR1__PANEL);
    }
}

static void make_numbers(struct numbers *m, size_t n_out, size_t k, int bf16)
{
    uint16_t *half = calloc(n_out * k, sizeof *half);
    uint16_t *x16;
    struct sr1__rng rng;

    m->depth = sr1__panels_depth(k);
    m->panels = (struct sr1__panels){NULL, n_out, k, bf16};
    m->panels.data = sr1__malloc_aligned(sr1__panels_bytes(n_out, k, bf16));
    m->w = calloc(n_out * k, sizeof *m->w);
    m->x = calloc(ROWS_MAX * m->depth, sizeof *m->x);
    m->tile = calloc(ROWS_MAX * SR1__GROUP_OUT, sizeof *m->tile);
    x16 = calloc(ROWS_MAX * m->depth, sizeof *x16);
    sr1__rng_seed(&rng, n_out, k);
    for (size_t i = 0; i < n_out * k; i++)
        m->w[i] = (float)sr1__rng_normal(&rng);
    for (size_t r = 0; r < ROWS_MAX; r++)
        for (size_t i = 0; i < k; i++)
            m->x[r * m->depth + i] = (float)sr1__rng_normal(&rng);
    if (bf16) {
        round_bf16(m->w, half, n_out * k);
        round_bf16(m->x, x16, ROWS_MAX * m->depth);
        pack_all(m, half);
    } else {
        pack_all(m, m->w);
        memcpy(x16 = realloc(x16, ROWS_MAX * m->depth * 4), m->x,
               ROWS_MAX * m->depth * 4);
    }
    m->rows = x16;
    free(half);
}

static void free_numbers(struct numbers *m)
{
    sr1__free(m->panels.data);
    free(m->w);
    free(m->x);
    free(m->rows);
    free(m->tile);
}

static void run(const struct numbers *m, sr1__product_fn fn, size_t group, size_t row,
                size_t n, float *tile)
{
    size_t size = m->panels.type ? 2 : 4;
    struct sr1__product_work w = {(const char *)m->panels.data +
                                      group * SR1__GROUP_OUT * m->depth * size,
                                  (const char *)m->rows + row * m->depth * size,
                                  m->depth,
                                  1,
                                  n,
                                  m->depth,
                                  tile,
                                  SR1__GROUP_OUT,
                                  0};

    fn(&w);
}

/* The rounding that product.h states, for any order of the sum. */
static void check_sums(const struct numbers *m, size_t group)
{
    for (size_t r = 0; r < ROWS_MAX; r++) {
        for (size_t o = 0; o < SR1__GROUP_OUT; o++) {
            size_t out = group * SR1__GROUP_OUT + o;
            double want = 0;
            double all = 0;

            for (size_t i = 0; i < m->panels.k && out < m->panels.n_out; i++) {
                double p =
                    (double)m->x[r * m->depth + i] * (double)m->w[out * m->panels.k + i];

                want += p;
                all += fabs(p);
            }
            assert_true(fabs((double)m->tile[r * SR1__GROUP_OUT + o] - want) <=
                        all * 1e-6);
        }
    }
}

/* Any rows together have the bits that each has alone. */
static void check_rows(const struct numbers *m, sr1__product_fn fn, size_t group)
{
    float tile[ROWS_MAX * SR1__GROUP_OUT];

    for (size_t n = 1; n <= ROWS_MAX; n++) {
        for (size_t row = 0; row + n <= ROWS_MAX; row += n) {
            memset(tile, 0xff, sizeof tile);
            run(m, fn, group, row, n, tile);
            assert_memory_equal(tile, m->tile + row * SR1__GROUP_OUT,
                                n * SR1__GROUP_OUT * sizeof *tile);
        }
    }
}

/* Rows that lie across memory: [word of k][row]. */
static void run_across(const struct numbers *m, sr1__product_fn fn, size_t group)
{
    size_t size = m->panels.type == SR1__PANELS_BF16 ? 2 : 4, words = m->depth * size / 4;
    uint32_t *across = malloc(words * ROWS_MAX * sizeof *across);
    struct sr1__product_work w = {.panels = (const char *)m->panels.data +
                                            group * SR1__GROUP_OUT * m->depth * size,
                                  .x = across,
                                  .stride = 4 / size,
                                  .step = ROWS_MAX,
                                  .n = ROWS_MAX,
                                  .depth = m->depth,
                                  .tile = m->tile,
                                  .tile_stride = SR1__GROUP_OUT};

    for (size_t r = 0; r < ROWS_MAX; r++)
        for (size_t i = 0; i < words; i++)
            memcpy(&across[i * ROWS_MAX + r], (char *)m->rows + (r * words + i) * 4, 4);
    fn(&w);
    free(across);
}

static void check_variant(struct numbers *m, sr1__product_fn fn)
{
    for (size_t g = 0; g < sr1__panels_groups(m->panels.n_out); g++) {
        run_across(m, fn, g);
        check_sums(m, g);
        run(m, fn, g, 0, ROWS_MAX, m->tile);
        check_sums(m, g);
        check_rows(m, fn, g);
    }
}

static void every_variant_is_the_sum_whatever_the_rows(void **state)
{
    static const size_t ks[] = {1, 31, 32, 100, 256, 257, 600};
    static const size_t outs[] = {1, 16, 63, 64, 90};
    size_t n_variants;
    const struct sr1__product_variant *v = sr1__product_variants(&n_variants);

    (void)state;
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        for (size_t j = 0; j < sizeof outs / sizeof *outs; j++) {
            for (int bf16 = 0; bf16 < 2; bf16++) {
                struct numbers m;

                make_numbers(&m, outs[j], ks[i], bf16);
                for (size_t k = 0; k < n_variants; k++) {
                    sr1__product_fn fn = bf16 ? v[k].bf16 : v[k].fp32;

                    if (fn && v[k].usable())
                        check_variant(&m, fn);
                    else if (fn)
                        print_message("%s: this processor lacks it\n", v[k].name);
                }
                free_numbers(&m);
            }
        }
    }
}

/* Fused multiply-adds in one order: avx2 and avx512 differ in no bit. */
static void widths_agree(void **state)
{
    size_t n_variants;
    const struct sr1__product_variant *v = sr1__product_variants(&n_variants);
    const struct sr1__product_variant *wide = NULL, *narrow = NULL;

    (void)state;
    for (size_t i = 0; i < n_variants; i++) {
        wide = strcmp(v[i].name, "avx512") == 0 && v[i].usable() ? &v[i] : wide;
        narrow = strcmp(v[i].name, "avx2") == 0 && v[i].usable() ? &v[i] : narrow;
    }
    if (!wide || !narrow)
        skip();
    for (int bf16 = 0; bf16 < 2; bf16++) {
        float tile[ROWS_MAX * SR1__GROUP_OUT];
        struct numbers m;

        make_numbers(&m, SR1__GROUP_OUT, 700, bf16);
        run(&m, bf16 ? wide->bf16 : wide->fp32, 0, 0, ROWS_MAX, m.tile);
        run(&m, bf16 ? narrow->bf16 : narrow->fp32, 0, 0, ROWS_MAX, tile);
        assert_memory_equal(tile, m.tile, sizeof tile);
        free_numbers(&m);
    }
}

/* The choice is one of the usable, and is what its name says. */
static void the_choice_is_usable(void **state)
{
    size_t n_variants;
    const struct sr1__product_variant *v = sr1__product_variants(&n_variants);

    (void)state;
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const char *name = sr1__product_variant_name(bf16);
        float tile[ROWS_MAX * SR1__GROUP_OUT];
        struct numbers m;
        size_t i = 0;

        while (strcmp(v[i].name, name) != 0)
            i++;
        assert_true(v[i].usable());
        make_numbers(&m, SR1__GROUP_OUT, 300, bf16);
        run(&m, bf16 ? v[i].bf16 : v[i].fp32, 0, 0, ROWS_MAX, m.tile);
        sr1__product(&m.panels, 0, m.rows, m.depth, ROWS_MAX, tile);
        assert_memory_equal(tile, m.tile, sizeof tile);
        free_numbers(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_is_the_sum_whatever_the_rows),
        cmocka_unit_test(widths_agree),
        cmocka_unit_test(the_choice_is_usable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
