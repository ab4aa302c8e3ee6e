/* The folder of a run: checkpoints by time, one trainer at a time, room on its disk, and
 * what a new run may replace. */
#include "runs.h"

#include "base/lock.h"
#include "train/plan.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The disk as the library sees it: this much is free, -1: what there really is. */
static int64_t free_bytes = -1;

int statvfs(const char *restrict path, struct statvfs *restrict fs)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return -1;
    memset(fs, 0, sizeof(*fs));
    fs->f_frsize = 1;
    fs->f_blocks = free_bytes < 0 ? 0 : 1u << 30;
    fs->f_bavail = free_bytes < 0 ? 0 : (fsblkcnt_t)free_bytes;
    return 0;
}

static int has(const char *name)
{
    return sr1__path_exists(scratch_path(name));
}

static char noted[4096];

static void on_note(void *user, const char *text)
{
    (void)user;
    snprintf(noted + strlen(noted), sizeof noted - strlen(noted), "%s\n", text);
}

/* ---- checkpoints by time ---- */

static void time_alone_brings_checkpoints(void **state)
{
    char name[64];

    (void)state;
    run_whole(RUN("timed", "save_interval=0", "save_interval_minutes=1e-9",
                  "keep_checkpoints=0"));
    for (int step = 1; step <= 6; step++) {
        snprintf(name, sizeof name, "timed/checkpoints/step-%d/state.json", step);
        assert_true(has(name));
    }
    run_whole(RUN("untimed", "save_interval=0", "save_interval_minutes=0",
                  "keep_checkpoints=0"));
    assert_false(has("untimed/checkpoints/step-5"));
    same_run("timed", "untimed"); /* a checkpoint changes nothing */
    run_whole(RUN("seldom", "save_interval=0", "keep_checkpoints=0"));
    assert_false(has("seldom/checkpoints/step-5")); /* 15 minutes have not passed */
    assert_true(has("seldom/checkpoints/step-6"));
}

/* ---- one at a time ---- */

static sr1_status move_folder(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)planned;
    if (r->step == 3) {
        char from[PATH_MAX];

        snprintf(from, sizeof from, "%s", scratch_path("left"));
        assert_int_equal(rename(from, scratch_path("moved")), 0);
        if (*(int *)user)
            OK(sr1__dir_make(scratch_path("left")));
    }
    return SR1_OK;
}

/* Nothing is written where the folder was, even if another one is there now; from where
 * it is, the run goes on. */
static void a_folder_that_is_moved_ends_the_run(void **state)
{
    (void)state;
    for (int replaced = 0; replaced < 2; replaced++) {
        sr1_run_callbacks cb = {
            .struct_size = sizeof cb, .user = &replaced, .step = move_folder};
        sr1_trainer *tr =
            open_trainer(RUN("left", "save_interval=2", "save_interval_minutes=0"));

        REFUSED(sr1_trainer_run(tr, &cb), SR1_E_IO, "was moved");
        sr1_trainer_free(tr);
        tr = NULL;
        assert_true(replaced ? rmdir(scratch_path("left")) == 0 : !has("left"));
        OK(sr1_trainer_resume(&tr, scratch_path("moved"), NULL));
        assert_int_equal(sr1_trainer_steps_saved(tr), 2);
        OK(sr1_trainer_run(tr, NULL));
        sr1_trainer_free(tr);
        OK(sr1__dir_remove(scratch_path("moved")));
    }
}

static sr1_status look_from_outside(void *user, const sr1_step_report *r, int64_t planned)
{
    sr1_trainer *tr = NULL;
    char pid[32];

    (void)planned;
    if (r->step != 2)
        return SR1_OK;
    snprintf(pid, sizeof pid, "process %ld on ", (long)getpid());
    REFUSED(sr1_trainer_resume(&tr, scratch_path("shared"), NULL), SR1_E_CONFIG, pid);
    tr = open_trainer(RUN("shared", "update_times=1"));
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, pid);
    sr1_trainer_free(tr);
    ++*(int *)user;
    return SR1_OK;
}

static void a_folder_has_one_trainer_at_a_time(void **state)
{
    int looked = 0;
    sr1_run_callbacks cb = {
        .struct_size = sizeof cb, .user = &looked, .step = look_from_outside};
    sr1_trainer *tr = open_trainer(RUN("shared", "update_times=1")), *again = NULL;

    (void)state;
    OK(sr1_trainer_run(tr, &cb));
    assert_int_equal(looked, 1);
    run_whole(RUN("alone", "update_times=1"));
    same_run("shared", "alone"); /* those who looked wrote nothing */
    /* when the run has ended its folder is free, though the trainer is there yet */
    OK(sr1_trainer_resume(&again, scratch_path("shared"), NULL));
    assert_int_equal(sr1_trainer_steps_saved(again), 6);
    REFUSED(sr1_trainer_resume(&tr, scratch_path("shared"), NULL), SR1_E_CONFIG,
            "is training in it");
    sr1_trainer_free(again);
    sr1_trainer_free(tr);
    again = NULL;
    OK(sr1_trainer_resume(&again, scratch_path("shared"), NULL));
    sr1_trainer_free(again);
}

/* What another wrote into the lock is a text like any other. */
static void a_hostile_holder_is_only_a_text(void **state)
{
    sr1_trainer *tr = open_trainer(RUN("hostile", "update_times=1"));
    char text[4000];
    struct sr1__lock *held = NULL;
    char holder[SR1__LOCK_HOLDER];
    int fd;

    (void)state;
    OK(sr1__dir_make(scratch_path("hostile")));
    OK(sr1__lock_take(&held, scratch_path("hostile/.lock"), holder));
    memset(text, '\033', sizeof text);
    memcpy(text + 10, "%s%n me", 7);
    fd = open(scratch_path("hostile/.lock"), O_WRONLY);
    assert_int_equal(pwrite(fd, text, sizeof text, 0), sizeof text);
    close(fd);
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, ": %s%n me is training");
    sr1__lock_release(held);
    sr1_trainer_free(tr);
}

/* ---- what a new run may replace ---- */

static sr1_status fail_early(void *self, const sr1_trajectory *const *t, size_t n,
                             double *out)
{
    (void)self, (void)t, (void)n, (void)out;
    return sr1_set_error(SR1_E_CALLBACK, "KeyError");
}

static void fail_at_once(const char *run, const char *pair)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops, .name = "mine", .score = fail_early};
    sr1_trainer *tr = open_trainer(
        RUN(run, "update_times=1", pair, "validation_split=0.3", "tensorboard=true"));

    OK(sr1_trainer_add_reward(tr, &ops, NULL, 1.0));
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CALLBACK, "KeyError");
    assert_int_equal(sr1_trainer_steps_saved(tr), -1);
    sr1_trainer_free(tr);
}

static void a_run_without_work_is_replaced(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) /* in a notebook: try, mend, try */
        fail_at_once("tried", "learning_rate=1e-4");
    (void)scratch_file("tried/notes.txt", "mine", 0);
    run_whole(RUN("tried", "update_times=1"));
    same_run("tried", "alone");
    assert_true(has("tried/notes.txt"));
    assert_false(has("tried/tensorboard")); /* of the tries; this run has none */
}

/* What others put into the folders of a run that failed is not removed with it. */
static void files_of_others_outlive_a_failed_run(void **state)
{
    static const char *const names[] = {"checkpoints/best", "logs/slurm-7.out",
                                        "tensorboard/mine.txt"};

    (void)state;
    fail_at_once("shared-place", "learning_rate=1e-4");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        sr1_trainer *tr = open_trainer(RUN("shared-place", "update_times=1"));

        snprintf(path, sizeof path, "shared-place/%s", names[i]);
        *strrchr(path, '/') = '\0';
        OK(sr1__dir_make(scratch_path(path)));
        snprintf(path, sizeof path, "shared-place/%s", names[i]);
        (void)scratch_file(path, "mine", 0);
        REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, "which no run wrote");
        sr1_trainer_free(tr);
        assert_true(has(path));
        assert_int_equal(remove(scratch_path(path)), 0);
    }
    run_whole(RUN("shared-place", "update_times=1"));
}

static void a_run_with_work_is_never_replaced(void **state)
{
    static const char *const left[] = {"metrics.jsonl", "trajectories.jsonl",
                                       "checkpoints/step-3/x", "model/x"};
    static const char *const text[] = {"{\"step\": 1}\n", "{}\n", "x", "x"};

    (void)state;
    for (size_t i = 0; i < sizeof left / sizeof *left; i++) {
        char name[64], path[128];
        sr1_trainer *tr;

        snprintf(name, sizeof name, "worked-%zu", i);
        fail_at_once(name, "learning_rate=1e-4");
        snprintf(path, sizeof path, "%s/%s", name, left[i]);
        *strrchr(path, '/') = '\0';
        OK(sr1__dir_make(scratch_path(path)));
        snprintf(path, sizeof path, "%s/%s", name, left[i]);
        (void)scratch_file(path, text[i], 0);
        tr = open_trainer(RUN(name, "update_times=1"));
        REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, "already holds a run");
        sr1_trainer_free(tr);
        assert_true(has(path));
    }
    /* a validation before the first step is no step */
    fail_at_once("measured", "learning_rate=1e-4");
    (void)scratch_file("measured/metrics.jsonl", "{\"step\": 0, \"val/f1\": 0.5}\n", 0);
    run_whole(RUN("measured", "update_times=1"));
    same_run("measured", "alone");
}

/* Its model is nowhere: what is refused was found before it would be opened. */
static void a_run_is_refused_before_anything_is_opened(void **state)
{
    static const char *const wrong[][2] = {
        {"max_steps=7", "already holds a run"},
        {"train_file=", "train_file is not set"},
        {"top_p=0.5", "top_p and top_k cut"},
    };
    sr1_config *c;

    (void)state;
    run_whole(RUN("checked", "update_times=1"));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        c = RUN("checked", "model_name_or_path=/nowhere", wrong[i][0]);
        REFUSED(sr1_trainer_check(c), SR1_E_CONFIG, wrong[i][1]);
        sr1_config_free(c);
    }
    c = RUN("unchecked", "model_name_or_path=/nowhere", "mock_knowledge=");
    OK(sr1_trainer_check(c)); /* tiny_config names an engine */
    assert_false(has("unchecked"));
    sr1_config_free(c);
    OK(sr1_config_new(&c));
    OK(sr1_config_set(c, "train_file", "x.jsonl"));
    REFUSED(sr1_trainer_check(c), SR1_E_CONFIG, "search_engine is not set");
    OK(sr1_config_set(c, "environment", "none"));
    OK(sr1_config_set(c, "out", scratch_path("unchecked")));
    OK(sr1_trainer_check(c));
    sr1_config_free(c);
    REFUSED(sr1_trainer_check(NULL), SR1_E_INVALID, "config");
}

/* Names of ours in a folder that is none of a run. */
static void files_of_others_are_never_replaced(void **state)
{
    static const char *const names[] = {"config.json", "run.json", "metrics.jsonl",
                                        "checkpoints/mine", "tensorboard/events.1"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64], path[128];
        sr1_trainer *tr;

        snprintf(name, sizeof name, "foreign-%zu", i);
        snprintf(path, sizeof path, "%s/%s", name, names[i]);
        *strrchr(path, '/') = '\0';
        OK(sr1__dir_make(scratch_path(name)));
        OK(sr1__dir_make(scratch_path(path)));
        snprintf(path, sizeof path, "%s/%s", name, names[i]);
        (void)scratch_file(path, "{\"architectures\": []}", 0);
        tr = open_trainer(RUN(name, "update_times=1"));
        REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, "which no run there wrote");
        sr1_trainer_free(tr);
        assert_true(has(path));
    }
}

/* A run neither lies among data nor takes a file for a folder. */
static void folders_of_data_are_no_run_folders(void **state)
{
    static const char *const names[] = {"rows.jsonl", "corpus.bm25", "model.safetensors"};
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .note = on_note};
    sr1_trainer *tr;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64], path[128];
        sr1_config *c;

        snprintf(name, sizeof name, "data-%zu", i);
        snprintf(path, sizeof path, "%s/%s", name, names[i]);
        OK(sr1__dir_make(scratch_path(name)));
        (void)scratch_file(path, "x", 0);
        c = RUN(name, "update_times=1");
        REFUSED(sr1_trainer_check(c), SR1_E_CONFIG, names[i]);
        tr = open_trainer(c);
        REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, "is a folder of data");
        sr1_trainer_free(tr);
    }
    OK(sr1__dir_make(scratch_path("logs")));
    (void)scratch_file("logs/slurm.out", "x", 0);
    tr = open_trainer(RUN("logs", "update_times=1"));
    OK(sr1_trainer_run(tr, &cb));
    assert_non_null(strstr(noted, "holds what no run wrote (slurm.out; 1 in all)"));
    sr1_trainer_free(tr);
    noted[0] = '\0';
    tr = open_trainer(RUN("empty", "update_times=1"));
    OK(sr1_trainer_run(tr, &cb));
    assert_null(strstr(noted, "no run wrote"));
    sr1_trainer_free(tr);
    for (size_t i = 0; i < 2; i++) {
        sr1_config *c =
            RUN(i ? "logs/slurm.out/run" : "logs/slurm.out", "update_times=1");

        REFUSED(sr1_trainer_check(c), SR1_E_CONFIG, "slurm.out is a file, and a run");
        tr = open_trainer(c);
        REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, "slurm.out is a file");
        sr1_trainer_free(tr);
    }
}

/* ---- room ---- */

static int64_t size_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(scratch_path(path), &st), 0);
    return (int64_t)st.st_size;
}

static void a_plan_says_what_a_checkpoint_takes(void **state)
{
    sr1_trainer *tr = open_trainer(RUN("planned", "update_times=1", "dtype=bf16"));
    sr1_run_plan plan = {.struct_size = sizeof plan};
    int64_t model, whole;

    (void)state;
    OK(sr1_trainer_plan(tr, &plan));
    assert_string_equal(plan.device, "cpu");
    assert_string_equal(plan.dtype, "bf16");
    assert_true(plan.rows == 7 && plan.steps == 6 && plan.steps_done == 0);
    assert_int_equal(plan.disk_free, -1);
    OK(sr1_trainer_run(tr, NULL));
    assert_int_equal(sr1_trainer_steps_saved(tr), 6);
    model = size_of("planned/model/model.safetensors");
    whole = size_of("planned/checkpoints/step-6/model/model.safetensors") +
            size_of("planned/checkpoints/step-6/optimizer/model.safetensors");
    /* without the headers of the files */
    assert_in_range(model - plan.model_bytes, 1, 20000);
    assert_in_range(whole - plan.checkpoint_bytes, 1, 60000);
    assert_int_equal(plan.disk_bytes, 4 * plan.checkpoint_bytes + plan.model_bytes);
    sr1_trainer_free(tr);
}

static void a_record_that_fails_leaks_nothing(void **state)
{
    sr1_trainer *tr = open_trainer(RUN("recorded", "update_times=1"));
    sr1_run_callbacks cb = {.struct_size = sizeof cb};
    sr1_status st = SR1_E_NOMEM;

    (void)state;
    OK(sr1__dir_make(scratch_path("recorded")));
    for (int64_t i = 1; st != SR1_OK; i++) {
        int64_t live = sr1__mem_live();

        sr1__mem_fail_at(i);
        st = sr1__record_begin(tr, &cb);
        sr1__mem_fail_at(0);
        json_decref(tr->starts);
        tr->starts = NULL;
        if (sr1__mem_live() != live)
            fail_msg("allocation %d: leaks", (int)i);
        if (i > 1000)
            fail();
    }
    sr1_trainer_free(tr);
}

/* Checkpoints at once in the plan of a run that is made by these keys. sr1-train --plan,
 * which loads nothing, tells the same. */
static int64_t at_once(sr1_config *c)
{
    sr1_trainer *tr = open_trainer(c);
    sr1_run_plan plan = {.struct_size = sizeof plan};
    sr1_plan *before = NULL;

    OK(sr1_trainer_plan(tr, &plan));
    OK(sr1_plan_new(&before, sr1_trainer_config(tr), 0));
    assert_true(before->figures.disk == (double)plan.disk_bytes);
    sr1_plan_free(before);
    sr1_trainer_free(tr);
    return plan.disk_bytes / plan.checkpoint_bytes;
}

static int64_t at_once_from_here(const char *run)
{
    sr1_run_plan plan = {.struct_size = sizeof plan};
    sr1_trainer *tr = NULL;

    OK(sr1_trainer_resume(&tr, scratch_path(run), NULL));
    OK(sr1_trainer_plan(tr, &plan));
    sr1_trainer_free(tr);
    return plan.disk_bytes / plan.checkpoint_bytes;
}

/* Of six steps. All are kept by 0, which time may make one a step. */
static void a_plan_counts_checkpoints(void **state)
{
    int64_t at = 5;
    sr1_trainer *tr;

    (void)state;
#define AT_ONCE(keep, every, minutes, ...)                                               \
    at_once(RUN("count", "update_times=1", "save_final_model=false",                     \
                "keep_checkpoints=" #keep, "save_interval=" #every,                      \
                "save_interval_minutes=" #minutes, __VA_ARGS__))
#define BY_BEST                                                                          \
    "validation_split=0.3", "validate_interval=2", "metric_for_best_model=val/reward"
    assert_int_equal(AT_ONCE(0, 2, 0, NULL), 4);
    assert_int_equal(AT_ONCE(0, 0, 0, NULL), 1);
    assert_int_equal(AT_ONCE(0, 0, 10, NULL), 6);
    assert_int_equal(AT_ONCE(2, 0, 10, NULL), 3);
    assert_int_equal(AT_ONCE(2, 2, 0, NULL), 3);
    assert_int_equal(AT_ONCE(9, 2, 0, NULL), 4);
    /* the best one too, and each validation may be better than those before it */
    assert_int_equal(AT_ONCE(0, 0, 0, BY_BEST), 4);
    assert_int_equal(AT_ONCE(0, 1, 0, BY_BEST), 7);
    assert_int_equal(AT_ONCE(1, 1, 0, BY_BEST), 3);
    /* with those of before: step 2 and step 4 */
    tr = open_trainer(RUN("counted", "update_times=1", "save_final_model=false",
                          "save_interval_minutes=0", "keep_checkpoints=0"));
    run_until(tr, at);
    sr1_trainer_free(tr);
    assert_int_equal(at_once_from_here("counted"), 4);
}

static void room_is_looked_for_before_the_first_step(void **state)
{
    sr1_trainer *tr = open_trainer(RUN("small", "update_times=1"));
    sr1_run_plan plan = {.struct_size = sizeof plan};
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .note = on_note};

    (void)state;
    OK(sr1_trainer_plan(tr, &plan));
    free_bytes = plan.checkpoint_bytes + plan.model_bytes - 1;
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG, "a checkpoint takes");
    assert_false(has("small"));
    sr1_trainer_free(tr);
    tr = open_trainer(RUN("small", "update_times=1"));
    free_bytes++;
    OK(sr1_trainer_run(tr, &cb));
    assert_non_null(strstr(noted, "the run may take"));
    sr1_trainer_free(tr);
    noted[0] = '\0';
    tr = open_trainer(RUN("large", "update_times=1"));
    free_bytes = plan.disk_bytes;
    OK(sr1_trainer_run(tr, &cb));
    assert_null(strstr(noted, "the run may take"));
    free_bytes = -1;
    sr1_trainer_free(tr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_alone_brings_checkpoints),
        cmocka_unit_test(a_folder_has_one_trainer_at_a_time),
        cmocka_unit_test(a_folder_that_is_moved_ends_the_run),
        cmocka_unit_test(a_hostile_holder_is_only_a_text),
        cmocka_unit_test(a_run_without_work_is_replaced),
        cmocka_unit_test(files_of_others_outlive_a_failed_run),
        cmocka_unit_test(a_run_with_work_is_never_replaced),
        cmocka_unit_test(a_run_is_refused_before_anything_is_opened),
        cmocka_unit_test(folders_of_data_are_no_run_folders),
        cmocka_unit_test(files_of_others_are_never_replaced),
        cmocka_unit_test(a_plan_says_what_a_checkpoint_takes),
        cmocka_unit_test(a_record_that_fails_leaks_nothing),
        cmocka_unit_test(a_plan_counts_checkpoints),
        cmocka_unit_test(room_is_looked_for_before_the_first_step),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
