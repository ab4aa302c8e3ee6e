/* fuzz_search_cache.c - whatever the bytes of a disk cache's file, opening it, reading
 * and writing go on, and what is written can be read back. */
#include "base/error.h"
#include "base/file.h"
#include "fuzz.h"
#include "retrieval/search/disk_store.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char folder[256], path[300];

static void remove_folder(void)
{
    (void)sr1__dir_remove(folder);
}

static void make_folder(void)
{
    const char *base = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%s/sr1-fuzz-XXXXXX", base ? base : "/tmp");
    FUZZ_CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/answers", folder);
    FUZZ_CHECK(atexit(remove_folder) == 0);
}

static void write_file(const uint8_t *data, size_t size)
{
    FILE *f = fopen(path, "wb");

    FUZZ_CHECK(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

static int get(struct sr1__disk_store *s, const char *key, const char *value)
{
    struct sr1__buf b;
    int64_t time;
    int has;

    sr1__buf_init(&b, 0);
    has = sr1__disk_store_get(s, key, strlen(key), &b, &time);
    if (has && value)
        has = strcmp(sr1__buf_cstr(&b), value) == 0;
    sr1__buf_free(&b);
    return has;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sr1__disk_store *s = NULL, *other = NULL;

    if (!folder[0])
        make_folder();
    write_file(data, size);
    FUZZ_CHECK(sr1__disk_store_open(&s, folder, 1 << 16) == SR1_OK);
    (void)get(s, "a", NULL);
    sr1__disk_store_put(s, "a", 1, "one", 3, INT64_MAX - 1);
    sr1__disk_store_put(s, "b", 1, "two", 3, INT64_MAX);
    FUZZ_CHECK(get(s, "a", "one") && get(s, "b", "two"));
    FUZZ_CHECK(sr1__disk_store_open(&other, folder, 1 << 16) == SR1_OK);
    FUZZ_CHECK(get(other, "a", "one") && get(other, "b", "two"));
    sr1__disk_store_close(other);
    sr1__disk_store_close(s);
    return 0;
}
