/* base/rpc_process.c - see rpc_process.h. There is no thread: of the callers that wait
 * one reads, and hands each answer to the caller whose it is. */
#include "base/rpc_process.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#define TICK_S 0.25    /* after which a reader looks whether its time is up */
#define MAX_FAILURES 3 /* in a row, after which it rests */
#define REST_S 10.0
#define WRITE_S 10.0     /* for one message */
#define LAST_WORDS_S 1.0 /* for what a program wrote before it went */

struct pending {
    struct pending *next;
    int64_t id;
    int done;
    sr1_status status;
    struct sr1__error error;
    struct sr1__rpc_reply reply;
};

struct sr1__rpc_process {
    struct sr1__rpc_options o;
    char *name, *folder;
    char **argv, **extra;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sr1__line_process *program; /* NULL: none runs */
    struct pending *pending;
    struct sr1__buf line; /* the reader's */
    int64_t next_id;
    int reading;  /* a caller does, without the lock */
    int starting; /* likewise */
    int torn;     /* part of a line may be written, which the next would continue */
    int failures; /* in a row */
    double rests; /* until then */
    struct sr1__error last;
};

/* ---- options ---- */

static void free_list(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        sr1__free(list[i]);
    sr1__free(list);
}

static sr1_status copy_list(char ***out, const char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    *out = sr1__calloc(n + 1, sizeof **out);
    for (size_t i = 0; *out && i < n; i++)
        if (!((*out)[i] = sr1__strdup(list[i])))
            return sr1__fail_nomem("a program");
    return *out ? SR1_OK : sr1__fail_nomem("a program");
}

static sr1_status copy_options(struct sr1__rpc_process *r)
{
    struct sr1__line_process_options *p = &r->o.program;

    SR1__TRY(copy_list(&r->argv, p->argv));
    SR1__TRY(copy_list(&r->extra, p->extra));
    r->name = sr1__strdup(p->name);
    r->folder = p->folder ? sr1__strdup(p->folder) : NULL;
    if (!r->name || (p->folder && !r->folder))
        return sr1__fail_nomem("a program");
    p->name = r->name;
    p->folder = r->folder;
    p->argv = (const char *const *)r->argv;
    p->extra = (const char *const *)r->extra;
    return SR1_OK;
}

sr1_status sr1__rpc_new(struct sr1__rpc_process **out, const struct sr1__rpc_options *o)
{
    struct sr1__rpc_process *r;
    sr1_status st;

    SR1__CALLOC(r, 1, "a program");
    pthread_mutex_init(&r->lock, NULL);
    sr1__cond_init(&r->changed);
    sr1__buf_init(&r->line, 0);
    r->o = *o;
    st = copy_options(r);
    SR1__RETURN_NEW(out, r, st, sr1__rpc_free);
}

void sr1__rpc_free(struct sr1__rpc_process *r)
{
    if (!r)
        return;
    sr1__line_process_free(r->program);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    sr1__buf_free(&r->line);
    free_list(r->argv);
    free_list(r->extra);
    sr1__free(r->name);
    sr1__free(r->folder);
    sr1__free(r);
}

/* ---- answers; with the lock held ---- */

static void add_pending(struct sr1__rpc_process *r, struct pending *p)
{
    *p = (struct pending){.next = r->pending, .id = ++r->next_id};
    r->pending = p;
}

static void remove_pending(struct sr1__rpc_process *r, const struct pending *p)
{
    struct pending **at = &r->pending;

    while (*at && *at != p)
        at = &(*at)->next;
    if (*at)
        *at = p->next;
}

/* An answer that nobody waits for any more is dropped. */
static void deliver_reply(struct sr1__rpc_process *r, int64_t id,
                          struct sr1__rpc_reply *reply)
{
    for (struct pending *p = r->pending; p; p = p->next) {
        if (p->id != id || p->done)
            continue;
        p->done = 1;
        p->reply = *reply;
        return;
    }
    sr1__rpc_reply_free(reply);
}

/* The program is of no use any more: all that wait for it fail. */
static void fail_pending(struct sr1__rpc_process *r, sr1_status status)
{
    for (struct pending *p = r->pending; p; p = p->next) {
        if (p->done)
            continue;
        p->done = 1;
        p->status = status;
        sr1__error_save(&p->error, status);
    }
}

static void note_failure(struct sr1__rpc_process *r, sr1_status status)
{
    sr1__error_save(&r->last, status);
    if (++r->failures >= MAX_FAILURES)
        r->rests = sr1__now() + REST_S;
}

/* ---- the program ---- */

static sr1_status write_line(struct sr1__rpc_process *r, const struct sr1__buf *text,
                             double until)
{
    double patience = sr1__now() + WRITE_S;
    sr1_status st =
        sr1__line_process_write(r->program, sr1__buf_cstr(text), text->len, !r->reading,
                                until < patience ? until : patience);

    r->torn |= st != SR1_OK;
    return st;
}

/* A line that the program has written. What it asks is answered. */
static sr1_status take_message(struct sr1__rpc_process *r, const struct sr1__buf *line)
{
    struct sr1__rpc_reply reply = {0};
    struct sr1__buf answer;
    enum sr1__rpc_kind kind;
    int64_t id = 0;
    sr1_status st;

    if (line->len == 0)
        return SR1_OK;
    sr1__buf_init(&answer, 0);
    st = sr1__context(
        sr1__rpc_read(sr1__buf_cstr(line), line->len, &kind, &id, &reply, &answer),
        "%s wrote what is no message of JSON-RPC", r->name);
    if (st == SR1_OK && kind == SR1__RPC_ANSWER)
        deliver_reply(r, id, &reply);
    if (st == SR1_OK && kind == SR1__RPC_REQUEST)
        st = write_line(r, &answer, INFINITY);
    sr1__buf_free(&answer);
    return st;
}

/* Read one line without the lock. Called and left with it. */
static void read_message(struct sr1__rpc_process *r, double until)
{
    double tick = sr1__now() + TICK_S;
    sr1_status st;

    r->reading = 1;
    pthread_mutex_unlock(&r->lock);
    st = sr1__line_process_read(r->program, &r->line, until < tick ? until : tick);
    pthread_mutex_lock(&r->lock);
    r->reading = 0;
    if (st == SR1_OK)
        st = take_message(r, &r->line);
    if (st != SR1_OK && st != SR1_E_TIMEOUT) {
        note_failure(r, st);
        fail_pending(r, st);
        sr1__line_process_free(r->program);
        r->program = NULL;
    }
    pthread_cond_broadcast(&r->changed);
}

/* Until the answer is there, or it is too late. */
static void wait_for_reply(struct sr1__rpc_process *r, struct pending *p, double until)
{
    while (!p->done && sr1__now() < until) {
        if (r->program && !r->reading) {
            read_message(r, until);
        } else {
            struct timespec t = sr1__clock_time(
                until < sr1__now() + TICK_S ? until : sr1__now() + TICK_S);

            pthread_cond_timedwait(&r->changed, &r->lock, &t);
        }
    }
}

/* A request to the program that runs, with the lock held. */
static sr1_status send_request(struct sr1__rpc_process *r, const char *method,
                               json_t *params, double until, struct sr1__rpc_reply *reply)
{
    struct pending p;
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    add_pending(r, &p);
    st = sr1__rpc_write_request(&text, p.id, method, params);
    if (st == SR1_OK)
        st = write_line(r, &text, until);
    sr1__buf_free(&text);
    if (st == SR1_E_NETWORK) { /* its last words say more */
        wait_for_reply(r, &p, sr1__now() + LAST_WORDS_S);
        st = p.done ? sr1__error_raise(&p.error) : st;
    } else if (st == SR1_OK) {
        wait_for_reply(r, &p, until);
        st = !p.done ? sr1__fail(SR1_E_TIMEOUT, "%s: no answer to %s in time", r->name,
                                 method)
             : p.status != SR1_OK ? sr1__error_raise(&p.error)
                                  : SR1_OK;
    }
    remove_pending(r, &p);
    if (st == SR1_OK)
        *reply = p.reply;
    return st;
}

sr1_status sr1__rpc_exchange(struct sr1__rpc_process *r, const char *method,
                             json_t *params, double until, struct sr1__rpc_reply *reply)
{
    sr1_status st;

    pthread_mutex_lock(&r->lock);
    st = r->program ? send_request(r, method, params, until, reply)
                    : sr1__fail(SR1_E_NETWORK, "%s: it has ended", r->name);
    pthread_mutex_unlock(&r->lock);
    return st;
}

sr1_status sr1__rpc_notify(struct sr1__rpc_process *r, const char *method, json_t *params,
                           double until)
{
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    st = sr1__rpc_write_request(&text, 0, method, params);
    pthread_mutex_lock(&r->lock);
    if (st == SR1_OK && r->program)
        st = write_line(r, &text, until);
    pthread_mutex_unlock(&r->lock);
    sr1__buf_free(&text);
    return st;
}

/* Start it, and shake hands without the lock; other callers wait. */
static sr1_status start_program(struct sr1__rpc_process *r)
{
    sr1_status st;

    r->starting = 1;
    r->torn = 0;
    st = sr1__line_process_start(&r->program, &r->o.program);
    if (st == SR1_OK && r->o.begin) {
        pthread_mutex_unlock(&r->lock);
        st = r->o.begin(r->o.self, r, sr1__now() + r->o.start_s);
        pthread_mutex_lock(&r->lock);
    }
    r->starting = 0;
    if (st != SR1_OK) {
        sr1__line_process_free(r->program);
        r->program = NULL;
        note_failure(r, st);
    }
    pthread_cond_broadcast(&r->changed);
    return st;
}

/* A program that runs and was greeted. */
static sr1_status need_program(struct sr1__rpc_process *r, double until)
{
    while (r->starting && sr1__now() < until) {
        struct timespec t = sr1__clock_time(until);

        pthread_cond_timedwait(&r->changed, &r->lock, &t);
    }
    if (r->starting)
        return sr1__fail(SR1_E_TIMEOUT, "%s: it is still being started", r->name);
    if (r->program)
        return SR1_OK;
    if (sr1__now() < r->rests)
        return sr1__error_raise(&r->last);
    return start_program(r);
}

/* A line was torn. */
static void drop_program(struct sr1__rpc_process *r, sr1_status st)
{
    note_failure(r, st);
    if (r->reading) { /* who reads it notices that it has ended */
        sr1__line_process_kill(r->program);
        return;
    }
    fail_pending(r, st);
    sr1__line_process_free(r->program);
    r->program = NULL;
}

sr1_status sr1__rpc_call(struct sr1__rpc_process *r, const char *method, json_t *params,
                         double until, struct sr1__rpc_reply *reply)
{
    sr1_status st;

    pthread_mutex_lock(&r->lock);
    st = need_program(r, until);
    if (st == SR1_OK)
        st = send_request(r, method, params, until, reply);
    if (st == SR1_OK)
        r->failures = 0;
    else if (r->torn && r->program)
        drop_program(r, st);
    pthread_mutex_unlock(&r->lock);
    return st;
}

sr1_status sr1__rpc_start(struct sr1__rpc_process *r, double until)
{
    sr1_status st;

    pthread_mutex_lock(&r->lock);
    st = need_program(r, until);
    pthread_mutex_unlock(&r->lock);
    return st;
}

const char *sr1__rpc_name(const struct sr1__rpc_process *r)
{
    return r->name;
}
