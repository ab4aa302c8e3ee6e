/* support/golden.h - a case of tests/golden: a model's folder, ids and expected tensors.
 */
#ifndef SR1_TESTS_GOLDEN_H
#define SR1_TESTS_GOLDEN_H

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tensor/weights/safetensors.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(expr) golden_ok((expr), #expr, __FILE__, __LINE__)

struct golden {
    char dir[1024];
    json_t *json;
    struct sr1__weights *expected;
};

static inline void golden_ok(sr1_status status, const char *what, const char *file,
                             int line)
{
    if (status == SR1_OK)
        return;
    fprintf(stderr, "%s:%d: %s\n    %s: %s\n", file, line, what, sr1_status_name(status),
            sr1_last_error());
    fail();
}

/* kind: "model", "encoder". */
static inline struct golden golden_open_kind(const char *kind, const char *name)
{
    struct golden g;
    char path[1100];

    snprintf(g.dir, sizeof g.dir, "%s/tests/golden/%s/%s", getenv("SR1_SRC"), kind, name);
    snprintf(path, sizeof path, "%s/expected.json", g.dir);
    OK(sr1__json_load(&g.json, path, 0));
    snprintf(path, sizeof path, "%s/expected.safetensors", g.dir);
    OK(sr1__weights_open(&g.expected, path));
    return g;
}

static inline void golden_close(struct golden *g)
{
    json_decref(g->json);
    sr1__weights_close(g->expected);
}

static inline size_t golden_count(const struct golden *g, const char *key)
{
    return json_array_size(json_object_get(g->json, key));
}

/* Row i of a list of lists of ids; returns its length. */
static inline size_t golden_ids(const struct golden *g, const char *key, size_t i,
                                int32_t *out, size_t cap)
{
    json_t *row = json_array_get(json_object_get(g->json, key), i);
    size_t n = json_array_size(row);

    assert_true(n > 0 && n <= cap);
    for (size_t k = 0; k < n; k++)
        out[k] = (int32_t)json_integer_value(json_array_get(row, k));
    return n;
}

static inline const float *golden_tensor(const struct golden *g, const char *name,
                                         size_t n)
{
    const struct sr1__weight *w = sr1__weights_find(g->expected, name);

    assert_non_null(w);
    assert_int_equal(w->dtype, SR1__WEIGHT_F32);
    assert_int_equal(w->n_bytes, n * sizeof(float));
    return w->data;
}

/* Largest |a - b|; infinite when either is not a number. */
static inline double largest_gap(const float *a, const float *b, size_t n)
{
    double gap = 0.0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);

        gap = d <= gap ? gap : isnan(d) ? INFINITY : d;
    }
    return gap;
}

#endif
