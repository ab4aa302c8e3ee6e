/* dist/shard.c - see shard.h.
 *
 * Exchanges go in rounds. In round k every rank's numbers from bounds[r] + k PART on, at
 * most PART of them, are under way, so that all ranks send and receive alike. */
#include "dist/shard.h"

#include "base/mem.h"
#include "base/num.h"
#include "tensor/ops/ops.h"

#define PART ((int64_t)1 << 20)

/* ---- who owns what ---- */

/* The bound nearest to number `at`. */
static int64_t find_bound(const struct sr1__shards *s, int64_t at, int64_t chunk)
{
    int64_t below, above;
    size_t i = 0;

    while (i + 1 < s->n && s->starts[i + 1] <= at)
        i++;
    below = s->starts[i] + (at - s->starts[i]) / chunk * chunk;
    above = s->starts[i + 1] - below < chunk ? s->starts[i + 1] : below + chunk;
    return at - below <= above - at ? below : above;
}

sr1_status sr1__shards_new(struct sr1__shards **out, const struct sr1__dist *d,
                           const int64_t *sizes, size_t n, int64_t chunk)
{
    struct sr1__shards *s = sr1__calloc(1, sizeof(*s));
    int64_t all;

    SR1__CHECK_ALLOC(s, "shards");
    s->rank = sr1__dist_rank(d);
    s->ranks = sr1__dist_size(d);
    s->n = n;
    s->starts = sr1__calloc(n + 1, sizeof(*s->starts));
    s->bounds = sr1__calloc((size_t)s->ranks + 1, sizeof(*s->bounds));
    if (!s->starts || !s->bounds) {
        sr1__shards_free(s);
        return sr1__fail_nomem("shards");
    }
    for (size_t i = 0; i < n; i++)
        s->starts[i + 1] = s->starts[i] + sizes[i];
    all = s->starts[n];
    for (int32_t r = 1; r < s->ranks && n > 0; r++)
        s->bounds[r] =
            find_bound(s, all / s->ranks * r + all % s->ranks * r / s->ranks, chunk);
    s->bounds[s->ranks] = all;
    *out = s;
    return SR1_OK;
}

void sr1__shards_free(struct sr1__shards *s)
{
    if (!s)
        return;
    sr1__free(s->starts);
    sr1__free(s->bounds);
    sr1__free(s);
}

int64_t sr1__shards_own(const struct sr1__shards *s, size_t i, int64_t *from)
{
    int64_t begin = sr1__max_i64(s->bounds[s->rank], s->starts[i]);
    int64_t end = sr1__min_i64(s->bounds[s->rank + 1], s->starts[i + 1]);

    *from = begin < end ? begin - s->starts[i] : 0;
    return sr1__max_i64(0, end - begin);
}

/* ---- rounds ---- */

/* Numbers of rank r in round k: n from `begin` on. */
static int64_t find_round(const struct sr1__shards *s, int32_t r, int64_t k,
                          int64_t *begin)
{
    *begin = s->bounds[r] + k * PART;
    return sr1__max_i64(0, sr1__min_i64(PART, s->bounds[r + 1] - *begin));
}

/* The most that a rank has in round k; 0: all are through. */
static int64_t size_round(const struct sr1__shards *s, int64_t k)
{
    int64_t most = 0, begin;

    for (int32_t r = 0; r < s->ranks; r++)
        most = sr1__max_i64(most, find_round(s, r, k, &begin));
    return most;
}

/* Tensors of which the numbers go into a flat one, or come from it. */
struct exchange {
    const struct sr1__shards *s;
    sr1_tensor *const *tensors;
    int own;  /* they are the parts that this rank owns, else whole */
    int back; /* into them */
};

/* Numbers [begin, begin + n), of which tensor i has some, to or from flat[at...]. */
static void copy_tensor(sr1_scope *s, const struct exchange *e, size_t i, int64_t begin,
                        int64_t n, sr1_tensor *flat)
{
    int64_t first = sr1__max_i64(begin, e->s->starts[i]), own = 0;
    int64_t end = sr1__min_i64(begin + n, e->s->starts[i + 1]);
    sr1_tensor *t = e->tensors[i], *part;

    if (first >= end || (!t && e->back))
        return;
    part = t_narrow(s, flat, 0, first - begin, end - first);
    if (!t) {
        t_fill_(s, part, 0.0);
        return;
    }
    if (e->own)
        (void)sr1__shards_own(e->s, i, &own);
    t = t_narrow(s, t_reshape(s, t, T_SHAPE(t_numel(t))), 0,
                 first - e->s->starts[i] - own, end - first);
    if (e->back)
        t_copy_(s, t, part);
    else
        t_copy_(s, part, t);
}

/* The numbers of rank r in round k, to or from flat, from number `at` of it on. */
static void copy_round(sr1_scope *outer, const struct exchange *e, int32_t r, int64_t k,
                       sr1_tensor *flat, int64_t at)
{
    sr1_scope *s = sr1__scope_nest(outer, "rank %d", (int)r);
    int64_t begin, n = find_round(e->s, r, k, &begin);

    sr1__scope_no_grad(s);
    if (n > 0)
        flat = t_narrow(s, flat, 0, at, n);
    for (size_t i = 0; i < e->s->n && n > 0; i++)
        copy_tensor(s, e, i, begin, n, flat);
    (void)sr1__scope_close(s);
}

/* Ranks agreed on st, whose text is to stay as it is. */
static sr1_status close_round(sr1_scope *s, sr1_status st)
{
    struct sr1__error e;

    if (st == SR1_OK)
        return sr1__scope_close(s);
    sr1__error_save(&e, st);
    (void)sr1__scope_close(s);
    return sr1__error_raise(&e);
}

/* ---- sums ---- */

static sr1_status sum_round(struct sr1__dist *d, const struct exchange *from,
                            const struct exchange *to, int64_t k, int64_t part)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "sum of gradients");
    int32_t ranks = from->s->ranks;
    sr1_tensor *flat, *sum;
    sr1_status st;

    sr1__scope_no_grad(s);
    flat = t_full(s, 0.0, SR1__F32, T_SHAPE(ranks * part));
    sum = t_empty(s, SR1__F32, T_SHAPE(part));
    for (int32_t r = 0; r < ranks; r++)
        copy_round(s, from, r, k, flat, r * part);
    st = sr1__dist_reduce_scatter(d, "sum of gradients", sr1__scope_status(s), sum, flat);
    if (st == SR1_OK)
        copy_round(s, to, from->s->rank, k, sum, 0);
    return close_round(s, st);
}

sr1_status sr1__shards_sum(struct sr1__dist *d, const struct sr1__shards *s,
                           sr1_tensor *const *tensors, sr1_tensor *const *sums)
{
    struct exchange from = {.s = s, .tensors = tensors};
    struct exchange to = {.s = s, .tensors = sums, .own = 1, .back = 1};
    int64_t part;

    for (int64_t k = 0; (part = size_round(s, k)) > 0; k++)
        SR1__TRY(sum_round(d, &from, &to, k, part));
    return SR1_OK;
}

/* ---- weights ---- */

static sr1_status gather_round(struct sr1__dist *d, const struct exchange *from,
                               const struct exchange *to, int64_t k, int64_t part,
                               int32_t dtype)
{
    sr1_scope *s = sr1__scope_open(SR1__CPU, "updated weights");
    int32_t ranks = from->s->ranks, self = from->s->rank;
    sr1_tensor *own, *all;
    sr1_status st;

    sr1__scope_no_grad(s);
    own = t_full(s, 0.0, dtype, T_SHAPE(part));
    all = t_empty(s, dtype, T_SHAPE(ranks * part));
    copy_round(s, from, self, k, own, 0);
    st = sr1__dist_all_gather(d, "updated weights", sr1__scope_status(s), all, own);
    for (int32_t r = 0; r < ranks && st == SR1_OK; r++)
        if (r != self)
            copy_round(s, to, r, k, all, r * part);
    return close_round(s, st);
}

sr1_status sr1__shards_gather(struct sr1__dist *d, const struct sr1__shards *s,
                              sr1_tensor *const *tensors, int32_t dtype)
{
    struct exchange from = {.s = s, .tensors = tensors};
    struct exchange to = {.s = s, .tensors = tensors, .back = 1};
    int64_t part;

    for (int64_t k = 0; (part = size_round(s, k)) > 0; k++)
        SR1__TRY(gather_round(d, &from, &to, k, part, dtype));
    return SR1_OK;
}
