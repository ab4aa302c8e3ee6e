/* signal/loss/aggregation.c - each token's share in the mean, for a batch or a part of it
 * that knows the counts of the whole. */
#include "signal/loss/loss.h"

#include "base/mem.h"
#include "base/struct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The inputs of one sequence's share; counts are of the whole batch. */
struct counts {
    double tokens;
    double seqs;
    double groups;
    double length;       /* the constant */
    double seq_tokens;   /* of this sequence */
    double group_tokens; /* of its group */
};

struct sr1__aggregation {
    const char *name;
    double (*share)(const struct counts *c);
    int is_mean;
    int by_group;
};

static double token_mean(const struct counts *c)
{
    return 1.0 / c->tokens;
}

static double token_sum(const struct counts *c)
{
    (void)c;
    return 1.0;
}

static double seq_mean_token_mean(const struct counts *c)
{
    return 1.0 / (c->seqs * c->seq_tokens);
}

static double seq_mean_token_sum(const struct counts *c)
{
    return 1.0 / c->seqs;
}

static double seq_mean_token_sum_norm(const struct counts *c)
{
    return 1.0 / (c->seqs * c->length);
}

static double group_mean_token_mean(const struct counts *c)
{
    return 1.0 / (c->groups * c->group_tokens);
}

static const struct sr1__aggregation aggregations[] = {
    {"token-mean", token_mean, 1, 0},
    {"token-sum", token_sum, 0, 0},
    {"seq-mean-token-mean", seq_mean_token_mean, 1, 0},
    {"seq-mean-token-sum", seq_mean_token_sum, 0, 0},
    {"seq-mean-token-sum-norm", seq_mean_token_sum_norm, 0, 0},
    {"group-mean-token-mean", group_mean_token_mean, 1, 1},
};

#define N_AGGREGATIONS (sizeof(aggregations) / sizeof(aggregations[0]))

const char *sr1_loss_aggregation_name(size_t i)
{
    return i < N_AGGREGATIONS ? aggregations[i].name : NULL;
}

sr1_status sr1__aggregation_find(const char *name, const struct sr1__aggregation **out)
{
    if (!name)
        return sr1__fail(SR1_E_INVALID, "loss weights: the aggregation is NULL");
    for (size_t i = 0; i < N_AGGREGATIONS; i++) {
        if (strcmp(aggregations[i].name, name) == 0) {
            *out = &aggregations[i];
            return SR1_OK;
        }
    }
    return sr1__fail_unknown("aggregation", name, sr1_loss_aggregation_name);
}

int sr1__aggregation_is_mean(const struct sr1__aggregation *a)
{
    return a->is_mean;
}

int sr1__aggregation_by_group(const struct sr1__aggregation *a)
{
    return a->by_group;
}

/* ---- groups ---- */

static int compare_group_keys(const void *a, const void *b)
{
    const struct sr1__group_member *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

int64_t sr1__group_tokens(struct sr1__group_member *list, size_t n, int64_t *out)
{
    int64_t groups = 0;
    size_t end;

    qsort(list, n, sizeof(*list), compare_group_keys);
    for (size_t at = 0; at < n; at = end) {
        int64_t tokens = 0;

        for (end = at; end < n && list[end].key == list[at].key; end++)
            tokens += list[end].tokens;
        for (size_t i = at; i < end; i++)
            out[list[i].at] = tokens;
        groups += tokens > 0;
    }
    return groups;
}

/* out[s]: tokens of the group of sequence s; *groups: those with any. */
static sr1_status count_groups(const sr1_loss_maps *m, int64_t *out, int64_t *groups)
{
    struct sr1__group_member *list;

    SR1__CALLOC(list, m->n_seqs + 1, "groups of sequences");
    for (size_t s = 0; s < m->n_seqs; s++)
        list[s] = (struct sr1__group_member){m->groups[s], s,
                                             m->seq_begin[s + 1] - m->seq_begin[s]};
    *groups = sr1__group_tokens(list, m->n_seqs, out);
    sr1__free(list);
    return SR1_OK;
}

/* Tokens of each sequence's group: the caller's, or counted into *made (freed by the
 * caller). */
static sr1_status group_tokens(const sr1_loss_maps *m, const int64_t **tokens,
                               int64_t **made, struct counts *c)
{
    int64_t groups = m->total_groups;

    *tokens = m->group_tokens;
    if (!m->group_tokens) {
        *made = sr1__calloc(m->n_seqs + 1, sizeof(int64_t));
        if (!*made)
            return sr1__fail_nomem("tokens of groups");
        SR1__TRY(count_groups(m, *made, &groups));
        *tokens = *made;
    }
    c->groups = (double)groups;
    return SR1_OK;
}

/* ---- weights ---- */

static sr1_status check_groups(const sr1_loss_maps *m)
{
    int whole = m->total_tokens == 0 && m->total_seqs == 0 && m->total_groups == 0;

    if (m->n_seqs == 0)
        return SR1_OK;
    if (!m->group_tokens)
        return m->groups && whole
                   ? SR1_OK
                   : sr1__fail(SR1_E_INVALID,
                               "loss weights: a mean over groups needs groups of the "
                               "whole batch, or of a part group_tokens and total_groups");
    if (m->total_groups <= 0)
        return sr1__fail(SR1_E_INVALID, "loss weights: group_tokens needs total_groups");
    for (size_t s = 0; s < m->n_seqs; s++)
        if (m->group_tokens[s] < m->seq_begin[s + 1] - m->seq_begin[s])
            return sr1__fail(SR1_E_INVALID,
                             "loss weights: the group of sequence %zu has fewer tokens "
                             "than the sequence",
                             s);
    return SR1_OK;
}

static int64_t count_seqs(const sr1_loss_maps *m)
{
    int64_t n = 0;

    for (size_t s = 0; s < m->n_seqs; s++)
        n += m->seq_begin[s + 1] > m->seq_begin[s];
    return n;
}

/* A total of 0 is not given. */
static int is_total_enough(int64_t total, int64_t here)
{
    return total == 0 || total >= here;
}

static sr1_status check_loss_maps(const struct sr1__aggregation *a,
                                  const sr1_loss_maps *m)
{
    if (m->n_seqs > 0 && !m->seq_begin)
        return sr1__fail(SR1_E_INVALID, "loss weights: seq_begin is required");
    if (m->n_seqs > 0)
        SR1__TRY(sr1__loss_check_begin(m->seq_begin, m->n_seqs));
    if (!is_total_enough(m->total_tokens, m->n_seqs ? m->seq_begin[m->n_seqs] : 0) ||
        !is_total_enough(m->total_seqs, count_seqs(m)) ||
        !is_total_enough(m->total_groups, 0))
        return sr1__fail(SR1_E_INVALID,
                         "loss weights: a total is below what these maps hold");
    if (a->share == seq_mean_token_sum_norm && !(isfinite(m->length) && m->length > 0.0))
        return sr1__fail(SR1_E_INVALID, "loss weights: %s needs a length above 0",
                         a->name);
    return a->by_group ? check_groups(m) : SR1_OK;
}

/* The totals, counted here where the caller gave none. */
static void count_loss_totals(const sr1_loss_maps *m, struct counts *c)
{
    int64_t tokens = m->n_seqs ? m->seq_begin[m->n_seqs] : 0;

    c->seqs = (double)(m->total_seqs ? m->total_seqs : count_seqs(m));
    c->tokens = (double)(m->total_tokens ? m->total_tokens : tokens);
    c->length = m->length;
}

sr1_status sr1__aggregation_weights(const struct sr1__aggregation *a,
                                    const sr1_loss_maps *m, float *weights)
{
    struct counts c = {0};
    const int64_t *tokens = NULL;
    int64_t *made = NULL;
    sr1_status st = SR1_OK;

    SR1__TRY(check_loss_maps(a, m));
    count_loss_totals(m, &c);
    if (a->by_group)
        st = group_tokens(m, &tokens, &made, &c);
    for (size_t s = 0; s < m->n_seqs && st == SR1_OK; s++) {
        float w;

        c.seq_tokens = (double)(m->seq_begin[s + 1] - m->seq_begin[s]);
        c.group_tokens = tokens ? (double)tokens[s] : 0.0;
        w = (float)a->share(&c);
        for (int64_t i = m->seq_begin[s]; i < m->seq_begin[s + 1]; i++)
            weights[i] = w;
    }
    sr1__free(made);
    return st;
}

sr1_status sr1_loss_weights(const char *aggregation, const sr1_loss_maps *maps,
                            float *weights)
{
    const struct sr1__aggregation *a = NULL;
    sr1_loss_maps m = {0};

    SR1__TRY(sr1__aggregation_find(aggregation, &a));
    if (!maps)
        return sr1__fail(SR1_E_INVALID, "loss weights: maps are required");
    SR1__TRY(sr1__struct_take(&m, sizeof(m), maps,
                              SR1__STRUCT_END(sr1_loss_maps, seq_begin), "loss maps"));
    if (m.n_seqs > 0 && !weights)
        return sr1__fail(SR1_E_INVALID, "loss weights: weights is NULL");
    return sr1__aggregation_weights(a, &m, weights);
}
