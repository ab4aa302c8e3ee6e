/* figures.c - a run in numbers and in words.
 *
 * "First" and "last" are means over the first and the last fifth of the rows. A change of
 * the reward counts as one when it exceeds three standard errors of the difference; fewer
 * than ten rows are too few to estimate these from. */
#include "sr1_report/report.h"

#include <searchr1/ext/run_info.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLEAR_CHANGE 3.0
#define ENOUGH_ROWS 10

/* ---- the table ---- */

enum which { FIRST_FIFTH, LAST_FIFTH, FIRST, LAST, GREATEST };

static const struct {
    const char *name;
    const char *metric;
    enum which which;
    /* Runs that have this figure: RL (not SFT), ALL, or SOME (hidden where the metric is
     * always 0). */
    enum { RL, ALL, SOME } runs;
} figures[] = {
    {"reward_first", "avg_reward", FIRST_FIFTH, RL},
    {"reward_last", "avg_reward", LAST_FIFTH, RL},
    {"exact_match_first", "val/exact_match", FIRST, ALL},
    {"exact_match_last", "val/exact_match", LAST, ALL},
    {"exact_match_best", "val/exact_match", GREATEST, ALL},
    {"success_first", "val/success", FIRST, ALL},
    {"success_last", "val/success", LAST, ALL},
    {"success_best", "val/success", GREATEST, ALL},
    {"validation_reward_first", "val/reward", FIRST, ALL},
    {"validation_reward_last", "val/reward", LAST, ALL},
    {"validation_reward_best", "val/reward", GREATEST, ALL},
    {"loss_first", "loss", FIRST_FIFTH, ALL},
    {"loss_last", "loss", LAST_FIFTH, ALL},
    {"kl_last", "kl_div", LAST_FIFTH, RL},
    {"entropy_last", "entropy", LAST_FIFTH, RL},
    {"clip_fraction_last", "actor/pg_clipfrac", LAST_FIFTH, RL},
    {"grad_norm_last", "grad_norm", LAST_FIFTH, ALL},
    {"response_length_last", "response_length/mean", LAST_FIFTH, RL},
    {"format_rate_last", "health/format_rate", LAST_FIFTH, RL},
    {"rollout_difference_greatest", "sampling/sampling_logp_difference/mean", GREATEST,
     RL},
    {"value_loss_last", "critic/vf_loss", LAST_FIFTH, SOME},
    {"tokens_per_second_last", "perf/throughput", LAST_FIFTH, ALL},
    {"memory_bytes_greatest", "perf/rss_bytes", GREATEST, ALL},
    {"skipped_updates", "training/skipped_updates_total", LAST, ALL},
};

/* The validation metric to report, by environment: success for rooms, reward for
 * critiques, exact match otherwise. */
static const struct validation_measure {
    const char *environment, *metric, *name;
} measures[] = {
    {"rooms", "val/success", "Success"},
    {"critique", "val/reward", "Reward"},
    {"", "val/exact_match", "Exact match"},
};

static const struct validation_measure *measure_of(const struct loaded_run *r)
{
    const struct validation_measure *m = measures;

    while (*m->environment != '\0' &&
           strcmp(m->environment, run_setting(r, "environment")) != 0)
        m++;
    return m;
}

/* Is figure i one that a run of this kind has? */
static int is_figure_shown(const struct loaded_run *r, size_t i)
{
    const char *metric = figures[i].metric;
    const struct column *c = series_find(&r->series, metric);

    if (figures[i].runs != ALL && run_is_sft(r))
        return 0;
    if (figures[i].runs == SOME && c != NULL && c->least == 0 && c->greatest == 0)
        return 0;
    return strncmp(metric, "val/", 4) != 0 || strcmp(metric, measure_of(r)->metric) == 0;
}

static double read_column_figure(const struct series *s, const struct column *c,
                                 enum which which)
{
    if (c == NULL || c->n == 0)
        return NAN;
    switch (which) {
    case FIRST_FIFTH:
    case LAST_FIFTH:
        return series_edge(s, c, which == LAST_FIFTH, NULL);
    case FIRST:
        return c->first;
    case LAST:
        return c->last;
    case GREATEST:
        return c->greatest;
    }
    return NAN;
}

static double searches_last(const struct loaded_run *r)
{
    const struct series *s = &r->series;
    double n = read_column_figure(s, series_find(s, "training/trajectories"), LAST_FIFTH);

    return n > 0 ? read_column_figure(s, series_find(s, "env/number_of_searches"),
                                      LAST_FIFTH) /
                       n
                 : NAN;
}

/* Has each step a row (log_interval 1)? */
static int has_all_steps(const struct loaded_run *r)
{
    const struct column *c = series_find(&r->series, "timing_s/step");

    return c != NULL && (double)c->n >= r->series.last_step;
}

/* Of all steps, where each has a row. */
static double seconds_of_steps(const struct loaded_run *r)
{
    return has_all_steps(r) ? series_find(&r->series, "timing_s/step")->sum : NAN;
}

static time_t read_time(const json_t *start, const char *member)
{
    const char *text = json_string_value(json_object_get(start, member));
    struct tm t = {0};

    return text != NULL && strptime(text, "%Y-%m-%dT%H:%M:%SZ", &t) ? timegm(&t) : 0;
}

/* Of all starts (run.json), with validations and checkpoints; one that has no end lasted
 * to the last row at least. */
static double seconds_of_starts(const struct loaded_run *r)
{
    double sum = 0;

    for (size_t i = 0; i < json_array_size(r->starts); i++) {
        const json_t *start = json_array_get(r->starts, i);
        int is_last = i + 1 == json_array_size(r->starts);
        time_t begun = read_time(start, "begun"), ended = read_time(start, "ended");

        if (ended == 0 && is_last)
            ended = r->last;
        if (begun == 0 || ended < begun)
            return NAN;
        sum += (double)(ended - begun);
    }
    return json_array_size(r->starts) > 0 ? sum : NAN;
}

static int64_t alarm_rows(const struct loaded_run *r)
{
    const struct column *c = series_find(&r->series, "health/alarms");

    return c != NULL ? c->above_zero : 0;
}

/* A run that ended may have been resumed with more steps; older records have no starts.
 */
static int is_finished(const struct loaded_run *r)
{
    const json_t *last = json_array_get(r->starts, json_array_size(r->starts) - 1);
    const char *outcome = json_string_value(json_object_get(last, "outcome"));

    if (r->planned > 0 && run_steps_done(r) >= (double)r->planned)
        return 1;
    return outcome != NULL ? strcmp(outcome, "done") == 0 : r->has_model;
}

json_t *path_as_json(const char *path)
{
    json_t *v = json_string(path);
    char *ascii = v == NULL ? strdup(path) : NULL;

    if (ascii == NULL)
        return v;
    for (char *p = ascii; *p != '\0'; p++) {
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    }
    v = json_string(ascii);
    free(ascii);
    return v;
}

json_t *run_figures(const struct loaded_run *r)
{
    const struct series *s = &r->series;
    json_t *o = json_pack("{s:o, s:b, s:I}", "run", path_as_json(r->label), "finished",
                          is_finished(r), "steps_done", (json_int_t)run_steps_done(r));
    int bad = o == NULL;
    const struct {
        const char *name;
        double value;
    } others[] = {{"seconds", seconds_of_steps(r)},
                  {"run_seconds", seconds_of_starts(r)},
                  {"searches_last", run_is_sft(r) ? NAN : searches_last(r)}};

    if (!bad && r->planned > 0)
        bad = json_object_set_new(o, "steps_planned", json_integer(r->planned));
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]) && !bad; i++) {
        double v =
            read_column_figure(s, series_find(s, figures[i].metric), figures[i].which);

        if (isfinite(v) && is_figure_shown(r, i))
            bad = json_object_set_new(o, figures[i].name, json_real(v));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]) && !bad; i++)
        if (isfinite(others[i].value))
            bad = json_object_set_new(o, others[i].name, json_real(others[i].value));
    if (!bad)
        bad = json_object_set_new(o, "rows_with_alarms", json_integer(alarm_rows(r)));
    if (!bad)
        bad = json_object_set_new(o, "starts",
                                  r->starts ? json_incref(r->starts) : json_array());
    if (!bad)
        return o;
    json_decref(o);
    return NULL;
}

/* ---- the verdict ---- */

static void add_verdict_sentence(json_t **list, const char *tone, const char *text)
{
    if (*list != NULL &&
        json_array_append_new(*list,
                              json_pack("{s:s, s:s}", "tone", tone, "text", text)) != 0) {
        json_decref(*list);
        *list = NULL;
    }
}

/* rising: up is good (reward); else down is (loss). */
static void judge_change(json_t **list, const struct loaded_run *r, const char *metric,
                         const char *what, int rising)
{
    const struct column *c = series_find(&r->series, metric);
    double e1, e2, from, to, error;
    char text[256];
    int better;

    if (c == NULL || c->n < 2)
        return;
    from = series_edge(&r->series, c, 0, &e1);
    to = series_edge(&r->series, c, 1, &e2);
    error = CLEAR_CHANGE * sqrt(e1 * e1 + e2 * e2);
    better = (to > from) == rising;
    if (c->n < ENOUGH_ROWS || fabs(to - from) <= error) {
        snprintf(text, sizeof(text), "%s the %s%s %.3g, then %.3g.",
                 c->n < ENOUGH_ROWS ? "Too few rows to judge:" : "No clear change of",
                 what, c->n < ENOUGH_ROWS ? " was" : " yet:", from, to);
        add_verdict_sentence(list, "plain", text);
        return;
    }
    snprintf(text, sizeof(text), "%s: the %s %s from %.3g to %.3g.",
             better ? "Learning" : "Getting worse", what, to > from ? "rose" : "fell",
             from, to);
    add_verdict_sentence(list, better ? "good" : "bad", text);
}

static int is_always_zero(const struct loaded_run *r, const char *metric)
{
    const struct column *c = series_find(&r->series, metric);

    return c == NULL || (c->n > 0 && c->least == 0 && c->greatest == 0);
}

/* A run in which no trajectory had a reward. */
static int was_never_scored(const struct loaded_run *r)
{
    const struct column *all = series_find(&r->series, "training/trajectories");
    const struct column *left = series_find(&r->series, "training/excluded_trajectories");

    return all != NULL && left != NULL && all->sum == left->sum &&
           !is_always_zero(r, "training/unscored_trajectories");
}

/* A run none of whose steps had anything to learn from. */
static int has_learned_nothing(const struct loaded_run *r)
{
    const struct column *c = series_find(&r->series, "health/alarm_zero_advantage");
    const struct column *trained =
        series_find(&r->series, "training/trained_trajectories");

    if (trained != NULL && trained->n > 0 && trained->greatest == 0)
        return is_always_zero(r, "critic/grad_norm");
    return c != NULL && c->n > 0 && c->above_zero == (int64_t)c->n &&
           is_always_zero(r, "actor/entropy_coeff");
}

static void judge_validation(json_t **list, const struct loaded_run *r)
{
    const struct validation_measure *m = measure_of(r);
    const struct column *c = series_find(&r->series, m->metric);
    char text[256];

    if (c == NULL || c->n == 0)
        return;
    if (c->n == 1 || c->least == c->greatest)
        snprintf(text, sizeof(text), "%s on validation is %.3f.", m->name, c->last);
    else if (c->greatest > c->last)
        snprintf(text, sizeof(text),
                 "%s on validation went from %.3f to %.3f (best %.3f).", m->name,
                 c->first, c->last, c->greatest);
    else
        snprintf(text, sizeof(text), "%s on validation went from %.3f to %.3f.", m->name,
                 c->first, c->last);
    add_verdict_sentence(list, c->n > 1 && c->last > c->first ? "good" : "plain", text);
}

/* rows: that say whether alarms ring; one of a validation alone does not. */
static void judge_alarm(json_t **list, const struct loaded_run *r, int64_t rows,
                        const char *name, const char *meaning)
{
    const struct column *c;
    char text[512];
    int still;

    snprintf(text, sizeof(text), "health/alarm_%s", name);
    c = series_find(&r->series, text);
    if (c == NULL || c->above_zero == 0)
        return;
    still = c->last_above >= r->series.last_step;
    snprintf(text, sizeof(text),
             "Alarm %s in %lld of %lld rows, last at step %.0f%s: %s.", name,
             (long long)c->above_zero, (long long)rows, c->last_above,
             still ? ", and still" : "", meaning);
    add_verdict_sentence(list, still ? "bad" : "plain", text);
}

static void judge_alarms(json_t **list, const struct loaded_run *r)
{
    const struct column *c = series_find(&r->series, "health/alarms");
    char text[256];

    if (c == NULL)
        return;
    if (c->above_zero == 0) {
        add_verdict_sentence(list, "good", "No alarm rang.");
        return;
    }
    snprintf(text, sizeof(text), "Alarms rang in %lld of %lld rows, last at step %.0f%s.",
             (long long)c->above_zero, (long long)c->n, c->last_above,
             c->last > 0 ? ", and still do" : "");
    add_verdict_sentence(list, c->last > 0 ? "bad" : "plain", text);
    for (size_t i = 0; sr1_alarm_name(i) != NULL; i++)
        judge_alarm(list, r, c->n, sr1_alarm_name(i), sr1_alarm_text(i));
}

static void judge_numbers(json_t **list, const struct loaded_run *r)
{
    const struct column *c = series_find(&r->series, "training/skipped_updates_total");
    const struct column *diff =
        series_find(&r->series, "sampling/sampling_logp_difference/mean");
    char text[256];

    if (c != NULL && c->n > 0 && c->last > 0) {
        snprintf(text, sizeof(text),
                 "%.0f updates were skipped because they were not finite.", c->last);
        add_verdict_sentence(list, "bad", text);
    }
    if (diff != NULL && diff->n > 0 && diff->greatest > 0.05) {
        snprintf(text, sizeof(text),
                 "Sampled and recomputed log-probs differed by up to %.2g on average.",
                 diff->greatest);
        add_verdict_sentence(list, "bad", text);
    }
}

/* Trajectories that no step learned from, since a service or a reward failed. */
static void judge_outages(json_t **list, const struct loaded_run *r)
{
    const struct column *c = series_find(&r->series, "training/excluded_trajectories");
    int still;
    char text[256];

    if (c == NULL || c->above_zero == 0)
        return;
    still = c->last_above >= r->series.last_step;
    snprintf(text, sizeof(text),
             "Trajectories were left out in %lld of %lld rows, last at step %.0f%s: %s.",
             (long long)c->above_zero, (long long)c->n, c->last_above,
             still ? ", and still are" : "",
             is_always_zero(r, "training/unscored_trajectories")
                 ? "a search, a tool or the server failed"
                 : "their reward could not be had, or a search, a tool or the server "
                   "failed");
    add_verdict_sentence(list, still ? "bad" : "plain", text);
}

static void judge_progress(json_t **list, const struct loaded_run *r)
{
    char text[256];

    if (is_finished(r))
        return;
    if (r->planned > 0)
        snprintf(text, sizeof(text), "Not finished: %.0f of %lld steps are done.",
                 run_steps_done(r), (long long)r->planned);
    else
        snprintf(text, sizeof(text), "Not finished: %.0f steps are done.",
                 run_steps_done(r));
    add_verdict_sentence(list, "plain", text);
}

/* The best checkpoint, and the key that ended the run, as the last start has them. */
static void judge_end(json_t **list, const struct loaded_run *r)
{
    const json_t *last = json_array_get(r->starts, json_array_size(r->starts) - 1);
    const json_t *best = json_object_get(last, "best");
    const char *metric = json_string_value(json_object_get(best, "metric"));
    const char *why =
        json_string_value(json_object_get(json_object_get(last, "stopped_by"), "why"));
    char text[256];

    if (metric != NULL) {
        snprintf(text, sizeof(text), "Best %.100s: %.4g, at step %lld, in best/.", metric,
                 json_number_value(json_object_get(best, "value")),
                 (long long)json_integer_value(json_object_get(best, "step")));
        add_verdict_sentence(list, "plain", text);
    }
    if (why != NULL) {
        snprintf(text, sizeof(text), "Ended early: %.200s.", why);
        add_verdict_sentence(list, "plain", text);
    }
}

json_t *run_verdict(const struct loaded_run *r)
{
    json_t *list = json_array();

    if (r->series.n_rows == 0)
        add_verdict_sentence(
            &list, "plain",
            "There are no metrics yet: the run has not finished its first step.");
    else if (run_is_sft(r))
        judge_change(&list, r, "loss", "loss", 0);
    else if (was_never_scored(r))
        add_verdict_sentence(&list, "bad",
                             "Nothing was learned: no trajectory had a reward; none "
                             "could be computed, or none applies.");
    else if (has_learned_nothing(r))
        add_verdict_sentence(
            &list, "bad",
            "Nothing was learned: no step had two responses to compare that were worth "
            "different rewards, or nothing was left to train on.");
    else
        judge_change(&list, r, "avg_reward", "mean reward", 1);
    judge_validation(&list, r);
    judge_end(&list, r);
    judge_alarms(&list, r);
    judge_numbers(&list, r);
    judge_outages(&list, r);
    if (r->series.n_rows > 0)
        judge_progress(&list, r);
    return list;
}
