/* train/stops.c - keys that end a run before its last planned step, a row each. By what a
 * key was reached is kept: a run that goes on is over while that reaches it. */
#include "train/internal.h"

#include <stdio.h>
#include <string.h>

static int is_as_much(double value, double limit)
{
    return value >= limit;
}

static int is_more(double value, double limit)
{
    return value > limit;
}

static int is_less(double value, double limit)
{
    return value < limit;
}

/* In the order of enum sr1__stop. */
static const struct stop_row {
    const char *key;
    int (*reaches)(double value, double limit);
    const char *figure; /* what value is */
    int digits;
} rows[SR1__STOPS] = {
    {"", is_as_much, "", 0},
    {"stop_at_exact_match", is_as_much, "exact match", 3},
    {"early_stopping_patience", is_as_much, "validations without a better figure:", 0},
    {"stop_at_kl", is_more, "a KL of", 4},
    {"stop_below_entropy", is_less, "an entropy of", 4}};

void sr1__stops_read(double stops[SR1__STOPS], const sr1_config *c)
{
    stops[SR1__STOP_NONE] = 0.0;
    stops[SR1__STOP_EXACT_MATCH] = sr1__config_real(c, "stop_at_exact_match");
    stops[SR1__STOP_PATIENCE] = (double)sr1__config_int(c, "early_stopping_patience");
    stops[SR1__STOP_KL] = sr1__config_real(c, "stop_at_kl");
    stops[SR1__STOP_ENTROPY] = sr1__config_real(c, "stop_below_entropy");
}

const char *sr1__stop_key(enum sr1__stop by)
{
    return rows[by].key;
}

int sr1__stop_is_reached(const struct sr1__settings *s, enum sr1__stop by, double value)
{
    return s->stops[by] > 0 && rows[by].reaches(value, s->stops[by]);
}

void sr1__stopped_set(sr1_trainer *tr, struct sr1__stopped stopped)
{
    const struct stop_row *row = &rows[stopped.by];

    tr->stopped = stopped;
    if (stopped.by == SR1__STOP_NONE)
        *tr->stopped_why = '\0';
    else
        snprintf(tr->stopped_why, sizeof(tr->stopped_why), "%s %.*f reached %s",
                 row->figure, row->digits, stopped.value, row->key);
}

int sr1__stop_by(sr1_trainer *tr, enum sr1__stop by, double value)
{
    if (tr->stopped.by != SR1__STOP_NONE || !sr1__stop_is_reached(&tr->set, by, value))
        return 0;
    sr1__stopped_set(tr, (struct sr1__stopped){by, value});
    return 1;
}

/* The KL that the step's update, or its rewards, subtracted. */
static double get_kl(const sr1_trainer *tr)
{
    return sr1__metrics_get(&tr->step_metrics,
                            tr->set.kl_in_reward ? "reward_kl" : "kl_div");
}

static int has_entropy(const struct sr1_step_metrics *m)
{
    return (m->events & SR1__ROLLED_OUT) && sr1__metrics_get(m, "policy_tokens") > 0;
}

int sr1__stop_when_diverged(sr1_trainer *tr)
{
    const struct sr1_step_metrics *m = &tr->step_metrics;

    return sr1__stop_by(tr, SR1__STOP_KL, get_kl(tr)) ||
           (has_entropy(m) &&
            sr1__stop_by(tr, SR1__STOP_ENTROPY, sr1__metrics_get(m, "entropy")));
}

/* ---- checkpoints ---- */

json_t *sr1__stopped_pack(const sr1_trainer *tr)
{
    return tr->stopped.by == SR1__STOP_NONE
               ? json_null()
               : json_pack("{s:s, s:f}", "by", rows[tr->stopped.by].key, "value",
                           tr->stopped.value);
}

static enum sr1__stop find_stop(const char *key)
{
    for (int i = SR1__STOP_NONE + 1; key && i < SR1__STOPS; i++)
        if (strcmp(rows[i].key, key) == 0)
            return (enum sr1__stop)i;
    return SR1__STOP_NONE;
}

void sr1__stopped_restore(sr1_trainer *tr, const json_t *state)
{
    const json_t *stopped = json_object_get(state, "stopped");
    enum sr1__stop by = find_stop(json_string_value(json_object_get(stopped, "by")));
    double value = json_number_value(json_object_get(stopped, "value"));

    if (!stopped) { /* of an older version */
        by = SR1__STOP_EXACT_MATCH;
        value = json_number_value(json_object_get(state, "reached_exact_match"));
    }
    (void)sr1__stop_by(tr, by, value);
}
