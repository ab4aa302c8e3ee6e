/* train/memo.c - numbers of policy tokens, by trajectory. */
#include "train/memo.h"

#include "base/mem.h"

#include <string.h>

struct sr1__memo {
    size_t n;
    float *numbers[]; /* [n] of the policy tokens of each trajectory; NULL: not seen */
};

sr1_status sr1__memo_new(struct sr1__memo **out, size_t n_trajectories)
{
    struct sr1__memo *m =
        sr1__calloc(1, sizeof(*m) + (n_trajectories + 1) * sizeof(m->numbers[0]));

    if (!m)
        return sr1__fail_nomem("old log-probs");
    m->n = n_trajectories;
    *out = m;
    return SR1_OK;
}

void sr1__memo_free(struct sr1__memo *m)
{
    for (size_t i = 0; m && i < m->n; i++)
        sr1__free(m->numbers[i]);
    sr1__free(m);
}

/* Targets of sequence s: [*begin, return value). They stand together. */
static size_t targets_of(const struct sr1__microbatch *mb, size_t s, size_t begin)
{
    size_t end = begin;

    while (end < mb->n_targets && (size_t)mb->target_seqs[end] == s)
        end++;
    return end;
}

sr1_status sr1__memo_keep(struct sr1__memo *m, const struct sr1__microbatch *mb,
                          const float *numbers)
{
    for (size_t s = 0, at = 0, end; s < mb->n_seqs; s++, at = end) {
        float **kept = &m->numbers[mb->sequence[s]];

        end = targets_of(mb, s, at);
        sr1__free(*kept);
        *kept = sr1__memdup(numbers + at, (end - at) * sizeof(*numbers));
        if (!*kept)
            return sr1__fail_nomem("old log-probs");
    }
    return SR1_OK;
}

sr1_status sr1__memo_recall(const struct sr1__memo *m, const struct sr1__microbatch *mb,
                            float *numbers)
{
    for (size_t s = 0, at = 0, end; s < mb->n_seqs; s++, at = end) {
        const float *kept = m->numbers[mb->sequence[s]];

        end = targets_of(mb, s, at);
        if (!kept)
            return sr1__fail(SR1_E_INTERNAL, "trajectory %zu has no old log-probs",
                             mb->sequence[s]);
        memcpy(numbers + at, kept, (end - at) * sizeof(*numbers));
    }
    return SR1_OK;
}
