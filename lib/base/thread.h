/* base/thread.h - a thread of the library's own. */
#ifndef SR1__BASE_THREAD_H
#define SR1__BASE_THREAD_H

#include <pthread.h>

/* Start a thread that takes no signals of the program: only those that its own
 * instructions raise (SIGBUS of a watched map is one) are not blocked. Returns 0 or the
 * error number of pthread_create. */
int sr1__thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);

#endif
