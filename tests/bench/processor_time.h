/* processor_time.h - what a benchmark costs where others work beside it. */
#ifndef SR1_BENCH_PROCESSOR_TIME_H
#define SR1_BENCH_PROCESSOR_TIME_H

#include <time.h>

/* Seconds of all threads of this process. */
static inline double processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
