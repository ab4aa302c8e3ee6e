/* support/torture.h - run something with its n-th allocation failing, for n = 1, 2, ...
 * until it succeeds without one. Each failing run must return an error and leak nothing.
 *
 *     static sr1_status parse_it(void *arg) { ... free what was made ... return st; }
 *
 *     torture(parse_it, arg);
 *
 * The function is called many times; it frees whatever it made, on success too. */
#ifndef SR1_TESTS_TORTURE_H
#define SR1_TESTS_TORTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/mem.h"

#define TORTURE_MAX 1000000

static inline int64_t torture(sr1_status (*fn)(void *arg), void *arg)
{
    for (int64_t n = 1; n <= TORTURE_MAX; n++) {
        int64_t live = sr1__mem_live();
        int64_t made;
        sr1_status status;

        sr1__mem_fail_at(n);
        status = fn(arg);
        made = sr1__mem_count();
        sr1__mem_fail_at(0);
        if (sr1__mem_live() != live)
            fail_msg("allocation %lld failing: %lld blocks leaked", (long long)n,
                     (long long)(sr1__mem_live() - live));
        if (made < n) {
            if (status != SR1_OK)
                fail_msg("without a failure: %s", sr1_last_error());
            return n - 1;
        }
        if (status == SR1_OK)
            fail_msg("allocation %lld failed and nobody noticed", (long long)n);
    }
    fail_msg("no end after %d allocations", TORTURE_MAX);
    return 0;
}

#endif
