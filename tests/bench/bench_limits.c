/* limits [THREADS]: what this machine can do at most, for the shares in the table of
 * tests/bench/run; one JSON object. Bytes a second that the threads read together from
 * small and from huge pages, in 1, 2 or 4 streams each; arithmetic of our packed products
 * on rows that stay in a cache, and of libtorch's; microseconds of a loop of the team
 * that does nothing. Each the best of REPEATS. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/team.h"
#include "kernels/product.h"
#include "tensor/ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REPEATS 5
#define READ_BYTES ((size_t)512 << 20)
/* What a thread reads at a time, in so many streams. */
#define PIECE ((size_t)1 << 20)
#define STREAMS_MOST 4
#define ROWS 120
#define WIDTH 1024
#define GROUPS 64 /* of outputs */
#define THREADS_MAX 256
#define LOOPS 2000

static int32_t n_threads = 2;

/* ---- reading ---- */

/* A line of a cache is four of the vectors that every processor has in registers. */
typedef uint64_t sums __attribute__((vector_size(16)));
#define LINE 64

struct reading {
    const unsigned char *data;
    size_t streams;
    sums total[THREADS_MAX][LINE / sizeof(sums)]; /* a line each */
};

static sums read_16(const unsigned char *at)
{
    sums v;

    memcpy(&v, at, sizeof v);
    return v;
}

static void read_piece(void *arg, size_t i, int32_t thread)
{
    struct reading *r = arg;
    const unsigned char *at = r->data + i * PIECE;
    size_t stream = PIECE / r->streams;
    sums a = {0}, b = {0}, c = {0}, d = {0};

    for (size_t k = 0; k < stream; k += LINE) {
        for (const unsigned char *p = at + k; p < at + PIECE; p += stream) {
            __builtin_prefetch(p + 512);
            a += read_16(p);
            b += read_16(p + 16);
            c += read_16(p + 32);
            d += read_16(p + 48);
        }
    }
    r->total[thread][0] += a;
    r->total[thread][1] += b;
    r->total[thread][2] += c;
    r->total[thread][3] += d;
}

static double time_reading(struct sr1__team *team, struct reading *r)
{
    double start = sr1__now();

    sr1__team_run(team, READ_BYTES / PIECE, read_piece, r);
    return sr1__now() - start;
}

/* GB a second; negative without memory. */
static double measure_reading(struct sr1__team *team, int advice)
{
    static struct reading r;
    void *p = mmap(NULL, READ_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    double best = 1e9;

    if (p == MAP_FAILED)
        return -1;
    (void)madvise(p, READ_BYTES, advice);
    memset(p, 1, READ_BYTES);
    r.data = p;
    for (int i = 0; i < REPEATS; i++) {
        for (r.streams = 1; r.streams <= STREAMS_MOST; r.streams *= 2) {
            double t = time_reading(team, &r);

            best = t < best ? t : best;
        }
    }
    munmap(p, READ_BYTES);
    return (double)READ_BYTES / best / 1e9;
}

/* ---- products ---- */

struct multiplying {
    struct sr1__panels w;
    const void *x;
    float *tiles; /* [threads, ROWS, SR1__GROUP_OUT] */
};

static void multiply_group(void *arg, size_t i, int32_t thread)
{
    const struct multiplying *m = arg;

    sr1__product(&m->w, i % sr1__panels_groups(m->w.n_out), m->x, WIDTH, ROWS,
                 m->tiles + (size_t)thread * ROWS * SR1__GROUP_OUT);
}

/* GFLOP a second; negative without memory. */
static double measure_product(struct sr1__team *team, int bf16)
{
    size_t bytes = sr1__panels_bytes(SR1__GROUP_OUT * 4, WIDTH, bf16);
    struct multiplying m = {{sr1__malloc_aligned(bytes), SR1__GROUP_OUT * 4, WIDTH, bf16},
                            sr1__calloc(ROWS * WIDTH, sizeof(float)),
                            sr1__calloc((size_t)n_threads * ROWS * SR1__GROUP_OUT, 4)};
    double best = 1e9;

    if (!m.w.data || !m.x || !m.tiles)
        return -1;
    memset(m.w.data, 0, bytes);
    for (int i = 0; i < REPEATS; i++) {
        double start = sr1__now();

        sr1__team_run(team, GROUPS, multiply_group, &m);
        start = sr1__now() - start;
        best = start < best ? start : best;
    }
    sr1__free(m.w.data);
    sr1__free((void *)(uintptr_t)m.x);
    sr1__free(m.tiles);
    return 2.0 * ROWS * WIDTH * GROUPS * SR1__GROUP_OUT / best / 1e9;
}

static double measure_torch(int32_t dtype)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "limits");
    sr1_tensor *x, *w;
    double best = 1e9;

    sr1__scope_inference(s);
    x = t_full(s, 1.0, dtype, T_SHAPE(ROWS * 8, WIDTH));
    w = t_full(s, 1.0, dtype, T_SHAPE(4 * WIDTH, WIDTH));
    for (int i = 0; i < REPEATS; i++) {
        double start = sr1__now();

        (void)t_linear(s, x, w, NULL);
        start = sr1__now() - start;
        best = start < best ? start : best;
    }
    return sr1__scope_close(s) == SR1_OK ? 2.0 * ROWS * 8 * WIDTH * 4 * WIDTH / best / 1e9
                                         : -1;
}

/* ---- the team ---- */

static void do_nothing(void *arg, size_t i, int32_t thread)
{
    (void)arg;
    (void)i;
    (void)thread;
}

static double measure_team(struct sr1__team *team)
{
    double best = 1e9;

    for (int i = 0; i < REPEATS; i++) {
        double start = sr1__now();

        for (int k = 0; k < LOOPS; k++)
            sr1__team_run(team, (size_t)n_threads, do_nothing, NULL);
        start = sr1__now() - start;
        best = start < best ? start : best;
    }
    return best / LOOPS * 1e6;
}

int main(int argc, char **argv)
{
    struct sr1__team *team = NULL;
    double small, huge, ours[2], theirs[2]; /* by type */

    n_threads = argc > 1 ? atoi(argv[1]) : n_threads;
    if (n_threads < 1 || n_threads > THREADS_MAX ||
        sr1__torch_threads(n_threads) != SR1_OK ||
        sr1__team_new(&team, n_threads) != SR1_OK) {
        fprintf(stderr, "limits: %s\n", sr1_last_error());
        return 1;
    }
    small = measure_reading(team, MADV_NOHUGEPAGE);
    huge = measure_reading(team, MADV_HUGEPAGE);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        ours[bf16] = measure_product(team, bf16);
        theirs[bf16] = measure_torch(bf16 ? SR1__BF16 : SR1__F32);
    }
    printf("{\"what\": \"limits\", \"threads\": %d, \"read_gb_s\": %.1f, "
           "\"read_huge_gb_s\": %.1f, \"fp32\": \"%s\", \"bf16\": \"%s\", "
           "\"fp32_gflop_s\": %.0f, \"bf16_gflop_s\": %.0f, "
           "\"torch_fp32_gflop_s\": %.0f, \"torch_bf16_gflop_s\": %.0f, "
           "\"team_us\": %.2f}\n",
           (int)n_threads, small, huge, sr1__product_variant_name(0),
           sr1__product_variant_name(1), ours[0], ours[1], theirs[0], theirs[1],
           measure_team(team));
    sr1__team_free(team);
    return 0;
}
