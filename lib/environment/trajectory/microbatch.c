/* environment/trajectory/microbatch.c - first-fit decreasing over packed lengths, then
 * the arrays of one micro-batch at a time, so that only its trajectories need be in
 * memory. */
#include "environment/trajectory/microbatch.h"

#include "base/mem.h"
#include "environment/trajectory/trajectory.h"

#include <stdlib.h>
#include <string.h>

/* ---- the plan ---- */

struct plan_item {
    size_t index; /* of the trajectory */
    size_t batch; /* chosen */
    int64_t packed;
    int64_t policy;
};

/* Longest first; by index where lengths are equal, so the order is total. */
static int longer_first(const void *a, const void *b)
{
    const struct plan_item *x = a, *y = b;

    if (x->packed != y->packed)
        return x->packed > y->packed ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Items come longest first, so the one over the budget finds no room beside another. */
static void choose_batches(struct sr1__batch_plan *p, struct plan_item *items,
                           int64_t budget)
{
    for (size_t i = 0; i < p->n_sequences; i++) {
        size_t k = 0;

        while (k < p->n_batches && items[i].packed > budget - p->packed_tokens[k])
            k++;
        if (k == p->n_batches)
            p->n_batches++;
        items[i].batch = k;
        p->packed_tokens[k] += items[i].packed;
        p->policy_tokens[k] += items[i].policy;
        p->batch_begin[k + 1]++;
    }
}

/* Counts to places, then each item to its place; within a batch, longest first. */
static void list_batches(struct sr1__batch_plan *p, const struct plan_item *items)
{
    size_t *next = p->batch_begin;

    for (size_t k = 0; k < p->n_batches; k++)
        next[k + 1] += next[k];
    for (size_t i = 0; i < p->n_sequences; i++)
        p->sequences[next[items[i].batch]++] = items[i].index;
    memmove(next + 1, next, p->n_batches * sizeof *next);
    next[0] = 0;
}

static sr1_status plan_alloc(struct sr1__batch_plan *p)
{
    size_t n = p->n_sequences; /* there are at most as many batches */

    p->batch_begin = sr1__calloc(n + 1, sizeof *p->batch_begin);
    p->sequences = sr1__calloc(n, sizeof *p->sequences);
    p->packed_tokens = sr1__calloc(n, sizeof *p->packed_tokens);
    p->policy_tokens = sr1__calloc(n, sizeof *p->policy_tokens);
    if (p->batch_begin && p->sequences && p->packed_tokens && p->policy_tokens)
        return SR1_OK;
    sr1__batch_plan_free(p);
    return sr1__fail_nomem("batch plan");
}

/* The numbers of trajectory i of `all` that a plan needs: its packed length and policy
 * tokens; whether it has no gradient. */
struct source_ops {
    void (*lengths)(const void *all, size_t i, size_t *packed, size_t *policy);
    int32_t (*zero_advantage)(const void *all, size_t i);
};

static struct plan_item *list_items(struct sr1__batch_plan *p, const void *all,
                                    struct sr1__batch_part part,
                                    const struct source_ops *ops)
{
    struct plan_item *items = sr1__calloc(part.end - part.begin, sizeof *items);
    size_t packed, policy;

    for (size_t i = part.begin; items && i < part.end; i++) {
        ops->lengths(all, i, &packed, &policy);
        if (policy == 0) {
            p->n_skipped++;
            continue;
        }
        p->all_sequences++;
        p->all_policy_tokens += (int64_t)policy;
        if (part.skip_zero_advantage && ops->zero_advantage(all, i))
            continue;
        items[p->n_sequences].index = i;
        items[p->n_sequences].packed = (int64_t)packed;
        items[p->n_sequences++].policy = (int64_t)policy;
        p->n_packed_tokens += (int64_t)packed;
        p->n_policy_tokens += (int64_t)policy;
    }
    return items;
}

static sr1_status make_batch_plan(struct sr1__batch_plan *out, const void *all,
                                  struct sr1__batch_part part,
                                  const struct source_ops *ops, int64_t budget)
{
    struct sr1__batch_plan p = {0};
    struct plan_item *items;
    sr1_status status;

    if (budget <= 0 || budget > INT32_MAX)
        return sr1__fail(SR1_E_INVALID, "token budget %lld: is not in 1..%d",
                         (long long)budget, INT32_MAX);
    items = list_items(&p, all, part, ops);
    SR1__CHECK_ALLOC(items, "batch plan");
    status = plan_alloc(&p);
    if (status == SR1_OK) {
        qsort(items, p.n_sequences, sizeof *items, longer_first);
        choose_batches(&p, items, budget);
        list_batches(&p, items);
        *out = p;
    }
    sr1__free(items);
    return status;
}

static void array_lengths(const void *all, size_t i, size_t *packed, size_t *policy)
{
    const sr1_trajectory *t = ((const sr1_trajectory *const *)all)[i];

    *packed = sr1__trajectory_packed_length(t);
    *policy = sr1__trajectory_trainable(t);
}

static int32_t array_zero_advantage(const void *all, size_t i)
{
    return sr1__trajectory_has_zero_advantage(((const sr1_trajectory *const *)all)[i]);
}

static const struct source_ops array_ops = {array_lengths, array_zero_advantage};

static void store_lengths(const void *all, size_t i, size_t *packed, size_t *policy)
{
    sr1__trajectory_store_lengths(all, i, packed, policy);
}

static int32_t store_zero_advantage(const void *all, size_t i)
{
    return sr1__trajectory_store_zero_advantage(all, i);
}

static const struct source_ops store_ops = {store_lengths, store_zero_advantage};

sr1_status sr1__batch_plan_array(struct sr1__batch_plan *out,
                                 const sr1_trajectory *const *t, size_t n,
                                 int64_t token_budget)
{
    return make_batch_plan(out, t, (struct sr1__batch_part){.end = n}, &array_ops,
                           token_budget);
}

static void sampled_lengths(const void *all, size_t i, size_t *packed, size_t *policy)
{
    const sr1_trajectory *t = ((const sr1_trajectory *const *)all)[i];

    *packed = sr1__trajectory_packed_length(t);
    *policy = sr1_trajectory_policy_count(t);
}

static const struct source_ops sampled_ops = {sampled_lengths, array_zero_advantage};

sr1_status sr1__batch_plan_sampled(struct sr1__batch_plan *out,
                                   const sr1_trajectory *const *t, size_t n,
                                   int64_t token_budget)
{
    return make_batch_plan(out, t, (struct sr1__batch_part){.end = n}, &sampled_ops,
                           token_budget);
}

sr1_status sr1__batch_plan_store_part(struct sr1__batch_plan *out,
                                      const struct sr1__trajectory_store *s,
                                      struct sr1__batch_part part, int64_t token_budget)
{
    return make_batch_plan(out, s, part, &store_ops, token_budget);
}

/* ---- balance ---- */

static int by_index(const void *a, const void *b)
{
    const struct plan_item *x = a, *y = b;

    return x->index < y->index ? -1 : x->index > y->index;
}

/* The sequences of a plan with their lengths, in the order given. */
static struct plan_item *items_of(const struct sr1__batch_plan *p,
                                  const struct sr1__trajectory_store *s)
{
    struct plan_item *items = sr1__calloc(p->n_sequences, sizeof *items);
    size_t packed, policy;

    for (size_t i = 0; items && i < p->n_sequences; i++) {
        items[i].index = p->sequences[i];
        sr1__trajectory_store_lengths(s, items[i].index, &packed, &policy);
        items[i].packed = (int64_t)packed;
        items[i].policy = (int64_t)policy;
    }
    if (items)
        qsort(items, p->n_sequences, sizeof *items, by_index);
    return items;
}

static sr1_status share_out(struct plan_item *items, size_t n, size_t parts,
                            sr1_balance_report *report)
{
    int64_t *lengths = sr1__calloc(n, sizeof *lengths);
    int32_t *part = sr1__calloc(n, sizeof *part);
    sr1_status status = lengths && part ? SR1_OK : sr1__fail_nomem("batch plan");

    for (size_t i = 0; status == SR1_OK && i < n; i++)
        lengths[i] = items[i].packed;
    if (status == SR1_OK)
        status = sr1_balance(lengths, n, parts, 0, part, report);
    for (size_t i = 0; status == SR1_OK && i < n; i++)
        items[i].batch = (size_t)part[i];
    sr1__free(lengths);
    sr1__free(part);
    return status;
}

/* Parts are as many as there are; one without sequences cannot be a micro-batch. */
static int plan_fits_budget(const struct plan_item *items, size_t n, size_t parts,
                            int64_t budget, const sr1_balance_report *r)
{
    int64_t longest = 0;

    for (size_t i = 0; i < n; i++)
        longest = items[i].packed > longest ? items[i].packed : longest;
    return parts <= n && r->balanced_min > 0 &&
           r->balanced_max <= (budget > longest ? budget : longest);
}

static void take_shares(struct sr1__batch_plan *p, struct plan_item *items, size_t parts)
{
    size_t n = p->n_sequences;

    qsort(items, n, sizeof *items, longer_first);
    p->n_batches = parts;
    memset(p->batch_begin, 0, (n + 1) * sizeof *p->batch_begin);
    memset(p->packed_tokens, 0, n * sizeof *p->packed_tokens);
    memset(p->policy_tokens, 0, n * sizeof *p->policy_tokens);
    for (size_t i = 0; i < n; i++) {
        p->packed_tokens[items[i].batch] += items[i].packed;
        p->policy_tokens[items[i].batch] += items[i].policy;
        p->batch_begin[items[i].batch + 1]++;
    }
    list_batches(p, items);
}

sr1_status sr1__batch_plan_balance_store(struct sr1__batch_plan *p,
                                         const struct sr1__trajectory_store *s,
                                         size_t multiple, int64_t budget,
                                         sr1_balance_report *report)
{
    sr1_balance_report r = {.struct_size = sizeof r};
    size_t parts = (p->n_batches + multiple - 1) / multiple * multiple;
    struct plan_item *items;
    sr1_status status;

    if (report)
        *report = r;
    if (parts == 0 || parts > p->n_sequences)
        return SR1_OK;
    items = items_of(p, s);
    status = items ? share_out(items, p->n_sequences, parts, &r)
                   : sr1__fail_nomem("batch plan");
    if (status == SR1_OK && plan_fits_budget(items, p->n_sequences, parts, budget, &r)) {
        take_shares(p, items, parts);
        if (report)
            *report = r;
    }
    sr1__free(items);
    return status == SR1_E_LIMIT ? SR1_OK : status; /* too many of both: as it was */
}

void sr1__batch_plan_free(struct sr1__batch_plan *p)
{
    sr1__free(p->batch_begin);
    sr1__free(p->sequences);
    sr1__free(p->packed_tokens);
    sr1__free(p->policy_tokens);
    memset(p, 0, sizeof *p);
}

/* ---- one micro-batch ---- */

static sr1_status microbatch_alloc(struct sr1__microbatch *m, uint32_t columns)
{
    int whole = 1;

    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++) {
        if (!(columns >> c & 1))
            continue;
        m->columns[c] = sr1__calloc(m->n_targets, sizeof *m->columns[c]);
        whole = whole && m->columns[c];
    }
    m->ids = sr1__calloc(m->n_tokens, sizeof *m->ids);
    m->positions = sr1__calloc(m->n_tokens, sizeof *m->positions);
    m->cu_seqlens = sr1__calloc(m->n_seqs + 1, sizeof *m->cu_seqlens);
    m->sequence = sr1__calloc(m->n_seqs, sizeof *m->sequence);
    m->target_rows = sr1__calloc(m->n_targets, sizeof *m->target_rows);
    m->target_ids = sr1__calloc(m->n_targets, sizeof *m->target_ids);
    m->target_seqs = sr1__calloc(m->n_targets, sizeof *m->target_seqs);
    m->target_turns = sr1__calloc(m->n_targets, sizeof *m->target_turns);
    m->rollout_log_probs = sr1__calloc(m->n_targets, sizeof *m->rollout_log_probs);
    if (whole && m->ids && m->positions && m->cu_seqlens && m->sequence &&
        m->target_rows && m->target_ids && m->target_seqs && m->target_turns &&
        m->rollout_log_probs)
        return SR1_OK;
    sr1__microbatch_free(m);
    return sr1__fail_nomem("micro-batch");
}

void sr1__microbatch_free(struct sr1__microbatch *m)
{
    sr1__free(m->ids);
    sr1__free(m->positions);
    sr1__free(m->cu_seqlens);
    sr1__free(m->sequence);
    sr1__free(m->target_rows);
    sr1__free(m->target_ids);
    sr1__free(m->target_seqs);
    sr1__free(m->target_turns);
    sr1__free(m->rollout_log_probs);
    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
        sr1__free(m->columns[c]);
    memset(m, 0, sizeof *m);
}

/* How far a micro-batch is filled. */
struct filling {
    struct sr1__microbatch *m;
    size_t seq;
    size_t row;
    size_t target;
};

/* The trajectory's own column, or its one advantage as good as a column. */
static int has_column(const sr1_trajectory *t, int32_t c)
{
    return sr1_trajectory_column(t, c) ||
           (c == SR1_COLUMN_ADVANTAGE && sr1_trajectory_has_advantage(t));
}

static sr1_status check_columns(const struct filling *f, const sr1_trajectory *t)
{
    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++)
        if (f->m->columns[c] && !has_column(t, c))
            return sr1__fail(
                SR1_E_STATE, "trajectory %zu (query '%s', sample %d): has no %s yet",
                f->m->sequence[f->seq], sr1_trajectory_query_id(t),
                (int)sr1_trajectory_sample(t),
                c == SR1_COLUMN_ADVANTAGE ? "advantage" : sr1_column_name(c));
    return SR1_OK;
}

static sr1_status check_fits(const struct filling *f, const sr1_trajectory *t)
{
    const struct sr1__microbatch *m = f->m;

    if (sr1__trajectory_packed_length(t) > m->n_tokens - f->row ||
        sr1_trajectory_policy_count(t) > m->n_targets - f->target)
        return sr1__fail(SR1_E_INVALID, "trajectory %zu: is not the one that was planned",
                         m->sequence[f->seq]);
    return check_columns(f, t);
}

static void fill_columns(const struct filling *f, const sr1_trajectory *t)
{
    size_t n = sr1_trajectory_policy_count(t);

    for (int32_t c = 0; c < SR1_COLUMN_COUNT; c++) {
        const float *from = sr1_trajectory_column(t, c);
        float *to = f->m->columns[c];

        for (size_t i = 0; to && i < n; i++)
            to[f->target + i] = from ? from[i] : (float)sr1_trajectory_advantage(t);
    }
}

static void fill_targets(struct filling *f, const sr1_trajectory *t)
{
    struct sr1__microbatch *m = f->m;
    const int32_t *ids = sr1_trajectory_ids(t);
    const int32_t *turns = sr1_trajectory_turns(t);
    const int32_t *positions = sr1_trajectory_policy_positions(t);
    const float *log_probs = sr1_trajectory_policy_log_probs(t);

    fill_columns(f, t);
    for (size_t i = 0; i < sr1_trajectory_policy_count(t); i++, f->target++) {
        int32_t p = positions[i];

        m->target_rows[f->target] = (int32_t)f->row + p - 1;
        m->target_ids[f->target] = ids[p];
        m->target_seqs[f->target] = (int32_t)f->seq;
        m->target_turns[f->target] = turns[p];
        m->rollout_log_probs[f->target] = log_probs[i];
    }
}

static sr1_status fill_sequence(struct filling *f, const sr1_trajectory *t)
{
    struct sr1__microbatch *m = f->m;
    size_t n = sr1__trajectory_packed_length(t);

    SR1__TRY(check_fits(f, t));
    memcpy(m->ids + f->row, sr1_trajectory_ids(t), n * sizeof *m->ids);
    for (size_t i = 0; i < n; i++)
        m->positions[f->row + i] = (int32_t)i;
    fill_targets(f, t);
    m->max_len = m->max_len > (int32_t)n ? m->max_len : (int32_t)n;
    f->row += n;
    f->seq++;
    m->cu_seqlens[f->seq] = (int32_t)f->row;
    return SR1_OK;
}

/* A new reference to trajectory i of `all`. */
typedef sr1_status (*fetch_fn)(void *all, size_t i, sr1_trajectory **out);

static sr1_status fill_microbatch(struct sr1__microbatch *m, void *all, fetch_fn fetch)
{
    struct filling f = {.m = m};

    for (size_t i = 0; i < m->n_seqs; i++) {
        sr1_trajectory *t = NULL;
        sr1_status status;

        SR1__TRY(fetch(all, m->sequence[i], &t));
        status = fill_sequence(&f, t);
        sr1_trajectory_free(t);
        SR1__TRY(status);
    }
    if (f.row != m->n_tokens || f.target != m->n_targets)
        return sr1__fail(SR1_E_INVALID,
                         "micro-batch: its trajectories changed since they "
                         "were planned");
    return SR1_OK;
}

static sr1_status make_microbatch(struct sr1__microbatch *out,
                                  const struct sr1__batch_plan *p, size_t k, void *all,
                                  fetch_fn fetch, uint32_t columns)
{
    struct sr1__microbatch m = {0};
    sr1_status status;

    if (k >= p->n_batches)
        return sr1__fail(SR1_E_INVALID, "micro-batch %zu: out of range, there are %zu", k,
                         p->n_batches);
    m.n_seqs = p->batch_begin[k + 1] - p->batch_begin[k];
    m.n_tokens = (size_t)p->packed_tokens[k];
    m.n_targets = (size_t)p->policy_tokens[k];
    SR1__TRY(microbatch_alloc(&m, columns));
    memcpy(m.sequence, p->sequences + p->batch_begin[k], m.n_seqs * sizeof *m.sequence);
    status = fill_microbatch(&m, all, fetch);
    if (status == SR1_OK)
        *out = m;
    else
        sr1__microbatch_free(&m);
    return status;
}

static sr1_status fetch_array(void *all, size_t i, sr1_trajectory **out)
{
    *out = sr1_trajectory_retain(((sr1_trajectory *const *)all)[i]);
    return SR1_OK;
}

static sr1_status fetch_store(void *all, size_t i, sr1_trajectory **out)
{
    return sr1__trajectory_store_get(all, i, out);
}

sr1_status sr1__microbatch_array(struct sr1__microbatch *out,
                                 const struct sr1__batch_plan *p, size_t k,
                                 const sr1_trajectory *const *t, uint32_t columns)
{
    return make_microbatch(out, p, k, (void *)t, fetch_array, columns);
}

sr1_status sr1__microbatch_store(struct sr1__microbatch *out,
                                 const struct sr1__batch_plan *p, size_t k,
                                 struct sr1__trajectory_store *s, uint32_t columns)
{
    return make_microbatch(out, p, k, s, fetch_store, columns);
}
