/* train/drops.c - which trajectories of a step are dropped, and why (step_batch.h). */
#include "train/step_batch.h"

#include "base/mem.h"
#include "environment/trajectory/trajectory.h"

#include <math.h>
#include <string.h>

int sr1__is_truncated(const sr1_trajectory *t)
{
    int32_t why = sr1_trajectory_stop_reason(t);

    return why == SR1_STOP_TOKEN_LIMIT || why == SR1_STOP_CONTEXT_LIMIT;
}

/* ---- what says nothing about the policy ---- */

void sr1__drop_failed(struct sr1__step_batch *b)
{
    for (size_t i = b->n_scored; i < b->n; i++) {
        if (sr1__trajectory_excluded(b->t[i]))
            b->drop[i] = SR1__DROP_FAILED;
        else if (isnan(b->baselines[i]))
            b->drop[i] = SR1__DROP_NO_BASELINE;
    }
}

/* Trajectories [begin, end) that count in their group. */
static size_t count_in_group(const struct sr1__step_batch *b, size_t begin, size_t end)
{
    size_t n = 0;

    for (size_t i = begin; i < end; i++)
        n += (size_t)sr1__counts_in_group(b, i);
    return n;
}

void sr1__drop_unscored(struct sr1__step_batch *b)
{
    size_t group = (size_t)b->group_size;

    for (size_t i = b->n_scored; i < b->n; i++)
        if (sr1__counts_in_group(b, i) && sr1__trajectory_excluded(b->t[i]))
            b->drop[i] = SR1__DROP_UNSCORED;
    for (size_t i = b->n_scored; i < b->n; i += group)
        sr1__metrics_add(b->metrics, "excluded_groups",
                         count_in_group(b, i, i + group) == 0, SR1__SUM);
}

/* ---- what there is nothing to learn from ---- */

/* The reward that filter_groups_metric names, before its weight; NaN where that is none,
 * does not apply, or could not be had. */
static double find_metric(const struct sr1__settings *set, const sr1_trajectory *t)
{
    size_t n = *set->filter_groups_metric ? sr1_trajectory_reward_component_count(t) : 0;

    for (size_t i = 0; i < n; i++) {
        const char *name;
        double value;

        if (sr1_trajectory_reward_component(t, i, &name, &value, NULL) == SR1_OK &&
            strcmp(name, set->filter_groups_metric) == 0)
            return value;
    }
    return NAN;
}

/* What the samples t[n] of a group are compared by: the metric, and one that lacks it by
 * nothing, so that it is equal to the first that has it; the whole reward where none has.
 */
static void fill_compared(const struct sr1__settings *set, sr1_trajectory *const *t,
                          size_t n, double *values)
{
    double first = NAN;

    for (size_t i = 0; i < n; i++) {
        values[i] = find_metric(set, t[i]);
        first = isnan(first) ? values[i] : first;
    }
    for (size_t i = 0; i < n; i++)
        if (isnan(values[i]))
            values[i] = isnan(first) ? sr1_trajectory_reward(t[i]) : first;
}

/* Of the view, which have a group whose compared values are all equal: dead[v->n]. */
static sr1_status find_zero_variance(const struct sr1__settings *set,
                                     const struct sr1__batch_view *v, uint8_t *dead,
                                     size_t *n_groups, size_t *n_dead)
{
    double *rewards = sr1__calloc(v->n + 1, sizeof(*rewards));
    uint64_t *groups = sr1__calloc(v->n + 1, sizeof(*groups));
    sr1_status st = rewards && groups ? SR1_OK : sr1__fail_nomem("groups of a step");

    for (size_t i = 0; st == SR1_OK && i < v->n; i++)
        groups[i] = sr1_trajectory_group_key(v->t[i]);
    for (size_t i = 0, end; st == SR1_OK && i < v->n; i = end) {
        for (end = i + 1; end < v->n && groups[end] == groups[i]; end++)
            ;
        fill_compared(set, v->t + i, end - i, rewards + i);
    }
    if (st == SR1_OK)
        st = sr1_advantage_zero_variance_groups(rewards, groups, v->n, dead, n_groups,
                                                n_dead);
    sr1__free(rewards);
    sr1__free(groups);
    return st;
}

static enum sr1__drop find_reason(const struct sr1__settings *set,
                                  const sr1_trajectory *t, int dead)
{
    if (set->mask_truncated && sr1__is_truncated(t))
        return SR1__DROP_TRUNCATED;
    return set->skip_zero_variance_groups && dead ? SR1__DROP_ZERO_VARIANCE
                                                  : SR1__DROP_NONE;
}

static void mark_untrained(struct sr1__step_batch *b, const struct sr1__batch_view *v,
                           const uint8_t *dead)
{
    int64_t masked = 0;

    for (size_t k = 0; k < v->n; k++) {
        enum sr1__drop reason = find_reason(&b->tr->set, v->t[k], dead[k]);

        b->drop[v->index[k]] = (uint8_t)reason;
        masked += reason == SR1__DROP_TRUNCATED;
    }
    sr1__metrics_add(b->metrics, "masked", (double)masked, SR1__LAST);
}

/* Groups from trajectory `begin` on, and those of equal values; drop reasons are set in
 * *marks, NULL: nowhere. */
static sr1_status survey_groups(const struct sr1__step_batch *b, size_t begin,
                                struct sr1__step_batch *marks, size_t *n_groups,
                                size_t *n_dead)
{
    struct sr1__batch_view v = {0};
    uint8_t *dead = sr1__calloc(b->n + 1, 1);
    sr1_status st = dead ? sr1__step_batch_in_groups(b, begin, &v)
                         : sr1__fail_nomem("groups of a step");

    *n_groups = *n_dead = 0;
    if (st == SR1_OK)
        st = find_zero_variance(&b->tr->set, &v, dead, n_groups, n_dead);
    if (st == SR1_OK && marks)
        mark_untrained(marks, &v, dead);
    sr1__batch_view_free(&v);
    sr1__free(dead);
    return st;
}

sr1_status sr1__drop_untrained(struct sr1__step_batch *b)
{
    size_t groups, dead;

    SR1__TRY(survey_groups(b, 0, b, &groups, &dead));
    sr1__metrics_add(b->metrics, "zero_variance_groups", (double)dead, SR1__LAST);
    return SR1_OK;
}

sr1_status sr1__count_effective_groups(const struct sr1__step_batch *b, size_t begin,
                                       size_t *effective)
{
    size_t groups, dead;

    SR1__TRY(survey_groups(b, begin, NULL, &groups, &dead));
    *effective = groups - dead;
    return SR1_OK;
}
