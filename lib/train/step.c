/* train/step.c - one step, from questions to new weights:
 *
 *     query -> rollout -> trajectory -> reward -> advantage -> loss -> update
 *
 * Each line of run_step is a function of one file, in step_batch.h in the same order. A
 * step on the caller's trajectories, and one on demonstrations, are the same line entered
 * later. */
#include "train/step_batch.h"

#include <searchr1/ext/reward_set.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/struct.h"
#include "policy/dataset_queries.h"
#include "environment/trajectory/trajectory.h"
#include "signal/loss/loss.h"
#include "signal/reward/reward_set.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static sr1_status run_step(struct sr1__step_batch *b)
{
    SR1__TRY(sr1__sync_policy(b));
    SR1__TRY(sr1__roll_out(b));
    SR1__TRY(sr1__roll_out_ahead(b));
    SR1__TRY(sr1__score_rewards(b));
    SR1__TRY(sr1__fill_log_probs(b));
    SR1__TRY(sr1__compute_advantages(b));
    SR1__TRY(sr1__batch_metrics(b));
    SR1__TRY(sr1__select_for_update(b));
    SR1__TRY(sr1__update_critic(b));
    SR1__TRY(sr1__update_policy(b));
    return sr1__adapt_controllers(b);
}

/* Of trajectories that have their advantages. */
static sr1_status run_update(struct sr1__step_batch *b)
{
    SR1__TRY(sr1__fill_log_probs(b));
    SR1__TRY(sr1__batch_metrics(b));
    SR1__TRY(sr1__select_for_update(b));
    SR1__TRY(sr1__update_critic(b));
    return sr1__update_policy(b);
}

static void count_demonstrations(struct sr1__step_batch *b)
{
    double n = (double)b->n, policy = 0;

    for (size_t i = 0; i < b->n; i++) {
        policy += (double)sr1_trajectory_policy_count(b->t[i]);
        b->tokens += (int64_t)sr1_trajectory_token_count(b->t[i]);
    }
    sr1__metrics_add(b->metrics, "policy_tokens", policy, SR1__LAST);
    sr1__metrics_add(b->metrics, "trajectories", n, SR1__LAST);
    sr1__metrics_add(b->metrics, "avg_tokens", b->n ? policy / n : 0.0, SR1__LAST);
}

/* An update that went too far leaves a loss far above ln(tokens of the vocabulary). */
static void check_imitation(struct sr1__step_batch *b)
{
    const sr1_trainer *tr = b->tr;
    double guess = log((double)tr->model->config.vocab_size);

    if (sr1__aggregation_is_mean(tr->set.aggregation) &&
        sr1__metrics_get(b->metrics, "loss") > guess + 1.0)
        b->metrics->events |= SR1__WORSE_THAN_GUESSING;
}

/* Of demonstrations, which are imitated as they are: nothing was sampled that could
 * differ. */
static sr1_status run_imitation(struct sr1__step_batch *b)
{
    static const char *const of_sampling[] = {"rollout_diff_max", "rollout_diff_mean",
                                              "probs_diff_max", "probs_diff_mean"};

    count_demonstrations(b);
    SR1__TRY(sr1__select_for_update(b));
    SR1__TRY(sr1__update_policy(b));
    check_imitation(b);
    for (size_t i = 0; i < sizeof(of_sampling) / sizeof(of_sampling[0]); i++)
        sr1__metrics_add(b->metrics, of_sampling[i], 0.0, SR1__LAST);
    return SR1_OK;
}

/* ---- around a step ---- */

static sr1_status check_report(const sr1_step_report *report)
{
    return report ? sr1__struct_check(report, "step report") : SR1_OK;
}

static sr1_status give_report(sr1_step_report *out, const struct sr1_step_metrics *m)
{
    sr1_step_report r;

    sr1__metrics_report(m, &r);
    return out ? sr1__struct_give(out, &r, sizeof(r), "step report") : SR1_OK;
}

static void add_alarms(struct sr1_step_metrics *m)
{
    uint32_t ringing = sr1__find_alarms(m);
    const char *name;

    for (size_t i = 0; (name = sr1_alarm_name(i)); i++) {
        char figure[64];
        int rings = (ringing >> i) & 1;

        snprintf(figure, sizeof(figure), "alarm_%s", name);
        sr1__metrics_add(m, figure, rings, SR1__LAST);
        sr1__metrics_add(m, "alarms", rings, SR1__SUM);
    }
}

#define UNSCORED_STEPS 3 /* in a row; fewer are an outage that passes */

static void watch_rewards(struct sr1__step_batch *b)
{
    sr1_trainer *tr = b->tr;

    tr->unscored_steps = sr1__scored_nothing(b->metrics) ? tr->unscored_steps + 1 : 0;
    if (tr->unscored_steps >= UNSCORED_STEPS)
        b->metrics->events |= SR1__UNSCORED_FOR_LONG;
}

/* What is known once the step is done. */
static sr1_status complete_metrics(struct sr1__step_batch *b)
{
    struct sr1_step_metrics *m = b->metrics;
    double seconds = sr1__now() - b->began;

    sr1__metrics_add(m, "seconds", seconds, SR1__LAST);
    if (seconds > 0)
        sr1__metrics_add(m, "throughput", (double)b->tokens / seconds, SR1__LAST);
    sr1__metrics_add(m, "rss_bytes", (double)sr1__rss_bytes(), SR1__LAST);
    sr1__metrics_add(m, "skipped_updates_total", (double)b->tr->skipped, SR1__LAST);
    watch_rewards(b);
    add_alarms(m);
    SR1__TRY(sr1__metrics_status(m));
    return b->in_run ? SR1_OK : sr1__metric_sink_step(b->tr);
}

static sr1_status check_metric_of_groups(const sr1_trainer *tr)
{
    const char *metric = tr->set.filter_groups_metric;

    if (!*metric || sr1__reward_set_has(tr->rewards, sr1__str_of(metric)))
        return SR1_OK;
    return sr1__fail(
        SR1_E_CONFIG,
        "filter_groups_metric is '%.200s', which is none of the rewards; add "
        "it to rewards, with the weight 0 where it is to be compared only, or "
        "leave the key out",
        metric);
}

sr1_status sr1__check_rewards(const sr1_trainer *tr)
{
    SR1__TRY(sr1__reward_set_check_sources(tr->rewards));
    if (sr1_reward_set_count(tr->rewards) > 0)
        return check_metric_of_groups(tr);
    return sr1__fail(
        SR1_E_CONFIG,
        "rewards is none and no reward was given; name one (rewards=answer) or a program "
        "(reward_programs=FILE.py), or add one (sr1_trainer_add_reward; in Python "
        "rewards=); a run that a program's own reward began goes on from that program");
}

/* The reference moves behind what the step made of the policy. */
static sr1_status run_and_move(struct sr1__step_batch *b,
                               sr1_status (*run)(struct sr1__step_batch *b), int64_t step)
{
    SR1__TRY(run(b));
    return sr1__reference_move(b->tr, step);
}

/* Run the step of *b, whose trainer and trajectories or questions are set, and free *b;
 * trajectories go to out (may be NULL). tr->step tells whether the step is done: the
 * report of a step that is done can still fail. */
static sr1_status finish_step(struct sr1__step_batch *b,
                              sr1_status (*run)(struct sr1__step_batch *b),
                              sr1_step_report *report, sr1_trajectory **out)
{
    sr1_trainer *tr = b->tr;
    int64_t step = tr->step + 1;
    sr1_status st;

    b->metrics = &tr->step_metrics;
    sr1__metrics_begin(b->metrics, step);
    st = sr1__dist_agree(tr->dist, "step", run_and_move(b, run, step));
    if (st == SR1_OK) {
        tr->step = step;
        tr->in_update = 0;
        st = complete_metrics(b);
    }
    if (st == SR1_OK)
        st = give_report(report, b->metrics);
    for (size_t i = 0; st == SR1_OK && out && i < b->n; i++) {
        out[i] = b->t[i];
        b->t[i] = NULL;
    }
    sr1__step_batch_free(b);
    return sr1__context(st, "step %" PRId64, step);
}

/* ---- questions ---- */

static sr1_status check_sizes(size_t n, int32_t group_size)
{
    if (group_size < 1)
        return sr1__fail(SR1_E_INVALID, "train step: group_size is %d, not at least 1",
                         group_size);
    if (n > SIZE_MAX / 16 / (size_t)group_size)
        return sr1__fail(SR1_E_INVALID,
                         "train step: %zu questions of %d trajectories are too many", n,
                         group_size);
    return SR1_OK;
}

static sr1_status check_questions(const sr1_trainer *tr, const sr1_step_report *report,
                                  size_t n, int32_t group_size)
{
    SR1__TRY(check_report(report));
    SR1__TRY(sr1__check_rewards(tr));
    return sr1__context(check_sizes(n, group_size), "step %" PRId64, tr->step + 1);
}

static sr1_status train_on(sr1_trainer *tr, const struct sr1__round *questions,
                           int32_t group_size, sr1_step_report *report,
                           sr1_trajectory **out, struct sr1__trajectory_store *log)
{
    struct sr1__step_batch b = {.tr = tr,
                                .began = sr1__now(),
                                .group_size = group_size,
                                .keep = out != NULL,
                                .on_policy = 1,
                                .epochs = tr->set.update_times,
                                .round = *questions,
                                .log = log,
                                .in_run = log != NULL};
    sr1_status st;

    SR1__TRY(check_questions(tr, report, questions->n_queries, group_size));
    st = finish_step(&b, run_step, report, out);
    sr1_reward_set_forget(tr->rewards);
    return st;
}

sr1_status sr1__train_step(sr1_trainer *tr, const sr1_query *queries, size_t n,
                           int32_t group_size, sr1_step_report *report,
                           sr1_trajectory **out, struct sr1__trajectory_store *log)
{
    struct sr1__round questions = {.queries = queries, .n_queries = n};

    return train_on(tr, &questions, group_size ? group_size : (int32_t)tr->set.group_size,
                    report, out, log);
}

/* The step of the stage rl: run.c calls it through the row of stages.c. */
sr1_status sr1__train_rows(sr1_trainer *tr, const int64_t *rows, size_t n,
                           sr1_step_report *report, struct sr1__trajectory_store *log)
{
    struct sr1__dataset_queries asked;
    struct sr1__round questions = {.rows = rows, .n_queries = n};
    sr1_status st = sr1__dataset_queries_read(&asked, tr->train, rows, 0, n);

    questions.queries = asked.queries;
    if (st == SR1_OK)
        st = train_on(tr, &questions, (int32_t)tr->set.group_size, report, NULL, log);
    sr1__dataset_queries_free(&asked);
    return st;
}

sr1_status sr1_trainer_train_step(sr1_trainer *tr, const sr1_query *queries, size_t n,
                                  int32_t group_size, sr1_step_report *report,
                                  sr1_trajectory **out)
{
    int32_t threads;
    sr1_status st;

    SR1__REQUIRE(tr && (!n || queries), "train step: trainer and queries");
    threads = sr1__trainer_enter(tr);
    st = sr1__train_step(tr, queries, n, group_size, report, out, NULL);
    sr1__trainer_leave(tr, threads);
    return st;
}

/* ---- demonstrations ---- */

static sr1_status add_demonstration(struct sr1__step_batch *b, int64_t row)
{
    SR1__TRY(sr1__step_batch_extend(b, 1));
    return sr1__sft_example(b->tr, row, &b->t[b->n - 1]);
}

sr1_status sr1__imitate_rows(sr1_trainer *tr, const int64_t *rows, size_t n,
                             sr1_step_report *report, struct sr1__trajectory_store *log)
{
    struct sr1__step_batch b = {
        .tr = tr, .began = sr1__now(), .epochs = 1, .in_run = log != NULL};
    sr1_status st = SR1_OK;

    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = add_demonstration(&b, rows[i]);
    if (st == SR1_OK)
        return finish_step(&b, run_imitation, report, NULL);
    sr1__step_batch_free(&b);
    return st;
}

/* ---- trajectories of the caller's ---- */

/* What the model can read, with log-probs of the distribution that is trained. */
static sr1_status check_trainable(const sr1_trainer *tr, const sr1_trajectory *t,
                                  size_t i)
{
    double temperature = sr1_trajectory_temperature(t);

    SR1__REQUIRE(t, "update: a trajectory");
    if ((int64_t)sr1_trajectory_token_count(t) > tr->model->config.max_positions)
        return sr1__fail(
            SR1_E_LIMIT,
            "trajectory %zu (query '%s', sample %d) has %zu tokens, the model "
            "reads at most %" PRId64,
            i, sr1_trajectory_query_id(t), (int)sr1_trajectory_sample(t),
            sr1_trajectory_token_count(t), tr->model->config.max_positions);
    if (sr1_trajectory_policy_count(t) == 0 || sr1__trajectory_excluded(t) ||
        (temperature == tr->set.temperature && sr1_trajectory_top_p(t) == 1.0 &&
         sr1_trajectory_top_k(t) == 0))
        return sr1__check_staleness(tr, t, i);
    return sr1__fail(
        SR1_E_INVALID,
        "trajectory %zu (query '%s', sample %d) was sampled at temperature %g, "
        "top_p %g, top_k %d; training needs temperature %g and nothing cut",
        i, sr1_trajectory_query_id(t), (int)sr1_trajectory_sample(t), temperature,
        sr1_trajectory_top_p(t), (int)sr1_trajectory_top_k(t), tr->set.temperature);
}

static sr1_status update_with(sr1_trainer *tr, sr1_trajectory *const *t, size_t n,
                              sr1_step_report *report)
{
    struct sr1__step_batch b = {.tr = tr, .began = sr1__now(), .keep = 1};
    sr1_status st;

    SR1__TRY(check_report(report));
    for (size_t i = 0; i < n; i++)
        SR1__TRY(check_trainable(tr, t[i], i));
    b.epochs = tr->set.update_times;
    st = sr1__step_batch_append(&b, t, n);
    b.n_scored = b.n;
    if (st == SR1_OK)
        return finish_step(&b, run_update, report, NULL);
    sr1__step_batch_free(&b);
    return st;
}

sr1_status sr1_trainer_update(sr1_trainer *tr, sr1_trajectory *const *t, size_t n,
                              sr1_step_report *report)
{
    int32_t threads;
    sr1_status st;

    SR1__REQUIRE(tr && (!n || t), "update: trainer and trajectories");
    threads = sr1__trainer_enter(tr);
    st = update_with(tr, t, n, report);
    sr1__trainer_leave(tr, threads);
    return st;
}
