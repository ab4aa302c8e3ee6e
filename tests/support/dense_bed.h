/* support/dense_bed.h - random dense indexes, among them those that are hard to rank:
 * twins, rows that differ in the last bit, numbers at the ends of fp32; and whether a
 * device finds in them, bit for bit, what the CPU finds. */
#ifndef SR1_TESTS_DENSE_BED_H
#define SR1_TESTS_DENSE_BED_H

#include <searchr1/ext/embed.h>

#include <math.h>

#include "base/buf.h"
#include "base/rng.h"
#include "retrieval/search/dense_device.h"
#include "support/files.h"
#include "support/torture.h"

#define BED_QUERIES 130

enum bed_kind {
    BED_NORMAL, /* nothing is near anything */
    BED_TWINS,  /* each row stands there some eight times */
    BED_NEAR,   /* the same, but for the last bits of a number */
    BED_GRID,   /* numbers -0.25, 0, 0.25: many sums are equal */
    BED_ZEROS,
    BED_HUGE, /* sums leave the range of fp32 */
    BED_TINY, /* sums below the normal numbers */
    BED_KINDS
};

static const char *const bed_dtypes[] = {"fp32", "fp16", "int8"};

struct bed {
    size_t n;
    size_t dim;
    float *queries; /* [BED_QUERIES, dim] */
    struct sr1__dense_index *ix;
};

static inline float bed_number(enum bed_kind kind, int query, struct sr1__rng *rng)
{
    double v = sr1__rng_normal(rng);

    switch (kind) {
    case BED_GRID:
        return 0.25F * (float)((int)sr1__rng_below(rng, 3) - 1);
    case BED_ZEROS:
        return query ? (float)v : 0.0F;
    case BED_HUGE:
        return (float)(v * (query ? 1e36 : 5e3));
    case BED_TINY:
        return (float)(v * (query ? 1e-38 : 1e-7));
    default:
        return (float)v;
    }
}

static inline void bed_rows(float *v, size_t n, size_t dim, enum bed_kind kind,
                            struct sr1__rng *rng)
{
    size_t different = kind == BED_TWINS || kind == BED_NEAR ? n / 8 + 1 : n;

    for (size_t i = 0; i < n; i++) {
        size_t of = i < different ? i : sr1__rng_below(rng, different);
        size_t k = sr1__rng_below(rng, dim);

        for (size_t j = 0; i < different && j < dim; j++)
            v[i * dim + j] = bed_number(kind, 0, rng);
        if (of == i)
            continue;
        memcpy(v + i * dim, v + of * dim, dim * sizeof(*v));
        if (kind == BED_NEAR)
            v[i * dim + k] = nextafterf(v[i * dim + k], 9.0F);
    }
}

static inline const char *bed_corpus(size_t n)
{
    struct sr1__buf b;
    const char *path;

    sr1__buf_init(&b, 0);
    for (size_t i = 0; i < n; i++)
        sr1__buf_fmt(&b, "{\"id\": %zu, \"contents\": \"d%zu\"}\n", i, i);
    path = scratch_file("bed.jsonl", b.data, b.len);
    sr1__buf_free(&b);
    return path;
}

/* A file of such vectors. */
static inline const char *bed_index(enum bed_kind kind, const char *dtype, size_t n,
                                    size_t dim, struct sr1__rng *rng)
{
    float *v = malloc(n * dim * sizeof(*v));
    const char *index = scratch_path("bed.idx");
    sr1_dense_build_options o;

    bed_rows(v, n, dim, kind, rng);
    sr1_dense_build_options_init(&o);
    o.dtype = dtype;
    if (sr1_dense_import(bed_corpus(n),
                         scratch_file("bed.memmap", v, n * dim * sizeof(*v)),
                         (int32_t)dim, index, &o, NULL, NULL) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    free(v);
    return index;
}

static inline struct bed bed_make(enum bed_kind kind, const char *dtype, size_t n,
                                  size_t dim, struct sr1__rng *rng)
{
    struct bed b = {.n = n, .dim = dim};

    if (sr1__dense_open(&b.ix, bed_index(kind, dtype, n, dim, rng)) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    b.queries = malloc(BED_QUERIES * dim * sizeof(*b.queries));
    for (size_t i = 0; i < BED_QUERIES * dim; i++)
        b.queries[i] = i < dim ? 0.0F : bed_number(kind, 1, rng);
    return b;
}

static inline void bed_free(struct bed *b)
{
    sr1__dense_close(b->ix);
    free(b->queries);
}

/* How many queries [0, n) have other hits, or another order, there than here; all of them
 * when one way fails and the other does not. */
static inline size_t bed_differences(const struct bed *b, struct sr1__dense_device *d,
                                     size_t n, int32_t top_k)
{
    struct sr1__dense_hit *here = calloc(n, (size_t)top_k * sizeof(*here));
    struct sr1__dense_hit *there = calloc(n, (size_t)top_k * sizeof(*there));
    int32_t found[2] = {0, 0};
    size_t different = 0;
    sr1_status want = sr1__dense_scan(b->ix, NULL, b->queries, n, top_k, here, &found[0]);
    sr1_status got =
        sr1__dense_device_scan(d, NULL, b->queries, n, top_k, there, &found[1]);

    if (want != got || found[0] != found[1])
        different = n;
    else if (got == SR1_OK)
        for (size_t q = 0; q < n; q++)
            different += memcmp(here + q * (size_t)top_k, there + q * (size_t)top_k,
                                (size_t)found[0] * sizeof(*here)) != 0;
    free(here);
    free(there);
    return different;
}

/* Draw `rounds` indexes and ways to search them: all hits must be the CPU's. Some queries
 * must need the CPU, and some not. */
static inline void bed_rounds(const struct sr1__scorer_ops *ops, const char *device,
                              size_t rounds)
{
    static const size_t sizes[] = {1, 2, 7, 63, 300, 900};
    static const size_t dims[] = {1, 3, 16, 33, 130};
    static const size_t blocks[] = {1, 5, 64, 1000};
    static const size_t margins[] = {1, 8, 128};
    static const size_t batches[] = {1, 2, 65, BED_QUERIES};
    uint64_t all[2] = {0, 0};

    for (size_t round = 0; round < rounds; round++) {
        struct sr1__rng rng;
        struct sr1__dense_device_settings s;
        struct sr1__dense_device *d = NULL;
        struct bed b;
        int32_t top_k;
        size_t n;

        sr1__rng_seed(&rng, round, 17);
        b = bed_make((enum bed_kind)(round % BED_KINDS), bed_dtypes[round / 7 % 3],
                     sizes[sr1__rng_below(&rng, 6)], dims[sr1__rng_below(&rng, 5)], &rng);
        s = (struct sr1__dense_device_settings){margins[sr1__rng_below(&rng, 3)],
                                                blocks[sr1__rng_below(&rng, 4)]};
        n = batches[sr1__rng_below(&rng, 4)];
        top_k = (int32_t[]){1, 3, 10, (int32_t)b.n,
                            (int32_t)b.n + 5}[sr1__rng_below(&rng, 5)];
        if (sr1__dense_device_open(&d, b.ix, NULL, ops, device, &s) != SR1_OK)
            fail_msg("round %zu: %s", round, sr1_last_error());
        if (bed_differences(&b, d, n, top_k) != 0)
            fail_msg("round %zu: %zu rows of %zu, block %zu, margin %zu, top %d: other "
                     "hits than the CPU's",
                     round, b.n, b.dim, s.block, s.margin, (int)top_k);
        if (round % BED_KINDS != BED_HUGE) {
            uint64_t now[2];

            sr1__dense_device_counts(d, &now[0], &now[1]);
            assert_int_equal(now[0], n);
            all[0] += now[0];
            all[1] += now[1];
        }
        sr1__dense_device_close(d);
        bed_free(&b);
    }
    print_message("%llu queries, %llu of them again on the CPU\n",
                  (unsigned long long)all[0], (unsigned long long)all[1]);
    assert_true(all[1] > 0 && all[1] < all[0]);
}

/* An embedder for queries "q0" to "q129" of a bed. */
static inline sr1_status bed_embed(void *self, const char *const *texts, size_t n,
                                   int32_t kind, float *out)
{
    const struct bed *b = self;

    (void)kind;
    for (size_t i = 0; i < n; i++)
        memcpy(out + i * b->dim, b->queries + strtoul(texts[i] + 1, NULL, 10) * b->dim,
               b->dim * sizeof(*out));
    return SR1_OK;
}

static inline sr1_status bed_embedder(sr1_embedder **out, struct bed *b)
{
    const sr1_embedder_ops ops = {.struct_size = sizeof(ops),
                                  .name = "bed",
                                  .embed = bed_embed,
                                  .dim = (int32_t)b->dim};

    return sr1_embedder_new(out, &ops, b);
}

/* Open the file of a bed by the public call. */
static inline sr1_status bed_open(sr1_search **out, struct bed *b, const char *device)
{
    sr1_embedder *e = NULL;
    sr1_dense_options o;
    sr1_status status = bed_embedder(&e, b);

    sr1_dense_options_init(&o);
    o.threads = 2;
    o.device = device;
    if (status == SR1_OK)
        status = sr1_search_open_dense(out, scratch_path("bed.idx"), e, &o);
    sr1_embedder_free(e);
    return status;
}

static inline void bed_refused(sr1_status got, sr1_status want, const char *part)
{
    if (got != want || strstr(sr1_last_error(), part) == NULL)
        fail_msg("status %d, wanted %d with '%s': %s", (int)got, (int)want, part,
                 sr1_last_error());
}

#endif
