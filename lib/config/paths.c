/* config/paths.c - see paths.h. */
#include "config/paths.h"

#include "base/file.h"
#include "base/mem.h"

#include <searchr1/ext/config_names.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A path key's words that are no paths. */
static const struct {
    const char *key, *word;
} words[] = {{"prompt_template", "none"}, {"question_template", "search-r1"}};

/* Folders of models: what is not there may be a name at Hugging Face, which errors are to
 * show as it was given. */
static const char *const models[] = {
    "model_name_or_path", "base_model_name_or_path", "tokenizer",      "proxy_model",
    "critic_model",       "reward_embedder",         "search_encoder", "search_reranker"};

/* Lists of paths. */
static const char *const lists[] = {"code_problems", "train_file", "validation_file",
                                    "test_file", "reward_programs"};

static int is_listed_key(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

#define IS_AMONG(name, names) is_listed_key(name, names, sizeof(names) / sizeof(names[0]))

int sr1__config_is_path_list(const struct config_key *key)
{
    return IS_AMONG(key->name, lists);
}

/* The folder of the run is made, not found: it lies where the program was started. */
static int is_path(const struct config_key *key)
{
    return (key->type == SR1_CONFIG_PATH && strcmp(key->name, "out") != 0) ||
           sr1__config_is_path_list(key);
}

static int is_reserved_word(const struct config_key *key, const char *s)
{
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(words[i].key, key->name) == 0 && strcmp(words[i].word, s) == 0)
            return 1;
    return 0;
}

/* "owner/name": what a hub's names look like. */
static int may_be_hub_name(const char *s)
{
    const char *slash = strchr(s, '/');

    return *s != '.' && *s != '~' &&
           !(slash && (slash[1] == '\0' || strchr(slash + 1, '/')));
}

/* ---- one change to every path of a value ---- */

/* The path that takes the place of s, or NULL with *st where it stays or there is no
 * memory. */
typedef char *(*change_fn)(const struct config_key *key, const char *s, const void *with,
                           sr1_status *st);

static sr1_status change_item(const struct config_key *key, const char *s,
                              change_fn change, const void *with, struct sr1__buf *out)
{
    sr1_status st = SR1_OK;
    char *other = *s && !is_reserved_word(key, s) ? change(key, s, with, &st) : NULL;

    sr1__buf_str(out, other ? other : s);
    sr1__free(other);
    return st;
}

/* A list has its items one by one, without the spaces around them. */
static sr1_status change_items(const struct config_key *key, const char *text,
                               change_fn change, const void *with, struct sr1__buf *out)
{
    if (key->type != SR1_CONFIG_LIST)
        return change_item(key, text, change, with, out);
    while (*text) {
        size_t n = strcspn(text, ","), begin = strspn(text, " ");
        size_t end = n;
        char *item;
        sr1_status st;

        begin = begin < n ? begin : n;
        while (end > begin && text[end - 1] == ' ')
            end--;
        item = sr1__strndup(text + begin, end - begin);
        st = item ? change_item(key, item, change, with, out)
                  : sr1__fail_nomem("configuration value");
        sr1__free(item);
        SR1__TRY(st);
        text += n;
        if (*text == ',') {
            sr1__buf_char(out, ',');
            text++;
        }
    }
    return SR1_OK;
}

static sr1_status change_text(const struct config_key *key, const char *text,
                              change_fn change, const void *with, char **out)
{
    struct sr1__buf b;
    sr1_status st;

    sr1__buf_init(&b, 1 << 20);
    st = change_items(key, text, change, with, &b);
    if (st == SR1_OK)
        st = sr1__buf_status(&b, "configuration value");
    if (st == SR1_OK) {
        *out = sr1__buf_take(&b);
        st = *out ? SR1_OK : sr1__fail_nomem("configuration value");
    }
    sr1__buf_free(&b);
    return st;
}

/* The path or paths of a key, where it was set. */
static sr1_status change_key(sr1_config *c, const struct config_key *key,
                             change_fn change, const void *with)
{
    const char *old = is_path(key) ? sr1__config_str(c, key->name) : "";
    char *text = NULL;
    int32_t set = 0;
    sr1_status st;

    SR1__TRY(sr1_config_is_set(c, key->name, &set));
    if (!*old || !set)
        return SR1_OK;
    SR1__TRY(change_text(key, old, change, with, &text));
    st = strcmp(text, old) != 0 ? sr1_config_set(c, key->name, text) : SR1_OK;
    sr1__free(text);
    return st;
}

/* Every path of c that a rule changes; whether it was set stays as it was. */
static sr1_status change_all(sr1_config *c, change_fn change, const void *with)
{
    for (size_t i = 0; i < CONFIG_N_KEYS; i++)
        SR1__TRY(change_key(c, &sr1__config_keys[i], change, with));
    return SR1_OK;
}

/* ---- beside a file ---- */

static char *resolve_path_beside(const struct config_key *key, const char *s,
                                 const void *folder, sr1_status *st)
{
    char *path = *s != '/' ? sr1__path_join(folder, s) : NULL;

    (void)key;
    if (*s != '/' && !path)
        *st = sr1__fail_nomem("path");
    return path;
}

sr1_status sr1__config_path_beside(const struct config_key *key, const char *folder,
                                   struct config_value *v)
{
    char *text = NULL;

    if (!*folder || !is_path(key))
        return SR1_OK;
    SR1__TRY(change_text(key, v->s, resolve_path_beside, folder, &text));
    sr1__free(v->s);
    v->s = text;
    return SR1_OK;
}

/* ---- absolute ---- */

/* The folder that the path is in by its true name, where there is one; the last name,
 * which may be a link, as it is. */
static char *make_path_absolute(const struct config_key *key, const char *s,
                                const void *cwd, sr1_status *st)
{
    char real[PATH_MAX];
    char *path, *slash, *out;

    if (IS_AMONG(key->name, models) && may_be_hub_name(s) && !sr1__path_exists(s))
        return NULL;
    path = sr1__path_join(cwd, s);
    if (!path) {
        *st = sr1__fail_nomem("path");
        return NULL;
    }
    slash = strrchr(path, '/');
    if (slash == path || slash[1] == '\0' || slash[1] == '.')
        return path;
    *slash = '\0';
    out = realpath(path, real) ? sr1__path_join(real, slash + 1) : NULL;
    *slash = '/';
    if (!out)
        return path;
    sr1__free(path);
    return out;
}

sr1_status sr1__config_paths_absolute(sr1_config *c)
{
    char cwd[PATH_MAX];

    if (!getcwd(cwd, sizeof cwd))
        return SR1_OK; /* a working folder that is gone: paths stay what they are */
    return change_all(c, make_path_absolute, cwd);
}

sr1_status sr1__config_path_absolute(sr1_config *c, const char *key)
{
    const struct config_key *k = sr1__config_key_find(key);
    char cwd[PATH_MAX];

    if (!k)
        return SR1_E_CONFIG;
    return getcwd(cwd, sizeof cwd) ? change_key(c, k, make_path_absolute, cwd) : SR1_OK;
}

/* ---- moved ---- */

struct move {
    const char *from, *to; /* absolute; the folder of the run, before and now */
};

/* Bytes of the longest common beginning of two paths that ends with a whole name. */
static size_t common_part(const char *a, const char *b)
{
    size_t part = 0;

    for (size_t i = 0;; i++) {
        int ends = (a[i] == '/' || a[i] == '\0') && (b[i] == '/' || b[i] == '\0');

        if (ends)
            part = i;
        if (a[i] != b[i] || a[i] == '\0')
            return part;
    }
}

/* Go up from `to` as many levels as the common part lies above `from`; 0 when there are
 * not so many. */
static size_t climb_run_folder(const struct move *m, size_t part)
{
    size_t at = strlen(m->to);

    for (const char *p = m->from + part; *p; p++) {
        if (*p != '/' || p[1] == '\0')
            continue;
        while (at > 0 && m->to[at - 1] != '/')
            at--;
        at -= at > 0;
    }
    return at;
}

static char *resolve_moved_path(const struct config_key *key, const char *s,
                                const void *with, sr1_status *st)
{
    const struct move *m = with;
    size_t part = common_part(m->from, s);
    size_t kept = climb_run_folder(m, part);
    struct sr1__buf b;
    char *path;

    (void)key;
    if (*s != '/' || sr1__path_exists(s) || part == 0 || kept == 0)
        return NULL;
    sr1__buf_init(&b, 0);
    sr1__buf_add(&b, m->to, kept);
    sr1__buf_str(&b, s + part);
    path = sr1__buf_take(&b);
    sr1__buf_free(&b);
    if (!path)
        *st = sr1__fail_nomem("path");
    if (path && !sr1__path_exists(path)) {
        sr1__free(path);
        path = NULL;
    }
    return path;
}

sr1_status sr1__config_paths_moved(sr1_config *c, const char *run)
{
    char now[PATH_MAX];
    struct move m = {sr1__config_str(c, "out"), now};

    if (*m.from != '/' || !realpath(run, now) || strcmp(m.from, now) == 0)
        return SR1_OK;
    return change_all(c, resolve_moved_path, &m);
}
