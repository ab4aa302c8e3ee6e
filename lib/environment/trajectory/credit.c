/* environment/trajectory/credit.c - the values set on a trajectory after generation: the
 * reward with its components, the advantage, and columns of one number for each policy
 * token. */
#include "environment/trajectory/trajectory_layout.h"

#include "base/mem.h"

#include <math.h>

void sr1__reward_components_free(struct sr1__reward_component *parts, size_t n)
{
    for (size_t i = 0; parts && i < n; i++)
        sr1__free(parts[i].name);
    sr1__free(parts);
}

int32_t sr1_trajectory_has_reward(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->has_reward;
}

double sr1_trajectory_reward(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->reward;
}

size_t sr1_trajectory_reward_component_count(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->n_parts;
}

sr1_status sr1_trajectory_reward_component(const sr1_trajectory *t, size_t i,
                                           const char **name, double *value,
                                           double *weight)
{
    SR1__REQUIRE(t, "trajectory");
    if (i >= t->n_parts)
        return sr1__fail(SR1_E_INVALID, "reward part %zu: out of range, there are %zu", i,
                         t->n_parts);
    if (name)
        *name = t->parts[i].name;
    if (value)
        *value = t->parts[i].value;
    if (weight)
        *weight = t->parts[i].weight;
    return SR1_OK;
}

/* What counts is a number; NaN of weight 0 was to be measured and could not be had. */
static int is_reward_part(const struct sr1__reward_value *p)
{
    return isfinite(p->weight) &&
           (isfinite(p->value) || (p->weight == 0.0 && isnan(p->value)));
}

static sr1_status check_parts(const struct sr1__reward_value *parts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_reward_part(&parts[i]))
            return sr1__fail(SR1_E_NUMERIC, "reward part '%s': not a finite number",
                             parts[i].name);
    return SR1_OK;
}

static sr1_status copy_parts(struct sr1__reward_component **out,
                             const struct sr1__reward_value *parts, size_t n)
{
    struct sr1__reward_component *copy = n ? sr1__calloc(n, sizeof *copy) : NULL;

    if (n && !copy)
        return sr1__fail_nomem("reward parts");
    for (size_t i = 0; i < n; i++) {
        copy[i].name = sr1__strdup(parts[i].name);
        copy[i].value = parts[i].value;
        copy[i].weight = parts[i].weight;
        if (!copy[i].name) {
            sr1__reward_components_free(copy, n);
            return sr1__fail_nomem("reward parts");
        }
    }
    *out = copy;
    return SR1_OK;
}

sr1_status sr1__trajectory_set_reward(sr1_trajectory *t,
                                      const struct sr1__reward_value *parts, size_t n,
                                      double total)
{
    struct sr1__reward_component *copy = NULL;

    if (!isfinite(total))
        return sr1__fail(SR1_E_NUMERIC, "reward: the total is not a finite number");
    SR1__TRY(check_parts(parts, n));
    SR1__TRY(copy_parts(&copy, parts, n));
    sr1__reward_components_free(t->parts, t->n_parts);
    t->parts = copy;
    t->n_parts = n;
    t->reward = total;
    t->has_reward = 1;
    return SR1_OK;
}

sr1_status sr1_trajectory_set_reward(sr1_trajectory *t, double total)
{
    SR1__REQUIRE(t, "trajectory");
    return sr1__trajectory_set_reward(t, NULL, 0, total);
}

int32_t sr1_trajectory_has_advantage(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->has_advantage;
}

double sr1_trajectory_advantage(const sr1_trajectory *t)
{
    return sr1__trajectory_or_empty(t)->advantage;
}

sr1_status sr1_trajectory_set_advantage(sr1_trajectory *t, double advantage)
{
    SR1__REQUIRE(t, "trajectory");
    if (!isfinite(advantage))
        return sr1__fail(SR1_E_NUMERIC, "advantage: not a finite number");
    t->advantage = advantage;
    t->has_advantage = 1;
    return SR1_OK;
}

/* ---- columns ---- */

const char *sr1_column_name(int32_t column)
{
#define WORD(name, code, word) [code] = word,
    static const char *const words[] = {SR1_COLUMN_TABLE(WORD)};
#undef WORD

    return column >= 0 && column < SR1_COLUMN_COUNT ? words[column] : NULL;
}

const float *sr1_trajectory_column(const sr1_trajectory *t, int32_t column)
{
    return sr1_column_name(column) ? sr1__trajectory_or_empty(t)->credit[column] : NULL;
}

static sr1_status check_column(const sr1_trajectory *t, const char *name,
                               const float *values, size_t n)
{
    if (n && !values)
        return sr1__fail(SR1_E_INVALID, "%s: none given", name);
    if (n && n != t->n_policy)
        return sr1__fail(SR1_E_INVALID,
                         "%s: %zu given for %zu policy tokens; give one for each", name,
                         n, t->n_policy);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return sr1__fail(SR1_E_NUMERIC, "%s: number %zu is not finite", name, i);
    return SR1_OK;
}

sr1_status sr1_trajectory_set_column(sr1_trajectory *t, int32_t column,
                                     const float *values, size_t n)
{
    const char *name = sr1_column_name(column);
    float *copy = NULL;

    SR1__REQUIRE(t, "trajectory");
    if (!name)
        return sr1__fail(SR1_E_INVALID, "column %d: there is none; 0 to %d are known",
                         (int)column, SR1_COLUMN_COUNT - 1);
    SR1__TRY(check_column(t, name, values, n));
    if (n && !(copy = sr1__memdup(values, n * sizeof *copy)))
        return sr1__fail_nomem(name);
    sr1__free(t->credit[column]);
    t->credit[column] = copy;
    return SR1_OK;
}
