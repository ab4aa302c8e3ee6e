/* train/checkpoint.c - write, verify and prune checkpoint folders. */
#include "train/checkpoint.h"

#include "base/file.h"
#include "base/map_watch.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "config/run_steps.h"

#include <inttypes.h>
#include <string.h>

#define STATE_FILE SR1__STATE_FILE
#define FORMAT_VERSION 1
#define CHECK "check" /* member of the state file */

/* ---- manifest: {"path": [bytes, "hash"]} of every file but the state ---- */

static sr1_status hash_file(const char *path, uint64_t *size, uint64_t *hash)
{
    struct sr1__map map;
    sr1_status st;

    SR1__TRY(sr1__map_open_watched(&map, path, 0));
    *size = map.size;
    *hash = sr1__hash64(map.data, map.size, 0);
    st = sr1__map_check(&map);
    sr1__map_close(&map);
    return st;
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

/* A tree and those of its files that count. */
struct listing {
    const char *root;
    json_t *manifest;
    int32_t rank; /* that wrote them; -1: all files */
};

/* The rank that writes a file: K - 1 of "NAME-0000K-of-0000N.SUFFIX", else 0. */
static int32_t find_writer(const char *name)
{
    const size_t form = strlen("-00001-of-00001");
    const char *end = strrchr(name, '.'), *at;
    int64_t k, n;

    if (!end || (size_t)(end - name) < form)
        return 0;
    at = end - form;
    if (*at != '-' || memcmp(at + 6, "-of-", 4) != 0 || !sr1__parse_int(at + 1, 5, &k) ||
        !sr1__parse_int(at + 10, 5, &n))
        return 0;
    return k > 0 && k <= n ? (int32_t)(k - 1) : 0;
}

static sr1_status list_tree(const struct listing *l, const char *below);

static sr1_status list_entry(const struct listing *l, const char *below,
                             const char *entry)
{
    char *name = *below ? sr1__path_join(below, entry) : sr1__strdup(entry);
    char *path = name ? sr1__path_join(l->root, name) : NULL;
    sr1_status st = SR1_OK;

    if (!path)
        st = sr1__fail_nomem("checkpoint path");
    else if (sr1__path_is_dir(path))
        st = list_tree(l, name);
    else if (strcmp(name, STATE_FILE) != 0 &&
             (l->rank < 0 || l->rank == find_writer(name)))
        st = add_file(l->manifest, name, path);
    sr1__free(path);
    sr1__free(name);
    return st;
}

static sr1_status list_tree(const struct listing *l, const char *below)
{
    char *path = *below ? sr1__path_join(l->root, below) : sr1__strdup(l->root);
    char **names = NULL;
    size_t n = 0;
    sr1_status st = path ? sr1__dir_list(path, &names, &n) : sr1__fail_nomem("path");

    for (size_t i = 0; i < n && st == SR1_OK; i++)
        if (names[i][0] != '.') /* of file managers and network file systems */
            st = list_entry(l, below, names[i]);
    sr1__dir_list_free(names, n);
    sr1__free(path);
    return st;
}

static sr1_status make_manifest(json_t **out, const char *folder, int32_t rank)
{
    struct listing l = {.root = folder, .manifest = json_object(), .rank = rank};
    sr1_status st =
        l.manifest ? list_tree(&l, "") : sr1__fail_nomem("checkpoint manifest");

    if (st == SR1_OK)
        *out = l.manifest;
    else
        json_decref(l.manifest);
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

/* What is wrong with what state.json says; NULL where nothing is. */
static sr1_status find_fault(const json_t *all, const char **fault)
{
    const char *said = json_string_value(json_object_get(all, CHECK));
    char text[17];

    SR1__TRY(hash_members(all, text));
    if (!said || strcmp(said, text) != 0)
        *fault = STATE_FILE " does not match its own check";
    else if (json_integer_value(json_object_get(all, "format")) != FORMAT_VERSION)
        *fault = STATE_FILE " is of another format";
    else
        *fault = NULL;
    return SR1_OK;
}

static int64_t get_state_step(const json_t *all)
{
    return json_integer_value(json_object_get(all, "step"));
}

/* ---- writing ---- */

static sr1_status make_state(json_t **out, json_t *manifest, int64_t step,
                             const json_t *state)
{
    json_t *all = json_pack("{s:i, s:I, s:O, s:O}", "format", FORMAT_VERSION, "step",
                            (json_int_t)step, SR1__STATE_FILES, manifest, "state",
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

static sr1_status write_state(const char *folder, int64_t step, const json_t *state,
                              json_t *manifest)
{
    json_t *all = NULL;
    char *path = sr1__path_join(folder, STATE_FILE);
    sr1_status st = path ? SR1_OK : sr1__fail_nomem("path");

    if (st == SR1_OK)
        st = make_state(&all, manifest, step, state);
    if (st == SR1_OK)
        st = sr1__json_save(all, 2, path);
    json_decref(all);
    sr1__free(path);
    return st;
}

/* What another rank wrote. */
static sr1_status add_files(json_t *manifest, const void *text, size_t n)
{
    json_t *part = NULL;
    sr1_status st = sr1__json_parse(&part, text, n, "manifest of a rank");

    if (st == SR1_OK && json_object_update_missing(manifest, part) != 0)
        st = sr1__fail_nomem("checkpoint manifest");
    json_decref(part);
    return st;
}

static sr1_status add_ranks(struct sr1__dist *d, json_t *manifest,
                            const struct sr1__gathered *g)
{
    for (int32_t r = 0; r < sr1__dist_size(d); r++) {
        size_t n;
        const void *text = sr1__gathered_of(g, r, &n);

        if (r != sr1__dist_rank(d))
            SR1__TRY(add_files(manifest, text, n));
    }
    return SR1_OK;
}

/* Files of all ranks, of which each hashes its own. */
static sr1_status share_manifest(struct sr1__dist *d, const char *folder, json_t **out)
{
    struct sr1__buf b;
    struct sr1__gathered g;
    sr1_status st = make_manifest(out, folder, d ? sr1__dist_rank(d) : -1);

    if (!d)
        return st;
    sr1__buf_init(&b, 0);
    if (st == SR1_OK)
        st = sr1__json_dump(*out, 0, &b);
    st = sr1__dist_await(d, "hashes of files", st);
    if (st == SR1_OK)
        st = sr1__dist_gather(d, "files of a checkpoint", st, sr1__buf_cstr(&b), b.len,
                              &g);
    sr1__buf_free(&b);
    SR1__TRY(st);
    st = add_ranks(d, *out, &g);
    sr1__gathered_free(&g);
    return st;
}

sr1_status sr1__checkpoint_count(const char *run, int64_t *n_out)
{
    int64_t *steps = NULL;
    size_t n = 0;

    SR1__TRY(sr1__run_steps(run, "", &steps, &n));
    sr1__free(steps);
    *n_out = (int64_t)n;
    return SR1_OK;
}

/* Is the folder of this step a whole checkpoint of another, which somebody keeps? */
static int is_copy(const char *folder, int64_t step)
{
    char *path = sr1__path_join(folder, STATE_FILE);
    const char *fault = NULL;
    json_t *all = NULL;
    int yes = path && sr1__json_load(&all, path, SR1__STATE_MAX) == SR1_OK &&
              find_fault(all, &fault) == SR1_OK && !fault && get_state_step(all) != step;

    json_decref(all);
    sr1__free(path);
    return yes;
}

/* The checkpoint that made this one needless is written: what cannot be removed stays,
 * and a copy of another. */
static void remove_step(const char *run, int64_t step, const char *suffix)
{
    char *folder = sr1__run_step_folder(run, step, suffix);

    if (folder && !is_copy(folder, step) && sr1__dir_remove(folder) != SR1_OK)
        sr1__log(SR1_LOG_WARN, "an old checkpoint stays: %s", sr1_last_error());
    sr1__free(folder);
}

/* Remove what writes that were killed left. */
static sr1_status remove_temporaries(const char *run)
{
    int64_t *steps;
    size_t n;

    SR1__TRY(sr1__run_steps(run, SR1__STEP_TEMPORARY, &steps, &n));
    for (size_t i = 0; i < n; i++)
        remove_step(run, steps[i], SR1__STEP_TEMPORARY);
    sr1__free(steps);
    return SR1_OK;
}

/* Remove all but the best and the newest `keep`. Those of later steps are torn ones that
 * a resumed run passed over: they count for nothing, and go. */
static sr1_status remove_old_steps(const struct sr1__checkpoint *c)
{
    int64_t *steps;
    size_t n, later;

    if (c->keep <= 0)
        return SR1_OK;
    SR1__TRY(sr1__run_steps(c->run, "", &steps, &n));
    for (later = n; later > 0 && steps[later - 1] > c->step; later--)
        remove_step(c->run, steps[later - 1], "");
    for (size_t i = 0; i + (size_t)c->keep < later; i++)
        if (steps[i] != c->best)
            remove_step(c->run, steps[i], "");
    sr1__free(steps);
    return SR1_OK;
}

/* No failure here makes the checkpoint that was written a failed one. */
static void prune_checkpoints(const struct sr1__checkpoint *c)
{
    struct sr1__error before;

    sr1__error_save(&before, SR1_E_IO);
    if (remove_temporaries(c->run) != SR1_OK || remove_old_steps(c) != SR1_OK)
        sr1__log(SR1_LOG_WARN, "old checkpoints stay: %s", sr1_last_error());
    (void)sr1__error_raise(&before);
}

/* The folder under its name to be, empty. */
static sr1_status begin_folder(const char *temp)
{
    SR1__TRY(sr1__dir_remove(temp));
    return sr1__dir_make(temp);
}

/* It is whole but for the state, and becomes the checkpoint. */
static sr1_status finish_folder(const struct sr1__checkpoint *c, const char *temp,
                                const char *final, json_t *manifest)
{
    SR1__TRY(write_state(temp, c->step, c->state, manifest));
    SR1__TRY(sr1__dir_remove(final));
    SR1__TRY(sr1__rename_dir(temp, final));
    /* The folder of checkpoints may be new, and journals too. */
    return sr1__dir_sync(c->run);
}

/* All ranks return one status of each part before they go on to the next. */
static sr1_status write_together(const struct sr1__checkpoint *c, const char *temp,
                                 const char *final)
{
    int32_t rank = sr1__dist_rank(c->dist);
    json_t *manifest = NULL;
    sr1_status st = rank == 0 ? begin_folder(temp) : SR1_OK;

    SR1__TRY(sr1__dist_agree(c->dist, "checkpoint folder", st));
    SR1__TRY(sr1__dist_await(c->dist, "checkpoint files", c->fill(c->self, temp)));
    st = share_manifest(c->dist, temp, &manifest);
    if (st == SR1_OK && rank == 0)
        st = finish_folder(c, temp, final, manifest);
    json_decref(manifest);
    return sr1__dist_await(c->dist, "checkpoint", st);
}

static void remove_failed(const char *temp, sr1_status st)
{
    struct sr1__error e;

    sr1__error_save(&e, st);
    (void)sr1__dir_remove(temp);
    (void)sr1__error_raise(&e);
}

sr1_status sr1__checkpoint_write(const struct sr1__checkpoint *c)
{
    char *final = sr1__run_step_folder(c->run, c->step, "");
    char *temp = sr1__run_step_folder(c->run, c->step, SR1__STEP_TEMPORARY);
    sr1_status st = final && temp ? SR1_OK : sr1__fail_nomem("checkpoint path");

    st = sr1__dist_agree(c->dist, "checkpoint path", st);
    if (st == SR1_OK)
        st = write_together(c, temp, final);
    if (sr1__dist_rank(c->dist) == 0 && st == SR1_OK)
        prune_checkpoints(c);
    else if (sr1__dist_rank(c->dist) == 0 && temp)
        remove_failed(temp, st);
    sr1__free(final);
    sr1__free(temp);
    return sr1__context(st, "checkpoint of step %" PRId64, c->step);
}

/* ---- reading ---- */

/* The first file of the manifest that was not found so; NULL: none. */
static const char *find_difference(const json_t *manifest, const json_t *found)
{
    const char *name;
    json_t *entry;

    json_object_foreach((json_t *)(uintptr_t)manifest, name, entry)
    {
        if (!json_equal(entry, json_object_get(found, name)))
            return name;
    }
    return NULL;
}

/* A file that was added is not torn: a loader might read it, and it may be removed. */
static sr1_status refuse_added(const json_t *manifest, const json_t *found)
{
    const char *name;
    json_t *entry;

    json_object_foreach((json_t *)(uintptr_t)found, name, entry)
    {
        if (!json_object_get(manifest, name))
            return sr1__fail(SR1_E_STATE, "%s was added to it; remove that file", name);
    }
    return SR1_OK;
}

/* A checkpoint under examination. */
struct candidate {
    const char *folder;
    int64_t step;
    json_t *state;   /* new reference once it proved whole */
    int64_t copied;  /* the step that it is a copy of under another number; 0: none */
    char fault[512]; /* why it is torn */
};

static sr1_status match_files(struct candidate *c, const json_t *all)
{
    json_t *found = NULL;
    const char *name;
    sr1_status st = SR1_OK;

    SR1__TRY(make_manifest(&found, c->folder, -1));
    name = find_difference(json_object_get(all, SR1__STATE_FILES), found);
    if (name)
        snprintf(c->fault, sizeof(c->fault), "%.400s is %s", name,
                 json_object_get(found, name) ? "not as it was written" : "missing");
    else
        st = refuse_added(json_object_get(all, SR1__STATE_FILES), found);
    if (!name && st == SR1_OK)
        c->state = json_incref(json_object_get(all, "state"));
    json_decref(found);
    return st;
}

/* The state file; *all stays NULL where it is torn. */
static sr1_status load_state_file(struct candidate *c, json_t **all)
{
    char *path = sr1__path_join(c->folder, STATE_FILE);
    sr1_status st = path ? SR1_OK : sr1__fail_nomem("path");

    if (st == SR1_OK && sr1__run_is_missing(path))
        snprintf(c->fault, sizeof(c->fault), STATE_FILE " is missing");
    else if (st == SR1_OK)
        st = sr1__json_load(all, path, SR1__STATE_MAX);
    if (st == SR1_E_PARSE || st == SR1_E_LIMIT) {
        snprintf(c->fault, sizeof(c->fault), "%.500s", sr1_last_error());
        st = SR1_OK;
    }
    sr1__free(path);
    return st;
}

/* Only what is in its files makes a checkpoint torn: it is not as it was written. That
 * they cannot be read now (no permission, no file handle, no memory) is a failure. */
static sr1_status examine_candidate(struct candidate *c)
{
    const char *fault = NULL;
    json_t *all = NULL;
    sr1_status st = load_state_file(c, &all);

    if (st == SR1_OK && all)
        st = find_fault(all, &fault);
    if (st == SR1_OK && fault)
        snprintf(c->fault, sizeof(c->fault), "%s", fault);
    else if (st == SR1_OK && all && get_state_step(all) != c->step)
        c->copied = get_state_step(all);
    else if (st == SR1_OK && all)
        st = match_files(c, all);
    json_decref(all);
    return sr1__context(st,
                        "%s cannot be read; mend that, or move it away to go on from the "
                        "checkpoint before it",
                        c->folder);
}

/* The folder's state when it is whole, else NULL, and the log says why. */
static sr1_status take_whole(const char *folder, int64_t step, json_t **state)
{
    struct candidate c = {.folder = folder, .step = step};

    SR1__TRY(examine_candidate(&c));
    if (c.copied)
        sr1__log(SR1_LOG_WARN,
                 "%s is a copy of the checkpoint of step %" PRId64
                 ", passed over and kept; give it another name (step-%" PRId64 ".copy)",
                 folder, c.copied, c.copied);
    else if (!c.state)
        sr1__log(SR1_LOG_WARN, "%s is torn and passed over: %s", folder, c.fault);
    *state = c.state;
    return SR1_OK;
}

sr1_status sr1__checkpoint_is_whole(const char *run, int64_t step, int32_t *yes)
{
    char *folder = sr1__run_step_folder(run, step, "");
    json_t *state = NULL;
    sr1_status st = folder ? take_whole(folder, step, &state) : sr1__fail_nomem("path");

    *yes = state != NULL;
    json_decref(state);
    sr1__free(folder);
    return st;
}

static sr1_status fail_none_whole(const char *run, int64_t torn)
{
    return sr1__fail(SR1_E_NOT_FOUND,
                     "%s: no whole checkpoint in it (%" PRId64
                     " torn); to begin again remove "
                     "%s/checkpoints, or train into another folder",
                     run, torn, run);
}

sr1_status sr1__checkpoint_newest(const char *run, char **folder, int64_t *step,
                                  json_t **state, int64_t *torn)
{
    int64_t *steps, bad = 0;
    size_t n;
    json_t *found = NULL;
    char *path = NULL;
    sr1_status st = SR1_OK;

    SR1__TRY(sr1__run_steps(run, "", &steps, &n));
    for (; n > 0 && st == SR1_OK && !found; n--) {
        sr1__free(path);
        path = sr1__run_step_folder(run, steps[n - 1], "");
        st = path ? take_whole(path, steps[n - 1], &found)
                  : sr1__fail_nomem("checkpoint path");
        bad += st == SR1_OK && !found;
    }
    if (torn)
        *torn = bad;
    if (found) {
        *folder = path;
        *step = steps[n];
        *state = found;
    } else {
        sr1__free(path);
        st = st == SR1_OK ? fail_none_whole(run, bad) : st;
    }
    sr1__free(steps);
    return st;
}
