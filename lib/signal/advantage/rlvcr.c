/* signal/advantage/rlvcr.c - thinking levels (RLVCR; published as CoPO, arXiv
 * 2602.12662). With history and action of a turn fixed, c_l is the policy's confidence in
 * the action after thinking at level l (0..3); alpha is the weight of the thinking cost:
 *
 *     c_l <- c_l + alpha (0.5 - cost_l / cost_max)
 *     H    = c_chosen - mean of the four      (mean_norm), / (std of the four + eps)
 *     H   *= 1 + d (1 - F/G)      F of the group's G turns with a level used this one
 *     A    = norm(s_i) + w H                  on the tokens of the turn, or on those of
 *                                             step_tokens, elsewhere norm(s_i)
 *
 * The published code has another form, with c_l the confidence "mean_prob" and no cost:
 * p_l = (c_l - min) / (max - min), 0.5 where max - min is at most 1e-6;
 * A = norm(s_i) exp(2 p_chosen) / mean of exp(2 p_l).
 *
 * A turn without a level, or with a level that could not be generated (NaN), has H = 0
 * (factor 1) and is counted. */
#include "signal/advantage/advantage_internal.h"

#include <math.h>
#include <string.h>

#define LEVELS 4
#define FLAT                                                                             \
    1e-6 /* confidences this near each other are equal, in the published code            \
          */

struct use {
    double of_level[LEVELS]; /* F */
    double total;            /* G */
};

static sr1_status check_input(const struct sr1__advantage_call *a)
{
    const sr1_advantage_batch *b = a->b;
    size_t u, k;

    for (u = 0; u < a->n_turns; u++)
        if (b->turn_tags[u] < -1 || b->turn_tags[u] >= LEVELS)
            return sr1__fail(SR1_E_INVALID,
                             "advantage rlvcr: level %d of turn %zu is not in -1..3",
                             (int)b->turn_tags[u], u);
    if (a->o->thinking_cost_w == 0)
        return SR1_OK;
    if (b->thinking_costs == NULL)
        return sr1__fail(SR1_E_INVALID, "advantage rlvcr: the batch lacks "
                                        "thinking_costs, which thinking_cost_w asks for");
    if (a->o->thinking_cost_max == 0)
        return sr1__fail(SR1_E_INVALID,
                         "advantage rlvcr: thinking_cost_max must be above 0");
    for (k = 0; k < LEVELS * a->n_turns; k++)
        if (b->thinking_costs[k] < 0)
            return sr1__fail(SR1_E_INVALID,
                             "advantage rlvcr: thinking cost of turn %zu, level %zu is "
                             "negative (%g)",
                             k / LEVELS, k % LEVELS, b->thinking_costs[k]);
    return SR1_OK;
}

/* The four c_l with their costs; NaN stays. */
static void read_level_confidences(const struct sr1__advantage_call *a, size_t u,
                                   double c[LEVELS])
{
    const sr1_advantage_options *o = a->o;
    int l;

    memcpy(c, a->b->confidences + LEVELS * u, LEVELS * sizeof *c);
    for (l = 0; o->thinking_cost_w != 0 && l < LEVELS; l++)
        c[l] += o->thinking_cost_w *
                (0.5 - a->b->thinking_costs[LEVELS * u + l] / o->thinking_cost_max);
}

static int all_made(const double c[LEVELS])
{
    int l;

    for (l = 0; l < LEVELS; l++)
        if (isnan(c[l]))
            return 0;
    return 1;
}

static sr1_status additive_step_advantage(const struct sr1__advantage_call *a,
                                          const double c[LEVELS], int level,
                                          const struct use *use, double *out)
{
    struct sr1__norm how =
        sr1__norm_of(a->o, a->o->step_mode == SR1_ADVANTAGE_MEAN_STD_NORM);
    double h[LEVELS];

    SR1__TRY(sr1__normalise(c, LEVELS, &how, h));
    *out = h[level] *
           (1 + a->o->thinking_diversity_w * (1 - use->of_level[level] / use->total));
    return SR1_OK;
}

static double multiplicative_step_factor(const double c[LEVELS], int level)
{
    double low = c[0], high = c[0], w[LEVELS], mean = 0;
    int l;

    for (l = 1; l < LEVELS; l++) {
        low = fmin(low, c[l]);
        high = fmax(high, c[l]);
    }
    for (l = 0; l < LEVELS; l++) {
        w[l] = exp(2 * (high - low > FLAT ? (c[l] - low) / (high - low) : 0.5));
        mean += w[l] / LEVELS;
    }
    return w[level] / mean;
}

static sr1_status estimate_rlvcr_turn(struct sr1__advantage_call *a, size_t u,
                                      const struct use *use)
{
    int level = a->b->turn_tags[u];
    double c[LEVELS];

    read_level_confidences(a, u, c);
    if (level < 0 || !all_made(c)) {
        a->turns[u] = a->o->multiplicative ? 1 : 0;
        a->report.turns_unscored++;
        return SR1_OK;
    }
    a->report.turns_compared++;
    if (!a->o->multiplicative)
        return additive_step_advantage(a, c, level, use, &a->turns[u]);
    a->turns[u] = multiplicative_step_factor(c, level);
    return SR1_OK;
}

/* The turns of the trajectories m[at..end). */
static sr1_status estimate_rlvcr_group(struct sr1__advantage_call *a, size_t at,
                                       size_t end)
{
    const sr1_advantage_batch *b = a->b;
    struct use use = {{0}, 0};
    size_t k;
    int64_t u;

    for (k = at; k < end; k++) {
        size_t i = a->members[k].index;

        for (u = b->turn_begin[i]; u < b->turn_begin[i + 1]; u++) {
            if (b->turn_tags[u] < 0)
                continue;
            use.of_level[b->turn_tags[u]]++;
            use.total++;
        }
    }
    for (k = at; k < end; k++) {
        size_t i = a->members[k].index;

        for (u = b->turn_begin[i]; u < b->turn_begin[i + 1]; u++)
            SR1__TRY(estimate_rlvcr_turn(a, (size_t)u, &use));
    }
    return SR1_OK;
}

static void multiply_tokens(struct sr1__advantage_call *a)
{
    const sr1_advantage_batch *b = a->b;
    size_t i;

    for (i = 0; i < a->n; i++) {
        int64_t t;

        for (t = b->token_begin[i]; t < b->token_begin[i + 1]; t++) {
            size_t u = (size_t)b->turn_begin[i] + sr1__turn_of(b, (size_t)t);

            a->tokens[t] = a->each[i];
            if (sr1__has_turn_advantage(b, (size_t)t))
                a->tokens[t] *= a->turns[u];
        }
    }
}

sr1_status sr1__advantage_rlvcr(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, a->o->divide_by_std);
    size_t at, end;

    SR1__TRY(check_input(a));
    SR1__TRY(sr1__normalise_groups(a, a->scores, &how, a->each));
    for (at = 0; at < a->n; at = end) {
        end = sr1__group_end(a->members, a->n, at);
        SR1__TRY(estimate_rlvcr_group(a, at, end));
    }
    if (a->o->multiplicative)
        multiply_tokens(a);
    else
        sr1__turns_to_tokens(a, a->o->step_advantage_w);
    return SR1_OK;
}
