/* Checkpoint folders: whole or not at all; whatever was done to one afterwards is
 * noticed. */
#include "support/files.h"

#include "base/error.h"
#include "base/mem.h"
#include "train/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

/* In place of libc's: files below this name cannot be removed. */
static const char *refuse_removal;

int remove(const char *path)
{
    if (refuse_removal && strstr(path, refuse_removal)) {
        errno = EACCES;
        return -1;
    }
    if (syscall(SYS_unlinkat, AT_FDCWD, path, 0) == 0)
        return 0;
    return errno == EISDIR ? (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR)
                           : -1;
}

static const char *const names[] = {"model/weights", "optimizer/state", "state.json"};

static void put(const char *folder, const char *name, const char *text)
{
    char path[600];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    *strrchr(path, '/') = '\0';
    assert_int_equal(sr1__dir_make(path), SR1_OK);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

static sr1_status fill(void *self, const char *folder)
{
    put(folder, names[0], self);
    put(folder, names[1], "moments");
    return SR1_OK;
}

static sr1_status fill_and_fail(void *self, const char *folder)
{
    put(folder, names[0], self);
    return sr1__fail(SR1_E_IO, "no room");
}

static sr1_status write_checkpoint(const char *run, int64_t step, const json_t *state,
                                   int64_t keep, sr1__checkpoint_fill how, void *self)
{
    struct sr1__checkpoint c = {.run = run,
                                .step = step,
                                .state = state,
                                .keep = keep,
                                .fill = how,
                                .self = self};

    return sr1__checkpoint_write(&c);
}

static void write_step(const char *run, int64_t step, int64_t keep)
{
    json_t *state =
        json_pack("{s:I, s:f}", "position", (json_int_t)step * 10, "scale", 0.1);
    char text[32];

    snprintf(text, sizeof text, "weights %d", (int)step);
    assert_int_equal(write_checkpoint(run, step, state, keep, fill, text), SR1_OK);
    json_decref(state);
}

/* Step of the newest whole checkpoint, -1 when there is none; its state must be its own.
 */
static int64_t newest(const char *run, int64_t *torn)
{
    char *folder = NULL;
    json_t *state = NULL;
    int64_t step = -1;
    sr1_status st = sr1__checkpoint_newest(run, &folder, &step, &state, torn);

    if (st != SR1_OK) {
        assert_int_equal(st, SR1_E_NOT_FOUND);
        assert_null(folder);
        return -1;
    }
    assert_int_equal(json_integer_value(json_object_get(state, "position")), step * 10);
    assert_true(json_real_value(json_object_get(state, "scale")) == 0.1);
    json_decref(state);
    sr1__free(folder);
    return step;
}

static void the_newest_is_found_and_old_ones_go(void **state)
{
    const char *run = scratch_path("keep");
    char **list = NULL;
    size_t n = 0;

    (void)state;
    assert_int_equal(newest(run, NULL), -1);
    for (int64_t i = 1; i <= 12; i++)
        write_step(run, i, 3);
    assert_int_equal(newest(run, NULL), 12);
    assert_int_equal(sr1__dir_list(scratch_path("keep/checkpoints"), &list, &n), SR1_OK);
    assert_int_equal(n, 3);
    assert_string_equal(list[0], "step-10");
    sr1__dir_list_free(list, n);
    write_step(run, 13, 0); /* 0 keeps all */
    write_step(run, 13, 0); /* again: replaced */
    assert_int_equal(newest(run, NULL), 13);
}

static int is_there(const char *name)
{
    return sr1__path_exists(scratch_path(name));
}

static void see_both(void *self)
{
    *(int *)self = is_there("leads/checkpoints/step-1/state.json") &&
                   is_there("leads/checkpoints/step-2/state.json");
}

static sr1_status fill_nothing(void *self, const char *folder)
{
    (void)self;
    put(folder, names[0], "weights");
    return SR1_OK;
}

/* What leads to the older one can be led to the new one: there is always one. */
static void old_ones_go_after_it_is_told(void **state)
{
    int both = 0;
    json_t *counts = json_object();
    struct sr1__checkpoint c = {.run = scratch_path("leads"),
                                .step = 2,
                                .state = counts,
                                .keep = 1,
                                .fill = fill_nothing,
                                .written = see_both,
                                .self = &both};

    (void)state;
    write_step(c.run, 1, 1);
    assert_int_equal(sr1__checkpoint_write(&c), SR1_OK);
    assert_true(both);
    assert_false(is_there("leads/checkpoints/step-1"));
    json_decref(counts);
}

/* A run that went on from the step before a torn checkpoint. */
static void torn_ones_ahead_are_not_counted_as_kept(void **state)
{
    const char *run = scratch_path("ahead");

    (void)state;
    write_step(run, 1, 1);
    write_step(run, 5, 2);
    assert_int_equal(remove(scratch_path("ahead/checkpoints/step-5/state.json")), 0);
    assert_int_equal(newest(run, NULL), 1);
    write_step(run, 2, 1);
    assert_int_equal(newest(run, NULL), 2);
    assert_false(is_there("ahead/checkpoints/step-1"));
    assert_false(is_there("ahead/checkpoints/step-5"));
}

/* What a process that was killed while it wrote another step left. */
static void temporary_folders_of_any_step_are_removed(void **state)
{
    const char *run = scratch_path("killed");

    (void)state;
    for (int64_t keep = 0; keep < 2; keep++) {
        put(scratch_path("killed/checkpoints/step-7.tmp"), names[0], "half");
        write_step(run, 8, keep);
        assert_false(is_there("killed/checkpoints/step-7.tmp"));
    }
}

static char logged[2048];

static void on_log(void *user, int32_t level, const char *text)
{
    (void)user;
    (void)level;
    snprintf(logged + strlen(logged), sizeof logged - strlen(logged), "%s\n", text);
}

/* As where a reader on another machine still has one of its files open. */
static void an_old_one_that_stays_fails_no_write(void **state)
{
    const char *run = scratch_path("stays");
    char was[1100];

    (void)state;
    write_step(run, 1, 1);
    refuse_removal = "stays/checkpoints/step-1/";
    logged[0] = '\0';
    sr1_log_set(on_log, NULL);
    snprintf(was, sizeof was, "%s", sr1_last_error());
    write_step(run, 2, 1);
    sr1_log_set(NULL, NULL);
    refuse_removal = NULL;
    assert_non_null(strstr(logged, "step-1"));
    assert_string_equal(was, sr1_last_error()); /* a success leaves the text alone */
    assert_int_equal(newest(run, NULL), 2);
    assert_true(is_there("stays/checkpoints/step-1"));
    write_step(run, 3, 1);
    assert_false(is_there("stays/checkpoints/step-1"));
}

static void a_failed_write_leaves_the_old(void **state)
{
    const char *run = scratch_path("failed");
    json_t *none = json_object();
    char text[] = "x";

    (void)state;
    write_step(run, 1, 3);
    assert_int_equal(write_checkpoint(run, 2, none, 3, fill_and_fail, text), SR1_E_IO);
    assert_non_null(strstr(sr1_last_error(), "checkpoint of step 2: no room"));
    assert_int_equal(newest(run, NULL), 1);
    assert_false(sr1__path_exists(scratch_path("failed/checkpoints/step-2")));
    assert_false(sr1__path_exists(scratch_path("failed/checkpoints/step-2.tmp")));
    json_decref(none);
}

static long size_of(const char *path)
{
    FILE *f = fopen(path, "rb");
    long n;

    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    fclose(f);
    return n;
}

static void flip(const char *path, long at, int with)
{
    FILE *f = fopen(path, "r+b");
    int c;

    fseek(f, at, SEEK_SET);
    c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ with, f);
    fclose(f);
}

static int is_space(const char *path, long at)
{
    FILE *f = fopen(path, "rb");
    int c;

    fseek(f, at, SEEK_SET);
    c = fgetc(f);
    fclose(f);
    return c == ' ' || c == '\n';
}

/* Without file handles nothing is known of the newest: the one before it is not taken. */
static void one_that_cannot_be_read_is_not_torn(void **state)
{
    const char *run = scratch_path("unread");
    struct rlimit old, none;
    char *folder = NULL;
    json_t *found = NULL;
    int64_t step = 0;
    sr1_status st;

    (void)state;
    write_step(run, 1, 9);
    write_step(run, 2, 9);
    getrlimit(RLIMIT_NOFILE, &old);
    none = old;
    for (rlim_t n = 0; n < 64; n++) { /* more and more of the reading succeeds */
        none.rlim_cur = n;
        setrlimit(RLIMIT_NOFILE, &none);
        st = sr1__checkpoint_newest(run, &folder, &step, &found, NULL);
        setrlimit(RLIMIT_NOFILE, &old);
        if (st == SR1_OK)
            break;
        assert_int_equal(st, SR1_E_IO);
        assert_non_null(strstr(sr1_last_error(), "Too many open files"));
    }
    assert_int_equal(st, SR1_OK);
    assert_int_equal(step, 2);
    json_decref(found);
    sr1__free(folder);
}

static void the_log_says_which_file_is_torn(void **state)
{
    const char *run = scratch_path("named");

    (void)state;
    write_step(run, 1, 9);
    flip(scratch_path("named/checkpoints/step-1/model/weights"), 0, 1);
    logged[0] = '\0';
    sr1_log_set(on_log, NULL);
    assert_int_equal(newest(run, NULL), -1);
    sr1_log_set(NULL, NULL);
    assert_non_null(strstr(logged, "step-1 is torn"));
    assert_non_null(strstr(logged, "model/weights is not as it was written"));
}

/* `cp -r step-4 step-30`, to keep it. */
static void a_copy_under_another_number_is_kept(void **state)
{
    const char *run = scratch_path("copied");
    char command[1300];

    (void)state;
    write_step(run, 4, 1);
    snprintf(command, sizeof command,
             "cp -r %s/checkpoints/step-4 %s/checkpoints/step-30", run, run);
    assert_int_equal(system(command), 0);
    logged[0] = '\0';
    sr1_log_set(on_log, NULL);
    assert_int_equal(newest(run, NULL), 4);
    sr1_log_set(NULL, NULL);
    assert_non_null(
        strstr(logged, "step-30 is a copy of the checkpoint of step 4, passed"));
    assert_null(strstr(logged, "torn"));
    write_step(run, 6, 1);
    assert_true(is_there("copied/checkpoints/step-30/model/weights"));
    assert_false(is_there("copied/checkpoints/step-4"));
    assert_int_equal(newest(run, NULL), 6);
}

static void any_changed_byte_is_noticed(void **state)
{
    const char *run = scratch_path("flip");

    (void)state;
    write_step(run, 4, 3);
    write_step(run, 5, 3);
    for (size_t k = 0; k < 3; k++) {
        char path[600];
        int64_t torn = 0;

        snprintf(path, sizeof path, "%s/checkpoints/step-5/%s", run, names[k]);
        for (long at = 0, n = size_of(path); at < n; at++) {
            int with = 1 << (at % 8);

            flip(path, at, with);
            if (newest(run, &torn) == 5 && !is_space(path, at))
                fail_msg("byte %ld of %s changed and nobody noticed", at, names[k]);
            flip(path, at, with);
        }
        assert_int_equal(newest(run, &torn), 5);
        assert_int_equal(torn, 0);
    }
}

static void missing_short_and_added_files_are_noticed(void **state)
{
    const char *run = scratch_path("missing");
    char *folder = NULL;
    json_t *found = NULL;
    int64_t torn = 0, step = 0;

    (void)state;
    write_step(run, 1, 9);
    for (size_t k = 0; k < 3; k++) {
        char path[600];

        snprintf(path, sizeof path, "%s/checkpoints/step-2/%s", run, names[k]);
        write_step(run, 2, 9);
        assert_int_equal(remove(path), 0);
        assert_int_equal(newest(run, &torn), 1);
        write_step(run, 2, 9);
        assert_int_equal(truncate(path, size_of(path) - 2), 0);
        assert_int_equal(newest(run, &torn), 1);
        assert_int_equal(torn, 1);
    }
    write_step(run, 2, 9);
    put(scratch_path("missing/checkpoints/step-2"), "model/more", "x");
    assert_int_equal(sr1__checkpoint_newest(run, &folder, &step, &found, NULL),
                     SR1_E_STATE); /* it is not torn, and nothing older is taken for it */
    assert_non_null(strstr(sr1_last_error(), "model/more was added to it"));
    write_step(run, 2, 9);
    assert_int_equal(newest(run, &torn), 2);
    /* under another number it is not itself */
    assert_int_equal(rename(scratch_path("missing/checkpoints/step-2"),
                            scratch_path("missing/checkpoints/step-7")),
                     0);
    assert_int_equal(newest(run, &torn), 1);
}

static void other_names_are_ignored(void **state)
{
    static const char *const others[] = {"step-",
                                         "step-x",
                                         "step--1",
                                         "step-3.tmp",
                                         "step-3 ",
                                         "other",
                                         "step-99999999999999999999"};
    const char *run = scratch_path("names");
    int64_t torn = -1;

    (void)state;
    write_step(run, 1, 1);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char path[128];

        snprintf(path, sizeof path, "names/checkpoints/%s", others[i]);
        assert_int_equal(sr1__dir_make(scratch_path(path)), SR1_OK);
    }
    assert_int_equal(newest(run, &torn), 1);
    assert_int_equal(torn, 0);
    write_step(run, 2, 1);
    assert_int_equal(newest(run, NULL), 2);
    assert_true(sr1__path_exists(scratch_path("names/checkpoints/other")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_is_found_and_old_ones_go),
        cmocka_unit_test(torn_ones_ahead_are_not_counted_as_kept),
        cmocka_unit_test(a_copy_under_another_number_is_kept),
        cmocka_unit_test(temporary_folders_of_any_step_are_removed),
        cmocka_unit_test(an_old_one_that_stays_fails_no_write),
        cmocka_unit_test(a_failed_write_leaves_the_old),
        cmocka_unit_test(one_that_cannot_be_read_is_not_torn),
        cmocka_unit_test(the_log_says_which_file_is_torn),
        cmocka_unit_test(any_changed_byte_is_noticed),
        cmocka_unit_test(old_ones_go_after_it_is_told),
        cmocka_unit_test(missing_short_and_added_files_are_noticed),
        cmocka_unit_test(other_names_are_ignored),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
