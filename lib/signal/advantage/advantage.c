/* signal/advantage/advantage.c - the table of advantage estimators, and one call of one
 * of them: read, check, estimate, spread over tokens, copy out. */
#include "signal/advantage/advantage_internal.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/struct.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- the table ---- */

enum {
    NEEDS_TOKENS = SR1_ADVANTAGE_NEEDS_TOKENS,
    NEEDS_TURNS = SR1_ADVANTAGE_NEEDS_TURNS,
    NEEDS_TURN_REWARDS = SR1_ADVANTAGE_NEEDS_TURN_REWARDS,
    NEEDS_VALUES = SR1_ADVANTAGE_NEEDS_VALUES,
    NEEDS_COMPONENTS = SR1_ADVANTAGE_NEEDS_COMPONENTS,
    NEEDS_TURN_STATES = SR1_ADVANTAGE_NEEDS_TURN_STATES,
    NEEDS_TURN_TAGS = SR1_ADVANTAGE_NEEDS_TURN_TAGS,
    NEEDS_CONFIDENCES = SR1_ADVANTAGE_NEEDS_CONFIDENCES,
    NEEDS_RESULT_TURN = SR1_ADVANTAGE_NEEDS_RESULT_TURN,
    NEEDS_BASELINES = SR1_ADVANTAGE_NEEDS_BASELINES,
    NEEDS_SCORE_NORMS = SR1_ADVANTAGE_NEEDS_SCORE_NORMS,
    GIVES_TOKENS = SR1_ADVANTAGE_GIVES_TOKENS,
    GIVES_RETURNS = SR1_ADVANTAGE_GIVES_RETURNS,
    GIVES_TURNS = SR1_ADVANTAGE_GIVES_TURNS,
    GIVES_GROUP_RELATIVE = SR1_ADVANTAGE_GIVES_GROUP_RELATIVE
};

#define ADVANTAGE(name, needs, gives, options, formula, source, ...)                     \
    {{sizeof(sr1_advantage_info), #name, formula, source, options, needs, gives},        \
     sr1__advantage_##name,                                                              \
     {.struct_size = sizeof(sr1_advantage_options), __VA_ARGS__},                        \
     {0},                                                                                \
     NULL},

static const struct sr1__estimator rows[] = {
#include "signal/advantage/estimators.def"
};

#define N_ROWS (sizeof rows / sizeof rows[0])

/* Built-in ones first. NULL past the last. */
static const struct sr1__estimator *get_estimator(size_t i)
{
    return i < N_ROWS ? &rows[i] : sr1__registered_estimator(i - N_ROWS);
}

const char *sr1_advantage_name(size_t i)
{
    const struct sr1__estimator *row = get_estimator(i);

    return row != NULL ? row->info.name : NULL;
}

sr1_status sr1_advantage_describe(size_t i, sr1_advantage_info *out)
{
    const struct sr1__estimator *row = get_estimator(i);

    if (row == NULL)
        return sr1__fail(SR1_E_INVALID, "advantage %zu is past the last", i);
    return sr1__struct_give(out, &row->info, sizeof row->info, "advantage info");
}

sr1_status sr1__estimator_find(const char *name, const struct sr1__estimator **out)
{
    const struct sr1__estimator *row;
    size_t i;

    if (name == NULL)
        return sr1__fail(SR1_E_INVALID, "advantage: the name is NULL");
    for (i = 0; (row = get_estimator(i)) != NULL; i++) {
        if (strcmp(row->info.name, name) == 0) {
            *out = row;
            return SR1_OK;
        }
    }
    return sr1__fail_unknown("advantage", name, sr1_advantage_name);
}

/* ---- options ---- */

sr1_status sr1_advantage_options_init(sr1_advantage_options *options,
                                      const char *estimator)
{
    const struct sr1__estimator *row = NULL;

    if (options == NULL)
        return sr1__fail(SR1_E_INVALID, "advantage options: NULL");
    SR1__TRY(sr1__estimator_find(estimator, &row));
    sr1__struct_init(options, &row->published, sizeof row->published);
    return SR1_OK;
}

static sr1_status check_least(double v, const char *what)
{
    if (!isfinite(v) || v < 0)
        return sr1__fail(SR1_E_INVALID,
                         "advantage options: %s must be at least 0, got %g", what, v);
    return SR1_OK;
}

static sr1_status check_share(double v, const char *what)
{
    if (!(v >= 0 && v <= 1))
        return sr1__fail(SR1_E_INVALID, "advantage options: %s must be in 0..1, got %g",
                         what, v);
    return SR1_OK;
}

static sr1_status check_kinds(const sr1_advantage_options *o)
{
    if (o->std_kind < 0 || o->std_kind > SR1_ADVANTAGE_STD_UNBIASED)
        return sr1__fail(SR1_E_INVALID, "advantage options: std_kind %d is not known",
                         (int)o->std_kind);
    if (o->std_over < 0 || o->std_over > SR1_ADVANTAGE_STD_OVER_BATCH)
        return sr1__fail(SR1_E_INVALID, "advantage options: std_over %d is not known",
                         (int)o->std_over);
    if (o->step_mode < 0 || o->step_mode > SR1_ADVANTAGE_MEAN_STD_NORM)
        return sr1__fail(SR1_E_INVALID, "advantage options: step_mode %d is not known",
                         (int)o->step_mode);
    if (o->whiten < 0 || o->whiten > SR1_ADVANTAGE_WHITEN_TOKENS)
        return sr1__fail(SR1_E_INVALID, "advantage options: whiten %d is not known",
                         (int)o->whiten);
    if (o->pass_k < 0 || o->pass_k == 1)
        return sr1__fail(SR1_E_INVALID,
                         "advantage options: pass_k must be 0 or at least 2, got %d; "
                         "dr_grpo is the one of k = 1",
                         (int)o->pass_k);
    return SR1_OK;
}

static sr1_status read_advantage_options(const struct sr1__estimator *row,
                                         const sr1_advantage_options *given,
                                         sr1_advantage_options *o)
{
    *o = row->published;
    SR1__TRY(sr1__struct_take(o, sizeof *o, given,
                              SR1__STRUCT_END(sr1_advantage_options, eps),
                              "advantage options"));
    SR1__TRY(check_least(o->eps, "eps"));
    SR1__TRY(check_share(o->gamma, "gamma"));
    SR1__TRY(check_share(o->lam, "lam"));
    SR1__TRY(check_least(o->turn_advantage_coef, "turn_advantage_coef"));
    SR1__TRY(check_least(o->step_advantage_w, "step_advantage_w"));
    SR1__TRY(check_least(o->thinking_diversity_w, "thinking_diversity_w"));
    SR1__TRY(check_least(o->thinking_cost_w, "thinking_cost_w"));
    SR1__TRY(check_least(o->thinking_cost_max, "thinking_cost_max"));
    SR1__TRY(check_kinds(o));
    if (o->std_kind == SR1_ADVANTAGE_STD_DEFAULT)
        o->std_kind = row->published.std_kind;
    if (o->step_mode == 0)
        o->step_mode = row->published.step_mode;
    return SR1_OK;
}

/* ---- one call ---- */

static sr1_status check_advantage_outputs(const struct sr1__estimator *row,
                                          const sr1_advantage_outputs *out,
                                          const sr1_advantage_batch *b)
{
    const sr1_advantage_info *info = &row->info;
    const char *missing;

    if (b->n == 0)
        return SR1_OK;
    missing = sr1__advantage_missing(b, info->needs);
    if (missing != NULL)
        return sr1__fail(SR1_E_INVALID, "advantage %s: the batch lacks %s", info->name,
                         missing);
    if (out->token_advantages != NULL && b->token_begin == NULL)
        return sr1__fail(SR1_E_INVALID, "token advantages need token_begin");
    if (out->returns != NULL && !(info->gives & SR1_ADVANTAGE_GIVES_RETURNS))
        return sr1__fail(SR1_E_INVALID, "advantage %s: gives no returns", info->name);
    if (out->turn_advantages != NULL && !(info->gives & SR1_ADVANTAGE_GIVES_TURNS))
        return sr1__fail(SR1_E_INVALID, "advantage %s: gives nothing by turn",
                         info->name);
    return SR1_OK;
}

/* The memory of a call, in one piece of which a->each is the beginning. */
static sr1_status alloc_advantages(struct sr1__advantage_call *a)
{
    double *room;

    if (a->n_tokens > SIZE_MAX / 32 || a->n_turns > SIZE_MAX / 32 || a->n > SIZE_MAX / 32)
        return sr1__fail_nomem("advantages");
    room = sr1__calloc(2 * a->n + 2 * a->n_tokens + a->n_turns + 1, sizeof *room);
    if (room == NULL)
        return sr1__fail_nomem("advantages");
    a->each = room;
    a->tokens = room + 2 * a->n;
    a->returns = a->tokens + a->n_tokens;
    a->turns = a->returns + a->n_tokens;
    sr1__advantage_scores(a->b, room + a->n);
    a->scores = room + a->n;
    return SR1_OK;
}

static void count_groups_and_tokens(struct sr1__advantage_call *a)
{
    size_t at, end, i;

    a->report.struct_size = sizeof a->report;
    a->report.trajectories = (int64_t)a->n;
    a->report.tokens = (int64_t)a->n_tokens;
    a->report.turns = (int64_t)a->n_turns;
    for (at = 0; at < a->n; at = end) {
        end = sr1__group_end(a->members, a->n, at);
        for (i = at + 1; i < end; i++)
            if (a->scores[a->members[i].index] != a->scores[a->members[at].index])
                break;
        a->report.groups++;
        a->report.zero_variance_groups += i == end;
    }
}

/* One number a trajectory to its tokens, or the tokens' mean to the trajectory. */
static void spread_over_tokens(struct sr1__advantage_call *a, int by_token)
{
    size_t i;

    for (i = 0; a->n_tokens > 0 && i < a->n; i++) {
        int64_t from = a->b->token_begin[i], to = a->b->token_begin[i + 1], t;
        double sum = 0;

        for (t = from; t < to; t++) {
            if (!by_token)
                a->tokens[t] = a->each[i];
            sum += a->tokens[t] / (double)(to - from);
        }
        if (by_token)
            a->each[i] = sum;
    }
}

static sr1_status check_range(const struct sr1__estimator *row, const double *v, size_t n,
                              double limit, const char *what)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (!(fabs(v[i]) <= limit))
            return sr1__fail(SR1_E_NUMERIC,
                             "advantage %s: that of %s %zu is out of range (%g)%s",
                             row->info.name, what, i, v[i],
                             row->ops.estimate ? "" : "; the rewards are too large");
    return SR1_OK;
}

static sr1_status apply_estimator(const struct sr1__estimator *row,
                                  struct sr1__advantage_call *a)
{
    SR1__TRY(alloc_advantages(a));
    SR1__TRY(check_range(row, a->scores, a->n, DBL_MAX, "trajectory"));
    count_groups_and_tokens(a);
    SR1__TRY(row->estimate(a));
    spread_over_tokens(a, row->info.gives & SR1_ADVANTAGE_GIVES_TOKENS);
    SR1__TRY(check_range(row, a->each, a->n, DBL_MAX, "trajectory"));
    SR1__TRY(check_range(row, a->tokens, a->n_tokens, FLT_MAX, "token"));
    SR1__TRY(check_range(row, a->returns, a->n_tokens, FLT_MAX, "token"));
    return check_range(row, a->turns, a->n_turns, DBL_MAX, "turn");
}

static void to_floats(const double *v, size_t n, float *out)
{
    size_t i;

    for (i = 0; out != NULL && i < n; i++)
        out[i] = (float)v[i];
}

static void copy_advantages(const struct sr1__advantage_call *a,
                            const sr1_advantage_outputs *out)
{
    if (out->advantages != NULL && a->n > 0)
        memcpy(out->advantages, a->each, a->n * sizeof *a->each);
    to_floats(a->tokens, a->n_tokens, out->token_advantages);
    to_floats(a->returns, a->n_tokens, out->returns);
    if (out->turn_advantages != NULL && a->n_turns > 0)
        memcpy(out->turn_advantages, a->turns, a->n_turns * sizeof *a->turns);
}

/* Everything is read and fits. */
static sr1_status run_advantage_call(const struct sr1__estimator *row,
                                     const sr1_advantage_batch *b,
                                     const sr1_advantage_options *o,
                                     const sr1_advantage_outputs *out,
                                     sr1_advantage_report *report)
{
    struct sr1__advantage_call a = {.row = row, .b = b, .o = o, .n = b->n};
    struct sr1__member *members = NULL;
    sr1_status status = sr1__sort_groups(b->groups, b->n, &members);

    a.members = members;
    if (b->n > 0 && b->token_begin != NULL)
        a.n_tokens = (size_t)b->token_begin[b->n];
    if (b->n > 0 && b->turn_begin != NULL)
        a.n_turns = (size_t)b->turn_begin[b->n];
    if (status == SR1_OK)
        status = apply_estimator(row, &a);
    if (status == SR1_OK && report != NULL)
        status = sr1__struct_give(report, &a.report, sizeof a.report, "advantage report");
    if (status == SR1_OK)
        copy_advantages(&a, out);
    sr1__free(a.each);
    sr1__free(members);
    return status;
}

sr1_status sr1_advantage_estimate(const char *estimator, const sr1_advantage_batch *batch,
                                  const sr1_advantage_options *options,
                                  const sr1_advantage_outputs *outputs,
                                  sr1_advantage_report *report)
{
    const struct sr1__estimator *row = NULL;
    sr1_advantage_outputs out = {0};
    sr1_advantage_options o;
    sr1_advantage_batch b;

    SR1__TRY(sr1__estimator_find(estimator, &row));
    SR1__TRY(sr1__advantage_read(batch, &b));
    SR1__TRY(read_advantage_options(row, options, &o));
    if (outputs == NULL)
        return sr1__fail(SR1_E_INVALID, "advantage outputs: NULL");
    SR1__TRY(sr1__struct_take(&out, sizeof out, outputs,
                              SR1__STRUCT_END(sr1_advantage_outputs, advantages),
                              "advantage outputs"));
    if (report != NULL)
        SR1__TRY(sr1__struct_check(report, "advantage report"));
    SR1__TRY(check_advantage_outputs(row, &out, &b));
    return run_advantage_call(row, &b, &o, &out, report);
}
