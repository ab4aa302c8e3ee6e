/* support/device.h - the device that the tests of models run on.
 *
 * SR1_TEST_DEVICE names it (cpu), SR1_TEST_BACKEND the shared object that makes it, such
 * as tests/accelerator. */
#ifndef SR1_TESTS_DEVICE_H
#define SR1_TESTS_DEVICE_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its name; the backend is loaded by the first call. */
static inline const char *test_device(void)
{
    static int loaded;
    const char *name = getenv("SR1_TEST_DEVICE");
    const char *backend = getenv("SR1_TEST_BACKEND");

    if (backend && !loaded++ && !dlopen(backend, RTLD_NOW | RTLD_GLOBAL)) {
        fprintf(stderr, "%s: %s\n", backend, dlerror());
        abort();
    }
    return name ? name : "cpu";
}

static inline int test_on_cpu(void)
{
    return strcmp(test_device(), "cpu") == 0;
}

#endif
