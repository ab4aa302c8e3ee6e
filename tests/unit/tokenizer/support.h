/* tests/unit/tokenizer/support.h - where the tokenizer's test data lies, and JSON lines.
 */
#ifndef SR1__TESTS_TOKENIZER_SUPPORT_H
#define SR1__TESTS_TOKENIZER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/tokenizer/tokenizer.h"

#define OK(expr)                                                                         \
    do {                                                                                 \
        sr1_status ok_status = (expr);                                                   \
        if (ok_status != SR1_OK)                                                         \
            fail_msg("%s: %d: %s", #expr, ok_status, sr1_last_error());                  \
    } while (0)

/* A path below the source root; static memory of a few turns. */
static inline const char *source_path(const char *below)
{
    static char paths[4][4096];
    static int turn;
    const char *root = getenv("SR1_SRC");

    turn = (turn + 1) % 4;
    snprintf(paths[turn], sizeof paths[0], "%s/%s", root ? root : ".", below);
    return paths[turn];
}

/* The shared data file, or NULL when the folder is not there. */
static inline const char *shared_path(const char *name)
{
    char below[512];

    if (!sr1__path_exists(source_path("../shared/data/tokenizer/tokenizer.json")))
        return NULL;
    snprintf(below, sizeof below, "../shared/data/tokenizer/%s", name);
    return source_path(below);
}

static inline const char *fixture_path(const char *name)
{
    char below[512];

    snprintf(below, sizeof below, "tests/golden/tokenizer/%s", name);
    return source_path(below);
}

/* Calls use(line, arg) for each line of a file; returns how many there were. */
static inline size_t each_line(const char *path, void (*use)(const json_t *, void *),
                               void *arg)
{
    struct sr1__buf text;
    size_t count = 0;
    char *line, *end;

    OK(sr1__file_read(path, 0, &text));
    for (line = text.data; line && *line; line = end + 1, count++) {
        json_t *j = NULL;

        end = strchr(line, '\n');
        if (!end)
            fail_msg("%s: no newline at the end", path);
        OK(sr1__json_parse(&j, line, (size_t)(end - line), path));
        use(j, arg);
        json_decref(j);
    }
    sr1__buf_free(&text);
    return count;
}

static inline void ids_from(const json_t *list, struct sr1__ids *ids)
{
    const json_t *item;
    size_t i;

    ids->n = 0;
    json_array_foreach(list, i, item)
        OK(sr1__ids_add(ids, (int32_t)json_integer_value(item)));
}

static inline void assert_same_ids(const int32_t *got, size_t n,
                                   const struct sr1__ids *want, const char *what)
{
    if (n == want->n && (n == 0 || memcmp(got, want->v, n * sizeof *got) == 0))
        return;
    for (size_t i = 0; i < n && i < want->n; i++)
        if (got[i] != want->v[i])
            fail_msg("%s: id %zu is %d, not %d", what, i, got[i], want->v[i]);
    fail_msg("%s: %zu ids, not %zu", what, n, want->n);
}

static inline void assert_same_text(const char *got, size_t n, const char *want,
                                    size_t want_n, const char *what)
{
    if (n != want_n || memcmp(got, want, n) != 0)
        fail_msg("%s:\n got: %.*s\nwant: %.*s", what, (int)n, got, (int)want_n, want);
}

/* The tree of a kept tokenizer.json. */
static inline json_t *file_of(const char *folder)
{
    char name[256];
    json_t *j = NULL;

    snprintf(name, sizeof name, "%s/tokenizer.json", folder);
    OK(sr1__json_load(&j, fixture_path(name), 0));
    return j;
}

static inline json_t *member(json_t *j, const char *key)
{
    return json_is_array(j) ? json_array_get(j, strtoul(key, NULL, 10))
                            : json_object_get(j, key);
}

/* Set a member by its path; "+" at its end appends; a type that is null is left out. */
static inline void set_member(json_t *j, const char *path, json_t *value)
{
    char key[64];
    const char *dot;

    while ((dot = strchr(path, '.')) != NULL) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        j = member(j, key);
        path = dot + 1;
    }
    if (strcmp(path, "+") == 0)
        json_array_extend(j, value);
    else if (json_is_array(j))
        json_array_set(j, strtoul(path, NULL, 10), value);
    else if (json_is_null(value) && strcmp(path, "type") == 0)
        json_object_del(j, path);
    else
        json_object_set(j, path, value);
}

static inline sr1_status parse_tree(sr1_tokenizer **t, const json_t *j)
{
    struct sr1__buf text;
    sr1_status status;

    sr1__buf_init(&text, 0);
    OK(sr1__json_dump(j, 0, &text));
    status = sr1__tokenizer_parse(t, text.data, text.len, "t.json");
    sr1__buf_free(&text);
    return status;
}

/* Set a member from JSON text. */
static inline void set_path(json_t *j, const char *path, const char *value)
{
    json_t *v = NULL;

    OK(sr1__json_parse(&v, value, strlen(value), path));
    set_member(j, path, v);
    json_decref(v);
}

/* The real tokenizer where it is there, else the small one kept with the tests. */
static inline sr1_tokenizer *open_any(void)
{
    sr1_tokenizer *t = NULL;
    const char *shared = shared_path("");

    OK(sr1_tokenizer_open(&t, shared ? shared : fixture_path("small")));
    return t;
}

#endif
