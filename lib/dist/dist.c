/* dist/dist.c - see dist.h.
 *
 * The store, a TCPStore, is for opening, for the names of missing ranks, and for the
 * texts of errors. All else goes through the process group: a rank that dies closes its
 * connections there, which ends the others' waiting at once. */
#include "dist/dist.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "dist/ask_store.h"
#include "dist/nccl_bridge.h"
#include "dist/own_address.h"
#include "tensor/ops/ops.h"
#include "tensor/torch/comm.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PART ((int64_t)1 << 20) /* elements that a rank adds up at once */
#define LAST_WORDS 1.0          /* seconds for others to notice a loss, too */
#define FAREWELL 2.0            /* seconds that the store waits for others' last words */
#define HANDOVER 3.0            /* seconds that rank 0 waits for its port, a bit longer */
#define TOKEN_MAX 24

/* How long is waited, and the key that says so. */
struct wait_limit {
    double seconds;
    const char *key;
};

struct sr1__dist {
    int32_t rank, size;
    int32_t first, stride; /* rank r is number first + r stride of the whole job */
    struct wait_limit limit, patience;
    int debug;
    char address[SR1__HOST_MAX]; /* by which the others reach this process */
    int agent_store;             /* the store is the launcher's; 0: rank 0's */
    const atomic_int *stop;
    struct sr1__store *root, *store;                   /* store: with the job's prefix */
    struct sr1__process_group *group, *plain, *helper; /* the latter two for debug */
    struct sr1__process_group *bulk, *plain_bulk; /* for tensors; NULL: that is group */
    sr1__device device;                           /* of such tensors */
    int by_nccl, reduces;
    int64_t meetings;
    int32_t under_way;         /* works that are begun and not finished */
    sr1_tensor *said, *heard;  /* [size, WORDS] of a meeting */
    struct sr1__error failure; /* the first; code 0: none */
};

/* What each rank says to each in a meeting. */
enum { WORD_PLACE, WORD_CODE, WORD_SIZE, WORDS };

int32_t sr1__dist_rank(const struct sr1__dist *d)
{
    return d ? d->rank : 0;
}

int32_t sr1__dist_size(const struct sr1__dist *d)
{
    return d ? d->size : 1;
}

sr1__device sr1__dist_device(const struct sr1__dist *d)
{
    return d ? d->device : SR1__CPU;
}

int32_t sr1__dist_reduces(const struct sr1__dist *d)
{
    return d && d->reduces;
}

/* For tensors on sr1__dist_device. */
static struct sr1__process_group *tensor_group(const struct sr1__dist *d)
{
    return d->bulk ? d->bulk : d->group;
}

/* As the whole job numbers it. */
static int32_t number_of(const struct sr1__dist *d, int32_t rank)
{
    return d->first + rank * d->stride;
}

/* ---- waiting ---- */

static int is_stopped(const struct sr1__dist *d)
{
    return d->stop && atomic_load(d->stop);
}

static sr1_status fail_stopped(const char *place)
{
    return sr1__fail(SR1_E_CANCELLED, "%s: stopped while waiting for other ranks", place);
}

/* Short at first: most waits are. */
static void pause_briefly(double began)
{
    double waited = sr1__now() - began;
    long us = waited < 0.001 ? 20 : waited < 0.1 ? 200 : 5000;
    struct timespec t = {0, us * 1000};

    nanosleep(&t, NULL);
}

static int64_t to_ms(double seconds)
{
    return seconds < 1e9 ? (int64_t)(seconds * 1000.0) + 1 : INT64_C(1000000000000);
}

/* ---- failures ---- */

static void free_groups(struct sr1__dist *d, int abandon)
{
    struct sr1__process_group *groups[] = {d->bulk, d->plain_bulk, d->group, d->plain,
                                           d->helper};

    d->group = d->plain = d->helper = d->bulk = d->plain_bulk = NULL;
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        if (abandon)
            sr1__pg_abandon(groups[i]);
        else
            sr1__pg_free(groups[i]);
    }
}

/* A failure ends the connection, and peers that wait see that it is closed; but a work
 * that is not done keeps the group's threads and sockets, until the process ends. */
static sr1_status end_job(struct sr1__dist *d, sr1_status st, int pending)
{
    sr1__error_save(&d->failure, st);
    free_groups(d, pending || d->under_way > 0);
    return sr1__error_raise(&d->failure);
}

static sr1_status check_alive(const struct sr1__dist *d)
{
    return d->failure.code ? sr1__error_raise(&d->failure) : SR1_OK;
}

/* The store of a call that is given up is not asked again. */
static struct sr1__roll_call ask_who_is_missing(struct sr1__dist *d, const char *what,
                                                int64_t meeting)
{
    struct sr1__roll_call c = {.store = d->store,
                               .root = d->root,
                               .what = what,
                               .meeting = meeting,
                               .size = d->size,
                               .first = d->first,
                               .stride = d->stride};

    if (sr1__call_roll(&c) != 0)
        return c;
    d->store = d->root = NULL;
    if (!d->agent_store) { /* the store is rank 0's */
        c.missing = 1;
        snprintf(c.names, sizeof(c.names), "0");
    }
    return c;
}

static sr1_status fail_missing(struct sr1__dist *d, const char *what, int64_t meeting,
                               const char *place, struct wait_limit limit)
{
    struct sr1__roll_call c = ask_who_is_missing(d, what, meeting);

    if (c.missing == 0)
        return sr1__fail(SR1_E_TIMEOUT, "%s: no answer of the other ranks in %g s", place,
                         limit.seconds);
    return sr1__fail(SR1_E_TIMEOUT,
                     "%s: after %g s rank%s %s of a world of %" PRId32 " %s missing (%s)",
                     place, limit.seconds, c.missing == 1 ? "" : "s", c.names, d->size,
                     c.missing == 1 ? "is" : "are", limit.key);
}

/* ---- works ---- */

/* Whoever notices a loss leaves a mark: " (rank 1)" is who leaves none, or with a store
 * that is gone, whose store it was. Ranks that are at work notice it later. */
static void name_lost(struct sr1__dist *d, char *out, size_t size)
{
    struct sr1__roll_call c = {0};
    double began = sr1__now();

    c.failed = sr1__mark_leave(d->store, "lost", 0, d->rank, "1") != SR1_OK;
    while (!c.failed && d->store && c.missing != 1 && sr1__now() - began < LAST_WORDS) {
        pause_briefly(began - 0.1);
        c = ask_who_is_missing(d, "lost", 0);
    }
    out[0] = '\0';
    if (c.failed && !d->agent_store && d->rank > 0)
        snprintf(out, size, " (rank 0)");
    else if (c.missing > 0)
        snprintf(out, size, c.missing == 1 ? " (rank %s)" : " (of ranks %s)", c.names);
}

/* A connection that is closed: the process behind it has ended. */
static sr1_status explain_loss(struct sr1__dist *d, sr1_status st, const char *place)
{
    struct sr1__error why;
    char lost[300];

    if (st != SR1_E_NETWORK)
        return sr1__context(st, "%s", place);
    sr1__error_save(&why, st);
    name_lost(d, lost, sizeof(lost));
    sr1__error_raise(&why);
    return sr1__context(st, "%s: a rank is gone%s", place, lost);
}

/* Wait for w and free it. */
static sr1_status finish_work(struct sr1__dist *d, struct sr1__work *w, const char *place,
                              struct wait_limit limit)
{
    double began = sr1__now();
    sr1_status st;

    while (!sr1__work_is_done(w) && !is_stopped(d) && sr1__now() - began < limit.seconds)
        pause_briefly(began);
    if (sr1__work_is_done(w)) {
        st = sr1__work_finish(w);
        return st == SR1_OK ? SR1_OK : end_job(d, explain_loss(d, st, place), 0);
    }
    sr1__work_abandon(w);
    st = is_stopped(d) ? fail_stopped(place)
                       : fail_missing(d, "at", d->meetings, place, limit);
    return end_job(d, st, 1);
}

/* The transport's own limit lies behind ours, which names who is missing. */
static int64_t behind_limit(struct wait_limit limit)
{
    return to_ms(limit.seconds + 5.0);
}

static int64_t transport_limit(const struct sr1__dist *d)
{
    return behind_limit(d->limit);
}

/* A collective that was begun with status st. */
static sr1_status run_work(struct sr1__dist *d, sr1_status st, struct sr1__work *w,
                           const char *place, struct wait_limit limit)
{
    if (st == SR1_OK)
        return finish_work(d, w, place, limit);
    return end_job(d, explain_loss(d, st, place), 0);
}

/* ---- a meeting ---- */

static int64_t hash_place(const char *place)
{
    return (int64_t)(sr1__hash64(place, strlen(place), 0) >> 1);
}

/* Leave a mark at the store, by which others see who is missing. The store's answer is
 * not waited for: a rank 0 that stands still would be waited for without limit. */
static sr1_status mark_arrival(struct sr1__dist *d)
{
    char at[24];

    snprintf(at, sizeof(at), "%" PRId64, d->meetings);
    return sr1__mark_leave(d->store, "at", 0, d->rank, at);
}

static const int64_t *words_of(const struct sr1__dist *d, int32_t rank)
{
    return (const int64_t *)sr1__shim_data(d->heard) + (size_t)rank * WORDS;
}

static int is_memory_code(int64_t code)
{
    return code == SR1_E_NOMEM || code == SR1_E_DEVICE_NOMEM;
}

/* The rank whose failure counts; -1: there is none. */
static int32_t find_failed(const struct sr1__dist *d)
{
    int32_t failed = -1;

    for (int32_t r = 0; r < d->size; r++) {
        int64_t code = words_of(d, r)[WORD_CODE];

        if (code != SR1_OK &&
            (failed < 0 ||
             (is_memory_code(words_of(d, failed)[WORD_CODE]) && !is_memory_code(code))))
            failed = r;
    }
    return failed;
}

/* "rank 2: ", at the beginning or behind what was added on the way: it was agreed on
 * before. */
static int names_rank(const char *text)
{
    static const char word[] = "rank ";

    for (const char *at = text; at; at = strstr(at, ": ") ? strstr(at, ": ") + 2 : NULL) {
        size_t digits;

        if (strncmp(at, word, strlen(word)) != 0)
            continue;
        digits = strspn(at + strlen(word), "0123456789");
        if (digits && strncmp(at + strlen(word) + digits, ": ", 2) == 0)
            return 1;
    }
    return 0;
}

static sr1_status raise_failed(struct sr1__dist *d, int32_t rank)
{
    char text[SR1__ERROR_MAX];
    int64_t code = words_of(d, rank)[WORD_CODE];

    if (sr1__mark_read(d->store, "error", d->meetings, rank, text, sizeof(text)) !=
            SR1_OK ||
        text[0] == '\0')
        snprintf(text, sizeof(text), "its text is lost");
    if (code < INT32_MIN || code > 0)
        code = SR1_E_INTERNAL;
    if (names_rank(text))
        return sr1__fail((sr1_status)code, "%s", text);
    return sr1__fail((sr1_status)code, "rank %" PRId32 ": %.900s", number_of(d, rank),
                     text);
}

/* Ranks at different places: one has failed on its way, or their programs differ. */
static sr1_status check_places(struct sr1__dist *d, const char *place)
{
    int32_t failed = find_failed(d);

    for (int32_t r = 0; r < d->size; r++) {
        if (words_of(d, r)[WORD_PLACE] == hash_place(place))
            continue;
        if (failed >= 0)
            return end_job(d, raise_failed(d, failed), 0);
        return end_job(d,
                       sr1__fail(SR1_E_STATE,
                                 "rank %" PRId32 " is at '%s' and rank %" PRId32
                                 " elsewhere: the ranks' programs differ",
                                 number_of(d, d->rank), place, number_of(d, r)),
                       0);
    }
    return SR1_OK;
}

/* The wrapper of the debug mode waits by the limit of its helper alone, in the call that
 * begins a collective. */
static struct wait_limit limit_of_wrapper(const struct sr1__dist *d)
{
    return d->patience.seconds > d->limit.seconds ? d->patience : d->limit;
}

/* It says the same of a rank that is late and of one that is gone. */
static int is_late_for_wrapper(const struct sr1__dist *d, sr1_status st, double began)
{
    return d->debug && st == SR1_E_NETWORK &&
           sr1__now() - began >= limit_of_wrapper(d).seconds;
}

/* Tell all ranks a status and a size, and hear theirs (words_of). */
static sr1_status hold_meeting(struct sr1__dist *d, const char *place,
                               struct wait_limit limit, sr1_status code, int64_t size)
{
    struct sr1__work *w = NULL;
    double began = sr1__now();
    int64_t *said;
    sr1_status st;

    SR1__TRY(check_alive(d));
    d->meetings++;
    said = sr1__shim_data(d->said);
    for (int32_t r = 0; r < d->size; r++) {
        said[r * WORDS + WORD_PLACE] = hash_place(place);
        said[r * WORDS + WORD_CODE] = code;
        said[r * WORDS + WORD_SIZE] = size;
    }
    st = mark_arrival(d);
    if (st == SR1_OK)
        st = sr1__pg_all_to_all(&w, d->group, d->heard, d->said, behind_limit(limit));
    if (is_late_for_wrapper(d, st, began))
        return end_job(d, fail_missing(d, "at", d->meetings, place, limit_of_wrapper(d)),
                       1);
    SR1__TRY(run_work(d, st, w, place, limit));
    return check_places(d, place);
}

sr1_status sr1__dist_meet(struct sr1__dist *d, const char *place)
{
    return d ? hold_meeting(d, place, d->limit, SR1_OK, 0) : SR1_OK;
}

/* ---- one status for all ---- */

/* For those who hear of the failure in the next meeting. A store does not answer when it
 * is told something, so it is asked for it: then others find it. One that is gone is met
 * in that meeting. */
static void leave_error(struct sr1__dist *d, const char *text)
{
    char found[SR1__ERROR_MAX];

    if (sr1__mark_leave(d->store, "error", d->meetings + 1, d->rank, text) == SR1_OK)
        (void)sr1__mark_read(d->store, "error", d->meetings + 1, d->rank, found,
                             sizeof(found));
}

/* A meeting that only ranks without a failure leave with SR1_OK. */
static sr1_status agree_with_size(struct sr1__dist *d, const char *place,
                                  struct wait_limit limit, sr1_status st, size_t size)
{
    struct sr1__error own;
    int32_t failed;

    if (d->failure.code) /* others cannot hear it any more */
        return st != SR1_OK ? st : check_alive(d);
    sr1__error_save(&own, st);
    if (st != SR1_OK)
        leave_error(d, own.text);
    /* where the meeting fails too, its own is the cause */
    if (hold_meeting(d, place, limit, st, (int64_t)size) != SR1_OK)
        return own.code ? sr1__error_raise(&own) : check_alive(d);
    failed = find_failed(d);
    return failed < 0 ? SR1_OK : raise_failed(d, failed);
}

sr1_status sr1__dist_agree(struct sr1__dist *d, const char *place, sr1_status st)
{
    return d ? agree_with_size(d, place, d->limit, st, 0) : st;
}

sr1_status sr1__dist_await(struct sr1__dist *d, const char *place, sr1_status st)
{
    return d ? agree_with_size(d, place, d->patience, st, 0) : st;
}

/* ---- bytes ---- */

/* [n] bytes; a copy of `from`, or without meaning where it is NULL. */
static sr1_status make_bytes(sr1_tensor **out, const void *from, size_t n, size_t room)
{
    int64_t shape = (int64_t)room;

    SR1__TRY(sr1__shim_empty(out, SR1__U8, 1, &shape, SR1__CPU));
    if (from && n)
        memcpy(sr1__shim_data(*out), from, n);
    if (from && room > n)
        memset((char *)sr1__shim_data(*out) + n, 0, room - n);
    return SR1_OK;
}

/* All ranks have to give rank 0's size. */
static sr1_status check_sizes_equal(struct sr1__dist *d, const char *place)
{
    int64_t wanted = words_of(d, 0)[WORD_SIZE];

    for (int32_t r = 1; r < d->size; r++)
        if (words_of(d, r)[WORD_SIZE] != wanted)
            return end_job(d,
                           sr1__fail(SR1_E_STATE,
                                     "%s: rank %" PRId32 " has size %" PRId64
                                     " and rank 0 size %" PRId64,
                                     place, number_of(d, r), words_of(d, r)[WORD_SIZE],
                                     wanted),
                           0);
    return SR1_OK;
}

sr1_status sr1__dist_broadcast(struct sr1__dist *d, const char *place, int32_t root,
                               void *bytes, size_t n)
{
    sr1_tensor *t = NULL;
    struct sr1__work *w = NULL;
    sr1_status st;

    if (!d)
        return SR1_OK;
    SR1__TRY(hold_meeting(d, place, d->limit, SR1_OK, (int64_t)n));
    SR1__TRY(check_sizes_equal(d, place));
    if (n == 0)
        return SR1_OK;
    st = make_bytes(&t, bytes, n, n);
    if (st == SR1_OK)
        st = sr1__pg_broadcast(&w, d->group, t, root, transport_limit(d));
    st = run_work(d, st, w, place, d->limit);
    if (st == SR1_OK)
        memcpy(bytes, sr1__shim_data(t), n);
    sr1__tensor_free(t);
    return st;
}

static sr1_status gather_all(struct sr1__dist *d, const char *place, const void *bytes,
                             size_t n, struct sr1__gathered *out)
{
    sr1_tensor *own = NULL;
    struct sr1__work *w = NULL;
    sr1_status st;

    for (int32_t r = 0; r < d->size; r++) {
        out->sizes[r] = words_of(d, r)[WORD_SIZE];
        if (out->sizes[r] > (int64_t)out->most)
            out->most = (size_t)out->sizes[r];
    }
    if (out->most == 0)
        return SR1_OK;
    st = make_bytes(&own, n ? bytes : "", n, out->most);
    if (st == SR1_OK)
        st = make_bytes(&out->all, NULL, 0, out->most * (size_t)d->size);
    if (st == SR1_OK)
        st = sr1__pg_all_gather(&w, d->group, out->all, own, transport_limit(d));
    st = run_work(d, st, w, place, d->limit);
    sr1__tensor_free(own);
    return st;
}

sr1_status sr1__dist_gather(struct sr1__dist *d, const char *place, sr1_status st,
                            const void *bytes, size_t n, struct sr1__gathered *out)
{
    *out = (struct sr1__gathered){
        .sizes = sr1__calloc((size_t)sr1__dist_size(d), sizeof(*out->sizes))};
    if (st == SR1_OK && !out->sizes)
        st = sr1__fail_nomem("sizes of ranks");
    if (d)
        st = agree_with_size(d, place, d->limit, st, n);
    if (st == SR1_OK && d)
        st = gather_all(d, place, bytes, n, out);
    if (st == SR1_OK && !d) {
        out->self = bytes;
        out->sizes[0] = (int64_t)n;
    }
    if (st != SR1_OK)
        sr1__gathered_free(out);
    return st;
}

const void *sr1__gathered_of(const struct sr1__gathered *g, int32_t rank, size_t *n)
{
    *n = (size_t)g->sizes[rank];
    return g->all ? (const char *)sr1__shim_data(g->all) + (size_t)rank * g->most
                  : g->self;
}

void sr1__gathered_free(struct sr1__gathered *g)
{
    sr1__tensor_free(g->all);
    sr1__free(g->sizes);
    *g = (struct sr1__gathered){0};
}

sr1_status sr1__dist_same(struct sr1__dist *d, const char *what, uint64_t value)
{
    char names[256];
    size_t n = 0;
    int32_t differ = 0;

    if (!d)
        return SR1_OK;
    SR1__TRY(hold_meeting(d, what, d->limit, SR1_OK, (int64_t)(value >> 1)));
    for (int32_t r = 1; r < d->size; r++) {
        if (words_of(d, r)[WORD_SIZE] == words_of(d, 0)[WORD_SIZE])
            continue;
        if (n < sizeof(names))
            n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%" PRId32,
                                  differ ? ", " : "", r);
        differ++;
    }
    if (differ == 0)
        return SR1_OK;
    return sr1__fail(SR1_E_STATE, "%s on rank%s %s differ%s from rank 0's", what,
                     differ == 1 ? "" : "s", names, differ == 1 ? "s" : "");
}

/* ---- sums in the order of ranks ---- */

/* What all ranks sent of one part, and the sum of it; as large as the first round. */
struct sum_room {
    sr1_tensor *got, *sum;
};

/* flat [size * part]: part r goes to rank r, which adds up what all ranks sent it. */
static sr1_status add_parts(struct sr1__dist *d, sr1_scope *s, const char *place,
                            sr1_tensor *flat, const struct sum_room *room)
{
    int64_t part = t_numel(room->sum);
    struct sr1__work *w = NULL;
    sr1_status st = sr1__scope_status(s);

    if (st == SR1_OK)
        st = sr1__pg_all_to_all(&w, tensor_group(d), room->got, flat, transport_limit(d));
    SR1__TRY(run_work(d, st, w, place, d->limit));
    t_copy_(s, room->sum, t_narrow(s, room->got, 0, 0, part));
    for (int32_t r = 1; r < d->size; r++)
        t_add_(s, room->sum, t_narrow(s, room->got, 0, r * part, part), 1.0);
    return sr1__scope_status(s);
}

/* The parts of all ranks into flat [size * part]. */
static sr1_status gather_parts(struct sr1__dist *d, const char *place, sr1_status st,
                               sr1_tensor *flat, sr1_tensor *part)
{
    struct sr1__work *w = NULL;

    if (st == SR1_OK)
        st = sr1__pg_all_gather(&w, tensor_group(d), flat, part, transport_limit(d));
    return run_work(d, st, w, place, d->limit);
}

/* Elements [begin, begin + n) of data: in place, or padded to equal parts. */
static sr1_status sum_range(struct sr1__dist *d, const char *place, sr1_tensor *data,
                            int64_t begin, int64_t n, const struct sum_room *room)
{
    int64_t part = (n + d->size - 1) / d->size;
    sr1_scope *s = sr1__scope_open(d->device, "%s", place);
    sr1_tensor *range, *flat;
    struct sum_room here;
    sr1_status st;

    sr1__scope_no_grad(s);
    here.got = t_narrow(s, room->got, 0, 0, d->size * part);
    here.sum = t_narrow(s, room->sum, 0, 0, part);
    range = flat = t_narrow(s, data, 0, begin, n);
    if (d->size * part > n) {
        flat = t_full(s, 0.0, SR1__F32, T_SHAPE(d->size * part));
        t_copy_(s, t_narrow(s, flat, 0, 0, n), range);
    }
    st = add_parts(d, s, place, flat, &here);
    sr1__scope_check(s, gather_parts(d, place, st, flat, here.sum));
    if (flat != range)
        t_copy_(s, range, t_narrow(s, flat, 0, 0, n));
    return sr1__scope_close(s);
}

static sr1_status make_sum_room(const struct sr1__dist *d, struct sum_room *room,
                                int64_t n)
{
    int64_t part = sr1__min_i64(PART, (n + d->size - 1) / d->size);
    const int64_t all = d->size * part;

    if (d->reduces)
        return SR1_OK;
    SR1__TRY(sr1__shim_empty(&room->got, SR1__F32, 1, &all, d->device));
    return sr1__shim_empty(&room->sum, SR1__F32, 1, &part, d->device);
}

/* PART numbers a rank at once; the last range may be shorter. */
static sr1_status sum_ranges(struct sr1__dist *d, const char *place, sr1_tensor *data,
                             const struct sum_room *room)
{
    int64_t n = t_numel(data), step = PART * d->size;
    struct sr1__work *w = NULL;
    sr1_status st;

    if (d->reduces) {
        st = sr1__pg_all_reduce(&w, tensor_group(d), data, transport_limit(d));
        return run_work(d, st, w, place, d->limit);
    }
    for (int64_t at = 0; at < n; at += step)
        SR1__TRY(sum_range(d, place, data, at, sr1__min_i64(step, n - at), room));
    return SR1_OK;
}

sr1_status sr1__dist_sum(struct sr1__dist *d, const char *place, sr1_status st,
                         sr1_tensor *data)
{
    struct sum_room room = {NULL, NULL};
    int64_t n = data ? t_numel(data) : 0;

    if (!d)
        return st;
    if (st == SR1_OK)
        st = make_sum_room(d, &room, n);
    st = agree_with_size(d, place, d->limit, st, (size_t)n);
    if (st == SR1_OK)
        st = check_sizes_equal(d, place);
    if (st == SR1_OK)
        st = sum_ranges(d, place, data, &room);
    sr1__tensor_free(room.got);
    sr1__tensor_free(room.sum);
    return st;
}

/* ---- exchanges of tensors ---- */

typedef sr1_status (*collective_fn)(struct sr1__work **out, struct sr1__process_group *g,
                                    sr1_tensor *to, sr1_tensor *from, int64_t limit_ms);

/* A collective that all ranks have begun when it returns SR1_OK. */
static sr1_status begin_collective(struct sr1__work **out, struct sr1__dist *d,
                                   const char *place, sr1_status st, collective_fn run,
                                   sr1_tensor *to, sr1_tensor *from)
{
    SR1__TRY(agree_with_size(d, place, d->limit, st, (size_t)t_numel(from)));
    SR1__TRY(check_sizes_equal(d, place));
    st = run(out, tensor_group(d), to, from, transport_limit(d));
    if (st != SR1_OK)
        return end_job(d, explain_loss(d, st, place), 0);
    d->under_way++;
    return SR1_OK;
}

sr1_status sr1__dist_finish(struct sr1__dist *d, struct sr1__work *w, const char *place)
{
    d->under_way--;
    if (d->failure.code == SR1_OK)
        return finish_work(d, w, place, d->limit);
    sr1__work_abandon(w);
    return check_alive(d);
}

sr1_status sr1__dist_scatter_begin(struct sr1__work **out, struct sr1__dist *d,
                                   const char *place, sr1_status st, sr1_tensor *to,
                                   sr1_tensor *from)
{
    return begin_collective(out, d, place, st,
                            d->reduces ? sr1__pg_reduce_scatter : sr1__pg_all_to_all, to,
                            from);
}

sr1_status sr1__dist_all_gather_begin(struct sr1__work **out, struct sr1__dist *d,
                                      const char *place, sr1_status st, sr1_tensor *all,
                                      sr1_tensor *own)
{
    return begin_collective(out, d, place, st, sr1__pg_all_gather, all, own);
}

sr1_status sr1__dist_all_gather(struct sr1__dist *d, const char *place, sr1_status st,
                                sr1_tensor *all, sr1_tensor *own)
{
    struct sr1__work *w = NULL;

    SR1__TRY(sr1__dist_all_gather_begin(&w, d, place, st, all, own));
    return sr1__dist_finish(d, w, place);
}

/* ---- opening ---- */

static sr1_status open_store(struct sr1__dist *d, const struct sr1__launch *l,
                             const char *prefix, double limit)
{
    SR1__TRY(sr1__context(
        sr1__ask_for_store(&d->root, l, to_ms(limit), to_ms(d->limit.seconds)),
        l->rank == 0 && !l->agent_store ? "rank 0 cannot open its store at port %u of %s"
                                        : "no store of rank 0 at port %u of %s",
        (unsigned)l->master_port, l->master_addr));
    return sr1__store_prefix(&d->store, d->root, prefix);
}

static void free_store(struct sr1__dist *d)
{
    sr1__store_free(d->store);
    sr1__store_free(d->root);
    d->store = d->root = NULL;
}

/* For a rank's mark, at the store alone: there is no group yet. token: the mark has to be
 * this one; NULL: any. */
static sr1_status wait_for_mark(struct sr1__dist *d, const char *what, int32_t rank,
                                const char *token, double until)
{
    static const char place[] = "start";
    double began = sr1__now();
    char found[TOKEN_MAX];

    for (;;) {
        SR1__TRY(sr1__mark_read(d->store, what, 0, rank, found, TOKEN_MAX));
        if (token ? strcmp(found, token) == 0 : found[0] != '\0')
            return SR1_OK;
        if (is_stopped(d))
            return fail_stopped(place);
        if (sr1__now() >= until)
            return fail_missing(d, token ? "here" : what, 0, place, d->limit);
        pause_briefly(began);
    }
}

static sr1_status wait_for_all(struct sr1__dist *d, const char *what, double until)
{
    for (int32_t r = 0; r < d->size; r++)
        SR1__TRY(wait_for_mark(d, what, r, NULL, until));
    return SR1_OK;
}

/* Rank 0 answers every rank with that rank's own token, once all are here: the rank 0 of
 * a job that ends does not. */
static sr1_status meet_at_store(struct sr1__dist *d, const char *token, double until)
{
    char theirs[TOKEN_MAX];

    SR1__TRY(sr1__mark_leave(d->store, "here", 0, d->rank, token));
    if (d->rank > 0)
        return wait_for_mark(d, "welcome", d->rank, token, until);
    SR1__TRY(wait_for_all(d, "here", until));
    for (int32_t r = 1; r < d->size; r++) {
        SR1__TRY(sr1__mark_read(d->store, "here", 0, r, theirs, TOKEN_MAX));
        SR1__TRY(sr1__mark_leave(d->store, "welcome", 0, r, theirs));
    }
    return SR1_OK;
}

/* Of this opening alone. */
static void make_token(int32_t opening, char token[TOKEN_MAX])
{
    struct timespec now;
    uint64_t of[4];

    clock_gettime(CLOCK_REALTIME, &now);
    of[0] = (uint64_t)now.tv_sec;
    of[1] = (uint64_t)now.tv_nsec;
    of[2] = (uint64_t)getpid();
    of[3] = (uint64_t)opening;
    snprintf(token, TOKEN_MAX, "%016" PRIx64, sr1__hash64(of, sizeof(of), 0));
}

/* Seconds that opening the store is tried. A store of rank 0 may be met that goes away,
 * or its port that is still taken: those of a job that ends. A launcher's stays. */
static double choose_opening_time(const struct sr1__dist *d)
{
    if (d->agent_store)
        return 0.0;
    return d->rank > 0 || d->limit.seconds < HANDOVER ? d->limit.seconds : HANDOVER;
}

/* One of several openings in a process, each attempt of a launcher and each size of its
 * world have their own keys: those of before outlive them in the launcher's store. */
static sr1_status find_others(struct sr1__dist *d, const struct sr1__launch *l)
{
    static atomic_int openings;
    int32_t opening = atomic_fetch_add(&openings, 1);
    double began = sr1__now(), until = began + d->limit.seconds;
    char prefix[96], token[TOKEN_MAX];
    struct sr1__error lost;
    sr1_status st;

    snprintf(prefix, sizeof(prefix), "searchr1/%" PRId64 "/%" PRId32 "/%" PRId32 "/",
             l->attempt, l->world_size, opening);
    make_token(opening, token);
    sr1__error_save(&lost, SR1_OK);
    for (;;) {
        st = open_store(d, l, prefix, until - sr1__now());
        if (st == SR1_OK)
            st = meet_at_store(d, token, until);
        if (st == SR1_E_TIMEOUT && lost.code) /* that none came after it */
            return sr1__error_raise(&lost);
        if (st != SR1_E_NETWORK || sr1__now() - began >= choose_opening_time(d))
            return st;
        sr1__error_save(&lost, st);
        free_store(d);
        pause_briefly(began);
    }
}

/* The threads that it starts write to ranks that may be gone, which is an error and no
 * signal: they inherit that SIGPIPE is blocked. */
static sr1_status open_gloo(struct sr1__process_group **out, struct sr1__dist *d,
                            struct sr1__store *at, struct wait_limit limit)
{
    sigset_t pipe_signal, before;
    sr1_status st;

    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    st = sr1__pg_gloo(out, at, d->rank, d->size, d->address, behind_limit(limit));
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return st;
}

static sr1_status open_group(struct sr1__process_group **out, struct sr1__dist *d,
                             const char *name, struct wait_limit limit)
{
    struct sr1__store *at = NULL;
    sr1_status st = sr1__store_prefix(&at, d->store, name);

    if (st == SR1_OK)
        st = open_gloo(out, d, at, limit);
    sr1__store_free(at); /* the group has a reference */
    return sr1__context(st, "connecting to the other ranks");
}

static sr1_status open_bulk(struct sr1__process_group **out, struct sr1__dist *d)
{
    struct sr1__store *at = NULL;
    sr1_status st = sr1__store_prefix(&at, d->store, "bulk/");

    if (st == SR1_OK)
        st = sr1__nccl_group(out, at, d->rank, d->size, d->device, transport_limit(d));
    sr1__store_free(at);
    return st;
}

static sr1_status open_groups(struct sr1__dist *d)
{
    if (!d->debug) {
        SR1__TRY(open_group(&d->group, d, "group/", d->limit));
        return d->by_nccl ? open_bulk(&d->bulk, d) : SR1_OK;
    }
    SR1__TRY(open_group(&d->plain, d, "group/", d->limit));
    SR1__TRY(open_group(&d->helper, d, "helper/", limit_of_wrapper(d)));
    SR1__TRY(sr1__pg_checked(&d->group, d->plain, d->helper));
    if (!d->by_nccl)
        return SR1_OK;
    SR1__TRY(open_bulk(&d->plain_bulk, d));
    return sr1__pg_checked(&d->bulk, d->plain_bulk, d->helper);
}

/* Room for what is said in a meeting. */
static sr1_status make_words(struct sr1__dist *d)
{
    const int64_t shape[2] = {d->size, WORDS};

    SR1__TRY(sr1__shim_empty(&d->said, SR1__I64, 2, shape, SR1__CPU));
    return sr1__shim_empty(&d->heard, SR1__I64, 2, shape, SR1__CPU);
}

static sr1_status open_dist(struct sr1__dist *d, const struct sr1__launch *l)
{
    sr1__comm_quiet();
    SR1__TRY(sr1__own_address(l->master_addr, l->master_port, d->address));
    SR1__TRY(make_words(d));
    SR1__TRY(find_others(d, l));
    SR1__TRY(open_groups(d));
    return sr1__dist_meet(d, "start");
}

/* The store goes with rank 0, and others may still read why the job failed. */
static void say_farewell(struct sr1__dist *d)
{
    struct sr1__error e; /* what the caller has been told stays */

    sr1__error_save(&e, SR1_E_INTERNAL);
    d->stop = NULL;
    if (sr1__mark_leave(d->store, "gone", 0, d->rank, "1") == SR1_OK && d->rank == 0)
        (void)wait_for_all(d, "gone",
                           sr1__now() + (d->failure.code ? FAREWELL / 4 : FAREWELL));
    (void)sr1__error_raise(&e);
}

void sr1__dist_free(struct sr1__dist *d)
{
    if (!d)
        return;
    if (d->store && d->root) /* a group's goes with its job */
        say_farewell(d);
    free_groups(d, 0);
    free_store(d);
    sr1__tensor_free(d->said);
    sr1__tensor_free(d->heard);
    sr1__free(d);
}

/* By what ranks exchange tensors. */
static const struct backend {
    const char *name;
    int by_nccl;
} backends[] = {{"gloo", 0}, {"nccl", 1}};

static const struct backend *find_backend(const char *name)
{
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
        if (strcmp(backends[i].name, name) == 0)
            return &backends[i];
    return NULL;
}

sr1_status sr1__dist_open(struct sr1__dist **out, const struct sr1__launch *l,
                          const struct sr1__dist_options *o)
{
    const struct backend *backend = find_backend(o->backend);
    struct sr1__dist *d;

    if (l->world_size == 1) {
        *out = NULL;
        return SR1_OK;
    }
    if (!backend)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "distributed_backend %s is not there; gloo and nccl are",
                         o->backend);
    SR1__CALLOC(d, 1, "process group");
    d->by_nccl = backend->by_nccl;
    d->device = d->by_nccl ? o->device : SR1__CPU;
    d->reduces = d->by_nccl && o->reduces;
    d->rank = l->rank;
    d->size = l->world_size;
    d->agent_store = l->agent_store;
    d->stride = 1;
    d->limit = (struct wait_limit){o->limit, "distributed_timeout"};
    d->patience = (struct wait_limit){o->patience, "rollout_timeout"};
    d->debug = o->debug;
    d->stop = o->stop;
    SR1__RETURN_NEW(out, d, open_dist(d, l), sr1__dist_free);
}

static sr1_status open_split(struct sr1__dist *g, struct sr1__dist *d, const char *prefix)
{
    SR1__TRY(make_words(g));
    SR1__TRY(sr1__store_prefix(&g->store, d->store, prefix));
    SR1__TRY(open_groups(g));
    return sr1__dist_meet(g, "start of a group");
}

sr1_status sr1__dist_split(struct sr1__dist **out, struct sr1__dist *d,
                           const struct sr1__dist_group *of)
{
    struct sr1__dist *g;
    char prefix[96];

    SR1__CALLOC(g, 1, "group of processes");
    g->rank = of->rank;
    g->size = of->size;
    g->first = of->first;
    g->stride = of->stride;
    g->limit = d->limit;
    g->patience = d->patience;
    g->debug = d->debug;
    g->by_nccl = d->by_nccl;
    g->device = d->device;
    g->reduces = d->reduces;
    g->agent_store = d->agent_store;
    g->stop = d->stop;
    memcpy(g->address, d->address, sizeof(g->address));
    snprintf(prefix, sizeof(prefix), "%.64s/%" PRId32 "/", of->name, of->group);
    SR1__RETURN_NEW(out, g, open_split(g, d, prefix), sr1__dist_free);
}
