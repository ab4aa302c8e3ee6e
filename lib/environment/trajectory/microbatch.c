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
    int64_t packed;
    int64_t policy;
    int64_t prompt; /* tokens that it may share, 0: none */
    uint64_t group; /* with whom */
};

/* Trajectories that are put into one micro-batch: of one group, which share a prompt, or
 * one alone. */
struct plan_piece {
    size_t first, n; /* items */
    size_t index;    /* the lowest of its trajectories */
    size_t batch;    /* chosen */
    int64_t packed;
    int64_t policy;
};

/* Those that may share a prompt lie together, the longest first; by index where lengths
 * are equal, so the order is total. */
static int group_first(const void *a, const void *b)
{
    const struct plan_item *x = a, *y = b;

    if (x->prompt != y->prompt)
        return x->prompt > y->prompt ? -1 : 1;
    if (x->prompt > 0 && x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->packed != y->packed)
        return x->packed > y->packed ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int longest_piece_first(const void *a, const void *b)
{
    const struct plan_piece *x = a, *y = b;

    if (x->packed != y->packed)
        return x->packed > y->packed ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int share_prompt(const struct plan_item *a, const struct plan_item *b)
{
    return a->prompt > 0 && a->prompt == b->prompt && a->group == b->group;
}

static void begin_piece(struct plan_piece *piece, const struct plan_item *items, size_t i)
{
    *piece = (struct plan_piece){.first = i,
                                 .n = 1,
                                 .index = items[i].index,
                                 .packed = items[i].packed,
                                 .policy = items[i].policy};
}

/* Item i, behind those that the piece has. */
static void join_piece(struct plan_piece *piece, const struct plan_item *items, size_t i)
{
    piece->n++;
    piece->index = items[i].index < piece->index ? items[i].index : piece->index;
    piece->packed += items[i].packed - items[i].prompt;
    piece->policy += items[i].policy;
}

/* A group's trajectories, as many to a piece as the budget has room for; each piece has
 * the prompt once. Returns the number of pieces. */
static size_t make_pieces(struct plan_piece *pieces, struct plan_item *items, size_t n,
                          int64_t budget)
{
    size_t made = 0;

    qsort(items, n, sizeof *items, group_first);
    for (size_t i = 0; i < n; i++) {
        struct plan_piece *last = made > 0 ? &pieces[made - 1] : NULL;

        if (last && share_prompt(&items[last->first], &items[i]) &&
            items[i].packed - items[i].prompt <= budget - last->packed)
            join_piece(last, items, i);
        else
            begin_piece(&pieces[made++], items, i);
    }
    return made;
}

/* Pieces come longest first, so the one over the budget finds no room beside another. */
static void choose_batches(struct sr1__batch_plan *p, struct plan_piece *pieces, size_t n,
                           int64_t budget)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < p->n_batches && pieces[i].packed > budget - p->packed_tokens[k])
            k++;
        if (k == p->n_batches)
            p->n_batches++;
        pieces[i].batch = k;
        p->packed_tokens[k] += pieces[i].packed;
    }
}

static void list_piece(struct sr1__batch_plan *p, const struct plan_item *items,
                       const struct plan_piece *piece, size_t at)
{
    for (size_t i = 0; i < piece->n; i++) {
        p->sequences[at + i] = items[piece->first + i].index;
        p->shares_prompt[at + i] = i > 0;
    }
}

/* Counts to places, then each piece to its place; within a batch, longest first. */
static void list_batches(struct sr1__batch_plan *p, const struct plan_item *items,
                         const struct plan_piece *pieces, size_t n)
{
    size_t *next = p->batch_begin;

    p->n_packed_tokens = 0;
    for (size_t i = 0; i < n; i++) {
        next[pieces[i].batch + 1] += pieces[i].n;
        p->policy_tokens[pieces[i].batch] += pieces[i].policy;
        p->n_packed_tokens += pieces[i].packed;
    }
    for (size_t k = 0; k < p->n_batches; k++)
        next[k + 1] += next[k];
    for (size_t i = 0; i < n; i++) {
        list_piece(p, items, &pieces[i], next[pieces[i].batch]);
        next[pieces[i].batch] += pieces[i].n;
    }
    memmove(next + 1, next, p->n_batches * sizeof *next);
    next[0] = 0;
}

static sr1_status plan_alloc(struct sr1__batch_plan *p)
{
    size_t n = p->n_sequences; /* there are at most as many batches */

    p->batch_begin = sr1__calloc(n + 1, sizeof *p->batch_begin);
    p->sequences = sr1__calloc(n, sizeof *p->sequences);
    p->shares_prompt = sr1__calloc(n, sizeof *p->shares_prompt);
    p->packed_tokens = sr1__calloc(n, sizeof *p->packed_tokens);
    p->policy_tokens = sr1__calloc(n, sizeof *p->policy_tokens);
    if (p->batch_begin && p->sequences && p->shares_prompt && p->packed_tokens &&
        p->policy_tokens)
        return SR1_OK;
    sr1__batch_plan_free(p);
    return sr1__fail_nomem("batch plan");
}

/* The numbers of trajectory i of `all` that a plan needs, and whether it has no gradient.
 */
struct source_ops {
    void (*describe)(const void *all, size_t i, struct plan_item *item);
    int32_t (*zero_advantage)(const void *all, size_t i);
};

static struct plan_item *list_items(struct sr1__batch_plan *p, const void *all,
                                    struct sr1__batch_part part,
                                    const struct source_ops *ops)
{
    struct plan_item *items = sr1__calloc(part.end - part.begin, sizeof *items);

    for (size_t i = part.begin; items && i < part.end; i++) {
        struct plan_item item = {.index = i};

        ops->describe(all, i, &item);
        if (item.policy == 0) {
            p->n_skipped++;
            continue;
        }
        p->all_sequences++;
        p->all_policy_tokens += item.policy;
        if (part.skip_zero_advantage && ops->zero_advantage(all, i))
            continue;
        if (!part.share_prompts)
            item.prompt = 0;
        items[p->n_sequences++] = item;
        p->n_policy_tokens += item.policy;
    }
    return items;
}

/* Groups to pieces, pieces to batches. */
static sr1_status cut_items(struct sr1__batch_plan *p, struct plan_item *items,
                            int64_t budget)
{
    struct plan_piece *pieces = sr1__calloc(p->n_sequences, sizeof *pieces);
    size_t n;

    SR1__CHECK_ALLOC(pieces, "batch plan");
    n = make_pieces(pieces, items, p->n_sequences, budget);
    qsort(pieces, n, sizeof *pieces, longest_piece_first);
    choose_batches(p, pieces, n, budget);
    list_batches(p, items, pieces, n);
    sr1__free(pieces);
    return SR1_OK;
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
    if (status == SR1_OK)
        status = cut_items(&p, items, budget);
    if (status == SR1_OK)
        *out = p;
    else
        sr1__batch_plan_free(&p);
    sr1__free(items);
    return status;
}

static void describe_in_array(const void *all, size_t i, struct plan_item *item)
{
    const sr1_trajectory *t = ((const sr1_trajectory *const *)all)[i];

    item->packed = (int64_t)sr1__trajectory_packed_length(t);
    item->policy = (int64_t)sr1__trajectory_trainable(t);
    item->prompt = (int64_t)sr1_trajectory_prompt_count(t);
    item->group = sr1_trajectory_group_key(t);
}

static int32_t array_zero_advantage(const void *all, size_t i)
{
    return sr1__trajectory_has_zero_advantage(((const sr1_trajectory *const *)all)[i]);
}

static const struct source_ops array_ops = {describe_in_array, array_zero_advantage};

static void describe_in_store(const void *all, size_t i, struct plan_item *item)
{
    size_t packed, policy;

    sr1__trajectory_store_lengths(all, i, &packed, &policy);
    item->packed = (int64_t)packed;
    item->policy = (int64_t)policy;
    item->prompt = (int64_t)sr1__trajectory_store_prompt(all, i);
    item->group = sr1__trajectory_store_group(all, i);
}

static int32_t store_zero_advantage(const void *all, size_t i)
{
    return sr1__trajectory_store_zero_advantage(all, i);
}

static const struct source_ops store_ops = {describe_in_store, store_zero_advantage};

sr1_status sr1__batch_plan_array(struct sr1__batch_plan *out,
                                 const sr1_trajectory *const *t,
                                 struct sr1__batch_part part, int64_t token_budget)
{
    return make_batch_plan(out, t, part, &array_ops, token_budget);
}

static void describe_sampled(const void *all, size_t i, struct plan_item *item)
{
    describe_in_array(all, i, item);
    item->policy =
        (int64_t)sr1_trajectory_policy_count(((const sr1_trajectory *const *)all)[i]);
}

static const struct source_ops sampled_ops = {describe_sampled, array_zero_advantage};

sr1_status sr1__batch_plan_sampled(struct sr1__batch_plan *out,
                                   const sr1_trajectory *const *t,
                                   struct sr1__batch_part part, int64_t token_budget)
{
    return make_batch_plan(out, t, part, &sampled_ops, token_budget);
}

sr1_status sr1__batch_plan_store_part(struct sr1__batch_plan *out,
                                      const struct sr1__trajectory_store *s,
                                      struct sr1__batch_part part, int64_t token_budget)
{
    return make_batch_plan(out, s, part, &store_ops, token_budget);
}

/* ---- as many for each worker ---- */

/* The smallest budget, in sixteenths above an equal share, that gets by with the number
 * wanted. */
static sr1_status make_even_plan(struct sr1__batch_plan *p, const void *all,
                                 struct sr1__batch_part part,
                                 const struct source_ops *ops, size_t workers,
                                 int64_t most)
{
    size_t wanted = (p->n_batches + workers - 1) / workers * workers;
    int64_t share;

    if (workers < 2 || wanted == 0 || p->n_sequences < wanted)
        return SR1_OK;
    share = (p->n_packed_tokens + (int64_t)wanted - 1) / (int64_t)wanted;
    for (int64_t k = 0; k <= 16; k++) {
        int64_t budget = share + share * k / 16;

        sr1__batch_plan_free(p);
        SR1__TRY(make_batch_plan(p, all, part, ops, budget < most ? budget : most));
        if (p->n_batches <= wanted || budget >= most)
            break;
    }
    return SR1_OK;
}

sr1_status sr1__batch_plan_even_array(struct sr1__batch_plan *p,
                                      const sr1_trajectory *const *t,
                                      struct sr1__batch_part part, size_t workers,
                                      int64_t token_budget)
{
    return make_even_plan(p, t, part, &array_ops, workers, token_budget);
}

sr1_status sr1__batch_plan_even_store(struct sr1__batch_plan *p,
                                      const struct sr1__trajectory_store *s,
                                      struct sr1__batch_part part, size_t workers,
                                      int64_t token_budget)
{
    return make_even_plan(p, s, part, &store_ops, workers, token_budget);
}

/* ---- balance ---- */

static int lowest_piece_first(const void *a, const void *b)
{
    const struct plan_piece *x = a, *y = b;

    return x->index < y->index ? -1 : x->index > y->index;
}

/* A plan taken apart again: its trajectories, and its pieces in the order given. */
struct parts {
    struct plan_item *items;
    struct plan_piece *pieces;
    size_t n; /* pieces */
};

static sr1_status take_apart(struct parts *out, const struct sr1__batch_plan *p,
                             const struct sr1__trajectory_store *s)
{
    struct plan_item *items = sr1__calloc(p->n_sequences, sizeof *items);
    struct plan_piece *pieces = sr1__calloc(p->n_sequences, sizeof *pieces);

    *out = (struct parts){items, pieces, 0};
    if (!items || !pieces)
        return sr1__fail_nomem("batch plan");
    for (size_t i = 0; i < p->n_sequences; i++) {
        items[i].index = p->sequences[i];
        describe_in_store(s, items[i].index, &items[i]);
        if (p->shares_prompt[i])
            join_piece(&pieces[out->n - 1], items, i);
        else
            begin_piece(&pieces[out->n++], items, i);
    }
    qsort(pieces, out->n, sizeof *pieces, lowest_piece_first);
    return SR1_OK;
}

static void parts_free(struct parts *p)
{
    sr1__free(p->items);
    sr1__free(p->pieces);
}

static sr1_status share_out(struct parts *all, size_t parts, sr1_balance_report *report)
{
    int64_t *lengths = sr1__calloc(all->n, sizeof *lengths);
    int32_t *part = sr1__calloc(all->n, sizeof *part);
    sr1_status status = lengths && part ? SR1_OK : sr1__fail_nomem("batch plan");

    for (size_t i = 0; status == SR1_OK && i < all->n; i++)
        lengths[i] = all->pieces[i].packed;
    if (status == SR1_OK)
        status = sr1_balance(lengths, all->n, parts, 0, part, report);
    for (size_t i = 0; status == SR1_OK && i < all->n; i++)
        all->pieces[i].batch = (size_t)part[i];
    sr1__free(lengths);
    sr1__free(part);
    return status;
}

/* Parts are as many as there are; one without sequences cannot be a micro-batch. */
static int plan_fits_budget(const struct parts *all, size_t parts, int64_t budget,
                            const sr1_balance_report *r)
{
    int64_t longest = 0;

    for (size_t i = 0; i < all->n; i++)
        longest = all->pieces[i].packed > longest ? all->pieces[i].packed : longest;
    return parts <= all->n && r->balanced_min > 0 &&
           r->balanced_max <= (budget > longest ? budget : longest);
}

/* Pieces of groups may be too few to be balanced; those of one trajectory are as small as
 * they get. An eighth above the mean is what cutting them smaller would cost as well. */
static int is_even_enough(const struct sr1__batch_plan *p, const struct parts *all,
                          const sr1_balance_report *r)
{
    return all->n == p->n_sequences || (double)r->balanced_max <= 1.125 * r->mean;
}

static void take_shares(struct sr1__batch_plan *p, struct parts *all, size_t parts)
{
    size_t n = p->n_sequences;

    qsort(all->pieces, all->n, sizeof *all->pieces, longest_piece_first);
    p->n_batches = parts;
    memset(p->batch_begin, 0, (n + 1) * sizeof *p->batch_begin);
    memset(p->packed_tokens, 0, n * sizeof *p->packed_tokens);
    memset(p->policy_tokens, 0, n * sizeof *p->policy_tokens);
    for (size_t i = 0; i < all->n; i++)
        p->packed_tokens[all->pieces[i].batch] += all->pieces[i].packed;
    list_batches(p, all->items, all->pieces, all->n);
}

sr1_status sr1__batch_plan_balance_store(struct sr1__batch_plan *p,
                                         const struct sr1__trajectory_store *s,
                                         size_t multiple, int64_t budget,
                                         sr1_balance_report *report)
{
    sr1_balance_report r = {.struct_size = sizeof r};
    size_t parts = (p->n_batches + multiple - 1) / multiple * multiple;
    struct parts all;
    sr1_status status;

    if (report)
        *report = r;
    if (parts == 0 || parts > p->n_sequences)
        return SR1_OK;
    status = take_apart(&all, p, s);
    if (status == SR1_OK)
        status = share_out(&all, parts, &r);
    if (status == SR1_OK && plan_fits_budget(&all, parts, budget, &r) &&
        is_even_enough(p, &all, &r)) {
        take_shares(p, &all, parts);
        if (report)
            *report = r;
    }
    parts_free(&all);
    return status == SR1_E_LIMIT ? SR1_OK : status; /* too many of both: as it was */
}

void sr1__batch_plan_free(struct sr1__batch_plan *p)
{
    sr1__free(p->batch_begin);
    sr1__free(p->sequences);
    sr1__free(p->shares_prompt);
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
    m->cu_seqlens = sr1__calloc(2 * m->n_seqs + 1, sizeof *m->cu_seqlens);
    m->owners = sr1__calloc(m->n_tokens, sizeof *m->owners);
    m->continues = sr1__calloc(2 * m->n_seqs, sizeof *m->continues);
    m->sequence = sr1__calloc(m->n_seqs, sizeof *m->sequence);
    m->target_rows = sr1__calloc(m->n_targets, sizeof *m->target_rows);
    m->target_ids = sr1__calloc(m->n_targets, sizeof *m->target_ids);
    m->target_seqs = sr1__calloc(m->n_targets, sizeof *m->target_seqs);
    m->target_turns = sr1__calloc(m->n_targets, sizeof *m->target_turns);
    m->rollout_log_probs = sr1__calloc(m->n_targets, sizeof *m->rollout_log_probs);
    if (whole && m->ids && m->positions && m->cu_seqlens && m->continues && m->owners &&
        m->sequence && m->target_rows && m->target_ids && m->target_seqs &&
        m->target_turns && m->rollout_log_probs)
        return SR1_OK;
    sr1__microbatch_free(m);
    return sr1__fail_nomem("micro-batch");
}

void sr1__microbatch_free(struct sr1__microbatch *m)
{
    sr1__free(m->ids);
    sr1__free(m->positions);
    sr1__free(m->cu_seqlens);
    sr1__free(m->continues);
    sr1__free(m->owners);
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
    const uint8_t *shares_prompt; /* [n_seqs] as planned */
    size_t seq;
    size_t row;
    size_t target;
    size_t prompt;     /* tokens of the last shared prompt; 0: nobody shares */
    size_t prompt_row; /* its first */
    int32_t prompt_at; /* in cu_seqlens */
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

/* Tokens that sequence t adds: all, or those behind the prompt that stands there. */
static size_t count_rows(const struct filling *f, const sr1_trajectory *t)
{
    size_t n = sr1__trajectory_packed_length(t);

    return f->shares_prompt[f->seq] ? n - f->prompt : n;
}

/* Has t the prompt that stands there? */
static int has_prompt(const struct filling *f, const sr1_trajectory *t)
{
    return f->prompt > 0 && sr1_trajectory_prompt_count(t) == f->prompt &&
           sr1__trajectory_packed_length(t) >= f->prompt &&
           memcmp(f->m->ids + f->prompt_row, sr1_trajectory_ids(t),
                  f->prompt * sizeof *f->m->ids) == 0;
}

static sr1_status check_fits(const struct filling *f, const sr1_trajectory *t)
{
    const struct sr1__microbatch *m = f->m;

    if ((f->shares_prompt[f->seq] && !has_prompt(f, t)) ||
        count_rows(f, t) > m->n_tokens - f->row ||
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

/* The row of position p of the sequence whose own tokens were placed last, and end where
 * the filling stands. */
static int32_t row_of(const struct filling *f, size_t n, int32_t p)
{
    if ((size_t)p < f->prompt)
        return (int32_t)f->prompt_row + p;
    return (int32_t)(f->row - n) + p;
}

static void fill_targets(struct filling *f, const sr1_trajectory *t)
{
    size_t n = sr1__trajectory_packed_length(t);
    struct sr1__microbatch *m = f->m;
    const int32_t *ids = sr1_trajectory_ids(t);
    const int32_t *turns = sr1_trajectory_turns(t);
    const int32_t *positions = sr1_trajectory_policy_positions(t);
    const float *log_probs = sr1_trajectory_policy_log_probs(t);

    fill_columns(f, t);
    for (size_t i = 0; i < sr1_trajectory_policy_count(t); i++, f->target++) {
        int32_t p = positions[i];

        m->target_rows[f->target] = row_of(f, n, p - 1);
        m->target_ids[f->target] = ids[p];
        m->target_seqs[f->target] = (int32_t)f->seq;
        m->target_turns[f->target] = turns[p];
        m->rollout_log_probs[f->target] = log_probs[i];
    }
}

/* Tokens [begin, end) of t as rows that continue the shared prompt, or nothing. */
static void fill_rows(struct filling *f, const sr1_trajectory *t, size_t begin,
                      size_t end)
{
    struct sr1__microbatch *m = f->m;

    if (begin == end)
        return;
    memcpy(m->ids + f->row, sr1_trajectory_ids(t) + begin,
           (end - begin) * sizeof *m->ids);
    for (size_t i = begin; i < end; i++, f->row++) {
        m->positions[f->row] = (int32_t)i;
        m->owners[f->row] = i < sr1_trajectory_prompt_count(t)
                                ? sr1_trajectory_group_key(t)
                                : m->sequence[f->seq];
    }
    m->continues[m->n_spans++] = begin > 0 ? f->prompt_at : -1;
    m->cu_seqlens[m->n_spans] = (int32_t)f->row;
}

/* Before a sequence whose prompt the next ones share: the prompt. */
static void fill_prompt(struct filling *f, const sr1_trajectory *t)
{
    f->prompt = sr1_trajectory_prompt_count(t);
    f->prompt_row = f->row;
    f->prompt_at = (int32_t)f->m->n_spans;
    fill_rows(f, t, 0, f->prompt);
}

static sr1_status fill_sequence(struct filling *f, const sr1_trajectory *t)
{
    struct sr1__microbatch *m = f->m;
    size_t n = sr1__trajectory_packed_length(t);

    SR1__TRY(check_fits(f, t));
    if (!f->shares_prompt[f->seq]) {
        f->prompt = 0;
        if (f->seq + 1 < m->n_seqs && f->shares_prompt[f->seq + 1])
            fill_prompt(f, t);
    }
    fill_rows(f, t, f->prompt, n);
    fill_targets(f, t);
    m->max_len = m->max_len > (int32_t)n ? m->max_len : (int32_t)n;
    f->seq++;
    return SR1_OK;
}

/* A new reference to trajectory i of `all`. */
typedef sr1_status (*fetch_fn)(void *all, size_t i, sr1_trajectory **out);

static sr1_status fill_microbatch(struct sr1__microbatch *m, const uint8_t *shares_prompt,
                                  void *all, fetch_fn fetch)
{
    struct filling f = {.m = m, .shares_prompt = shares_prompt};

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
    status = fill_microbatch(&m, p->shares_prompt + p->batch_begin[k], all, fetch);
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
