/* fuzz.h - what a fuzz target defines. Broken promises end in abort(). */
#ifndef SR1_TESTS_FUZZ_H
#define SR1_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                            \
    do {                                                                                 \
        if (!(condition))                                                                \
            abort();                                                                     \
    } while (0)

#endif
