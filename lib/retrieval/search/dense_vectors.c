/* retrieval/search/dense_vectors.c - see dense_vectors.h; int8 is q = round(v / scale)
 * with scale = max |v| / 127 of the row (kernels/dot.h). */
#include "retrieval/search/dense_vectors.h"

#include <math.h>
#include <string.h>

#define F16_MAX 65504.0F

static const struct sr1__dense_type types[] = {
    {"fp32", SR1__DOT_FP32, 4, 0},
    {"fp16", SR1__DOT_FP16, 2, 0},
    {"int8", SR1__DOT_INT8, 1, 1},
};
#define TYPES (sizeof(types) / sizeof(types[0]))

const struct sr1__dense_type *sr1__dense_type_find(const char *name, const char **names)
{
    if (names != NULL)
        *names = "fp32, fp16, int8";
    for (size_t i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    return NULL;
}

const struct sr1__dense_type *sr1__dense_type_at(uint32_t number)
{
    for (size_t i = 0; i < TYPES; i++)
        if ((uint32_t)types[i].dot == number)
            return &types[i];
    return NULL;
}

static sr1_status check_vector(const struct sr1__dense_type *type, const float *v,
                               size_t dim)
{
    float most = type->dot == SR1__DOT_FP16 ? F16_MAX : INFINITY;

    for (size_t i = 0; i < dim; i++) {
        if (!isfinite(v[i]))
            return sr1__fail(SR1_E_NUMERIC, "number %zu of the vector is not finite", i);
        if (fabsf(v[i]) > most)
            return sr1__fail(SR1_E_NUMERIC,
                             "number %zu of the vector, %g, is too large for %s; keep "
                             "the vectors as fp32",
                             i, (double)v[i], type->name);
    }
    return SR1_OK;
}

sr1_status sr1__dense_encode(const struct sr1__dense_type *type, const float *v,
                             size_t dim, void *row, float *scale)
{
    size_t stride = sr1__dense_stride(dim);

    SR1__TRY(check_vector(type, v, dim));
    *scale = 1.0F;
    if (type->dot == SR1__DOT_FP32)
        memcpy(row, v, dim * sizeof(*v));
    else if (type->dot == SR1__DOT_FP16)
        sr1__f32_to_f16(v, row, dim);
    else
        *scale = sr1__to_int8(v, row, dim);
    memset((char *)row + dim * type->size, 0, (stride - dim) * type->size);
    return SR1_OK;
}

void sr1__dense_decode(const struct sr1__dense_type *type, const void *row, float scale,
                       size_t dim, float *out)
{
    if (type->dot == SR1__DOT_FP32)
        memcpy(out, row, dim * sizeof(*out));
    else if (type->dot == SR1__DOT_FP16)
        sr1__f16_to_f32(row, out, dim);
    else
        for (size_t i = 0; i < dim; i++)
            out[i] = (float)((const int8_t *)row)[i] * scale;
}
