/* train/checkpoint.c - write, verify and prune checkpoint folders. */
#include "train/checkpoint.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STATE_FILE "state.json"
#define STATE_MAX ((size_t)16 << 20)
#define FORMAT_VERSION 1
#define PREFIX "step-"
#define CHECK "check" /* member of the state file */

/* ---- manifest: {"path": [bytes, "hash"]} of every file but the state ---- */

static sr1_status hash_file(const char *path, uint64_t *size, uint64_t *hash)
{
    struct sr1__map map;

    SR1__TRY(sr1__map_open(&map, path));
    *size = map.size;
    *hash = sr1__hash64(map.data, map.size, 0);
    sr1__map_close(&map);
    return SR1_OK;
}

static sr1_status add_file(json_t *manifest, const char *name, const char *path)
{
    uint64_t size, hash;
    char text[17];

    SR1__TRY(hash_file(path, &size, &hash));
    snprintf(text, sizeof(text), "%016" PRIx64, hash);
    if (json_object_set_new(manifest, name,
                            json_pack("[I, s]", (json_int_t)size, text)) != 0)
        return sr1__fail_nomem("checkpoint manifest");
    return SR1_OK;
}

static sr1_status list_tree(json_t *manifest, const char *root, const char *below);

static sr1_status list_entry(json_t *manifest, const char *root, const char *below,
                             const char *entry)
{
    char *name = *below ? sr1__path_join(below, entry) : sr1__strdup(entry);
    char *path = name ? sr1__path_join(root, name) : NULL;
    sr1_status st = SR1_OK;

    if (!path)
        st = sr1__fail_nomem("checkpoint path");
    else if (sr1__path_is_dir(path))
        st = list_tree(manifest, root, name);
    else if (strcmp(name, STATE_FILE) != 0)
        st = add_file(manifest, name, path);
    sr1__free(path);
    sr1__free(name);
    return st;
}

static void free_names(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sr1__free(names[i]);
    sr1__free(names);
}

static sr1_status list_tree(json_t *manifest, const char *root, const char *below)
{
    char *path = *below ? sr1__path_join(root, below) : sr1__strdup(root);
    char **names = NULL;
    size_t n = 0;
    sr1_status st = path ? sr1__dir_list(path, &names, &n) : sr1__fail_nomem("path");

    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = list_entry(manifest, root, below, names[i]);
    free_names(names, n);
    sr1__free(path);
    return st;
}

static sr1_status make_manifest(json_t **out, const char *folder)
{
    json_t *manifest = json_object();
    sr1_status st = manifest ? list_tree(manifest, folder, "")
                             : sr1__fail_nomem("checkpoint manifest");

    if (st == SR1_OK)
        *out = manifest;
    else
        json_decref(manifest);
    return st;
}

/* The state file vouches for itself: the hash of all its other members, as text. */
static sr1_status hash_members(const json_t *all, char text[17])
{
    json_t *rest = json_copy((json_t *)(uintptr_t)all);
    struct sr1__buf b;
    sr1_status st;

    if (!rest)
        return sr1__fail_nomem("checkpoint state");
    sr1__buf_init(&b, 0);
    (void)json_object_del(rest, CHECK);
    st = sr1__json_dump(rest, 0, &b);
    if (st == SR1_OK)
        snprintf(text, 17, "%016" PRIx64, sr1__hash64(sr1__buf_cstr(&b), b.len, 0));
    sr1__buf_free(&b);
    json_decref(rest);
    return st;
}

/* ---- writing ---- */

static sr1_status make_state(json_t **out, json_t *manifest, int64_t step,
                             const json_t *state)
{
    json_t *all = json_pack("{s:i, s:I, s:O, s:O}", "format", FORMAT_VERSION, "step",
                            (json_int_t)step, "files", manifest, "state",
                            (json_t *)(uintptr_t)state);
    char text[17];
    sr1_status st = all ? hash_members(all, text) : sr1__fail_nomem("checkpoint state");

    if (st == SR1_OK && json_object_set_new(all, CHECK, json_string(text)) != 0)
        st = sr1__fail_nomem("checkpoint state");
    if (st == SR1_OK)
        *out = all;
    else
        json_decref(all);
    return st;
}

static sr1_status write_state(const char *folder, int64_t step, const json_t *state)
{
    json_t *manifest = NULL;
    json_t *all = NULL;
    char *path = sr1__path_join(folder, STATE_FILE);
    sr1_status st = path ? make_manifest(&manifest, folder) : sr1__fail_nomem("path");

    if (st == SR1_OK)
        st = make_state(&all, manifest, step, state);
    if (st == SR1_OK)
        st = sr1__json_save(all, 2, path);
    json_decref(all);
    json_decref(manifest);
    sr1__free(path);
    return st;
}

static char *step_folder(const char *run, int64_t step, const char *suffix)
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

/* Steps of the run's checkpoints, in rising order. Names that are not step-N are ignored.
 */
static int by_step(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int parse_step(const char *name, int64_t *step)
{
    char *end;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return 0;
    name += strlen(PREFIX);
    if (*name < '0' || *name > '9')
        return 0;
    errno = 0;
    *step = strtoll(name, &end, 10);
    return errno == 0 && *end == '\0';
}

static sr1_status list_steps(const char *run, int64_t **out, size_t *n_out)
{
    char *folder = sr1__path_join(run, "checkpoints");
    char **names = NULL;
    size_t n = 0, kept = 0;
    int64_t *steps = NULL;
    sr1_status st = SR1_OK;

    if (!folder)
        return sr1__fail_nomem("checkpoint path");
    if (sr1__path_is_dir(folder))
        st = sr1__dir_list(folder, &names, &n);
    if (st == SR1_OK) {
        steps = sr1__calloc(n + 1, sizeof(*steps));
        st = steps ? SR1_OK : sr1__fail_nomem("checkpoint list");
    }
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        kept += (size_t)parse_step(names[i], &steps[kept]);
    free_names(names, n);
    sr1__free(folder);
    if (st != SR1_OK)
        return st;
    qsort(steps, kept, sizeof(*steps), by_step);
    *out = steps;
    *n_out = kept;
    return SR1_OK;
}

static sr1_status remove_step(const char *run, int64_t step)
{
    char *folder = step_folder(run, step, "");
    sr1_status st = folder ? sr1__dir_remove(folder) : sr1__fail_nomem("path");

    sr1__free(folder);
    return st;
}

static sr1_status prune(const char *run, int64_t keep)
{
    int64_t *steps;
    size_t n;
    sr1_status st;

    if (keep <= 0)
        return SR1_OK;
    SR1__TRY(list_steps(run, &steps, &n));
    st = SR1_OK;
    for (size_t i = 0; i + (size_t)keep < n && st == SR1_OK; i++)
        st = remove_step(run, steps[i]);
    sr1__free(steps);
    return st;
}

sr1_status sr1__checkpoint_write(const char *run, int64_t step, const json_t *state,
                                 int64_t keep, sr1__checkpoint_fill fill, void *self)
{
    char *final = step_folder(run, step, "");
    char *temp = step_folder(run, step, ".tmp");
    sr1_status st = final && temp ? SR1_OK : sr1__fail_nomem("checkpoint path");

    if (st == SR1_OK)
        st = sr1__dir_remove(temp);
    if (st == SR1_OK)
        st = sr1__dir_make(temp);
    if (st == SR1_OK)
        st = fill(self, temp);
    if (st == SR1_OK)
        st = write_state(temp, step, state);
    if (st == SR1_OK)
        st = sr1__dir_remove(final);
    if (st == SR1_OK)
        st = sr1__rename_dir(temp, final);
    if (st == SR1_OK) {
        st = prune(run, keep);
    } else if (temp) {
        struct sr1__error e;

        sr1__error_save(&e, st);
        (void)sr1__dir_remove(temp);
        st = sr1__error_raise(&e);
    }
    sr1__free(final);
    sr1__free(temp);
    return sr1__context(st, "checkpoint of step %" PRId64, step);
}

/* ---- reading ---- */

static int vouched_for(const json_t *all)
{
    const char *said = json_string_value(json_object_get(all, CHECK));
    char text[17];

    return said && hash_members(all, text) == SR1_OK && strcmp(said, text) == 0;
}

/* The folder's state when it is of that step and every file is as its manifest says; NULL
 * when it is not whole. */
static json_t *whole_state(const char *folder, int64_t step)
{
    char *path = sr1__path_join(folder, STATE_FILE);
    json_t *all = NULL, *found = NULL, *state = NULL;

    if (path && sr1__json_load(&all, path, STATE_MAX) == SR1_OK && vouched_for(all) &&
        json_integer_value(json_object_get(all, "format")) == FORMAT_VERSION &&
        json_integer_value(json_object_get(all, "step")) == step &&
        make_manifest(&found, folder) == SR1_OK &&
        json_equal(found, json_object_get(all, "files")))
        state = json_incref(json_object_get(all, "state"));
    json_decref(found);
    json_decref(all);
    sr1__free(path);
    return state;
}

sr1_status sr1__checkpoint_newest(const char *run, char **folder, int64_t *step,
                                  json_t **state, int64_t *torn)
{
    int64_t *steps, bad = 0;
    size_t n;
    sr1_status st = SR1_E_NOT_FOUND;

    SR1__TRY(list_steps(run, &steps, &n));
    while (n > 0 && st == SR1_E_NOT_FOUND) {
        char *path = step_folder(run, steps[--n], "");
        json_t *found = path ? whole_state(path, steps[n]) : NULL;

        if (!path) {
            st = sr1__fail_nomem("checkpoint path");
        } else if (found) {
            *folder = path;
            *step = steps[n];
            *state = found;
            st = SR1_OK;
            break;
        }
        if (path)
            sr1__log(SR1_LOG_WARN, "%s is torn and passed over", path);
        bad += path != NULL;
        sr1__free(path);
    }
    sr1__free(steps);
    if (torn)
        *torn = bad;
    if (st == SR1_E_NOT_FOUND)
        return sr1__fail(
            st,
            "%s: no whole checkpoint in it (%" PRId64 " torn); to begin again remove "
            "%s/checkpoints, or train into another folder",
            run, bad, run);
    return st;
}
