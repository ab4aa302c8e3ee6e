/* tests/support/wait.h - waiting for what other threads do. */
#ifndef SR1_TESTS_WAIT_H
#define SR1_TESTS_WAIT_H

#include "base/clock.h"

#include "torture.h"

#include <stdatomic.h>
#include <time.h>

#define PATIENCE 60 /* seconds until a test fails that waits for something */

static inline void nap(double seconds)
{
    struct timespec t = {(time_t)seconds,
                         (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&t, NULL);
}

static inline void wait_for(atomic_int *v, int want)
{
    double until = sr1__now() + PATIENCE;

    while (atomic_load(v) != want && sr1__now() < until)
        nap(0.01);
    assert_int_equal(atomic_load(v), want);
}

#endif
