/* base/line_process.c - see line_process.h. Pipes that never block, and poll. */
#include "base/line_process.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 65536
#define TAIL 2048        /* bytes kept of standard error */
#define PATIENCE_S 0.5   /* for it to end by itself, then again after SIGTERM */
#define LAST_WORDS_S 1.0 /* for what it says after it has closed its input */

extern char **environ;

struct sr1__line_process {
    char *name;
    pid_t pid;
    int in, out, err; /* our ends; -1: closed */
    size_t max_line;
    struct sr1__buf unread; /* what was read, since lines were dropped last */
    struct sr1__buf tail;   /* of standard error */
    size_t taken;           /* bytes of unread that were given as lines */
    size_t looked;          /* bytes behind them without a line end */
    int broken;             /* a line was too long */
    double deaf;            /* since then it reads no more; 0: it does */
    pid_t guardian;         /* 0: none */
    int leash;              /* our end of the guardian's input */
};

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- starting ---- */

/* Our environment with the extra variables in front, so that they win. */
static char **join_environment(const char *const *extra)
{
    size_t n = 0, m = 0, k = 0;
    char **all;

    while (environ && environ[n])
        n++;
    while (extra && extra[m])
        m++;
    all = sr1__calloc(n + m + 1, sizeof *all);
    for (size_t i = 0; all && i < m; i++)
        all[k++] = (char *)(uintptr_t)extra[i];
    for (size_t i = 0; all && i < n; i++) {
        size_t name = strcspn(environ[i], "=") + 1, j = 0;

        while (j < m && strncmp(extra[j], environ[i], name) != 0)
            j++;
        if (j == m)
            all[k++] = environ[i];
    }
    return all;
}

static int open_pipes(int pipes[3][2])
{
    for (int i = 0; i < 3; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0)
            return -1;
    return 0;
}

static void close_pipes(int pipes[3][2])
{
    for (int i = 0; i < 3; i++) {
        close_end(&pipes[i][0]);
        close_end(&pipes[i][1]);
    }
}

/* A program with ordinary signals. */
static int set_attributes(posix_spawnattr_t *a)
{
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    return posix_spawnattr_setsigmask(a, &none) ||
           posix_spawnattr_setsigdefault(a, &all) ||
           posix_spawnattr_setflags(a, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                           POSIX_SPAWN_SETSIGDEF);
}

/* streams: of the program, -1: /dev/null. */
static int set_actions(posix_spawn_file_actions_t *f, const int streams[3],
                       const char *folder)
{
    for (int i = 0; i < 3; i++)
        if (streams[i] >= 0
                ? posix_spawn_file_actions_adddup2(f, streams[i], i)
                : posix_spawn_file_actions_addopen(f, i, "/dev/null", O_RDWR, 0))
            return -1;
    return posix_spawn_file_actions_addclosefrom_np(f, 3) ||
           (folder && posix_spawn_file_actions_addchdir_np(f, folder));
}

/* 0, or the number of an error. */
static int spawn_session(pid_t *pid, const char *const *argv, const char *const *extra,
                         const char *folder, const int streams[3])
{
    posix_spawn_file_actions_t f;
    posix_spawnattr_t a;
    char **env = join_environment(extra);
    int error = ENOMEM;

    if (env && posix_spawn_file_actions_init(&f) == 0) {
        if (posix_spawnattr_init(&a) == 0) {
            error = set_attributes(&a) || set_actions(&f, streams, folder) ? ENOMEM : 0;
            if (error == 0)
                error = posix_spawnp(pid, argv[0], &f, &a, (char *const *)(uintptr_t)argv,
                                     env);
            posix_spawnattr_destroy(&a);
        }
        posix_spawn_file_actions_destroy(&f);
    }
    sr1__free(env);
    return error;
}

/* Its input ends without a line when this process has died. Where none can be started the
 * program's own input must do. */
static void start_guardian(struct sr1__line_process *p)
{
    static const char watch[] = "read -r line || { sleep 1; kill -s TERM -- \"-$1\"; "
                                "sleep 4; kill -s KILL -- \"-$1\"; }";
    char group[32];
    const char *const argv[] = {"/bin/sh", "-c", watch, "guardian", group, NULL};
    int input[2], streams[3] = {-1, -1, -1};

    snprintf(group, sizeof group, "%ld", (long)p->pid);
    if (pipe2(input, O_CLOEXEC) != 0)
        return;
    streams[0] = input[0];
    if (spawn_session(&p->guardian, argv, NULL, "/", streams) != 0)
        p->guardian = 0;
    close_end(&input[0]);
    p->leash = input[1];
}

static sr1_status start_program(struct sr1__line_process *p,
                                const struct sr1__line_process_options *o)
{
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    int error;

    p->name = sr1__strdup(o->name);
    if (!p->name)
        return sr1__fail_nomem("a program");
    if (o->folder && !sr1__path_is_dir(o->folder))
        return sr1__fail(SR1_E_NOT_FOUND,
                         "%s: cannot start in '%s': it is no folder, as seen from the "
                         "working folder",
                         o->name, o->folder);
    error = open_pipes(pipes) != 0 ? errno : 0;
    if (error == 0) {
        const int streams[3] = {pipes[0][0], pipes[1][1], pipes[2][1]};

        error = spawn_session(&p->pid, o->argv, o->extra, o->folder, streams);
    }
    if (error != 0) {
        p->pid = 0;
        close_pipes(pipes);
        errno = error;
        return sr1__context(sr1__fail_errno("start", o->argv[0]), "%s", o->name);
    }
    p->in = pipes[0][1];
    p->out = pipes[1][0];
    p->err = pipes[2][0];
    pipes[0][1] = pipes[1][0] = pipes[2][0] = -1;
    close_pipes(pipes);
    (void)fcntl(p->in, F_SETFL, O_NONBLOCK);
    (void)fcntl(p->out, F_SETFL, O_NONBLOCK);
    (void)fcntl(p->err, F_SETFL, O_NONBLOCK);
    start_guardian(p);
    return SR1_OK;
}

sr1_status sr1__line_process_start(struct sr1__line_process **out,
                                   const struct sr1__line_process_options *options)
{
    struct sr1__line_process *p;
    sr1_status status;

    SR1__CALLOC(p, 1, "a program");
    p->in = p->out = p->err = p->leash = -1;
    p->max_line = options->max_line;
    sr1__buf_init(&p->unread, 0);
    sr1__buf_init(&p->tail, 0);
    status = start_program(p, options);
    SR1__RETURN_NEW(out, p, status, sr1__line_process_free);
}

/* ---- ending ---- */

/* 1: look() says so; 0: not within the time. */
static int poll_end(int (*look)(pid_t pid), pid_t pid, double seconds)
{
    static const struct timespec nap = {0, 2000000};
    double until = sr1__now() + seconds;

    while (!look(pid)) {
        if (sr1__now() >= until)
            return 0;
        nanosleep(&nap, NULL);
    }
    return 1;
}

/* Not waited for yet, so that no other process gets its number. */
static int has_ended(pid_t pid)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
}

/* Whatever signals come meanwhile. */
static void await_child(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

static int has_no_member(pid_t group)
{
    return kill(-group, 0) != 0;
}

/* The program, and those it has started: a wrapper, or its leader, may be gone before
 * them. */
static void end_process_group(pid_t pid)
{
    int ended = poll_end(has_ended, pid, PATIENCE_S);
    siginfo_t info;

    if (ended && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return; /* somebody else has waited for it: the number may be another's */
    kill(-pid, SIGTERM);
    if (!ended && !poll_end(has_ended, pid, PATIENCE_S))
        kill(-pid, SIGKILL);
    await_child(pid);
    if (!poll_end(has_no_member, pid, PATIENCE_S))
        kill(-pid, SIGKILL);
}

/* Before its input ends. */
static void dismiss_guardian(struct sr1__line_process *p)
{
    if (p->guardian > 0) {
        kill(p->guardian, SIGKILL);
        await_child(p->guardian);
    }
    close_end(&p->leash);
}

void sr1__line_process_free(struct sr1__line_process *p)
{
    if (!p)
        return;
    close_end(&p->in);
    close_end(&p->out);
    close_end(&p->err);
    if (p->pid > 0)
        end_process_group(p->pid);
    dismiss_guardian(p);
    sr1__buf_free(&p->unread);
    sr1__buf_free(&p->tail);
    sr1__free(p->name);
    sr1__free(p);
}

long sr1__line_process_id(const struct sr1__line_process *p)
{
    return (long)p->pid;
}

/* ---- lines ---- */

/* Milliseconds for poll. */
static int poll_time(double until)
{
    double left = (until - sr1__now()) * 1000;

    return left <= 0 ? 0 : left > 1000000 ? 1000000 : (int)left + 1;
}

/* Without the signal that a write to a program that has gone raises. */
static ssize_t write_quietly(int fd, const char *text, size_t n)
{
    sigset_t pipe_signal, before, pending;
    ssize_t done;
    int had, error;

    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    had = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    done = write(fd, text, n);
    error = errno;
    if (done < 0 && error == EPIPE && !had) {
        static const struct timespec now = {0, 0};

        while (sigtimedwait(&pipe_signal, NULL, &now) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return done;
}

/* Keep the end of what it wrote to standard error. */
static void keep_tail(struct sr1__line_process *p, const char *text, size_t n)
{
    if (n > TAIL) {
        text += n - TAIL;
        n = TAIL;
    }
    if (p->tail.len + n > TAIL) {
        size_t drop = p->tail.len + n - TAIL;

        memmove(p->tail.data, p->tail.data + drop, p->tail.len - drop);
        p->tail.len -= drop;
    }
    sr1__buf_add(&p->tail, text, n);
}

static void read_errors(struct sr1__line_process *p)
{
    char bytes[4096];
    ssize_t n;

    while (p->err >= 0 && (n = read(p->err, bytes, sizeof bytes)) != 0) {
        if (n < 0)
            return;
        keep_tail(p, bytes, (size_t)n);
    }
    close_end(&p->err);
}

/* It has gone: how, and its last words. */
static sr1_status report_end(struct sr1__line_process *p)
{
    const char *said, *last;
    size_t n;

    read_errors(p);
    said = sr1__buf_cstr(&p->tail);
    n = p->tail.len;
    while (n > 0 && (said[n - 1] == '\n' || said[n - 1] == '\r'))
        n--;
    last = n > 0 ? memrchr(said, '\n', n) : NULL;
    last = last ? last + 1 : said;
    n -= (size_t)(last - said);
    if (n == 0)
        return sr1__fail(SR1_E_NETWORK,
                         "%s: it has ended without a word; it has to read its standard "
                         "input until that ends",
                         p->name);
    return sr1__fail(SR1_E_NETWORK, "%s: it has ended; it said last: %.*s", p->name,
                     (int)(n < 300 ? n : 300), last);
}

/* Lines that were given make room: once for all that a read brought. */
static void drop_lines(struct sr1__line_process *p)
{
    if (p->taken == 0)
        return;
    p->unread.len -= p->taken;
    memmove(p->unread.data, p->unread.data + p->taken, p->unread.len);
    p->taken = 0;
}

/* The first whole line of what was read. */
static int take_line(struct sr1__line_process *p, struct sr1__buf *line)
{
    const char *begin = sr1__buf_cstr(&p->unread) + p->taken;
    size_t left = p->unread.len - p->taken, n;
    const char *end =
        left > p->looked ? memchr(begin + p->looked, '\n', left - p->looked) : NULL;

    if (!end) {
        drop_lines(p);
        p->looked = left;
        return 0;
    }
    n = (size_t)(end - begin);
    sr1__buf_clear(line);
    sr1__buf_add(line, begin, n > 0 && begin[n - 1] == '\r' ? n - 1 : n);
    p->taken += n + 1;
    p->looked = 0;
    return 1;
}

/* SR1_OK: more may be there. */
static sr1_status read_some(struct sr1__line_process *p)
{
    char bytes[CHUNK];
    ssize_t n = read(p->out, bytes, sizeof bytes);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return SR1_OK;
    if (n <= 0)
        return report_end(p);
    sr1__buf_add(&p->unread, bytes, (size_t)n);
    return sr1__buf_status(&p->unread, "a line");
}

static sr1_status check_line_length(struct sr1__line_process *p)
{
    p->broken |= p->looked > p->max_line;
    if (!p->broken)
        return SR1_OK;
    return sr1__fail(SR1_E_LIMIT, "%s: it wrote a line of more than %zu bytes", p->name,
                     p->max_line);
}

/* What the pipe takes of the text. */
static void write_some(struct sr1__line_process *p, struct sr1__line_exchange *x)
{
    while (p->deaf == 0 && x->written < x->n) {
        ssize_t done = write_quietly(p->in, x->text + x->written, x->n - x->written);

        if (done > 0)
            x->written += (size_t)done;
        else if (done < 0 && errno != EINTR && errno != EAGAIN)
            p->deaf = sr1__now();
        else if (done == 0 || errno == EAGAIN)
            return;
    }
}

/* Wait for one of the streams, and take what it says. *woken: there is no more to wait
 * for. */
static sr1_status await_streams(struct sr1__line_process *p,
                                const struct sr1__line_exchange *x, int wake,
                                double until, int *woken)
{
    int writes = p->deaf == 0 && x->written < x->n;
    double limit =
        p->deaf > 0 && p->deaf + LAST_WORDS_S < until ? p->deaf + LAST_WORDS_S : until;
    struct pollfd some[4] = {{.fd = p->out, .events = POLLIN},
                             {.fd = p->err, .events = POLLIN},
                             {.fd = writes ? p->in : -1, .events = POLLOUT},
                             {.fd = wake, .events = POLLIN}};

    if (poll(some, 4, poll_time(limit)) == 0 && sr1__now() >= limit)
        return p->deaf > 0 && sr1__now() >= p->deaf + LAST_WORDS_S
                   ? sr1__fail(SR1_E_NETWORK, "%s: it reads no more", p->name)
                   : sr1__fail(SR1_E_TIMEOUT, "%s: no answer in time", p->name);
    *woken = some[3].revents != 0;
    if (some[1].revents)
        read_errors(p);
    return some[0].revents ? read_some(p) : SR1_OK;
}

sr1_status sr1__line_process_exchange(struct sr1__line_process *p,
                                      struct sr1__line_exchange *x, int wake,
                                      double until)
{
    int woken = 0;

    x->written = 0;
    for (;;) {
        x->came = take_line(p, x->line);
        if (x->came)
            return sr1__buf_status(x->line, "a line");
        SR1__TRY(check_line_length(p));
        if (woken)
            return SR1_OK;
        write_some(p, x);
        if (x->n > 0 && x->written == x->n)
            return SR1_OK;
        SR1__TRY(await_streams(p, x, wake, until, &woken));
    }
}
