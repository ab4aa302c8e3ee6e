/* config/keys.c - the table of keys, and the error text for unknown key names. */
#include "config/keys.h"

#include <searchr1/ext/config_names.h>

#include "base/buf.h"
#include "base/struct.h"

#include <stdio.h>
#include <string.h>

#define KEY(name, type, default_text, min, max, choices, status, help)                   \
    {#name, SR1_CONFIG_##type, default_text,        min,                                 \
     max,   choices,           SR1_CONFIG_##status, help},
const struct config_key sr1__config_keys[CONFIG_N_KEYS] = {
#include "config/config_keys.def"
};
#undef KEY

/* The key's name in documents. */
static const struct {
    const char *name, *key;
} other_names[] = {{"num_generations", "group_size"}};

#define ELSEWHERE(name, of, key, text) {name, of, key, text},
const struct config_elsewhere sr1__config_elsewhere[] = {
#include "config/elsewhere.def"
};
#undef ELSEWHERE
const size_t sr1__n_config_elsewhere =
    sizeof(sr1__config_elsewhere) / sizeof(sr1__config_elsewhere[0]);

/* ---- a name that is spelled nearly so ---- */

#define MAX_NAME 64

static size_t smaller_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Capitals are small letters, and '-' is '_'. */
static int fold_key_letter(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A' + 'a';
    return c == '-' ? '_' : c;
}

/* Are a[i - 1] and a[i] those of b the other way round? */
static int are_transposed(const char *a, size_t i, const char *b, size_t j)
{
    return i > 0 && j > 0 && fold_key_letter(a[i]) == fold_key_letter(b[j - 1]) &&
           fold_key_letter(a[i - 1]) == fold_key_letter(b[j]);
}

/* Letters put in, left out, changed or crossed with their neighbour between two names of
 * at most MAX_NAME bytes. */
static size_t edit_distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t d[MAX_NAME + 1][MAX_NAME + 1];

    for (size_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < m; j++) {
            size_t best = smaller_size(d[i][j + 1], d[i + 1][j]) + 1;

            best = smaller_size(
                best, d[i][j] + (fold_key_letter(a[i]) != fold_key_letter(b[j])));
            if (are_transposed(a, i, b, j))
                best = smaller_size(best, d[i - 1][j - 1] + 1);
            d[i + 1][j + 1] = best;
        }
    }
    return d[n][m];
}

/* The one key that is at most a typo in four letters away; NULL: there is none, or
 * another is as near. */
static const char *find_nearest_key(const char *name)
{
    size_t n = strnlen(name, MAX_NAME + 1), least = n / 4 + 1;
    const char *best = NULL;

    for (size_t i = 0; i < CONFIG_N_KEYS && n <= MAX_NAME; i++) {
        const char *key = sr1__config_keys[i].name;
        size_t d = edit_distance(name, n, key, strlen(key));

        if (d == least)
            best = NULL;
        if (d < least) {
            least = d;
            best = key;
        }
    }
    return best;
}

/* ---- finding ---- */

static const struct config_elsewhere *find_elsewhere(const char *name)
{
    name += strspn(name, "+"); /* how Hydra's command lines add a key */
    for (size_t i = 0; i < sr1__n_config_elsewhere; i++)
        if (strcmp(name, sr1__config_elsewhere[i].name) == 0)
            return &sr1__config_elsewhere[i];
    return NULL;
}

static const char *find_key_name(const char *name)
{
    for (size_t i = 0; i < CONFIG_N_KEYS; i++)
        if (strcmp(name, sr1__config_keys[i].name) == 0)
            return sr1__config_keys[i].name;
    return NULL;
}

/* The key that a name of sections ends in, as trainer.learning_rate does. */
static const char *find_last_part(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot ? find_key_name(dot + 1) : NULL;
}

/* Say what to do in place of an unknown name. */
static void explain_unknown_key(const char *name)
{
    const struct config_elsewhere *e = find_elsewhere(name);
    const char *last = e ? NULL : find_last_part(name);
    const char *near = e || last ? NULL : find_nearest_key(name);

    if (name[0] == '\0')
        sr1__fail(SR1_E_CONFIG, "a value without the name of a key; "
                                "write key=value, or key: value in a file");
    else if (e && e->key)
        sr1__fail(SR1_E_CONFIG, "key '%.64s' is a name of %s: use %s%s%s%s", name, e->of,
                  e->key, e->text ? " (" : "", e->text ? e->text : "",
                  e->text ? ")" : "");
    else if (e)
        sr1__fail(SR1_E_CONFIG, "key '%.64s' is a name of %s, and not one here: %s", name,
                  e->of, e->text);
    else if (last)
        sr1__fail(SR1_E_CONFIG, "key '%.64s' is not known: use %s", name, last);
    else if (near)
        sr1__fail(SR1_E_CONFIG, "key '%.64s' is not known; the nearest known key is '%s'",
                  name, near);
    else
        sr1__fail(SR1_E_CONFIG,
                  "key '%.64s' is not known, and no key is spelled nearly so; "
                  "sr1-train --keys lists all",
                  name);
}

const struct config_key *sr1__config_key_find(const char *name)
{
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++) {
        if (strcmp(name, other_names[i].name) == 0)
            name = other_names[i].key;
    }
    for (size_t i = 0; i < CONFIG_N_KEYS; i++) {
        if (strcmp(name, sr1__config_keys[i].name) == 0)
            return &sr1__config_keys[i];
    }
    explain_unknown_key(name);
    return NULL;
}

/* ---- the unknown keys of a whole file ---- */

#define MAX_SECTIONS 16 /* deeper ones count as values */
#define MAX_LISTED 20
#define LISTED_SIZE 840 /* bytes: an error's text has room for little more */

struct unknown_keys {
    size_t found, listed;
    struct sr1__buf list; /* "trainer.test_freq (use validate_interval), ..." */
    int in_sections;
};

static void cut_names(struct sr1__buf *b, size_t n)
{
    if (!b->data)
        return;
    b->len = n;
    b->data[n] = '\0';
}

/* A name, and in brackets what to use in its place. */
static void add_short_remedy(struct sr1__buf *b, const char *name)
{
    const struct config_elsewhere *e = find_elsewhere(name);
    const char *use = e ? e->key : find_last_part(name);

    use = e || use ? use : find_nearest_key(name);
    sr1__buf_fmt(b, "%.64s%s%s%s", name, use ? " (use " : "", use ? use : "",
                 use ? ")" : "");
}

/* The first is explained whole, for a file that has no other. */
static void add_unknown_key(struct unknown_keys *u, const char *name)
{
    size_t before = u->list.len;

    if (u->found == 0)
        explain_unknown_key(name);
    if (u->found++ > u->listed || u->listed == MAX_LISTED)
        return;
    sr1__buf_str(&u->list, before > 0 ? ", " : "");
    add_short_remedy(&u->list, name);
    if (u->list.len <= LISTED_SIZE)
        u->listed++;
    else
        cut_names(&u->list, before);
}

static int is_known_key(const char *name)
{
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(name, other_names[i].name) == 0)
            return 1;
    return find_key_name(name) != NULL;
}

static void find_unknown_keys(struct unknown_keys *u, struct sr1__buf *path,
                              const json_t *value, size_t depth)
{
    size_t n = path->len;
    const char *name;
    json_t *below;

    if (json_object_size(value) == 0 || depth == MAX_SECTIONS) {
        u->in_sections |= depth > 0;
        add_unknown_key(u, sr1__buf_cstr(path));
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)value, name, below)
    {
        sr1__buf_fmt(path, ".%s", name);
        find_unknown_keys(u, path, below, depth + 1);
        cut_names(path, n);
    }
}

static sr1_status fail_unknown_keys(const struct unknown_keys *u)
{
    char more[40] = "";

    if (u->found > u->listed)
        snprintf(more, sizeof more, ", and %zu more", u->found - u->listed);
    if (u->found > 1)
        sr1__fail(SR1_E_CONFIG,
                  "%zu keys are not known here: %s%s; sr1-train --keys NAME says more",
                  u->found, sr1__buf_cstr(&u->list), more);
    return u->in_sections ? sr1__context(SR1_E_CONFIG, "keys lie in one level here")
                          : SR1_E_CONFIG;
}

sr1_status sr1__config_refuse_names(json_t *file, const char *from)
{
    struct unknown_keys u = {0};
    struct sr1__buf path;
    sr1_status status;

    sr1__buf_init(&u.list, 1 << 12);
    sr1__buf_init(&path, 1 << 21);
    for (void *at = json_object_iter_at(file, from); at;
         at = json_object_iter_next(file, at)) {
        if (is_known_key(json_object_iter_key(at)))
            continue;
        cut_names(&path, 0);
        sr1__buf_str(&path, json_object_iter_key(at));
        find_unknown_keys(&u, &path, json_object_iter_value(at), 0);
    }
    status = sr1__buf_status(&path, "name of a key");
    if (status == SR1_OK)
        status = sr1__buf_status(&u.list, "names of keys");
    if (status == SR1_OK)
        status = fail_unknown_keys(&u);
    sr1__buf_free(&path);
    sr1__buf_free(&u.list);
    return status;
}

/* ---- describing ---- */

size_t sr1_config_elsewhere_count(void)
{
    return sr1__n_config_elsewhere;
}

sr1_status sr1_config_elsewhere_describe(size_t index, sr1_config_elsewhere *out)
{
    sr1_config_elsewhere info = {0};
    const struct config_elsewhere *e;

    if (index >= sr1__n_config_elsewhere)
        return sr1__fail(SR1_E_INVALID, "name elsewhere %zu: there are %zu", index,
                         sr1__n_config_elsewhere);
    e = &sr1__config_elsewhere[index];
    info.name = e->name;
    info.of = e->of;
    info.key = e->key;
    info.text = e->text;
    return sr1__struct_give(out, &info, sizeof info, "sr1_config_elsewhere");
}
