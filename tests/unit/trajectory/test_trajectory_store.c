/* test_trajectory_store.c - beyond its bytes the store keeps trajectories on disk, and
 * gives back the same ones. */
#include "base/file.h"
#include "random_trajectory.h"
#include "environment/trajectory/builder.h"
#include "environment/trajectory/row_text.h"
#include "environment/trajectory/trajectory_store.h"
#include "environment/trajectory/trajectory.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <setjmp.h>
#include <unistd.h>
#include <sys/resource.h>
#include <signal.h>
#include <cmocka.h>

#define OK(call) assert_int_equal((call), SR1_OK)
#define COUNT 60

static char folder[] = "/tmp/sr1-store-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return sr1__dir_remove(folder) == SR1_OK ? 0 : -1;
}

static sr1_trajectory *numbered(uint64_t seed)
{
    struct sr1__rng r;
    sr1_trajectory *t = NULL;

    sr1__rng_seed(&r, seed, 9);
    OK(random_trajectory(&r, 12, &t));
    return t;
}

static int64_t memory_of_all(void)
{
    int64_t sum = 0;

    for (uint64_t i = 0; i < COUNT; i++) {
        sr1_trajectory *t = numbered(i);

        sum += (int64_t)sr1__trajectory_memory(t);
        sr1_trajectory_free(t);
    }
    return sum;
}

static void fill_store(struct sr1__trajectory_store *s)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        sr1_trajectory *t = numbered(i);

        OK(sr1__trajectory_store_add(s, t));
        sr1_trajectory_free(t);
    }
}

static void check_store(struct sr1__trajectory_store *s)
{
    assert_int_equal(sr1__trajectory_store_count(s), COUNT);
    for (size_t i = COUNT; i-- > 0;) {
        sr1_trajectory *want = numbered(i), *got;
        size_t packed, policy;

        OK(sr1__trajectory_store_get(s, i, &got));
        assert_true(sr1_trajectory_equal(got, want));
        sr1__trajectory_store_lengths(s, i, &packed, &policy);
        assert_int_equal(packed, sr1__trajectory_packed_length(want));
        assert_int_equal(policy, sr1__trajectory_trainable(want));
        sr1_trajectory_free(got);
        sr1_trajectory_free(want);
    }
}

/* Unbounded, half, none, one byte short of all: the contents never differ. */
static void what_is_spilled_comes_back_equal(void **state)
{
    int64_t all = memory_of_all();
    const struct {
        int64_t max;
        const char *folder;
        int spills;
    } cases[] = {{0, NULL, 0},
                 {all, folder, 0},
                 {all - 1, folder, 1},
                 {all / 2, folder, 1},
                 {0, folder, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sr1__trajectory_store *s;

        OK(sr1__trajectory_store_new(&s, cases[i].max, cases[i].folder));
        fill_store(s);
        check_store(s);
        assert_int_equal(sr1__trajectory_store_spilled(s) > 0, cases[i].spills);
        assert_true(!cases[i].folder || sr1__trajectory_store_memory(s) <= cases[i].max);
        sr1__trajectory_store_free(s);
    }
}

static void no_file_is_ever_seen(void **state)
{
    struct sr1__trajectory_store *s;
    char **names;
    size_t n;

    (void)state;
    OK(sr1__trajectory_store_new(&s, 0, folder));
    fill_store(s);
    OK(sr1__dir_list(folder, &names, &n));
    assert_int_equal(n, 0);
    sr1__free(names);
    sr1__trajectory_store_free(s);
}

/* The trajectories of a group hold their row once. */
static void a_shared_row_counts_once(void **state)
{
    static const char json[] = "{\"text\": \"some words of a long row\"}";
    struct sr1__trajectory_store *s;
    struct sr1__row_text *row;
    int64_t alone;

    (void)state;
    OK(sr1__row_text_new(&row, json, strlen(json)));
    OK(sr1__trajectory_store_new(&s, 0, NULL));
    for (int i = 0; i < 3; i++) {
        struct sr1__trajectory_builder *b;
        sr1_trajectory *t;

        OK(sr1__trajectory_builder_new(&b, "q", 1, "q", i));
        OK(sr1__trajectory_builder_prompt(b, (const int32_t[]){1}, 1));
        sr1__trajectory_builder_row(b, row);
        OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
        OK(sr1__trajectory_store_add(s, t));
        alone = (int64_t)sr1__trajectory_memory(t);
        assert_int_equal(sr1__trajectory_store_memory(s),
                         (i + 1) * alone - i * (int64_t)strlen(json));
        sr1_trajectory_free(t);
    }
    sr1__row_text_free(row);
    sr1__trajectory_store_free(s);
}

static void errors_name_the_place(void **state)
{
    struct sr1__trajectory_store *s;
    sr1_trajectory *t = numbered(1), *got = NULL;

    (void)state;
    assert_int_equal(sr1__trajectory_store_new(&s, -1, folder), SR1_E_INVALID);
    OK(sr1__trajectory_store_new(&s, 0, "/nonexistent/folder"));
    assert_int_equal(sr1__trajectory_store_add(s, t), SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "/nonexistent/folder"));
    assert_int_equal(sr1__trajectory_store_count(s), 0);
    assert_int_equal(sr1__trajectory_store_get(s, 0, &got), SR1_E_INVALID);
    assert_null(got);
    sr1__trajectory_store_free(s);
    sr1__trajectory_store_free(NULL);
    sr1_trajectory_free(t);
}

/* As on a full disk: what had been added before stays readable. */
static void a_failed_write_keeps_the_rest(void **state)
{
    struct rlimit old, tight;
    struct sr1__trajectory_store *s;
    sr1_trajectory *first = numbered(0), *got;
    sr1_status status = SR1_OK;
    size_t n;

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = 8192;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    OK(sr1__trajectory_store_new(&s, 0, folder));
    for (n = 0; n < 1000 && status == SR1_OK; n++)
        status = sr1__trajectory_store_add(s, first);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, SR1_E_IO);
    assert_int_equal(sr1__trajectory_store_count(s), n - 1);
    for (size_t i = 0; i < n - 1; i++) {
        OK(sr1__trajectory_store_get(s, i, &got));
        assert_true(sr1_trajectory_equal(got, first));
        sr1_trajectory_free(got);
    }
    OK(sr1__trajectory_store_add(s, first)); /* with room again */
    sr1__trajectory_store_free(s);
    sr1_trajectory_free(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_spilled_comes_back_equal),
        cmocka_unit_test(no_file_is_ever_seen),
        cmocka_unit_test(a_shared_row_counts_once),
        cmocka_unit_test(errors_name_the_place),
        cmocka_unit_test(a_failed_write_keeps_the_rest),
    };

    return cmocka_run_group_tests_name("trajectory_store", tests, make_folder,
                                       remove_folder);
}
