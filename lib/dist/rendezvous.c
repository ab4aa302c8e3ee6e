/* dist/rendezvous.c - how the processes of a job find each other: they meet at a store,
 * and then open the groups by which dist.c exchanges; how they part. */
#include "dist/dist_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "dist/ask_store.h"
#include "dist/nccl_bridge.h"
#include "dist/own_address.h"
#include "tensor/ops/scope.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAREWELL 2.0 /* seconds that the store waits for others' last words */
#define HANDOVER 3.0 /* seconds that rank 0 waits for its port, a bit longer */
#define TOKEN_MAX 24

static sr1_status open_store(struct sr1__dist *d, const struct sr1__launch *l,
                             const char *prefix, double limit)
{
    SR1__TRY(sr1__context(
        sr1__ask_for_store(&d->root, l, sr1__to_ms(limit), sr1__to_ms(d->limit.seconds)),
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
        sr1_status st = sr1__dist_read_mark(d, what, 0, rank, until, found, TOKEN_MAX);

        if (st != SR1_OK && st != SR1_E_TIMEOUT)
            return st;
        if (token ? strcmp(found, token) == 0 : found[0] != '\0')
            return SR1_OK;
        if (sr1__dist_is_stopped(d))
            return sr1__dist_fail_stopped(place);
        if (st != SR1_OK || sr1__now() >= until)
            return sr1__dist_fail_missing(d, token ? "here" : what, 0, place, d->limit);
        sr1__dist_pause(began);
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
        SR1__TRY(sr1__dist_read_mark(d, "here", 0, r, until, theirs, TOKEN_MAX));
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
        sr1__dist_pause(began);
    }
}

/* The threads that it starts write to ranks that may be gone, which is an error and no
 * signal: they inherit that SIGPIPE is blocked. */
static sr1_status open_gloo(struct sr1__process_group **out, struct sr1__dist *d,
                            struct sr1__store *at, struct sr1__wait_limit limit)
{
    sigset_t pipe_signal, before;
    sr1_status st;

    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    st = sr1__pg_gloo(out, at, d->rank, d->size, d->address, sr1__behind_limit(limit));
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return st;
}

static sr1_status open_group(struct sr1__process_group **out, struct sr1__dist *d,
                             const char *name, struct sr1__wait_limit limit)
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
        st = sr1__nccl_group(out, at, d->rank, d->size, d->device,
                             sr1__behind_limit(d->limit));
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
    SR1__TRY(open_group(&d->helper, d, "helper/", sr1__limit_of_wrapper(d)));
    SR1__TRY(sr1__pg_checked(&d->group, d->plain, d->helper));
    if (!d->by_nccl)
        return SR1_OK;
    SR1__TRY(open_bulk(&d->plain_bulk, d));
    return sr1__pg_checked(&d->bulk, d->plain_bulk, d->helper);
}

static sr1_status open_dist(struct sr1__dist *d, const struct sr1__launch *l)
{
    sr1__comm_quiet();
    SR1__TRY(sr1__own_address(l->master_addr, l->master_port, d->address));
    SR1__TRY(sr1__dist_make_words(d));
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
    sr1__dist_free_groups(d, 0);
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
    d->limit = (struct sr1__wait_limit){o->limit, "distributed_timeout"};
    d->patience = (struct sr1__wait_limit){o->patience, "rollout_timeout"};
    d->debug = o->debug;
    d->stop = o->stop;
    SR1__RETURN_NEW(out, d, open_dist(d, l), sr1__dist_free);
}

static sr1_status open_split(struct sr1__dist *g, struct sr1__dist *d, const char *prefix)
{
    SR1__TRY(sr1__dist_make_words(g));
    if (!d->store)
        return sr1__fail(SR1_E_NETWORK, "the job's store was given up");
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
    g->whole = d;
    memcpy(g->address, d->address, sizeof(g->address));
    snprintf(prefix, sizeof(prefix), "%.64s/%" PRId32 "/", of->name, of->group);
    SR1__RETURN_NEW(out, g, open_split(g, d, prefix), sr1__dist_free);
}
