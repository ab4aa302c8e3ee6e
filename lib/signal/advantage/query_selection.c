/* signal/advantage/query_selection.c - choose the queries of the next rollout by their
 * statistics. Each rule gives a query a number, and the largest come first; a seeded
 * shuffle breaks ties, and the uniform rule is that shuffle alone. */
#include "base/mem.h"
#include "base/rng.h"
#include "base/struct.h"

#include <searchr1/ext/batching.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rules ---- */

static double want_uniform(const sr1_query_stats *s, size_t i)
{
    (void)s;
    (void)i;
    return 0;
}

static double want_reward_variance(const sr1_query_stats *s, size_t i)
{
    return s->seen[i] == 0 ? INFINITY : s->reward_variance[i];
}

static double want_success_half(const sr1_query_stats *s, size_t i)
{
    return s->seen[i] == 0 ? INFINITY : -fabs(s->success[i] - 0.5);
}

static double want_least_seen(const sr1_query_stats *s, size_t i)
{
    return -(double)s->seen[i];
}

enum { SEEN = 1, VARIANCE = 2, SUCCESS = 4 };

static const struct selection_rule {
    const char *name;
    double (*want)(const sr1_query_stats *s, size_t i);
    int reads;
} rules[] = {
    {"uniform", want_uniform, 0},
    {"reward_variance", want_reward_variance, SEEN | VARIANCE},
    {"success_half", want_success_half, SEEN | SUCCESS},
    {"least_seen", want_least_seen, SEEN},
};

#define N_RULES (sizeof rules / sizeof rules[0])

static const char *query_rule_name(size_t i)
{
    return i < N_RULES ? rules[i].name : NULL;
}

static sr1_status find_rule(const char *name, const struct selection_rule **out)
{
    size_t i;

    for (i = 0; name != NULL && i < N_RULES; i++) {
        if (strcmp(rules[i].name, name) == 0) {
            *out = &rules[i];
            return SR1_OK;
        }
    }
    return sr1__fail_unknown("query rule", name != NULL ? name : "NULL", query_rule_name);
}

/* ---- what they read ---- */

static sr1_status check_query_stats(const struct selection_rule *rule,
                                    const sr1_query_stats *s, size_t i)
{
    if ((rule->reads & SEEN) && s->seen[i] < 0)
        return sr1__fail(SR1_E_INVALID, "query %zu: seen is negative", i);
    if ((rule->reads & VARIANCE) &&
        !(s->reward_variance[i] >= 0 && isfinite(s->reward_variance[i])))
        return sr1__fail(SR1_E_NUMERIC, "query %zu: reward variance %g", i,
                         s->reward_variance[i]);
    if ((rule->reads & SUCCESS) && !(s->success[i] >= 0 && s->success[i] <= 1))
        return sr1__fail(SR1_E_NUMERIC, "query %zu: success %g is not in 0..1", i,
                         s->success[i]);
    return SR1_OK;
}

static sr1_status read_query_stats(const struct selection_rule *rule,
                                   const sr1_query_stats *given, sr1_query_stats *s)
{
    size_t i;

    if (given == NULL)
        return sr1__fail(SR1_E_INVALID, "query statistics: NULL");
    SR1__TRY(sr1__struct_take(s, sizeof *s, given, SR1__STRUCT_END(sr1_query_stats, n),
                              "query statistics"));
    if (s->n > 0 && (((rule->reads & SEEN) && s->seen == NULL) ||
                     ((rule->reads & VARIANCE) && s->reward_variance == NULL) ||
                     ((rule->reads & SUCCESS) && s->success == NULL)))
        return sr1__fail(SR1_E_INVALID, "query rule %s: an array it reads is NULL",
                         rule->name);
    for (i = 0; rule->reads != 0 && i < s->n; i++)
        SR1__TRY(check_query_stats(rule, s, i));
    return SR1_OK;
}

/* ---- choosing ---- */

struct query_priority {
    double want;
    size_t place; /* in the shuffle */
    int64_t query;
};

static int compare_priorities(const void *a, const void *b)
{
    const struct query_priority *x = a, *y = b;

    if (x->want != y->want)
        return x->want > y->want ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static sr1_status list_query_priorities(const struct selection_rule *rule,
                                        const sr1_query_stats *s, uint64_t seed,
                                        uint64_t stream, struct query_priority *wishes)
{
    int64_t *order = sr1__calloc(s->n > 0 ? s->n : 1, sizeof *order);
    struct sr1__rng rng;
    size_t i;

    if (order == NULL)
        return sr1__fail_nomem("order of queries");
    for (i = 0; i < s->n; i++)
        order[i] = (int64_t)i;
    sr1__rng_seed(&rng, seed, stream);
    sr1__rng_shuffle(&rng, order, s->n);
    for (i = 0; i < s->n; i++)
        wishes[i] = (struct query_priority){rule->want(s, (size_t)order[i]), i, order[i]};
    sr1__free(order);
    return SR1_OK;
}

sr1_status sr1_query_select(const char *name, const sr1_query_stats *stats, size_t k,
                            uint64_t seed, uint64_t stream, int64_t *chosen)
{
    const struct selection_rule *rule = NULL;
    sr1_query_stats s = {0};
    struct query_priority *wishes;
    sr1_status status;
    size_t i;

    SR1__TRY(find_rule(name, &rule));
    SR1__TRY(read_query_stats(rule, stats, &s));
    if (k > s.n || (k > 0 && chosen == NULL))
        return sr1__fail(SR1_E_INVALID,
                         "query selection: %zu of %zu queries, or chosen is NULL", k,
                         s.n);
    wishes = sr1__calloc(s.n > 0 ? s.n : 1, sizeof *wishes);
    if (wishes == NULL)
        return sr1__fail_nomem("choice of queries");
    status = list_query_priorities(rule, &s, seed, stream, wishes);
    if (status == SR1_OK) {
        qsort(wishes, s.n, sizeof *wishes, compare_priorities);
        for (i = 0; i < k; i++)
            chosen[i] = wishes[i].query;
    }
    sr1__free(wishes);
    return status;
}
