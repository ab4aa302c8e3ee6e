/* config/keys.c - the table of keys and the search for the nearest name. */
#include "config/keys.h"

#include <string.h>

#define KEY(name, type, default_text, min, max, choices, status, help)                   \
    {#name, SR1_CONFIG_##type, default_text,        min,                                 \
     max,   choices,           SR1_CONFIG_##status, help},
const struct config_key sr1__config_keys[CONFIG_N_KEYS] = {
#include "config/config_keys.def"
};
#undef KEY

/* What documents call a key. */
static const struct {
    const char *name, *key;
} other_names[] = {{"num_generations", "group_size"}};

#define MAX_NAME 64

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;

    return m < c ? m : c;
}

/* Levenshtein distance, row by row; names are compared over their first MAX_NAME bytes.
 */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[MAX_NAME + 1];
    size_t n = strnlen(a, MAX_NAME), m = strnlen(b, MAX_NAME);

    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j];

            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[m];
}

static const char *nearest(const char *name)
{
    const char *best = sr1__config_keys[0].name;
    size_t best_distance = SIZE_MAX;

    for (size_t i = 0; i < CONFIG_N_KEYS; i++) {
        size_t d = edit_distance(name, sr1__config_keys[i].name);

        if (d < best_distance) {
            best_distance = d;
            best = sr1__config_keys[i].name;
        }
    }
    return best;
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
    sr1__fail(SR1_E_CONFIG, "key '%.64s' is not known; the nearest known key is '%s'",
              name, nearest(name));
    return NULL;
}
