/* The disk cache: what it keeps, for how long, and what damage and other processes do. */
#include <setjmp.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "retrieval/search/disk_store.h"
#include "support/files.h"
#include "support/torture.h"

#include <searchr1/ext/bm25.h>
#include <searchr1/search.h>
#include <searchr1/ext/engines.h>

/* ---- disks that fail ---- */

static int reads_fail;

ssize_t pread(int fd, void *bytes, size_t n, off_t at)
{
    if (reads_fail) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, bytes, n, at);
}

static int warnings;

static void count_warnings(void *user, int32_t level, const char *text)
{
    (void)level;
    warnings++;
    snprintf(user, 300, "%s", text);
}

/* ---- the store ---- */

static struct sr1__disk_store *open_store(const char *name, uint64_t max_bytes)
{
    struct sr1__disk_store *s = NULL;

    if (sr1__disk_store_open(&s, scratch_path(name), max_bytes) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return s;
}

static void put(struct sr1__disk_store *s, const char *key, const char *value,
                int64_t time)
{
    sr1__disk_store_put(s, key, strlen(key), value, strlen(value), time);
}

/* Is this value, put at this time, under the key? value NULL: is there nothing? */
static int has(struct sr1__disk_store *s, const char *key, const char *value,
               int64_t time)
{
    struct sr1__buf b;
    int64_t at = 0;
    int is;

    sr1__buf_init(&b, 0);
    is = sr1__disk_store_get(s, key, strlen(key), &b, &at);
    is = value ? is && at == time && strcmp(sr1__buf_cstr(&b), value) == 0 : !is;
    sr1__buf_free(&b);
    return is;
}

static void values_outlive_the_process(void **state)
{
    struct sr1__disk_store *s = open_store("outlive", 1 << 20);

    (void)state;
    put(s, "a", "one", 1);
    put(s, "b", "two", 2);
    put(s, "a", "three", 3);
    put(s, "", "", 4);
    assert_true(has(s, "a", "three", 3));
    sr1__disk_store_close(s);
    s = open_store("outlive", 1 << 20);
    assert_true(has(s, "a", "three", 3));
    assert_true(has(s, "b", "two", 2));
    assert_true(has(s, "", "", 4));
    assert_true(has(s, "c", NULL, 0));
    sr1__disk_store_close(s);
}

static void stores_see_each_other(void **state)
{
    struct sr1__disk_store *a = open_store("two", 1 << 20);
    struct sr1__disk_store *b = open_store("two", 1 << 20);

    (void)state;
    put(a, "x", "from a", 1);
    assert_true(has(b, "x", "from a", 1));
    put(b, "x", "from b", 2);
    put(a, "y", "from a", 3);
    assert_true(has(a, "x", "from b", 2));
    assert_true(has(b, "y", "from a", 3));
    sr1__disk_store_close(a);
    sr1__disk_store_close(b);
}

static uint64_t file_size(const char *name)
{
    struct stat st;
    char path[600];

    snprintf(path, sizeof path, "%s/answers", scratch_path(name));
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static void the_file_is_bounded_and_the_newest_stay(void **state)
{
    struct sr1__disk_store *a = open_store("bound", 20000);
    struct sr1__disk_store *b = open_store("bound", 20000);
    char key[32], value[201];
    int found = 0, gap = 0;

    (void)state;
    memset(value, 'v', 200);
    value[200] = '\0';
    for (int i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "key %d", i);
        put(i % 2 ? a : b, key, value, i);
        assert_true(file_size("bound") <= 20000);
    }
    for (int i = 999; i >= 0; i--) {
        snprintf(key, sizeof key, "key %d", i);
        if (has(a, key, value, i)) {
            found++;
            assert_false(gap); /* none that is older than one that left */
            assert_true(has(b, key, value, i));
        } else {
            gap = 1;
        }
    }
    assert_true(found > 20);
    sr1__disk_store_close(a);
    sr1__disk_store_close(b);
}

static void what_is_too_large_is_not_kept(void **state)
{
    struct sr1__disk_store *s = open_store("large", 20000);
    char *value = calloc(1, 20000);

    (void)state;
    memset(value, 'v', 19999);
    put(s, "large", value, 1);
    assert_true(has(s, "large", NULL, 0));
    free(value);
    sr1__disk_store_close(s);
}

/* A file of ten records, then some harm done to it. */
static void make_ten(const char *name)
{
    struct sr1__disk_store *s = open_store(name, 1 << 20);
    char key[8];

    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "k%d", i);
        put(s, key, "some value", i);
    }
    sr1__disk_store_close(s);
}

static int count_ten(struct sr1__disk_store *s)
{
    char key[8];
    int n = 0;

    for (int i = 0; i < 10; i++) {
        snprintf(key, sizeof key, "k%d", i);
        n += has(s, key, "some value", i);
    }
    return n;
}

static void a_torn_end_is_cut_off(void **state)
{
    char path[600];

    (void)state;
    for (long cut = 1; cut < 60; cut += 7) {
        struct sr1__disk_store *s;
        uint64_t size;

        assert_int_equal(sr1__dir_remove(scratch_path("torn")), SR1_OK);
        make_ten("torn");
        size = file_size("torn");
        snprintf(path, sizeof path, "%s/answers", scratch_path("torn"));
        assert_int_equal(truncate(path, (off_t)size - cut), 0);
        s = open_store("torn", 1 << 20);
        assert_int_equal(count_ten(s), cut <= 56 ? 9 : 8); /* records of 56 bytes */
        put(s, "k9", "some value", 9);
        put(s, "k8", "some value", 8);
        assert_int_equal(count_ten(s), 10);
        assert_true(file_size("torn") <= size + 100);
        sr1__disk_store_close(s);
        s = open_store("torn", 1 << 20);
        assert_int_equal(count_ten(s), 10);
        sr1__disk_store_close(s);
    }
}

static void a_changed_byte_costs_one_record(void **state)
{
    struct sr1__rng rng;
    char path[600];

    (void)state;
    sr1__rng_seed(&rng, 5, 0);
    for (int round = 0; round < 40; round++) {
        struct sr1__disk_store *s;
        uint64_t at;
        FILE *f;
        int c;

        assert_int_equal(sr1__dir_remove(scratch_path("flip")), SR1_OK);
        make_ten("flip");
        snprintf(path, sizeof path, "%s/answers", scratch_path("flip"));
        at = sr1__rng_below(&rng, file_size("flip"));
        f = fopen(path, "r+b");
        fseek(f, (long)at, SEEK_SET);
        c = fgetc(f);
        fseek(f, (long)at, SEEK_SET);
        fputc(c ^ 0x40, f);
        fclose(f);
        s = open_store("flip", 1 << 20);
        assert_int_equal(count_ten(s), 9);
        make_ten("flip"); /* another process goes on writing */
        assert_int_equal(count_ten(s), 10);
        sr1__disk_store_close(s);
    }
}

static void garbage_is_stepped_over(void **state)
{
    char noise[5000];
    struct sr1__disk_store *s;
    struct sr1__buf record;
    struct sr1__rng rng;
    char path[600];

    (void)state;
    sr1__rng_seed(&rng, 6, 0);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)sr1__rng_u64(&rng);
    s = open_store("noise", 1 << 20);
    put(s, "a", "one", 1);
    sr1__disk_store_close(s);
    snprintf(path, sizeof path, "%s/answers", scratch_path("noise"));
    sr1__buf_init(&record, 0);
    assert_int_equal(sr1__file_read(path, 1000, &record), SR1_OK);
    memcpy(noise + 3000, record.data, record.len);
    sr1__buf_free(&record);
    (void)scratch_file("noise/answers", noise, sizeof noise);
    s = open_store("noise", 1 << 20);
    assert_true(has(s, "a", "one", 1));
    put(s, "b", "two", 2);
    assert_true(has(s, "b", "two", 2));
    sr1__disk_store_close(s);
    s = open_store("noise", 1 << 20);
    assert_true(has(s, "a", "one", 1) && has(s, "b", "two", 2));
    sr1__disk_store_close(s);
}

/* Records of a hostile file, whose hashes agree in the bits that a table looks at first:
 * the file is read in the time that other files of its size take. */
static void chosen_hashes_cost_no_more(void **state)
{
    const uint32_t magic = 0x63315253u; /* of a record, as disk_store.c has it */
    struct timespec begin, end;
    struct sr1__disk_store *s;
    struct sr1__buf file, header;
    char path[600];

    (void)state;
    sr1__buf_init(&file, 0);
    sr1__buf_init(&header, 0);
    for (uint64_t i = 0; i < 200000; i++) {
        sr1__buf_clear(&header);
        sr1__buf_u32(&header, magic);
        sr1__buf_u32(&header, 4);
        sr1__buf_u64(&header, i << 32);
        sr1__buf_u64(&header, i);
        sr1__buf_u64(&header, 0);
        sr1__buf_u64(&header, sr1__hash64(header.data, header.len, magic));
        sr1__buf_add(&file, header.data, header.len);
        sr1__buf_u32(&file, 0);
    }
    assert_int_equal(file.status, SR1_OK);
    assert_int_equal(sr1__dir_make(scratch_path("chosen")), SR1_OK);
    snprintf(path, sizeof path, "%s/answers", scratch_path("chosen"));
    assert_int_equal(sr1__file_replace(path, file.data, file.len), SR1_OK);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    s = open_store("chosen", 1 << 26);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    assert_true(end.tv_sec - begin.tv_sec < 5);
    put(s, "k", "some value", 1);
    assert_true(has(s, "k", "some value", 1));
    assert_int_equal(file_size("chosen"), file.len + 55);
    sr1__disk_store_close(s);
    sr1__buf_free(&file);
    sr1__buf_free(&header);
}

/* Somebody's file in a folder that is named by mistake. */
static void another_file_is_left_as_it_is(void **state)
{
    static const char *const texts[] = {"42\n", "my answers to the questions of the "
                                                "seventh sheet, which took a week\n"};
    struct sr1__disk_store *s;
    struct sr1__buf now;
    char path[600];

    (void)state;
    assert_int_equal(sr1__dir_make(scratch_path("mine")), SR1_OK);
    snprintf(path, sizeof path, "%s/answers", scratch_path("mine"));
    for (size_t i = 0; i < 2; i++) {
        (void)scratch_file("mine/answers", texts[i], strlen(texts[i]));
        assert_int_equal(sr1__disk_store_open(&s, scratch_path("mine"), 1 << 20),
                         SR1_E_CORRUPT);
        assert_non_null(
            strstr(sr1_last_error(), "no cache of answers; choose another folder"));
    }
    /* One that comes while the store is open. */
    assert_int_equal(remove(path), 0);
    s = open_store("mine", 1 << 20);
    (void)scratch_file("mine/answers", texts[1], strlen(texts[1]));
    put(s, "a", "one", 1);
    assert_true(has(s, "a", NULL, 0));
    sr1__disk_store_close(s);
    sr1__buf_init(&now, 0);
    assert_int_equal(sr1__file_read(path, 1000, &now), SR1_OK);
    assert_int_equal(now.len, strlen(texts[1]));
    assert_memory_equal(now.data, texts[1], now.len);
    sr1__buf_free(&now);
}

/* What cannot be read is not cut off: it may be whole. */
static void a_disk_that_does_not_read_costs_nothing(void **state)
{
    struct sr1__disk_store *s = open_store("eio", 1 << 20);
    char said[300] = "";
    uint64_t size;

    (void)state;
    make_ten("eio"); /* of another process: not seen yet */
    size = file_size("eio");
    warnings = 0;
    sr1_log_set(count_warnings, said);
    reads_fail = 1;
    put(s, "x", "lost", 1);
    put(s, "y", "lost", 1);
    reads_fail = 0;
    sr1_log_set(NULL, NULL);
    assert_int_equal(file_size("eio"), size);
    assert_int_equal(count_ten(s), 10);
    assert_int_equal(warnings, 1); /* not one for each answer */
    assert_non_null(strstr(said, "Input/output error"));
    sr1__disk_store_close(s);
}

static void use_store_told_of(void *s, int32_t level, const char *text)
{
    (void)level;
    (void)text;
    reads_fail = 0;
    warnings += has(s, "k0", "some value", 0) ? 1 : 100;
}

static void a_sink_may_use_the_store(void **state)
{
    struct sr1__disk_store *s = open_store("told", 1 << 20);

    (void)state;
    make_ten("told");
    warnings = 0;
    sr1_log_set(use_store_told_of, s);
    reads_fail = 1;
    put(s, "x", "lost", 1);
    reads_fail = 0;
    sr1_log_set(NULL, NULL);
    assert_int_equal(warnings, 1);
    sr1__disk_store_close(s);
}

static void a_full_disk_is_told_once(void **state)
{
    struct sr1__disk_store *s = open_store("full", 1 << 20);
    struct rlimit old, now;
    char said[300] = "";

    (void)state;
    make_ten("full");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    now = (struct rlimit){file_size("full") + 20, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    warnings = 0;
    sr1_log_set(count_warnings, said);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
        put(s, "x", "more than there is room for", 1);
        put(s, "x", "more than there is room for", 1);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(warnings, i + 1);
        assert_non_null(strstr(said, "write"));
        assert_non_null(strstr(said, "File too large"));
        put(s, "k9", "some value", 9); /* room again */
        now.rlim_cur = file_size("full") + 20;
    }
    sr1_log_set(NULL, NULL);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(count_ten(s), 10);
    sr1__disk_store_close(s);
}

/* Four processes write and compact one file; one is killed on the way. */
static void processes_share_a_folder(void **state)
{
    struct sr1__disk_store *s = open_store("shared", 60000);
    pid_t pids[4];
    int found = 0;

    (void)state;
    for (int p = 0; p < 4; p++) {
        pids[p] = fork();
        if (pids[p] == 0) {
            struct sr1__disk_store *own = open_store("shared", 60000);
            char key[32], value[64];

            for (int i = 0; i < 400; i++) {
                snprintf(key, sizeof key, "%d/%d", p, i);
                snprintf(value, sizeof value, "value of %d/%d", p, i);
                put(own, key, value, i);
                if (!has(own, key, value, i))
                    _exit(1);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < 600000 && !has(s, "3/0", "value of 3/0", 0); i++)
        usleep(100);
    assert_true(has(s, "3/0", "value of 3/0", 0));
    kill(pids[3], SIGKILL);
    for (int p = 0; p < 4; p++) {
        int status;

        assert_int_equal(waitpid(pids[p], &status, 0), pids[p]);
        if (p < 3)
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (int p = 0; p < 3; p++) {
        char key[32], value[64];

        snprintf(key, sizeof key, "%d/%d", p, 399);
        snprintf(value, sizeof value, "value of %d/%d", p, 399);
        found += has(s, key, value, 399);
    }
    assert_int_equal(found, 3);
    sr1__disk_store_close(s);
}

static sr1_status use_store(void *arg)
{
    struct sr1__disk_store *s = NULL;
    struct sr1__buf b;
    int64_t at;
    sr1_status status =
        sr1__disk_store_open(&s, scratch_path("torture"), (uint64_t)1 << 20);

    (void)arg;
    sr1__buf_init(&b, 0);
    if (status == SR1_OK) {
        put(s, "a", "one", 1);
        if (!sr1__disk_store_get(s, "a", 1, &b, &at))
            status = SR1_E_NOMEM; /* allowed: a cache is a help */
    }
    sr1__buf_free(&b);
    sr1__disk_store_close(s);
    (void)sr1__dir_remove(scratch_path("torture"));
    return status;
}

static void any_allocation_of_the_store_may_fail(void **state)
{
    (void)state;
    assert_true(torture(use_store, NULL) > 5);
}

/* ---- the engine ---- */

/* Answers with its own call count; fails while down. */
struct stub {
    int asked;
    int down;
};

static sr1_status stub_search(void *self, const char *const *queries, size_t n,
                              int32_t top_k, sr1_search_sink *sink)
{
    struct stub *s = self;
    char text[64];

    (void)top_k;
    s->asked += (int)n;
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%s: answer %d", queries[i], s->asked);
        if (s->down)
            (void)sr1_search_sink_status(sink, i, SR1_ACTION_TIMEOUT, "down");
        else if (strchr(queries[i], '0') == NULL) {
            if (sr1_search_sink_hit(sink, i, "id", text, 0.5) != SR1_OK ||
                sr1_search_sink_row(sink, i, "{\"a\": 1}") != SR1_OK)
                return SR1_E_NOMEM;
        }
    }
    return SR1_OK;
}

static sr1_search *open_stub(struct stub *stub, const char *identity)
{
    const sr1_search_ops ops = {.struct_size = sizeof(ops),
                                .name = "stub",
                                .search = stub_search,
                                .identity = identity};
    sr1_search *e = NULL;

    assert_int_equal(sr1_search_new(&e, &ops, stub), SR1_OK);
    return e;
}

static sr1_search *cached(struct stub *stub, const char *folder,
                          const sr1_disk_cache_options *o)
{
    sr1_search *inner = open_stub(stub, "mine"), *e = NULL;

    if (sr1_search_open_disk_cache(&e, inner, scratch_path(folder), o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    sr1_search_free(inner);
    return e;
}

/* "text of the first hit", "-" for empty, "!" for a failure. */
static const char *answer(sr1_search *e, const char *query, int32_t top_k)
{
    static char text[128];
    sr1_search_results *found = NULL;
    sr1_search_hit hit = {sizeof(hit)};
    int32_t how;

    assert_int_equal(sr1_search_run(e, &query, 1, top_k, &found), SR1_OK);
    how = sr1_search_results_status(found, 0);
    snprintf(text, sizeof text, "%s", how == SR1_ACTION_EMPTY ? "-" : "!");
    if (sr1_search_results_hit(found, 0, 0, &hit) == SR1_OK) {
        assert_true(hit.score == 0.5);
        assert_string_equal(hit.row, "{\"a\": 1}");
        assert_string_equal(hit.id, "id");
        snprintf(text, sizeof text, "%s", hit.contents);
    }
    sr1_search_results_free(found);
    return text;
}

static void a_kept_answer_is_not_asked_for_again(void **state)
{
    struct stub stub = {0, 0};
    sr1_search *e = cached(&stub, "engine", NULL);
    sr1_search_counters c = {sizeof(c)};

    (void)state;
    assert_string_equal(sr1_search_name(e), "stub");
    assert_string_equal(answer(e, "q", 3), "q: answer 1");
    assert_string_equal(answer(e, "q", 3), "q: answer 1");
    assert_string_equal(answer(e, "q", 4), "q: answer 2"); /* another question */
    assert_string_equal(answer(e, "0", 3), "-");
    assert_string_equal(answer(e, "0", 3), "-");
    assert_int_equal(stub.asked, 3);
    assert_int_equal(sr1_search_counters_get(e, &c), SR1_OK);
    assert_int_equal(c.disk_hits, 2);
    assert_int_equal(c.disk_stale, 0);
    sr1_search_free(e);
    e = cached(&stub, "engine", NULL); /* the next run */
    assert_string_equal(answer(e, "q", 3), "q: answer 1");
    assert_int_equal(stub.asked, 3);
    sr1_search_free(e);
}

static void failures_are_never_kept(void **state)
{
    struct stub stub = {0, 1};
    sr1_search *e = cached(&stub, "failures", NULL);

    (void)state;
    assert_string_equal(answer(e, "q", 3), "!");
    stub.down = 0;
    assert_string_equal(answer(e, "q", 3), "q: answer 2");
    sr1_search_free(e);
}

static void an_old_answer_is_asked_for_again(void **state)
{
    sr1_disk_cache_options o;
    struct stub stub = {0, 0};
    sr1_search_counters c = {sizeof(c)};
    sr1_search *e;

    (void)state;
    sr1_disk_cache_options_init(&o);
    o.ttl_s = 0.05;
    e = cached(&stub, "old", &o);
    assert_string_equal(answer(e, "q", 3), "q: answer 1");
    usleep(80000);
    assert_string_equal(answer(e, "q", 3), "q: answer 2");
    usleep(80000);
    stub.down = 1; /* and is better than none */
    assert_string_equal(answer(e, "q", 3), "q: answer 2");
    assert_int_equal(stub.asked, 3);
    assert_int_equal(sr1_search_counters_get(e, &c), SR1_OK);
    assert_int_equal(c.disk_stale, 1);
    sr1_search_free(e);
    o.use_stale = 0;
    e = cached(&stub, "old", &o);
    assert_string_equal(answer(e, "q", 3), "!");
    sr1_search_free(e);
}

/* Kept while the clock was wrong, or with a time that no clock has. */
static void answers_of_other_times_are_asked_for_again(void **state)
{
    static const char key[] = "stub\nmine\n3\nq";
    const int64_t day = 86400000;
    const int64_t times[] = {INT64_MIN, 0, 100 * 365 * day, INT64_MAX};
    struct stub stub = {0, 0};
    sr1_disk_cache_options o;
    sr1_search *e;
    struct sr1__disk_store *s;
    struct sr1__buf b;
    int64_t at;

    (void)state;
    sr1_disk_cache_options_init(&o);
    o.scope = "mine";
    e = cached(&stub, "times", &o);
    s = open_store("times", 1 << 20);
    sr1__buf_init(&b, 0);
    (void)answer(e, "q", 3);
    assert_true(sr1__disk_store_get(s, key, strlen(key), &b, &at));
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int asked = stub.asked;

        sr1__disk_store_put(s, key, strlen(key), b.data, b.len, times[i]);
        (void)answer(e, "q", 3);
        assert_int_equal(stub.asked, asked + 1);
    }
    sr1__buf_free(&b);
    sr1__disk_store_close(s);
    sr1_search_free(e);
}

static void scopes_do_not_mix(void **state)
{
    sr1_disk_cache_options o;
    struct stub stub = {0, 0};
    sr1_search *a, *b;

    (void)state;
    sr1_disk_cache_options_init(&o);
    o.scope = "http://a/";
    a = cached(&stub, "scopes", &o);
    o.scope = "http://b/";
    b = cached(&stub, "scopes", &o);
    assert_string_equal(answer(a, "q", 3), "q: answer 1");
    assert_string_equal(answer(b, "q", 3), "q: answer 2");
    assert_string_equal(answer(a, "q", 3), "q: answer 1");
    sr1_search_free(a);
    sr1_search_free(b);
}

/* Engines of the caller's have one name and two identities, in the cache or below it. */
static void identities_do_not_mix(void **state)
{
    static const char *const identities[] = {"a", "b"};
    struct stub stub = {0, 0};
    sr1_search *kept[6];

    (void)state;
    for (int i = 0; i < 6; i++) {
        sr1_search *inner = open_stub(&stub, identities[i % 2]), *over = NULL;

        if (i / 2 == 1)
            assert_int_equal(sr1_search_open_chain(&over, &inner, 1), SR1_OK);
        if (i / 2 == 2)
            assert_int_equal(sr1_search_open_hybrid(&over, &inner, NULL, 1, NULL),
                             SR1_OK);
        if (sr1_search_open_disk_cache(&kept[i], over ? over : inner,
                                       scratch_path("identities"), NULL) != SR1_OK)
            fail_msg("%s", sr1_last_error());
        sr1_search_free(over);
        sr1_search_free(inner);
    }
    for (int round = 0; round < 2; round++) {
        assert_string_equal(answer(kept[0], "q", 3), "q: answer 1");
        assert_string_equal(answer(kept[1], "q", 3), "q: answer 2");
        assert_string_equal(answer(kept[2], "q", 3), "q: answer 3");
        assert_string_equal(answer(kept[3], "q", 3), "q: answer 4");
    }
    for (int i = 4; i < 6; i++) { /* whose scores are its own */
        sr1_search_results *found = NULL;
        const char *query = "q";

        assert_int_equal(sr1_search_run(kept[i], &query, 1, 3, &found), SR1_OK);
        sr1_search_results_free(found);
        assert_int_equal(stub.asked, i + 1);
    }
    for (int i = 0; i < 6; i++)
        sr1_search_free(kept[i]);
}

static void an_engine_without_identity_needs_a_scope(void **state)
{
    struct stub stub = {0, 0};
    sr1_disk_cache_options o;
    sr1_search *inner = open_stub(&stub, NULL), *chain = NULL, *e = NULL, *again = NULL;

    (void)state;
    assert_int_equal(sr1_search_open_disk_cache(&e, inner, scratch_path("none"), NULL),
                     SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "the engine 'stub'"));
    assert_non_null(strstr(sr1_last_error(), "set scope"));
    assert_int_equal(sr1_search_open_chain(&chain, &inner, 1), SR1_OK);
    assert_int_equal(sr1_search_open_disk_cache(&e, chain, scratch_path("none"), NULL),
                     SR1_E_INVALID);
    sr1_disk_cache_options_init(&o);
    o.scope = "mine";
    assert_int_equal(sr1_search_open_disk_cache(&e, inner, scratch_path("none"), &o),
                     SR1_OK);
    /* its scope is its identity where it is kept once more */
    assert_int_equal(sr1_search_open_disk_cache(&again, e, scratch_path("once"), NULL),
                     SR1_OK);
    sr1_search_free(again);
    sr1_search_free(e);
    sr1_search_free(chain);
    sr1_search_free(inner);
}

/* Two indexes are two engines, also under one path. */
static void indexes_do_not_mix(void **state)
{
    static const char *const rows[] = {
        "{\"id\": \"1\", \"contents\": \"a tower of stone\"}\n",
        "{\"id\": \"2\", \"contents\": \"a tower of glass\"}\n"};
    static const char *const wanted[] = {"a tower of stone", "a tower of glass"};
    char index[600], folder[600];

    (void)state;
    snprintf(index, sizeof index, "%s", scratch_path("towers.bm25"));
    snprintf(folder, sizeof folder, "%s", scratch_path("towers"));
    for (int i = 0; i < 4; i++) {
        sr1_search *inner = NULL, *e = NULL;
        sr1_search_results *found = NULL;
        sr1_search_hit hit = {sizeof(hit)};
        const char *query = "tower";

        assert_int_equal(sr1_bm25_build(scratch_file("towers.jsonl", rows[i % 2], 0),
                                        index, NULL, NULL, NULL),
                         SR1_OK);
        assert_int_equal(sr1_search_open_bm25(&inner, index, NULL), SR1_OK);
        assert_int_equal(sr1_search_open_disk_cache(&e, inner, folder, NULL), SR1_OK);
        assert_int_equal(sr1_search_run(e, &query, 1, 1, &found), SR1_OK);
        assert_int_equal(sr1_search_results_hit(found, 0, 0, &hit), SR1_OK);
        assert_string_equal(hit.contents, wanted[i % 2]);
        sr1_search_results_free(found);
        sr1_search_free(e);
        sr1_search_free(inner);
    }
}

static void a_batch_is_asked_for_what_is_missing(void **state)
{
    const char *queries[] = {"a", "b", "c", "d"};
    struct stub stub = {0, 0};
    sr1_search *e = cached(&stub, "batch", NULL);
    sr1_search_results *found = NULL;
    sr1_search_hit hit = {sizeof(hit)};

    (void)state;
    (void)answer(e, "a", 3);
    (void)answer(e, "c", 3);
    assert_int_equal(sr1_search_run(e, queries, 4, 3, &found), SR1_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(sr1_search_results_hit(found, i, 0, &hit), SR1_OK);
        assert_int_equal(hit.contents[0], queries[i][0]);
    }
    assert_int_equal(stub.asked, 4);
    sr1_search_results_free(found);
    sr1_search_free(e);
}

static void wrong_arguments(void **state)
{
    sr1_disk_cache_options o;
    sr1_search *mock = NULL, *e = NULL;

    (void)state;
    assert_int_equal(sr1_search_open_mock(&mock, NULL, NULL, 0), SR1_OK);
    sr1_disk_cache_options_init(&o);
    assert_int_equal(sr1_search_open_disk_cache(&e, NULL, "x", &o), SR1_E_INVALID);
    assert_int_equal(sr1_search_open_disk_cache(&e, mock, "", &o), SR1_E_INVALID);
    o.ttl_s = -1;
    assert_int_equal(sr1_search_open_disk_cache(&e, mock, "x", &o), SR1_E_INVALID);
    sr1_disk_cache_options_init(&o);
    o.max_bytes = 1;
    assert_int_equal(sr1_search_open_disk_cache(&e, mock, "x", &o), SR1_E_INVALID);
    assert_int_equal(
        sr1_search_open_disk_cache(&e, mock, scratch_file("plain", "x", 0), NULL),
        SR1_E_IO);
    assert_null(e);
    sr1_search_free(mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_outlive_the_process),
        cmocka_unit_test(stores_see_each_other),
        cmocka_unit_test(the_file_is_bounded_and_the_newest_stay),
        cmocka_unit_test(what_is_too_large_is_not_kept),
        cmocka_unit_test(a_torn_end_is_cut_off),
        cmocka_unit_test(a_changed_byte_costs_one_record),
        cmocka_unit_test(garbage_is_stepped_over),
        cmocka_unit_test(chosen_hashes_cost_no_more),
        cmocka_unit_test(another_file_is_left_as_it_is),
        cmocka_unit_test(a_disk_that_does_not_read_costs_nothing),
        cmocka_unit_test(a_sink_may_use_the_store),
        cmocka_unit_test(a_full_disk_is_told_once),
        cmocka_unit_test(processes_share_a_folder),
        cmocka_unit_test(any_allocation_of_the_store_may_fail),
        cmocka_unit_test(a_kept_answer_is_not_asked_for_again),
        cmocka_unit_test(failures_are_never_kept),
        cmocka_unit_test(an_old_answer_is_asked_for_again),
        cmocka_unit_test(answers_of_other_times_are_asked_for_again),
        cmocka_unit_test(scopes_do_not_mix),
        cmocka_unit_test(identities_do_not_mix),
        cmocka_unit_test(an_engine_without_identity_needs_a_scope),
        cmocka_unit_test(indexes_do_not_mix),
        cmocka_unit_test(a_batch_is_asked_for_what_is_missing),
        cmocka_unit_test(wrong_arguments),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
