/* retrieval/search/index_kind.c - see index_kind.h. */
#include "retrieval/search/index_kind.h"

#include "retrieval/search/bm25_index.h"
#include "retrieval/search/dense_index.h"
#include "retrieval/search/faiss_file.h"

#include <searchr1/ext/engines.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC_BYTES 8

static const char *name_kind(const char *bytes, size_t n)
{
    if (n == MAGIC_BYTES && memcmp(bytes, sr1__bm25_kind.magic, n) == 0)
        return "BM25";
    if (n == MAGIC_BYTES && memcmp(bytes, sr1__dense_kind.magic, n) == 0)
        return "dense";
    return sr1__faiss_begins(bytes, n) ? "FAISS" : NULL;
}

const char *sr1_index_kind(const char *path)
{
    FILE *f = path ? fopen(path, "rbe") : NULL;
    char bytes[MAGIC_BYTES];
    size_t n;

    if (!f)
        return NULL;
    n = fread(bytes, 1, sizeof(bytes), f);
    fclose(f);
    return name_kind(bytes, n);
}

sr1_status sr1__index_place_check(const char *path, const char *kind, int32_t force)
{
    struct stat st;
    const char *found;

    if (stat(path, &st) != 0)
        return SR1_OK;
    if (!S_ISREG(st.st_mode))
        return sr1__fail(SR1_E_INVALID, "%s is not a file: name one for the index", path);
    if (force || st.st_size == 0)
        return SR1_OK;
    found = sr1_index_kind(path);
    if (found && strcmp(found, kind) == 0)
        return SR1_OK;
    return sr1__fail(SR1_E_INVALID,
                     "%s exists and is no %s index: name another file, or give force",
                     path, kind);
}
