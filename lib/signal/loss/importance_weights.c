/* signal/loss/importance_weights.c - the factor on the loss of a token that was sampled
 * by other weights, or by the same weights in another engine; without gradient.
 *
 *     importance   exp(old - rollout) of the token, or of its sequence the product,
 *                  kept within bounds (Yao et al. 2025, TIS: the upper one), or dropped
 *     off policy   0 for A < 0 in a sequence whose mean of rollout - new is above delta
 *                  (DeepSeek-V3.2 2025, off-policy sequence mask)
 *     entropy      0 below entropy_threshold (entropy_threshold.c) */
#include "signal/loss/loss.h"

#include <math.h>
#include <string.h>

static const struct sr1__correction corrections[] = {
    {"none", 0, 0},          {"token_truncate", 0, 0},
    {"token_mask", 0, 1},    {"sequence_truncate", 1, 0},
    {"sequence_mask", 1, 1},
};

#define N_CORRECTIONS (sizeof(corrections) / sizeof(corrections[0]))

const char *sr1_loss_correction_name(size_t i)
{
    return i < N_CORRECTIONS ? corrections[i].name : NULL;
}

/* The row NULL stands for: none. */
sr1_status sr1__correction_find(const char *name, const struct sr1__correction **out)
{
    *out = NULL;
    if (!name || strcmp(name, corrections[0].name) == 0)
        return SR1_OK;
    for (size_t i = 1; i < N_CORRECTIONS && !*out; i++)
        if (strcmp(corrections[i].name, name) == 0)
            *out = &corrections[i];
    return *out ? SR1_OK
                : sr1__fail_unknown("correction", name, sr1_loss_correction_name);
}

static double sampling_log_prob(const sr1_loss_batch *b, size_t i)
{
    return b->rollout_log_probs ? b->rollout_log_probs[i] : b->old_log_probs[i];
}

/* exp(log_weight) for the tokens [begin, end). */
static void apply_importance_weight(struct sr1__loss_call *c, double log_weight,
                                    size_t begin, size_t end)
{
    int live;
    double rho = sr1__bounded_exp(log_weight, &live);
    double near = fmin(fmax(rho, c->o.correction_low), c->o.correction_high);
    int outside = near != rho;
    double factor = outside && c->correction->masks ? 0.0 : near;

    c->sum.importance_max = fmax(c->sum.importance_max, rho);
    for (size_t i = begin; i < end; i++) {
        double w = sr1__loss_weight(&c->b, i);

        c->factors[i] = factor;
        c->sum.importance_mean += w * rho;
        c->sum.importance_square += w * rho * rho;
        c->sum.importance_cut += outside ? w : 0.0;
    }
}

static void importance_by_token(struct sr1__loss_call *c)
{
    for (size_t i = 0; i < c->b.n; i++)
        apply_importance_weight(c, c->b.old_log_probs[i] - sampling_log_prob(&c->b, i), i,
                                i + 1);
}

static void importance_by_sequence(struct sr1__loss_call *c)
{
    for (size_t s = 0; s < c->b.n_seqs; s++) {
        size_t begin = (size_t)c->b.seq_begin[s], end = (size_t)c->b.seq_begin[s + 1];
        double sum = 0.0;

        for (size_t i = begin; i < end; i++)
            sum += c->b.old_log_probs[i] - sampling_log_prob(&c->b, i);
        if (end > begin)
            apply_importance_weight(c, sum, begin, end);
    }
}

/* As if every weight were 1. */
static void no_importance(struct sr1__loss_call *c)
{
    for (size_t i = 0; i < c->b.n; i++) {
        double w = sr1__loss_weight(&c->b, i);

        c->factors[i] = 1.0;
        c->sum.importance_mean += w;
        c->sum.importance_square += w;
    }
    c->sum.importance_max = c->b.n ? 1.0 : 0.0;
}

static void weigh_tokens(struct sr1__loss_call *c)
{
    if (!c->correction)
        no_importance(c);
    else if (c->correction->by_sequence)
        importance_by_sequence(c);
    else
        importance_by_token(c);
}

void sr1__importance_weights(const sr1_loss_options *o, const sr1_loss_batch *b,
                             double *weights)
{
    struct sr1__loss_call c = {.b = *b, .o = *o, .factors = weights};

    (void)sr1__correction_find(o->correction, &c.correction);
    weigh_tokens(&c);
}

static void drop_off_policy(struct sr1__loss_call *c)
{
    for (size_t s = 0; s < c->b.n_seqs; s++) {
        size_t begin = (size_t)c->b.seq_begin[s], end = (size_t)c->b.seq_begin[s + 1];
        double sum = 0.0;

        for (size_t i = begin; i < end; i++)
            sum += sampling_log_prob(&c->b, i) - c->b.new_log_probs[i];
        if (sum <= c->o.off_policy_delta * (double)(end - begin))
            continue;
        for (size_t i = begin; i < end; i++) {
            if (c->b.advantages[i] < 0.0f) {
                c->factors[i] = 0.0;
                c->sum.off_policy_cut += sr1__loss_weight(&c->b, i);
            }
        }
    }
}

void sr1__loss_apply_correction(struct sr1__loss_call *c)
{
    weigh_tokens(c);
    if (c->o.off_policy_delta > 0.0)
        drop_off_policy(c);
    for (size_t i = 0; i < c->b.n; i++)
        if (sr1__loss_entropy_is_low(c, i))
            c->factors[i] = 0.0;
}
