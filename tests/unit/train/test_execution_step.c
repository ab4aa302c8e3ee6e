/* Programs as rewards: they teach, begin while other rows are generated, are waited for
 * after the reference was asked, and say nothing about the policy when they cannot run.
 */
#include "step_metric.h"
#include "support/tiny.h"

#include "environment/critique/generator.h"
#include "policy/rollout_internal.h"
#include "train/internal.h"

#include <searchr1/ext/critique.h>

#define GROUP 16

static int make(void **state)
{
    static const struct tiny_rule critic[] = {
        {"", " Paris"}, {"", " Rome"}, {" Paris", "<|im_end|>"}, {" Rome", "<|im_end|>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("critic", critic, 4, 14);
    (void)scratch_file(
        "problems.jsonl",
        "{\"id\": \"p0\", \"problem\": \"Where?\", \"solution\": \"x = 1\", "
        "\"tests\": [\"assert x == 2\"]}\n",
        0);
    return 0;
}

static sr1_query question(void)
{
    sr1_query q = tiny_query("Is x = 1 right?");

    q.id = "p0";
    return q;
}

/* Follows a critique that names Paris. */
static sr1_status follow(void *self, const sr1_conversation *const *c, size_t n,
                         sr1_generator_sink *sink)
{
    (void)self;
    for (size_t i = 0; i < n; i++) {
        const char *said = strstr(c[i]->contents[2], "Paris") ? "```python\nx = 2\n```"
                                                              : "```python\nx = 1\n```";

        SR1__TRY(sr1_generator_sink_text(sink, i, said, strlen(said)));
    }
    return SR1_OK;
}

static void let_follow(sr1_trainer *tr)
{
    sr1_generator_ops ops = {
        .struct_size = sizeof ops, .name = "follower", .write = follow};
    const char *path = scratch_path("problems.jsonl");
    sr1_problems *problems = NULL;
    sr1_generator *w = NULL;
    sr1_env *env = NULL;

    OK(sr1_problems_load(&problems, &path, 1, NULL));
    OK(sr1_generator_new(&w, &ops, NULL));
    OK(sr1_critique_env_open(&env, problems, w, NULL, NULL));
    OK(sr1_rollout_set_env(sr1_trainer_rollout(tr), env));
    sr1_env_free(env);
    sr1_generator_free(w);
    sr1_problems_free(problems);
}

static sr1_trainer *trainer(const char *rewards, const char *beta, const char *more)
{
    sr1_config *c = tiny_config("critic", "environment=none", "protocol=ctrl", rewards,
                                beta, more, "sandbox_url=http://127.0.0.1:9",
                                "sandbox_isolation=none", "learning_rate=3e-3", NULL);
    sr1_trainer *tr = NULL;

    OK(sr1_config_set(c, "code_problems", scratch_path("problems.jsonl")));
    OK(sr1_config_set(c, "code_judge", "any"));
    OK(sr1_trainer_new(&tr, c, NULL));
    sr1_config_free(c);
    let_follow(tr);
    return tr;
}

static void revisions_that_pass_are_learned(void **state)
{
    sr1_trainer *tr = trainer("rewards=execution", "beta=0", "sandbox=local");
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_query q = question();
    double first = 0.0, last = 0.0;

    (void)state;
    for (int k = 0; k < 12; k++) {
        OK(sr1_trainer_train_step(tr, &q, 1, GROUP, &r, NULL));
        first += k < 2 ? r.avg_reward / 2 : 0.0;
        last += k >= 10 ? r.avg_reward / 2 : 0.0;
        assert_int_equal(step_metric(&r, "training/unscored_trajectories"), 0);
        assert_true(step_metric(&r, "timing_s/reward") > 0);
    }
    assert_in_range((int)(first * 100), 15, 85);
    assert_true(last > 0.95);
    sr1_trainer_free(tr);
}

/* ---- when ---- */

struct watch {
    int begun, scored, before_the_reference;
    double first_begun;
};

static sr1_status watch_begin(void *self, sr1_trajectory *t)
{
    struct watch *w = self;

    (void)t;
    w->begun++;
    assert_int_equal(w->scored, 0);
    return SR1_OK;
}

static sr1_status watch_score(void *self, const sr1_trajectory *const *t, size_t n,
                              double *out)
{
    struct watch *w = self;

    for (size_t i = 0; i < n; i++) {
        w->scored++;
        w->before_the_reference +=
            sr1_trajectory_column(t[i], SR1_COLUMN_REFERENCE) == NULL;
        out[i] = (double)(i % 2);
    }
    return SR1_OK;
}

static void what_was_begun_is_waited_for_after_the_reference(void **state)
{
    struct watch w = {0};
    sr1_reward_ops ops = {.struct_size = sizeof ops,
                          .name = "watch",
                          .score = watch_score,
                          .begin = watch_begin};
    sr1_trainer *tr = trainer("rewards=environment", "beta=0.01", "kl_reference=frozen");
    sr1_query q = question();

    (void)state;
    OK(sr1_trainer_add_reward(tr, &ops, &w, 1.0));
    OK(sr1_trainer_train_step(tr, &q, 1, GROUP, NULL, NULL));
    assert_int_equal(w.begun, GROUP);
    assert_int_equal(w.scored, GROUP);
    assert_int_equal(w.before_the_reference, 0);
    sr1_trainer_free(tr);
}

struct order {
    sr1_rollout *rollout;
    size_t finished, total;
    int early; /* finished before the last was */
};

static sr1_status on_finished(void *user, size_t index, sr1_trajectory *t)
{
    struct order *o = user;

    assert_in_range(index, 0, o->total - 1);
    assert_non_null(t);
    o->finished++;
    return SR1_OK;
}

static sr1_status on_progress(void *user, int64_t finished, int64_t total, int64_t tokens)
{
    struct order *o = user;

    (void)tokens;
    assert_int_equal((size_t)finished, o->finished);
    o->early += finished > 0 && finished < total;
    return SR1_OK;
}

static void a_trajectory_is_told_of_while_others_are_made(void **state)
{
    sr1_rollout *r =
        tiny_rollout(tiny_config("critic", "environment=none", "max_rows=2", NULL), NULL);
    struct order o = {.total = 8};
    sr1_rollout_options ro = {.struct_size = sizeof ro,
                              .group_size = 8,
                              .seed = 5,
                              .user = &o,
                              .progress = on_progress,
                              .finished = on_finished};
    sr1_query q = question();
    sr1_trajectory *t[8];

    (void)state;
    OK(sr1_rollout_generate(r, &q, 1, &ro, t));
    assert_int_equal(o.finished, 8);
    assert_true(o.early > 0);
    tiny_free_all(t, 8);
    sr1_rollout_free(r);
}

/* ---- outages ---- */

static void an_outage_of_the_sandbox_teaches_nothing(void **state)
{
    sr1_trainer *tr = trainer("rewards=execution", "beta=0", "sandbox=fusion");
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_query q = question();
    sr1_trajectory *t[4];
    size_t n, m;
    float *before = tiny_weights(sr1_rollout_model(sr1_trainer_rollout(tr)), &n), *after;

    (void)state;
    OK(sr1_trainer_train_step(tr, &q, 1, 4, &r, t));
    assert_int_equal(r.trajectories, 4);
    assert_int_equal(step_metric(&r, "training/excluded_trajectories"), 4);
    assert_int_equal(step_metric(&r, "training/unscored_trajectories"), 4);
    assert_int_equal(step_metric(&r, "training/excluded_groups"), 1);
    assert_int_equal(r.trained, 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(sr1_trajectory_stop_reason(t[i]), SR1_STOP_UNSCORED);
        assert_false(sr1_trajectory_has_reward(t[i]));
    }
    after = tiny_weights(sr1_rollout_model(sr1_trainer_rollout(tr)), &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n * sizeof *after);
    free(before);
    free(after);
    tiny_free_all(t, 4);
    sr1_trainer_free(tr);
}

static void rewards_without_problems_are_refused(void **state)
{
    sr1_config *c = tiny_config("critic", "environment=none", "protocol=ctrl",
                                "rewards=execution", NULL);
    sr1_trainer *tr = NULL;

    (void)state;
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "code_problems");
    assert_null(tr);
    sr1_config_free(c);
}

/* Rows as APPS is published, the second of which has no tests. */
static sr1_status open_published(sr1_trainer **out, const char *id_field)
{
    static const char rows[] =
        "{\"problem_id\": 7, \"question\": \"Print 2.\", \"solutions\": \"\", "
        "\"input_output\": \"{\\\"inputs\\\": [\\\"1\\\\n\\\"], "
        "\\\"outputs\\\": [\\\"2\\\\n\\\"]}\", \"difficulty\": \"interview\", "
        "\"starter_code\": \"\", \"url\": \"\"}\n"
        "{\"problem_id\": 8, \"question\": \"Print 3.\", \"solutions\": \"\", "
        "\"input_output\": \"\", \"difficulty\": \"interview\", "
        "\"starter_code\": \"\", \"url\": \"\"}\n";
    const char *path = scratch_file("apps.jsonl", rows, 0);
    sr1_config *c = tiny_config("critic", "environment=none", "protocol=search-r1",
                                "rewards=execution", "answers_optional=true", id_field,
                                "sandbox_url=http://127.0.0.1:9", NULL);
    sr1_status st;

    OK(sr1_config_set(c, "code_problems", path));
    OK(sr1_config_set(c, "train_file", path));
    st = sr1_trainer_new(out, c, NULL);
    sr1_config_free(c);
    return st;
}

/* Both are known before the first step, not when the row's step comes. */
static void questions_have_a_problem_with_tests(void **state)
{
    sr1_trainer *tr = NULL;

    (void)state;
    OK(open_published(&tr, "id_field=problem_id"));
    assert_int_equal(sr1_dataset_count(tr->train), 1);
    sr1_trainer_free(tr);
    tr = NULL;
    REFUSED(open_published(&tr, "id_field=difficulty"), SR1_E_CONFIG, "set id_field");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revisions_that_pass_are_learned),
        cmocka_unit_test(what_was_begun_is_waited_for_after_the_reference),
        cmocka_unit_test(a_trajectory_is_told_of_while_others_are_made),
        cmocka_unit_test(an_outage_of_the_sandbox_teaches_nothing),
        cmocka_unit_test(rewards_without_problems_are_refused),
        cmocka_unit_test(questions_have_a_problem_with_tests),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
