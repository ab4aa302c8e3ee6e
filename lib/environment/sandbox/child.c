/* environment/sandbox/child.c - clone(CLONE_VM | CLONE_VFORK): the child runs on a stack
 * of its own.
 *
 * Signals are blocked around it, so no handler of the host runs in the child. The child
 * changes its user by raw system calls, because libc's functions would change the whole
 * process. */
#include "environment/sandbox/child.h"

#include "environment/sandbox/spawn.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

/* ThreadSanitizer's clone takes each child for a copy of the process: from then on it
 * sees neither the memory nor the locks of the thread that made it. libc's own name goes
 * past it. */
#ifdef __SANITIZE_THREAD__
#define THREADS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREADS_SANITIZED 1
#endif
#endif
#ifdef THREADS_SANITIZED
int __clone(int (*work)(void *), void *stack, int flags, void *child, ...);
#define clone __clone
#endif

#define STACK_BYTES ((size_t)64 << 10)

/* ---- in the child ---- */

int sr1__child_become(uint32_t id)
{
    if (id == 0)
        return 0;
    if (syscall(SYS_setgroups, 0, NULL) != 0 || syscall(SYS_setresgid, id, id, id) != 0)
        return -1;
    return (int)syscall(SYS_setresuid, id, id, id);
}

static int run_child_work(void *child)
{
    struct sr1__child *c = child;

    c->failed = c->work(c);
    c->error = errno;
    c->has_ended = 1;
    (void)syscall(SYS_exit_group, 0); /* not the exit of a thread of ours */
    return 0;
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

static pid_t clone_child(struct sr1__child *c, int flags, int *pidfd)
{
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pid_t pid;
    int error;

    if (stack == MAP_FAILED)
        return -1;
    pid = clone(run_child_work, stack + STACK_BYTES,
                flags | CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, c, pidfd);
    error = errno;
    forget_frames(stack);
    (void)munmap(stack, STACK_BYTES);
    errno = error;
    return pid;
}

/* A change of the child's user marks the memory, which is ours, as not to be dumped.
 * Where several start at once, the first has seen how it was. */
static pthread_mutex_t starting_lock = PTHREAD_MUTEX_INITIALIZER;
static int starting; /* calls under way */
static int dumpable; /* before the first of them */

static void keep_dumpable(void)
{
    pthread_mutex_lock(&starting_lock);
    if (starting++ == 0)
        dumpable = prctl(PR_GET_DUMPABLE);
    pthread_mutex_unlock(&starting_lock);
}

static void restore_dumpable(void)
{
    pthread_mutex_lock(&starting_lock);
    starting--;
    if (dumpable == 1)
        (void)prctl(PR_SET_DUMPABLE, 1);
    pthread_mutex_unlock(&starting_lock);
}

pid_t sr1__child_run(struct sr1__child *c, int flags, int *pidfd)
{
    sigset_t all, before;
    pid_t made;

    *pidfd = -1;
    c->failed = NULL;
    c->has_ended = 0;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    keep_dumpable();
    made = clone_child(c, flags, pidfd);
    if (made < 0) {
        c->failed = "start a process";
        c->error = errno;
    }
    restore_dumpable();
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (made >= 0 && c->has_ended) {
        sr1__spawn_wait(pidfd);
        made = -1;
    }
    return made;
}
