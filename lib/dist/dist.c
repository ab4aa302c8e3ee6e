/* dist/dist.c - see dist.h: meetings and exchanges of processes that rendezvous.c has
 * brought together.
 *
 * The store, a TCPStore, is for opening, for the names of missing ranks, and for the
 * texts of errors. All else goes through the process group: a rank that dies closes its
 * connections there, which ends the others' waiting at once. */
#include "dist/dist_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "dist/ask_store.h"
#include "tensor/ops/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PART ((int64_t)1 << 20) /* elements that a rank adds up at once */
#define LAST_WORDS 1.0          /* seconds for others to notice a loss, too */

/* What each rank says to each in a meeting. */
enum { WORD_PLACE, WORD_CODE, WORD_SIZE, WORDS };

sr1_status sr1__dist_make_words(struct sr1__dist *d)
{
    const int64_t shape[2] = {d->size, WORDS};

    SR1__TRY(sr1__shim_empty(&d->said, SR1__I64, 2, shape, SR1__CPU));
    return sr1__shim_empty(&d->heard, SR1__I64, 2, shape, SR1__CPU);
}

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

int sr1__dist_is_stopped(const struct sr1__dist *d)
{
    return d->stop && atomic_load(d->stop);
}

sr1_status sr1__dist_fail_stopped(const char *place)
{
    return sr1__fail(SR1_E_CANCELLED, "%s: stopped while waiting for other ranks", place);
}

void sr1__dist_pause(double began)
{
    double waited = sr1__now() - began;
    long us = waited < 0.001 ? 20 : waited < 0.1 ? 200 : 5000;
    struct timespec t = {0, us * 1000};

    nanosleep(&t, NULL);
}

int64_t sr1__to_ms(double seconds)
{
    return seconds < 1e9 ? (int64_t)(seconds * 1000.0) + 1 : INT64_C(1000000000000);
}

/* ---- failures ---- */

void sr1__dist_free_groups(struct sr1__dist *d, int abandon)
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
    sr1__dist_free_groups(d, pending || d->under_way > 0);
    return sr1__error_raise(&d->failure);
}

static sr1_status check_alive(const struct sr1__dist *d)
{
    return d->failure.code ? sr1__error_raise(&d->failure) : SR1_OK;
}

/* A call that is given up keeps the store, and its connection. */
static void give_up_store(struct sr1__dist *d)
{
    if (d->whole) {
        sr1__store_free(d->whole->store);
        sr1__store_free(d->whole->root);
        d->whole->store = d->whole->root = NULL;
    }
    d->store = d->root = NULL;
}

sr1_status sr1__dist_read_mark(struct sr1__dist *d, const char *what, int64_t meeting,
                               int32_t rank, double until, char *text, size_t size)
{
    struct sr1__mark m = {.store = d->store,
                          .root = d->root,
                          .what = what,
                          .meeting = meeting,
                          .rank = rank};
    int ended = d->store ? sr1__mark_read(&m, until, d->stop) : 0;

    text[0] = '\0';
    if (ended < 0)
        return sr1__fail(SR1_E_LIMIT, "the system refused a thread for the store");
    if (ended == 0) {
        give_up_store(d);
        return sr1__fail(SR1_E_TIMEOUT, "the job's store does not answer");
    }
    snprintf(text, size, "%s", m.text);
    return sr1__error_raise(&m.error);
}

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

    if (d->store && sr1__call_roll(&c) != 0)
        return c;
    give_up_store(d);
    if (!d->agent_store) { /* the store is rank 0's */
        c.missing = 1;
        snprintf(c.names, sizeof(c.names), "0");
    }
    return c;
}

sr1_status sr1__dist_fail_missing(struct sr1__dist *d, const char *what, int64_t meeting,
                                  const char *place, struct sr1__wait_limit limit)
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
        sr1__dist_pause(began - 0.1);
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
                              struct sr1__wait_limit limit)
{
    double began = sr1__now();
    sr1_status st;

    while (!sr1__work_is_done(w) && !sr1__dist_is_stopped(d) &&
           sr1__now() - began < limit.seconds)
        sr1__dist_pause(began);
    if (sr1__work_is_done(w)) {
        st = sr1__work_finish(w);
        return st == SR1_OK ? SR1_OK : end_job(d, explain_loss(d, st, place), 0);
    }
    sr1__work_abandon(w);
    st = sr1__dist_is_stopped(d)
             ? sr1__dist_fail_stopped(place)
             : sr1__dist_fail_missing(d, "at", d->meetings, place, limit);
    return end_job(d, st, 1);
}

int64_t sr1__behind_limit(struct sr1__wait_limit limit)
{
    return sr1__to_ms(limit.seconds + 5.0);
}

static int64_t transport_limit(const struct sr1__dist *d)
{
    return sr1__behind_limit(d->limit);
}

/* A collective that was begun with status st. */
static sr1_status run_work(struct sr1__dist *d, sr1_status st, struct sr1__work *w,
                           const char *place, struct sr1__wait_limit limit)
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

/* Leave a mark at the store, by which others see who is missing. */
static sr1_status mark_arrival(struct sr1__dist *d)
{
    char at[24];

    if (!d->store)
        return SR1_OK;
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

    if (sr1__dist_read_mark(d, "error", d->meetings, rank, 0, text, sizeof(text)) !=
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

struct sr1__wait_limit sr1__limit_of_wrapper(const struct sr1__dist *d)
{
    return d->patience.seconds > d->limit.seconds ? d->patience : d->limit;
}

/* It says the same of a rank that is late and of one that is gone. */
static int is_late_for_wrapper(const struct sr1__dist *d, sr1_status st, double began)
{
    return d->debug && st == SR1_E_NETWORK &&
           sr1__now() - began >= sr1__limit_of_wrapper(d).seconds;
}

/* Tell all ranks a status and a size, and hear theirs (words_of). */
static sr1_status hold_meeting(struct sr1__dist *d, const char *place,
                               struct sr1__wait_limit limit, sr1_status code,
                               int64_t size)
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
        st =
            sr1__pg_all_to_all(&w, d->group, d->heard, d->said, sr1__behind_limit(limit));
    if (is_late_for_wrapper(d, st, began))
        return end_job(
            d,
            sr1__dist_fail_missing(d, "at", d->meetings, place, sr1__limit_of_wrapper(d)),
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
        (void)sr1__dist_read_mark(d, "error", d->meetings + 1, d->rank, 0, found,
                                  sizeof(found));
}

/* A meeting that only ranks without a failure leave with SR1_OK. */
static sr1_status agree_with_size(struct sr1__dist *d, const char *place,
                                  struct sr1__wait_limit limit, sr1_status st,
                                  size_t size)
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
