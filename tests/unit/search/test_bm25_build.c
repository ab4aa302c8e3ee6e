/* test_bm25_build.c - builds in bounded memory: the same bytes whatever memory and
 * threads, full disks, killed builds. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "retrieval/search/segment.h"
#include "../../support/files.h"

#include <searchr1/ext/bm25.h>
#include <searchr1/ext/engines.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

#define KILLS_DEFAULT 12
#define DOCUMENTS 8000

/* scratch_path for good; there are few of them. */
static const char *path_of(const char *name)
{
    static char paths[32][512];
    const char *path = scratch_path(name);
    size_t i = 0;

    while (paths[i][0] != '\0' && strcmp(paths[i], path) != 0)
        assert_true(++i < sizeof(paths) / sizeof(paths[0]));
    snprintf(paths[i], sizeof(paths[i]), "%s", path);
    return paths[i];
}

/* Words of a vocabulary that grows, so that runs differ in their terms. */
static const char *make_corpus(const char *name, uint32_t documents, uint64_t seed)
{
    const char *path = path_of(name);
    FILE *f = fopen(path, "w");
    struct sr1__rng rng;

    assert_non_null(f);
    sr1__rng_seed(&rng, seed, 0);
    for (uint32_t d = 0; d < documents; d++) {
        fprintf(f, "%s{\"id\": %u, \"contents\": \"Title %u\\neverywhere ",
                d % 100 == 7 ? "\n" : "", d, d);
        for (int i = 0; i < 60; i++)
            fprintf(f, "w%ux ",
                    (unsigned)sr1__rng_below(&rng, 1 + sr1__rng_below(&rng, 10 + d)));
        fprintf(f, "\"}\n");
    }
    assert_int_equal(fclose(f), 0);
    return path;
}

static sr1_status build(const char *corpus, const char *index, uint64_t memory,
                        int32_t threads)
{
    sr1_bm25_build_options o;

    sr1_bm25_build_options_init(&o);
    o.memory_bytes = memory;
    o.threads = threads;
    o.text_format = NULL;
    return sr1_bm25_build(corpus, index, &o, NULL, NULL);
}

static void an_index_never_replaces_its_corpus(void **state)
{
    static const char row[] = "{\"id\": \"1\", \"contents\": \"Paris\"}\n";
    const char *corpus = scratch_file("kept.jsonl", row, 0);
    const char *linked = scratch_path("linked.idx");
    struct sr1__buf b;

    (void)state;
    assert_int_equal(link(corpus, linked), 0);
    assert_int_equal(build(corpus, corpus, 0, 1), SR1_E_INVALID);
    assert_int_equal(build(corpus, linked, 0, 1), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "linked.idx is the same file as the input"));
    assert_int_equal(sr1__file_read(corpus, 0, &b), SR1_OK);
    assert_string_equal(sr1__buf_cstr(&b), row);
    sr1__buf_free(&b);
}

/* Only what an index may be the next one of is replaced unasked. */
static void a_file_that_is_no_index_stays(void **state)
{
    const char *corpus = make_corpus("place.jsonl", 3, 1);
    const char *mine = scratch_file("mine.txt", "my own notes\n", 0);
    const char *empty = scratch_file("empty.idx", "", 0);
    const char *faiss = scratch_file("faiss.idx", "IxFI\1\1\1\1", 0);
    sr1_bm25_build_options o;
    struct sr1__buf b;

    (void)state;
    assert_null(sr1_index_kind(mine));
    assert_null(sr1_index_kind(scratch_path("none.idx")));
    assert_string_equal(sr1_index_kind(faiss), "FAISS");
    assert_int_equal(build(corpus, mine, 0, 1), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "mine.txt exists and is no BM25 index"));
    assert_int_equal(build(corpus, faiss, 0, 1), SR1_E_INVALID);
    assert_int_equal(build(corpus, scratch_path("."), 0, 1), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "is not a file"));
    assert_int_equal(sr1__file_read(mine, 0, &b), SR1_OK);
    assert_string_equal(sr1__buf_cstr(&b), "my own notes\n");
    sr1__buf_free(&b);
    assert_int_equal(build(corpus, empty, 0, 1), SR1_OK);
    assert_int_equal(build(corpus, empty, 0, 1), SR1_OK); /* an index by now */
    sr1_bm25_build_options_init(&o);
    o.force = 1;
    assert_int_equal(sr1_bm25_build(corpus, mine, &o, NULL, NULL), SR1_OK);
    assert_string_equal(sr1_index_kind(mine), "BM25");
}

static char said[512];

static void on_log(void *user, int32_t level, const char *text)
{
    (void)user;
    (void)level;
    snprintf(said, sizeof(said), "%s", text);
}

static void ids_that_come_twice_are_told(void **state)
{
    static const char rows[] = "{\"id\": \"1\", \"contents\": \"Paris\"}\n"
                               "{\"id\": \"2\", \"contents\": \"Rome\"}\n"
                               "{\"id\": 1, \"contents\": \"Paris \\u0041\"}\n"
                               "{\"id\": \"3\", \"contents\": \"Oslo\"}\n"
                               "{\"id\": \"1\", \"contents\": \"Bern\", \"more\": [1]}\n";
    const char *corpus = scratch_file("twice.jsonl", rows, 0);

    (void)state;
    sr1_log_set(on_log, NULL);
    assert_int_equal(build(corpus, scratch_path("twice.idx"), 0, 1), SR1_OK);
    assert_non_null(strstr(said, "twice.jsonl: 2 of 5 rows have the id of an earlier row "
                                 "(row 3 that of row 1)"));
    said[0] = '\0';
    assert_int_equal(
        build(scratch_file("once.jsonl", rows, (size_t)(strchr(rows, '\n') - rows)),
              scratch_path("once.idx"), 0, 1),
        SR1_OK);
    assert_string_equal(said, "");
    sr1_log_set(NULL, NULL);
}

static struct sr1__buf bytes_of(const char *path)
{
    struct sr1__buf b;

    assert_int_equal(sr1__file_read(path, 0, &b), SR1_OK);
    return b;
}

static int same(const char *a, const char *b)
{
    struct sr1__buf x = bytes_of(a);
    struct sr1__buf y = bytes_of(b);
    int is = x.len == y.len && memcmp(x.data, y.data, x.len) == 0;

    sr1__buf_free(&x);
    sr1__buf_free(&y);
    return is;
}

static void assert_same(const char *a, const char *b)
{
    if (!same(a, b))
        fail_msg("%s and %s differ", a, b);
}

/* Names in the scratch folder that begin with `index` and go on. */
static size_t leftovers(const char *index)
{
    char **names = NULL;
    size_t n = 0;
    size_t found = 0;

    assert_int_equal(sr1__dir_list(scratch_dir, &names, &n), SR1_OK);
    for (size_t i = 0; i < n; i++)
        found += strncmp(names[i], index, strlen(index)) == 0 &&
                 names[i][strlen(index)] != '\0';
    sr1__dir_list_free(names, n);
    return found;
}

/* 1 MiB of memory makes several runs of this corpus, and 90 threads are more than it has
 * items. */
static void memory_and_threads_change_nothing(void **state)
{
    static const struct {
        uint64_t memory;
        int32_t threads;
    } ways[] = {{1, 1}, {1, 3}, {4 << 20, 2}, {0, 0}, {0, 90}};
    const char *corpus = make_corpus("corpus.jsonl", DOCUMENTS, 1);

    (void)state;
    assert_int_equal(build(corpus, path_of("want.idx"), 0, 1), SR1_OK);
    assert_int_equal(sr1_bm25_verify(path_of("want.idx")), SR1_OK);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        assert_int_equal(
            build(corpus, path_of("got.idx"), ways[i].memory, ways[i].threads), SR1_OK);
        assert_same(path_of("want.idx"), path_of("got.idx"));
    }
    assert_int_equal(leftovers("got.idx"), 0);
}

/* In a process of its own: what the build adds to the largest resident size. */
static int64_t memory_of_build(const char *corpus, uint64_t memory)
{
    int64_t grown = -1;
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        int64_t before = sr1__rss_bytes();

        if (build(corpus, path_of("small.idx"), memory, 1) == SR1_OK)
            grown = sr1__peak_rss_bytes() - before;
        if (write(ends[1], &grown, sizeof(grown)) != sizeof(grown))
            _exit(1);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &grown, sizeof(grown)), sizeof(grown));
    close(ends[0]);
    waitpid(child, NULL, 0);
    return grown;
}

/* A corpus of 20 MB, whose postings take more than 10 MB in memory, with 1 MiB for them.
 */
static void a_corpus_may_be_larger_than_memory(void **state)
{
    const char *corpus = make_corpus("large.jsonl", 50000, 2);
    int64_t tight = memory_of_build(corpus, 1 << 20);
    int64_t ample = memory_of_build(corpus, (uint64_t)1 << 30);

    (void)state;
    print_message("grown by %.1f MB with 1 MiB, %.1f MB with 1 GiB\n",
                  1e-6 * (double)tight, 1e-6 * (double)ample);
    assert_true(tight > 0 && ample > 0);
#ifndef SANITIZED
    assert_true(tight < 28 << 20);
    assert_true(ample > tight + (6 << 20));
#endif
    unlink(corpus);
}

/* What a run took is given back, and its sorting is counted before: else the memory
 * allowed would shrink from run to run. */
static void a_spilled_segment_keeps_nothing(void **state)
{
    struct sr1__inverted_batch batch;
    struct sr1__inverter *v = NULL;
    struct sr1__segment *s = NULL;
    struct sr1__spool *out = NULL;
    uint32_t length;
    uint64_t before;

    (void)state;
    sr1__inverted_batch_init(&batch);
    assert_int_equal(sr1__inverter_new(&v, sr1__analyzer_find("plain", NULL)), SR1_OK);
    assert_int_equal(sr1__segment_new(&s), SR1_OK);
    assert_int_equal(sr1__spool_open(&out, path_of("spilled.idx")), SR1_OK);
    for (int i = 0; i < 20000; i++) {
        char word[16];

        assert_int_equal(
            sr1__inverter_add(v, word, (size_t)sprintf(word, "word%d", i), &length),
            SR1_OK);
    }
    assert_int_equal(sr1__inverter_finish(v, &batch), SR1_OK);
    assert_int_equal(sr1__segment_add(s, &batch, 0), SR1_OK);
    before = sr1__segment_bytes(s);
    assert_true(before > 20000 * (36 + 24)); /* a term, and its key when it is sorted */
    assert_int_equal(sr1__segment_spill(s, out), SR1_OK);
    assert_int_equal(sr1__segment_bytes(s), 0);
    assert_int_equal(sr1__segment_add(s, &batch, 20000), SR1_OK); /* and goes on */
    assert_int_equal(sr1__segment_bytes(s), before);
    sr1__spool_close(out);
    sr1__segment_free(s);
    sr1__inverter_free(v);
    sr1__inverted_batch_free(&batch);
}

static void a_full_disk_is_an_error_that_names_the_file(void **state)
{
    static const rlim_t limits[] = {4096, 200000, 400000, 600000};
    const char *corpus = make_corpus("corpus.jsonl", DOCUMENTS, 1);
    struct rlimit old;

    (void)state;
    assert_int_equal(build(corpus, path_of("want.idx"), 0, 1), SR1_OK);
    assert_int_equal(build(corpus, path_of("full.idx"), 0, 1), SR1_OK);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct rlimit now = {limits[i], old.rlim_max};
        sr1_status status;

        assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
        status = build(corpus, path_of("full.idx"), 1, 2);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(status, SR1_E_IO);
        assert_non_null(strstr(sr1_last_error(), "full.idx"));
        assert_same(path_of("want.idx"), path_of("full.idx"));
        assert_int_equal(leftovers("full.idx"), 0);
    }
    signal(SIGXFSZ, SIG_DFL);
}

/* The index of seed 1 stands; builds of seed 2 over it are killed at moments all through
 * their time. */
static void a_killed_build_leaves_the_old_index(void **state)
{
    const char *kills_text = getenv("SR1_KILLS");
    int kills = kills_text != NULL ? atoi(kills_text) : KILLS_DEFAULT;
    const char *first = make_corpus("corpus.jsonl", DOCUMENTS, 1);
    const char *second = make_corpus("second.jsonl", DOCUMENTS, 2);
    const char *index = path_of("killed.idx");
    int killed = 0;
    double whole;

    (void)state;
    assert_int_equal(build(first, path_of("want.idx"), 0, 1), SR1_OK);
    assert_int_equal(build(first, index, 0, 1), SR1_OK);
    whole = sr1__now();
    assert_int_equal(build(second, path_of("other.idx"), 1, 2), SR1_OK);
    whole = sr1__now() - whole;
    for (int i = 0; i < kills; i++) {
        pid_t child = fork();
        int how = 0;

        if (child == 0)
            _exit(build(second, index, 1, 2) != SR1_OK);
        usleep((useconds_t)(1e6 * whole * (i + 0.5) / kills));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &how, 0), child);
        if (same(path_of("other.idx"), index)) { /* faster than the clock */
            assert_int_equal(build(first, index, 0, 1), SR1_OK);
        } else {
            assert_true(WIFSIGNALED(how));
            killed++;
        }
        assert_same(path_of("want.idx"), index);
        assert_true(leftovers("killed.idx") <= 2);
    }
    assert_true(killed > 0);
    assert_int_equal(build(second, index, 0, 1), SR1_OK); /* cleans up */
    assert_same(path_of("other.idx"), index);
    assert_int_equal(leftovers("killed.idx"), 0);
}

/* Files of another program, and of a build that is still at work, stay. */
static void only_leftovers_are_removed(void **state)
{
    const char *corpus = make_corpus("corpus.jsonl", 10, 1);
    struct sr1__file_writer *other = NULL;

    (void)state;
    scratch_file("kept.idx.tmp-12-3", "left", 0);
    scratch_file("kept.idx.tmp-12-s3", "left", 0);
    scratch_file("kept.idx.tmp-x", "not ours", 0);
    scratch_file("kept.idx.tmp-2026-before-change", "not ours", 0);
    scratch_file("kept.idx.tmp-12-3.bak", "not ours", 0);
    scratch_file("kept.idx.txt", "not ours", 0);
    assert_int_equal(sr1__file_writer_open(&other, path_of("kept.idx")), SR1_OK);
    assert_int_equal(build(corpus, path_of("kept.idx"), 0, 1), SR1_OK);
    assert_int_equal(leftovers("kept.idx"), 5);
    sr1__file_writer_abort(other);
    assert_int_equal(leftovers("kept.idx"), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first: a child's peak begins where its parent's stood */
        cmocka_unit_test(a_corpus_may_be_larger_than_memory),
        cmocka_unit_test(memory_and_threads_change_nothing),
        cmocka_unit_test(an_index_never_replaces_its_corpus),
        cmocka_unit_test(a_file_that_is_no_index_stays),
        cmocka_unit_test(ids_that_come_twice_are_told),
        cmocka_unit_test(a_spilled_segment_keeps_nothing),
        cmocka_unit_test(a_full_disk_is_an_error_that_names_the_file),
        cmocka_unit_test(a_killed_build_leaves_the_old_index),
        cmocka_unit_test(only_leftovers_are_removed),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
