/* What the tensor tests share: statuses that must be OK, and small comparisons. */
#ifndef SR1__TEST_TENSOR_CHECK_H
#define SR1__TEST_TENSOR_CHECK_H

#include "base/mem.h"
#include "base/rng.h"
#include "tensor/ops/ops.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(expr) check_ok((expr), #expr, __FILE__, __LINE__)

static inline void check_ok(sr1_status status, const char *what, const char *file,
                            int line)
{
    if (status == SR1_OK)
        return;
    fprintf(stderr, "%s:%d: %s\n    %s: %s\n", file, line, what, sr1_status_name(status),
            sr1_last_error());
    fail();
}

/* AddressSanitizer keeps what was freed for a while; how much memory is held then says
 * nothing. */
static inline void needs_true_memory(void)
{
#if defined(__SANITIZE_ADDRESS__)
    skip();
#endif
}

static inline void near(double a, double b, double tolerance)
{
    if (fabs(a - b) <= tolerance)
        return;
    fprintf(stderr, "%.9g is not within %.3g of %.9g\n", a, tolerance, b);
    fail();
}

/* n normal numbers, the same for a seed. */
static inline float *normals(size_t n, uint64_t seed)
{
    float *v = malloc(n * sizeof *v);
    struct sr1__rng rng;

    assert_non_null(v);
    sr1__rng_seed(&rng, seed, 0);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)sr1__rng_normal(&rng);
    return v;
}

static inline sr1_tensor *normal_tensor(sr1_scope *s, uint64_t seed, int32_t ndim,
                                        const int64_t *shape)
{
    size_t n = 1;
    float *v;
    sr1_tensor *t;

    for (int32_t i = 0; i < ndim; i++)
        n *= (size_t)shape[i];
    v = normals(n, seed);
    t = t_from_f32(s, v, ndim, shape);
    free(v);
    return t;
}

/* The largest |a - b| over two tensors of one shape. */
static inline double gap(sr1_scope *s, sr1_tensor *a, sr1_tensor *b)
{
    return t_item(s, t_max_all(s, t_abs(s, t_sub(s, a, b))));
}

#endif
