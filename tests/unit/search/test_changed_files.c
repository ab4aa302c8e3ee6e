/* Indexes and corpora that somebody cuts or writes over while they are served. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "retrieval/search/document_store.h"
#include "support/files.h"

#include <searchr1/search.h>
#include <searchr1/ext/bm25.h>
#include <searchr1/ext/dense.h>
#include <searchr1/ext/embed.h>

#define ROWS 4000
#define DIM 32

/* ---- three kinds of files ---- */

static sr1_status embed(void *self, const char *const *texts, size_t n, int32_t kind,
                        float *out)
{
    (void)self;
    (void)kind;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < DIM; k++)
            out[i * DIM + k] =
                (float)(sr1__hash64(texts[i], strlen(texts[i]), k) % 1000) - 500;
    return SR1_OK;
}

static sr1_embedder *open_embedder(void)
{
    const sr1_embedder_ops ops = {
        .struct_size = sizeof(ops), .name = "hash", .embed = embed, .dim = DIM};
    sr1_embedder *e = NULL;

    assert_int_equal(sr1_embedder_new(&e, &ops, NULL), SR1_OK);
    return e;
}

/* Texts that do not compress well: the files have many pages. */
static void write_corpus(const char *name, int rows, uint64_t seed)
{
    const char *path = scratch_path(name);
    FILE *f = fopen(path, "w");
    struct sr1__rng rng;

    assert_non_null(f);
    sr1__rng_seed(&rng, seed, 1);
    for (int i = 0; i < rows; i++) {
        fprintf(f, "{\"id\": \"%d\", \"contents\": \"common", i);
        for (int w = 0; w < 30; w++)
            fprintf(f, " w%llx", (unsigned long long)(sr1__rng_u64(&rng) % 100000));
        fprintf(f, "\"}\n");
    }
    assert_int_equal(fclose(f), 0);
}

/* Over a file of another kind, too. */
static void build_bm25(const char *corpus, const char *path)
{
    sr1_bm25_build_options o;

    sr1_bm25_build_options_init(&o);
    o.force = 1;
    assert_int_equal(sr1_bm25_build(corpus, path, &o, NULL, NULL), SR1_OK);
}

static void build_dense(const char *corpus, const char *path)
{
    sr1_embedder *e = open_embedder();
    sr1_dense_build_options o;

    sr1_dense_build_options_init(&o);
    o.force = 1;
    assert_int_equal(sr1_dense_build(corpus, path, e, &o, NULL, NULL), SR1_OK);
    sr1_embedder_free(e);
}

static void copy_over(const char *from, const char *to);

static void build_corpus(const char *corpus, const char *path)
{
    copy_over(corpus, path);
}

static void *open_bm25(const char *path)
{
    sr1_search *e = NULL;

    assert_int_equal(sr1_search_open_bm25(&e, path, NULL), SR1_OK);
    return e;
}

static void *open_dense(const char *path)
{
    sr1_embedder *embedder = open_embedder();
    sr1_search *e = NULL;

    assert_int_equal(sr1_search_open_dense(&e, path, embedder, NULL), SR1_OK);
    sr1_embedder_free(embedder);
    return e;
}

static void *open_corpus(const char *path)
{
    struct sr1__document_store *d = NULL;

    assert_int_equal(sr1__document_store_open(&d, path), SR1_OK);
    return d;
}

static sr1_status ask_engine(void *engine)
{
    const char *query = "common w5";
    sr1_search_results *found = NULL;
    sr1_status status = sr1_search_run(engine, &query, 1, 100, &found);

    if (status == SR1_OK)
        assert_true(sr1_search_results_hit_count(found, 0) == 100);
    sr1_search_results_free(found);
    return status;
}

/* Rows that no earlier call has read, and so are in no cache. */
static sr1_status ask_corpus(void *documents)
{
    static uint64_t next;
    sr1_status status = SR1_OK;

    for (uint64_t i = 0; i < 8 && status == SR1_OK; i++) {
        struct sr1__doc *doc = NULL;

        next = (next + 977) % ROWS;
        status = sr1__document_store_get(documents, next, &doc);
        sr1__doc_release(doc);
    }
    return status;
}

static void close_engine(void *engine)
{
    sr1_search_free(engine);
}

static void close_corpus(void *documents)
{
    sr1__document_store_close(documents);
}

static const struct kind {
    const char *name;
    void (*build)(const char *corpus, const char *path);
    void *(*open)(const char *path);
    sr1_status (*ask)(void *it);
    void (*close)(void *it);
} kinds[] = {{"bm25", build_bm25, open_bm25, ask_engine, close_engine},
             {"dense", build_dense, open_dense, ask_engine, close_engine},
             {"corpus", build_corpus, open_corpus, ask_corpus, close_corpus}};

/* ---- what happens to them ---- */

/* As cp does: the file is emptied and written anew. */
static void copy_over(const char *from, const char *to)
{
    struct sr1__buf b;
    FILE *f;

    assert_int_equal(sr1__file_read(from, 0, &b), SR1_OK);
    f = fopen(to, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(b.data, 1, b.len, f), b.len);
    assert_int_equal(fclose(f), 0);
    sr1__buf_free(&b);
}

static void cut_to_nothing(const char *path, const char *other)
{
    (void)other;
    assert_int_equal(truncate(path, 0), 0);
}

static void cut_in_half(const char *path, const char *other)
{
    struct stat st;

    (void)other;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size / 2), 0);
}

static void copy_other_over(const char *path, const char *other)
{
    copy_over(other, path);
}

static void (*const changes[])(const char *path, const char *other) = {
    cut_to_nothing, cut_in_half, copy_other_over};

static void make_old(const char *path)
{
    const struct timespec old[2] = {{1000000, 0}, {1000000, 0}};

    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
}

static void a_changed_file_is_an_error(void **state)
{
    (void)state;
    write_corpus("rows", ROWS, 1);
    write_corpus("fewer", 50, 2);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
            const char *path = scratch_path("served");
            const char *other = scratch_path("other");
            void *it;

            kinds[k].build(scratch_path("rows"), path);
            kinds[k].build(scratch_path("fewer"), other);
            make_old(path);
            it = kinds[k].open(path);
            if (kinds[k].ask(it) != SR1_OK)
                fail_msg("%s: %s", kinds[k].name, sr1_last_error());
            changes[c](path, other);
            for (int again = 0; again < 3; again++) {
                assert_int_equal(kinds[k].ask(it), SR1_E_CORRUPT);
                if (strstr(sr1_last_error(), "was changed in place") == NULL)
                    fail_msg("%s, change %zu: %s", kinds[k].name, c, sr1_last_error());
            }
            kinds[k].close(it);
        }
}

static void a_new_file_in_its_place_changes_nothing(void **state)
{
    (void)state;
    write_corpus("rows", ROWS, 1);
    write_corpus("fewer", 50, 2);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const char *path = scratch_path("served");
        const char *other = scratch_path("other");
        void *it;

        kinds[k].build(scratch_path("rows"), path);
        kinds[k].build(scratch_path("fewer"), other);
        it = kinds[k].open(path);
        assert_int_equal(rename(other, path), 0);
        for (int again = 0; again < 3; again++)
            if (kinds[k].ask(it) != SR1_OK)
                fail_msg("%s: %s", kinds[k].name, sr1_last_error());
        kinds[k].close(it);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_file_is_an_error),
        cmocka_unit_test(a_new_file_in_its_place_changes_nothing),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
