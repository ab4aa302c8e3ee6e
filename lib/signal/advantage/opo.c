/* signal/advantage/opo.c - the reward minus the baseline of least variance. */
#include "signal/advantage/advantage_internal.h"

/* Baseline of the group m[at..end): its mean weighted by lengths, plain if all are 0. */
static double length_weighted_baseline(const struct sr1__advantage_call *a, size_t at,
                                       size_t end)
{
    const int64_t *begin = a->b->token_begin;
    double weighted = 0, total = 0, sum = 0;
    size_t k;

    for (k = at; k < end; k++) {
        size_t i = a->members[k].index;
        double length = (double)(begin[i + 1] - begin[i]);

        weighted += length * a->scores[i];
        total += length;
        sum += a->scores[i];
    }
    return total > 0 ? weighted / total : sum / (double)(end - at);
}

/* A_i = s_i - sum_j l_j s_j / sum_j l_j, l: policy tokens
 * Hao et al. 2025 (OPO). */
static void estimate_opo_group(struct sr1__advantage_call *a, size_t at, size_t end)
{
    double b = length_weighted_baseline(a, at, end),
           first = a->scores[a->members[at].index];
    int differ = 0;
    size_t k;

    for (k = at; k < end; k++)
        differ |= a->scores[a->members[k].index] != first;
    for (k = at; differ && k < end; k++)
        a->each[a->members[k].index] = a->scores[a->members[k].index] - b;
    if (end - at == 1 && a->o->single_raw)
        a->each[a->members[at].index] = first;
}

sr1_status sr1__advantage_opo(struct sr1__advantage_call *a)
{
    size_t at, end;

    for (at = 0; at < a->n; at = end) {
        end = sr1__group_end(a->members, a->n, at);
        estimate_opo_group(a, at, end);
    }
    return SR1_OK;
}
