/* support/files.h - a scratch folder of this test program, and files in it. */
#ifndef SR1_TESTS_FILES_H
#define SR1_TESTS_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static char scratch_dir[256];

/* cmocka group set-up and tear-down. */
static inline int scratch_make(void **state)
{
    const char *base = getenv("TMPDIR");

    (void)state;
    snprintf(scratch_dir, sizeof scratch_dir, "%s/sr1-test-XXXXXX", base ? base : "/tmp");
    return mkdtemp(scratch_dir) ? 0 : -1;
}

static inline int scratch_remove(void **state)
{
    (void)state;
    return sr1__dir_remove(scratch_dir) == SR1_OK ? 0 : -1;
}

/* The path of a name in the scratch folder; good until eight calls later. */
static inline const char *scratch_path(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", scratch_dir, name);
    return path;
}

/* Write n bytes there (n 0: a NUL-terminated text) and return the path. */
static inline const char *scratch_file(const char *name, const void *bytes, size_t n)
{
    const char *path = scratch_path(name);
    FILE *f = fopen(path, "wb");

    n = n ? n : strlen(bytes);
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        abort();
    return path;
}

#endif
