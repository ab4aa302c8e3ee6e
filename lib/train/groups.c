/* train/groups.c - policy tokens of each trajectory's group within a mini-batch, for
 * means over groups; groups are distinguished by their keys (sr1_trajectory_group_key).
 */
#include "train/objective.h"

#include "base/mem.h"
#include "environment/trajectory/trajectory.h"
#include "signal/loss/loss.h"

static void describe_member(const struct sr1__trajectory_store *from, size_t i,
                            struct sr1__group_member *m)
{
    size_t packed, policy;

    sr1__trajectory_store_lengths(from, i, &packed, &policy);
    m->key = sr1__trajectory_store_group(from, i);
    m->tokens = (int64_t)policy;
}

sr1_status sr1__group_counts_make(struct sr1__group_counts *g,
                                  const struct sr1__trajectory_store *from, size_t begin,
                                  size_t end)
{
    size_t n = end - begin;
    struct sr1__group_member *members = sr1__calloc(n + 1, sizeof(*members));

    *g = (struct sr1__group_counts){.begin = begin,
                                    .tokens = sr1__calloc(n + 1, sizeof(*g->tokens))};
    if (!members || !g->tokens) {
        sr1__free(members);
        sr1__group_counts_free(g);
        return sr1__fail_nomem("groups of a mini-batch");
    }
    for (size_t i = 0; i < n; i++) {
        describe_member(from, begin + i, &members[i]);
        members[i].at = i;
    }
    g->groups = sr1__group_tokens(members, n, g->tokens);
    sr1__free(members);
    return SR1_OK;
}

void sr1__group_counts_free(struct sr1__group_counts *g)
{
    sr1__free(g->tokens);
    *g = (struct sr1__group_counts){0};
}
