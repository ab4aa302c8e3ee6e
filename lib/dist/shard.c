/* dist/shard.c - see shard.h.
 *
 * Exchanges go in rounds. In round k every rank's numbers from the beginning of its part
 * or piece + k SR1__SHARD_ROUND on, at most so many of them, are under way, so that all
 * ranks send and receive alike. */
#include "dist/shard.h"

#include "base/mem.h"
#include "base/num.h"
#include "tensor/ops/ops.h"

/* ---- who owns what ---- */

static const int64_t *bounds_of(const struct sr1__shards *s, size_t u)
{
    return s->bounds + u * ((size_t)s->ranks + 1);
}

/* The bound of unit u nearest to number `at`. */
static int64_t find_bound(const struct sr1__shards *s, size_t u, int64_t at,
                          int64_t chunk)
{
    int64_t below, above;
    size_t i = sr1__shards_first(s, u);

    while (i + 1 < s->ends[u] && s->starts[i + 1] <= at)
        i++;
    below = s->starts[i] + (at - s->starts[i]) / chunk * chunk;
    above = s->starts[i + 1] - below < chunk ? s->starts[i + 1] : below + chunk;
    return at - below <= above - at ? below : above;
}

/* Part `of` of n equal ones of all. */
static int64_t share_of(int64_t all, int32_t of, int32_t n)
{
    return all / n * of + all % n * of / n;
}

/* What rounding gave to the ranks before r in one unit is taken back in the next. */
static void choose_bounds(struct sr1__shards *s, int64_t chunk)
{
    for (size_t u = 0; u < s->n_units; u++) {
        int64_t begin = s->starts[sr1__shards_first(s, u)], end = s->starts[s->ends[u]];
        int64_t *b = s->bounds + u * ((size_t)s->ranks + 1);

        b[0] = begin;
        b[s->ranks] = end;
        for (int32_t r = 1; r < s->ranks; r++) {
            int64_t wanted = share_of(end, r, s->ranks); /* of this unit and before */

            for (size_t v = 0; v < u; v++)
                wanted -= bounds_of(s, v)[r] - bounds_of(s, v)[0];
            wanted = sr1__max_i64(b[r - 1], sr1__min_i64(end, begin + wanted));
            b[r] = begin < end ? sr1__max_i64(b[r - 1], find_bound(s, u, wanted, chunk))
                               : begin;
        }
    }
}

static sr1_status copy_layout(struct sr1__shards *s, const struct sr1__shard_layout *l)
{
    s->n = l->n;
    s->n_units = l->ends ? l->n_units : 1;
    s->starts = sr1__calloc(l->n + 1, sizeof(*s->starts));
    s->ends = sr1__calloc(s->n_units + 1, sizeof(*s->ends));
    s->bounds =
        sr1__calloc((s->n_units + 1) * ((size_t)s->ranks + 1), sizeof(*s->bounds));
    if (!s->starts || !s->ends || !s->bounds)
        return sr1__fail_nomem("shards");
    for (size_t u = 0; u < s->n_units; u++)
        s->ends[u] = l->ends ? l->ends[u] : l->n;
    for (size_t i = 0; i < l->n; i++)
        s->starts[i + 1] = s->starts[i] + l->sizes[i];
    choose_bounds(s, l->chunk);
    return SR1_OK;
}

sr1_status sr1__shards_new(struct sr1__shards **out, const struct sr1__mesh *m,
                           const struct sr1__shard_layout *l)
{
    struct sr1__shards *s = sr1__calloc(1, sizeof(*s));

    SR1__CHECK_ALLOC(s, "shards");
    s->rank = sr1__dist_rank(m->group);
    s->ranks = sr1__dist_size(m->group);
    s->group = sr1__dist_rank(m->owners);
    s->groups = sr1__dist_size(m->owners);
    SR1__RETURN_NEW(out, s, copy_layout(s, l), sr1__shards_free);
}

void sr1__shards_free(struct sr1__shards *s)
{
    if (!s)
        return;
    sr1__free(s->starts);
    sr1__free(s->ends);
    sr1__free(s->bounds);
    sr1__free(s);
}

int64_t sr1__shards_of(const struct sr1__shards *s, int32_t rank, size_t i, int64_t *from)
{
    const int64_t *b;
    int64_t begin, end;
    size_t u = 0;

    while (i >= s->ends[u])
        u++;
    b = bounds_of(s, u);
    begin = sr1__max_i64(b[rank], s->starts[i]);
    end = sr1__min_i64(b[rank + 1], s->starts[i + 1]);
    *from = begin < end ? begin - s->starts[i] : 0;
    return sr1__max_i64(0, end - begin);
}

int64_t sr1__shards_own(const struct sr1__shards *s, size_t i, int64_t *from)
{
    return sr1__shards_of(s, s->rank, i, from);
}

int64_t sr1__shards_part(const struct sr1__shards *s, size_t u)
{
    const int64_t *b = bounds_of(s, u);

    return b[s->rank + 1] - b[s->rank];
}

/* ---- ranges of numbers ---- */

struct number_range {
    int64_t begin, end;
};

/* The part of a rank of the group, or with all groups the piece of one of the world. */
static struct number_range find_range(const struct sr1__shards *s, size_t u, int32_t rank,
                                      int pieces)
{
    const int64_t *b = bounds_of(s, u) + rank % s->ranks;
    int32_t group = rank / s->ranks;

    if (!pieces)
        return (struct number_range){b[0], b[1]};
    return (struct number_range){b[0] + share_of(b[1] - b[0], group, s->groups),
                                 b[0] + share_of(b[1] - b[0], group + 1, s->groups)};
}

int64_t sr1__shards_piece(const struct sr1__shards *s, size_t u)
{
    struct number_range r = find_range(s, u, s->group * s->ranks + s->rank, 1);

    return r.end - r.begin;
}

/* Of a range, what is under way in round k of so many numbers. */
static struct number_range find_round(struct number_range r, int64_t k, int64_t round)
{
    int64_t begin = sr1__min_i64(r.begin + k * round, r.end);

    return (struct number_range){begin, sr1__min_i64(begin + round, r.end)};
}

struct direction;

/* An exchange of unit u among ranks that have a range each. */
struct exchange {
    const struct direction *how;
    struct sr1__dist *d;
    const struct sr1__shards *s;
    sr1_tensor *const *tensors;
    size_t u;
    int32_t ranks;
    int pieces;
    int64_t round;     /* numbers of a rank that travel at once */
    int32_t sent, got; /* so many times as many are in a rank's messages */
    int32_t dtype;
    sr1_status st;        /* with which this rank comes */
    sr1_tensor *part;     /* from the owners: this one's, or NULL */
    sr1__scattered_fn fn; /* to the owners */
    void *user;
};

static struct number_range range_in_round(const struct exchange *e, int32_t rank,
                                          int64_t k)
{
    return find_round(find_range(e->s, e->u, rank, e->pieces), k, e->round);
}

/* The most that a rank has in round k; 0: all are through. */
static int64_t size_round(const struct exchange *e, int64_t k)
{
    int64_t most = 0;

    for (int32_t r = 0; r < e->ranks; r++) {
        struct number_range n = range_in_round(e, r, k);

        most = sr1__max_i64(most, n.end - n.begin);
    }
    return most;
}

/* The most that a rank has in all. */
static int64_t largest_range(const struct exchange *e)
{
    int64_t most = 0;

    for (int32_t r = 0; r < e->ranks; r++) {
        struct number_range n = find_range(e->s, e->u, r, e->pieces);

        most = sr1__max_i64(most, n.end - n.begin);
    }
    return most;
}

/* Those of the numbers that tensor i has, to flat, which has them all, or from it; zeros
 * to it where there is no tensor. */
static void copy_tensor(sr1_scope *s, const struct exchange *e, size_t i,
                        struct number_range r, sr1_tensor *flat, int back)
{
    int64_t first = sr1__max_i64(r.begin, e->s->starts[i]);
    int64_t end = sr1__min_i64(r.end, e->s->starts[i + 1]);
    sr1_tensor *t = e->tensors[i], *part;

    if (first >= end || (!t && back))
        return;
    part = t_narrow(s, flat, 0, first - r.begin, end - first);
    if (!t) {
        t_fill_(s, part, 0.0);
        return;
    }
    t = t_narrow(s, t_reshape(s, t, T_SHAPE(t_numel(t))), 0, first - e->s->starts[i],
                 end - first);
    if (back)
        t_copy_(s, t, part);
    else
        t_copy_(s, part, t);
}

/* Zeros into what flat has beyond its first n numbers. */
static void fill_up(sr1_scope *s, sr1_tensor *flat, int64_t n)
{
    if (flat && t_numel(flat) > n)
        t_fill_(s, t_narrow(s, flat, 0, n, t_numel(flat) - n), 0.0);
}

/* A range to flat, which is filled up, or from it. */
static void copy_range(sr1_scope *outer, const struct exchange *e, struct number_range r,
                       sr1_tensor *flat, int back)
{
    sr1_scope *s = sr1__scope_nest(outer, "unit %zu", e->u);

    sr1__scope_no_grad(s);
    for (size_t i = sr1__shards_first(e->s, e->u);
         i < e->s->ends[e->u] && r.begin < r.end; i++)
        copy_tensor(s, e, i, r, flat, back);
    if (!back)
        fill_up(s, flat, r.end - r.begin);
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

void sr1__exchange_room_free(struct sr1__exchange_room *r)
{
    sr1__tensor_free(r->sent);
    sr1__tensor_free(r->got);
    *r = (struct sr1__exchange_room){NULL, NULL};
}

/* n numbers of it. */
static sr1_tensor *take_room(sr1_scope *s, sr1_tensor **kept, int32_t dtype, int64_t n)
{
    if (*kept && (t_dtype(*kept) != dtype || t_numel(*kept) < n)) {
        sr1__tensor_free(*kept);
        *kept = NULL;
    }
    if (!*kept)
        *kept = t_hold(s, t_empty(s, dtype, T_SHAPE(n)));
    return *kept ? t_narrow(s, *kept, 0, 0, n) : NULL;
}

/* A round on its way: what part of it each rank has. */
struct exchange_round {
    int64_t k, part;
    struct sr1__exchange_room *room;
    struct sr1__work *work;
};

/* What differs between exchanges to the owners and from them. */
struct direction {
    const char *place, *under_way;
    /* This rank's tensors to what it sends, and what came to where it belongs. */
    void (*pack)(sr1_scope *s, const struct exchange *e, const struct exchange_round *r,
                 sr1_tensor *sent);
    void (*unpack)(sr1_scope *s, const struct exchange *e,
                   const struct exchange_round *r);
    sr1_status (*begin)(struct sr1__work **out, struct sr1__dist *d, const char *place,
                        sr1_status st, sr1_tensor *got, sr1_tensor *sent);
};

static sr1_status begin_round(struct exchange_round *r, const struct exchange *e)
{
    sr1_scope *s = sr1__scope_open(sr1__dist_device(e->d), "%s", e->how->place);
    sr1_tensor *sent, *got;
    sr1_status st = e->st;

    sr1__scope_no_grad(s);
    sent = take_room(s, &r->room->sent, e->dtype, e->sent * r->part);
    got = take_room(s, &r->room->got, e->dtype, e->got * r->part);
    if (st == SR1_OK) {
        e->how->pack(s, e, r, sent);
        st = sr1__scope_status(s);
    }
    st = e->how->begin(&r->work, e->d, e->how->place, st, got, sent);
    return close_round(s, st);
}

/* Of one that began well; st is the status with which this rank comes to its end: where
 * it is a failure, what came is for nobody. */
static sr1_status end_round(struct exchange_round *r, const struct exchange *e,
                            sr1_status st)
{
    sr1_scope *s = sr1__scope_open(sr1__dist_device(e->d), "%s", e->how->place);
    struct sr1__error failed;

    sr1__scope_no_grad(s);
    sr1__error_save(&failed, st);
    sr1__error_keep_first(&failed, sr1__dist_finish(e->d, r->work, e->how->place));
    if (failed.code == SR1_OK)
        e->how->unpack(s, e, r);
    return close_round(s, sr1__error_raise(&failed));
}

static sr1_status run_rounds(struct exchange *e, struct sr1__exchange_room *room)
{
    struct exchange_round r = {.room = room};
    struct sr1__error failed;
    sr1_status st;

    sr1__error_save(&failed, e->st);
    /* who fails between two rounds comes to the next and says so: none waits for it */
    for (; (r.part = size_round(e, r.k)) > 0; r.k++) {
        e->st = sr1__error_raise(&failed);
        st = begin_round(&r, e);
        if (st == SR1_OK)
            st = end_round(&r, e, st);
        sr1__error_keep_first(&failed, st);
    }
    return sr1__error_raise(&failed);
}

/* All in one round. */
struct sr1__shard_transfer {
    struct exchange e;
    struct exchange_round round;
    struct sr1__exchange_room own;
};

/* room NULL: memory of its own. */
static sr1_status begin_transfer(struct sr1__shard_transfer **out, struct exchange e,
                                 struct sr1__exchange_room *room)
{
    struct sr1__shard_transfer *t = sr1__calloc(1, sizeof(*t)),
                               none = {.round = {.k = 0}};
    struct sr1__shard_transfer *at = t ? t : &none; /* all ranks are to hear of that */
    sr1_status st;

    if (!t && e.st == SR1_OK)
        e.st = sr1__fail_nomem(e.how->under_way);
    e.round = largest_range(&e);
    at->e = e;
    at->round.part = e.round;
    at->round.room = room ? room : &at->own;
    st = begin_round(&at->round, &at->e);
    if (st == SR1_OK) {
        *out = t;
        return SR1_OK;
    }
    sr1__exchange_room_free(&at->own);
    sr1__free(t);
    return st;
}

static sr1_status end_transfer(struct sr1__shard_transfer *t, sr1_status st)
{
    st = end_round(&t->round, &t->e, st);
    sr1__exchange_room_free(&t->own);
    sr1__free(t);
    return st;
}

/* ---- to the owners ---- */

static void pack_all(sr1_scope *s, const struct exchange *e,
                     const struct exchange_round *r, sr1_tensor *sent)
{
    for (int32_t rank = 0; rank < e->ranks; rank++)
        copy_range(s, e, range_in_round(e, rank, r->k),
                   t_narrow(s, sent, 0, rank * r->part, r->part), 0);
}

static void show_own(sr1_scope *s, const struct exchange *e,
                     const struct exchange_round *r)
{
    struct number_range own = range_in_round(e, sr1__dist_rank(e->d), r->k);
    int64_t n = own.end - own.begin;
    sr1_tensor *got;

    if (n == 0)
        return;
    got = t_narrow(s, r->room->got, 0, 0, e->got * r->part);
    got = t_reshape(s, got, T_SHAPE(e->got, r->part));
    e->fn(s, e->user, r->k * e->round, t_narrow(s, got, 1, 0, n));
}

/* Of each rank a row comes, or where sr1__dist_reduces their sum. */
static struct exchange scatter_exchange(const struct sr1__mesh *m,
                                        const struct sr1__shards *s, size_t u,
                                        sr1_status st, sr1_tensor *const *tensors,
                                        int32_t dtype)
{
    static const struct direction to_owners = {"sum of gradients", "gradients under way",
                                               pack_all, show_own,
                                               sr1__dist_scatter_begin};
    int32_t ranks = s->ranks * s->groups;

    return (struct exchange){.how = &to_owners,
                             .d = m->world,
                             .s = s,
                             .tensors = tensors,
                             .u = u,
                             .ranks = ranks,
                             .pieces = 1,
                             .round = SR1__SHARD_ROUND,
                             .sent = ranks,
                             .got = sr1__dist_reduces(m->world) ? 1 : ranks,
                             .dtype = dtype,
                             .st = st};
}

sr1_status sr1__shards_scatter(const struct sr1__mesh *m, const struct sr1__shards *s,
                               size_t u, sr1_status st, sr1_tensor *const *tensors,
                               int32_t dtype, struct sr1__exchange_room *room,
                               sr1__scattered_fn fn, void *user)
{
    struct exchange e = scatter_exchange(m, s, u, st, tensors, dtype);

    e.fn = fn;
    e.user = user;
    return run_rounds(&e, room);
}

sr1_status sr1__shards_scatter_begin(struct sr1__shard_transfer **out,
                                     const struct sr1__mesh *m,
                                     const struct sr1__shards *s, size_t u, sr1_status st,
                                     sr1_tensor *const *tensors, int32_t dtype,
                                     struct sr1__exchange_room *room)
{
    return begin_transfer(out, scatter_exchange(m, s, u, st, tensors, dtype), room);
}

sr1_status sr1__shards_scatter_end(struct sr1__shard_transfer *t, sr1_status st,
                                   sr1__scattered_fn fn, void *user)
{
    t->e.fn = fn;
    t->e.user = user;
    return end_transfer(t, st);
}

sr1_status sr1__shards_join(const struct sr1__mesh *m, const struct sr1__shards *s,
                            size_t u, sr1_status st, sr1_tensor *part, sr1_tensor *piece)
{
    sr1_scope *scope = sr1__scope_open(sr1__dist_device(m->owners), "sums of a part");
    int64_t begin = find_range(s, u, s->rank, 1).begin;
    int64_t most = (sr1__shards_part(s, u) + s->groups - 1) / s->groups;
    int64_t n = sr1__shards_piece(s, u);
    sr1_tensor *own, *all;

    sr1__scope_no_grad(scope);
    own = t_full(scope, 0.0, SR1__F32, T_SHAPE(most));
    all = t_empty(scope, SR1__F32, T_SHAPE(s->groups * most));
    if (n > 0 && st == SR1_OK)
        t_copy_(scope, t_narrow(scope, own, 0, 0, n), piece);
    if (st == SR1_OK)
        st = sr1__scope_status(scope);
    st = sr1__dist_all_gather(m->owners, "sums of a part", st, all, own);
    for (int32_t g = 0; g < s->groups && st == SR1_OK; g++) {
        struct number_range r = find_range(s, u, g * s->ranks + s->rank, 1);

        if (r.begin < r.end)
            t_copy_(scope, t_narrow(scope, part, 0, r.begin - begin, r.end - r.begin),
                    t_narrow(scope, all, 0, g * most, r.end - r.begin));
    }
    return close_round(scope, st);
}

/* ---- from the owners ---- */

static void pack_own(sr1_scope *s, const struct exchange *e,
                     const struct exchange_round *r, sr1_tensor *sent)
{
    struct number_range own = range_in_round(e, e->s->rank, r->k);
    int64_t n = own.end - own.begin;

    if (e->part && n > 0) {
        t_copy_(s, t_narrow(s, sent, 0, 0, n),
                t_narrow(s, e->part, 0, r->k * e->round, n));
        fill_up(s, sent, n);
    } else {
        copy_range(s, e, own, sent, 0);
    }
}

static void unpack_all(sr1_scope *s, const struct exchange *e,
                       const struct exchange_round *r)
{
    for (int32_t rank = 0; rank < e->ranks; rank++)
        if (e->part || rank != e->s->rank)
            copy_range(s, e, range_in_round(e, rank, r->k),
                       t_narrow(s, r->room->got, 0, rank * r->part, r->part), 1);
}

static struct exchange gather_exchange(const struct sr1__mesh *m,
                                       const struct sr1__shards *s, size_t u,
                                       sr1_status st, sr1_tensor *const *tensors,
                                       sr1_tensor *part, int32_t dtype)
{
    static const struct direction from_owners = {"updated weights", "weights under way",
                                                 pack_own, unpack_all,
                                                 sr1__dist_all_gather_begin};

    return (struct exchange){.how = &from_owners,
                             .d = m->group,
                             .s = s,
                             .tensors = tensors,
                             .u = u,
                             .ranks = s->ranks,
                             .round = SR1__SHARD_ROUND,
                             .sent = 1,
                             .got = s->ranks,
                             .dtype = dtype,
                             .st = st,
                             .part = part};
}

sr1_status sr1__shards_gather(const struct sr1__mesh *m, const struct sr1__shards *s,
                              size_t u, sr1_status st, sr1_tensor *const *tensors,
                              sr1_tensor *part, int32_t dtype,
                              struct sr1__exchange_room *room)
{
    struct exchange e = gather_exchange(m, s, u, st, tensors, part, dtype);

    return run_rounds(&e, room);
}

sr1_status sr1__shards_gather_begin(struct sr1__shard_transfer **out,
                                    const struct sr1__mesh *m,
                                    const struct sr1__shards *s, size_t u, sr1_status st,
                                    sr1_tensor *const *tensors, sr1_tensor *part,
                                    int32_t dtype)
{
    return begin_transfer(out, gather_exchange(m, s, u, st, tensors, part, dtype), NULL);
}

sr1_status sr1__shards_gather_end(struct sr1__shard_transfer *t, sr1_status st)
{
    return end_transfer(t, st);
}

sr1_status sr1__shards_take(const struct sr1__shards *s, size_t u,
                            sr1_tensor *const *tensors, sr1_tensor *part)
{
    struct exchange e = {.s = s, .tensors = tensors, .u = u, .ranks = s->ranks};
    sr1_scope *scope = sr1__scope_open(SR1__CPU, "part of the weights");

    copy_range(scope, &e, find_range(s, u, s->rank, 0), part, 0);
    return sr1__scope_close(scope);
}
