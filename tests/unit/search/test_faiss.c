/* FAISS indexes: those of the Python package give what FAISS itself answers, ours are
 * read again and find what comparing with every vector finds, and damaged ones do no
 * harm. With the argument "missing": where the bridge is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "retrieval/search/embed.h"
#include "retrieval/search/faiss_bridge.h"
#include "retrieval/search/faiss_file.h"
#include "retrieval/search/search_engine.h"
#include "search_files.h"
#include "support/files.h"
#include "support/torture.h"

#include <searchr1/ext/dense.h>
#include <searchr1/ext/faiss.h>

#define DIM 8
#define VECTORS 40
#define QUERIES 6
#define TOP_K 10

static json_t *golden; /* answers.json */
static const char *query_names[QUERIES] = {"q0", "q1", "q2", "q3", "q4", "q5"};

/* ---- what is searched ---- */

static char *golden_path(const char *name)
{
    return test_source_path("tests/golden/faiss", name);
}

/* "q3" becomes the golden query 3. */
static sr1_status embed(void *self, const char *const *texts, size_t n, int32_t kind,
                        float *out)
{
    (void)self;
    assert_int_equal(kind, SR1_EMBED_QUERY);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(json_object_get(golden, "queries"),
                                         (size_t)(texts[i][1] - '0'));

        for (size_t k = 0; k < DIM; k++)
            out[i * DIM + k] = (float)json_real_value(json_array_get(v, k));
    }
    return SR1_OK;
}

static sr1_status embedder_open(sr1_embedder **out, int32_t dim)
{
    const sr1_embedder_ops ops = {sizeof(ops), "golden", embed, NULL, dim, 0};

    return sr1__embedder_new_builtin(out, &ops, "golden", NULL);
}

/* A corpus of n rows "d0", "d1", ...; one a name. */
static const char *make_corpus(const char *name, int n)
{
    static char text[VECTORS * 64], paths[8][512];
    static int made;
    size_t at = 0;

    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "{\"id\": \"d%d\", \"contents\": \"text %d\"}\n", i, i);
    return strcpy(paths[made++ % 8], scratch_file(name, text, at));
}

static sr1_status engine_open(sr1_search **out, const char *index, const char *corpus,
                              int32_t nprobe, int32_t ef_search)
{
    sr1_faiss_options o = {sizeof(o), nprobe, ef_search};
    sr1_embedder *e = NULL;
    sr1_status st = embedder_open(&e, DIM);

    if (st == SR1_OK)
        st = sr1_search_open_faiss(out, index, corpus, e, &o);
    sr1_embedder_free(e);
    return st;
}

static int no_bridge(void)
{
    const struct sr1__faiss_table *table = NULL;

    return sr1__faiss_bridge(&table) != SR1_OK;
}

static sr1_search *open_engine(const char *index, const char *corpus, int32_t nprobe,
                               int32_t ef_search)
{
    sr1_search *e = NULL;

    if (engine_open(&e, index, corpus, nprobe, ef_search) != SR1_OK)
        fail_msg("%s: %s", index, sr1_last_error());
    return e;
}

/* ---- FAISS's own answers ---- */

/* The recorded score of a document, or NAN. */
static double recorded(const json_t *answer, int64_t id)
{
    for (size_t k = 0; k < json_array_size(json_array_get(answer, 0)); k++)
        if (json_integer_value(json_array_get(json_array_get(answer, 0), k)) == id)
            return json_real_value(json_array_get(json_array_get(answer, 1), k));
    return NAN;
}

/* Equal scores may change places. */
static void check_answer(const char *name, const sr1_search_results *found, size_t q,
                         const json_t *answer)
{
    size_t n = json_array_size(json_array_get(answer, 0));

    if ((size_t)sr1_search_results_hit_count(found, q) != n)
        fail_msg("%s, query %zu: %d hits, not %zu", name, q,
                 (int)sr1_search_results_hit_count(found, q), n);
    for (size_t k = 0; k < n; k++) {
        sr1_search_hit hit = {sizeof(hit)};
        double score = json_real_value(json_array_get(json_array_get(answer, 1), k));
        double other;

        assert_int_equal(sr1_search_results_hit(found, q, (int32_t)k, &hit), SR1_OK);
        other = recorded(answer, atoll(hit.id + 1));
        if (!(fabs(hit.score - score) < 1e-5) ||
            (!(fabs(hit.score - other) < 1e-5) &&
             fabs(hit.score - json_real_value(json_array_get(json_array_get(answer, 1),
                                                             n - 1))) > 1e-5))
            fail_msg("%s, query %zu, hit %zu: %s %.7f, FAISS says %.7f", name, q, k,
                     hit.id, hit.score, score);
    }
}

static void check_case(const json_t *c, const char *corpus)
{
    const char *name = json_string_value(json_object_get(c, "file"));
    char *path = golden_path(name);
    sr1_search *e = open_engine(
        path, corpus, (int32_t)json_integer_value(json_object_get(c, "nprobe")),
        (int32_t)json_integer_value(json_object_get(c, "ef_search")));
    sr1_search_results *found = NULL;

    if (sr1_search_run(e, query_names, QUERIES, TOP_K, &found) != SR1_OK)
        fail_msg("%s: %s", name, sr1_last_error());
    for (size_t q = 0; q < QUERIES; q++)
        check_answer(name, found, q, json_array_get(json_object_get(c, "answers"), q));
    sr1_search_results_free(found);
    sr1_search_free(e);
    free(path);
}

static void indexes_of_the_python_package_answer_as_faiss(void **state)
{
    const char *corpus = make_corpus("corpus.jsonl", VECTORS);
    size_t i;
    json_t *c;

    (void)state;
    if (no_bridge())
        skip();
    assert_true(json_array_size(json_object_get(golden, "cases")) > 20);
    json_array_foreach(json_object_get(golden, "cases"), i, c) check_case(c, corpus);
}

/* Caches tell engines apart by it. */
static void each_index_and_tuning_has_an_origin_of_its_own(void **state)
{
    static const struct {
        const char *index;
        int32_t nprobe;
    } engines[] = {{"IVF4-Flat.l2.faiss", 1},
                   {"IVF4-Flat.l2.faiss", 2},
                   {"IVF4-Flat.ip.faiss", 1},
                   {"IVF4-SQfp16.l2.faiss", 1}};
    const char *corpus = make_corpus("corpus.jsonl", VECTORS);
    uint64_t origin[4];

    (void)state;
    if (no_bridge())
        skip();
    for (size_t i = 0; i < 4; i++) {
        char *path = golden_path(engines[i].index);
        sr1_search *e = open_engine(path, corpus, engines[i].nprobe, 0);

        origin[i] = sr1__search_origin(e);
        assert_true(origin[i] != 0);
        for (size_t k = 0; k < i; k++)
            assert_true(origin[k] != origin[i]);
        sr1_search_free(e);
        free(path);
    }
}

/* The index is read whole when it is opened: what becomes of its file changes nothing.
 * Documents are read when they are found. */
static void files_changed_under_it(void **state)
{
    const char *corpus = make_corpus("changed.jsonl", VECTORS);
    char *golden_file = golden_path("Flat.ip.faiss");
    const char *queries[] = {"q0", "q1"};
    sr1_search_results *found[2] = {NULL, NULL};
    struct sr1__buf b;
    sr1_search *e;
    char *path;

    (void)state;
    if (no_bridge())
        skip();
    assert_int_equal(sr1__file_read(golden_file, 0, &b), SR1_OK);
    path = strdup(scratch_file("changed.faiss", b.data, b.len));
    e = open_engine(path, corpus, 0, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sr1_search_run(e, queries, 1, TOP_K, &found[i]), SR1_OK);
        assert_int_equal(truncate(path, 0), 0);
    }
    for (int32_t k = 0; k < TOP_K; k++) {
        sr1_search_hit before = {sizeof(before)};
        sr1_search_hit after = {sizeof(after)};

        assert_int_equal(sr1_search_results_hit(found[0], 0, k, &before), SR1_OK);
        assert_int_equal(sr1_search_results_hit(found[1], 0, k, &after), SR1_OK);
        assert_string_equal(after.id, before.id);
        assert_true(after.score == before.score);
    }
    sr1_search_results_free(found[0]);
    sr1_search_results_free(found[1]);
    assert_int_equal(truncate(corpus, 30), 0);
    found[0] = NULL;
    assert_int_equal(sr1_search_run(e, queries + 1, 1, VECTORS, &found[0]),
                     SR1_E_CORRUPT);
    assert_non_null(strstr(sr1_last_error(), "was changed in place"));
    sr1_search_free(e);
    sr1__buf_free(&b);
    free(golden_file);
    free(path);
}

static void other_kinds_are_refused(void **state)
{
    size_t i;
    json_t *name;

    (void)state;
    assert_true(json_array_size(json_object_get(golden, "refused")) > 2);
    json_array_foreach(json_object_get(golden, "refused"), i, name)
    {
        char *path = golden_path(json_string_value(name));
        struct sr1__faiss_meta meta;
        struct sr1__map m;

        assert_int_equal(sr1__map_open(&m, path), SR1_OK);
        assert_int_equal(sr1__faiss_check(m.data, m.size, &meta), SR1_E_UNSUPPORTED);
        sr1__map_close(&m);
        free(path);
    }
}

/* ---- indexes of ours ---- */

static const float *base_vectors(struct sr1__map *m)
{
    char *path = golden_path("vectors.f32");

    assert_int_equal(sr1__map_open(m, path), SR1_OK);
    assert_int_equal(m->size, VECTORS * DIM * sizeof(float));
    free(path);
    return (const float *)(const void *)m->data;
}

/* The score of document d for query q, from all numbers. */
static double exact(const float *base, size_t q, size_t d, int l2)
{
    float v[DIM];
    double sum = 0.0;

    (void)embed(NULL, &query_names[q], 1, SR1_EMBED_QUERY, v);
    for (size_t k = 0; k < DIM; k++) {
        double b = base[d * DIM + k];

        sum += l2 ? -(v[k] - b) * (v[k] - b) : v[k] * b;
    }
    return sum;
}

static int documents_above(const float *base, size_t q, int l2, double score)
{
    int n = 0;

    for (size_t d = 0; d < VECTORS; d++)
        n += exact(base, q, d, l2) > score;
    return n;
}

/* Every hit's score is that of its vector within `off`, and, where nothing is lost, the
 * hits are the best. */
static void check_built(const char *path, const char *corpus, int l2, double off)
{
    struct sr1__map m;
    const float *base = base_vectors(&m);
    int is_ivf = strstr(path, "IVF") != NULL, is_graph = strstr(path, "HNSW") != NULL;
    sr1_search *e = open_engine(path, corpus, is_ivf ? 4 : 0, is_graph ? 64 : 0);
    sr1_search_results *found = NULL;

    assert_int_equal(sr1_search_run(e, query_names, QUERIES, TOP_K, &found), SR1_OK);
    for (size_t q = 0; q < QUERIES; q++) {
        assert_int_equal(sr1_search_results_hit_count(found, q), TOP_K);
        for (int32_t k = 0; k < TOP_K; k++) {
            sr1_search_hit hit = {sizeof(hit)};
            double want;

            (void)sr1_search_results_hit(found, q, k, &hit);
            want = exact(base, q, (size_t)atoi(hit.id + 1), l2);
            if (fabs(hit.score - want) > off)
                fail_msg("%s, query %zu: %s scores %g, not %g", path, q, hit.id,
                         hit.score, want);
            if (off < 1e-4)
                assert_int_equal(documents_above(base, q, l2, want), k);
        }
    }
    sr1_search_results_free(found);
    sr1_search_free(e);
    sr1__map_close(&m);
}

static void what_is_built_is_read_again(void **state)
{
    static const struct {
        const char *factory;
        double off;
    } rows[] = {
        {"Flat", 1e-5},      {"IVF4,Flat", 1e-5}, {"HNSW8", 1e-5},
        {"SQ8", 0.2},        {"IVF2,SQ8", 0.2},   {"PQ8x5", 1.5},
        {"IVF2,PQ8x5", 1.5}, {"SQfp16", 0.01},    {"HNSW8,SQ8", 0.2},
    };
    const char *corpus = make_corpus("built.jsonl", VECTORS);
    char *vectors = golden_path("vectors.f32");

    (void)state;
    if (no_bridge())
        skip();
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        const char *factory = rows[i / 2].factory;
        sr1_faiss_build_options o;
        char path[512];

        snprintf(path, sizeof path, "%s", scratch_path(factory));
        sr1_faiss_build_options_init(&o);
        o.dim = DIM;
        o.metric = i % 2 ? "l2" : "inner_product";
        o.threads = 1;
        if (sr1_faiss_build(vectors, path, factory, &o, NULL, NULL) != SR1_OK)
            fail_msg("%s", sr1_last_error());
        check_built(path, corpus, i % 2, rows[i / 2].off);
    }
    free(vectors);
}

/* The same vectors by way of a dense index, which has the documents too. */
static void a_dense_index_brings_vectors_and_documents(void **state)
{
    const char *corpus = make_corpus("dense.jsonl", VECTORS);
    char *vectors = golden_path("vectors.f32");
    sr1_faiss_build_options o;
    char dense[512], path[512];

    (void)state;
    if (no_bridge())
        skip();
    snprintf(dense, sizeof dense, "%s", scratch_path("dense.idx"));
    snprintf(path, sizeof path, "%s", scratch_path("dense-IVF.faiss"));
    if (sr1_dense_import(corpus, vectors, DIM, dense, NULL, NULL, NULL) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    assert_int_equal(sr1_faiss_build(dense, dense, "IVF4,Flat", NULL, NULL, NULL),
                     SR1_E_INVALID);
    if (sr1_faiss_build(dense, path, "IVF4,Flat", NULL, NULL, NULL) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    check_built(path, dense, 0, 1e-5);
    assert_int_equal(sr1_faiss_build(vectors, dense, "Flat", NULL, NULL, NULL),
                     SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "exists and is no FAISS index"));
    sr1_faiss_build_options_init(&o);
    o.dim = DIM + 1;
    assert_int_equal(sr1_faiss_build(dense, path, "Flat", &o, NULL, NULL), SR1_E_INVALID);
    free(vectors);
}

static int32_t stop_at_end(void *user, uint64_t done, uint64_t total)
{
    uint64_t *seen = user;

    seen[0]++;
    seen[1] = done;
    return done == total;
}

static void a_build_that_fails_leaves_the_old_file(void **state)
{
    char *vectors = golden_path("vectors.f32");
    sr1_faiss_build_options o;
    char path[512];
    uint64_t seen[2] = {0, 0};
    struct sr1__buf b;

    (void)state;
    if (no_bridge())
        skip();
    snprintf(path, sizeof path, "%s", scratch_file("old.faiss", "old", 0));
    sr1_faiss_build_options_init(&o);
    o.force = 1;
    assert_int_equal(sr1_faiss_build(vectors, path, "Flat", &o, NULL, NULL),
                     SR1_E_INVALID); /* no dim */
    o.dim = 7;
    assert_int_equal(sr1_faiss_build(vectors, path, "Flat", &o, NULL, NULL),
                     SR1_E_INVALID);
    o.dim = DIM;
    o.train_sample = 20; /* every other one */
    assert_int_equal(sr1_faiss_build(vectors, path, "IVF4,Flat", &o, stop_at_end, seen),
                     SR1_E_CANCELLED);
    assert_true(seen[0] == 2 && seen[1] == VECTORS);
    assert_int_equal(sr1_faiss_build(vectors, path, "Nonsense", &o, NULL, NULL),
                     SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "Nonsense"));
    assert_int_equal(sr1_faiss_build(vectors, path, "PCA4,Flat", &o, NULL, NULL),
                     SR1_E_INVALID);
    assert_int_equal(sr1_faiss_build(vectors, path, "IVF64,Flat", &o, NULL, NULL),
                     SR1_E_INVALID); /* more lists than vectors */
    o.metric = "cosine";
    assert_int_equal(sr1_faiss_build(vectors, path, "Flat", &o, NULL, NULL),
                     SR1_E_INVALID);
    o.metric = NULL;
    assert_int_equal(
        sr1_faiss_build(vectors, scratch_path("no/folder"), "Flat", &o, NULL, NULL),
        SR1_E_IO);
    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    assert_string_equal(b.data, "old");
    sr1__buf_free(&b);
    free(vectors);
}

/* ---- what does not fit ---- */

static void what_does_not_fit_is_refused(void **state)
{
    const char *corpus = make_corpus("fits.jsonl", VECTORS);
    const char *short_corpus = make_corpus("short.jsonl", VECTORS - 1);
    char *flat = golden_path("Flat.ip.faiss");
    sr1_embedder *wide = NULL;
    sr1_search *e = NULL;

    (void)state;
    if (no_bridge())
        skip();
    assert_int_equal(engine_open(&e, flat, short_corpus, 0, 0), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "39 documents"));
    assert_int_equal(engine_open(&e, flat, corpus, 3, 0), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "not IVF"));
    assert_int_equal(engine_open(&e, flat, corpus, 0, 3), SR1_E_INVALID);
    assert_int_equal(engine_open(&e, flat, corpus, -1, 0), SR1_E_INVALID);
    assert_int_equal(engine_open(&e, scratch_path("none"), corpus, 0, 0), SR1_E_IO);
    assert_int_equal(engine_open(&e, flat, scratch_path("none"), 0, 0), SR1_E_IO);
    assert_int_equal(engine_open(&e, corpus, corpus, 0, 0), SR1_E_UNSUPPORTED);
    assert_int_equal(embedder_open(&wide, DIM + 1), SR1_OK);
    assert_int_equal(sr1_search_open_faiss(&e, flat, corpus, wide, NULL), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "'golden' of 9"));
    sr1_embedder_free(wide);
    assert_int_equal(sr1_search_open_faiss(&e, flat, corpus, NULL, NULL), SR1_E_INVALID);
    assert_null(e);
    free(flat);
}

/* ---- damage ---- */

/* What passes the check goes through FAISS: reading and a search. */
static void use(const struct sr1__faiss_table *table, const void *bytes, size_t n)
{
    static float queries[QUERIES * DIM], distances[QUERIES * TOP_K];
    static int64_t ids[QUERIES * TOP_K];
    struct sr1__faiss_error error;
    struct sr1__faiss_meta meta;
    sr1__faiss_index *index = NULL;

    if (sr1__faiss_check(bytes, n, &meta) != SR1_OK || meta.dim != DIM || table == NULL ||
        table->read(&index, bytes, n, &error) != SR1_OK)
        return;
    (void)embed(NULL, query_names, QUERIES, SR1_EMBED_QUERY, queries);
    (void)table->search(index, queries, QUERIES, TOP_K, distances, ids, &error);
    table->release(index);
}

static void hurt(const struct sr1__faiss_table *table, const char *name)
{
    char *path = golden_path(name);
    struct sr1__faiss_meta meta;
    struct sr1__buf b;

    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    for (size_t n = 0; n < b.len; n++)
        if (sr1__faiss_check(b.data, n, &meta) == SR1_OK)
            fail_msg("%s cut to %zu bytes was taken", name, n);
    for (size_t i = 0; i < b.len; i += i < 160 ? 1 : 2) {
        static const unsigned char flips[] = {0x01, 0x80, 0xFF};
        unsigned char before = (unsigned char)b.data[i];

        for (size_t k = 0; k < sizeof flips; k++) {
            b.data[i] = (char)(before ^ flips[k]);
            use(table, b.data, b.len);
        }
        b.data[i] = (char)before;
    }
    sr1__buf_free(&b);
    free(path);
}

static void damage_does_no_harm(void **state)
{
    const struct sr1__faiss_table *table = NULL;
    size_t i;
    json_t *c;

    (void)state;
    if (sr1__faiss_bridge(&table) == SR1_OK)
        (void)table->threads(1);
    json_array_foreach(json_object_get(golden, "cases"), i, c)
        hurt(table, json_string_value(json_object_get(c, "file")));
}

/* ---- memory, the bridge ---- */

static sr1_status open_and_search(void *arg)
{
    sr1_search *e = NULL;
    sr1_search_results *found = NULL;
    sr1_status st = engine_open(&e, arg, scratch_path("torture.jsonl"), 0, 0);

    if (st == SR1_OK)
        st = sr1_search_run(e, query_names, 2, TOP_K, &found);
    sr1_search_results_free(found);
    sr1_search_free(e);
    return st;
}

static sr1_status build_it(void *arg)
{
    sr1_faiss_build_options o;

    sr1_faiss_build_options_init(&o);
    o.dim = DIM;
    o.train_sample = 20;
    return sr1_faiss_build(arg, scratch_path("torture.faiss"), "IVF4,Flat", &o, NULL,
                           NULL);
}

static void any_allocation_may_fail(void **state)
{
    char *flat = golden_path("Flat.ip.faiss");
    char *vectors = golden_path("vectors.f32");

    (void)state;
    make_corpus("torture.jsonl", VECTORS);
    if (no_bridge())
        skip();
    assert_true(torture(open_and_search, flat) > 10);
    assert_true(torture(build_it, vectors) > 2);
    free(flat);
    free(vectors);
}

static void without_the_bridge_it_says_what_to_install(void **state)
{
    const char *corpus = make_corpus("missing.jsonl", VECTORS);
    char *flat = golden_path("Flat.ip.faiss");
    sr1_search *e = NULL;

    (void)state;
    assert_int_equal(engine_open(&e, flat, corpus, 0, 0), SR1_E_UNSUPPORTED);
    assert_non_null(strstr(sr1_last_error(), "install libfaiss-dev"));
    assert_int_equal(build_it(flat), SR1_E_UNSUPPORTED);
    assert_null(e);
    free(flat);
}

static int set_up(void **state)
{
    char *path = golden_path("answers.json");
    int failed = scratch_make(state) != 0 ||
                 sr1__json_load(&golden, path, (size_t)1 << 20) != SR1_OK;

    free(path);
    return failed;
}

static int tear_down(void **state)
{
    json_decref(golden);
    return scratch_remove(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(indexes_of_the_python_package_answer_as_faiss),
        cmocka_unit_test(each_index_and_tuning_has_an_origin_of_its_own),
        cmocka_unit_test(files_changed_under_it),
        cmocka_unit_test(other_kinds_are_refused),
        cmocka_unit_test(what_is_built_is_read_again),
        cmocka_unit_test(a_dense_index_brings_vectors_and_documents),
        cmocka_unit_test(a_build_that_fails_leaves_the_old_file),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(damage_does_no_harm),
        cmocka_unit_test(any_allocation_may_fail),
    };
    const struct CMUnitTest missing[] = {
        cmocka_unit_test(without_the_bridge_it_says_what_to_install),
    };

    if (argc > 1 && strcmp(argv[1], "missing") == 0)
        return cmocka_run_group_tests(missing, set_up, tear_down);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
