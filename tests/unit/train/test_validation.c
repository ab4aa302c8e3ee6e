/* Validations of a run with several answers to each question: figures by counting every
 * draw, and the log of their trajectories. */
#include "runs.h"

#include <math.h>

#define SAMPLES 3
#define DRAWS 27 /* of 3 answers of 3, with replacement */

/* What the log of a validation has of one question. */
struct logged_question {
    double rewards[SAMPLES];
    const char *answers[SAMPLES]; /* NULL: not closed */
    int n;
};

static json_t *read_validation_log(const char *run)
{
    char *text = slurp_log(run, VALIDATION_LOG), *at = text, *end;
    json_t *all = json_array();

    for (; (end = strchr(at, '\n')) != NULL; at = end + 1) {
        json_t *row = NULL;

        OK(sr1__json_parse(&row, at, (size_t)(end - at), "trajectory"));
        json_array_append_new(all, row);
    }
    sr1_free(text);
    return all;
}

static size_t count_step_rows(const json_t *rows, int64_t step)
{
    size_t n = 0;

    for (size_t i = 0; i < json_array_size(rows); i++)
        n += json_integer_value(json_object_get(json_array_get(rows, i), "step")) == step;
    return n;
}

/* Trajectories of a question lie behind one another. */
static struct logged_question read_question(const json_t *rows, size_t at)
{
    struct logged_question q = {.n = SAMPLES};

    for (size_t i = 0; i < SAMPLES; i++) {
        const json_t *t = json_array_get(rows, at + i);
        const char *stop = json_string_value(json_object_get(t, "stop_reason"));

        assert_int_equal(json_integer_value(json_object_get(t, "sample")), i);
        q.rewards[i] = json_number_value(json_object_get(t, "reward"));
        if (strcmp(stop, "answer") == 0)
            q.answers[i] = json_string_value(json_object_get(t, "final_answer"));
    }
    return q;
}

/* The value of the answer that most of a draw gave, of several the first drawn. */
static double vote_of_draw(const struct logged_question *q, const int *drawn)
{
    int best = -1, most = 0;

    for (int i = 0; i < SAMPLES; i++) {
        const char *answer = q->answers[drawn[i]];
        int n = 0;

        for (int k = 0; answer && k < SAMPLES; k++)
            n += q->answers[drawn[k]] && strcmp(answer, q->answers[drawn[k]]) == 0;
        if (n > most) {
            most = n;
            best = drawn[i];
        }
    }
    return best >= 0 ? q->rewards[best] : q->rewards[drawn[0]];
}

/* Sums over questions of what all draws give, as verl's 1,000 estimate it. */
static void add_draws(const struct logged_question *q, double *mean, double *best,
                      double *maj)
{
    for (int d = 0; d < DRAWS; d++) {
        const int drawn[SAMPLES] = {d % 3, d / 3 % 3, d / 9};
        double most = -INFINITY;

        for (int i = 0; i < SAMPLES; i++)
            most = fmax(most, q->rewards[drawn[i]]);
        *best += most / DRAWS;
        *maj += vote_of_draw(q, drawn) / DRAWS;
    }
    for (int i = 0; i < SAMPLES; i++)
        *mean += q->rewards[i] / SAMPLES;
}

static void a_validation_has_verls_figures(void **state)
{
    char pair[600];
    json_t *of, *rows;
    double mean = 0, best = 0, maj = 0, right;

    (void)state;
    snprintf(pair, sizeof pair, "validation_file=%s", tiny_questions("towers.jsonl", 5));
    run_whole(RUN("sampled", pair, "validate_at_start=true", "max_steps=1",
                  "validation_group_size=3", "validation_temperature=1.0",
                  "log_validation_trajectories=-1"));
    rows = read_validation_log("sampled");
    assert_int_equal(json_array_size(rows), 5 * SAMPLES);
    for (size_t i = 0; i < json_array_size(rows); i += SAMPLES) {
        struct logged_question q = read_question(rows, i);

        add_draws(&q, &mean, &best, &maj);
    }
    of = metrics("sampled");
    tiny_near(metric(of, 0, "val-core/towers/reward/mean@3"), mean / 5, 1e-12);
    tiny_near(metric(of, 0, "val-core/towers/reward/best@3/mean"), best / 5, 1e-12);
    tiny_near(metric(of, 0, "val-core/towers/reward/maj@3/mean"), maj / 5, 1e-12);
    assert_true(best > mean); /* the answers differ */
    (void)metric(of, 0, "val-core/towers/reward/best@3/std");
    (void)metric(of, 0, "val-aux/towers/reward/std@3");
    (void)metric(of, 0, "val-aux/towers/reward/worst@3/mean");
    (void)metric(of, 0, "val-aux/towers/reward/best@2/mean");
    right = metric(of, 0, "val-aux/towers/exact_match/mean@3");
    tiny_near(metric(of, 0, "val/test_score/towers"), right, 0);
    tiny_near(metric(of, 0, "val/retrieval/hit_rate/towers"),
              metric(of, 0, "val/retrieval/hit_rate"), 0);
    assert_null(json_object_get(json_array_get(of, 0), "val/retrieval/recall"));
    json_decref(of);
    json_decref(rows);
}

/* All answers to some questions, as far as the number goes; the same each time. */
static void a_log_of_validations_is_of_the_same_questions(void **state)
{
    char pair[600];
    json_t *rows;

    (void)state;
    snprintf(pair, sizeof pair, "validation_file=%s", tiny_questions("towers.jsonl", 9));
    run_whole(RUN("logged", pair, "validate_at_start=true", "validate_interval=1",
                  "max_steps=2", "validation_group_size=3", "validation_temperature=1.0",
                  "log_validation_trajectories=5"));
    rows = read_validation_log("logged");
    assert_int_equal(json_array_size(rows), 3 * 5);
    for (int64_t step = 0; step <= 2; step++)
        assert_int_equal(count_step_rows(rows, step), 5);
    for (size_t i = 0; i < json_array_size(rows); i++)
        assert_true(json_equal(json_object_get(json_array_get(rows, i), "query_id"),
                               json_object_get(json_array_get(rows, i % 5), "query_id")));
    assert_false(json_equal(json_object_get(json_array_get(rows, 2), "query_id"),
                            json_object_get(json_array_get(rows, 3), "query_id")));
    json_decref(rows);
}

/* Its numbers are those of the one answer, and nothing is logged. */
static void a_greedy_validation_has_one_answer(void **state)
{
    json_t *of;

    (void)state;
    run_whole(
        RUN("greedy", "validation_split=0.3", "validate_at_start=true", "max_steps=1"));
    of = metrics("greedy");
    tiny_near(metric(of, 0, "val-core/towers/reward/mean@1"), metric(of, 0, "val/reward"),
              0);
    tiny_near(metric(of, 0, "val-aux/towers/exact_match/mean@1"),
              metric(of, 0, "val/exact_match"), 0);
    assert_null(
        json_object_get(json_array_get(of, 0), "val-core/towers/reward/best@1/mean"));
    json_decref(of);
    assert_false(sr1__dir_has(scratch_path("greedy"), VALIDATION_LOG));
}

static void answers_that_would_be_one_are_refused(void **state)
{
    sr1_trainer *tr = NULL;
    sr1_config *c = RUN("same", "validation_split=0.3", "validation_group_size=4");

    (void)state;
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG,
            "validation_group_size is 4 and validation_temperature 0: all answers to a "
            "question would be the same; set validation_temperature (1.0)");
    sr1_config_free(c);
}

/* ---- a record that fails ---- */

static sr1_status fail_step_4(void *user, int64_t step, const char *const *names,
                              const double *values, size_t n)
{
    (void)user, (void)names, (void)values, (void)n;
    return step == 4 ? sr1_set_error(SR1_E_IO, "the figures have nowhere to go") : SR1_OK;
}

#define VALIDATED(name)                                                                  \
    RUN(name, "update_times=1", "validation_split=0.3", "validate_interval=2",           \
        "save_interval=3", "log_validation_trajectories=-1")

/* Its metrics were not taken, so the validation is made again, and logged once. */
static void what_is_validated_again_is_logged_once(void **state)
{
    sr1_trainer *tr = open_trainer(VALIDATED("broken"));

    (void)state;
    run_whole(VALIDATED("unbroken"));
    OK(sr1_trainer_set_metric_sink(tr, fail_step_4, NULL));
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_IO, "nowhere to go");
    sr1_trainer_free(tr);
    tr = NULL;
    OK(sr1_trainer_resume(&tr, scratch_path("broken"), NULL));
    assert_int_equal(sr1_trainer_steps_done(tr), 4);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    same_run("unbroken", "broken");
}

/* A log that is wanted no more keeps what it has, and one that is begins with what is
 * new. */
static void a_log_may_begin_and_end_with_the_keys(void **state)
{
    static const char *const more[] = {"max_steps=4", "log_validation_trajectories=-1"};
    static const char *const end[] = {"max_steps=6", "log_validation_trajectories=0"};
    sr1_resume_options o = {.struct_size = sizeof o, .pairs = more, .n_pairs = 2};
    sr1_trainer *tr = NULL;
    json_t *rows;

    (void)state;
    run_whole(RUN("keys", "update_times=1", "validation_split=0.3", "validate_interval=1",
                  "max_steps=2"));
    assert_false(sr1__dir_has(scratch_path("keys"), VALIDATION_LOG));
    for (int k = 0; k < 2; k++) {
        o.pairs = k ? end : more;
        OK(sr1_trainer_resume(&tr, scratch_path("keys"), &o));
        OK(sr1_trainer_run(tr, NULL));
        sr1_trainer_free(tr);
        tr = NULL;
        rows = read_validation_log("keys");
        assert_int_equal(json_array_size(rows), 2); /* the split is one question */
        assert_int_equal(count_step_rows(rows, 3), 1);
        assert_int_equal(count_step_rows(rows, 4), 1);
        json_decref(rows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_validation_has_verls_figures),
        cmocka_unit_test(a_log_of_validations_is_of_the_same_questions),
        cmocka_unit_test(a_greedy_validation_has_one_answer),
        cmocka_unit_test(answers_that_would_be_one_are_refused),
        cmocka_unit_test(what_is_validated_again_is_logged_once),
        cmocka_unit_test(a_log_may_begin_and_end_with_the_keys),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
