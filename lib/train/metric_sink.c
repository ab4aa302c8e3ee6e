/* train/metric_sink.c - rows of metrics to a function of the caller's. */
#include "train/internal.h"

#include "base/mem.h"
#include "environment/env/callback.h"

#include <math.h>

sr1_status sr1_trainer_set_metric_sink(sr1_trainer *tr, sr1_metric_sink_fn sink,
                                       void *user)
{
    SR1__REQUIRE(tr, "metric sink: trainer");
    tr->sink = sink;
    tr->sink_user = user;
    return SR1_OK;
}

static sr1_status call_sink(const sr1_trainer *tr, json_t *row, const char **names,
                            double *values)
{
    struct sr1__error before;
    const char *name;
    json_t *v;
    size_t n = 0;

    json_object_foreach(row, name, v)
    {
        names[n] = name;
        values[n++] = json_is_number(v) ? json_number_value(v) : NAN;
    }
    sr1__callback_begin(&before);
    return sr1__callback_end(&before,
                             tr->sink(tr->sink_user,
                                      json_integer_value(json_object_get(row, "step")),
                                      names, values, n),
                             "sink", "metrics");
}

sr1_status sr1__metric_sink_give(const sr1_trainer *tr, json_t *row)
{
    size_t n = json_object_size(row);
    const char **names;
    double *values;
    sr1_status st;

    if (!tr->sink)
        return SR1_OK;
    names = sr1__calloc(n + 1, sizeof(*names));
    values = sr1__calloc(n + 1, sizeof(*values));
    st = names && values ? call_sink(tr, row, names, values) : sr1__fail_nomem("metrics");
    sr1__free((void *)names);
    sr1__free(values);
    return st;
}

/* ---- a step that is no part of a run ---- */

sr1_status sr1__metric_sink_step(const sr1_trainer *tr)
{
    json_t *row;
    sr1_status st;

    if (!tr->sink)
        return SR1_OK;
    row = sr1__metrics_row(&tr->step_metrics);
    st = row ? sr1__metric_sink_give(tr, row) : sr1__fail_nomem("metrics");
    json_decref(row);
    return st;
}
