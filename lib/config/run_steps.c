/* config/run_steps.c - see run_steps.h. */
#include "config/run_steps.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PREFIX "step-"
#define MODEL "model/"

char *sr1__run_step_folder(const char *run, int64_t step, const char *suffix)
{
    struct sr1__buf b;

    sr1__buf_init(&b, 0);
    sr1__buf_fmt(&b, "%s/checkpoints/" PREFIX "%" PRId64 "%s", run, step, suffix);
    if (sr1__buf_status(&b, "checkpoint path") != SR1_OK) {
        sr1__buf_free(&b);
        return NULL;
    }
    return sr1__buf_take(&b);
}

/* ---- all of a run ---- */

static int compare_steps(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int parse_step(const char *name, const char *suffix, int64_t *step)
{
    char *end;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return 0;
    name += strlen(PREFIX);
    if (*name < '0' || *name > '9')
        return 0;
    errno = 0;
    *step = strtoll(name, &end, 10);
    return errno == 0 && strcmp(end, suffix) == 0;
}

static sr1_status take_steps(char *const *names, size_t n, const char *suffix,
                             int64_t **out, size_t *n_out)
{
    int64_t *steps = sr1__calloc(n + 1, sizeof(*steps));
    size_t kept = 0;

    if (!steps)
        return sr1__fail_nomem("checkpoint list");
    for (size_t i = 0; i < n; i++)
        kept += (size_t)parse_step(names[i], suffix, &steps[kept]);
    qsort(steps, kept, sizeof(*steps), compare_steps);
    *out = steps;
    *n_out = kept;
    return SR1_OK;
}

sr1_status sr1__run_steps(const char *run, const char *suffix, int64_t **steps, size_t *n)
{
    char *folder = sr1__path_join(run, "checkpoints");
    char **names = NULL;
    size_t n_names = 0;
    sr1_status st = folder ? SR1_OK : sr1__fail_nomem("checkpoint path");

    if (st == SR1_OK && !sr1__run_is_missing(folder))
        st = sr1__dir_list(folder, &names, &n_names);
    if (st == SR1_OK)
        st = take_steps(names, n_names, suffix, steps, n);
    sr1__dir_list_free(names, n_names);
    sr1__free(folder);
    return st;
}

/* ---- one of them ---- */

int sr1__run_is_missing(const char *path)
{
    struct stat st;

    return stat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

/* Is folder/name a file of this many bytes? */
static sr1_status check_size(const char *folder, const char *name, int64_t bytes,
                             int *yes)
{
    char *path = sr1__path_join(folder, name);
    struct stat found;
    sr1_status st = SR1_OK;

    *yes = 0;
    if (!path)
        return sr1__fail_nomem("path");
    if (stat(path, &found) == 0)
        *yes = S_ISREG(found.st_mode) && found.st_size == bytes;
    else if (errno != ENOENT && errno != ENOTDIR)
        st = sr1__fail_errno("look for", path);
    sr1__free(path);
    return st;
}

static sr1_status check_model_files(const char *folder, const json_t *files, int *yes)
{
    int found = 0, same = 1;
    const char *name;
    json_t *entry;

    json_object_foreach((json_t *)(uintptr_t)files, name, entry)
    {
        if (strncmp(name, MODEL, strlen(MODEL)) != 0)
            continue;
        found = 1;
        SR1__TRY(check_size(folder, name, json_integer_value(json_array_get(entry, 0)),
                            &same));
        if (!same)
            break;
    }
    *yes = found && same;
    return SR1_OK;
}

sr1_status sr1__run_step_has_model(const char *folder, int *yes)
{
    char *path = sr1__path_join(folder, SR1__STATE_FILE);
    json_t *state = NULL;
    sr1_status st = path ? SR1_OK : sr1__fail_nomem("path");

    *yes = 0;
    if (st == SR1_OK && !sr1__run_is_missing(path))
        st = sr1__json_load(&state, path, SR1__STATE_MAX);
    if (st == SR1_E_PARSE || st == SR1_E_LIMIT)
        st = SR1_OK;
    else if (st == SR1_OK)
        st = check_model_files(folder, json_object_get(state, SR1__STATE_FILES), yes);
    json_decref(state);
    sr1__free(path);
    return st;
}
