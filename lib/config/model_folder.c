/* config/model_folder.c - see model_folder.h. */
#include "config/model_folder.h"

#include "base/file.h"
#include "base/mem.h"
#include "config/paths.h"
#include "config/run_config.h"

#include <string.h>
#include <sys/stat.h>

#define CONFIG_MAX ((size_t)4 << 20)
#define ADAPTERS_MAX 8 /* of runs whose first model was an adapter of a run, ... */

sr1_status sr1__adapter_is_folder(const char *folder, int *yes)
{
    char *path = sr1__path_join(folder, SR1__ADAPTER_CONFIG_FILE);
    struct stat st;

    SR1__CHECK_ALLOC(path, "file name");
    *yes = lstat(path, &st) == 0;
    sr1__free(path);
    return SR1_OK;
}

sr1_status sr1__adapter_base_named(const json_t *root, const char *name, const char **out)
{
    const json_t *v = sr1__json_given(root, "base_model_name_or_path");
    const char *text = v ? json_string_value(v) : "";

    if (!text)
        return sr1__fail(SR1_E_PARSE, "%s: 'base_model_name_or_path' is not a text",
                         name);
    if (*text && strlen(text) != json_string_length(v))
        return sr1__fail(SR1_E_PARSE,
                         "%s: 'base_model_name_or_path' has a NUL in it; write the "
                         "folder of the base there",
                         name);
    *out = text;
    return SR1_OK;
}

/* What adapter_config.json says, as a copy. */
static sr1_status read_base_name(const char *folder, char **out)
{
    char *path = sr1__path_join(folder, SR1__ADAPTER_CONFIG_FILE);
    json_t *root = NULL;
    const char *named = "";
    sr1_status st =
        path ? sr1__json_load(&root, path, CONFIG_MAX) : sr1__fail_nomem("file name");

    if (st == SR1_OK)
        st = sr1__adapter_base_named(root, path, &named);
    if (st == SR1_OK && !(*out = sr1__strdup(named)))
        st = sr1__fail_nomem("base of an adapter");
    json_decref(root);
    sr1__free(path);
    return st;
}

/* If `folder` is the model of a run, *out is what the run was trained from, else NULL. */
static sr1_status find_run_start(const char *folder, char **out)
{
    char *run = NULL;
    sr1_config *c = NULL;
    const char *start;
    sr1_status st;

    SR1__TRY(sr1__config_run_above(folder, &run));
    if (!run)
        return SR1_OK;
    st = sr1_config_new(&c);
    if (st == SR1_OK)
        st = sr1__config_load_recorded(c, run);
    if (st == SR1_OK)
        st = sr1__config_paths_moved(c, run);
    start = st == SR1_OK ? sr1__config_str(c, "model_name_or_path") : "";
    if (*start && !(*out = sr1__strdup(start)))
        st = sr1__fail_nomem("base of an adapter");
    sr1_config_free(c);
    sr1__free(run);
    return st;
}

/* The base named in `folder`, and where it is not there, the one by the run. */
static sr1_status find_named(struct sr1__model_base *b, const char *folder, int depth)
{
    struct sr1__model_base first = {NULL, NULL};
    char *start = NULL;
    int nested = 0;
    sr1_status st;

    SR1__TRY(read_base_name(folder, &b->folder));
    if (sr1__path_is_dir(b->folder) || depth == ADAPTERS_MAX)
        return SR1_OK;
    SR1__TRY(find_run_start(folder, &start));
    if (!start)
        return SR1_OK;
    st = sr1__adapter_is_folder(start, &nested);
    if (st == SR1_OK && nested) /* the run went on with an adapter: that one's base */
        st = find_named(&first, start, depth + 1);
    b->tried = nested ? first.folder : start;
    sr1__free(nested ? start : NULL);
    sr1__free(first.tried);
    if (st == SR1_OK && strcmp(b->tried, b->folder) == 0) {
        sr1__free(b->tried);
        b->tried = NULL;
    } else if (st == SR1_OK && sr1__path_is_dir(b->tried)) {
        char *named = b->folder;

        b->folder = b->tried;
        b->tried = named;
    }
    return st;
}

sr1_status sr1__model_base_find(struct sr1__model_base *out, const char *folder,
                                const char *given)
{
    struct sr1__model_base b = {NULL, NULL};
    sr1_status st = SR1_OK;

    if (given && *given)
        b.folder = sr1__strdup(given);
    else
        st = find_named(&b, folder, 0);
    if (st == SR1_OK && !b.folder)
        st = sr1__fail_nomem("base of an adapter");
    if (st != SR1_OK) {
        sr1__model_base_free(&b);
        return st;
    }
    *out = b;
    return SR1_OK;
}

void sr1__model_base_free(struct sr1__model_base *b)
{
    sr1__free(b->folder);
    sr1__free(b->tried);
    b->folder = b->tried = NULL;
}

sr1_status sr1__model_spare_folder(char **out, const char *folder, const char *given)
{
    struct sr1__model_base b = {NULL, NULL};
    int adapter = 0;

    *out = NULL;
    SR1__TRY(sr1__adapter_is_folder(folder, &adapter));
    if (!adapter)
        return SR1_OK;
    SR1__TRY(sr1__model_base_find(&b, folder, given));
    if (sr1__path_is_dir(b.folder)) {
        *out = b.folder;
        b.folder = NULL;
    }
    sr1__model_base_free(&b);
    return SR1_OK;
}
