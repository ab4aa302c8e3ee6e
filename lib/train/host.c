/* train/host.c - a micro-batch on the host: log-probs, weights and the loss over them.
 *
 * Where tokens are corrected for the policy that sampled them, old log-probs are those of
 * the present weights before the update, which its first pass computes anyway; they are
 * kept by trajectory, so that another cut into micro-batches finds them too. */
#include "train/internal.h"

#include "base/mem.h"

#include <string.h>

struct sr1__olds {
    size_t n;
    float **log_probs; /* [n] of the policy tokens of each trajectory; NULL: not seen */
};

sr1_status sr1__olds_new(struct sr1__olds **out, size_t n)
{
    struct sr1__olds *o = sr1__calloc(1, sizeof(*o));

    if (o)
        o->log_probs = sr1__calloc(n + 1, sizeof(float *));
    if (!o || !o->log_probs) {
        sr1__free(o);
        return sr1__fail_nomem("old log-probs");
    }
    o->n = n;
    *out = o;
    return SR1_OK;
}

void sr1__olds_free(struct sr1__olds *o)
{
    for (size_t i = 0; o && i < o->n; i++)
        sr1__free(o->log_probs[i]);
    if (o)
        sr1__free(o->log_probs);
    sr1__free(o);
}

/* The targets of a sequence stand together, sequence by sequence. */
static sr1_status fill_weights(struct sr1__host *h, const struct sr1__settings *set,
                               const struct sr1__batch_plan *plan,
                               const struct sr1__microbatch *mb)
{
    sr1_loss_maps maps = {.struct_size = sizeof(maps),
                          .n_seqs = mb->n_seqs,
                          .seq_begin = h->seq_begin,
                          .total_tokens = plan->n_policy_tokens,
                          .total_seqs = (int64_t)plan->n_sequences,
                          .length = set->loss_length};

    for (size_t i = 0; i < mb->n_targets; i++)
        h->seq_begin[mb->target_seqs[i] + 1] = (int64_t)i + 1;
    return sr1__aggregation_weights(set->aggregation, &maps, h->weights);
}

sr1_status sr1__host_make(struct sr1__host *h, const struct sr1__settings *set,
                          const struct sr1__batch_plan *plan,
                          const struct sr1__microbatch *mb)
{
    size_t m = mb->n_targets + 1;

    h->now = sr1__calloc(4 * m, sizeof(float));
    h->seq_begin = sr1__calloc(mb->n_seqs + 1, sizeof(int64_t));
    if (!h->now || !h->seq_begin)
        return sr1__fail_nomem("log-probs of a micro-batch");
    h->old = h->now + m;
    h->weights = h->old + m;
    h->gradient = h->weights + m;
    return fill_weights(h, set, plan, mb);
}

void sr1__host_free(struct sr1__host *h)
{
    sr1__free(h->now);
    sr1__free(h->seq_begin);
}

sr1_status sr1__host_old(struct sr1__host *h, struct sr1__olds *olds,
                         const struct sr1__microbatch *mb, int first)
{
    if (!olds) {
        memcpy(h->old, mb->old_log_probs, mb->n_targets * sizeof(float));
        return SR1_OK;
    }
    for (size_t s = 0; s < mb->n_seqs; s++) {
        float **kept = &olds->log_probs[mb->sequence[s]];
        size_t at = (size_t)h->seq_begin[s];
        size_t bytes = ((size_t)h->seq_begin[s + 1] - at) * sizeof(float);

        if (first) {
            sr1__free(*kept);
            *kept = sr1__memdup(h->now + at, bytes);
        }
        if (!*kept)
            return sr1__fail_nomem("old log-probs");
        memcpy(h->old + at, *kept, bytes);
    }
    return SR1_OK;
}

sr1_status sr1__host_loss(struct sr1__host *h, const struct sr1__settings *set,
                          const struct sr1__microbatch *mb, const float *reference,
                          sr1_loss_report *report)
{
    sr1_loss_batch b = {.struct_size = sizeof(b),
                        .n = mb->n_targets,
                        .new_log_probs = h->now,
                        .old_log_probs = h->old,
                        .ref_log_probs = reference ? reference : h->old,
                        .advantages = mb->advantages,
                        .weights = h->weights,
                        .rollout_log_probs = mb->old_log_probs,
                        .n_seqs = mb->n_seqs,
                        .seq_begin = h->seq_begin};

    return sr1__loss_run(set->loss, &b, &set->loss_options, h->gradient, NULL, report);
}
