/* Results are filled as far as the caller's struct goes, and not a byte further. */
#include "abi/structs.h"

#include <searchr1/ext/batching.h>
#include <searchr1/ext/bm25.h>
#include <searchr1/ext/estimators.h>
#include <searchr1/ext/loss.h>
#include <searchr1/ext/trajectory_details.h>
#include <searchr1/ext/world.h>

static sr1_search *engine;
static sr1_search *bm25;
static sr1_search_results *found;
static sr1_evaluation *evaluation;
static sr1_trajectory *trajectory;
static sr1_rollout *rollout;

struct result {
    const char *name;
    sr1_status (*call)(void *out);
    size_t size;
};

/* ---- the calls ---- */

static sr1_status key(void *out)
{
    return sr1_config_key_describe(0, out);
}

static sr1_status hit(void *out)
{
    return sr1_search_results_hit(found, 0, 0, out);
}

static sr1_status counters(void *out)
{
    return sr1_search_counters_get(engine, out);
}

static sr1_status info(void *out)
{
    return sr1_bm25_info_get(bm25, out);
}

static sr1_status token(void *out)
{
    return sr1_trajectory_token(trajectory, 0, out);
}

static sr1_status step(void *out)
{
    return sr1_trajectory_step(trajectory, 1, out);
}

static sr1_status segment(void *out)
{
    return sr1_trajectory_segment(trajectory, 1, out);
}

static sr1_status event(void *out)
{
    return sr1_trajectory_search(trajectory, 0, out);
}

static sr1_status scores(void *out)
{
    return sr1_evaluation_scores(evaluation, 1, out);
}

static const float now[] = {-1, -2}, old[] = {-1.5f, -1.5f}, advantages[] = {1, -1};

static sr1_status loss(void *out)
{
    sr1_loss_batch b = {.struct_size = sizeof b,
                        .n = 2,
                        .new_log_probs = now,
                        .old_log_probs = old,
                        .ref_log_probs = old,
                        .advantages = advantages};
    sr1_loss_options o = {sizeof o, 0.2, 0.2, 0.5};

    return sr1_loss_grpo(&b, &o, NULL, out);
}

static sr1_status nll(void *out)
{
    sr1_loss_batch b = {.struct_size = sizeof b, .n = 2, .new_log_probs = now};

    return sr1_loss_nll(&b, NULL, NULL, out);
}

static sr1_status loss_info(void *out)
{
    return sr1_loss_describe(1, out);
}

static sr1_status value_loss(void *out)
{
    sr1_value_batch b = {sizeof b, 2, now, advantages, old, NULL};

    return sr1_value_loss(&b, NULL, NULL, out);
}

static sr1_status advantage_info(void *out)
{
    return sr1_advantage_describe(0, out);
}

static sr1_status advantage_report(void *out)
{
    static const double rewards[] = {1, 4, 9};
    static const uint64_t groups[] = {5, 5, 6};
    sr1_advantage_batch b = {sizeof b, 3, rewards, groups, NULL};
    sr1_advantage_outputs o = {.struct_size = sizeof o};

    return sr1_advantage_estimate("grpo", &b, NULL, &o, out);
}

static sr1_status balance_report(void *out)
{
    static const int64_t lengths[] = {1, 4, 9};
    int32_t part[3];

    return sr1_balance(lengths, 3, 2, 0, part, out);
}

static const struct result results[] = {
    {"config key", key, sizeof(sr1_config_key_info)},
    {"hit", hit, sizeof(sr1_search_hit)},
    {"counters", counters, sizeof(sr1_search_counters)},
    {"bm25 info", info, sizeof(sr1_bm25_info)},
    {"token", token, sizeof(sr1_token_step)},
    {"step", step, sizeof(sr1_token_step)},
    {"segment", segment, sizeof(sr1_text_segment)},
    {"search", event, sizeof(sr1_action_event)},
    {"scores", scores, sizeof(sr1_eval_scores)},
    {"loss", loss, sizeof(sr1_loss_report)},
    {"nll", nll, sizeof(sr1_loss_report)},
    {"loss info", loss_info, sizeof(sr1_loss_info)},
    {"value loss", value_loss, sizeof(sr1_value_report)},
    {"advantage info", advantage_info, sizeof(sr1_advantage_info)},
    {"advantage report", advantage_report, sizeof(sr1_advantage_report)},
    {"balance report", balance_report, sizeof(sr1_balance_report)},
};

/* ---- all of one kind ---- */

static void all_guards(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(p[i], GUARD);
}

/* A struct of n bytes against the whole one. */
static void fill(const struct result *r, const unsigned char *whole, size_t n)
{
    size_t known = n < r->size ? n : r->size;
    size_t head = sizeof(size_t), size;
    unsigned char *out = sized("", 0, n + GUARDS);

    memcpy(out, &n, sizeof n);
    OK(r->call(out));
    memcpy(&size, out, sizeof size);
    assert_int_equal(size, n);
    assert_memory_equal(out + head, whole + head, known - head);
    all_guards(out + known, n + GUARDS - known);
    free(out);
}

static void refuse(const struct result *r, size_t n)
{
    unsigned char *out = sized("", 0, r->size);

    memcpy(out, &n, sizeof n);
    REFUSED(r->call(out), SR1_E_INVALID, "struct_size is not set");
    all_guards(out + sizeof n, r->size - sizeof n);
    free(out);
}

static void results_fit_the_callers_struct(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        const struct result *r = &results[i];
        unsigned char *whole = sized("", 0, r->size);

        print_message("    %s\n", r->name);
        OK(r->call(whole));
        for (size_t n = sizeof n + 4; n <= r->size; n += 4)
            fill(r, whole, n);
        fill(r, whole, r->size + GUARDS);
        refuse(r, 0);
        refuse(r, sizeof(size_t));
        free(whole);
    }
}

/* ---- rollouts ---- */

static int progressed, shown;

static sr1_status progress(void *user, int64_t finished, int64_t total, int64_t tokens)
{
    (void)finished;
    (void)total;
    (void)tokens;
    progressed++;
    return user == &progressed ? SR1_OK : SR1_E_INVALID;
}

static sr1_status text(void *user, size_t index, int32_t source, const char *s, size_t n)
{
    (void)user;
    (void)index;
    (void)source;
    (void)s;
    (void)n;
    shown++;
    return SR1_OK;
}

static void say_trajectory(struct said *said, const sr1_trajectory *t)
{
    size_t n;
    const char *s = sr1_trajectory_generated_text(t, &n);
    const char *source = sr1_trajectory_data_source(t);

    say(said, "%s|%.*s|%s|%zu ", sr1_trajectory_query_id(t), (int)n, s,
        source ? source : "", sr1_trajectory_ground_truth_count(t));
}

static void call_rollout(const void *given, struct said *said)
{
    sr1_query q = tiny_query("Where is the tower?");
    sr1_trajectory *made[2] = {NULL, NULL};

    progressed = shown = 0;
    if (say_status(said, sr1_rollout_generate(rollout, &q, 1, given, made)) == SR1_OK)
        for (size_t i = 0; i < 2; i++)
            say_trajectory(said, made[i]);
    say(said, "%d %d", progressed, shown);
    tiny_free_all(made, 2);
}

static const sr1_rollout_options rollout_options = {
    sizeof rollout_options, 2, 1, 77, 5, 1, progress, &progressed, text};
static const sr1_rollout_options no_rollout_options;

static void call_evaluate(const void *given, struct said *said)
{
    const char *path = scratch_path("rows.jsonl");
    sr1_eval_scores s = {.struct_size = sizeof s};
    sr1_dataset *d = NULL;
    sr1_evaluation *e = NULL;

    progressed = shown = 0;
    OK(sr1_dataset_open(&d, &path, 1, NULL));
    if (say_status(said, sr1_evaluate(&e, rollout, d, given)) == SR1_OK) {
        OK(sr1_evaluation_scores(e, 0, &s));
        say(said, "%d %g %g %g", (int)s.rows, s.exact_match, s.searches, s.tokens);
    }
    say(said, " %d", progressed);
    sr1_evaluation_free(e);
    sr1_dataset_free(d);
}

static const sr1_eval_options eval_options = {
    sizeof eval_options, 3, 0, 77, 1, progress, &progressed, NULL};
static const sr1_eval_options no_eval_options = {.greedy = 1};

#define R(field) END(sr1_rollout_options, field)
#define V(field) END(sr1_eval_options, field)

static const struct input inputs[] = {
    {"rollout options",
     call_rollout,
     &rollout_options,
     &no_rollout_options,
     sizeof rollout_options,
     {R(group_size), R(greedy), R(seed), R(max_tokens), R(no_search), R(user)}},
    {"evaluation options",
     call_evaluate,
     &eval_options,
     &no_eval_options,
     sizeof eval_options,
     {V(max_rows), V(greedy), V(seed), V(no_search), V(user)}},
};

static void options_of_rollouts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        check_input(&inputs[i]);
}

/* Three queries, `size` bytes apart. */
static void generate(const sr1_query *queries, size_t size, struct said *said)
{
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_trajectory *made[3] = {NULL};
    unsigned char *array = sized("", 0, 3 * size);

    for (size_t i = 0; i < 3; i++) {
        memcpy(array + i * size, &queries[i],
               size < sizeof *queries ? size : sizeof *queries);
        memcpy(array + i * size, &size, sizeof size);
    }
    said->n = 0;
    if (say_status(said, sr1_rollout_generate(rollout, (const void *)array, 3, &o,
                                              made)) == SR1_OK)
        for (size_t i = 0; i < 3; i++)
            say_trajectory(said, made[i]);
    tiny_free_all(made, 3);
    free(array);
}

static void refuse_queries(const sr1_query *q, const char *why)
{
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1};
    sr1_trajectory *made[3] = {NULL};

    REFUSED(sr1_rollout_generate(rollout, q, 3, &o, made), SR1_E_INVALID, why);
}

static void queries_lie_as_far_apart_as_the_callers(void **state)
{
    static const size_t ends[] = {END(sr1_query, text_len), END(sr1_query, id),
                                  END(sr1_query, n_answers), sizeof(sr1_query),
                                  sizeof(sr1_query) + GUARDS};
    static const size_t bad[] = {0, sizeof(size_t), END(sr1_query, text), 25, 8192};
    sr1_query q[3] = {tiny_query("one?"), tiny_query("two?"), tiny_query("three?")};
    struct said want, got;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        q[i].id = tiny_gold[0];
        q[i].data_source = "towers";
    }
    for (size_t k = 0; k < sizeof ends / sizeof *ends; k++) {
        sr1_query spelt[3] = {{0}};

        for (size_t i = 0; i < 3; i++)
            memcpy(&spelt[i], &q[i], ends[k] < sizeof *q ? ends[k] : sizeof *q);
        generate(spelt, sizeof *spelt, &want);
        generate(q, ends[k], &got);
        assert_string_equal(got.text, want.text);
        assert_int_equal(strncmp(got.text, "0 ", 2), 0);
    }
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        q[0].struct_size = bad[k];
        refuse_queries(q, "struct_size is not set");
    }
    q[0].struct_size = sizeof *q;
    q[2].struct_size = END(sr1_query, id);
    refuse_queries(q, "query 2: its struct_size");
}

/* ---- training ---- */

/* Seconds differ from call to call: only how far a report is filled is looked at. */
static void report(sr1_trainer *tr, size_t n)
{
    sr1_query q = tiny_query("Where is the tower?");
    size_t known = n < sizeof(sr1_step_report) ? n : sizeof(sr1_step_report);
    unsigned char *out = sized("", 0, n + GUARDS);
    sr1_trajectory *made[2] = {NULL, NULL};
    int64_t at;

    memcpy(out, &n, sizeof n);
    OK(sr1_trainer_train_step(tr, &q, 1, 2, (void *)out, made));
    memcpy(&at, out + offsetof(sr1_step_report, step), sizeof at);
    assert_int_equal(at, sr1_trainer_steps_done(tr));
    all_guards(out + known, n + GUARDS - known);
    OK(sr1_trainer_update(tr, made, 2, (void *)out));
    memcpy(&at, out + offsetof(sr1_step_report, step), sizeof at);
    assert_int_equal(at, sr1_trainer_steps_done(tr));
    all_guards(out + known, n + GUARDS - known);
    tiny_free_all(made, 2);
    free(out);
}

static void reports_of_steps(void **state)
{
    sr1_config *c = tiny_config("model", NULL);
    sr1_query q = tiny_query("Where is the tower?");
    sr1_step_report bad = {.struct_size = sizeof(size_t)};
    sr1_trainer *tr = NULL;

    (void)state;
    OK(sr1_trainer_new(&tr, c, engine));
    report(tr, END(sr1_step_report, step));
    report(tr, END(sr1_step_report, grad_norm));
    report(tr, sizeof(sr1_step_report) + GUARDS);
    REFUSED(sr1_trainer_train_step(tr, &q, 1, 2, &bad, NULL), SR1_E_INVALID,
            "struct_size is not set");
    assert_int_equal(sr1_trainer_steps_done(tr), 6);
    sr1_trainer_free(tr);
    sr1_config_free(c);
}

static int steps, notes;

static sr1_status on_step(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)planned;
    assert_ptr_equal(user, &steps);
    assert_int_equal(r->struct_size, sizeof *r);
    steps++;
    return SR1_OK;
}

static void on_note(void *user, const char *line)
{
    (void)line;
    assert_ptr_equal(user, &steps);
    notes++;
}

static void run(const char *out, size_t n)
{
    sr1_run_callbacks cb = {0, &steps, on_step, NULL, NULL, on_note};
    char to[600], file[600];
    void *given;
    sr1_config *c;
    sr1_trainer *tr = NULL;

    snprintf(to, sizeof to, "out=%s", scratch_path(out));
    snprintf(file, sizeof file, "train_file=%s", scratch_path("rows.jsonl"));
    c = tiny_config("model", to, file, "num_epochs=1", "save_final_model=false", NULL);
    OK(sr1_trainer_new(&tr, c, engine));
    given = sized(&cb, sizeof cb, n);
    steps = notes = 0;
    OK(sr1_trainer_run(tr, given));
    free(given);
    sr1_trainer_free(tr);
    sr1_config_free(c);
}

static void callbacks_of_a_run(void **state)
{
    sr1_run_callbacks bad = {.struct_size = sizeof(size_t)};
    sr1_config *c = tiny_config("model", NULL);
    sr1_trainer *tr = NULL;

    (void)state;
    run("older", END(sr1_run_callbacks, step));
    assert_true(steps == 2 && notes == 0);
    run("newer", sizeof(sr1_run_callbacks) + GUARDS);
    assert_true(steps == 2 && notes > 0);
    OK(sr1_trainer_new(&tr, c, engine));
    REFUSED(sr1_trainer_run(tr, &bad), SR1_E_INVALID, "struct_size is not set");
    sr1_trainer_free(tr);
    sr1_config_free(c);
}

/* ---- set-up ---- */

static int make(void **state)
{
    const char *q = "tower", *path;
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_eval_options eo = {.struct_size = sizeof eo, .greedy = 1};
    sr1_query query = tiny_query("Where is the tower?");
    sr1_dataset *d = NULL;
    sr1_config *c;

    scratch_make(state);
    tiny_model("model", TINY_SEARCHER, 12);
    path = tiny_questions("rows.jsonl", 4);
    OK(sr1_dataset_open(&d, &path, 1, NULL));
    scratch_file("corpus.jsonl", "{\"id\": \"1\", \"contents\": \"The tower.\"}\n", 0);
    OK(sr1_bm25_build(scratch_path("corpus.jsonl"), scratch_path("corpus.idx"), NULL,
                      NULL, NULL));
    OK(sr1_search_open_bm25(&bm25, scratch_path("corpus.idx"), NULL));
    OK(sr1_search_run(bm25, &q, 1, 1, &found));
    engine = tiny_engine();
    c = tiny_config("model", NULL);
    OK(sr1_rollout_new(&rollout, c, NULL, NULL, engine));
    OK(sr1_rollout_generate(rollout, &query, 1, &o, &trajectory));
    OK(sr1_evaluate(&evaluation, rollout, d, &eo));
    sr1_config_free(c);
    sr1_dataset_free(d);
    return 0;
}

static int clean(void **state)
{
    sr1_evaluation_free(evaluation);
    sr1_trajectory_free(trajectory);
    sr1_rollout_free(rollout);
    sr1_search_results_free(found);
    sr1_search_free(bm25);
    sr1_search_free(engine);
    return scratch_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_fit_the_callers_struct),
        cmocka_unit_test(options_of_rollouts),
        cmocka_unit_test(queries_lie_as_far_apart_as_the_callers),
        cmocka_unit_test(reports_of_steps),
        cmocka_unit_test(callbacks_of_a_run),
    };

    return cmocka_run_group_tests(tests, make, clean);
}
