/* base/clock.h - time and memory of this process. */
#ifndef SR1__BASE_CLOCK_H
#define SR1__BASE_CLOCK_H

#include <stdint.h>

double sr1__now(void);        /* monotonic seconds */
int64_t sr1__rss_bytes(void); /* resident now, 0 when unknown */
int64_t sr1__peak_rss_bytes(void);

#endif
