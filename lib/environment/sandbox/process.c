/* environment/sandbox/process.c - one program from its start to its outcome. */
#include "environment/sandbox/process.h"

#include "base/clock.h"
#include "base/mem.h"
#include "environment/sandbox/memory_monitor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)
#define FIRST_LOOK_S 0.05 /* most programs end before it */
#define LOOK_S 0.1
#define KILL_AGAIN_S 0.02
#define FORCE_S 5.0 /* bubblewrap should have got somewhere by then */
#define NAMES_MAX 65536
#define NOTE_MAX 4096
#define CHUNK 65536
#define CHUNKS 16 /* of one stream before the others have their turn */

/* ---- starting ---- */

static void free_live(struct sr1__process *l, struct sr1__launch_plan *place)
{
    sr1__launch_plan_end(place, &l->at);
    sr1__capture_free(&l->out_text);
    sr1__capture_free(&l->err_text);
    sr1__buf_free(&l->note);
    sr1__free(l);
}

static sr1_status set_up_process(struct sr1__process *l, struct sr1__launch_plan *place)
{
    sr1__process_tree_init(&l->at);
    sr1__buf_init(&l->note, NOTE_MAX);
    SR1__TRY(
        sr1__capture_init(&l->out_text, (size_t)l->run->job->limits.output_bytes, 0));
    SR1__TRY(sr1__capture_init_ends(&l->err_text, (size_t)place->o->error_bytes));
    return sr1__launch_plan_launch(place, l->run->job, &l->at);
}

sr1_status sr1__process_start(struct sr1__process **out, struct sr1__launch_plan *place,
                              struct sr1_execution *run)
{
    struct sr1__process *l = sr1__calloc(1, sizeof(*l));
    sr1_status st;

    if (l == NULL) {
        sr1__outcome_set(&run->outcome, SR1_RUN_INFRASTRUCTURE, "out of memory");
        return SR1_E_NOMEM;
    }
    l->run = run;
    l->begun = sr1__now();
    l->look_at = l->begun + FIRST_LOOK_S;
    l->peak_bytes = -1;
    l->out = (struct sr1__event_source){l, &l->at.out};
    l->err = (struct sr1__event_source){l, &l->at.err};
    l->end = (struct sr1__event_source){l, &l->at.pidfd};
    st = set_up_process(l, place);
    if (st != SR1_OK) {
        sr1__outcome_set(&run->outcome, SR1_RUN_INFRASTRUCTURE, "%s", sr1_last_error());
        free_live(l, place);
        return st;
    }
    *out = l;
    return SR1_OK;
}

/* ---- while it runs ---- */

static void request_stop(struct sr1__process *l, enum sr1__stop why, double now)
{
    if (l->stop != SR1__STOP_NONE || l->has_ended)
        return;
    l->stop = why;
    l->stopped_at = now;
    l->look_at = now;
}

int sr1__process_read(struct sr1__process *l, const struct sr1__event_source *from)
{
    struct sr1__capture *c = from == &l->out ? &l->out_text : &l->err_text;
    int64_t most = l->run->job->limits.output_bytes;
    char bytes[CHUNK];

    for (int i = 0; i < CHUNKS && *from->fd >= 0; i++) {
        ssize_t n = read(*from->fd, bytes, sizeof bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 1;
        if (n <= 0)
            return 0;
        sr1__capture_add(c, bytes, (size_t)n);
        if (c->total > most)
            request_stop(l, SR1__STOP_OUTPUT, sr1__now());
    }
    return *from->fd >= 0;
}

static void read_note(struct sr1__process *l)
{
    char bytes[NOTE_MAX / 2];
    ssize_t n = l->at.note >= 0 ? read(l->at.note, bytes, sizeof bytes) : -1;

    if (n > 0)
        sr1__buf_add(&l->note, bytes, (size_t)n);
}

/* The line of the note that begins with a word, behind it; NULL: there is none. */
static const char *find_note_line(const struct sr1__process *l, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = sr1__buf_cstr(&l->note);; at++) {
        if (strncmp(at, word, n) == 0)
            return at + n;
        if ((at = strchr(at, '\n')) == NULL)
            return NULL;
    }
}

/* The limits are set and the program begins (init/init.c). */
static int has_started(const struct sr1__process *l)
{
    return find_note_line(l, "started") != NULL;
}

/* All that is in a pipe, whose capacity bounds it. */
static void drain_streams(struct sr1__process *l)
{
    (void)sr1__process_read(l, &l->out);
    (void)sr1__process_read(l, &l->err);
}

/* Not before it has started: until then its root is the host's. Nor of one that has ended
 * meanwhile: its number may have been another's. */
static void check_process_usage(struct sr1__process *l,
                                const struct sr1__launch_plan *place, double now)
{
    int64_t limit = l->run->job->limits.memory_mib * MIB;
    struct sr1__usage used;

    drain_streams(l); /* where no event could be had */
    if (l->stop == SR1__STOP_NONE)
        l->look_at = now + LOOK_S;
    if (place->isolated) {
        read_note(l);
        sr1__process_tree_find_init(&l->at);
        if (!has_started(l) || l->at.init < 0)
            return;
    }
    sr1__memory_monitor_read(place->isolated ? l->at.init_pid : l->at.pid,
                             place->isolated, limit, &used);
    if (place->isolated && sr1__spawn_ready(l->at.init))
        return;
    if (used.peak_bytes > l->peak_bytes)
        l->peak_bytes = used.peak_bytes;
    l->cpu_s = fmax(l->cpu_s, used.cpu_s);
    if (used.bytes > limit)
        request_stop(l, SR1__STOP_MEMORY, now);
    else if (used.names > NAMES_MAX)
        request_stop(l, SR1__STOP_NAMES, now);
    else if (used.is_partial)
        request_stop(l, SR1__STOP_PROCESSES, now);
}

/* 1 once it has ended. What a bare program leaves in its group goes while its number is
 * still its own. */
static int see_end(struct sr1__process *l)
{
    if (l->has_ended)
        return 1;
    if (!sr1__spawn_ready(l->at.pidfd))
        return 0;
    if (l->at.note < 0)
        (void)sr1__process_tree_kill(&l->at, 1);
    l->has_ended = sr1__spawn_ended(l->at.pidfd, &l->ended);
    return l->has_ended;
}

int sr1__process_check(struct sr1__process *l, const struct sr1__launch_plan *place,
                       double now)
{
    if (see_end(l))
        return 1;
    if (atomic_load(&l->run->cancelled))
        request_stop(l, SR1__STOP_CANCEL, now);
    if (now >= l->begun + l->run->job->limits.time_s)
        request_stop(l, SR1__STOP_TIME, now);
    if (!l->killed && now >= l->look_at)
        check_process_usage(l, place, now);
    if (l->stop != SR1__STOP_NONE && !l->killed && now >= l->look_at) {
        l->killed = sr1__process_tree_kill(&l->at, now > l->stopped_at + FORCE_S);
        l->look_at = l->killed ? INFINITY : now + KILL_AGAIN_S;
    }
    return 0;
}

/* ---- at its end ---- */

/* Read init's report of the program's end, which is authoritative; if init died before it
 * could report, *end is unchanged. 0 if the program never started. */
static int read_init(const struct sr1__process *l, struct sr1__end *end)
{
    const char *at = find_note_line(l, "ended ");
    char *next;

    if (!has_started(l) || find_note_line(l, "failed ") != NULL)
        return 0;
    if (at == NULL)
        return 1;
    end->exit_code = (int)strtol(at, &next, 10);
    end->signal = (int)strtol(next, NULL, 10);
    return 1;
}

static sr1_status take_streams(struct sr1__process *l)
{
    struct sr1__outcome *o = &l->run->outcome;

    o->err_total = l->err_text.total;
    SR1__TRY(sr1__capture_take(&l->out_text, &o->out));
    return sr1__capture_take(&l->err_text, &o->err);
}

/* Why bubblewrap or init did not get as far as the program. */
static void explain_start(struct sr1__process *l, struct sr1__buf *why)
{
    const char *note = sr1__buf_cstr(&l->note);
    const char *failed = find_note_line(l, "failed ");
    const char *line;
    char *doing;
    size_t n;

    sr1__last_line(note, l->note.len, &line, &n);
    if (failed != NULL) {
        errno = (int)strtol(failed, &doing, 10);
        doing[strcspn(doing, "\n")] = '\0';
        (void)sr1__fail_errno(doing + (*doing == ' '), "for it");
        sr1__buf_str(why, sr1_last_error());
    } else if (l->stop == SR1__STOP_TIME) {
        sr1__buf_fmt(why, "not within %g s", l->run->job->limits.time_s);
    } else if (n > 0) {
        sr1__buf_add(why, line, n < 300 ? n : 300);
    } else {
        sr1__buf_fmt(why, "bubblewrap ended with %s %d",
                     l->ended.signal != 0 ? "signal" : "exit code",
                     l->ended.signal != 0 ? l->ended.signal : l->ended.exit_code);
    }
}

static void set_not_started(struct sr1__process *l)
{
    struct sr1__buf why;

    sr1__buf_init(&why, 0);
    explain_start(l, &why);
    sr1__outcome_set(&l->run->outcome, SR1_RUN_INFRASTRUCTURE, "it was not started: %s",
                     sr1__buf_cstr(&why));
    sr1__buf_free(&why);
}

/* The host's own size comes over with vfork: a smaller figure is not the program's. */
static int64_t peak_of(const struct sr1__process *l)
{
    int64_t whole = l->ended.peak_bytes;

    return whole > sr1__peak_rss_bytes() && whole > l->peak_bytes ? whole : l->peak_bytes;
}

static int judge_process(struct sr1__process *l, const struct sr1__launch_plan *place)
{
    struct sr1_execution *run = l->run;
    struct sr1__end end = {l->stop,         l->ended.exit_code,
                           l->ended.signal, fmax(l->ended.cpu_s, l->cpu_s),
                           peak_of(l),      l->out_text.total};
    int has_run = 1;

    if (place->isolated)
        has_run = read_init(l, &end);
    if (take_streams(l) != SR1_OK || sr1__buf_status(&l->note, "notes") == SR1_E_NOMEM) {
        sr1__outcome_set(&run->outcome, SR1_RUN_INFRASTRUCTURE, "out of memory");
        return 0;
    }
    if (!has_run && l->stop != SR1__STOP_CANCEL) {
        set_not_started(l);
        return 0;
    }
    if (end.exit_code < 0 && end.signal == 0 && l->stop == SR1__STOP_NONE) {
        sr1__outcome_set(&run->outcome, SR1_RUN_INFRASTRUCTURE,
                         "its exit code is not known: this process ignores SIGCHLD, or "
                         "waits for any child");
        return 0;
    }
    sr1__verdict(&run->outcome, &end, &run->job->limits, &run->job->expected);
    return 1;
}

int sr1__process_finish(struct sr1__process *l, struct sr1__launch_plan *place)
{
    struct sr1__outcome *o = &l->run->outcome;
    int is_known;

    drain_streams(
        l); /* the writers are gone, or (of a bare program) no longer listened to */
    read_note(l);
    o->wall_s = sr1__now() - l->begun;
    /* The kernel drops the times of what died with its namespace. */
    o->cpu_s = fmax(l->ended.cpu_s, l->cpu_s);
    is_known = judge_process(l, place);
    o->peak_bytes = peak_of(l);
    free_live(l, place);
    return is_known;
}
