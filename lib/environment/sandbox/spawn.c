/* environment/sandbox/spawn.c - the child of child.c that becomes another program. */
#include "environment/sandbox/spawn.h"

#include "environment/sandbox/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define P_PIDFD_ 3 /* waitid's, where the headers lack it */

struct start {
    struct sr1__child child; /* first */
    const struct sr1__spawn *what;
    pid_t host; /* this process */
};

/* ---- in the child ---- */

static int set_child_rlimit(int which, int64_t soft, int64_t hard)
{
    struct rlimit now;
    struct rlimit to = {(rlim_t)soft, (rlim_t)hard};

    if (soft < 0)
        return 0;
    if (getrlimit(which, &now) != 0)
        return -1;
    if (now.rlim_max != RLIM_INFINITY && to.rlim_max > now.rlim_max)
        to.rlim_max = now.rlim_max;
    if (to.rlim_cur > to.rlim_max)
        to.rlim_cur = to.rlim_max;
    return setrlimit(which, &to);
}

static int set_limits(const struct sr1__spawn *w)
{
    return set_child_rlimit(RLIMIT_CORE, 0, 0) |
           set_child_rlimit(RLIMIT_AS, w->memory_bytes, w->memory_bytes) |
           set_child_rlimit(RLIMIT_CPU, w->cpu_s, w->cpu_s + 1) |
           set_child_rlimit(RLIMIT_FSIZE, w->file_bytes, w->file_bytes) |
           set_child_rlimit(RLIMIT_NOFILE, w->files, w->files);
}

static void close_from(unsigned first)
{
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, ~0U, 0) == 0)
        return;
#endif
    for (unsigned fd = first; fd < 65536; fd++)
        (void)close((int)fd);
}

/* Out of the way first: a source may have the number of another one's place. */
static int place_fds(const struct sr1__spawn *w)
{
    int high[SR1__SPAWN_FDS];

    for (int i = 0; i < w->n_fds; i++)
        if ((high[i] = fcntl(w->fds[i], F_DUPFD, w->n_fds)) < 0)
            return -1;
    for (int i = 0; i < w->n_fds; i++)
        if (dup2(high[i], i) < 0)
            return -1;
    close_from((unsigned)w->n_fds);
    return 0;
}

static int enter_spaces(const struct sr1__spawn *w)
{
    for (int i = 0; i < w->n_spaces; i++)
        if (setns(w->spaces[i], 0) != 0)
            return -1;
    return 0;
}

static void default_signals(void)
{
    struct sigaction standard;
    sigset_t none;

    memset(&standard, 0, sizeof standard);
    standard.sa_handler = SIG_DFL;
    for (int s = 1; s < NSIG; s++)
        (void)sigaction(s, &standard, NULL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* 0: it is in another namespace of processes. */
static int has_parent(pid_t host)
{
    pid_t parent = getppid();

    return parent == host || parent == 0;
}

static const char *become_spawned_program(struct sr1__child *c)
{
    const struct start *s = (const struct start *)c;
    const struct sr1__spawn *w = s->what;

    default_signals();
    (void)setsid();
    if (chdir(w->folder != NULL ? w->folder : "/") != 0)
        return "enter the folder";
    if (sr1__child_become(w->drop_to) != 0)
        return "change the user";
    if (enter_spaces(w) != 0)
        return "enter the namespaces";
    if (place_fds(w) != 0)
        return "pass descriptors";
    if (set_limits(w) != 0)
        return "set limits";
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || !has_parent(s->host)) /* killed before */
        return "tie it to this process";
    (void)execve(w->path, w->argv, w->envp);
    return "start it";
}

/* ---- in the parent ---- */

sr1_status sr1__spawn(const struct sr1__spawn *what, pid_t *pid, int *pidfd)
{
    struct start s = {{.work = become_spawned_program}, what, getpid()};
    int fd;
    pid_t made = sr1__child_run(&s.child, 0, &fd);

    if (made < 0) {
        errno = s.child.error;
        return sr1__fail_errno(s.child.failed, what->path);
    }
    *pid = made;
    *pidfd = fd;
    return SR1_OK;
}

static double timeval_seconds(const struct timeval *t)
{
    return (double)t->tv_sec + 1e-6 * (double)t->tv_usec;
}

int sr1__spawn_ready(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

int sr1__spawn_ended(int pidfd, struct sr1__ended *out)
{
    siginfo_t info;
    struct rusage used;
    long rc;

    memset(&info, 0, sizeof info);
    memset(&used, 0, sizeof used);
    memset(out, 0, sizeof *out);
    do
        rc = syscall(SYS_waitid, P_PIDFD_, pidfd, &info, WEXITED | WNOHANG, &used);
    while (rc != 0 && errno == EINTR);
    if (rc == 0 && info.si_pid == 0)
        return 0;
    out->exit_code = -1;
    out->cpu_s = -1;
    out->peak_bytes = -1;
    if (rc != 0) /* the host ignores SIGCHLD, or waits for any child */
        return sr1__spawn_ready(pidfd);
    out->known = 1;
    if (info.si_code == CLD_EXITED)
        out->exit_code = info.si_status;
    else
        out->signal = info.si_status;
    out->cpu_s = timeval_seconds(&used.ru_utime) + timeval_seconds(&used.ru_stime);
    out->peak_bytes = (int64_t)used.ru_maxrss * 1024;
    return 1;
}

void sr1__spawn_wait(int *pidfd)
{
    struct sr1__ended ended;

    while (*pidfd >= 0 && !sr1__spawn_ended(*pidfd, &ended))
        (void)poll(&(struct pollfd){.fd = *pidfd, .events = POLLIN}, 1, -1);
    sr1__fd_close(pidfd);
}

int sr1__pidfd_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

void sr1__pidfd_kill(int pidfd)
{
    if (pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

void sr1__fd_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

int sr1__fd_of_bytes(const void *bytes, size_t n)
{
    const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    int fd = memfd_create("searchr1", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    size_t done = 0;

    while (fd >= 0 && done < n) {
        ssize_t k = pwrite(fd, (const char *)bytes + done, n - done, (off_t)done);

        if (k > 0)
            done += (size_t)k;
        else if (k == 0 || errno != EINTR)
            sr1__fd_close(&fd);
    }
    if (fd >= 0 && fcntl(fd, F_ADD_SEALS, seals) != 0)
        sr1__fd_close(&fd);
    return fd;
}

/* ---- what it is given ---- */

static sr1_status make_pipe(int *read_end, int *write_end)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        return sr1__fail_errno("make a pipe", "for a program");
    *read_end = fds[0];
    *write_end = fds[1];
    return SR1_OK;
}

sr1_status sr1__spawn_give_bytes(struct sr1__spawn *s, const void *bytes, size_t n)
{
    int fd = n > 0 ? sr1__fd_of_bytes(bytes, n) : open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return sr1__fail_errno("keep in memory", "what a program is given");
    s->fds[s->n_fds++] = fd;
    return SR1_OK;
}

sr1_status sr1__spawn_give_copy(struct sr1__spawn *s, int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy < 0)
        return sr1__fail_errno("copy", "a descriptor for a program");
    s->fds[s->n_fds++] = copy;
    return SR1_OK;
}

sr1_status sr1__spawn_listen(struct sr1__spawn *s, int *read_end)
{
    int write_end = -1;

    SR1__TRY(make_pipe(read_end, &write_end));
    s->fds[s->n_fds++] = write_end;
    if (fcntl(*read_end, F_SETFL, O_NONBLOCK) != 0)
        return sr1__fail_errno("make a pipe", "for a program");
    return SR1_OK;
}

sr1_status sr1__spawn_tell(struct sr1__spawn *s, int *write_end)
{
    int read_end = -1;

    SR1__TRY(make_pipe(&read_end, write_end));
    s->fds[s->n_fds++] = read_end;
    return SR1_OK;
}

void sr1__spawn_close(struct sr1__spawn *s)
{
    while (s->n_fds > 0)
        sr1__fd_close(&s->fds[--s->n_fds]);
}
