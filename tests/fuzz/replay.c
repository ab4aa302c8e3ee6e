/* replay.c - runs a fuzz target once on every file of a corpus folder, and on no bytes.
 *
 *     replay-protocol tests/fuzz/corpus/protocol
 *
 * A finding ends the program by a signal or a sanitizer report, as under libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES ((size_t)16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *folder, const char *name)
{
    char path[4096];
    size_t size;
    uint8_t *exact; /* its end is the end of the allocation: overruns are seen */
    uint8_t *bytes = malloc(MAX_BYTES);
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "rb");
    if (f == NULL || bytes == NULL) {
        fprintf(stderr, "cannot read %s\n", path);
        free(bytes);
        return 1;
    }
    size = fread(bytes, 1, MAX_BYTES, f);
    fclose(f);
    exact = realloc(bytes, size ? size : 1);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 0;
}

int main(int argc, char **argv)
{
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    struct dirent *entry;
    int failed = 0;
    int count = 0;

    if (folder == NULL) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        failed |= replay(argv[1], entry->d_name);
        count++;
    }
    closedir(folder);
    printf("%d inputs replayed\n", count);
    return failed || count == 0;
}
