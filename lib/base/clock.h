/* base/clock.h - time and memory of this process, waiting with a limit. */
#ifndef SR1__BASE_CLOCK_H
#define SR1__BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

double sr1__now(void);        /* monotonic seconds */
int64_t sr1__rss_bytes(void); /* resident now, 0 when unknown */
int64_t sr1__peak_rss_bytes(void);

/* A condition that is waited for by the monotonic clock, and the time so many seconds
 * from now for pthread_cond_timedwait on it. */
void sr1__cond_init(pthread_cond_t *c);
struct timespec sr1__cond_after(double seconds);

#endif
