/* dist/ask_store.c - see ask_store.h. */
#include "dist/ask_store.h"

#include "base/clock.h"
#include "base/executor.h"
#include "base/mem.h"
#include "base/num.h"
#include "dist/dist_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_SECONDS 2.0 /* that the store is given */

/* Run a task that may never return: 1 it has, 0 it is abandoned after `seconds` and frees
 * its arg one day, -1 it could not begin. */
static int run_within(struct sr1__task *task, double seconds)
{
    struct sr1__executor *x = NULL;
    int ended = -1;

    if (sr1__executor_new(&x, "distributed", 1, 0) != SR1_OK)
        return -1;
    if (sr1__executor_submit(x, task) == SR1_OK)
        ended = sr1__executor_wait(x, task, sr1__now() + seconds);
    sr1__executor_free(x);
    return ended;
}

/* ---- the store ---- */

struct store_opening {
    struct sr1__launch launch;
    int64_t connect_ms, limit_ms;
    struct sr1__store *store;
    sr1_status status;
    struct sr1__error error;
};

static void connect_to_store(void *arg)
{
    struct store_opening *o = arg;
    const struct sr1__launch *l = &o->launch;

    o->status = sr1__store_tcp(&o->store, l->master_addr, l->master_port,
                               l->rank == 0 && !l->agent_store, l->world_size,
                               o->connect_ms, o->limit_ms);
    sr1__error_save(&o->error, o->status);
}

static void free_store_opening(void *arg)
{
    struct store_opening *o = arg;

    sr1__store_free(o->store);
    sr1__free(o);
}

sr1_status sr1__ask_for_store(struct sr1__store **out, const struct sr1__launch *l,
                              int64_t connect_ms, int64_t limit_ms)
{
    struct store_opening *o;
    struct sr1__task task = {.run = connect_to_store, .free = free_store_opening};
    int ended;
    sr1_status st;

    SR1__CALLOC(o, 1, "store");
    *o = (struct store_opening){
        .launch = *l, .connect_ms = connect_ms, .limit_ms = limit_ms};
    task.arg = o;
    ended = run_within(&task, (double)connect_ms / 1000.0 + ANSWER_SECONDS);
    if (ended == 0)
        return sr1__fail(SR1_E_TIMEOUT,
                         "port %u of %s does not answer as rank 0's store; another "
                         "program may have it: set another MASTER_PORT",
                         (unsigned)l->master_port, l->master_addr);
    if (ended < 0) {
        st = sr1__fail(SR1_E_LIMIT, "the system refused a thread for the store");
    } else {
        st = sr1__error_raise(&o->error);
        *out = o->store;
    }
    sr1__free(o);
    return st;
}

/* ---- marks ---- */

#define KEY_MAX 64

static void name_mark(const char *what, int64_t meeting, int32_t rank, char key[KEY_MAX])
{
    snprintf(key, KEY_MAX, "%s/%" PRId64 "/%" PRId32, what, meeting, rank);
}

sr1_status sr1__mark_leave(struct sr1__store *s, const char *what, int64_t meeting,
                           int32_t rank, const char *text)
{
    char key[KEY_MAX];

    if (!s)
        return sr1__fail(SR1_E_NETWORK, "the job's store was given up");
    name_mark(what, meeting, rank, key);
    return sr1__store_set(s, key, text, strlen(text));
}

/* text: "" where there is no such mark. */
static sr1_status read_mark(struct sr1__store *s, const char *what, int64_t meeting,
                            int32_t rank, char *text, size_t size)
{
    char key[KEY_MAX];
    const char *keys = key;
    size_t n = 0;
    int there = 0;

    memset(text, 0, size);
    name_mark(what, meeting, rank, key);
    SR1__TRY(sr1__store_has(s, &keys, 1, &there));
    return there ? sr1__store_get(s, key, text, size - 1, &n) : SR1_OK;
}

struct mark_reading {
    struct sr1__mark mark;
    atomic_int ended;
};

static void run_reading(void *arg)
{
    struct mark_reading *r = arg;
    struct sr1__mark *m = &r->mark;

    sr1__error_save(&m->error, read_mark(m->store, m->what, m->meeting, m->rank, m->text,
                                         sizeof(m->text)));
    atomic_store(&r->ended, 1);
}

static void free_reading(void *arg)
{
    struct mark_reading *r = arg;

    sr1__store_free(r->mark.store);
    sr1__store_free(r->mark.root);
    sr1__free(r);
}

static int is_over(const struct mark_reading *r, double least, double until,
                   const atomic_int *stop)
{
    double now = sr1__now();

    return atomic_load(&r->ended) ||
           (now >= least && (now >= until || (stop && atomic_load(stop))));
}

/* As run_within, until a time or a stop flag. */
static int run_reading_until(struct sr1__task *task, double until, const atomic_int *stop)
{
    const struct mark_reading *r = task->arg;
    struct sr1__executor *x = NULL;
    double began = sr1__now();
    int ended = -1;

    if (sr1__executor_new(&x, "distributed", 1, 0) != SR1_OK)
        return -1;
    if (sr1__executor_submit(x, task) == SR1_OK) {
        while (!is_over(r, began + ANSWER_SECONDS, until, stop))
            sr1__dist_pause(began);
        ended = sr1__executor_wait(x, task, atomic_load(&r->ended) ? INFINITY : 0.0);
    }
    sr1__executor_free(x);
    return ended;
}

int sr1__mark_read(struct sr1__mark *m, double until, const atomic_int *stop)
{
    struct mark_reading *r = sr1__malloc(sizeof(*r));
    struct sr1__task task = {.run = run_reading, .free = free_reading, .arg = r};
    int ended;

    if (!r)
        return -1;
    r->mark = *m;
    atomic_init(&r->ended, 0);
    ended = run_reading_until(&task, until, stop);
    if (ended == 0)
        return 0;
    if (ended == 1)
        *m = r->mark;
    sr1__free(r);
    return ended;
}

/* ---- the roll call ---- */

static int has_come(struct sr1__roll_call *c, int32_t rank)
{
    char at[24];
    int64_t seen = 0;

    if (read_mark(c->store, c->what, 0, rank, at, sizeof(at)) != SR1_OK)
        c->failed = 1;
    if (at[0] == '\0' || c->meeting == 0)
        return at[0] != '\0';
    return sr1__parse_int(at, strlen(at), &seen) && seen >= c->meeting;
}

static void run_call(void *arg)
{
    struct sr1__roll_call *c = arg;
    size_t n = 0;

    for (int32_t r = 0; r < c->size && !c->failed; r++) {
        if (has_come(c, r))
            continue;
        if (n < sizeof(c->names))
            n += (size_t)snprintf(c->names + n, sizeof(c->names) - n, "%s%" PRId32,
                                  c->missing ? ", " : "", c->first + r * c->stride);
        c->missing++;
    }
    if (c->failed)
        c->missing = 0;
}

static void free_call(void *arg)
{
    struct sr1__roll_call *c = arg;

    sr1__store_free(c->store);
    sr1__store_free(c->root);
    sr1__free(c);
}

int sr1__call_roll(struct sr1__roll_call *call)
{
    struct sr1__roll_call *c = sr1__malloc(sizeof(*c));
    struct sr1__task task = {.run = run_call, .free = free_call, .arg = c};
    int ended;

    if (!c)
        return -1;
    *c = *call;
    ended = run_within(&task, ANSWER_SECONDS);
    if (ended == 0)
        return 0;
    if (ended == 1)
        *call = *c;
    sr1__free(c);
    return ended;
}
