/* base/thread.c - see thread.h. A thread inherits the mask of the one that starts it. */
#include "base/thread.h"

#include <signal.h>

int sr1__thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    static const int own[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};
    sigset_t blocked, before;
    int error;

    (void)sigfillset(&blocked);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        (void)sigdelset(&blocked, own[i]);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &before);
    error = pthread_create(thread, NULL, fn, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}
