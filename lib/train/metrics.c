/* train/metrics.c - see metrics.h; and a step's metrics by name, for callers. */
#include "train/metrics.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/struct.h"

#include <math.h>
#include <string.h>

/* Alarms stand last, behind the figures that no row names. */
static const struct metric_row {
    const char *name;
    const char *figure;
} rows[] = {
#define METRIC(name, figure) {name, #figure},
#include "train/metrics.def"
#undef METRIC
#define ALARM(name, text) {"health/alarm_" #name, "alarm_" #name},
#include "config/alarms.def"
#undef ALARM
    {"health/alarms", "alarms"},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

_Static_assert(N_ROWS == SR1__N_METRICS + SR1__N_ALARMS + 1, "a figure for each row");

/* ---- adding ---- */

void sr1__metrics_begin(struct sr1_step_metrics *m, int64_t step)
{
    sr1__metrics_close(m);
    m->step = step;
    sr1__metrics_add(m, "step", (double)step, SR1__LAST);
}

void sr1__metrics_close(struct sr1_step_metrics *m)
{
    for (size_t i = 0; i < m->n_others; i++)
        sr1__free(m->others[i].name);
    sr1__free(m->others);
    memset(m, 0, sizeof(*m));
}

/* The first row of a figure, SIZE_MAX: there is none. */
static size_t find_row(const char *figure)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].figure, figure) == 0)
            return i;
    return SIZE_MAX;
}

static struct sr1__figure *find_figure(struct sr1_step_metrics *m, const char *figure)
{
    size_t row = find_row(figure);

    if (row != SIZE_MAX)
        return &m->figures[row];
    for (size_t i = 0; i < m->n_others; i++)
        if (strcmp(m->others[i].name, figure) == 0)
            return &m->others[i].figure;
    return NULL;
}

/* One that no row names. NULL without memory. */
static struct sr1__figure *append_figure(struct sr1_step_metrics *m, const char *name)
{
    struct sr1__named_figure *grown =
        sr1__realloc(m->others, m->n_others + 1, sizeof(*grown));

    if (!grown)
        return NULL;
    m->others = grown;
    grown += m->n_others;
    *grown = (struct sr1__named_figure){.name = sr1__strdup(name)};
    if (!grown->name)
        return NULL;
    m->n_others++;
    return &grown->figure;
}

void sr1__metrics_add(struct sr1_step_metrics *m, const char *figure, double value,
                      enum sr1__reduction reduction)
{
    struct sr1__figure *f = find_figure(m, figure);

    if (!f)
        f = append_figure(m, figure);
    if (!f) {
        m->failed = 1;
        return;
    }
    if (f->n > 0 && (reduction == SR1__MEAN || reduction == SR1__SUM))
        value += f->value;
    else if (f->n > 0 && reduction == SR1__MAX)
        value = fmax(value, f->value);
    f->value = value;
    f->reduction = reduction;
    f->n++;
}

sr1_status sr1__metrics_status(const struct sr1_step_metrics *m)
{
    return m->failed ? sr1__fail_nomem("metrics") : SR1_OK;
}

/* ---- reading ---- */

static double get_value(const struct sr1__figure *f)
{
    return f->reduction == SR1__MEAN && f->n > 0 ? f->value / (double)f->n : f->value;
}

double sr1__metrics_get(const struct sr1_step_metrics *m, const char *figure)
{
    const struct sr1__figure *f =
        find_figure((struct sr1_step_metrics *)(uintptr_t)m, figure);

    return f ? get_value(f) : 0.0;
}

/* Metric i of a row: of the table without alarms, then what no row names, then alarms. */
static const char *get_metric(const struct sr1_step_metrics *m, size_t i, double *value)
{
    size_t before = SR1__N_METRICS, row = i;

    if (i >= before && i - before < m->n_others) {
        *value = get_value(&m->others[i - before].figure);
        return m->others[i - before].name;
    }
    if (i >= before)
        row -= m->n_others;
    if (row >= N_ROWS)
        return NULL;
    *value = get_value(&m->figures[find_row(rows[row].figure)]);
    return rows[row].name;
}

/* A figure that no row names is a real number even where it is whole. */
static json_t *make_number(const struct sr1_step_metrics *m, size_t i, double value)
{
    int is_other = i >= SR1__N_METRICS && i - SR1__N_METRICS < m->n_others;

    return is_other && isfinite(value) ? json_real(value) : sr1__json_number(value);
}

json_t *sr1__metrics_row(const struct sr1_step_metrics *m)
{
    json_t *row = json_object();
    const char *name;
    double value;

    for (size_t i = 0; row && (name = get_metric(m, i, &value)); i++) {
        if (json_object_set_new(row, name, make_number(m, i, value)) == 0)
            continue;
        json_decref(row);
        row = NULL;
    }
    return row;
}

void sr1__metrics_report(const struct sr1_step_metrics *m, sr1_step_report *out)
{
    *out = (sr1_step_report){.struct_size = sizeof(*out),
                             .step = m->step,
                             .loss = sr1__metrics_get(m, "loss"),
                             .kl_div = sr1__metrics_get(m, "kl_div"),
                             .avg_reward = sr1__metrics_get(m, "avg_reward"),
                             .beta = sr1__metrics_get(m, "beta"),
                             .avg_tokens = sr1__metrics_get(m, "avg_tokens"),
                             .search_trajectories =
                                 sr1__metrics_get(m, "search_trajectories"),
                             .entropy = sr1__metrics_get(m, "entropy"),
                             .grad_norm = sr1__metrics_get(m, "grad_norm"),
                             .learning_rate = sr1__metrics_get(m, "learning_rate"),
                             .seconds = sr1__metrics_get(m, "seconds"),
                             .trajectories = (int64_t)sr1__metrics_get(m, "trajectories"),
                             .trained = (int64_t)sr1__metrics_get(m, "trained"),
                             .metrics = m};
}

/* ---- by name ---- */

const char *sr1_step_metric_name(size_t i)
{
    return i < N_ROWS ? rows[i].name : NULL;
}

/* The metrics of a report that is still of its trainer's last step. */
static sr1_status open_report(const sr1_step_report *report,
                              const struct sr1_step_metrics **out)
{
    sr1_step_report r = {0};

    SR1__TRY(sr1__struct_take(&r, sizeof(r), report,
                              SR1__STRUCT_END(sr1_step_report, metrics), "step report"));
    if (!r.metrics)
        return sr1__fail(SR1_E_INVALID, "step report: no step has filled it");
    if (r.metrics->step != r.step)
        return sr1__fail(
            SR1_E_STATE,
            "the report is of step %lld, and the trainer's metrics are those "
            "of step %lld; read them before the next step",
            (long long)r.step, (long long)r.metrics->step);
    *out = r.metrics;
    return SR1_OK;
}

const char *sr1_step_metric_at(const sr1_step_report *report, size_t i, double *value)
{
    const struct sr1_step_metrics *m = NULL;

    if (!report || !value || open_report(report, &m) != SR1_OK)
        return NULL;
    return get_metric(m, i, value);
}

sr1_status sr1_step_metric(const sr1_step_report *report, const char *name, double *value)
{
    const struct sr1_step_metrics *m = NULL;
    const char *at;
    double v;

    SR1__REQUIRE(report && name && value, "step metric: report, name and value");
    SR1__TRY(open_report(report, &m));
    for (size_t i = 0; (at = get_metric(m, i, &v)); i++) {
        if (strcmp(at, name) == 0) {
            *value = v;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_NOT_FOUND,
                     "no metric '%.100s'; docs/formats.md has their names", name);
}
