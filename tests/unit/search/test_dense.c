/* test_dense.c - dense indexes: what comes back against sums in double, builds that stop
 * and go on, damage, memory. */
#include "base/clock.h"
#include "base/rng.h"
#include "retrieval/search/dense_index.h"
#include "retrieval/search/dense_scan.h"
#include "retrieval/search/document_store.h"
#include "retrieval/search/embed.h"
#include "support/files.h"
#include "support/torture.h"

#include <searchr1/ext/engines.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

#define DIM 20
#define ROWS 300
#define QUERIES 70

/* ---- a world of vectors ---- */

/* Query "q7" has vector 7 of queries; document "d7 ..." vector 7 of rows. */
struct world {
    size_t dim;
    size_t n;
    float *rows;
    float *queries;
    long calls;
    long texts;
    long fail_at;  /* the call that fails; 0: none */
    long sleep_us; /* each call */
    int gate;      /* each call waits until this pipe has no writer; 0: none */
    int told;      /* each call writes a byte to this pipe before; 0: none */
    const char *name;
};

static struct world *world_new(size_t n, size_t dim, uint64_t seed)
{
    struct world *w = calloc(1, sizeof(*w));
    struct sr1__rng rng;

    sr1__rng_seed(&rng, seed, dim);
    w->dim = dim;
    w->n = n;
    w->name = "world";
    w->rows = malloc(n * dim * sizeof(*w->rows));
    w->queries = malloc(QUERIES * dim * sizeof(*w->queries));
    for (size_t i = 0; i < n * dim; i++)
        w->rows[i] = (float)sr1__rng_normal(&rng);
    for (size_t i = 0; i < QUERIES * dim; i++)
        w->queries[i] = (float)sr1__rng_normal(&rng);
    return w;
}

static void world_free(struct world *w)
{
    free(w->rows);
    free(w->queries);
    free(w);
}

static sr1_status embed(void *self, const char *const *texts, size_t n, int32_t kind,
                        float *out)
{
    struct world *w = self;
    char byte;

    w->calls++;
    if (w->calls == w->fail_at)
        return sr1_set_error(SR1_E_IO, "the model is gone");
    if (w->sleep_us > 0)
        usleep((useconds_t)w->sleep_us);
    if (w->told > 0 && write(w->told, "", 1) < 0)
        return sr1_set_error(SR1_E_IO, strerror(errno));
    if (w->gate > 0 && read(w->gate, &byte, 1) < 0)
        return sr1_set_error(SR1_E_IO, strerror(errno));
    w->texts += (long)n;
    for (size_t i = 0; i < n; i++) {
        size_t k = strtoul(texts[i] + 1, NULL, 10);
        const float *v = kind == SR1_EMBED_QUERY ? w->queries : w->rows;

        if (texts[i][0] != (kind == SR1_EMBED_QUERY ? 'q' : 'd') ||
            k >= (kind == SR1_EMBED_QUERY ? QUERIES : w->n))
            return sr1_set_error(SR1_E_INVALID, texts[i]);
        memcpy(out + i * w->dim, v + k * w->dim, w->dim * sizeof(*out));
    }
    return SR1_OK;
}

static sr1_embedder *world_embedder(struct world *w)
{
    const sr1_embedder_ops ops = {.struct_size = sizeof(ops),
                                  .name = w->name,
                                  .embed = embed,
                                  .dim = (int32_t)w->dim};
    sr1_embedder *e = NULL;

    assert_int_equal(sr1_embedder_new(&e, &ops, w), SR1_OK);
    return e;
}

/* Lines of documents "d0" to "d(n-1)"; some rows have more to them. */
static const char *write_corpus(const char *name, size_t n)
{
    struct sr1__buf b;
    const char *path;

    sr1__buf_init(&b, 0);
    for (size_t i = 0; i < n; i++)
        sr1__buf_fmt(&b, "{\"id\": \"%zu\", \"contents\": \"d%zu\\ntext %zu\"%s}\n%s", i,
                     i, i % 7, i % 5 == 0 ? ", \"url\": \"u\"" : "",
                     i % 11 == 3 ? "\n" : "");
    path = scratch_file(name, b.data, b.len);
    sr1__buf_free(&b);
    return path;
}

static sr1_dense_build_options options_of(const char *dtype, int32_t batch)
{
    sr1_dense_build_options o;

    sr1_dense_build_options_init(&o);
    o.dtype = dtype;
    o.batch = batch;
    return o;
}

static void build(const char *corpus, const char *index, struct world *w,
                  const char *dtype, int32_t batch)
{
    sr1_dense_build_options o = options_of(dtype, batch);
    sr1_embedder *e = world_embedder(w);
    sr1_status status = sr1_dense_build(corpus, index, e, &o, NULL, NULL);

    if (status != SR1_OK)
        fail_msg("%s", sr1_last_error());
    sr1_embedder_free(e);
}

static sr1_search *open_with(const char *index, struct world *w, int32_t threads)
{
    sr1_embedder *e = world_embedder(w);
    sr1_dense_options o;
    sr1_search *engine = NULL;

    sr1_dense_options_init(&o);
    o.threads = threads;
    if (sr1_search_open_dense(&engine, index, e, &o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    sr1_embedder_free(e);
    return engine;
}

static int are_same(const char *a, const char *b)
{
    struct sr1__map x;
    struct sr1__map y;
    int same;

    assert_int_equal(sr1__map_open(&x, a), SR1_OK);
    assert_int_equal(sr1__map_open(&y, b), SR1_OK);
    same = x.size == y.size && memcmp(x.data, y.data, x.size) == 0;
    sr1__map_close(&x);
    sr1__map_close(&y);
    return same;
}

static int exists_part(const char *index)
{
    char path[600];

    snprintf(path, sizeof(path), "%s.part", index);
    return sr1__path_exists(path);
}

/* ---- an independent reference: what a type keeps of a vector ---- */

static void kept_as(const char *dtype, const float *v, size_t dim, double *out)
{
    double most = 0;

    for (size_t i = 0; i < dim; i++)
        most = fmax(most, fabs((double)v[i]));
    for (size_t i = 0; i < dim; i++) {
        int exponent;

        if (strcmp(dtype, "fp32") == 0) {
            out[i] = (double)v[i];
        } else if (strcmp(dtype, "int8") == 0) {
            double scale = (double)(float)((float)most / 127.0F);

            out[i] = nearbyint((double)(v[i] / (float)scale)) * scale;
        } else { /* 11 bits of mantissa, none below 2^-24 */
            frexp((double)v[i], &exponent);
            exponent = exponent - 11 < -24 ? -24 : exponent - 11;
            out[i] = ldexp(nearbyint(ldexp((double)v[i], -exponent)), exponent);
        }
    }
}

static double product(const double *a, const float *b, size_t dim)
{
    double sum = 0;

    for (size_t i = 0; i < dim; i++)
        sum += a[i] * (double)b[i];
    return sum;
}

/* Every hit of every query: its document's score is right, and none that is left out, or
 * stands behind, has a better one. */
static void check_hits(const char *dtype, const struct world *w, sr1_search *engine,
                       size_t n_queries, int32_t top_k)
{
    char text[QUERIES][16];
    const char *queries[QUERIES];
    double *want = malloc(w->n * sizeof(*want));
    double *kept = malloc(w->n * w->dim * sizeof(*kept));
    /* int8: the query's scale / 2 (kernels/dot.h) for each number of up to 4 */
    double slack =
        strcmp(dtype, "int8") == 0 ? 4.5 / 32767 / 2 * 4 * (double)w->dim : 3e-5;
    sr1_search_results *r = NULL;

    for (size_t i = 0; i < n_queries; i++) {
        snprintf(text[i], sizeof(text[i]), "q%zu", i);
        queries[i] = text[i];
    }
    for (size_t i = 0; i < w->n; i++)
        kept_as(dtype, w->rows + i * w->dim, w->dim, kept + i * w->dim);
    if (sr1_search_run(engine, queries, n_queries, top_k, &r) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    for (size_t q = 0; q < n_queries; q++) {
        int32_t found = sr1_search_results_hit_count(r, q);
        double last = INFINITY;

        for (size_t i = 0; i < w->n; i++)
            want[i] = product(kept + i * w->dim, w->queries + q * w->dim, w->dim);
        assert_int_equal(found, top_k < (int32_t)w->n ? top_k : (int32_t)w->n);
        for (int32_t k = 0; k < found; k++) {
            sr1_search_hit hit = {sizeof(hit)};
            char contents[64];
            size_t d;

            assert_int_equal(sr1_search_results_hit(r, q, k, &hit), SR1_OK);
            d = strtoul(hit.id, NULL, 10);
            snprintf(contents, sizeof(contents), "d%zu\ntext %zu", d, d % 7);
            assert_string_equal(hit.contents, contents);
            assert_int_equal(strstr(hit.row, "\"url\"") != NULL, d % 5 == 0);
            assert_true(fabs(hit.score - want[d]) < slack);
            assert_true(hit.score <= last);
            last = hit.score;
            want[d] = -INFINITY;
        }
        for (size_t i = 0; i < w->n; i++)
            assert_true(want[i] <= last + slack);
    }
    sr1_search_results_free(r);
    free(want);
    free(kept);
}

static const char *const dtypes[] = {"fp32", "fp16", "int8"};

static void hits_are_those_of_sums_in_double(void **state)
{
    static const size_t dims[] = {1, 16, DIM, 130};

    (void)state;
    for (size_t t = 0; t < 3; t++) {
        for (size_t j = 0; j < 4; j++) {
            struct world *w = world_new(ROWS, dims[j], t + 1);
            const char *corpus = write_corpus("c.jsonl", ROWS);
            const char *index = scratch_path("hits.idx");
            sr1_search *e;

            build(corpus, index, w, dtypes[t], 64);
            assert_false(exists_part(index));
            assert_int_equal(sr1_dense_verify(index), SR1_OK);
            e = open_with(index, w, 2);
            check_hits(dtypes[t], w, e, 3, 10);
            check_hits(dtypes[t], w, e, QUERIES, 1);
            check_hits(dtypes[t], w, e, 5, ROWS + 5);
            sr1_search_free(e);
            world_free(w);
        }
    }
}

static void info_tells_what_is_there(void **state)
{
    struct world *w = world_new(ROWS, DIM, 1);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *index = scratch_path("info.idx");
    sr1_dense_info a = {sizeof(a)};
    sr1_dense_info b = {sizeof(b)};
    sr1_search *e;
    struct sr1__document_store *d = NULL;
    struct stat st;
    char *name = NULL;

    (void)state;
    build(corpus, index, w, "int8", 64);
    e = open_with(index, w, 1);
    assert_int_equal(sr1_dense_info_get(e, &a), SR1_OK);
    assert_int_equal(sr1_dense_info_read(index, &b), SR1_OK);
    assert_int_equal(a.documents, ROWS);
    assert_int_equal(a.dim, DIM);
    assert_string_equal(a.dtype, "int8");
    assert_string_equal(a.embedder, "world");
    assert_null(b.embedder);
    assert_int_equal(a.search_bytes, ROWS * (32 + 4)); /* 20 numbers in 32, a scale */
    assert_int_equal(b.search_bytes, a.search_bytes);
    assert_int_equal(b.documents, ROWS);
    assert_int_equal(stat(index, &st), 0);
    assert_int_equal(a.file_bytes, st.st_size);
    assert_true(a.documents_bytes + a.search_bytes < a.file_bytes);
    assert_int_equal(sr1_dense_embedder_name(index, &name), SR1_OK);
    assert_string_equal(name, "world");
    sr1_free(name);
    sr1_search_free(e);
    assert_int_equal(sr1__document_store_open(&d, index), SR1_OK);
    assert_int_equal(sr1__document_store_count(d), ROWS);
    sr1__document_store_close(d);
    assert_int_equal(sr1_search_open_mock(&e, NULL, NULL, 0), SR1_OK);
    assert_int_equal(sr1_dense_info_get(e, &a), SR1_E_INVALID);
    sr1_search_free(e);
    world_free(w);
}

/* ---- what never changes a result ---- */

static void scan(const struct sr1__dense_index *ix, int32_t threads, const float *queries,
                 size_t n, int32_t top_k, struct sr1__dense_hit *out)
{
    struct sr1__pool *pool = NULL;
    int32_t found = 0;

    assert_int_equal(sr1__pool_new(&pool, threads), SR1_OK);
    assert_int_equal(sr1__dense_scan(ix, pool, queries, n, top_k, out, &found), SR1_OK);
    assert_int_equal(found, top_k);
    sr1__pool_free(pool);
}

static void threads_and_batches_change_nothing(void **state)
{
    enum { N = 9000, D = 100, K = 40 };
    struct world *w = world_new(N, D, 3);
    const char *corpus = write_corpus("many.jsonl", N);
    struct sr1__dense_hit *all = malloc(QUERIES * K * sizeof(*all));
    struct sr1__dense_hit *one = malloc(QUERIES * K * sizeof(*one));

    (void)state;
    for (size_t i = 0; i < N; i++) /* a third are twins of the row before */
        if (i % 3 == 1)
            memcpy(w->rows + i * D, w->rows + (i - 1) * D, D * sizeof(float));
    for (size_t t = 0; t < 3; t++) {
        const char *index = scratch_path("same.idx");
        struct sr1__dense_index *ix = NULL;

        build(corpus, index, w, dtypes[t], 1000);
        assert_int_equal(sr1__dense_open(&ix, index), SR1_OK);
        scan(ix, 1, w->queries, QUERIES, K, all);
        for (int32_t threads = 2; threads <= 5; threads++) {
            scan(ix, threads, w->queries, QUERIES, K, one);
            assert_memory_equal(one, all, QUERIES * K * sizeof(*one));
        }
        for (size_t q = 0; q < QUERIES; q += 9) { /* alone, and fewer hits */
            scan(ix, 2, w->queries + q * D, 1, K, one);
            assert_memory_equal(one, all + q * K, K * sizeof(*one));
            scan(ix, 2, w->queries + q * D, 1, 7, one);
            assert_memory_equal(one, all + q * K, 7 * sizeof(*one));
        }
        for (size_t q = 0; q < QUERIES; q++) /* equal scores in the order of rows */
            for (size_t k = 1; k < K; k++)
                assert_true(all[q * K + k - 1].score > all[q * K + k].score ||
                            (all[q * K + k - 1].score == all[q * K + k].score &&
                             all[q * K + k - 1].doc < all[q * K + k].doc));
        sr1__dense_close(ix);
    }
    free(all);
    free(one);
    world_free(w);
}

struct asker {
    sr1_search *engine;
    pthread_t thread;
    size_t first; /* query */
    char ids[20][16];
};

static void *ask_some(void *arg)
{
    struct asker *a = arg;

    for (size_t i = 0; i < 20; i++) {
        sr1_search_results *r = NULL;
        sr1_search_hit hit = {sizeof(hit)};
        char text[16];
        const char *query = text;

        snprintf(text, sizeof(text), "q%zu", a->first + i);
        if (sr1_search_run(a->engine, &query, 1, 5, &r) == SR1_OK &&
            sr1_search_results_hit(r, 0, 4, &hit) == SR1_OK)
            snprintf(a->ids[i], sizeof(a->ids[i]), "%s", hit.id);
        sr1_search_results_free(r);
    }
    return NULL;
}

static void threads_may_ask_one_engine(void **state)
{
    struct world *w = world_new(ROWS, DIM, 8);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *index = scratch_path("shared.idx");
    struct asker askers[4] = {{0}};
    struct asker alone = {0};

    (void)state;
    build(corpus, index, w, "fp16", 64);
    alone.engine = open_with(index, w, 2);
    for (size_t i = 0; i < 4; i++) {
        askers[i] = (struct asker){.engine = alone.engine, .first = 10 * i};
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask_some, &askers[i]),
                         0);
    }
    for (size_t i = 0; i < 4; i++)
        pthread_join(askers[i].thread, NULL);
    for (size_t i = 0; i < 4; i++) {
        alone.first = 10 * i;
        ask_some(&alone);
        assert_string_not_equal(alone.ids[7], "");
        assert_memory_equal(alone.ids, askers[i].ids, sizeof(alone.ids));
    }
    sr1_search_free(alone.engine);
    world_free(w);
}

static void nothing_but_ties(void **state)
{
    struct world *w = world_new(1000, DIM, 3);
    const char *corpus = write_corpus("ties.jsonl", 1000);
    const char *index = scratch_path("ties.idx");
    struct sr1__dense_index *ix = NULL;
    struct sr1__dense_hit hits[50];

    (void)state;
    memset(w->rows, 0, 1000 * DIM * sizeof(float));
    build(corpus, index, w, "int8", 64);
    assert_int_equal(sr1__dense_open(&ix, index), SR1_OK);
    scan(ix, 3, w->queries, 1, 50, hits);
    for (uint32_t k = 0; k < 50; k++) {
        assert_int_equal(hits[k].doc, k);
        assert_true(hits[k].score == 0.0F && !signbit(hits[k].score));
    }
    sr1__dense_close(ix);
    world_free(w);
}

/* ---- how much of the best ten a smaller type keeps ---- */

/* Unit vectors: random, or around `centres` points as those of texts are. */
static void unit_rows(struct world *w, size_t centres, uint64_t seed)
{
    float *centre = malloc((centres + 1) * w->dim * sizeof(*centre));
    struct sr1__rng rng;

    sr1__rng_seed(&rng, seed, centres);
    for (size_t i = 0; i < centres * w->dim; i++)
        centre[i] = (float)sr1__rng_normal(&rng);
    for (size_t i = 0; i < w->n + QUERIES; i++) {
        float *v = i < w->n ? w->rows + i * w->dim : w->queries + (i - w->n) * w->dim;
        double length = 0;

        for (size_t k = 0; k < w->dim; k++) {
            v[k] = (float)sr1__rng_normal(&rng);
            if (centres > 0)
                v[k] = 0.5F * v[k] + centre[i % centres * w->dim + k];
            length += (double)v[k] * (double)v[k];
        }
        for (size_t k = 0; k < w->dim; k++)
            v[k] = (float)((double)v[k] / sqrt(length));
    }
    free(centre);
}

static double recall(const struct sr1__dense_hit *got, const struct sr1__dense_hit *want,
                     size_t n)
{
    size_t both = 0;

    for (size_t q = 0; q < n; q++)
        for (size_t i = 0; i < 10; i++)
            for (size_t j = 0; j < 10; j++)
                both += got[q * 10 + i].doc == want[q * 10 + j].doc;
    return (double)both / (double)(10 * n);
}

static void smaller_types_keep_the_best_ten(void **state)
{
    enum { N = 20000, D = 384 };
    static const double least[3] = {1.0, 0.99, 0.95};
    struct world *w = world_new(N, D, 9);
    const char *corpus = write_corpus("recall.jsonl", N);
    struct sr1__dense_hit *want = malloc(QUERIES * 10 * sizeof(*want));
    struct sr1__dense_hit *got = malloc(QUERIES * 10 * sizeof(*got));

    (void)state;
    for (size_t centres = 0; centres <= 200; centres += 200) {
        unit_rows(w, centres, 11);
        for (size_t t = 0; t < 3; t++) {
            const char *index = scratch_path("recall.idx");
            struct sr1__dense_index *ix = NULL;
            double r;

            build(corpus, index, w, dtypes[t], 4096);
            assert_int_equal(sr1__dense_open(&ix, index), SR1_OK);
            scan(ix, 2, w->queries, QUERIES, 10, t == 0 ? want : got);
            r = t == 0 ? 1.0 : recall(got, want, QUERIES);
            print_message("%s, %zu clusters: recall@10 %.4f\n", dtypes[t], centres, r);
            assert_true(r >= least[t]);
            sr1__dense_close(ix);
        }
    }
    free(want);
    free(got);
    world_free(w);
}

/* ---- vectors made elsewhere ---- */

static void imported_vectors_are_those_of_a_build(void **state)
{
    struct world *w = world_new(ROWS, DIM, 4);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *built = scratch_path("built.idx");
    const char *imported = scratch_path("imported.idx");
    const char *file = scratch_file("v.memmap", w->rows, ROWS * DIM * sizeof(float));

    (void)state;
    for (size_t t = 0; t < 3; t++) {
        sr1_dense_build_options o = options_of(dtypes[t], 10);

        o.embedder_name = "world";
        build(corpus, built, w, dtypes[t], 64);
        if (sr1_dense_import(corpus, file, DIM, imported, &o, NULL, NULL) != SR1_OK)
            fail_msg("%s", sr1_last_error());
        assert_int_equal(sr1_dense_verify(imported), SR1_OK);
        assert_true(are_same(built, imported));
    }
    world_free(w);
}

static void refused(sr1_status got, sr1_status want, const char *part)
{
    if (got != want || strstr(sr1_last_error(), part) == NULL)
        fail_msg("status %d, wanted %d with '%s': %s", (int)got, (int)want, part,
                 sr1_last_error());
}

static void imports_that_do_not_fit_are_refused(void **state)
{
    struct world *w = world_new(ROWS + 1, DIM, 4);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *index = scratch_path("refused.idx");
    size_t row = DIM * sizeof(float);
    const char *v = scratch_file("w.memmap", w->rows, ROWS * row + 4);
    sr1_dense_build_options o = options_of("fp16", 1);

    (void)state;
    refused(sr1_dense_import(corpus, v, DIM, index, NULL, NULL, NULL), SR1_E_PARSE,
            "not rows of 20");
    scratch_file("w.memmap", w->rows, (ROWS + 1) * row);
    refused(sr1_dense_import(corpus, v, DIM, index, NULL, NULL, NULL), SR1_E_PARSE,
            "301 vectors of 20 numbers, the corpus 300 documents");
    scratch_file("w.memmap", w->rows, (ROWS - 1) * row);
    refused(sr1_dense_import(corpus, v, DIM, index, NULL, NULL, NULL), SR1_E_PARSE,
            "has more documents");
    w->rows[7 * DIM + 3] = 70000.0F;
    scratch_file("w.memmap", w->rows, ROWS * row);
    refused(sr1_dense_import(corpus, v, DIM, index, &o, NULL, NULL), SR1_E_NUMERIC,
            "row 7: number 3 of the vector, 70000, is too large for fp16");
    w->rows[7 * DIM + 3] = NAN;
    scratch_file("w.memmap", w->rows, ROWS * row);
    refused(sr1_dense_import(corpus, v, DIM, index, NULL, NULL, NULL), SR1_E_NUMERIC,
            "row 7: number 3 of the vector is not finite");
    refused(sr1_dense_import(corpus, v, DIM, corpus, NULL, NULL, NULL), SR1_E_INVALID,
            "same file as the input");
    refused(sr1_dense_import(corpus, v, DIM, v, NULL, NULL, NULL), SR1_E_INVALID,
            "same file as the input");
    refused(sr1_dense_import(corpus, v, 0, index, NULL, NULL, NULL), SR1_E_INVALID,
            "dim 0 is not in");
    refused(sr1_dense_import(corpus, scratch_path("none"), DIM, index, NULL, NULL, NULL),
            SR1_E_IO, "none");
    assert_false(sr1__path_exists(index));
    world_free(w);
}

static void options_are_checked(void **state)
{
    struct world *w = world_new(ROWS, DIM, 4);
    struct world *other = world_new(ROWS, DIM + 1, 4);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *index = scratch_path("options.idx");
    sr1_embedder *e = world_embedder(w);
    sr1_embedder *longer = world_embedder(other);
    sr1_dense_build_options o = options_of("bf16", 1);
    sr1_dense_options run;
    sr1_search *engine = NULL;

    (void)state;
    refused(sr1_dense_build(corpus, index, e, &o, NULL, NULL), SR1_E_INVALID,
            "no dtype 'bf16'; there are: fp32, fp16, int8");
    o = options_of(NULL, 0);
    refused(sr1_dense_build(corpus, index, e, &o, NULL, NULL), SR1_E_INVALID,
            "batch 0 is not in");
    o = options_of(NULL, 1);
    o.text_format = "pdf";
    refused(sr1_dense_build(corpus, index, e, &o, NULL, NULL), SR1_E_INVALID,
            "plain, html, markdown, auto");
    refused(sr1_dense_build(corpus, index, NULL, NULL, NULL, NULL), SR1_E_INVALID,
            "required");
    build(corpus, index, w, "fp32", 7);
    refused(sr1_search_open_dense(&engine, index, longer, NULL), SR1_E_INVALID,
            "vectors of 20 numbers, embedder 'world' makes 21");
    sr1_dense_options_init(&run);
    run.device = "gpu";
    refused(sr1_search_open_dense(&engine, index, e, &run), SR1_E_INVALID,
            "device 'gpu' is not one of");
    refused(sr1_search_open_dense(&engine, corpus, e, NULL), SR1_E_CORRUPT,
            "not a dense index");
    assert_null(engine);
    sr1_embedder_free(e);
    sr1_embedder_free(longer);
    world_free(w);
    world_free(other);
}

static void markup_is_cut_before_embedding(void **state)
{
    struct world *w = world_new(2, DIM, 4);
    const char *corpus = scratch_file("m.jsonl",
                                      "{\"id\": 1, \"contents\": \"<b>d0</b> x\"}\n"
                                      "{\"id\": 2, \"contents\": \"<p>d1</p>\"}\n",
                                      0);
    const char *index = scratch_path("markup.idx");
    sr1_dense_build_options o = options_of("fp32", 7);
    sr1_embedder *e = world_embedder(w);
    sr1_search *engine;
    sr1_search_results *r = NULL;
    sr1_search_hit hit = {sizeof(hit)};
    const char *query = "q0";

    (void)state;
    o.text_format = "html";
    assert_int_equal(sr1_dense_build(corpus, index, e, &o, NULL, NULL), SR1_OK);
    engine = open_with(index, w, 1);
    assert_int_equal(sr1_search_run(engine, &query, 1, 2, &r), SR1_OK);
    for (int32_t k = 0; k < 2; k++) {
        assert_int_equal(sr1_search_results_hit(r, 0, k, &hit), SR1_OK);
        assert_string_equal(hit.contents, hit.id[0] == '1' ? "d0 x" : "d1");
    }
    sr1_search_results_free(r);
    sr1_search_free(engine);
    sr1_embedder_free(e);
    world_free(w);
}

/* ---- builds that stop and go on ---- */

static void a_build_goes_on_after_the_last_batch(void **state)
{
    struct world *w = world_new(ROWS, DIM, 5);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *whole = scratch_path("whole.idx");
    const char *index = scratch_path("resumed.idx");
    sr1_dense_build_options o = options_of("int8", 32);
    sr1_embedder *e = world_embedder(w);

    (void)state;
    build(corpus, whole, w, "int8", 32);
    for (long at = 1; at <= 9; at += 4) {
        w->calls = w->texts = 0;
        w->fail_at = at;
        refused(sr1_dense_build(corpus, index, e, &o, NULL, NULL), SR1_E_CALLBACK,
                "the model is gone");
        assert_int_equal(w->texts, 32 * (at - 1));
        assert_true(exists_part(index));
        w->fail_at = 0;
        assert_int_equal(sr1_dense_build(corpus, index, e, &o, NULL, NULL), SR1_OK);
        assert_int_equal(w->texts, ROWS); /* none twice */
        assert_false(exists_part(index));
        assert_true(are_same(whole, index));
    }
    sr1_embedder_free(e);
    world_free(w);
}

static void a_file_that_is_no_dense_index_stays(void **state)
{
    struct world *w = world_new(ROWS, DIM, 5);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *vectors = scratch_file("place.f32", "no vectors", 0);
    const char *mine = scratch_file("notes.txt", "my own notes\n", 0);
    sr1_dense_build_options o = options_of("int8", 32);
    sr1_embedder *e = world_embedder(w);
    struct sr1__buf b;

    (void)state;
    refused(sr1_dense_build(corpus, mine, e, &o, NULL, NULL), SR1_E_INVALID,
            "notes.txt exists and is no dense index");
    refused(sr1_dense_import(corpus, vectors, DIM, mine, NULL, NULL, NULL), SR1_E_INVALID,
            "notes.txt exists and is no dense index");
    assert_int_equal(w->texts, 0);
    assert_int_equal(sr1__file_read(mine, 0, &b), SR1_OK);
    assert_string_equal(sr1__buf_cstr(&b), "my own notes\n");
    sr1__buf_free(&b);
    o.force = 1;
    assert_int_equal(sr1_dense_build(corpus, mine, e, &o, NULL, NULL), SR1_OK);
    o.force = 0;
    assert_int_equal(sr1_dense_build(corpus, mine, e, &o, NULL, NULL), SR1_OK);
    sr1_embedder_free(e);
    world_free(w);
}

static void a_file_in_the_place_of_the_part_stays(void **state)
{
    struct world *w = world_new(ROWS, DIM, 5);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *index = scratch_path("mine.idx");
    const char *part = scratch_file("mine.idx.part", "my own notes\n", 0);
    sr1_dense_build_options o = options_of("int8", 32);
    sr1_embedder *e = world_embedder(w);
    struct sr1__buf b;

    (void)state;
    refused(sr1_dense_build(corpus, index, e, &o, NULL, NULL), SR1_E_STATE,
            "move it away");
    refused(sr1_dense_build(corpus, corpus, e, &o, NULL, NULL), SR1_E_INVALID,
            "same file as the input");
    assert_int_equal(sr1__file_read(part, 0, &b), SR1_OK);
    assert_string_equal(sr1__buf_cstr(&b), "my own notes\n");
    sr1__buf_free(&b);
    unlink(part);
    sr1_embedder_free(e);
    world_free(w);
}

/* Leave a part of 3 batches of 32. */
static void stop_a_build(const char *corpus, const char *index, struct world *w)
{
    sr1_dense_build_options o = options_of("fp16", 32);
    sr1_embedder *e = world_embedder(w);

    w->calls = 0;
    w->fail_at = 4;
    assert_int_equal(sr1_dense_build(corpus, index, e, &o, NULL, NULL), SR1_E_CALLBACK);
    w->fail_at = w->calls = w->texts = 0;
    sr1_embedder_free(e);
}

static void vectors_of_something_else_are_not_used(void **state)
{
    struct world *w = world_new(ROWS, DIM, 5);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *index = scratch_path("other.idx");
    struct sr1__buf text;
    struct stat st;
    char part[600];

    (void)state;
    snprintf(part, sizeof(part), "%s.part", index);
    stop_a_build(corpus, index, w);
    build(corpus, index, w, "fp16", 50); /* another batch is no other vectors */
    assert_int_equal(w->texts, ROWS - 96);
    stop_a_build(corpus, index, w);
    build(corpus, index, w, "int8", 32);
    assert_int_equal(w->texts, ROWS);
    stop_a_build(corpus, index, w);
    w->name = "another";
    build(corpus, index, w, "fp16", 32);
    assert_int_equal(w->texts, ROWS);
    w->name = "world";
    stop_a_build(corpus, index, w); /* a byte of the second batch changed */
    assert_int_equal(sr1__file_read(corpus, 0, &text), SR1_OK);
    *strstr(text.data, "text 5") = 'T';
    scratch_file("c.jsonl", text.data, text.len);
    build(corpus, index, w, "fp16", 32);
    assert_int_equal(w->texts, ROWS);
    stop_a_build(corpus, index, w); /* a row of those to come changed */
    strstr(text.data, "\"299\"")[1] = 'x';
    scratch_file("c.jsonl", text.data, text.len);
    build(corpus, index, w, "fp16", 32);
    assert_int_equal(w->texts, ROWS - 96);
    stop_a_build(corpus, index, w); /* a torn record costs itself */
    assert_int_equal(stat(part, &st), 0);
    assert_int_equal(truncate(part, st.st_size - 1), 0);
    build(corpus, index, w, "fp16", 32);
    assert_int_equal(w->texts, ROWS - 64);
    sr1__buf_free(&text);
    world_free(w);
}

/* ---- how vectors were made ---- */

/* A side of an encoding (retrieval/search/encoding.h). */
#define SIDE(weights, pooling, prefix)                                                   \
    "{\"weights\":\"" weights "\",\"pooling\":\"" pooling                                \
    "\",\"normalize\":1,\"tokens\":256,\"prefix\":\"" prefix "\"}"
#define ENCODING(query, document)                                                        \
    "{\"dtype\":\"float32\",\"query\":" query ",\"document\":" document "}"
#define PLAIN SIDE("00aa", "mean", "")

static sr1_embedder *encoder_of(struct world *w, const char *encoding)
{
    const sr1_embedder_ops ops = {.struct_size = sizeof(ops),
                                  .name = w->name,
                                  .embed = embed,
                                  .dim = (int32_t)w->dim};
    sr1_embedder *e = NULL;

    assert_int_equal(sr1__embedder_new_builtin(&e, &ops, encoding, w), SR1_OK);
    return e;
}

/* Texts that a build embeds which goes on from 3 batches of 32 by another encoding. */
static long continued(const char *corpus, struct world *w, const char *first,
                      const char *then)
{
    const char *index = scratch_path("encoded.idx");
    sr1_dense_build_options o = options_of("fp16", 32);
    sr1_embedder *a = encoder_of(w, first);
    sr1_embedder *b = encoder_of(w, then);

    w->calls = 0;
    w->fail_at = 4;
    assert_int_equal(sr1_dense_build(corpus, index, a, &o, NULL, NULL), SR1_E_IO);
    w->fail_at = w->calls = w->texts = 0;
    assert_int_equal(sr1_dense_build(corpus, index, b, &o, NULL, NULL), SR1_OK);
    sr1_embedder_free(a);
    sr1_embedder_free(b);
    return w->texts;
}

static void vectors_made_otherwise_are_not_used(void **state)
{
    static const char *const others[] = {
        ENCODING(PLAIN, SIDE("00ab", "mean", "")),
        ENCODING(PLAIN, SIDE("00aa", "cls", "")),
        ENCODING(PLAIN, SIDE("00aa", "mean", "passage: ")),
        "{\"dtype\":\"bfloat16\",\"query\":" PLAIN ",\"document\":" PLAIN "}", ""};
    const char *plain = ENCODING(PLAIN, PLAIN);
    struct world *w = world_new(ROWS, DIM, 5);
    const char *corpus = write_corpus("c.jsonl", ROWS);

    (void)state;
    assert_int_equal(continued(corpus, w, plain, plain), ROWS - 96);
    assert_int_equal(
        continued(corpus, w, plain, ENCODING(SIDE("00ff", "cls", "query: "), PLAIN)),
        ROWS - 96); /* queries are not in the vectors */
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(continued(corpus, w, plain, others[i]), ROWS);
    world_free(w);
}

static void keep_warning(void *user, int32_t level, const char *text)
{
    if (level == SR1_LOG_WARN)
        snprintf(user, 600, "%s", text);
}

/* Opens the index with an embedder of this encoding; the warning in *told. */
static sr1_status opened_by(const char *index, struct world *w, const char *encoding,
                            const sr1_dense_options *options, char told[600])
{
    sr1_embedder *e = *encoding ? encoder_of(w, encoding) : world_embedder(w);
    sr1_search *engine = NULL;
    sr1_status status;

    told[0] = '\0';
    sr1_log_set(keep_warning, told);
    status = sr1_search_open_dense(&engine, index, e, options);
    sr1_log_set(NULL, NULL);
    sr1_search_free(engine);
    sr1_embedder_free(e);
    return status;
}

static sr1_status opened(const char *index, struct world *w, const char *encoding,
                         char told[600])
{
    return opened_by(index, w, encoding, NULL, told);
}

static void queries_are_embedded_as_documents_were(void **state)
{
    const char *plain = ENCODING(PLAIN, PLAIN);
    struct world *w = world_new(ROWS, DIM, 5);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *index = scratch_path("encoded.idx");
    const char *other = ENCODING(SIDE("00bb", "mean", ""), PLAIN);
    sr1_embedder *e = encoder_of(w, plain);
    sr1_dense_options allowing;
    char told[600];

    (void)state;
    assert_int_equal(sr1_dense_build(corpus, index, e, NULL, NULL, NULL), SR1_OK);
    assert_int_equal(opened(index, w, plain, told), SR1_OK);
    assert_string_equal(told, "");
    assert_int_equal(opened(index, w, "", told), SR1_OK); /* not known */
    assert_string_equal(told, "");
    refused(opened(index, w, ENCODING(SIDE("00aa", "cls", ""), PLAIN), told),
            SR1_E_INVALID,
            "'world' pool otherwise: pooling 'cls', the index was made with 'mean'");
    refused(opened(index, w, other, told), SR1_E_INVALID,
            "weights '00bb', the index was made with '00aa'");
    assert_non_null(strstr(sr1_last_error(), "allow it (search_other_weights)"));
    sr1_dense_options_init(&allowing);
    allowing.other_weights = 1;
    assert_int_equal(opened_by(index, w, other, &allowing, told), SR1_OK);
    assert_string_equal(told, "");
    refused(
        opened_by(index, w, ENCODING(SIDE("00aa", "cls", ""), PLAIN), &allowing, told),
        SR1_E_INVALID, "'world' pool otherwise");
    assert_int_equal(
        opened(index, w, ENCODING(SIDE("00aa", "mean", "query: "), PLAIN), told), SR1_OK);
    assert_non_null(strstr(told, "prefix 'query: ', the index was made with ''"));
    build(corpus, index, w, "fp32", 64); /* by functions: their name is all */
    w->name = "another";
    assert_int_equal(opened(index, w, "", told), SR1_OK);
    assert_non_null(strstr(told, "made with embedder 'world'"));
    assert_non_null(strstr(told, "embedded by 'another'"));
    sr1_embedder_free(e);
    world_free(w);
}

/* A file from before encodings were kept. */
static void the_first_version_is_read(void **state)
{
    struct sr1__dense_index *ix = NULL;
    char path[4096];

    (void)state;
    snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/dense_index/int8",
             getenv("SR1_SRC"));
    assert_int_equal(sr1__dense_open(&ix, path), SR1_OK);
    assert_int_equal(sr1__dense_check(ix), SR1_OK);
    assert_string_equal(sr1__dense_meta(ix)->encoding, "");
    sr1__dense_close(ix);
}

static int32_t count_progress(void *user, uint64_t done, uint64_t total,
                              uint64_t documents, uint64_t resumed)
{
    uint64_t *seen = user; /* calls, last done, total, documents, resumed; stop at */

    assert_true(done >= seen[1] && done <= total && documents >= seen[3]);
    seen[0]++;
    seen[1] = done;
    seen[2] = total;
    seen[3] = documents;
    seen[4] = resumed;
    return seen[0] == seen[5];
}

static void progress_tells_and_stops(void **state)
{
    struct world *w = world_new(ROWS, DIM, 5);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *index = scratch_path("progress.idx");
    sr1_dense_build_options o = options_of("fp32", 100);
    sr1_embedder *e = world_embedder(w);
    uint64_t seen[6] = {0, 0, 0, 0, 0, 2};
    struct stat st;

    (void)state;
    refused(sr1_dense_build(corpus, index, e, &o, count_progress, seen), SR1_E_CANCELLED,
            "stopped on request");
    assert_int_equal(seen[3], 200);
    memset(seen, 0, sizeof(seen));
    assert_int_equal(sr1_dense_build(corpus, index, e, &o, count_progress, seen), SR1_OK);
    assert_int_equal(stat(corpus, &st), 0);
    assert_int_equal(seen[1], st.st_size);
    assert_int_equal(seen[2], st.st_size);
    assert_int_equal(seen[3], ROWS);
    assert_int_equal(seen[4], 200);
    sr1_embedder_free(e);
    world_free(w);
}

/* A process that builds, killed at some moment. */
static void killed_build(const char *corpus, const char *index, struct world *w,
                         long after)
{
    pid_t child = fork();

    if (child == 0) {
        sr1_dense_build_options o = options_of("fp16", 16);
        sr1_embedder *e = world_embedder(w);

        _exit(sr1_dense_build(corpus, index, e, &o, NULL, NULL) == SR1_OK ? 0 : 1);
    }
    usleep((useconds_t)after);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* 19 batches of 3 ms; the first live no longer than 30, and later ones longer, should the
 * machine be so slow. The old index stands until all is done. */
static void a_kill_leaves_the_old_index_whole(void **state)
{
    struct world *old = world_new(ROWS, DIM, 6);
    struct world *w = world_new(ROWS, DIM, 7);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *first = scratch_path("first.idx");
    const char *want = scratch_path("want.idx");
    const char *index = scratch_path("killed.idx");
    int kills = 0;

    (void)state;
    build(corpus, first, old, "fp16", 16);
    build(corpus, want, w, "fp16", 16);
    build(corpus, index, old, "fp16", 16);
    w->sleep_us = 3000;
    for (; kills < 500 && !are_same(index, want); kills++) {
        assert_true(are_same(index, first));
        killed_build(corpus, index, w, 4000 + kills * 1300 % 26000 + kills / 50 * 20000);
    }
    assert_in_range(kills, 2, 499);
    world_free(old);
    world_free(w);
}

static void one_builds_at_a_time(void **state)
{
    struct world *w = world_new(ROWS, DIM, 5);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *index = scratch_path("busy.idx");
    sr1_embedder *e = world_embedder(w);
    char part[600];
    pid_t child;
    int how = 0, ends[2], told[2];
    char byte;

    (void)state;
    snprintf(part, sizeof(part), "%s.part", index);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pipe(told), 0);
    child = fork();
    if (child == 0) {
        sr1_embedder *mine = world_embedder(w);

        close(ends[1]);
        w->gate = ends[0];
        w->told = told[1];
        _exit(sr1_dense_build(corpus, index, mine, NULL, NULL, NULL) == SR1_OK ? 0 : 1);
    }
    assert_int_equal(read(told[0], &byte, 1), 1); /* it builds */
    assert_true(sr1__path_exists(part));
    refused(sr1_dense_build(corpus, index, e, NULL, NULL, NULL), SR1_E_STATE,
            "another process builds");
    close(ends[0]);
    close(ends[1]);
    close(told[0]);
    close(told[1]);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    sr1_embedder_free(e);
    world_free(w);
}

static int locks_fail; /* the error number; 0: they work */

int flock(int fd, int operation)
{
    if (locks_fail != 0) {
        errno = locks_fail;
        locks_fail = locks_fail == EINTR ? 0 : locks_fail;
        return -1;
    }
    return (int)syscall(SYS_flock, fd, operation);
}

/* Without a lock two builds would write one part. */
static void a_lock_that_fails_is_an_error(void **state)
{
    struct world *w = world_new(ROWS, DIM, 5);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    const char *index = scratch_path("locked.idx");
    sr1_embedder *e = world_embedder(w);

    (void)state;
    locks_fail = ENOLCK;
    refused(sr1_dense_build(corpus, index, e, NULL, NULL, NULL), SR1_E_IO, "cannot lock");
    locks_fail = EINTR; /* once */
    assert_int_equal(sr1_dense_build(corpus, index, e, NULL, NULL, NULL), SR1_OK);
    locks_fail = EOPNOTSUPP; /* a file system without locks */
    assert_int_equal(sr1_dense_build(corpus, index, e, NULL, NULL, NULL), SR1_OK);
    locks_fail = 0;
    sr1_embedder_free(e);
    world_free(w);
}

/* ---- damage ---- */

static void every_changed_byte_is_found(void **state)
{
    struct world *w = world_new(40, DIM, 5);
    const char *corpus = write_corpus("d.jsonl", 40);
    const char *index = scratch_path("damage.idx");
    const char *changed = scratch_path("changed.idx");
    struct sr1__buf b;

    (void)state;
    build(corpus, index, w, "int8", 64);
    assert_int_equal(sr1__file_read(index, 0, &b), SR1_OK);
    for (size_t i = 0; i<b.len; i += i> 200 && i + 400 < b.len ? 7 : 1) {
        struct sr1__dense_index *ix = NULL;
        sr1_status status;

        b.data[i] ^= 0x20;
        status = sr1__dense_open_memory(&ix, b.data, b.len);
        if (status == SR1_OK)
            status = sr1__dense_check(ix);
        if (status == SR1_OK && i >= SECTIONS_HEADER_BYTES) {
            /* padding between sections is nobody's */
            int zeros = (b.data[i] ^ 0x20) == 0;

            assert_true(zeros);
        } else if (i >= SECTIONS_HEADER_BYTES) {
            assert_int_equal(status, SR1_E_CORRUPT);
        }
        sr1__dense_close(ix);
        b.data[i] ^= 0x20;
    }
    for (size_t n = 0; n < b.len; n += 13) {
        scratch_file("changed.idx", b.data, n > 0 ? n : 1);
        assert_int_equal(sr1_dense_verify(changed), SR1_E_CORRUPT);
    }
    b.data[8] = 9;
    scratch_file("changed.idx", b.data, b.len);
    refused(sr1_dense_verify(changed), SR1_E_UNSUPPORTED, "index format 9");
    sr1__buf_free(&b);
    world_free(w);
}

/* Numbers of a file that are not finite end a search with a status. */
static void scores_that_are_not_finite_are_damage(void **state)
{
    struct world *w = world_new(40, DIM, 5);
    const char *corpus = write_corpus("d.jsonl", 40);
    const char *query = "q0";

    (void)state;
    for (size_t t = 0; t < 3; t++) {
        const char *index = scratch_path("finite.idx");
        struct sr1__dense_index *ix = NULL;
        sr1_embedder *e = world_embedder(w);
        sr1_search *engine = NULL;
        sr1_search_results *r = NULL;
        struct sr1__buf b;
        size_t at;

        build(corpus, index, w, dtypes[t], 64);
        assert_int_equal(sr1__file_read(index, 0, &b), SR1_OK);
        assert_int_equal(sr1__dense_open_memory(&ix, b.data, b.len), SR1_OK);
        at = t == 2 ? (size_t)((const char *)sr1__dense_scales(ix) - b.data)
                    : (size_t)((const char *)sr1__dense_vectors(ix) - b.data);
        memset(b.data + at + 8, 0xff, 8);
        assert_int_equal(sr1__search_open_dense_index(&engine, ix, e, NULL), SR1_OK);
        refused(sr1_search_run(engine, &query, 1, 3, &r), SR1_E_CORRUPT, "is not finite");
        sr1_search_free(engine);
        sr1_embedder_free(e);
        sr1__buf_free(&b);
    }
    world_free(w);
}

/* Minus infinity too, in the last of more rows than are asked for. */
static void a_score_too_low_to_matter_is_damage(void **state)
{
    struct world *w = world_new(40, DIM, 5);
    const char *corpus = write_corpus("d.jsonl", 40);
    const char *query = "q0";
    const char *index = scratch_path("low.idx");
    struct sr1__dense_index *ix = NULL;
    sr1_embedder *e = world_embedder(w);
    sr1_search *engine = NULL;
    sr1_search_results *r = NULL;
    struct sr1__buf b;
    uint16_t *last;

    (void)state;
    build(corpus, index, w, "fp16", 64);
    assert_int_equal(sr1__file_read(index, 0, &b), SR1_OK);
    assert_int_equal(sr1__dense_open_memory(&ix, b.data, b.len), SR1_OK);
    last =
        (uint16_t *)(uintptr_t)sr1__dense_vectors(ix) + 39 * sr1__dense_meta(ix)->stride;
    last[0] = w->queries[0] > 0 ? 0xfc00 : 0x7c00;
    assert_int_equal(sr1__search_open_dense_index(&engine, ix, e, NULL), SR1_OK);
    refused(sr1_search_run(engine, &query, 1, 3, &r), SR1_E_CORRUPT,
            "document 39 is not finite");
    sr1_search_free(engine);
    sr1_embedder_free(e);
    sr1__buf_free(&b);
    world_free(w);
}

/* ---- estimates and memory ---- */

static void estimates_are_near(void **state)
{
    struct world *w = world_new(ROWS, DIM, 5);
    const char *corpus = write_corpus("c.jsonl", ROWS);
    sr1_dense_build_options o = options_of("fp16", 64);
    sr1_embedder *e = world_embedder(w);
    sr1_dense_estimate x = {sizeof(x)};

    (void)state;
    w->sleep_us = 20000;
    assert_int_equal(sr1_dense_estimate_get(corpus, e, 0, &o, &x), SR1_OK);
    assert_in_range(x.documents, ROWS - 5, ROWS + 5);
    assert_in_range(x.search_bytes, 64 * (ROWS - 5), 64 * (ROWS + 5));
    assert_true(x.index_bytes > x.search_bytes);
    assert_true(x.embed_seconds > 0.1); /* 16 texts took 20 ms and more */
    assert_int_equal(sr1_dense_estimate_get(corpus, NULL, 768, &o, &x), SR1_OK);
    assert_true(x.embed_seconds == 0.0);
    assert_in_range(x.search_bytes, 1536 * (ROWS - 5), 1536 * (ROWS + 5));
    refused(sr1_dense_estimate_get(corpus, NULL, 0, &o, &x), SR1_E_INVALID, "dim 0");
    sr1_embedder_free(e);
    world_free(w);
}

/* Rows are stored unpacked from their corpus: what that was packed with is no matter. */
static void a_packed_corpus_is_estimated_alike(void **state)
{
    const char *corpus = write_corpus("c.jsonl", ROWS);
    sr1_dense_build_options o = options_of("fp16", 64);
    sr1_dense_estimate plain = {sizeof(plain)};
    sr1_dense_estimate packed = {sizeof(packed)};
    struct sr1__buf text;
    size_t room;
    char *small;

    (void)state;
    assert_int_equal(sr1__file_read(corpus, 0, &text), SR1_OK);
    room = ZSTD_compressBound(text.len);
    small = malloc(room);
    room = ZSTD_compress(small, room, text.data, text.len, 19);
    assert_int_equal(sr1_dense_estimate_get(corpus, NULL, DIM, &o, &plain), SR1_OK);
    assert_int_equal(sr1_dense_estimate_get(scratch_file("c.zst", small, room), NULL, DIM,
                                            &o, &packed),
                     SR1_OK);
    assert_int_equal(packed.documents, plain.documents);
    assert_in_range(packed.index_bytes, plain.index_bytes - plain.index_bytes / 50,
                    plain.index_bytes + plain.index_bytes / 50);
    free(small);
    sr1__buf_free(&text);
}

/* From nothing, on top of what an attempt before left, and asked. */
static sr1_status everything(void *arg)
{
    struct world *w = arg;
    const sr1_embedder_ops ops = {
        .struct_size = sizeof(ops), .name = "w", .embed = embed, .dim = (int32_t)w->dim};
    sr1_dense_build_options o = options_of("int8", 16);
    const char *corpus = scratch_path("t.jsonl");
    const char *index = scratch_path("t.idx");
    const char *query = "q0";
    sr1_embedder *e = NULL;
    sr1_search *engine = NULL;
    sr1_search_results *r = NULL;
    sr1_dense_options run;
    sr1_status status;

    sr1_dense_options_init(&run);
    run.threads = 1;
    status = sr1_embedder_new(&e, &ops, w);
    if (status == SR1_OK)
        status = sr1_dense_build(corpus, index, e, &o, NULL, NULL);
    if (status == SR1_OK)
        status = sr1_search_open_dense(&engine, index, e, &run);
    if (status == SR1_OK)
        status = sr1_search_run(engine, &query, 1, 3, &r);
    sr1_search_results_free(r);
    sr1_search_free(engine);
    sr1_embedder_free(e);
    return status;
}

static sr1_status import_all(void *arg)
{
    (void)arg;
    return sr1_dense_import(scratch_path("t.jsonl"), scratch_path("t.memmap"), DIM,
                            scratch_path("ti.idx"), NULL, NULL, NULL);
}

static void every_allocation_may_fail(void **state)
{
    struct world *w = world_new(40, DIM, 5);

    (void)state;
    write_corpus("t.jsonl", 40);
    scratch_file("t.memmap", w->rows, 40 * DIM * sizeof(float));
    torture(everything, w);
    torture(import_all, NULL);
    world_free(w);
}

/* Texts and vectors of a batch, not of the corpus. */
static void memory_of_a_build_is_bounded(void **state)
{
    struct world *w = world_new(4, 512, 5);
    struct sr1__buf b;
    const char *corpus;
    char *text = malloc(2001);
    int64_t before;

    (void)state;
    memset(text, 'x', 2000);
    text[2000] = '\0';
    sr1__buf_init(&b, 0);
    for (size_t i = 0; i < 20000; i++)
        sr1__buf_fmt(&b, "{\"id\": %zu, \"contents\": \"d%zu %s\"}\n", i, i % 4, text);
    corpus = scratch_file("big.jsonl", b.data, b.len);
    sr1__buf_free(&b);
    free(text);
    before = sr1__peak_rss_bytes();
    build(corpus, scratch_path("big.idx"), w, "fp32", 256);
    before = sr1__peak_rss_bytes() - before;
#ifndef SANITIZED
    /* 40 MB of vectors and 40 MB of text; what is mapped at the end may be resident */
    assert_true(before < (int64_t)64 << 20);
#endif
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_of_a_build_is_bounded),
        cmocka_unit_test(hits_are_those_of_sums_in_double),
        cmocka_unit_test(info_tells_what_is_there),
        cmocka_unit_test(threads_and_batches_change_nothing),
        cmocka_unit_test(threads_may_ask_one_engine),
        cmocka_unit_test(nothing_but_ties),
        cmocka_unit_test(smaller_types_keep_the_best_ten),
        cmocka_unit_test(imported_vectors_are_those_of_a_build),
        cmocka_unit_test(imports_that_do_not_fit_are_refused),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(markup_is_cut_before_embedding),
        cmocka_unit_test(a_build_goes_on_after_the_last_batch),
        cmocka_unit_test(vectors_of_something_else_are_not_used),
        cmocka_unit_test(vectors_made_otherwise_are_not_used),
        cmocka_unit_test(queries_are_embedded_as_documents_were),
        cmocka_unit_test(the_first_version_is_read),
        cmocka_unit_test(a_file_that_is_no_dense_index_stays),
        cmocka_unit_test(a_file_in_the_place_of_the_part_stays),
        cmocka_unit_test(progress_tells_and_stops),
        cmocka_unit_test(a_kill_leaves_the_old_index_whole),
        cmocka_unit_test(one_builds_at_a_time),
        cmocka_unit_test(a_lock_that_fails_is_an_error),
        cmocka_unit_test(every_changed_byte_is_found),
        cmocka_unit_test(scores_that_are_not_finite_are_damage),
        cmocka_unit_test(a_score_too_low_to_matter_is_damage),
        cmocka_unit_test(estimates_are_near),
        cmocka_unit_test(a_packed_corpus_is_estimated_alike),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
