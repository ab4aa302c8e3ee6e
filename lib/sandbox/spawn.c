/* sandbox/spawn.c - clone(CLONE_VM | CLONE_VFORK): the child runs on a stack of its own
 * in this process's memory while the calling thread waits for its exec.
 *
 * Until then it may only make system calls. Signals are blocked around it, so no handler
 * of the host runs in the child. Its user is changed by raw system calls: libc's would
 * change the whole process. */
#include "sandbox/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif
#if SANITIZED
#include <sanitizer/asan_interface.h>
#endif

#define STACK_BYTES ((size_t)64 << 10)
#define P_PIDFD_ 3 /* waitid's, where the headers lack it */

struct start {
    const struct sr1__spawn *what;
    const char *failed; /* what the child could not do; NULL: exec went well */
    int error;          /* its errno */
};

/* ---- in the child ---- */

static int fail_child(struct start *s, const char *doing)
{
    s->failed = doing;
    s->error = errno;
    (void)syscall(SYS_exit_group, 127);
    return 127;
}

static int limit(int which, int64_t soft, int64_t hard)
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
    return limit(RLIMIT_CORE, 0, 0) | limit(RLIMIT_AS, w->memory_bytes, w->memory_bytes) |
           limit(RLIMIT_CPU, w->cpu_s, w->cpu_s + 1) |
           limit(RLIMIT_FSIZE, w->file_bytes, w->file_bytes) |
           limit(RLIMIT_NOFILE, w->files, w->files);
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

static int become(uint32_t id)
{
    if (id == 0)
        return 0;
    if (syscall(SYS_setgroups, 0, NULL) != 0 || syscall(SYS_setresgid, id, id, id) != 0)
        return -1;
    return (int)syscall(SYS_setresuid, id, id, id);
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

static int child(void *arg)
{
    struct start *s = arg;
    const struct sr1__spawn *w = s->what;

    default_signals();
    (void)setsid();
    if (chdir(w->folder != NULL ? w->folder : "/") != 0)
        return fail_child(s, "enter the folder");
    if (place_fds(w) != 0)
        return fail_child(s, "pass descriptors");
    if (become(w->drop_to) != 0)
        return fail_child(s, "change the user");
    if (set_limits(w) != 0)
        return fail_child(s, "set limits");
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return fail_child(s, "tie it to this process");
    (void)execve(w->path, w->argv, w->envp);
    return fail_child(s, "start it");
}

/* ---- in the parent ---- */

/* A child that never returns leaves its frames marked to AddressSanitizer, and what is
 * mapped there later would inherit the marks. */
static void forget_frames(char *stack)
{
#if SANITIZED
    __asan_unpoison_memory_region(stack, STACK_BYTES);
#else
    (void)stack;
#endif
}

static pid_t clone_child(struct start *s, int *pidfd)
{
    int flags = CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD;
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t pid;
    int error;

    if (stack == MAP_FAILED)
        return -1;
    pid = clone(child, stack + STACK_BYTES, flags, s, pidfd);
    error = errno;
    forget_frames(stack);
    (void)munmap(stack, STACK_BYTES);
    errno = error;
    return pid;
}

sr1_status sr1__spawn(const struct sr1__spawn *what, pid_t *pid, int *pidfd)
{
    struct start s = {what, NULL, 0};
    int dumpable = prctl(PR_GET_DUMPABLE);
    struct sr1__ended ended;
    sigset_t all, before;
    int fd = -1;
    pid_t made;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    made = clone_child(&s, &fd);
    if (made < 0)
        s.error = errno;
    /* A change of the user marks the memory, which was ours, as not to be dumped. */
    if (what->drop_to != 0 && dumpable == 1)
        (void)prctl(PR_SET_DUMPABLE, 1);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made >= 0 && s.failed != NULL) {
        while (!sr1__spawn_ended(fd, &ended))
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
        sr1__fd_close(&fd);
    }
    if (made < 0 || s.failed != NULL) {
        errno = s.error;
        return sr1__fail_errno(s.failed != NULL ? s.failed : "start a process",
                               what->path);
    }
    *pid = made;
    *pidfd = fd;
    return SR1_OK;
}

static double seconds(const struct timeval *t)
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
    out->cpu_s = seconds(&used.ru_utime) + seconds(&used.ru_stime);
    out->peak_bytes = (int64_t)used.ru_maxrss * 1024;
    return 1;
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
