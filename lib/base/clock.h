/* base/clock.h - time and memory of this process. */
#ifndef SR1__BASE_CLOCK_H
#define SR1__BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

double sr1__now(void); /* monotonic seconds */
/* A condition whose timed waits go by sr1__now(). */
void sr1__cond_init(pthread_cond_t *c);
/* A time of sr1__now(), as such waits take it. */
struct timespec sr1__clock_time(double at);

int64_t sr1__rss_bytes(void); /* resident now, 0 when unknown */
int64_t sr1__peak_rss_bytes(void);
/* What programs of this machine can still take; 0 when unknown. */
int64_t sr1__available_bytes(void);

#endif
