/* search_files.h - where the search tests find their data. */
#ifndef TEST_SEARCH_FILES_H
#define TEST_SEARCH_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char *test_source_path(const char *middle, const char *name)
{
    const char *src = getenv("SR1_SRC");
    char *path = malloc(4096);

    snprintf(path, 4096, "%s/%s/%s", src != NULL ? src : ".", middle, name);
    return path;
}

/* A file of tests/fixtures; free it. */
static inline char *test_fixture(const char *name)
{
    return test_source_path("tests/fixtures", name);
}

/* A file of the shared test data, or NULL where that folder is not there; free it. A test
 * must not pass over a single missing file: only the whole folder may be absent. */
static inline char *test_shared(const char *name)
{
    char *folder = test_source_path("../shared", "data");
    int here = access(folder, F_OK) == 0;

    free(folder);
    return here ? test_source_path("../shared/data", name) : NULL;
}

#endif
