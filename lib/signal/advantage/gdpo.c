/* signal/advantage/gdpo.c - each component of the reward normalised in its group by
 * itself, then the weighted sum normalised over the batch (Liu et al. 2026, GDPO), so
 * that none dominates the others:
 *
 *     S_i = sum_c w_c (r_ic - mean_c) / (std_c + eps),  A_i = (S_i - mean) / (std + eps)
 *
 * TRL takes this last mean and std over trajectories. verl whitens over tokens: each
 * trajectory counts as often as it has policy tokens. */
#include "signal/advantage/advantage_internal.h"

#include "base/mem.h"

#include <math.h>

/* Component c of every trajectory, normalised, added to each[] with its weight. */
static sr1_status add_reward_component(struct sr1__advantage_call *a, size_t c, double *v)
{
    const sr1_advantage_batch *b = a->b;
    struct sr1__norm how = sr1__norm_of(a->o, a->o->divide_by_std);
    double w = b->component_weights != NULL ? b->component_weights[c] : 1;
    size_t i;

    if (w == 0.0) /* measured only; it may be unknown */
        return SR1_OK;
    for (i = 0; i < a->n; i++)
        v[i] =
            sr1__component_absent(b, i, c) ? NAN : b->components[i * b->n_components + c];
    SR1__TRY(sr1__normalise_groups(a, v, &how, v));
    for (i = 0; i < a->n; i++)
        a->each[i] += w * v[i];
    return SR1_OK;
}

static sr1_status normalise_batch(struct sr1__advantage_call *a)
{
    struct sr1__norm how = sr1__norm_of(a->o, 1);

    if (!a->o->whiten || a->n < 2)
        return SR1_OK;
    return a->o->whiten == SR1_ADVANTAGE_WHITEN_TOKENS
               ? sr1__whiten_by_tokens(a)
               : sr1__normalise(a->each, a->n, &how, a->each);
}

sr1_status sr1__advantage_gdpo(struct sr1__advantage_call *a)
{
    double *v = sr1__calloc(a->n + 1, sizeof *v);
    sr1_status status = SR1_OK;
    size_t c;

    SR1__CHECK_ALLOC(v, "a reward component");
    for (c = 0; status == SR1_OK && c < a->b->n_components; c++) {
        status = add_reward_component(a, c, v);
        sr1__context(status, "component %zu", c);
    }
    sr1__free(v);
    return status == SR1_OK ? normalise_batch(a) : status;
}
