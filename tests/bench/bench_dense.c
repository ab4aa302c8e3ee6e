/* Exact search through a dense index against the memory bandwidth of the same run.
 * usage: bench_dense FOLDER DTYPE [MIB]
 * An index of so many MiB of vectors (1024) of 768 numbers is made in FOLDER where it is
 * missing. Every line is a JSON object: `read` reads as many bytes, from the mapped index
 * and from memory of its own on huge pages; `scan` is the search without the encoder and
 * without reading rows, with the bytes of the vectors a second and their share of the
 * better of the two readings (bandwidth_share). They take turns, REPEATS times, and the
 * best of each counts. cpu_share is the same by processor time of the process, which a
 * machine that others use disturbs less. */
#include "processor_time.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "retrieval/search/dense_scan.h"

#include <searchr1/ext/embed.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DIM 768
#define REPEATS 9
#define TOP_K 10
#define BATCH 32
#define PIECE ((size_t)1 << 18) /* bytes a thread reads at a time */

/* ---- the index ---- */

static sr1_status random_vectors(void *self, const char *const *texts, size_t n,
                                 int32_t kind, float *out)
{
    uint64_t *state = self;

    (void)texts;
    (void)kind;
    for (size_t i = 0; i < n * DIM; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        out[i] = (float)(int32_t)(*state >> 32) * 0x1p-36F;
    }
    return SR1_OK;
}

static sr1_status write_corpus(const char *path, size_t rows)
{
    FILE *f = fopen(path, "w");

    if (f == NULL)
        return sr1__fail_errno("write", path);
    for (size_t i = 0; i < rows; i++)
        fprintf(f, "{\"id\": %zu, \"contents\": \"t\\nd%zu\"}\n", i, i);
    return fclose(f) == 0 ? SR1_OK : sr1__fail_errno("write", path);
}

static sr1_status make_index(const char *folder, const char *index, const char *dtype,
                             size_t rows)
{
    uint64_t state = 1;
    const sr1_embedder_ops ops = {.struct_size = sizeof(ops),
                                  .name = "random",
                                  .embed = random_vectors,
                                  .dim = DIM};
    sr1_dense_build_options o;
    sr1_embedder *e = NULL;
    char corpus[1024];
    sr1_status status;

    snprintf(corpus, sizeof(corpus), "%s/corpus.jsonl", folder);
    SR1__TRY(write_corpus(corpus, rows));
    SR1__TRY(sr1_embedder_new(&e, &ops, &state));
    sr1_dense_build_options_init(&o);
    o.dtype = dtype;
    status = sr1_dense_build(corpus, index, e, &o, NULL, NULL);
    sr1_embedder_free(e);
    unlink(corpus);
    return status;
}

/* ---- reading as fast as can be ---- */

typedef unsigned long long v4 __attribute__((vector_size(32)));

struct reading {
    const char *bytes;
    size_t n;
    atomic_size_t next;
    atomic_ullong sum; /* so that nothing is left out */
};

#if defined(__x86_64__)
__attribute__((target("avx2")))
#endif
static unsigned long long
read_piece(const char *p, size_t n)
{
    v4 s[4] = {{0}};

    for (size_t i = 0; i + 128 <= n; i += 128)
        for (int k = 0; k < 4; k++)
            s[k] ^= *(const v4 *)(const void *)(p + i + 32 * k);
    s[0] ^= s[1] ^ s[2] ^ s[3];
    return s[0][0] ^ s[0][1] ^ s[0][2] ^ s[0][3];
}

static sr1_status read_some(void *arg, size_t i)
{
    struct reading *r = arg;

    (void)i;
    for (;;) {
        size_t at = atomic_fetch_add(&r->next, PIECE);

        if (at >= r->n)
            return SR1_OK;
        atomic_fetch_xor(
            &r->sum, read_piece(r->bytes + at, r->n - at < PIECE ? r->n - at : PIECE));
    }
}

struct seconds {
    double clock;
    double cpu;
};

static void read_all(struct sr1__pool *pool, const void *bytes, size_t n,
                     struct seconds *t)
{
    struct reading r = {.bytes = bytes, .n = n};
    double begun = sr1__now();
    double used = processor_seconds();

    (void)sr1__pool_run(pool, (size_t)sr1__pool_threads(pool), read_some, &r);
    t->clock = sr1__now() - begun;
    t->cpu = processor_seconds() - used;
}

/* ---- taking turns ---- */

struct times {
    struct seconds mapped;
    struct seconds huge;
    struct seconds one;
    struct seconds batch;
};

static double lesser(double a, double b)
{
    return a == 0 || b < a ? b : a;
}

static void keep_least(struct seconds *least, const struct seconds *t)
{
    least->clock = lesser(least->clock, t->clock);
    least->cpu = lesser(least->cpu, t->cpu);
}

static sr1_status scan(struct sr1__pool *pool, const struct sr1__dense_index *ix,
                       const float *queries, size_t n, struct seconds *least)
{
    struct sr1__dense_hit hits[BATCH * TOP_K];
    double begun = sr1__now();
    double used = processor_seconds();
    struct seconds t;
    int32_t found;

    SR1__TRY(sr1__dense_scan(ix, pool, queries, n, TOP_K, hits, &found));
    t = (struct seconds){sr1__now() - begun, processor_seconds() - used};
    keep_least(least, &t);
    return SR1_OK;
}

static void tell_read(const struct sr1__dense_meta *m, int32_t threads, double bytes,
                      const struct times *t)
{
    printf("{\"what\": \"dense\", \"event\": \"read\", \"dtype\": \"%s\", \"threads\": "
           "%d, \"mapped_gb_s\": %.2f, \"huge_pages_gb_s\": %.2f}\n",
           m->type->name, (int)threads, 1e-9 * bytes / t->mapped.clock,
           1e-9 * bytes / t->huge.clock);
}

static void tell_scan(const struct sr1__dense_meta *m, int32_t threads, size_t n,
                      double bytes, const struct seconds *t, const struct seconds *read)
{
    printf("{\"what\": \"dense\", \"event\": \"scan\", \"dtype\": \"%s\", \"threads\": "
           "%d, \"batch\": %zu, \"documents\": %llu, \"ms\": %.2f, \"gb_s\": %.2f, "
           "\"bandwidth_share\": %.3f, \"cpu_share\": %.3f, \"gflop_s\": %.1f, "
           "\"queries_s\": %.1f}\n",
           m->type->name, (int)threads, n, (unsigned long long)m->documents,
           1e3 * t->clock, 1e-9 * bytes / t->clock, read->clock / t->clock,
           read->cpu / t->cpu, 2e-9 * DIM * (double)m->documents * (double)n / t->clock,
           (double)n / t->clock);
    fflush(stdout);
}

static sr1_status measure(const struct sr1__dense_index *ix, const void *own,
                          int32_t threads)
{
    static float queries[BATCH * DIM];
    const struct sr1__dense_meta *m = sr1__dense_meta(ix);
    size_t n = (size_t)m->documents * m->stride * m->type->size;
    struct sr1__pool *pool = NULL;
    struct times t = {0};
    struct seconds read;
    uint64_t state = 7;
    sr1_status status = SR1_OK;

    (void)random_vectors(&state, NULL, BATCH, 0, queries);
    SR1__TRY(sr1__pool_new(&pool, threads));
    for (int k = 0; k < REPEATS && status == SR1_OK; k++) {
        read_all(pool, sr1__dense_vectors(ix), n, &read);
        keep_least(&t.mapped, &read);
        read_all(pool, own, n, &read);
        keep_least(&t.huge, &read);
        status = scan(pool, ix, queries, 1, &t.one);
        if (status == SR1_OK)
            status = scan(pool, ix, queries, BATCH, &t.batch);
    }
    sr1__pool_free(pool);
    SR1__TRY(status);
    tell_read(m, threads, (double)n, &t);
    read = t.mapped;
    keep_least(&read, &t.huge);
    tell_scan(m, threads, 1, (double)n, &t.one, &read);
    tell_scan(m, threads, BATCH, (double)n, &t.batch, &read);
    return SR1_OK;
}

static sr1_status run(const char *folder, const char *dtype, size_t mib)
{
    size_t bytes = mib << 20;
    size_t size = strcmp(dtype, "fp32") == 0 ? 4 : strcmp(dtype, "fp16") == 0 ? 2 : 1;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    struct sr1__dense_index *ix = NULL;
    char index[1024];
    char *own;
    double begun;
    sr1_status status;

    snprintf(index, sizeof(index), "%s/dense-%s-%zu.idx", folder, dtype, mib);
    if (!sr1__path_exists(index))
        SR1__TRY(make_index(folder, index, dtype, bytes / size / DIM));
    begun = sr1__now();
    SR1__TRY(sr1__dense_open(&ix, index));
    printf("{\"what\": \"dense\", \"event\": \"open\", \"dtype\": \"%s\", \"open_ms\": "
           "%.3f}\n",
           dtype, 1e3 * (sr1__now() - begun));
    own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        return sr1__fail_errno("map", "memory");
    (void)madvise(own, bytes, MADV_HUGEPAGE);
    memset(own, 1, bytes);
    status = measure(ix, own, 1);
    if (status == SR1_OK && processors > 1)
        status = measure(ix, own, (int32_t)processors);
    munmap(own, bytes);
    sr1__dense_close(ix);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: bench_dense FOLDER DTYPE [MIB]\n");
        return 2;
    }
    if (run(argv[1], argv[2], argc > 3 ? (size_t)atol(argv[3]) : 1024) == SR1_OK)
        return 0;
    fprintf(stderr, "bench_dense: %s\n", sr1_last_error());
    return 1;
}
