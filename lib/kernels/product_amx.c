/* kernels/product_amx.c - the bf16 product of processors with AMX: tiles of 16 rows x 32
 * of k times a panel's 32 of k x 16 outputs, four at a time. A panel's lines are the rows
 * of such a tile as they lie.
 *
 * Never run on a processor that has it: sr1__has_amx compares a product with the portable
 * one before it is taken, and its test is skipped where the processor lacks it. */
#include "kernels/product_x86.h"

#if defined(__x86_64__)

#if defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX __attribute__((target("amx-tile,amx-bf16,avx2,fma")))
/* GCC before 11.5, 12.4 and 13.3 takes ldtilecfg to read 8 bytes of its operand (PR
 * 114098) and may drop the stores of the other 56; the empty statement reads all. */
#define LOAD_TILE_CONFIG(config)                                                         \
    do {                                                                                 \
        __asm__ volatile("" : : "m"(config));                                            \
        _tile_loadconfig(&(config));                                                     \
    } while (0)
#define TILE_ROWS 16
#define ASK_FOR_STATE 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_DATA 18         /* XFEATURE_XTILEDATA */

/* The instruction's operand of 64 bytes. */
struct tile_config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Tiles 0 to 3: sums of two times 16 rows by two panels; 4, 5: rows; 6, 7: panels. */
static void fill_tile_config(struct tile_config *c, size_t top, size_t low)
{
    const size_t rows[8] = {top, top, low, low, top, low, TILE_ROWS, TILE_ROWS};

    memset(c, 0, sizeof *c);
    c->palette = 1;
    for (size_t i = 0; i < 8; i++) {
        c->row_bytes[i] = 64;
        c->rows[i] = (uint8_t)rows[i];
    }
}

/* A block of k of two panels and 16 rows, or 32 where `both`. */
#define MULTIPLY(both)                                                                   \
    do {                                                                                 \
        _tile_zero(0);                                                                   \
        _tile_zero(1);                                                                   \
        if (both) {                                                                      \
            _tile_zero(2);                                                               \
            _tile_zero(3);                                                               \
        }                                                                                \
        for (size_t k = 0; k < depth; k += SR1__PRODUCT_STEP) {                          \
            _tile_loadd(6, panels + k * SR1__PANEL, 64);                                 \
            _tile_loadd(7, panels + (w->depth + k) * SR1__PANEL, 64);                    \
            _tile_loadd(4, x + k, w->stride * sizeof *x);                                \
            _tile_dpbf16ps(0, 4, 6);                                                     \
            _tile_dpbf16ps(1, 4, 7);                                                     \
            if (both) {                                                                  \
                _tile_loadd(5, x + TILE_ROWS * w->stride + k, w->stride * sizeof *x);    \
                _tile_dpbf16ps(2, 5, 6);                                                 \
                _tile_dpbf16ps(3, 5, 7);                                                 \
            }                                                                            \
        }                                                                                \
        _tile_stored(0, sum[0], 128);                                                    \
        _tile_stored(1, sum[0] + SR1__PANEL, 128);                                       \
        if (both) {                                                                      \
            _tile_stored(2, sum[TILE_ROWS], 128);                                        \
            _tile_stored(3, sum[TILE_ROWS] + SR1__PANEL, 128);                           \
        }                                                                                \
    } while (0)

AMX static void multiply_amx_block(const struct sr1__product_work *w, size_t row,
                                   size_t rows, size_t panel, size_t from)
{
    float sum[2 * TILE_ROWS][2 * SR1__PANEL];
    const uint16_t *panels =
        (const uint16_t *)w->panels + (panel * w->depth + from) * SR1__PANEL;
    const uint16_t *x = (const uint16_t *)w->x + row * w->stride + from;
    size_t left = w->depth - from;
    size_t depth = left < SR1__PRODUCT_DEPTH ? left : SR1__PRODUCT_DEPTH;

    if (rows > TILE_ROWS)
        MULTIPLY(1);
    else
        MULTIPLY(0);
    for (size_t r = 0; r < rows; r++) {
        float *y = w->tile + (row + r) * w->tile_stride + panel * SR1__PANEL;

        for (size_t o = 0; o < (size_t)2 * SR1__PANEL; o++)
            y[o] = from == 0 && !w->add ? sum[r][o] : y[o] + sum[r][o];
    }
}

/* Rows of x that lie across memory are no tile. */
AMX void sr1__product_bf16_amx(const struct sr1__product_work *w)
{
    struct tile_config config;

    if (w->step != 1) {
        sr1__product_bf16_avx512bf16(w);
        return;
    }
    for (size_t row = 0; row < w->n; row += (size_t)2 * TILE_ROWS) {
        size_t left = w->n - row;
        size_t rows = left < (size_t)2 * TILE_ROWS ? left : (size_t)2 * TILE_ROWS;
        size_t top = rows < TILE_ROWS ? rows : TILE_ROWS;

        fill_tile_config(&config, top, rows > TILE_ROWS ? rows - TILE_ROWS : TILE_ROWS);
        LOAD_TILE_CONFIG(config);
        for (size_t k = 0; k < w->depth; k += SR1__PRODUCT_DEPTH)
            for (size_t panel = 0; panel < SR1__PANEL_GROUP; panel += 2)
                multiply_amx_block(w, row, rows, panel, k);
    }
    _tile_release();
}

static int is_amx_there(void)
{
    unsigned a;
    unsigned b;
    unsigned c;
    unsigned d = 0;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 22 & 1) && (d >> 24 & 1) &&
           syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
}

/* One product of small whole numbers, exact in any order. */
static int is_amx_right(void)
{
    enum { ROWS = 18, DEPTH = 288 };
    static const uint16_t numbers[4] = {0x3f80, 0xc000, 0x0000, 0x4040}; /* 1 -2 0 3 */
    static const float values[4] = {1, -2, 0, 3};
    uint16_t x[ROWS * DEPTH];
    _Alignas(64) uint16_t panels[SR1__GROUP_OUT * DEPTH];
    float tile[ROWS * SR1__GROUP_OUT];
    struct sr1__product_work w = {panels, x,    DEPTH,          1, ROWS,
                                  DEPTH,  tile, SR1__GROUP_OUT, 0};

    for (size_t i = 0; i < (size_t)ROWS * DEPTH; i++)
        x[i] = numbers[(i * i + i / DEPTH) % 4];
    for (size_t i = 0; i < (size_t)SR1__GROUP_OUT * DEPTH; i++)
        panels[i] = numbers[(i / 3) % 4];
    sr1__product_bf16_amx(&w);
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t o = 0; o < SR1__GROUP_OUT; o++) {
            float want = 0;

            for (size_t k = 0; k < DEPTH; k++) {
                size_t at = o / SR1__PANEL * DEPTH * SR1__PANEL +
                            (k / 2 * SR1__PANEL + o % SR1__PANEL) * 2 + k % 2;
                size_t i = r * DEPTH + k;

                want += values[(i * i + i / DEPTH) % 4] * values[(at / 3) % 4];
            }
            if (fabsf(tile[r * SR1__GROUP_OUT + o] - want) > 0)
                return 0;
        }
    }
    return 1;
}

int sr1__has_amx(void)
{
    return sr1__has_avx512bf16() && is_amx_there() && is_amx_right();
}

#else

int sr1__has_amx(void)
{
    return 0;
}

void sr1__product_bf16_amx(const struct sr1__product_work *w)
{
    sr1__product_bf16_avx2(w);
}

#endif
#endif
