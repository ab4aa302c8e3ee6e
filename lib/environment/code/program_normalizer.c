/* environment/code/program_normalizer.c - the process that computes normal forms:
 * requests and answers go over a pair of sockets, so its death is an error and not a
 * signal. */
#include "environment/code/program_normalizer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "environment/code/scripts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ANSWER_MAX 80
#define ANSWER_S 10.0  /* a loaded machine; programs are small */
#define FAILURES_MAX 3 /* in a row, then it is left alone */

extern char **environ;

struct sr1__code_normaliser {
    pthread_mutex_t lock;
    char *interpreter;
    pid_t pid; /* 0: none runs */
    int fd;
    int failures; /* in a row */
};

static void stop_interpreter(struct sr1__code_normaliser *n)
{
    if (n->pid == 0)
        return;
    close(n->fd);
    kill(n->pid, SIGKILL);
    while (waitpid(n->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    n->pid = 0;
}

static int redirect_standard_fds(posix_spawn_file_actions_t *files, int theirs)
{
    int error = posix_spawn_file_actions_adddup2(files, theirs, 0);

    if (error == 0)
        error = posix_spawn_file_actions_adddup2(files, theirs, 1);
    if (error == 0)
        error = posix_spawn_file_actions_addopen(files, 2, "/dev/null", O_WRONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_addclosefrom_np(files, 3);
    return error;
}

/* The signals that the thread blocks or the program ignores are not for the process; one
 * of a group of its own hears no Ctrl-C. */
static int set_signals(posix_spawnattr_t *attributes)
{
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setpgroup(attributes, 0);
    return posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK |
                                                    POSIX_SPAWN_SETSIGDEF |
                                                    POSIX_SPAWN_SETPGROUP);
}

static int spawn_interpreter(struct sr1__code_normaliser *n, int theirs)
{
    char *const args[] = {n->interpreter,
                          (char *)"-I",
                          (char *)"-S",
                          (char *)"-c",
                          (char *)sr1__normalise_py,
                          NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&files);

    if (error != 0)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = redirect_standard_fds(&files, theirs);
        if (error == 0)
            error = set_signals(&attributes);
        if (error == 0)
            error =
                posix_spawnp(&n->pid, n->interpreter, &files, &attributes, args, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* 1 when one runs. */
static int ensure_interpreter(struct sr1__code_normaliser *n)
{
    int pair[2];

    if (n->pid != 0)
        return 1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return 0;
    if (spawn_interpreter(n, pair[1]) != 0) {
        n->pid = 0;
        close(pair[0]);
    } else {
        n->fd = pair[0];
    }
    close(pair[1]);
    return n->pid != 0;
}

/* 1 when the socket is ready before the deadline. */
static int wait_socket_ready(int fd, short events, double deadline)
{
    struct pollfd p = {.fd = fd, .events = events};

    for (;;) {
        double left = deadline - sr1__now();
        int got = left > 0 ? poll(&p, 1, (int)(1000 * left) + 1) : 0;

        if (got >= 0 || errno != EINTR)
            return got > 0;
    }
}

static int send_all(int fd, const char *s, size_t n, double deadline)
{
    while (n > 0) {
        ssize_t sent = -1;

        if (!wait_socket_ready(fd, POLLOUT, deadline))
            return 0;
        sent = send(fd, s, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return 0;
        s += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t)sent : 0;
    }
    return 1;
}

/* A line of at most ANSWER_MAX bytes, without its end. */
static int receive_line(int fd, char *line, double deadline)
{
    size_t n = 0;

    while (n < ANSWER_MAX) {
        ssize_t got;

        if (!wait_socket_ready(fd, POLLIN, deadline))
            return 0;
        got = recv(fd, line + n, ANSWER_MAX - n, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return 0;
        n += got > 0 ? (size_t)got : 0;
        if (n > 0 && line[n - 1] == '\n') {
            line[n - 1] = '\0';
            return 1;
        }
    }
    return 0;
}

static int request_digest(struct sr1__code_normaliser *n, const char *code, size_t len,
                          char *answer)
{
    double deadline = sr1__now() + ANSWER_S;
    unsigned char head[4] = {(unsigned char)(len >> 24), (unsigned char)(len >> 16),
                             (unsigned char)(len >> 8), (unsigned char)len};

    return ensure_interpreter(n) &&
           send_all(n->fd, (const char *)head, sizeof(head), deadline) &&
           send_all(n->fd, code, len, deadline) && receive_line(n->fd, answer, deadline);
}

/* "=" and 64 digits. */
static int is_digest(const char *answer)
{
    return answer[0] == '=' && strspn(answer + 1, "0123456789abcdef") == 64 &&
           answer[65] == '\0';
}

void sr1__code_normalise(struct sr1__code_normaliser *n, const char *code, size_t len,
                         struct sr1__buf *out)
{
    char answer[ANSWER_MAX + 1] = "";
    int told = 0, gives_up = 0;

    pthread_mutex_lock(&n->lock);
    if (n->interpreter[0] != '\0' && n->failures < FAILURES_MAX && len < INT32_MAX) {
        told = request_digest(n, code, len, answer);
        if (!told)
            stop_interpreter(n); /* its text may have been what it could not read */
        n->failures = told ? 0 : n->failures + 1;
        gives_up = n->failures == FAILURES_MAX;
    }
    pthread_mutex_unlock(&n->lock);
    if (gives_up)
        sr1__log(SR1_LOG_WARN,
                 "%s cannot normalise programs; the cache compares their exact text from "
                 "now on",
                 n->interpreter);
    if (told && is_digest(answer)) {
        sr1__buf_str(out, answer);
        return;
    }
    sr1__buf_char(out, 'x');
    sr1__buf_add(out, code, len);
}

sr1_status sr1__code_normaliser_new(struct sr1__code_normaliser **out,
                                    const char *interpreter)
{
    struct sr1__code_normaliser *n = sr1__calloc(1, sizeof(*n));

    if (n != NULL)
        n->interpreter = sr1__strdup(interpreter);
    if (n == NULL || n->interpreter == NULL) {
        sr1__free(n);
        return sr1__fail_nomem("normaliser");
    }
    pthread_mutex_init(&n->lock, NULL);
    *out = n;
    return SR1_OK;
}

void sr1__code_normaliser_free(struct sr1__code_normaliser *n)
{
    if (n == NULL)
        return;
    stop_interpreter(n);
    pthread_mutex_destroy(&n->lock);
    sr1__free(n->interpreter);
    sr1__free(n);
}
