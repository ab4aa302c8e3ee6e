/* train/groups.c - policy tokens of each trajectory's group within a mini-batch, for
 * means over groups; groups are distinguished by their keys (sr1_trajectory_group_key).
 */
#include "train/objective.h"

#include "base/mem.h"
#include "environment/trajectory/trajectory.h"

#include <stdlib.h>

struct member {
    uint64_t key;
    size_t at; /* of the trajectory in the mini-batch */
    int64_t tokens;
};

static int compare_keys(const void *a, const void *b)
{
    const struct member *x = a, *y = b;

    if (x->key != y->key)
        return x->key > y->key ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

static void describe_member(const struct sr1__trajectory_store *from, size_t i,
                            struct member *m)
{
    size_t packed, policy;

    sr1__trajectory_store_lengths(from, i, &packed, &policy);
    m->key = sr1__trajectory_store_group(from, i);
    m->tokens = (int64_t)policy;
}

/* members[n] by key: the sums, back to where they are asked for. */
static void sum_groups(struct sr1__group_counts *g, const struct member *members,
                       size_t n)
{
    for (size_t at = 0, end; at < n; at = end) {
        int64_t tokens = 0;

        for (end = at; end < n && members[end].key == members[at].key; end++)
            tokens += members[end].tokens;
        for (size_t i = at; i < end; i++)
            g->tokens[members[i].at] = tokens;
        g->groups += tokens > 0;
    }
}

sr1_status sr1__group_counts_make(struct sr1__group_counts *g,
                                  const struct sr1__trajectory_store *from, size_t begin,
                                  size_t end)
{
    size_t n = end - begin;
    struct member *members = sr1__calloc(n + 1, sizeof(*members));

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
    qsort(members, n, sizeof(*members), compare_keys);
    sum_groups(g, members, n);
    sr1__free(members);
    return SR1_OK;
}

void sr1__group_counts_free(struct sr1__group_counts *g)
{
    sr1__free(g->tokens);
    *g = (struct sr1__group_counts){0};
}
