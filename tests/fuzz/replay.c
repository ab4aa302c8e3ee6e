/* replay.c - run a fuzz target over the files of a folder, and over every prefix of the
 * small ones: cut input is what hostile files are most often made of. */
#include "fuzz.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>

#define PREFIX_MAX 512

/* A copy of exact size, so that a sanitizer sees a read past its end. */
static void run(const char *data, size_t size)
{
    uint8_t *copy = sr1__memdup(data, size);

    if (!copy)
        abort();
    LLVMFuzzerTestOneInput(copy, size);
    sr1__free(copy);
}

static int replay(const char *folder, const char *name)
{
    char *path = sr1__path_join(folder, name);
    struct sr1__buf b;

    if (!path || sr1__file_read(path, 0, &b) != SR1_OK) {
        fprintf(stderr, "%s\n", sr1_last_error());
        sr1__free(path);
        return 0;
    }
    for (size_t n = 0; n < b.len && n < PREFIX_MAX; n++)
        run(b.data, n);
    run(sr1__buf_cstr(&b), b.len);
    sr1__buf_free(&b);
    sr1__free(path);
    return 1;
}

int main(int argc, char **argv)
{
    char **names = NULL;
    size_t n = 0, done = 0;

    if (argc != 2 || sr1__dir_list(argv[1], &names, &n) != SR1_OK) {
        fprintf(stderr, "usage: replay FOLDER: %s\n", sr1_last_error());
        return 2;
    }
    for (size_t i = 0; i < n; i++) {
        done += (size_t)replay(argv[1], names[i]);
        sr1__free(names[i]);
    }
    sr1__free(names);
    printf("%zu of %zu inputs replayed\n", done, n);
    return n > 0 && done == n ? 0 : 1;
}
