/* reward/reward.c - sets of weighted rewards over trajectories:
 *
 *     total = sum over rewards of weight * score
 *
 * Built-in rewards are rows of a table and go through the same calls as the caller's. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/struct.h"
#include "env/callback.h"
#include "env/protocol.h"
#include "env/text.h"
#include "reward/format.h"
#include "reward/match.h"
#include "reward/seed.h"
#include "trajectory/trajectory.h"

#include <searchr1/reward.h>

#include <math.h>
#include <string.h>

/* What built-in rewards are computed by; their self. */
struct context {
    const struct sr1__protocol *protocol;
    sr1_reward_scales scales;
    char *no_content_text;
};

struct entry {
    char *name;
    double weight;
    sr1_reward_ops ops;
    void *self;
};

struct sr1_reward_set {
    struct context context;
    struct entry *entries;
    size_t n;
};

/* ---- built-in rewards ---- */

static sr1_status score_format(void *self, const sr1_trajectory *const *t, size_t n,
                               double *out)
{
    const struct context *c = self;
    size_t i;

    for (i = 0; i < n; i++)
        out[i] = sr1__format_of_trajectory(c->protocol, t[i]) ? c->scales.format_reward
                                                              : c->scales.format_penalty;
    return SR1_OK;
}

static sr1_status truths_of(const sr1_trajectory *t, size_t i, struct sr1__truths *out)
{
    out->trajectory = t;
    out->texts = NULL;
    out->n = sr1_trajectory_ground_truth_count(t);
    if (out->n == 0)
        return sr1__fail(SR1_E_INVALID,
                         "trajectory %zu has no gold answer to be compared with", i);
    return SR1_OK;
}

/* The seed compares what the rollout extracted, an answer cut short included. */
static sr1_status score_answer(void *self, const sr1_trajectory *const *t, size_t n,
                               double *out)
{
    const struct context *c = self;
    size_t i;

    for (i = 0; i < n; i++) {
        struct sr1__truths truths;
        struct sr1__text answer;

        SR1__TRY(truths_of(t[i], i, &truths));
        answer.s = sr1_trajectory_final_answer(t[i], &answer.n);
        SR1__TRY(
            sr1__best_score(sr1__score_answer, answer, &truths, &c->scales, &out[i]));
    }
    return SR1_OK;
}

/* Search-R1 compares answers that were closed; without one the score is 0. */
static sr1_status score_closed(const struct context *c, sr1__score_fn score,
                               const sr1_trajectory *const *t, size_t n, double *out)
{
    size_t i;

    for (i = 0; i < n; i++) {
        struct sr1__text answer = sr1__closed_answer(c->protocol, t[i]);
        struct sr1__truths truths;

        SR1__TRY(truths_of(t[i], i, &truths));
        out[i] = 0;
        if (answer.s != NULL)
            SR1__TRY(sr1__best_score(score, answer, &truths, NULL, &out[i]));
    }
    return SR1_OK;
}

static sr1_status score_exact(void *self, const sr1_trajectory *const *t, size_t n,
                              double *out)
{
    return score_closed(self, sr1__score_exact, t, n, out);
}

static sr1_status score_sub(void *self, const sr1_trajectory *const *t, size_t n,
                            double *out)
{
    return score_closed(self, sr1__score_sub, t, n, out);
}

static sr1_status score_f1(void *self, const sr1_trajectory *const *t, size_t n,
                           double *out)
{
    return score_closed(self, sr1__score_f1, t, n, out);
}

static const sr1_reward_ops builtins[] = {
    {sizeof(sr1_reward_ops), "format", score_format, NULL},
    {sizeof(sr1_reward_ops), "answer", score_answer, NULL},
    {sizeof(sr1_reward_ops), "exact_match", score_exact, NULL},
    {sizeof(sr1_reward_ops), "sub_match", score_sub, NULL},
    {sizeof(sr1_reward_ops), "f1", score_f1, NULL},
};

#define N_BUILTINS (sizeof builtins / sizeof builtins[0])

/* ---- making a set ---- */

static sr1_status fail_unknown(struct sr1__text name)
{
    struct sr1__buf known;
    size_t i;

    sr1__buf_init(&known, 0);
    for (i = 0; i < N_BUILTINS; i++)
        sr1__buf_fmt(&known, "%s%s", i > 0 ? ", " : "", builtins[i].name);
    sr1__fail(SR1_E_NOT_FOUND, "reward '%.*s' is not known; known: %s",
              name.n < 64 ? (int)name.n : 64, name.s, sr1__buf_cstr(&known));
    sr1__buf_free(&known);
    return SR1_E_NOT_FOUND;
}

static sr1_status find_builtin(struct sr1__text name, const sr1_reward_ops **out)
{
    size_t i;

    for (i = 0; i < N_BUILTINS; i++) {
        if (strlen(builtins[i].name) == name.n &&
            memcmp(builtins[i].name, name.s, name.n) == 0) {
            *out = &builtins[i];
            return SR1_OK;
        }
    }
    return fail_unknown(name);
}

/* Cut the next item off a list joined by commas, stripped; 0 at its end, else 1. */
static int next_item(const char **list, struct sr1__text *out)
{
    size_t begin = 0, n;

    if (*list == NULL || **list == '\0')
        return 0;
    n = strcspn(*list, ",");
    out->s = *list;
    out->n = n;
    *list += n + ((*list)[n] == ',');
    sr1__strip(out->s, &begin, &out->n);
    out->s += begin;
    return 1;
}

static sr1_status next_weight(const char **weights, struct sr1__text name, double *out)
{
    struct sr1__text item;

    if (!next_item(weights, &item))
        return sr1__fail(SR1_E_CONFIG,
                         "reward_weights: no number for reward '%.*s'; give one for each "
                         "name in rewards",
                         (int)name.n, name.s);
    if (!sr1__parse_real(item.s, item.n, out))
        return sr1__fail(SR1_E_CONFIG, "reward_weights: '%.*s' is not a number",
                         item.n < 64 ? (int)item.n : 64, item.s);
    return SR1_OK;
}

static sr1_status add_named(sr1_reward_set *set, const char *names, const char *weights)
{
    int weighted = weights != NULL && *weights != '\0';
    const sr1_reward_ops *ops = NULL;
    struct sr1__text name;

    while (next_item(&names, &name)) {
        double weight = 1;

        SR1__TRY(find_builtin(name, &ops));
        if (weighted)
            SR1__TRY(next_weight(&weights, name, &weight));
        SR1__TRY(sr1_reward_set_add(set, ops, &set->context, weight));
    }
    if (weighted && *weights != '\0')
        return sr1__fail(SR1_E_CONFIG,
                         "reward_weights: more numbers than names in rewards");
    return SR1_OK;
}

static sr1_status make_context(struct context *c, const sr1_reward_options *o)
{
    SR1__TRY(sr1__scales_read(&c->scales, o->scales));
    c->protocol = sr1__protocol_find(o->protocol);
    if (c->protocol == NULL)
        return SR1_E_NOT_FOUND;
    c->no_content_text = sr1__strdup(c->scales.no_content_text);
    if (c->no_content_text == NULL)
        return sr1__fail_nomem("rewards");
    c->scales.no_content_text = c->no_content_text;
    return SR1_OK;
}

sr1_status sr1_reward_set_new(sr1_reward_set **out, const sr1_reward_options *options)
{
    sr1_reward_options o = {0};
    sr1_reward_set *set;
    sr1_status status;

    if (out == NULL)
        return sr1__fail(SR1_E_INVALID, "reward set: out is NULL");
    SR1__TRY(sr1__struct_take(&o, sizeof o, options,
                              SR1__STRUCT_END(sr1_reward_options, rewards),
                              "reward set: options"));
    set = sr1__calloc(1, sizeof *set);
    if (set == NULL)
        return sr1__fail_nomem("rewards");
    status = make_context(&set->context, &o);
    if (status == SR1_OK)
        status =
            add_named(set, o.rewards != NULL ? o.rewards : "format,answer", o.weights);
    if (status != SR1_OK) {
        sr1_reward_set_free(set);
        return status;
    }
    *out = set;
    return SR1_OK;
}

void sr1_reward_set_free(sr1_reward_set *set)
{
    size_t i;

    if (set == NULL)
        return;
    for (i = 0; i < set->n; i++) {
        struct entry *e = &set->entries[i];

        if (e->ops.destroy != NULL)
            e->ops.destroy(e->self);
        sr1__free(e->name);
    }
    sr1__free(set->entries);
    sr1__free(set->context.no_content_text);
    sr1__free(set);
}

static sr1_status check_new(const sr1_reward_set *set, const sr1_reward_ops *ops,
                            double weight)
{
    size_t i;

    if (set == NULL || ops->name == NULL || ops->score == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "reward: set, ops with name and score are needed");
    if (!isfinite(weight))
        return sr1__fail(SR1_E_INVALID, "reward '%s': its weight is not finite",
                         ops->name);
    for (i = 0; i < set->n; i++)
        if (strcmp(set->entries[i].name, ops->name) == 0)
            return sr1__fail(SR1_E_INVALID, "reward '%s' is in the set already",
                             ops->name);
    return SR1_OK;
}

sr1_status sr1_reward_set_add(sr1_reward_set *set, const sr1_reward_ops *given,
                              void *self, double weight)
{
    sr1_reward_ops ops = {0};
    struct entry *entries, *e;
    char *name;

    SR1__TRY(sr1__struct_take(&ops, sizeof ops, given,
                              SR1__STRUCT_END(sr1_reward_ops, score), "reward: ops"));
    SR1__TRY(check_new(set, &ops, weight));
    entries = sr1__realloc(set->entries, set->n + 1, sizeof *entries);
    if (entries == NULL)
        return sr1__fail_nomem("rewards");
    set->entries = entries;
    name = sr1__strdup(ops.name);
    if (name == NULL)
        return sr1__fail_nomem("rewards");
    e = &set->entries[set->n++];
    e->name = name;
    e->weight = weight;
    e->ops = ops;
    e->ops.name = name;
    e->self = self;
    return SR1_OK;
}

size_t sr1_reward_set_count(const sr1_reward_set *set)
{
    return set->n;
}

const char *sr1_reward_set_name(const sr1_reward_set *set, size_t i)
{
    return i < set->n ? set->entries[i].name : NULL;
}

/* ---- scoring ---- */

/* One reward over all trajectories; scores[n]. */
static sr1_status run_entry(const struct entry *e, const sr1_trajectory *const *t,
                            size_t n, double *scores)
{
    struct sr1__error before;
    size_t i;

    memset(scores, 0, n * sizeof *scores);
    sr1__callback_begin(&before);
    SR1__TRY(sr1__callback_end(&before, e->ops.score(e->self, t, n, scores), "reward",
                               e->name));
    for (i = 0; i < n; i++)
        if (!isfinite(scores[i]))
            return sr1__fail(SR1_E_NUMERIC,
                             "reward '%s' of trajectory %zu is not finite (%g)", e->name,
                             i, scores[i]);
    return SR1_OK;
}

/* Every reward and the total of every trajectory, in memory of its own. */
struct scores {
    double *parts;  /* [n * count], row by row */
    double *totals; /* [n] */
    double *column; /* [n] */
};

static void scores_free(struct scores *s)
{
    sr1__free(s->parts);
    sr1__free(s->totals);
    sr1__free(s->column);
}

static sr1_status run_all(const sr1_reward_set *set, const sr1_trajectory *const *t,
                          size_t n, struct scores *s)
{
    size_t i, k;

    s->parts = sr1__calloc(n, (set->n + 1) * sizeof *s->parts);
    s->totals = sr1__calloc(n, sizeof *s->totals);
    s->column = sr1__calloc(n, sizeof *s->column);
    if (s->parts == NULL || s->totals == NULL || s->column == NULL)
        return sr1__fail_nomem("scores of trajectories");
    for (k = 0; k < set->n; k++) {
        SR1__TRY(run_entry(&set->entries[k], t, n, s->column));
        for (i = 0; i < n; i++) {
            s->parts[i * set->n + k] = s->column[i];
            s->totals[i] += set->entries[k].weight * s->column[i];
        }
    }
    for (i = 0; i < n; i++)
        if (!isfinite(s->totals[i]))
            return sr1__fail(SR1_E_NUMERIC,
                             "total reward of trajectory %zu is not finite", i);
    return SR1_OK;
}

static sr1_status check_trajectories(const sr1_reward_set *set,
                                     const sr1_trajectory *const *t, size_t n)
{
    size_t i;

    if (set == NULL || (t == NULL && n > 0))
        return sr1__fail(SR1_E_INVALID, "rewards: set or trajectories is NULL");
    for (i = 0; i < n; i++)
        if (t[i] == NULL)
            return sr1__fail(SR1_E_INVALID, "rewards: trajectory %zu is NULL", i);
    return SR1_OK;
}

sr1_status sr1_reward_set_score(sr1_reward_set *set,
                                const sr1_trajectory *const *trajectories, size_t n,
                                double *parts, double *totals)
{
    struct scores s = {NULL, NULL, NULL};
    sr1_status status;

    SR1__TRY(check_trajectories(set, trajectories, n));
    if (n == 0)
        return SR1_OK;
    status = run_all(set, trajectories, n, &s);
    if (status == SR1_OK && parts != NULL)
        memcpy(parts, s.parts, n * set->n * sizeof *parts);
    if (status == SR1_OK && totals != NULL)
        memcpy(totals, s.totals, n * sizeof *totals);
    scores_free(&s);
    return status;
}

static sr1_status set_rewards(const sr1_reward_set *set, sr1_trajectory *const *t,
                              size_t n, const struct scores *s)
{
    struct sr1__reward_value *values = sr1__calloc(set->n + 1, sizeof *values);
    sr1_status status = SR1_OK;
    size_t i, k;

    if (values == NULL)
        return sr1__fail_nomem("rewards of a trajectory");
    for (i = 0; status == SR1_OK && i < n; i++) {
        for (k = 0; k < set->n; k++) {
            values[k].name = set->entries[k].name;
            values[k].value = s->parts[i * set->n + k];
            values[k].weight = set->entries[k].weight;
        }
        status = sr1__trajectory_set_reward(t[i], values, set->n, s->totals[i]);
    }
    sr1__free(values);
    return status;
}

sr1_status sr1_reward_set_apply(sr1_reward_set *set, sr1_trajectory *const *trajectories,
                                size_t n)
{
    const sr1_trajectory *const *t = (const sr1_trajectory *const *)trajectories;
    struct scores s = {NULL, NULL, NULL};
    sr1_status status;

    SR1__TRY(check_trajectories(set, t, n));
    if (n == 0)
        return SR1_OK;
    status = run_all(set, t, n, &s);
    if (status == SR1_OK)
        status = set_rewards(set, trajectories, n, &s);
    scores_free(&s);
    return status;
}
