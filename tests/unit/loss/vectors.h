/* loss/vectors.h - rows of losses in tests/golden, which torch's autograd made in float64
 * of formulas (losses.jsonl, make_losses_vectors.py) and of the code of TRL and verl
 * (peer_losses.jsonl, make_peer_loss_vectors.py). */
#ifndef SR1_TESTS_LOSS_VECTORS_H
#define SR1_TESTS_LOSS_VECTORS_H

#include "support/files.h"

#include "base/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX 64

static inline void near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * fmax(1.0, fabs(b))))
        fail_msg("%.12g is not %.12g", a, b);
}

static inline double number(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);

    if (!json_is_number(v))
        fail_msg("no number '%s'", key);
    return json_number_value(v);
}

static inline size_t floats(const json_t *row, const char *key, float out[MAX])
{
    const json_t *list = json_object_get(row, key);
    size_t n = json_array_size(list);

    if (!json_is_array(list) || n > MAX)
        fail_msg("no array '%s'", key);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)json_number_value(json_array_get(list, i));
    return n;
}

static inline size_t integers(const json_t *row, const char *key, int64_t out[MAX])
{
    const json_t *list = json_object_get(row, key);
    size_t n = json_array_size(list);

    if (!json_is_array(list) || n > MAX)
        fail_msg("no array '%s'", key);
    for (size_t i = 0; i < n; i++)
        out[i] = (int64_t)json_integer_value(json_array_get(list, i));
    return n;
}

/* fn with every row of a file of tests/golden that has this key; how many. */
static inline size_t each_row(const char *file, const char *key,
                              void (*fn)(const json_t *row))
{
    char path[600], line[16384];
    size_t n = 0;
    FILE *f;

    snprintf(path, sizeof path, "%s/tests/golden/%s", getenv("SR1_SRC"), file);
    f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        json_t *row = NULL;

        assert_int_equal(sr1__json_parse(&row, line, strlen(line), "case"), SR1_OK);
        if (json_object_get(row, key)) {
            fn(row);
            n++;
        }
        json_decref(row);
    }
    fclose(f);
    return n;
}

#endif
