/* Rollouts that begin before their step (async_level): when they begin, how old they are,
 * and that a run which was stopped, killed or failed goes on as if it had not been. */
#include "support/count_text.h"
#include "support/openai_server.h"

#include "runs.h"

#include "base/clock.h"
#include "policy/background_rollout.h"
#include "train/rollout_queue.h"

#include <searchr1/ext/trajectory_details.h>

#include <unistd.h>

#define GROUP 4
#define STEPS 6
#define QUESTIONS 5

static struct openai_server server;

static sr1_config *config_of(const char *run, const char *const *pairs)
{
    sr1_config *c = tiny_config(
        "searcher", "beta=0", out_pair(run), "max_steps=6", "save_interval=2",
        "openai_concurrency=1", "weight_sync_backend=disk", "openai_engine=vllm",
        "weight_sync_max_log_prob_diff=0", "importance_correction=token_truncate",
        "learning_rate=0.02", "async_level=1", NULL);

    openai_use(&server, c);
    OK(sr1_config_set(c, "openai_retries", "0"));
    OK(sr1_config_set(c, "train_file", tiny_questions("train.jsonl", QUESTIONS)));
    OK(sr1_config_set(c, "mock_knowledge", tiny_knowledge("facts.json")));
    for (; pairs && *pairs; pairs++)
        OK(sr1_config_set_pair(c, *pairs));
    return c;
}

#define ASYNC(run, ...) config_of(run, (const char *const[]){__VA_ARGS__, NULL})

static void start_server(void)
{
    openai_start(&server, scratch_path("searcher"));
    server.engine = VLLM;
}

/* ---- when they begin ---- */

static int overlapped;

/* Before the update: does the next rollout ask the server meanwhile? Each message of a
 * trajectory was a completion. */
static sr1_status wait_for_requests(void *self, const sr1_trajectory *const *t, size_t n,
                                    double *out)
{
    const sr1_trainer *tr = self;
    static int before; /* completions of the rollouts so far */

    for (size_t i = 0; i < n; i++) {
        out[i] = (double)(i % 2);
        before += (int)sr1_trajectory_search_count(t[i]) + 1;
    }
    for (int i = 0; tr->step + 1 < STEPS && i < 20000; i++) {
        struct timespec ms = {0, 5 * 1000 * 1000};

        if (atomic_load(&server.completions) > before) {
            overlapped++;
            return SR1_OK;
        }
        nanosleep(&ms, NULL);
    }
    return SR1_OK;
}

/* The ids of the questions of a run's trajectories, in order. */
static char *list_questions(const char *run)
{
    char *text = slurp_trajectories(run), *out = calloc(1, strlen(text) + 1);
    static const char key[] = "\"query_id\":\"";

    for (const char *at = text; (at = strstr(at, key)) != NULL; at++)
        snprintf(out + strlen(out), 32, "%.3s ", at + strlen(key));
    sr1_free(text);
    return out;
}

static void the_next_rollout_begins_before_the_update(void **state)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "waits", .score = wait_for_requests};
    char *asked, *asked_in_order, *text;
    sr1_trainer *tr;
    json_t *rows;

    (void)state;
    start_server();
    tr = open_trainer(ASYNC("ahead", "rewards=none"));
    OK(sr1_trainer_add_reward(tr, &ops, tr, 1.0));
    OK(sr1_trainer_run(tr, NULL));
    assert_null(tr->queue);
    sr1_trainer_free(tr);
    assert_int_equal(overlapped, STEPS - 1);
    /* the beginning's weights, then those of steps 1 to 4; nothing needs later ones */
    assert_int_equal(server.loads, STEPS - 1);
    assert_string_equal(server.version, "4");
    rows = metrics("ahead");
    for (size_t i = 0; i < STEPS; i++)
        assert_int_equal(metric(rows, i, "rollout/staleness"), i > 0);
    assert_true(metric(rows, 3, "sampling/sampling_logp_difference/mean") > 1e-4);
    assert_true(fabs(metric(rows, 3, "rollout_corr/rollout_is_max") - 1.0) > 1e-4);
    json_decref(rows);
    text = slurp_trajectories("ahead");
    assert_int_equal(count_text(text, "\"weights_version\":4"), GROUP);
    sr1_free(text);
    asked = list_questions("ahead");
    openai_reload(&server, scratch_path("searcher"));
    run_whole(ASYNC("in-order", "async_level=0"));
    asked_in_order = list_questions("in-order");
    assert_string_equal(asked, asked_in_order);
    free(asked);
    free(asked_in_order);
    openai_stop(&server);
}

/* ---- going on ---- */

/* How a run ends before its time. */
enum ending { STOP, RECORD_FAILS, KILL, STEP_FAILS, ESTIMATE_FAILS };
#define ENDINGS (ESTIMATE_FAILS + 1)

struct cut {
    sr1_trainer *tr;
    enum ending how;
    int64_t at;
};

static sr1_status cut_run(void *user, const sr1_step_report *r, int64_t planned)
{
    const struct cut *cut = user;

    (void)planned;
    if (r->step != cut->at || cut->how >= STEP_FAILS)
        return SR1_OK;
    if (cut->how == STOP) {
        sr1_trainer_stop(cut->tr);
        return SR1_OK;
    }
    cut->tr->in_update = cut->how == KILL; /* nothing more is saved */
    return sr1_set_error(SR1_E_IO, "pulled the plug");
}

/* 1 for a tower that is named; fails in the step that is cut. */
static sr1_status score_or_fail(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out)
{
    const struct cut *cut = self;

    for (size_t i = 0; i < n; i++)
        out[i] = strstr(sr1_trajectory_generated_text(t[i], NULL), "Paris") != NULL;
    return cut->how == STEP_FAILS && cut->tr->step + 1 == cut->at
               ? sr1_set_error(SR1_E_IO, "pulled the plug")
               : SR1_OK;
}

static const sr1_reward_ops named = {
    .struct_size = sizeof named, .name = "named", .score = score_or_fail};

/* Whose step is cut once its rollouts ahead have begun. */
static const struct cut *estimated;

static sr1_status estimate_or_fail(void *self, const sr1_advantage_batch *b,
                                   const sr1_advantage_options *o,
                                   const sr1_advantage_outputs *out)
{
    const struct cut *cut = estimated;

    (void)self, (void)o;
    for (size_t i = 0; i < b->n; i++)
        out->advantages[i] = b->rewards[i] - 0.5;
    return cut && cut->how == ESTIMATE_FAILS && cut->tr->step + 1 == cut->at
               ? sr1_set_error(SR1_E_IO, "pulled the plug")
               : SR1_OK;
}

static const sr1_advantage_ops offset = {
    .struct_size = sizeof offset, .name = "offset", .estimate = estimate_or_fail};

static void run_to_end(sr1_trainer *tr)
{
    struct cut none = {.tr = tr};

    OK(sr1_trainer_add_reward(tr, &named, &none, 1.0));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
}

/* Each way of ending at some steps, with a server that has other weights by then or was
 * begun anew. */
static void compare_resumed(const char *name, const char *const *pairs, int64_t first,
                            int64_t last)
{
    char whole[32], run[32];

    snprintf(whole, sizeof whole, "%s-whole", name);
    openai_reload(&server, scratch_path("searcher"));
    run_to_end(open_trainer(config_of(whole, pairs)));
    for (int i = 0; i < ENDINGS * (last - first + 1); i++) {
        struct cut cut = {.how = (enum ending)(i % ENDINGS), .at = first + i / ENDINGS};
        sr1_run_callbacks cb = {.struct_size = sizeof cb, .user = &cut, .step = cut_run};

        snprintf(run, sizeof run, "%s-%d", name, i);
        openai_reload(&server, scratch_path("searcher"));
        cut.tr = open_trainer(config_of(run, pairs));
        OK(sr1_trainer_add_reward(cut.tr, &named, &cut, 1.0));
        estimated = &cut;
        REFUSED(sr1_trainer_run(cut.tr, &cb),
                cut.how == STOP ? SR1_E_CANCELLED : SR1_E_IO,
                cut.how == STOP ? "stopped after" : "pulled the plug");
        estimated = NULL;
        sr1_trainer_free(cut.tr);
        cut.tr = NULL;
        if (i % 3 == 0)
            openai_reload(&server, scratch_path("searcher"));
        if (sr1_trainer_resume(&cut.tr, scratch_path(run), NULL) != SR1_OK)
            fail_msg("%s: %s", run, sr1_last_error());
        run_to_end(cut.tr);
        same_run(whole, run);
        OK(sr1__dir_remove(scratch_path(run)));
    }
}

static void resuming_equals_never_stopping(void **state)
{
    (void)state;
    start_server();
    compare_resumed(
        "plain", (const char *const[]){"rewards=none", "advantage=offset", NULL}, 3, 3);
    openai_stop(&server);
}

/* Further questions of a step, and a validation, while the next rollout is under way. */
static void so_it_does_with_further_rounds_and_validations(void **state)
{
    char validation[600];
    json_t *rows;

    (void)state;
    start_server();
    snprintf(validation, sizeof validation, "validation_file=%s",
             tiny_questions("validation.jsonl", 3));
    compare_resumed("rounds",
                    (const char *const[]){"rewards=none", "dynamic_sampling=2",
                                          validation, "validate_interval=2",
                                          "openai_sync_interval=2", "advantage=offset",
                                          NULL},
                    4, 4);
    rows = metrics("rounds-whole");
    assert_true(metric(rows, 3, "training/sampling_rounds") > 0);
    json_decref(rows);
    openai_stop(&server);
}

/* Three steps ahead; what is under way is waited for before the servers change. */
static void so_it_does_further_ahead(void **state)
{
    json_t *rows;

    (void)state;
    start_server();
    compare_resumed(
        "further",
        (const char *const[]){"rewards=none", "async_level=3", "advantage=offset", NULL},
        2, 2);
    rows = metrics("further-whole");
    for (size_t i = 0; i < STEPS; i++) {
        assert_int_equal(metric(rows, i, "rollout/staleness"), i < 3 ? i : 3);
        assert_int_equal(metric(rows, i, "rollout/staleness_max"), i < 3 ? i : 3);
    }
    json_decref(rows);
    openai_stop(&server);
}

/* ---- questions chosen by a rule ---- */

/* Steps that are under way together ask each question as often as any other. */
static void check_asked_apart(const char *run, int64_t level, int64_t batch)
{
    int64_t places = (level + 1) * batch;

    for (int64_t first = 1; first + level <= STEPS; first++) {
        int64_t counts[QUESTIONS] = {0};
        char text[256];

        for (int64_t step = first; step <= first + level; step++) {
            list_asked(run, step, text);
            for (char *at = text; *at; at += *at == ' ')
                counts[strtol(at, &at, 10)]++;
        }
        for (size_t i = 0; i < QUESTIONS; i++)
            assert_in_range(counts[i], places / QUESTIONS,
                            (places + QUESTIONS - 1) / QUESTIONS);
    }
}

/* What a rule ranks first is not asked once more before it is scored, unless all are. */
static void questions_under_way_are_not_chosen_again(void **state)
{
    static const struct {
        const char *rule, *level, *batch;
    } rows[] = {{"uniform", "1", "2"},
                {"reward_variance", "1", "2"},
                {"least_seen", "4", "1"},
                {"uniform", "1", "4"}};

    (void)state;
    start_server();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char pairs[3][64], run[32];

        snprintf(run, sizeof run, "chosen-%zu", i);
        snprintf(pairs[0], sizeof pairs[0], "query_selection=%s", rows[i].rule);
        snprintf(pairs[1], sizeof pairs[1], "async_level=%s", rows[i].level);
        snprintf(pairs[2], sizeof pairs[2], "batch_size=%s", rows[i].batch);
        openai_reload(&server, scratch_path("searcher"));
        run_whole(ASYNC(run, pairs[0], pairs[1], pairs[2]));
        check_asked_apart(run, atoi(rows[i].level), atoi(rows[i].batch));
    }
    openai_stop(&server);
}

/* Further questions of a step are not those of the next, which were chosen before. */
static void choices_ahead_are_resumed(void **state)
{
    char now[256], next[256];

    (void)state;
    start_server();
    compare_resumed("ruled",
                    (const char *const[]){"rewards=none", "async_level=2", "batch_size=1",
                                          "query_selection=reward_variance",
                                          "dynamic_sampling=1", "advantage=offset", NULL},
                    4, 4);
    for (int64_t step = 1; step < STEPS; step++) {
        list_asked("ruled-whole", step, now);
        list_asked("ruled-whole", step + 1, next);
        next[1] = '\0'; /* the first */
        assert_null(strstr(now, next));
    }
    openai_stop(&server);
}

/* ---- weights that change in the midst ---- */

struct ages {
    size_t mixed, tokens;
    int64_t most;
};

/* Of a line of the run's record. */
static void add_line(struct ages *a, const char *line, size_t n)
{
    sr1_trajectory *t = NULL;
    json_t *o = json_loadb(line, n, 0, NULL);
    int64_t step = json_integer_value(json_object_get(o, "step")), last = 0;
    int64_t oldest = step;

    OK(sr1_trajectory_from_json(&t, line, n));
    for (size_t i = 0; i < sr1_trajectory_policy_count(t); i++) {
        int64_t version = sr1_trajectory_token_weights_version(t, i);

        assert_in_range(version, last, step - 1); /* weights only get newer */
        last = version;
        oldest = version < oldest ? version : oldest;
        a->tokens++;
    }
    if (sr1_trajectory_policy_count(t))
        assert_int_equal(oldest, sr1_trajectory_weights_version(t));
    a->mixed += last != oldest;
    a->most = step - 1 - oldest > a->most ? step - 1 - oldest : a->most;
    sr1_trajectory_free(t);
    json_decref(o);
}

/* The server holds one answer of each rollout back until new weights have been sent. */
struct holding {
    sr1_trainer *tr;
    int before; /* held answers that may go, once the step has sent its weights */
};

static struct sr1__queued_rollout *find_queued(const sr1_trainer *tr, int64_t step)
{
    struct sr1__queued_rollout *q = tr->queue;

    while (q && q->step != step)
        q = q->next;
    return q;
}

static void wait_until_held(void)
{
    for (int i = 0; i < 10000 && server.held < server.to_hold; i++)
        usleep(10000);
    assert_int_equal(server.held, server.to_hold);
}

/* The step has sent weights and begun the last rollout of the queue, of which an answer
 * is held; what was held before goes on, with the new weights. */
static sr1_status let_go_on(void *self, const sr1_trajectory *const *t, size_t n,
                            double *out)
{
    const struct holding *h = self;

    (void)t;
    for (size_t i = 0; i < n; i++)
        out[i] = (double)(i % 2);
    if (find_queued(h->tr, h->tr->step + 2))
        wait_until_held();
    server.let_go = h->before;
    return SR1_OK;
}

/* Until all is over but the trajectory that is held; the next answer that is asked for is
 * the next rollout's. */
static sr1_status hold_next(void *user, const sr1_step_report *report, int64_t planned)
{
    struct holding *h = user;

    (void)report, (void)planned;
    if (!find_queued(h->tr, h->tr->step + 1)) /* no step sends weights before the last */
        server.let_go = server.held;
    for (struct sr1__queued_rollout *q = h->tr->queue; q; q = q->next) {
        int64_t all = (int64_t)q->n * GROUP, done = 0;
        int64_t last = q->step > h->tr->step && server.held ? all - 1 : all;

        for (int i = 0; q->run && i < 1000 && done < last; i++)
            (void)sr1__background_rollout_wait(q->run, sr1__now() + 0.1, &done);
        assert_true(!q->run || done == last);
    }
    h->before = server.to_hold;
    server.to_hold = h->before + 1;
    return SR1_OK;
}

/* Steps 2 to 4 each send weights while a trajectory is under way. */
static void tokens_keep_the_version_of_their_weights(void **state)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "let_go", .score = let_go_on};
    struct holding h = {NULL, 0};
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .user = &h, .step = hold_next};
    struct ages a = {0};
    char *text;

    (void)state;
    start_server();
    server.answers_paused = 1;
    h.tr = open_trainer(ASYNC("partial", "async_level=2", "partial_rollout=true",
                              "pause_mode=keep", "openai_concurrency=3", "rewards=none"));
    OK(sr1_trainer_add_reward(h.tr, &ops, &h, 1.0));
    OK(sr1_trainer_run(h.tr, &cb));
    sr1_trainer_free(h.tr);
    /* requests of all steps together, and one of a push */
    assert_in_range(atomic_load(&server.http.peak), 2, 4);
    assert_non_null(strstr(server.steps, "pause keep;"));
    text = slurp_trajectories("partial");
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        add_line(&a, line, strlen(line));
    sr1_free(text);
    assert_int_equal(a.mixed, 3);
    assert_true(a.tokens > 0);
    assert_int_equal(a.most, 2);
    openai_stop(&server);
}

/* What is over is kept: the server's answers need not be the same again. */
static void what_was_generated_is_not_asked_for_again(void **state)
{
    struct cut cut = {.how = STOP, .at = 1};
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .user = &cut, .step = cut_run};
    struct sr1__queued_rollout *q;
    int before;

    (void)state;
    start_server();
    cut.tr = open_trainer(ASYNC("kept", "max_steps=3", "save_interval=0"));
    cut.at = 1;
    REFUSED(sr1_trainer_run(cut.tr, &cb), SR1_E_CANCELLED, "stopped after step 1");
    sr1_trainer_free(cut.tr);
    /* what was not over yet begins again, and is over at the next stop */
    cut.tr = NULL;
    OK(sr1_trainer_resume(&cut.tr, scratch_path("kept"), NULL));
    q = sr1__rollout_queue_head(cut.tr);
    assert_non_null(q);
    assert_int_equal(q->step, 1);
    before = server.completions;
    if (q->t) {
        assert_true(sr1__path_exists(
            scratch_path("kept/checkpoints/step-1/rollouts/step-2.trajectories")));
        assert_int_equal(server.completions, before);
    }
    sr1_trainer_free(cut.tr);
    openai_stop(&server);
}

/* A rollout that fails is the failure of its own step, which asks again. */
static void a_rollout_that_fails_ends_its_own_step(void **state)
{
    sr1_trainer *tr;

    (void)state;
    start_server();
    tr = open_trainer(ASYNC("outage", "max_steps=3", "openai_timeout=5"));
    server.fail_code = 400;
    server.fail_first = 0;
    server.fail_every = 1;
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_NETWORK, "step 1");
    sr1_trainer_free(tr);
    openai_stop(&server);
}

/* Once step 1 has its trajectories, the server fails... */
static sr1_status fail_from_then(void *user, const char *phase, int64_t done,
                                 int64_t total)
{
    const sr1_trainer *tr = user;

    if (tr->step == 0 && strcmp(phase, "rollout") == 0 && done == total) {
        server.fail_code = 400;
        server.fail_every = 1;
    }
    return SR1_OK;
}

/* ...until the rollout of step 2 has failed, before the checkpoint. */
static sr1_status be_well_again(void *user, const sr1_step_report *report,
                                int64_t planned)
{
    const sr1_trainer *tr = user;

    (void)report;
    (void)planned;
    assert_non_null(tr->queue);
    assert_true(sr1__background_rollout_wait(tr->queue->run, sr1__now() + 100, NULL));
    server.fail_every = 0;
    return SR1_OK;
}

/* A checkpoint keeps what is over, and that includes a failure. */
static void a_checkpoint_forgets_no_failure(void **state)
{
    static const char *const intervals[] = {"save_interval=0", "save_interval=1"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sr1_run_callbacks cb = {
            .struct_size = sizeof cb, .step = be_well_again, .phase = fail_from_then};
        sr1_trainer *tr;

        start_server();
        tr = open_trainer(ASYNC(intervals[i], "max_steps=2", intervals[i]));
        cb.user = tr;
        REFUSED(sr1_trainer_run(tr, &cb), SR1_E_NETWORK, "step 2");
        sr1_trainer_free(tr);
        server.fail_code = server.fail_every = 0;
        openai_stop(&server);
    }
}

/* ---- the model that was trained ---- */

/* The server has another one by then, and is asked where that is wanted. */
static void a_trained_model_answers_itself(void **state)
{
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = GROUP, .seed = 5};
    sr1_query q = tiny_query("Where is tower 1?");
    sr1_trajectory *t[GROUP] = {NULL};
    sr1_rollout *r = NULL;
    sr1_config *c = NULL;
    int asked;

    (void)state;
    start_server();
    run_whole(ASYNC("trained", "max_steps=2", "async_level=2", "partial_rollout=true",
                    "pause_mode=keep"));
    OK(sr1_config_new(&c));
    OK(sr1_config_load_run(c, scratch_path("trained")));
    asked = atomic_load(&server.http.requests);
    OK(sr1_rollout_new(&r, c, NULL, NULL, NULL));
    assert_non_null(sr1_rollout_model(r));
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    assert_int_equal(atomic_load(&server.http.requests), asked);
    tiny_free_all(t, GROUP);
    sr1_rollout_free(r);
    OK(sr1_config_set(c, "use_openai", "true"));
    OK(sr1_rollout_new(&r, c, NULL, NULL, NULL));
    assert_null(sr1_rollout_model(r));
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    assert_true(atomic_load(&server.http.requests) > asked);
    tiny_free_all(t, GROUP);
    sr1_rollout_free(r);
    sr1_config_free(c);
    openai_stop(&server);
}

/* ---- refusals ---- */

static void where_it_cannot_hold_it_is_refused(void **state)
{
    static const char problem[] =
        "{\"id\": \"p0\", \"question\": \"Is x = 1 right?\", \"problem\": \"Where?\", "
        "\"solution\": \"x = 1\", \"tests\": [\"assert x\"], \"golden_answers\": []}\n";
    static const struct {
        const char *pairs[4];
        const char *why;
    } rows[] = {
        {{"use_openai=false"}, "need weights of their own, those of a server"},
        {{"stage=sft", "sft_file=nothing"}, "stage sft has no rollouts"},
        {{"importance_correction=none"},
         "openai_sync_interval is 1 and async_level 1, so what the server generates gets "
         "1 steps old, and max_staleness is 0"},
        {{"advantage=remax"}, "compares with greedy rollouts"},
        {{"partial_rollout=true"}, "with async_level 1 no rollout is under way"},
        {{"importance_correction=none", "max_staleness=2", "async_level=3"},
         "gets 3 steps old, and max_staleness is 2"},
    };
    sr1_trainer *tr = NULL;
    sr1_config *c;

    (void)state;
    start_server();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        c = config_of("refused", rows[i].pairs);
        REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, rows[i].why);
        sr1_config_free(c);
    }
    c = ASYNC("refused", "environment=critique", "protocol=ctrl",
              "mock_knowledge=", "search_engine=none", "rewards=format");
    OK(sr1_config_set(c, "code_problems", scratch_file("problem.jsonl", problem, 0)));
    OK(sr1_config_set(c, "train_file", scratch_path("problem.jsonl")));
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG,
            "have a server generate its revisions (proxy_url)");
    sr1_config_free(c);
    c = ASYNC("refused", "importance_correction=none", "max_staleness=1");
    OK(sr1_trainer_new(&tr, c, NULL));
    sr1_config_free(c);
    sr1_trainer_free(tr);
    openai_stop(&server);
}

static int make(void **state)
{
    int64_t before = sr1__mem_live();

    OK(sr1_advantage_register(&offset, NULL));
    tiny_lasting = (int)(sr1__mem_live() - before);
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("searcher", TINY_SEARCHER, 16);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_rollout_begins_before_the_update),
        cmocka_unit_test(resuming_equals_never_stopping),
        cmocka_unit_test(so_it_does_with_further_rounds_and_validations),
        cmocka_unit_test(so_it_does_further_ahead),
        cmocka_unit_test(questions_under_way_are_not_chosen_again),
        cmocka_unit_test(choices_ahead_are_resumed),
        cmocka_unit_test(tokens_keep_the_version_of_their_weights),
        cmocka_unit_test(what_was_generated_is_not_asked_for_again),
        cmocka_unit_test(a_rollout_that_fails_ends_its_own_step),
        cmocka_unit_test(a_checkpoint_forgets_no_failure),
        cmocka_unit_test(a_trained_model_answers_itself),
        cmocka_unit_test(where_it_cannot_hold_it_is_refused),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("async", tests, make, scratch_remove);
}
