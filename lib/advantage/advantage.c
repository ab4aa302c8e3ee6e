/* advantage/advantage.c - the table of advantage estimators.
 *
 * An estimator gives one number a trajectory; every policy token of the trajectory gets
 * the same. */
#include <searchr1/advantage.h>

#include "advantage/group.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/struct.h"

#include <math.h>
#include <string.h>

struct estimator {
    const char *name;
    /* Rewards are finite, out[n] may be left half written on failure. */
    sr1_status (*compute)(const sr1_advantage_batch *b, const sr1_advantage_options *o,
                          double *out);
};

static sr1_status grpo(const sr1_advantage_batch *b, const sr1_advantage_options *o,
                       double *out)
{
    struct sr1__member *m = NULL;
    double *group = sr1__calloc(b->n, sizeof *group);
    sr1_status status = SR1_OK;
    size_t at, end, i;

    if (group == NULL)
        return sr1__fail_nomem("rewards of a group");
    status = sr1__group_sort(b->groups, b->n, &m);
    for (at = 0; status == SR1_OK && at < b->n; at = end) {
        end = sr1__group_end(m, b->n, at);
        for (i = at; i < end; i++)
            group[i - at] = b->rewards[m[i].index];
        status = sr1__group_advantages(group, end - at, o->eps, o->divide_by_std, group);
        sr1__context(status, "group of trajectory %zu", m[at].index);
        for (i = at; i < end; i++)
            out[m[i].index] = group[i - at];
    }
    sr1__free(m);
    sr1__free(group);
    return status;
}

static const struct estimator estimators[] = {
    {"grpo", grpo},
};

#define N_ESTIMATORS (sizeof estimators / sizeof estimators[0])

const char *sr1_advantage_name(size_t i)
{
    return i < N_ESTIMATORS ? estimators[i].name : NULL;
}

static sr1_status fail_unknown(const char *name)
{
    struct sr1__buf known;
    size_t i;

    sr1__buf_init(&known, 0);
    for (i = 0; i < N_ESTIMATORS; i++)
        sr1__buf_fmt(&known, "%s%s", i > 0 ? ", " : "", estimators[i].name);
    sr1__fail(SR1_E_NOT_FOUND, "advantage '%.64s' is not known; known: %s", name,
              sr1__buf_cstr(&known));
    sr1__buf_free(&known);
    return SR1_E_NOT_FOUND;
}

static sr1_status find_estimator(const char *name, const struct estimator **out)
{
    size_t i;

    if (name == NULL)
        return sr1__fail(SR1_E_INVALID, "advantage: the name is NULL");
    for (i = 0; i < N_ESTIMATORS; i++) {
        if (strcmp(estimators[i].name, name) == 0) {
            *out = &estimators[i];
            return SR1_OK;
        }
    }
    return fail_unknown(name);
}

static sr1_status check_tokens(const sr1_advantage_batch *b)
{
    size_t i;

    if (b->token_begin == NULL)
        return sr1__fail(SR1_E_INVALID, "token advantages need token_begin");
    if (b->token_begin[0] != 0)
        return sr1__fail(SR1_E_INVALID, "token_begin must start at 0");
    for (i = 0; i < b->n; i++)
        if (b->token_begin[i + 1] < b->token_begin[i])
            return sr1__fail(SR1_E_INVALID, "token_begin falls after trajectory %zu", i);
    return SR1_OK;
}

static sr1_status read_batch(const sr1_advantage_batch *given, sr1_advantage_batch *b)
{
    if (given == NULL)
        return sr1__fail(SR1_E_INVALID, "advantage batch: NULL");
    *b = (sr1_advantage_batch){0};
    SR1__TRY(sr1__struct_take(b, sizeof *b, given,
                              SR1__STRUCT_END(sr1_advantage_batch, groups),
                              "advantage batch"));
    if (b->n > 0 && (b->rewards == NULL || b->groups == NULL))
        return sr1__fail(SR1_E_INVALID, "advantage batch: rewards or groups is NULL");
    return sr1__check_finite(b->rewards, b->n, "reward of trajectory");
}

static sr1_status read_options(const sr1_advantage_options *given,
                               sr1_advantage_options *o)
{
    *o = (sr1_advantage_options){.eps = SR1_ADVANTAGE_EPS, .divide_by_std = 1};
    SR1__TRY(sr1__struct_take(o, sizeof *o, given,
                              SR1__STRUCT_END(sr1_advantage_options, eps),
                              "advantage options"));
    if (!isfinite(o->eps) || o->eps < 0)
        return sr1__fail(SR1_E_INVALID, "advantage options: eps must be at least 0");
    return SR1_OK;
}

/* The advantage of each trajectory to all of its policy tokens. */
static void broadcast(const double *advantages, size_t n, const int64_t *token_begin,
                      float *out)
{
    size_t i;

    for (i = 0; i < n; i++) {
        int64_t t;

        for (t = token_begin[i]; t < token_begin[i + 1]; t++)
            out[t] = (float)advantages[i];
    }
}

sr1_status sr1_advantage_compute(const char *estimator, const sr1_advantage_batch *given,
                                 const sr1_advantage_options *options, double *advantages,
                                 float *token_advantages)
{
    const struct estimator *e = NULL;
    sr1_advantage_options o;
    sr1_advantage_batch batch;
    double *made;
    sr1_status status;

    SR1__TRY(find_estimator(estimator, &e));
    SR1__TRY(read_batch(given, &batch));
    SR1__TRY(read_options(options, &o));
    if (advantages == NULL)
        return sr1__fail(SR1_E_INVALID, "advantages is NULL");
    if (token_advantages != NULL)
        SR1__TRY(check_tokens(&batch));
    if (batch.n == 0)
        return SR1_OK;
    made = sr1__calloc(batch.n, sizeof *made);
    if (made == NULL)
        return sr1__fail_nomem("advantages");
    status = e->compute(&batch, &o, made);
    if (status == SR1_OK) {
        memcpy(advantages, made, batch.n * sizeof *made);
        if (token_advantages != NULL)
            broadcast(made, batch.n, batch.token_begin, token_advantages);
    }
    sr1__free(made);
    return status;
}

/* Is the group m[at..end) without any difference in reward? */
static int is_dead(const double *rewards, const struct sr1__member *m, size_t at,
                   size_t end)
{
    size_t i;

    for (i = at + 1; i < end; i++)
        if (rewards[m[i].index] != rewards[m[at].index])
            return 0;
    return 1;
}

sr1_status sr1_advantage_dead_groups(const double *rewards, const uint64_t *groups,
                                     size_t n, uint8_t *dead, size_t *n_groups,
                                     size_t *n_dead)
{
    struct sr1__member *m = NULL;
    size_t at, end, i, all = 0, lost = 0;

    if (n > 0 && (rewards == NULL || groups == NULL))
        return sr1__fail(SR1_E_INVALID, "dead groups: rewards or groups is NULL");
    SR1__TRY(sr1__check_finite(rewards, n, "reward of trajectory"));
    SR1__TRY(sr1__group_sort(groups, n, &m));
    for (at = 0; at < n; at = end) {
        int is = is_dead(rewards, m, at, end = sr1__group_end(m, n, at));

        all++;
        lost += (size_t)is;
        for (i = at; dead != NULL && i < end; i++)
            dead[m[i].index] = (uint8_t)is;
    }
    if (n_groups != NULL)
        *n_groups = all;
    if (n_dead != NULL)
        *n_dead = lost;
    sr1__free(m);
    return SR1_OK;
}
