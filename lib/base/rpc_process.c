/* base/rpc_process.c - see rpc_process.h. There is no thread: of the callers that wait
 * one moves the lines of all, both ways at once and without the lock (a turn), and hands
 * each answer to the caller whose it is. Lines to be written are queued: one that was
 * begun is written to its end, whoever has stopped waiting for it. */
#include "base/rpc_process.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TICK_S 0.25    /* after which a turn ends, and a caller looks whether to stop */
#define MAX_FAILURES 3 /* in a row, after which it rests */
#define REST_S 10.0
#define STOP_S 3.0                    /* for an answer, once a stop was asked for */
#define MAX_ANSWERS 1024              /* to its own requests that it has not read */
#define MAX_QUEUED ((size_t)16 << 20) /* bytes, beyond which a notification waits */
#define FLUSH_S 0.5                   /* for what is queued when it is freed */

/* A line to be written. */
struct outgoing {
    struct outgoing *next;
    struct sr1__buf text;
    size_t written;
    int begun;
    int64_t sender; /* of the pending one; 0: an answer to a request of its own */
};

/* A caller that waits: for an answer, or until its notification is written. */
struct pending {
    struct pending *next;
    int64_t id, incarnation;
    int notifies;
    int done;
    sr1_status status;
    struct sr1__error error;
    struct sr1__rpc_reply reply;
};

struct sr1__rpc_process {
    struct sr1__rpc_options o;
    char *name, *folder;
    char **argv, **extra;
    int wake; /* readable: whoever has the turn is to look at the queue */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sr1__line_process *program; /* NULL: none runs */
    struct outgoing *queue;
    size_t n_answers, n_queued; /* in the queue; its bytes */
    struct pending *pending;
    struct sr1__buf line; /* of whoever has the turn */
    int64_t next_id;
    int64_t incarnation;      /* counts its starts */
    int turn;                 /* a caller has it, without the lock */
    int changing;             /* a caller starts or ends it, without the lock */
    double heard;             /* when it wrote the last line */
    struct sr1__error doomed; /* code not SR1_OK: it is to be ended for this */
    int failures;             /* in a row */
    double rests;             /* until then */
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
    r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    st = r->wake < 0 ? sr1__fail_errno("open", "an event descriptor") : copy_options(r);
    SR1__RETURN_NEW(out, r, st, sr1__rpc_free);
}

/* ---- callers that wait; with the lock held ---- */

static void add_pending(struct sr1__rpc_process *r, struct pending *p, int notifies)
{
    *p = (struct pending){.next = r->pending,
                          .id = ++r->next_id,
                          .incarnation = r->incarnation,
                          .notifies = notifies};
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

static struct pending *find_pending(const struct sr1__rpc_process *r, int64_t id,
                                    int notifies)
{
    struct pending *p = r->pending;

    while (p && (p->id != id || p->notifies != notifies || p->done))
        p = p->next;
    return p;
}

/* An answer that nobody waits for any more is dropped. */
static void deliver_reply(struct sr1__rpc_process *r, int64_t id,
                          struct sr1__rpc_reply *reply)
{
    struct pending *p = find_pending(r, id, 0);

    if (!p) {
        sr1__rpc_reply_free(reply);
        return;
    }
    p->done = 1;
    p->reply = *reply;
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

/* ---- lines to be written; with the lock held ---- */

static void wake_turn(struct sr1__rpc_process *r)
{
    uint64_t one = 1;

    if (r->turn)
        (void)!write(r->wake, &one, sizeof one);
}

/* Out of the queue, where *at is one. */
static void remove_outgoing(struct sr1__rpc_process *r, struct outgoing **at)
{
    struct outgoing *m = *at;

    *at = m->next;
    r->n_queued -= m->text.len;
    r->n_answers -= m->sender == 0;
    sr1__buf_free(&m->text);
    sr1__free(m);
}

static void clear_queue(struct sr1__rpc_process *r)
{
    while (r->queue)
        remove_outgoing(r, &r->queue);
}

/* Takes what is in text. */
static sr1_status queue_line(struct sr1__rpc_process *r, struct sr1__buf *text,
                             int64_t sender)
{
    struct outgoing **at = &r->queue, *m;

    sr1__buf_char(text, '\n');
    SR1__TRY(sr1__buf_status(text, "a line for a program"));
    SR1__CALLOC(m, 1, "a line for a program");
    m->text = *text;
    m->sender = sender;
    sr1__buf_init(text, 0);
    while (*at)
        at = &(*at)->next;
    *at = m;
    r->n_queued += m->text.len;
    r->n_answers += sender == 0;
    wake_turn(r);
    return SR1_OK;
}

/* Nobody waits for it any more, and nothing of it is written. */
static void withdraw_line(struct sr1__rpc_process *r, int64_t sender)
{
    struct outgoing **at = &r->queue;

    while (*at && (*at)->sender != sender)
        at = &(*at)->next;
    if (*at && !(*at)->begun)
        remove_outgoing(r, at);
}

/* The first of the queue is written up to there. */
static void note_written(struct sr1__rpc_process *r, size_t n)
{
    struct outgoing *m = r->queue;
    struct pending *p;

    m->written += n;
    if (m->written < m->text.len)
        return;
    p = find_pending(r, m->sender, 1);
    if (p)
        p->done = 1;
    remove_outgoing(r, &r->queue);
}

/* ---- a turn ---- */

static sr1_status queue_answer(struct sr1__rpc_process *r, struct sr1__buf *answer)
{
    if (r->n_answers >= MAX_ANSWERS)
        return sr1__fail(SR1_E_LIMIT, "%s: it asks, and does not read the answers",
                         r->name);
    return queue_line(r, answer, 0);
}

/* A line that the program has written. What it asks is answered. */
static sr1_status take_message(struct sr1__rpc_process *r, const struct sr1__buf *line)
{
    struct sr1__rpc_reply reply = {0};
    struct sr1__buf answer;
    enum sr1__rpc_kind kind;
    int64_t id = 0;
    sr1_status st;

    r->heard = sr1__now();
    if (line->len == 0)
        return SR1_OK;
    sr1__buf_init(&answer, 0);
    st = sr1__context(
        sr1__rpc_read(sr1__buf_cstr(line), line->len, &kind, &id, &reply, &answer),
        "%s wrote what is no message of JSON-RPC", r->name);
    if (st == SR1_OK && kind == SR1__RPC_ANSWER)
        deliver_reply(r, id, &reply);
    if (st == SR1_OK && kind == SR1__RPC_REQUEST)
        st = queue_answer(r, &answer);
    sr1__buf_free(&answer);
    return st;
}

/* All that wait fail with st. It is ended without the lock, which takes a while; other
 * callers wait. */
static void drop_program(struct sr1__rpc_process *r, sr1_status st)
{
    struct sr1__line_process *program = r->program;
    int starting = r->changing;

    if (!starting) /* else whoever starts it counts that */
        note_failure(r, st);
    fail_pending(r, st);
    clear_queue(r);
    r->program = NULL;
    r->doomed.code = SR1_OK;
    r->changing = 1;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    sr1__line_process_free(program);
    pthread_mutex_lock(&r->lock);
    r->changing = starting;
    pthread_cond_broadcast(&r->changed);
}

/* Move lines for a while without the lock. Called and left with it. */
static void take_turn(struct sr1__rpc_process *r, double until)
{
    struct sr1__line_exchange x = {.line = &r->line};
    struct outgoing *m = r->queue;
    double tick = sr1__now() + TICK_S;
    uint64_t woken;
    sr1_status st;

    if (m) {
        m->begun = 1;
        x.text = m->text.data + m->written;
        x.n = m->text.len - m->written;
    }
    r->turn = 1;
    pthread_mutex_unlock(&r->lock);
    st = sr1__line_process_exchange(r->program, &x, r->wake, until < tick ? until : tick);
    (void)!read(r->wake, &woken, sizeof woken);
    pthread_mutex_lock(&r->lock);
    r->turn = 0;
    if (m)
        note_written(r, x.written);
    if (st == SR1_OK && x.came)
        st = take_message(r, &r->line);
    if (st == SR1_E_TIMEOUT)
        st = SR1_OK;
    if (st == SR1_OK && r->doomed.code != SR1_OK)
        st = sr1__error_raise(&r->doomed);
    if (st != SR1_OK)
        drop_program(r, st);
    pthread_cond_broadcast(&r->changed);
}

/* ---- waiting ---- */

/* *stop: when a stop was first seen. */
static int has_waited_on_stop(const struct sr1__rpc_process *r, double *stop)
{
    if (!r->o.stop || !atomic_load(r->o.stop))
        return 0;
    if (*stop == 0)
        *stop = sr1__now();
    return sr1__now() >= *stop + STOP_S;
}

/* Until a caller has done with it, or it is too late. */
static void await_broadcast(struct sr1__rpc_process *r, double until)
{
    double tick = sr1__now() + TICK_S;
    struct timespec t = sr1__clock_time(until < tick ? until : tick);

    pthread_cond_timedwait(&r->changed, &r->lock, &t);
}

/* A program that has said nothing since then is at fault for a late answer; one that
 * answers others is only busy. */
static void end_silent_program(struct sr1__rpc_process *r, double since, sr1_status st)
{
    if (!r->program || r->heard > since)
        return;
    if (r->turn) { /* whoever has it ends the program */
        sr1__error_save(&r->doomed, st);
        wake_turn(r);
        return;
    }
    drop_program(r, st);
}

/* Until the caller's own is done, or it is too late: what came of it. */
static sr1_status await_reply(struct sr1__rpc_process *r, struct pending *p,
                              const char *method, double until)
{
    double stop = 0;

    while (!p->done && sr1__now() < until && !has_waited_on_stop(r, &stop)) {
        if (r->program && !r->turn)
            take_turn(r, until);
        else
            await_broadcast(r, until);
    }
    if (p->done)
        return p->status != SR1_OK ? sr1__error_raise(&p->error) : SR1_OK;
    if (sr1__now() < until)
        return sr1__fail(SR1_E_CANCELLED, "%s: %s was stopped on request", r->name,
                         method);
    return sr1__fail(SR1_E_TIMEOUT, "%s: no answer to %s in time", r->name, method);
}

/* A notification may be left in the queue; whatever comes next writes it. */
static sr1_status await_message(struct sr1__rpc_process *r, struct pending *p,
                                const char *method, double until)
{
    if (p->notifies && !r->turn)
        take_turn(r, sr1__now());
    if (p->notifies && !p->done && r->n_queued <= MAX_QUEUED)
        return SR1_OK;
    return await_reply(r, p, method, until);
}

/* To the program that runs, with the lock held. began: of the caller's time. */
static sr1_status send_message(struct sr1__rpc_process *r, const char *method,
                               json_t *params, double began, double until,
                               struct sr1__rpc_reply *reply)
{
    struct pending p;
    struct sr1__buf text;
    sr1_status st;

    sr1__buf_init(&text, 0);
    add_pending(r, &p, reply == NULL);
    st = sr1__rpc_write_request(&text, reply ? p.id : 0, method, params);
    if (st == SR1_OK)
        st = queue_line(r, &text, p.id);
    sr1__buf_free(&text);
    if (st == SR1_OK)
        st = await_message(r, &p, method, until);
    if (st != SR1_OK)
        withdraw_line(r, p.id);
    remove_pending(r, &p);
    if (st == SR1_OK && reply) {
        *reply = p.reply;
        reply->incarnation = p.incarnation;
    }
    if (!p.done && st == SR1_E_TIMEOUT)
        end_silent_program(r, began, st);
    return st;
}

sr1_status sr1__rpc_exchange(struct sr1__rpc_process *r, const char *method,
                             json_t *params, double until, struct sr1__rpc_reply *reply)
{
    sr1_status st;

    pthread_mutex_lock(&r->lock);
    st = r->program ? send_message(r, method, params, -INFINITY, until, reply)
                    : sr1__fail(SR1_E_NETWORK, "%s: it has ended", r->name);
    pthread_mutex_unlock(&r->lock);
    return st;
}

/* ---- the program ---- */

/* Start it, and shake hands without the lock; other callers wait. */
static sr1_status start_program(struct sr1__rpc_process *r)
{
    struct sr1__line_process *program = NULL;
    sr1_status st;

    r->changing = 1;
    r->incarnation++;
    pthread_mutex_unlock(&r->lock);
    st = sr1__line_process_start(&program, &r->o.program);
    pthread_mutex_lock(&r->lock);
    r->program = program;
    if (st == SR1_OK && r->o.begin) {
        pthread_mutex_unlock(&r->lock);
        st = r->o.begin(r->o.self, r, sr1__now() + r->o.start_s);
        pthread_mutex_lock(&r->lock);
    }
    if (st != SR1_OK && r->program)
        drop_program(r, st);
    if (st != SR1_OK && st != SR1_E_CANCELLED)
        note_failure(r, st);
    r->changing = 0;
    pthread_cond_broadcast(&r->changed);
    return st;
}

/* A program that runs and was greeted. */
static sr1_status need_program(struct sr1__rpc_process *r, double until)
{
    double stop = 0;

    while (r->changing && sr1__now() < until && !has_waited_on_stop(r, &stop))
        await_broadcast(r, until);
    if (r->changing)
        return sr1__fail(has_waited_on_stop(r, &stop) ? SR1_E_CANCELLED : SR1_E_TIMEOUT,
                         "%s: it is still being started", r->name);
    if (r->program)
        return SR1_OK;
    if (sr1__now() < r->rests)
        return sr1__error_raise(&r->last);
    return start_program(r);
}

sr1_status sr1__rpc_call(struct sr1__rpc_process *r, const char *method, json_t *params,
                         double until, struct sr1__rpc_reply *reply)
{
    double began = sr1__now();
    sr1_status st;

    pthread_mutex_lock(&r->lock);
    st = need_program(r, until);
    if (st == SR1_OK)
        st = send_message(r, method, params, began, until, reply);
    if (st == SR1_OK)
        r->failures = 0;
    pthread_mutex_unlock(&r->lock);
    return st;
}

sr1_status sr1__rpc_notify(struct sr1__rpc_process *r, const char *method, json_t *params,
                           double until, int64_t *incarnation)
{
    double began = sr1__now();
    int64_t only = incarnation ? *incarnation : 0, told;
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&r->lock);
    if (only == 0)
        st = need_program(r, until);
    told = r->incarnation;
    if (st == SR1_OK && (only == 0 || (r->program && only == told)))
        st = send_message(r, method, params, began, until, NULL);
    pthread_mutex_unlock(&r->lock);
    if (st == SR1_OK && only == 0 && incarnation)
        *incarnation = told;
    return st;
}

sr1_status sr1__rpc_start(struct sr1__rpc_process *r, double until, int64_t *incarnation)
{
    sr1_status st;

    pthread_mutex_lock(&r->lock);
    st = need_program(r, until);
    if (st == SR1_OK)
        *incarnation = r->incarnation;
    pthread_mutex_unlock(&r->lock);
    return st;
}

void sr1__rpc_watch(struct sr1__rpc_process *r, const atomic_int *stop)
{
    pthread_mutex_lock(&r->lock);
    r->o.stop = stop;
    pthread_mutex_unlock(&r->lock);
}

/* What is queued, for a moment. The error that its owner frees it for stays. */
static void write_rest(struct sr1__rpc_process *r)
{
    double until = sr1__now() + FLUSH_S;
    struct sr1__error before;

    sr1__error_save(&before, SR1_E_INTERNAL);
    pthread_mutex_lock(&r->lock);
    while (r->program && r->queue && sr1__now() < until)
        take_turn(r, until);
    pthread_mutex_unlock(&r->lock);
    (void)sr1__error_raise(&before);
}

void sr1__rpc_free(struct sr1__rpc_process *r)
{
    if (!r)
        return;
    write_rest(r);
    sr1__line_process_free(r->program);
    clear_queue(r);
    if (r->wake >= 0)
        close(r->wake);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    sr1__buf_free(&r->line);
    free_list(r->argv);
    free_list(r->extra);
    sr1__free(r->name);
    sr1__free(r->folder);
    sr1__free(r);
}

const char *sr1__rpc_name(const struct sr1__rpc_process *r)
{
    return r->name;
}
