/* The best validation of a run, its checkpoint and its model, and the keys that end a run
 * early. The figure is mostly the learning rate, which falls by a schedule that is known:
 * the first validation is the best one. */
#include "runs.h"

#include "train/checkpoint.h"

#include <math.h>
#include <unistd.h>

#define FALLING(name, ...)                                                               \
    RUN(name, "update_times=1", "validation_split=0.3", "validate_interval=1",           \
        "lr_schedule=linear", "metric_for_best_model=learning_rate", "save_interval=0",  \
        "save_interval_minutes=0", "keep_checkpoints=1", __VA_ARGS__)

static sr1_status resume_by(sr1_trainer **out, const char *run, const char *pair)
{
    sr1_resume_options o = {
        .struct_size = sizeof o, .pairs = &pair, .n_pairs = pair ? 1 : 0};

    *out = NULL;
    return sr1_trainer_resume(out, scratch_path(run), &o);
}

static void go_on_by(const char *run, const char *pair)
{
    sr1_trainer *tr = NULL;

    OK(resume_by(&tr, run, pair));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

static json_t *load_in_run(const char *run, const char *file)
{
    size_t n;
    char *text = slurp(run, file, &n);
    json_t *o = NULL;

    OK(sr1__json_parse(&o, text, n, file));
    sr1_free(text);
    return o;
}

/* A member of the last start in run.json, new. */
static json_t *last_start(const char *run, const char *member)
{
    json_t *record = load_in_run(run, "run.json");
    const json_t *starts = json_object_get(record, "starts");
    json_t *found = json_incref(
        json_object_get(json_array_get(starts, json_array_size(starts) - 1), member));

    json_decref(record);
    return found;
}

static void best_in_record(const char *run, int64_t step)
{
    json_t *best = last_start(run, "best");

    assert_int_equal(json_integer_value(json_object_get(best, "step")), step);
    json_decref(best);
}

static int has_step(const char *run, int64_t step)
{
    char path[600];

    snprintf(path, sizeof path, "%s/checkpoints/step-%d", scratch_path(run), (int)step);
    return sr1__path_is_dir(path);
}

static void policy_of(const char *folder, const char *want)
{
    sr1_config *c = NULL;
    const char *path = NULL;

    OK(sr1_config_new(&c));
    OK(sr1_config_load_run(c, scratch_path(folder)));
    OK(sr1_config_get_str(c, "model_name_or_path", &path));
    assert_string_equal(path, scratch_path(want));
    sr1_config_free(c);
}

/* ---- which is the best ---- */

static void follow_figures(const json_t *row)
{
    static sr1_trainer tr;
    const json_t *figures = json_object_get(row, "figures");
    int64_t patience =
        json_integer_value(json_object_get(row, "early_stopping_patience"));

    tr = (sr1_trainer){0};
    tr.set.best_metric = "val/x";
    tr.set.greater_is_better = json_is_true(json_object_get(row, "greater_is_better"));
    tr.set.early_stopping_threshold =
        json_number_value(json_object_get(row, "early_stopping_threshold"));
    tr.set.stops[SR1__STOP_PATIENCE] = (double)patience;
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const json_t *after = json_array_get(json_object_get(row, "after"), i);
        json_t *validation = json_pack("{s:O}", "val/x", json_array_get(figures, i));

        tr.step = (int64_t)i + 1;
        OK(sr1__best_take(&tr, validation));
        (void)sr1__stop_by(&tr, SR1__STOP_PATIENCE, (double)tr.best.worse);
        assert_int_equal(tr.best.step, json_integer_value(json_array_get(after, 0)));
        assert_true(tr.best.value == json_number_value(json_array_get(after, 1)));
        assert_int_equal(tr.best.worse, json_integer_value(json_array_get(after, 2)));
        assert_int_equal(tr.stopped.by == SR1__STOP_PATIENCE,
                         json_is_true(json_array_get(after, 3)));
        json_decref(validation);
    }
}

static void best_and_patience_equal_transformers(void **state)
{
    char path[600];
    sr1_lines *l = NULL;
    const char *text;
    size_t n, rows = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/early_stopping.jsonl",
             getenv("SR1_SRC"));
    OK(sr1_lines_open(&l, path));
    for (;; rows++) {
        json_t *row = NULL;

        OK(sr1_lines_next(l, &text, &n));
        if (!text)
            break;
        OK(sr1__json_parse(&row, text, n, path));
        follow_figures(row);
        json_decref(row);
    }
    assert_int_equal(rows, 60);
    sr1_lines_free(l);
}

/* Neither better nor worse than anything. */
static void what_is_no_number_is_never_the_best(void **state)
{
    static sr1_trainer tr;
    json_t *none = json_pack("{s:n}", "val/x"), *one = json_pack("{s:f}", "val/x", 0.5);

    (void)state;
    tr.set.best_metric = "val/x";
    tr.set.greater_is_better = 1;
    OK(sr1__best_take(&tr, one)); /* before the first step: no checkpoint has it */
    assert_int_equal(tr.best.step, 0);
    for (tr.step = 1; tr.step < 5; tr.step++)
        OK(sr1__best_take(&tr, tr.step == 3 ? one : none));
    assert_int_equal(tr.best.step, 3);
    assert_int_equal(tr.best.worse, 1);
    json_decref(none);
    json_decref(one);
}

static void a_loss_is_better_when_it_is_less(void **state)
{
    static const struct {
        const char *metric, *greater;
        int32_t is;
    } rows[] = {{"val/exact_match", NULL, 1},
                {"loss", NULL, 0},
                {"actor/pg_loss", NULL, 0},
                {"loss", "greater_is_better=true", 1},
                {"val/tokens", "greater_is_better=false", 0}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char metric[80];
        struct sr1__settings set;
        sr1_config *c;

        snprintf(metric, sizeof metric, "metric_for_best_model=%s", rows[i].metric);
        c = tiny_config("model", metric, "validate_interval=1", rows[i].greater, NULL);
        OK(sr1__settings_read(&set, c));
        assert_int_equal(set.greater_is_better, rows[i].is);
        sr1_config_free(c);
    }
}

/* ---- its checkpoint ---- */

/* Which one is best is found in metrics.jsonl. */
static void the_best_checkpoint_stays(void **state)
{
    json_t *rows;
    char link[64] = "", want[64];
    int64_t best = 0;
    double most = -INFINITY;

    (void)state;
    run_whole(RUN("kept", "update_times=1", "validation_split=0.3", "validate_interval=1",
                  "metric_for_best_model=val/tokens", "save_interval=1",
                  "keep_checkpoints=1"));
    rows = metrics("kept");
    for (size_t i = 0; i < 6; i++)
        if (metric(rows, i, "val/tokens") > most) {
            most = metric(rows, i, "val/tokens");
            best = (int64_t)i + 1;
        }
    json_decref(rows);
    for (int64_t i = 1; i <= 6; i++)
        assert_int_equal(has_step("kept", i), i == best || i == 6);
    best_in_record("kept", best);
    snprintf(want, sizeof want, "checkpoints/step-%d", (int)best);
    assert_true(readlink(scratch_path("kept/best"), link, sizeof link - 1) > 0);
    assert_string_equal(link, want);
}

/* No key asks for checkpoints: the best one is written all the same. */
static void run_best_is_that_checkpoint(void **state)
{
    json_t *best;

    (void)state;
    run_whole(FALLING("first-is-best", "save_final_model=true"));
    assert_true(has_step("first-is-best", 1) && has_step("first-is-best", 6));
    assert_false(has_step("first-is-best", 2));
    best = last_start("first-is-best", "best");
    assert_string_equal(json_string_value(json_object_get(best, "metric")),
                        "learning_rate");
    tiny_near(json_number_value(json_object_get(best, "value")), 1e-3, 1e-12);
    json_decref(best);
    policy_of("first-is-best", "first-is-best/model");
    policy_of("first-is-best/best", "first-is-best/best/model");
    policy_of("first-is-best/best/model", "first-is-best/best/model");
    same_file("first-is-best/best", "first-is-best/checkpoints/step-1",
              "model/model.safetensors");
}

static char warned[512];

static void on_log(void *user, int32_t level, const char *text)
{
    (void)user, (void)level;
    if (strstr(text, "is no link to a checkpoint"))
        snprintf(warned, sizeof warned, "%s", text);
}

/* A file of the user's that has the name of the link. */
static void what_is_no_link_stays(void **state)
{
    size_t n;
    char *text;

    (void)state;
    run_whole(RUN("plain", "update_times=1", "max_steps=2"));
    scratch_file("plain/best", "notes", 0);
    go_on_by("plain", "max_steps=3"); /* nothing is compared, nothing is said */
    run_whole(FALLING("noted", "max_steps=2"));
    assert_int_equal(unlink(scratch_path("noted/best")), 0);
    scratch_file("noted/best", "notes", 0);
    sr1_log_set(on_log, NULL);
    go_on_by("noted", "max_steps=3");
    sr1_log_set(NULL, NULL);
    assert_non_null(strstr(warned, "the best checkpoint is checkpoints/step-1"));
    for (int i = 0; i < 2; i++) {
        text = slurp(i ? "noted" : "plain", "best", &n);
        assert_string_equal(text, "notes");
        sr1_free(text);
    }
}

static void the_model_at_the_end_is_the_best_one(void **state)
{
    json_t *of;

    (void)state;
    run_whole(FALLING("loads-best", "load_best_model_at_end=true"));
    same_file("loads-best", "loads-best/checkpoints/step-1", "model/model.safetensors");
    same_file("loads-best", "loads-best/checkpoints/step-1", "model/tokenizer.json");
    same_file("first-is-best", "loads-best/checkpoints/step-6",
              "model/model.safetensors"); /* nothing is lost */
    of = last_start("loads-best", "model_step");
    assert_int_equal(json_integer_value(of), 1);
    json_decref(of);
    policy_of("loads-best", "loads-best/model");
    /* where it went on, model/ is of before; at its new end it is the best one again */
    OK(sr1__dir_remove(scratch_path("loads-best/model/model.safetensors")));
    go_on_by("loads-best", "max_steps=7");
    policy_of("loads-best", "loads-best/model");
    same_file("loads-best", "loads-best/checkpoints/step-1", "model/model.safetensors");
}

/* Its files are compared with what was written before they are copied. */
static void a_damaged_best_one_is_not_taken(void **state)
{
    sr1_trainer *tr = open_trainer(
        FALLING("damaged", "load_best_model_at_end=true", "save_interval=3"));
    json_t *of;

    (void)state;
    run_until(tr, 4);
    sr1_trainer_free(tr);
    assert_int_equal(
        truncate(scratch_path("damaged/checkpoints/step-1/model/model.safetensors"), 99),
        0);
    go_on_by("damaged", NULL);
    of = last_start("damaged", "model_step");
    assert_int_equal(json_integer_value(of), 6);
    json_decref(of);
    same_file("damaged", "first-is-best", "model/model.safetensors");
}

/* ---- resuming ---- */

static void same_last_state(const char *a, const char *b)
{
    json_t *x = load_in_run(a, "checkpoints/step-6/state.json");
    json_t *y = load_in_run(b, "checkpoints/step-6/state.json");
    static const char *const members[] = {"best", "stopped"};

    for (size_t i = 0; i < 2; i++) {
        const json_t *p = json_object_get(json_object_get(x, "state"), members[i]);
        const json_t *q = json_object_get(json_object_get(y, "state"), members[i]);

        assert_non_null(p);
        assert_true(json_equal(p, q));
    }
    json_decref(x);
    json_decref(y);
}

static void a_resumed_run_knows_its_best(void **state)
{
    (void)state;
    run_whole(FALLING("uncut", "early_stopping_patience=5", "save_interval=1"));
    for (int at = 2; at <= 5; at++) {
        char name[32];
        sr1_trainer *tr;

        snprintf(name, sizeof name, "cut-%d", at);
        tr = open_trainer(FALLING(name, "early_stopping_patience=5", "save_interval=1"));
        run_until(tr, at);
        sr1_trainer_free(tr);
        go_on_by(name, NULL);
        same_run("uncut", name);
        same_last_state("uncut", name);
        best_in_record(name, 1);
        assert_true(has_step(name, 1));
    }
}

static sr1_status fail_step_4(void *user, int64_t step, const char *const *names,
                              const double *values, size_t n)
{
    (void)user, (void)names, (void)values, (void)n;
    return step == 4 ? sr1_set_error(SR1_E_IO, "the figures have nowhere to go") : SR1_OK;
}

/* The validation is made again, and counts once. */
static void a_validation_made_twice_counts_once(void **state)
{
    sr1_trainer *tr =
        open_trainer(FALLING("twice", "early_stopping_patience=5", "save_interval=1"));

    (void)state;
    OK(sr1_trainer_set_metric_sink(tr, fail_step_4, NULL));
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_IO, "nowhere to go");
    sr1_trainer_free(tr);
    tr = NULL;
    OK(resume_by(&tr, "twice", NULL));
    assert_int_equal(sr1_trainer_steps_done(tr), 4);
    run_until(tr, 5); /* and that of step 4 has it when it is written again */
    sr1_trainer_free(tr);
    go_on_by("twice", NULL);
    same_run("uncut", "twice");
    same_last_state("uncut", "twice");
}

static void another_figure_begins_anew(void **state)
{
    sr1_trainer *tr = NULL;

    (void)state;
    run_whole(FALLING("other", "max_steps=3"));
    OK(resume_by(&tr, "other", "metric_for_best_model=val/reward"));
    assert_int_equal(tr->best.step, 0);
    sr1_trainer_free(tr);
    OK(resume_by(&tr, "other", "greater_is_better=false"));
    assert_int_equal(tr->best.step, 0);
    sr1_trainer_free(tr);
    OK(resume_by(&tr, "other", NULL));
    assert_int_equal(tr->best.step, 1);
    sr1_trainer_free(tr);
    /* and so where the checkpoint is gone */
    OK(sr1__dir_remove(scratch_path("other/checkpoints/step-1")));
    OK(resume_by(&tr, "other", "max_steps=4"));
    assert_int_equal(tr->best.step, 0);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    best_in_record("other", 4);
}

/* ---- the end ---- */

static void ended_by(const char *run, int64_t step, const char *key, const char *why)
{
    sr1_run_plan plan = {.struct_size = sizeof plan};
    json_t *by = last_start(run, "stopped_by"), *outcome = last_start(run, "outcome");
    sr1_trainer *tr = NULL;

    assert_string_equal(json_string_value(json_object_get(by, "key")), key);
    assert_string_equal(json_string_value(json_object_get(by, "why")), why);
    assert_string_equal(json_string_value(outcome), "done");
    json_decref(by);
    json_decref(outcome);
    assert_true(has_step(run, step) && !has_step(run, step + 1));
    assert_true(sr1__dir_has(scratch_path(run), "model/model.safetensors"));
    /* it is over, however many steps are asked for */
    OK(resume_by(&tr, run, "max_steps=9"));
    assert_int_equal(sr1_trainer_steps_planned(tr), step);
    OK(sr1_trainer_plan(tr, &plan));
    assert_string_equal(plan.stopped_by, key);
    assert_string_equal(plan.stopped_why, why);
    sr1_trainer_free(tr);
}

static void goes_on_by(const char *run, const char *pair)
{
    sr1_trainer *tr = NULL;

    OK(resume_by(&tr, run, pair));
    assert_int_equal(sr1_trainer_steps_planned(tr), 6);
    sr1_trainer_free(tr);
}

static void patience_ends_a_run(void **state)
{
    (void)state;
    run_whole(FALLING("patient", "early_stopping_patience=2", "log_interval=9"));
    ended_by("patient", 3, "early_stopping_patience",
             "validations without a better figure: 2 reached early_stopping_patience");
    goes_on_by("patient", "early_stopping_patience=0");
    goes_on_by("patient", "early_stopping_patience=3");
    best_in_record("patient", 1);
    /* gains that are too small are none: each step is the best one, and none is better */
    run_whole(FALLING("small-gains", "greater_is_better=false",
                      "early_stopping_patience=4", "early_stopping_threshold=1"));
    ended_by("small-gains", 5, "early_stopping_patience",
             "validations without a better figure: 4 reached early_stopping_patience");
    best_in_record("small-gains", 5);
}

static void entropy_below_its_bound_ends_a_run(void **state)
{
    sr1_run_plan plan = {.struct_size = sizeof plan};
    char why[128], pair[64];
    json_t *rows;
    sr1_trainer *tr;

    (void)state;
    run_whole(RUN("unsure", "update_times=1", "max_steps=2"));
    rows = metrics("unsure");
    /* as much as the bound is not below it */
    snprintf(pair, sizeof pair, "stop_below_entropy=%.17g", metric(rows, 0, "entropy"));
    tr = open_trainer(RUN("at-bound", "update_times=1", "max_steps=1", pair));
    OK(sr1_trainer_run(tr, NULL));
    OK(sr1_trainer_plan(tr, &plan));
    assert_string_equal(plan.stopped_by, "");
    sr1_trainer_free(tr);
    run_whole(RUN("sure", "update_times=1", "stop_below_entropy=50", "log_interval=4"));
    snprintf(why, sizeof why, "an entropy of %.4f reached stop_below_entropy",
             metric(rows, 0, "entropy"));
    json_decref(rows);
    ended_by("sure", 1, "stop_below_entropy", why);
    rows = metrics("sure"); /* the last step has its line, whatever log_interval is */
    assert_int_equal(json_array_size(rows), 1);
    json_decref(rows);
    goes_on_by("sure", "stop_below_entropy=0");
}

/* in: where the KL is subtracted, and metric: what it is called there. */
static void kl_ends(const char *in, const char *metric_name)
{
    char name[32], limit[64], why[128], key[32];
    double bound;
    json_t *rows;

    snprintf(key, sizeof key, "kl_in=%s", in);
    snprintf(name, sizeof name, "free-%s", in);
    run_whole(RUN(name, key, "beta=0.1", "max_steps=3"));
    rows = metrics(name);
    bound = fmax(metric(rows, 0, metric_name), 0.5 * metric(rows, 1, metric_name));
    assert_true(metric(rows, 1, metric_name) > bound);
    snprintf(limit, sizeof limit, "stop_at_kl=%.17g", bound);
    snprintf(why, sizeof why, "a KL of %.4f reached stop_at_kl",
             metric(rows, 1, metric_name));
    json_decref(rows);
    snprintf(name, sizeof name, "far-%s", in);
    run_whole(RUN(name, key, "beta=0.1", limit)); /* step 1 is not above it */
    ended_by(name, 2, "stop_at_kl", why);
    goes_on_by(name, "stop_at_kl=0");
}

static void kl_above_its_bound_ends_a_run(void **state)
{
    (void)state;
    kl_ends("loss", "kl");
    kl_ends("reward", "critic/kl");
}

/* A checkpoint of an older version has the exact match alone. */
static void an_older_checkpoint_says_by_what(void **state)
{
    static sr1_trainer tr;
    json_t *older = json_pack("{s:f}", "reached_exact_match", 0.75);

    (void)state;
    tr.set.stops[SR1__STOP_EXACT_MATCH] = 0.8;
    sr1__stopped_restore(&tr, older);
    assert_int_equal(tr.stopped.by, SR1__STOP_NONE);
    tr.set.stops[SR1__STOP_EXACT_MATCH] = 0.7;
    sr1__stopped_restore(&tr, older);
    assert_int_equal(tr.stopped.by, SR1__STOP_EXACT_MATCH);
    assert_string_equal(tr.stopped_why, "exact match 0.750 reached stop_at_exact_match");
    json_decref(older);
}

/* ---- what is refused ---- */

static void what_cannot_be_compared_is_refused(void **state)
{
    static const struct {
        const char *pairs[2], *about;
    } rows[] = {
        {{"early_stopping_patience=2", NULL},
         "early_stopping_patience goes by a figure of validations; set "
         "metric_for_best_model"},
        {{"load_best_model_at_end=true", NULL},
         "load_best_model_at_end goes by a figure of validations"},
        {{"metric_for_best_model=val/f1", NULL}, "validate_interval is 0"},
        {{"metric_for_best_model=val/accuracy", "validate_interval=1"},
         "no line of metrics.jsonl has 'val/accuracy'"},
        {{"metric_for_best_model=eval_loss", "validate_interval=1"},
         "no line of metrics.jsonl has 'eval_loss'"},
        {{"metric_for_best_model=val/f12", "validate_interval=1"}, "has 'val/f12'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sr1_config *c =
            RUN("refused", "validation_split=0.3", rows[i].pairs[0], rows[i].pairs[1]);
        sr1_trainer *tr = NULL;

        REFUSED(sr1_trainer_check(c), SR1_E_CONFIG, rows[i].about);
        REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, rows[i].about);
        sr1_config_free(c);
    }
}

/* Which sources there are the first validation tells; then another figure can be given,
 * and no step is lost. */
static void a_source_that_is_not_there_is_named(void **state)
{
    sr1_trainer *tr = open_trainer(RUN("source", "update_times=1", "validation_split=0.3",
                                       "validate_interval=2", "max_steps=3",
                                       "metric_for_best_model=val/exact_match/nq"));

    (void)state;
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CONFIG,
            "the validation has no val/exact_match/nq; it has val/exact_match,");
    sr1_trainer_free(tr);
    go_on_by("source", "metric_for_best_model=val/exact_match/towers");
    best_in_record("source", 2);
}

static void keep_note(void *user, const char *text)
{
    if (strlen(user) + strlen(text) + 2 < 2048)
        strcat(strcat(user, text), "\n");
}

/* Imitation samples nothing; and what writes no model has no best one to write. */
static void keys_that_nothing_reads_are_told_of(void **state)
{
    char said[2048] = "", demos[600];
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .user = said, .note = keep_note};
    sr1_trainer *tr;

    (void)state;
    snprintf(demos, sizeof demos, "sft_file=%s",
             scratch_file("demos.jsonl",
                          "{\"question\": \"Where?\", \"segments\": [{\"source\": "
                          "\"policy\", \"text\": \"<answer> Paris</answer>\"}]}\n",
                          0));
    tr = open_trainer(tiny_config("model", "stage=sft", demos, out_pair("imitates"),
                                  "max_steps=1", "stop_at_kl=0.1", "stop_below_entropy=9",
                                  "metric_for_best_model=val/f1", "validate_interval=1",
                                  "load_best_model_at_end=true", "save_final_model=false",
                                  NULL));
    OK(sr1_trainer_run(tr, &cb));
    sr1_trainer_free(tr);
    assert_non_null(strstr(said, "stop_at_kl is set, and beta is 0, or stage is sft"));
    assert_non_null(strstr(said, "stop_below_entropy is set, and stage is sft"));
    assert_non_null(strstr(said, "metric_for_best_model is set, and there are no"));
    assert_non_null(strstr(said, "load_best_model_at_end is set, and save_final_model"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_and_patience_equal_transformers),
        cmocka_unit_test(what_is_no_number_is_never_the_best),
        cmocka_unit_test(a_loss_is_better_when_it_is_less),
        cmocka_unit_test(the_best_checkpoint_stays),
        cmocka_unit_test(run_best_is_that_checkpoint),
        cmocka_unit_test(what_is_no_link_stays),
        cmocka_unit_test(the_model_at_the_end_is_the_best_one),
        cmocka_unit_test(a_damaged_best_one_is_not_taken),
        cmocka_unit_test(a_resumed_run_knows_its_best),
        cmocka_unit_test(a_validation_made_twice_counts_once),
        cmocka_unit_test(another_figure_begins_anew),
        cmocka_unit_test(patience_ends_a_run),
        cmocka_unit_test(entropy_below_its_bound_ends_a_run),
        cmocka_unit_test(kl_above_its_bound_ends_a_run),
        cmocka_unit_test(an_older_checkpoint_says_by_what),
        cmocka_unit_test(what_cannot_be_compared_is_refused),
        cmocka_unit_test(a_source_that_is_not_there_is_named),
        cmocka_unit_test(keys_that_nothing_reads_are_told_of),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
