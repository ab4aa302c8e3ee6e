/* base/line_process.c - see line_process.h. Pipes that never block, and poll. */
#include "base/line_process.h"

#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 65536
#define TAIL 2048      /* bytes kept of standard error */
#define PATIENCE_S 0.5 /* for it to end by itself, then again after SIGTERM */

extern char **environ;

struct sr1__line_process {
    char *name;
    pid_t pid;
    int in, out, err; /* our ends; -1: closed */
    size_t max_line;
    struct sr1__buf unread; /* bytes behind the last line */
    struct sr1__buf tail;   /* of standard error */
    size_t looked;          /* bytes of unread without a line end */
    int broken;             /* a line was too long */
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

static int set_actions(posix_spawn_file_actions_t *f, int pipes[3][2], const char *folder)
{
    return posix_spawn_file_actions_adddup2(f, pipes[0][0], 0) ||
           posix_spawn_file_actions_adddup2(f, pipes[1][1], 1) ||
           posix_spawn_file_actions_adddup2(f, pipes[2][1], 2) ||
           posix_spawn_file_actions_addclosefrom_np(f, 3) ||
           (folder && posix_spawn_file_actions_addchdir_np(f, folder));
}

/* 0, or the number of an error. */
static int spawn_program(struct sr1__line_process *p,
                         const struct sr1__line_process_options *o, int pipes[3][2])
{
    posix_spawn_file_actions_t f;
    posix_spawnattr_t a;
    char **env = join_environment(o->extra);
    int error = ENOMEM;

    if (env && posix_spawn_file_actions_init(&f) == 0) {
        if (posix_spawnattr_init(&a) == 0) {
            error = set_attributes(&a) || set_actions(&f, pipes, o->folder) ? ENOMEM : 0;
            if (error == 0)
                error = posix_spawnp(&p->pid, o->argv[0], &f, &a,
                                     (char *const *)(uintptr_t)o->argv, env);
            posix_spawnattr_destroy(&a);
        }
        posix_spawn_file_actions_destroy(&f);
    }
    sr1__free(env);
    return error;
}

static sr1_status start_program(struct sr1__line_process *p,
                                const struct sr1__line_process_options *o)
{
    int pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
    int error;

    p->name = sr1__strdup(o->name);
    if (!p->name)
        return sr1__fail_nomem("a program");
    error = open_pipes(pipes) != 0 ? errno : spawn_program(p, o, pipes);
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
    return SR1_OK;
}

sr1_status sr1__line_process_start(struct sr1__line_process **out,
                                   const struct sr1__line_process_options *options)
{
    struct sr1__line_process *p;
    sr1_status status;

    SR1__CALLOC(p, 1, "a program");
    p->in = p->out = p->err = -1;
    p->max_line = options->max_line;
    sr1__buf_init(&p->unread, 0);
    sr1__buf_init(&p->tail, 0);
    status = start_program(p, options);
    SR1__RETURN_NEW(out, p, status, sr1__line_process_free);
}

/* ---- ending ---- */

/* 1: it has ended, and was waited for. */
static int wait_for_end(pid_t pid, double seconds)
{
    static const struct timespec nap = {0, 2000000};
    double until = sr1__now() + seconds;

    for (;;) {
        if (waitpid(pid, NULL, WNOHANG) != 0) /* < 0: somebody else waited for it */
            return 1;
        if (sr1__now() >= until)
            return 0;
        nanosleep(&nap, NULL);
    }
}

void sr1__line_process_free(struct sr1__line_process *p)
{
    if (!p)
        return;
    close_end(&p->in);
    close_end(&p->out);
    close_end(&p->err);
    if (p->pid > 0 && !wait_for_end(p->pid, PATIENCE_S)) {
        kill(-p->pid, SIGTERM);
        if (!wait_for_end(p->pid, PATIENCE_S)) {
            kill(-p->pid, SIGKILL);
            (void)waitpid(p->pid, NULL, 0);
        }
    }
    sr1__buf_free(&p->unread);
    sr1__buf_free(&p->tail);
    sr1__free(p->name);
    sr1__free(p);
}

void sr1__line_process_kill(struct sr1__line_process *p)
{
    (void)kill(-p->pid, SIGKILL);
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
    return sr1__fail(SR1_E_NETWORK, "%s: it has ended%s%.*s", p->name,
                     n > 0 ? "; it said last: " : "", (int)(n < 300 ? n : 300), last);
}

/* The first whole line of what was read. */
static int take_line(struct sr1__line_process *p, struct sr1__buf *line)
{
    char *begin = p->unread.data, *end;
    size_t n;

    if (!begin || p->unread.len == p->looked)
        return 0;
    end = memchr(begin + p->looked, '\n', p->unread.len - p->looked);
    if (!end) {
        p->looked = p->unread.len;
        return 0;
    }
    n = (size_t)(end - begin);
    sr1__buf_clear(line);
    sr1__buf_add(line, begin, n > 0 && begin[n - 1] == '\r' ? n - 1 : n);
    p->unread.len -= n + 1;
    p->looked = 0;
    memmove(begin, end + 1, p->unread.len);
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

/* Until it reads, or has. What it writes meanwhile is taken, so that neither waits for
 * the other: a program that says much before it reads. */
static sr1_status await_reading(struct sr1__line_process *p, int alone, double until)
{
    int listens = alone && p->unread.len <= p->max_line;
    struct pollfd some[3] = {{.fd = p->in, .events = POLLOUT},
                             {.fd = alone ? p->err : -1, .events = POLLIN},
                             {.fd = listens ? p->out : -1, .events = POLLIN}};

    if (poll(some, 3, poll_time(until)) == 0 && sr1__now() >= until)
        return sr1__fail(SR1_E_TIMEOUT, "%s: it did not read in time", p->name);
    if (some[1].revents)
        read_errors(p);
    return some[2].revents ? read_some(p) : SR1_OK;
}

static sr1_status write_bytes(struct sr1__line_process *p, const char *text, size_t n,
                              int alone, double until)
{
    while (n > 0) {
        ssize_t done = write_quietly(p->in, text, n);

        if (done > 0) {
            text += done;
            n -= (size_t)done;
            continue;
        }
        if (done < 0 && errno != EAGAIN && errno != EINTR)
            return sr1__fail(SR1_E_NETWORK, "%s: it reads no more", p->name);
        SR1__TRY(await_reading(p, alone, until));
    }
    return SR1_OK;
}

sr1_status sr1__line_process_write(struct sr1__line_process *p, const char *text,
                                   size_t n, int alone, double until)
{
    SR1__TRY(write_bytes(p, text, n, alone, until));
    return write_bytes(p, "\n", 1, alone, until);
}

static sr1_status check_line_length(struct sr1__line_process *p)
{
    p->broken |= p->looked > p->max_line;
    if (!p->broken)
        return SR1_OK;
    return sr1__fail(SR1_E_LIMIT, "%s: it wrote a line of more than %zu bytes", p->name,
                     p->max_line);
}

sr1_status sr1__line_process_read(struct sr1__line_process *p, struct sr1__buf *line,
                                  double until)
{
    for (;;) {
        struct pollfd some[2] = {{.fd = p->out, .events = POLLIN},
                                 {.fd = p->err, .events = POLLIN}};

        if (take_line(p, line))
            return sr1__buf_status(line, "a line");
        SR1__TRY(check_line_length(p));
        if (poll(some, 2, poll_time(until)) == 0 && sr1__now() >= until)
            return sr1__fail(SR1_E_TIMEOUT, "%s: no answer in time", p->name);
        if (some[1].revents)
            read_errors(p);
        if (some[0].revents)
            SR1__TRY(read_some(p));
    }
}
