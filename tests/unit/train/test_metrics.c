/* Metrics that have names of verl and TRL are those figures: counted once more here from
 * the trajectories of a step, by what verl's compute_data_metrics and rollout debugging
 * and TRL's GRPOTrainer do. */
#include "runs.h"

#include "environment/trajectory/builder.h"
#include "train/step_batch.h"

#define GROUP 8

static sr1_trajectory *made[GROUP];

/* A step, and its metrics; the weights have moved by two steps before. */
static json_t *step_of(sr1_trainer *tr, sr1_step_report *r)
{
    sr1_query q = tiny_query("Where is the tower?");
    json_t *row;

    for (int i = 0; i < 3; i++) {
        if (i)
            tiny_free_all(made, GROUP);
        *r = (sr1_step_report){.struct_size = sizeof *r};
        OK(sr1_trainer_train_step(tr, &q, 1, GROUP, r, made));
    }
    row = sr1__metrics_row(&tr->step_metrics);
    assert_non_null(row);
    return row;
}

static double of(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);

    if (!json_is_number(v))
        fail_msg("no %s", key);
    return json_number_value(v);
}

/* The sum over a trajectory. */
static double sum_kl(const sr1_trajectory *t, const char *kind)
{
    size_t n = sr1_trajectory_policy_count(t);
    double rewards[512] = {0}, mean;

    assert_true(n <= 512);
    OK(sr1_kl_penalty(kind, 1.0, sr1_trajectory_policy_log_probs(t),
                      sr1_trajectory_column(t, SR1_COLUMN_REFERENCE), n, rewards, &mean));
    return mean * (double)n;
}

/* verl: sequence_score, and sequence_reward = sequence_score - beta sum of the KL. */
static void scores_are_rewards_before_the_kl(void **state)
{
    sr1_trainer *tr = tiny_trainer(
        tiny_config("model", "kl_in=reward", "kl_reference=frozen", "beta=0.5",
                    "learning_rate=1e-2", "max_grad_norm=0", NULL));
    double score = 0, low = 1e9, high = -1e9, kl = 0;
    sr1_step_report r;
    json_t *row = step_of(tr, &r);

    (void)state;
    for (size_t i = 0; i < GROUP; i++) {
        double x = sr1_trajectory_reward(made[i]);

        score += x / GROUP;
        low = fmin(low, x);
        high = fmax(high, x);
        kl += sum_kl(made[i], tr->set.kl_kind) / GROUP;
    }
    tiny_near(of(row, "critic/score/mean"), score, 1e-12);
    tiny_near(of(row, "critic/score/min"), low, 1e-12);
    tiny_near(of(row, "critic/score/max"), high, 1e-12);
    assert_true(of(row, "critic/kl") > 1e-3);
    tiny_near(of(row, "critic/rewards/mean"), score - 0.5 * kl, 1e-6);
    assert_true(of(row, "critic/rewards/max") < high);
    json_decref(row);
    tiny_free_all(made, GROUP);
    sr1_trainer_free(tr);
}

static size_t read_list(const json_t *row, const char *key, double out[64])
{
    const json_t *list = json_object_get(row, key);
    size_t n = json_array_size(list);

    assert_in_range(n, 1, 64);
    for (size_t i = 0; i < n; i++)
        out[i] = json_number_value(json_array_get(list, i));
    return n;
}

/* n tokens of these log-probs. */
static sr1_trajectory *compare_tokens(const double *old, const double *ref, size_t n)
{
    const int32_t prompt = 300;
    struct sr1__trajectory_builder *b = NULL;
    sr1_trajectory *t = NULL;
    float reference[64];

    OK(sr1__trajectory_builder_new(&b, "q", 1, NULL, 0));
    OK(sr1__trajectory_builder_prompt(b, &prompt, 1));
    for (size_t i = 0; i < n; i++) {
        OK(sr1__trajectory_builder_policy(b, 301, (float)old[i], 0, "", 0));
        reference[i] = (float)ref[i];
    }
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
    if (n > 0)
        OK(sr1_trajectory_set_column(t, SR1_COLUMN_REFERENCE, reference, n));
    return t;
}

/* One batch of sequences by verl's apply_kl_penalty and its controller. */
static void check_penalty(const json_t *row)
{
    double old[64], ref[64], rewards[64], lengths[64];
    size_t n = read_list(row, "lengths", lengths), at = 0;
    sr1_trainer *tr = tiny_trainer(
        tiny_config("model", "kl_in=reward", "kl_reference=frozen", "beta=0.2",
                    "kl_controller=adaptive", "rewards=format", NULL));
    struct sr1__step_batch b = {
        .tr = tr, .metrics = &tr->step_metrics, .group_size = (int32_t)n};

    sr1__metrics_begin(b.metrics, 1);
    tr->set.kl_kind = json_string_value(json_object_get(row, "kind"));
    tr->kl.coef = json_number_value(json_object_get(row, "coef"));
    tr->kl.target = json_number_value(json_object_get(row, "target"));
    tr->kl.horizon = json_number_value(json_object_get(row, "horizon"));
    read_list(row, "old", old);
    read_list(row, "ref", ref);
    read_list(row, "rewards", rewards);
    for (size_t i = 0; i < n; at += (size_t)lengths[i++]) {
        sr1_trajectory *t = compare_tokens(old + at, ref + at, (size_t)lengths[i]);

        OK(sr1__step_batch_append(&b, &t, 1));
        sr1_trajectory_free(t);
    }
    OK(sr1__score_rewards(&b));
    OK(sr1__compute_advantages(&b));
    OK(sr1__adapt_controllers(&b));
    tiny_near(sr1__metrics_get(b.metrics, "reward_kl"),
              json_number_value(json_object_get(row, "mean")), 1e-6);
    tiny_near(tr->kl.coef, json_number_value(json_object_get(row, "after")), 1e-12);
    at = 0;
    for (size_t i = 0; i < n; at += (size_t)lengths[i++])
        for (size_t k = 0; k < (size_t)lengths[i]; k++)
            tiny_near(sr1_trajectory_column(b.t[i], SR1_COLUMN_REWARD)[k],
                      rewards[at + k], 1e-6);
    sr1__step_batch_free(&b);
    sr1_trainer_free(tr);
}

static void the_kl_in_the_reward_is_verls(void **state)
{
    char path[4096], *line, *rest;
    struct sr1__buf text;
    size_t n = 0;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/kl.jsonl", getenv("SR1_SRC"));
    OK(sr1__file_read(path, 0, &text));
    for (line = strtok_r(text.data, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *row = NULL;

        OK(sr1__json_parse(&row, line, strlen(line), "vectors"));
        if (json_object_get(row, "lengths")) {
            check_penalty(row);
            n++;
        }
        json_decref(row);
    }
    sr1__buf_free(&text);
    assert_int_equal(n, 2);
}

/* verl: masked_select(advantages, response_mask), so the long ones count more. */
static void advantages_are_of_tokens(void **state)
{
    sr1_trainer *tr = tiny_trainer(tiny_config("model", "max_tokens=7", NULL));
    double sum = 0, tokens = 0, low = 1e9, high = -1e9, by_trajectory = 0;
    sr1_step_report r;
    json_t *row = step_of(tr, &r);

    (void)state;
    for (size_t i = 0; i < GROUP; i++) {
        double a = sr1_trajectory_advantage(made[i]);
        double n = (double)sr1_trajectory_policy_count(made[i]);

        sum += a * n;
        tokens += n;
        low = fmin(low, a);
        high = fmax(high, a);
        by_trajectory += a / GROUP;
    }
    tiny_near(of(row, "critic/advantages/mean"), sum / tokens, 1e-9);
    tiny_near(of(row, "critic/advantages/min"), low, 1e-9);
    tiny_near(of(row, "critic/advantages/max"), high, 1e-9);
    assert_true(fabs(sum / tokens - by_trajectory) > 1e-3); /* lengths differ */
    json_decref(row);
    tiny_free_all(made, GROUP);
    sr1_trainer_free(tr);
}

/* verl: |exp(rollout_log_probs) - exp(old_log_probs)|; TRL: |sampling - old log-probs|.
 * In bf16 they differ. With learning rate 0 the old ones can be had again. */
static void differences_are_of_probabilities(void **state)
{
    sr1_trainer *tr =
        tiny_trainer(tiny_config("model", "dtype=bf16", "learning_rate=0", NULL));
    double probs = 0, logs = 0, probs_max = 0, logs_max = 0, tokens = 0;
    sr1_step_report r;
    json_t *row = step_of(tr, &r);

    (void)state;
    for (size_t i = 0; i < GROUP; i++) {
        size_t n = sr1_trajectory_policy_count(made[i]);
        const float *then = sr1_trajectory_policy_log_probs(made[i]);
        const sr1_trajectory *t = made[i];
        float now[64];

        assert_true(n <= 64);
        OK(sr1_rollout_log_probs(tr->rollout, &t, 1, now, n));
        for (size_t k = 0; k < n; k++) {
            double p = fabs(exp((double)then[k]) - exp((double)now[k]));
            double l = fabs((double)then[k] - (double)now[k]);

            probs += p;
            logs += l;
            probs_max = fmax(probs_max, p);
            logs_max = fmax(logs_max, l);
        }
        tokens += (double)n;
    }
    assert_true(logs > 1.5 * probs && probs > 0); /* neither is taken for the other */
    tiny_near(of(row, "training/rollout_probs_diff_mean") / (probs / tokens), 1, 0.1);
    tiny_near(of(row, "training/rollout_probs_diff_max") / probs_max, 1, 0.3);
    tiny_near(of(row, "sampling/sampling_logp_difference/mean") / (logs / tokens), 1,
              0.1);
    tiny_near(of(row, "sampling/sampling_logp_difference/max") / logs_max, 1, 0.3);
    json_decref(row);
    tiny_free_all(made, GROUP);
    sr1_trainer_free(tr);
}

/* verl: sum of global_token_num, prompts and all, over the time of the step. */
static void throughput_counts_whole_trajectories(void **state)
{
    sr1_trainer *tr = tiny_trainer(tiny_config("model", NULL));
    double tokens = 0;
    sr1_step_report r;
    json_t *row = step_of(tr, &r);

    (void)state;
    for (size_t i = 0; i < GROUP; i++)
        tokens += (double)sr1_trajectory_token_count(made[i]);
    tiny_near(of(row, "perf/throughput") * of(row, "timing_s/step"), tokens, 1e-6);
    assert_true(of(row, "perf/max_memory_allocated_gb") == 0); /* the CPU has none */
    json_decref(row);
    tiny_free_all(made, GROUP);
    sr1_trainer_free(tr);
}

/* verl: of all valid tokens of the batch, 1 - var(returns - values) / var(returns), also
 * where it is learned from in parts. */
static void the_critics_figures_are_of_all_tokens(void **state)
{
    sr1_trainer *tr =
        tiny_trainer(tiny_config("model", "advantage=gae", "loss=ppo",
                                 "critic_learning_rate=1e-2", "mini_batch_size=2", NULL));
    double n = 0, v = 0, r1 = 0, r2 = 0, e1 = 0, e2 = 0;
    sr1_step_report r;
    json_t *row = step_of(tr, &r);

    (void)state;
    for (size_t i = 0; i < GROUP; i++) {
        const float *values = sr1_trajectory_column(made[i], SR1_COLUMN_VALUE);
        const float *returns = sr1_trajectory_column(made[i], SR1_COLUMN_RETURN);

        for (size_t k = 0; k < sr1_trajectory_policy_count(made[i]); k++, n++) {
            double e = (double)returns[k] - (double)values[k];

            v += (double)values[k];
            r1 += (double)returns[k];
            r2 += (double)returns[k] * (double)returns[k];
            e1 += e;
            e2 += e * e;
        }
    }
    assert_true(fabs(v / n) > 1e-3);
    tiny_near(of(row, "critic/values/mean"), v / n, 1e-9);
    tiny_near(of(row, "critic/returns/mean"), r1 / n, 1e-9);
    tiny_near(of(row, "critic/vf_explained_var"),
              1 - (e2 / n - e1 / n * e1 / n) / (r2 / n - r1 / n * r1 / n), 1e-6);
    json_decref(row);
    tiny_free_all(made, GROUP);
    sr1_trainer_free(tr);
}

/* By name and one after the other, a report has the metrics of a row. */
static void every_metric_is_found_by_name(void **state)
{
    sr1_trainer *tr = tiny_trainer(tiny_config("model", "beta=0.01", NULL));
    sr1_step_report r;
    json_t *row = step_of(tr, &r);
    void *at = json_object_iter(row);
    const char *name;
    double value = -1, known;

    (void)state;
    for (size_t i = 0; (name = sr1_step_metric_at(&r, i, &value)); i++) {
        assert_string_equal(name, json_object_iter_key(at));
        assert_true(value == json_number_value(json_object_iter_value(at)));
        OK(sr1_step_metric(&r, name, &known));
        assert_true(known == value);
        at = json_object_iter_next(row, at);
    }
    assert_null(at); /* all of the row */
    OK(sr1_step_metric(&r, "critic/score/mean", &value));
    assert_true(value == r.avg_reward);
    OK(sr1_step_metric(&r, "rewards/format/mean", &value));
    OK(sr1_step_metric(&r, "health/alarms", &value));
    json_decref(row);
    tiny_free_all(made, GROUP);
    sr1_trainer_free(tr);
}

/* A figure that is added under a name that no row has would come out under that name:
 * only rewards may. */
static void every_step_has_the_names_of_the_table(void **state)
{
    static const char *const kinds[] = {"advantage=grpo", "advantage=gae",
                                        "kl_in=reward"};
    size_t n = 0;

    (void)state;
    while (sr1_step_metric_name(n))
        n++;
    for (int k = 0; k < 3; k++) {
        sr1_trainer *tr = tiny_trainer(
            tiny_config("model", kinds[k], "beta=0.1", "kl_reference=frozen", NULL));
        sr1_step_report r;
        json_t *row = step_of(tr, &r);
        const char *name;

        for (size_t i = 0; (name = sr1_step_metric_name(i)); i++)
            assert_int_equal(json_object_del(row, name), 0);
        assert_int_equal(json_object_size(row), 2);
        (void)of(row, "rewards/format/mean");
        (void)of(row, "rewards/answer/mean");
        json_decref(row);
        tiny_free_all(made, GROUP);
        sr1_trainer_free(tr);
    }
    assert_true(n > 110);
}

static void reports_that_say_nothing_are_refused(void **state)
{
    sr1_trainer *tr = tiny_trainer(tiny_config("model", NULL));
    sr1_step_report r, old, empty = {.struct_size = sizeof empty};
    json_t *row = step_of(tr, &r);
    sr1_query q = tiny_query("Where is the tower?");
    double value = 7;

    (void)state;
    REFUSED(sr1_step_metric(&r, "critic/scores", &value), SR1_E_NOT_FOUND,
            "critic/scores");
    REFUSED(sr1_step_metric(NULL, "loss", &value), SR1_E_INVALID, "report");
    REFUSED(sr1_step_metric(&empty, "loss", &value), SR1_E_INVALID, "no step");
    empty.struct_size = offsetof(sr1_step_report, metrics);
    REFUSED(sr1_step_metric(&empty, "loss", &value), SR1_E_INVALID, "step report");
    old = r;
    OK(sr1_trainer_train_step(tr, &q, 1, 2, &r, NULL));
    REFUSED(sr1_step_metric(&old, "loss", &value), SR1_E_STATE, "before the next step");
    assert_null(sr1_step_metric_at(&old, 0, &value));
    assert_true(value == 7);
    OK(sr1_step_metric(&r, "loss", &value));
    json_decref(row);
    tiny_free_all(made, GROUP);
    sr1_trainer_free(tr);
}

/* ---- a sink ---- */

struct heard {
    json_t *rows;
    int64_t fails_at;
};

static sr1_status hear(void *user, int64_t step, const char *const *names,
                       const double *values, size_t n)
{
    struct heard *h = user;
    json_t *row = json_object();

    for (size_t i = 0; i < n; i++)
        json_object_set_new(row, names[i], sr1__json_number(values[i]));
    assert_true(of(row, "step") == (double)step);
    json_array_append_new(h->rows, row);
    if (step != h->fails_at)
        return SR1_OK;
    return sr1_set_error(SR1_E_CALLBACK, "the disk of the sink is full");
}

/* What is whole is an integer in one and may be a real number in the other. */
static void same_numbers(const json_t *a, json_t *b)
{
    const char *name;
    json_t *v;

    json_object_foreach(b, name, v)
    {
        const json_t *w = json_object_get(a, name);

        assert_true(json_is_null(v) ? json_is_null(w)
                                    : json_number_value(v) == json_number_value(w));
    }
}

/* In a run it hears the rows of metrics.jsonl, those of validations too. */
static void a_sink_hears_the_rows_of_a_run(void **state)
{
    struct heard h = {.rows = json_array(), .fails_at = -1};
    sr1_trainer *tr =
        open_trainer(RUN("heard", "validate_interval=2", "validation_split=0.3",
                         "max_steps=4", "log_interval=2"));
    json_t *rows;

    (void)state;
    OK(sr1_trainer_set_metric_sink(tr, hear, &h));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    rows = metrics("heard");
    assert_int_equal(json_array_size(h.rows), json_array_size(rows));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);

        assert_int_equal(json_object_del(row, "perf/timestamp"), 0);
        assert_int_equal(json_object_size(row),
                         json_object_size(json_array_get(h.rows, i)));
        same_numbers(json_array_get(h.rows, i), row);
    }
    (void)of(json_array_get(rows, 1), "val/exact_match");
    json_decref(rows);
    json_decref(h.rows);
}

/* Those of the first step are worth the same, so it has no advantages. */
static sr1_status score_later_steps(void *self, const sr1_trajectory *const *t, size_t n,
                                    double *rewards)
{
    int *steps = self;

    (void)t;
    for (size_t i = 0; i < n; i++)
        rewards[i] = *steps > 0 ? (double)(i % 2) : 0;
    ++*steps;
    return SR1_OK;
}

static void rows_have_the_alarms_of_steps_between(void **state)
{
    static const double want[] = {1, 0};
    int steps = 0;
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "later", .score = score_later_steps};
    sr1_trainer *tr = open_trainer(RUN("between", "rewards=none", "batch_size=1",
                                       "group_size=2", "max_steps=4", "log_interval=2"));
    json_t *rows;

    (void)state;
    OK(sr1_trainer_add_reward(tr, &ops, &steps, 1.0));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    rows = metrics("between");
    assert_int_equal(json_array_size(rows), 2);
    for (size_t i = 0; i < 2; i++) {
        json_t *row = json_array_get(rows, i);
        const char *name;
        double n = 0;

        assert_true(of(row, "health/alarm_zero_advantage") == want[i]);
        for (size_t a = 0; (name = sr1_alarm_name(a)); a++) {
            char metric[64];

            snprintf(metric, sizeof metric, "health/alarm_%s", name);
            n += of(row, metric);
        }
        assert_true(of(row, "health/alarms") == n);
    }
    json_decref(rows);
}

static void a_sink_that_fails_ends_the_run(void **state)
{
    struct heard h = {.rows = json_array(), .fails_at = 3};
    sr1_trainer *tr = open_trainer(RUN("full", "max_steps=5"));
    sr1_trainer *other = tiny_trainer(tiny_config("model", NULL));
    sr1_query q = tiny_query("Where is the tower?");

    (void)state;
    OK(sr1_trainer_set_metric_sink(tr, hear, &h));
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CALLBACK, "the disk of the sink is full");
    assert_int_equal(json_array_size(h.rows), 3);
    sr1_trainer_free(tr);
    /* alone, a step by itself is heard, and another sink may follow */
    json_array_clear(h.rows);
    OK(sr1_trainer_set_metric_sink(other, hear, &h));
    OK(sr1_trainer_train_step(other, &q, 1, 2, NULL, NULL));
    OK(sr1_trainer_update(other, NULL, 0, NULL));
    assert_int_equal(json_array_size(h.rows), 2);
    OK(sr1_trainer_set_metric_sink(other, NULL, NULL));
    OK(sr1_trainer_update(other, NULL, 0, NULL));
    assert_int_equal(json_array_size(h.rows), 2);
    REFUSED(sr1_trainer_set_metric_sink(NULL, hear, &h), SR1_E_INVALID, "trainer");
    sr1_trainer_free(other);
    json_decref(h.rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_rewards_before_the_kl),
        cmocka_unit_test(the_kl_in_the_reward_is_verls),
        cmocka_unit_test(advantages_are_of_tokens),
        cmocka_unit_test(differences_are_of_probabilities),
        cmocka_unit_test(throughput_counts_whole_trajectories),
        cmocka_unit_test(the_critics_figures_are_of_all_tokens),
        cmocka_unit_test(every_metric_is_found_by_name),
        cmocka_unit_test(every_step_has_the_names_of_the_table),
        cmocka_unit_test(reports_that_say_nothing_are_refused),
        cmocka_unit_test(a_sink_hears_the_rows_of_a_run),
        cmocka_unit_test(rows_have_the_alarms_of_steps_between),
        cmocka_unit_test(a_sink_that_fails_ends_the_run),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("metrics", tests, runs_make, scratch_remove);
}
