/* Searches that fail: what an outage of the engine may and may not do to training. */
#include "support/count_text.h"
#include "support/http_server.h"
#include "step_metric.h"
#include "support/tiny.h"

#include "train/internal.h"

#include <math.h>

#define GROUP 4
#define N (2 * GROUP)

/* Answers like the mock, except in the calls whose bit is set. */
struct engine {
    uint32_t fails; /* bit i: call i */
    int32_t how;
    int calls;
};

static sr1_status engine_search(void *self, const char *const *queries, size_t n,
                                int32_t k, sr1_search_sink *sink)
{
    struct engine *e = self;
    int fail = e->fails >> e->calls++ & 1;

    (void)queries, (void)k;
    for (size_t i = 0; i < n; i++)
        SR1__TRY(fail ? sr1_search_sink_status(sink, i, e->how, "out of order")
                      : sr1_search_sink_hit(sink, i, "t", "The tower is in Paris.", 1));
    return SR1_OK;
}

static sr1_trainer *open_trainer_by(struct engine *e, const char *failure,
                                    const char *estimator)
{
    /* one row at a time: each search is a call of its own, in the order of samples */
    sr1_config *c =
        tiny_config("searcher", "max_rows=1", "seed=12", failure, estimator, NULL);
    sr1_search_ops ops = {
        .struct_size = sizeof ops, .name = "failing", .search = engine_search};
    sr1_search *search = NULL;
    sr1_trainer *tr = NULL;

    OK(sr1_search_new(&search, &ops, e));
    OK(sr1_trainer_new(&tr, c, search));
    sr1_search_free(search);
    sr1_config_free(c);
    return tr;
}

static sr1_trainer *open_trainer(struct engine *e, const char *failure)
{
    return open_trainer_by(e, failure, NULL);
}

static void step(sr1_trainer *tr, sr1_step_report *r, sr1_trajectory **t)
{
    sr1_query q[2] = {tiny_query("Where is the tower?"),
                      tiny_query("Where does it stand?")};

    *r = (sr1_step_report){.struct_size = sizeof *r};
    OK(sr1_trainer_train_step(tr, q, 2, GROUP, r, t));
}

static void same_weights(sr1_trainer *a, sr1_trainer *b, int same)
{
    size_t n, m;
    float *x = tiny_weights(sr1_rollout_model(sr1_trainer_rollout(a)), &n);
    float *y = tiny_weights(sr1_rollout_model(sr1_trainer_rollout(b)), &m);

    assert_int_equal(n, m);
    assert_int_equal(memcmp(x, y, n * sizeof *x) == 0, same);
    free(x);
    free(y);
}

#define FAILS 0xf2u /* sample 1 of the first group, all of the second */

static int is_left_out(size_t i)
{
    return FAILS >> i & 1;
}

static void check_left_out(const sr1_trajectory *t)
{
    size_t n;

    assert_int_equal(sr1_trajectory_stop_reason(t), SR1_STOP_SEARCH_FAILED);
    assert_string_equal(sr1_stop_reason_name(SR1_STOP_SEARCH_FAILED), "search_failed");
    assert_false(sr1_trajectory_has_reward(t));
    assert_false(sr1_trajectory_has_advantage(t));
    assert_int_equal(sr1_trajectory_environment_count(t), 0);
    assert_null(strstr(sr1_trajectory_generated_text(t, &n), "No information"));
    assert_null(strstr(sr1_trajectory_generated_text(t, &n), "<information>"));
    assert_int_equal(sr1_trajectory_search_count(t), 1); /* it is on record */
}

static void an_outage_is_not_the_policys_failure(void **state)
{
    static const int32_t hows[] = {SR1_ACTION_TIMEOUT, SR1_ACTION_ERROR};

    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct engine e = {FAILS, hows[k], 0};
        sr1_trainer *tr = open_trainer(&e, "search_failure=exclude");
        sr1_trajectory *t[N];
        sr1_step_report r;
        double rewards[GROUP], advantages[GROUP], sum = 0;
        size_t kept = 0;

        step(tr, &r, t);
        assert_int_equal(e.calls, N);
        for (size_t i = 0; i < N; i++) {
            if (is_left_out(i)) {
                check_left_out(t[i]);
                continue;
            }
            assert_int_equal(sr1_trajectory_stop_reason(t[i]), SR1_STOP_ANSWER);
            rewards[kept++] = sr1_trajectory_reward(t[i]);
            sum += sr1_trajectory_reward(t[i]);
        }
        /* as if the others had never been asked */
        assert_int_equal(kept, 3);
        OK(sr1_advantage_group(rewards, kept, SR1_ADVANTAGE_EPS, advantages));
        for (size_t i = 0, j = 0; i < N; i++)
            if (!is_left_out(i))
                assert_true(sr1_trajectory_advantage(t[i]) == advantages[j++]);
        tiny_near(r.avg_reward, sum / 3, 1e-12);
        assert_int_equal(r.trajectories, N);
        assert_int_equal(step_metric(&r, "training/excluded_trajectories"), 5);
        assert_int_equal(step_metric(&r, "training/excluded_groups"), 1);
        assert_int_equal(r.trained, 3);
        assert_int_equal(step_metric(&r, "env/number_of_searches"), N);
        assert_int_equal(step_metric(&r, "env/number_of_failed_searches"), 5);
        assert_true(step_metric(&r, "health/answer_rate") == 1.0);
        tiny_free_all(t, N);
        sr1_trainer_free(tr);
    }
}

/* Without the greedy rollout that it is compared with a group has no rewards either. */
static void what_has_no_baseline_is_excluded_from_the_figures(void **state)
{
    struct engine e = {1u << N, SR1_ACTION_ERROR, 0}; /* the first greedy search */
    sr1_trainer *tr = open_trainer_by(&e, "search_failure=exclude", "advantage=remax");
    sr1_trajectory *t[N];
    sr1_step_report r;
    double sum = 0;

    (void)state;
    step(tr, &r, t);
    assert_int_equal(e.calls, N + 2);
    for (size_t i = GROUP; i < N; i++)
        sum += sr1_trajectory_reward(t[i]);
    tiny_near(r.avg_reward, sum / GROUP, 1e-12);
    assert_true(r.avg_reward > 0);
    assert_int_equal(step_metric(&r, "training/excluded_trajectories"), GROUP);
    assert_int_equal(step_metric(&r, "training/excluded_groups"), 1);
    tiny_free_all(t, N);
    sr1_trainer_free(tr);
}

/* ---- engines that fail as a whole ---- */

static sr1_status broken_search(void *self, const char *const *queries, size_t n,
                                int32_t k, sr1_search_sink *sink)
{
    struct engine *e = self;

    if (e->fails >> e->calls & 1) {
        e->calls++;
        return sr1_set_error(e->how, "the key is refused");
    }
    return engine_search(self, queries, n, k, sink);
}

static sr1_trainer *open_broken(struct engine *e)
{
    sr1_config *c = tiny_config("searcher", "max_rows=1", NULL);
    sr1_search_ops ops = {
        .struct_size = sizeof ops, .name = "broken", .search = broken_search};
    sr1_search *search = NULL;
    sr1_trainer *tr = NULL;

    OK(sr1_search_new(&search, &ops, e));
    OK(sr1_trainer_new(&tr, c, search));
    sr1_search_free(search);
    sr1_config_free(c);
    return tr;
}

static void an_engine_that_fails_as_a_whole_fails_its_rows(void **state)
{
    static const int32_t hows[] = {SR1_E_IO, SR1_E_TIMEOUT, SR1_E_INVALID};

    (void)state;
    for (size_t k = 0; k < sizeof hows / sizeof *hows; k++) {
        struct engine e = {FAILS, hows[k], 0};
        sr1_trainer *tr = open_broken(&e);
        sr1_trajectory *t[N];
        sr1_step_report r;

        step(tr, &r, t);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(sr1_trajectory_stop_reason(t[i]),
                             is_left_out(i) ? SR1_STOP_SEARCH_FAILED : SR1_STOP_ANSWER);
        assert_int_equal(step_metric(&r, "env/number_of_failed_searches"), 5);
        assert_int_equal(step_metric(&r, "training/excluded_trajectories"), 5);
        tiny_free_all(t, N);
        sr1_trainer_free(tr);
    }
}

static void a_refused_key_ends_the_run(void **state)
{
    struct engine e = {1u << 3, SR1_E_CONFIG, 0};
    sr1_trainer *tr = open_broken(&e);
    sr1_query q = tiny_query("Where is the tower?");
    sr1_step_report r = {.struct_size = sizeof r};

    (void)state;
    REFUSED(sr1_trainer_train_step(tr, &q, 1, GROUP, &r, NULL), SR1_E_CONFIG,
            "the key is refused");
    sr1_trainer_free(tr);
}

static void the_update_is_that_of_the_others_alone(void **state)
{
    struct engine e = {FAILS, SR1_ACTION_ERROR, 0}, none = {0, 0, 0};
    sr1_trainer *a = open_trainer(&e, "search_failure=exclude");
    sr1_trainer *b = open_trainer(&none, "search_failure=exclude");
    sr1_trainer *c = open_trainer(&none, "search_failure=exclude");
    sr1_trajectory *t[N], *kept[N];
    sr1_step_report r;
    size_t n = 0;

    (void)state;
    same_weights(a, b, 1);
    step(a, &r, t);
    same_weights(a, b, 0);
    for (size_t i = 0; i < N; i++)
        if (!is_left_out(i))
            kept[n++] = t[i];
    OK(sr1_trainer_update(b, kept, n, NULL));
    same_weights(a, b, 1);
    r = (sr1_step_report){.struct_size = sizeof r};
    OK(sr1_trainer_update(c, t, N, &r)); /* as a log of the step would be read back */
    same_weights(a, c, 1);
    assert_int_equal(step_metric(&r, "training/excluded_trajectories"), 5);
    assert_int_equal(r.trained, 3);
    tiny_free_all(t, N);
    sr1_trainer_free(a);
    sr1_trainer_free(b);
    sr1_trainer_free(c);
}

static void when_nothing_is_left_nothing_changes(void **state)
{
    struct engine down = {UINT32_MAX, SR1_ACTION_TIMEOUT, 0}, none = {0, 0, 0};
    sr1_trainer *a = open_trainer(&down, "search_failure=exclude");
    sr1_trainer *b = open_trainer(&none, "search_failure=exclude");
    sr1_trajectory *t[N];
    sr1_step_report r;

    (void)state;
    step(a, &r, t);
    same_weights(a, b, 1);
    assert_int_equal(step_metric(&r, "training/excluded_trajectories"), N);
    assert_int_equal(step_metric(&r, "training/excluded_groups"), 2);
    assert_int_equal(r.trained, 0);
    assert_true(r.loss == 0 && r.avg_reward == 0);
    tiny_free_all(t, N);
    sr1_trainer_free(a);
    sr1_trainer_free(b);
}

static void going_on_without_is_a_choice(void **state)
{
    struct engine e = {FAILS, SR1_ACTION_ERROR, 0};
    sr1_trainer *tr = open_trainer(&e, "search_failure=continue");
    sr1_trajectory *t[N];
    sr1_step_report r;
    size_t n;

    (void)state;
    step(tr, &r, t);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(sr1_trajectory_stop_reason(t[i]), SR1_STOP_ANSWER);
        assert_true(sr1_trajectory_has_reward(t[i]));
        if (is_left_out(i))
            assert_non_null(strstr(sr1_trajectory_generated_text(t[i], &n),
                                   "</search><information>  </information><answer>"));
    }
    assert_int_equal(step_metric(&r, "training/excluded_trajectories"), 0);
    assert_int_equal(step_metric(&r, "training/excluded_groups"), 0);
    assert_int_equal(r.trained, N);
    assert_int_equal(step_metric(&r, "env/number_of_failed_searches"), 5);
    tiny_free_all(t, N);
    sr1_trainer_free(tr);
}

static void such_a_trajectory_survives_being_stored(void **state)
{
    struct engine e = {UINT32_MAX, SR1_ACTION_ERROR, 0};
    sr1_trainer *tr = open_trainer(&e, "search_failure=exclude");
    sr1_trajectory *t[N], *back = NULL;
    sr1_step_report r;
    char *text = NULL;
    size_t n = 0;

    (void)state;
    step(tr, &r, t);
    OK(sr1_trajectory_to_json(t[0], &text, &n));
    assert_non_null(strstr(text, "\"search_failed\""));
    OK(sr1_trajectory_from_json(&back, text, n));
    check_left_out(back);
    sr1_free(text);
    sr1_trajectory_free(back);
    tiny_free_all(t, N);
    sr1_trainer_free(tr);
}

/* ---- whole runs ---- */

/* Two rows a step, one search each; validation: NULL, or after which steps. */
static sr1_trainer *open_run_validated(struct engine *e, const char *run,
                                       const char *limit, const char *validation)
{
    char train[600], held[600], out[600];
    sr1_config *c;
    sr1_search_ops ops = {
        .struct_size = sizeof ops, .name = "failing", .search = engine_search};
    sr1_search *search = NULL;
    sr1_trainer *tr = NULL;

    snprintf(train, sizeof train, "train_file=%s", tiny_questions("run.jsonl", 6));
    snprintf(held, sizeof held, "validation_file=%s", tiny_questions("run.jsonl", 6));
    snprintf(out, sizeof out, "out=%s", scratch_path(run));
    c = tiny_config("searcher", "max_rows=1", "group_size=2", "batch_size=1",
                    "max_steps=6", limit, train, out, validation ? held : NULL,
                    validation, NULL);
    OK(sr1_search_new(&search, &ops, e));
    OK(sr1_trainer_new(&tr, c, search));
    sr1_search_free(search);
    sr1_config_free(c);
    return tr;
}

static sr1_trainer *open_run(struct engine *e, const char *run, const char *limit)
{
    return open_run_validated(e, run, limit, NULL);
}

static void a_dead_engine_stops_the_run_with_a_checkpoint(void **state)
{
    struct engine e = {UINT32_MAX & ~3u, SR1_ACTION_ERROR, 0}; /* from step 2 on */
    struct engine well = {0, 0, 0};
    sr1_trainer *tr = open_run(&e, "dead", "search_max_failed_steps=2");
    sr1_search_ops ops = {
        .struct_size = sizeof ops, .name = "well", .search = engine_search};
    sr1_resume_options options = {.struct_size = sizeof options};
    sr1_search *search = NULL;

    (void)state;
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_NETWORK,
            "stopped after step 3 of 6: every search of the last 2 steps failed; the "
            "engine is failing; the last error: out of order");
    assert_int_equal(sr1_trainer_steps_saved(tr), 3);
    sr1_trainer_free(tr);
    OK(sr1_search_new(&search, &ops, &well));
    options.search = search;
    OK(sr1_trainer_resume(&tr, scratch_path("dead"), &options));
    OK(sr1_trainer_run(tr, NULL));
    assert_int_equal(sr1_trainer_steps_done(tr), 6);
    sr1_search_free(search);
    sr1_trainer_free(tr);
}

static sr1_status stop_run(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)r, (void)planned;
    sr1_trainer_stop(user);
    return SR1_OK;
}

/* Stopped after the first such step, it ends at the second and not two steps later. */
static void an_outage_goes_on_with_its_run(void **state)
{
    struct engine e = {UINT32_MAX, SR1_ACTION_ERROR, 0};
    sr1_trainer *tr = open_run(&e, "stopped", "search_max_failed_steps=2");
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .user = tr, .step = stop_run};
    sr1_search_ops ops = {
        .struct_size = sizeof ops, .name = "failing", .search = engine_search};
    sr1_resume_options options = {.struct_size = sizeof options};
    sr1_search *search = NULL;

    (void)state;
    REFUSED(sr1_trainer_run(tr, &cb), SR1_E_CANCELLED, "stopped after step 1");
    sr1_trainer_free(tr);
    OK(sr1_search_new(&search, &ops, &e));
    options.search = search;
    OK(sr1_trainer_resume(&tr, scratch_path("stopped"), &options));
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_NETWORK, "stopped after step 2 of 6");
    sr1_search_free(search);
    sr1_trainer_free(tr);
}

/* Refuses the first action of each step, as one that no tool understands, and fails the
 * others. */
static sr1_status refuse_or_fail(void *self, const sr1_env_action *const *actions,
                                 size_t n, sr1_env_sink *sink)
{
    int *asked = self;

    (void)actions;
    for (size_t i = 0; i < n; i++)
        SR1__TRY((*asked)++ % 2 ? sr1_env_sink_status(sink, i, SR1_ACTION_ERROR)
                                : sr1_env_sink_flags(sink, i, SR1_ANSWER_UNEXECUTED));
    return SR1_OK;
}

static void refused_actions_are_no_searches(void **state)
{
    static const sr1_env_ops ops = {
        .struct_size = sizeof ops, .name = "down", .act = refuse_or_fail};
    struct engine unused = {0, 0, 0};
    int asked = 0;
    sr1_trainer *tr = open_run(&unused, "refused", "search_max_failed_steps=2");
    sr1_env *env = NULL;

    (void)state;
    OK(sr1_env_new(&env, &ops, &asked, NULL));
    OK(sr1_rollout_set_env(sr1_trainer_rollout(tr), env));
    sr1_env_free(env);
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_NETWORK, "stopped after step 2 of 6");
    assert_true(sr1__metrics_get(&tr->step_metrics, "refused_rate") > 0);
    assert_true(sr1__metrics_get(&tr->step_metrics, "alarm_searches") == 1);
    sr1_trainer_free(tr);
}

/* Answers the probe at the start, then closes each connection. */
static void answer_once(void *user, int nth, const char *request, struct reply *r)
{
    (void)user, (void)request;
    r->body = "{\"result\": [[{\"document\": {\"id\": \"1\", \"contents\": "
              "\"Tower\\nIn Paris.\"}, \"score\": 1.0}]]}";
    r->drop = nth > 0;
}

static void the_end_names_the_server(void **state)
{
    char train[600], out[600], url[128], where[200];
    struct server s;
    sr1_trainer *tr = NULL;
    sr1_config *c;

    (void)state;
    server_start(&s, answer_once, NULL);
    snprintf(url, sizeof url, "search_url=%s/retrieve", s.url);
    snprintf(train, sizeof train, "train_file=%s", tiny_questions("run.jsonl", 6));
    snprintf(out, sizeof out, "out=%s", scratch_path("nobody"));
    c = tiny_config("searcher", "group_size=2", "batch_size=1", "max_steps=6",
                    "search_engine=remote", url, "search_retries=0", train, out, NULL);
    OK(sr1_trainer_new(&tr, c, NULL));
    snprintf(where, sizeof where,
             "the engine is remote (search_url %s/retrieve); the last error: %s", s.url,
             s.url);
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_NETWORK, where);
    assert_non_null(strstr(sr1_last_error(), "after step 3 of 6")); /* the default */
    sr1_trainer_free(tr);
    sr1_config_free(c);
    server_stop(&s);
}

/* No engine is there, and none is named. */
static void the_end_names_the_program_of_the_environment(void **state)
{
    char train[600], out[600], program[600], where[700];
    sr1_trainer *tr = NULL;
    sr1_config *c;

    (void)state;
    snprintf(program, sizeof program, "environment_program=%s",
             scratch_file("wrong.py",
                          "import json, sys\n"
                          "for line in sys.stdin:\n"
                          "    r = json.loads(line)\n"
                          "    if 'id' in r:\n"
                          "        n = len(r['params'].get('actions', []))\n"
                          "        print(json.dumps({'id': r['id'], 'result': [5] * n}), "
                          "flush=True)\n",
                          0));
    snprintf(train, sizeof train, "train_file=%s", tiny_questions("run.jsonl", 6));
    snprintf(out, sizeof out, "out=%s", scratch_path("wrong"));
    c = tiny_config("searcher", "group_size=2", "batch_size=1", "max_steps=6",
                    "environment=program", program, train, out,
                    "search_max_failed_steps=1", NULL);
    OK(sr1_trainer_new(&tr, c, NULL));
    snprintf(where, sizeof where,
             "every action of the last 1 step failed; the environment is program (%.19s "
             "%s); the last error: ",
             program, program + 20);
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_NETWORK, where);
    assert_non_null(strstr(sr1_last_error(), "the text of an answer must be a string"));
    sr1_trainer_free(tr);
    sr1_config_free(c);
}

static void one_answer_in_between_goes_on(void **state)
{
    struct engine e = {0xdfdu, SR1_ACTION_TIMEOUT, 0}; /* calls 1 and 9 are answered */
    sr1_trainer *tr = open_run(&e, "weak", "search_max_failed_steps=4");

    (void)state;
    OK(sr1_trainer_run(tr, NULL));
    assert_int_equal(e.calls, 12);
    sr1_trainer_free(tr);
}

static void zero_never_stops_a_run(void **state)
{
    struct engine e = {UINT32_MAX, SR1_ACTION_TIMEOUT, 0};
    sr1_trainer *tr = open_run(&e, "stubborn", "search_max_failed_steps=0");

    (void)state;
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

/* ---- rewards that cannot be computed ---- */

/* Scores nothing in the steps whose bit is set; in others the two of a group differ. */
struct judge {
    uint32_t fails;
    int steps;
};

static sr1_status judge_score(void *self, const sr1_trajectory *const *t, size_t n,
                              double *out)
{
    struct judge *j = self;
    int fails = j->fails >> j->steps++ & 1;

    (void)t;
    for (size_t i = 0; i < n; i++)
        out[i] = fails ? NAN : (double)(i % 2);
    return SR1_OK;
}

static void keep_notes(void *user, const char *text)
{
    size_t n = strlen(user);

    snprintf((char *)user + n, 4000 - n, "%s\n", text);
}

/* Six steps of two rows, scored by this judge alone; *notes: what the run said. */
static sr1_status run_judged(uint32_t fails, const char *run, char notes[4000])
{
    sr1_reward_ops ops = {.struct_size = sizeof ops,
                          .name = "judge",
                          .score = judge_score,
                          .may_be_unknown = 1};
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .note = keep_notes, .user = notes};
    struct engine e = {0, 0, 0};
    struct judge j = {fails, 0};
    sr1_trainer *tr = open_run(&e, run, "rewards=none");
    sr1_status st;

    notes[0] = '\0';
    OK(sr1_trainer_add_reward(tr, &ops, &j, 1.0));
    st = sr1_trainer_run(tr, &cb);
    if (sr1_trainer_steps_done(tr) != 6)
        fail_msg("%s", sr1_last_error());
    assert_int_equal(sr1_trainer_steps_saved(tr), 6);
    sr1_trainer_free(tr);
    return st;
}

static const char alarm_text[] = "no trajectory of the last three steps has a reward";

static void a_run_without_any_reward_has_failed(void **state)
{
    char notes[4000];
    struct sr1__buf record;

    (void)state;
    REFUSED(run_judged(UINT32_MAX, "unjudged", notes), SR1_E_NETWORK,
            "no trajectory of the 6 steps had a reward");
    assert_int_equal(count_text(notes, alarm_text), 1);
    assert_non_null(strstr(notes, "warning: step 3: no trajectory of"));
    assert_non_null(
        strstr(notes, "nothing was learned in 6 steps: no trajectory had a reward"));
    OK(sr1__file_read(scratch_path("unjudged/run.json"), 0, &record));
    assert_non_null(strstr(sr1__buf_cstr(&record), "\"outcome\": \"failed\""));
    assert_non_null(strstr(sr1__buf_cstr(&record), "of the 6 steps had a reward"));
    sr1__buf_free(&record);
    OK(sr1__file_read(scratch_path("unjudged/metrics.jsonl"), 0, &record));
    assert_int_equal(count_text(sr1__buf_cstr(&record), "\"health/alarm_rewards\":1"), 4);
    sr1__buf_free(&record);
}

static void a_judge_that_comes_back_is_waited_for(void **state)
{
    char notes[4000];

    (void)state;
    OK(run_judged(0x6, "short", notes)); /* away in steps 2 and 3 */
    assert_int_equal(count_text(notes, alarm_text), 0);
    OK(run_judged(0x3e, "long", notes)); /* away from step 2 on */
    assert_int_equal(count_text(notes, alarm_text), 1);
    assert_int_equal(count_text(notes, "nothing was learned"), 0);
}

/* ---- evaluation ---- */

static void rows_without_a_search_are_no_wrong_answers(void **state)
{
    struct engine e = {0x5, SR1_ACTION_TIMEOUT, 0};
    sr1_config *c = tiny_config("searcher", "max_rows=1", NULL);
    sr1_search_ops ops = {
        .struct_size = sizeof ops, .name = "failing", .search = engine_search};
    sr1_eval_options o = {.struct_size = sizeof o, .greedy = 1};
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_dataset_options d = {.struct_size = sizeof d};
    const char *path = tiny_questions("questions.jsonl", 5);
    sr1_evaluation *found = NULL;
    sr1_dataset *data = NULL;
    sr1_rollout *rollout = NULL;
    sr1_search *search = NULL;

    (void)state;
    OK(sr1_search_new(&search, &ops, &e));
    OK(sr1_rollout_new(&rollout, c, NULL, NULL, search));
    OK(sr1_dataset_open(&data, &path, 1, &d));
    OK(sr1_evaluate(&found, rollout, data, &o));
    for (size_t i = 0; i < 2; i++) {
        OK(sr1_evaluation_scores(found, i, &s));
        assert_int_equal(s.rows, 3);
        assert_int_equal(s.excluded, 2);
        assert_true(s.answered == 1.0);
        assert_true(s.searches == 1.0);
    }
    sr1_evaluation_free(found);
    sr1_dataset_free(data);
    sr1_rollout_free(rollout);
    sr1_search_free(search);
    sr1_config_free(c);
}

static void keep_of_the_goal(void *user, const char *text)
{
    if (strstr(text, "would end the run") != NULL)
        strcpy(user, text);
}

/* One of six validation rows has no result in step 1, in step 2 all have. */
static int64_t steps_until(const char *run, const char *enough, char *said)
{
    struct engine e = {0x4, SR1_ACTION_TIMEOUT, 0}; /* the first after training's two */
    sr1_run_callbacks cb = {
        .struct_size = sizeof cb, .note = keep_of_the_goal, .user = said};
    sr1_trainer *tr = open_run_validated(&e, run, enough, "validate_interval=1");
    int64_t steps;

    OK(sr1_trainer_run(tr, &cb));
    steps = sr1_trainer_steps_done(tr);
    sr1_trainer_free(tr);
    return steps;
}

static void an_unknown_row_hides_no_goal(void **state)
{
    char said[300] = "";

    (void)state;
    /* 5 of 6 are enough whatever the sixth would be */
    assert_int_equal(steps_until("five", "stop_at_exact_match=0.8", said), 1);
    assert_string_equal(said, "");
    assert_int_equal(steps_until("six", "stop_at_exact_match=0.9", said), 2);
    assert_string_equal(said, "warning: step 1: exact match 1.000 would end the run "
                              "(stop_at_exact_match), but 1 of 6 rows could not be "
                              "scored");
}

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("searcher", TINY_SEARCHER, 40.0); /* certain: every sample searches */
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_outage_is_not_the_policys_failure),
        cmocka_unit_test(what_has_no_baseline_is_excluded_from_the_figures),
        cmocka_unit_test(an_engine_that_fails_as_a_whole_fails_its_rows),
        cmocka_unit_test(a_refused_key_ends_the_run),
        cmocka_unit_test(the_update_is_that_of_the_others_alone),
        cmocka_unit_test(when_nothing_is_left_nothing_changes),
        cmocka_unit_test(going_on_without_is_a_choice),
        cmocka_unit_test(such_a_trajectory_survives_being_stored),
        cmocka_unit_test(a_dead_engine_stops_the_run_with_a_checkpoint),
        cmocka_unit_test(an_outage_goes_on_with_its_run),
        cmocka_unit_test(refused_actions_are_no_searches),
        cmocka_unit_test(the_end_names_the_server),
        cmocka_unit_test(the_end_names_the_program_of_the_environment),
        cmocka_unit_test(one_answer_in_between_goes_on),
        cmocka_unit_test(zero_never_stops_a_run),
        cmocka_unit_test(a_run_without_any_reward_has_failed),
        cmocka_unit_test(a_judge_that_comes_back_is_waited_for),
        cmocka_unit_test(rows_without_a_search_are_no_wrong_answers),
        cmocka_unit_test(an_unknown_row_hides_no_goal),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
