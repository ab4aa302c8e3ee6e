/* retrieval/search/faiss_vectors.c - see faiss_vectors.h. */
#include "retrieval/search/faiss_vectors.h"

#include "retrieval/search/dense_index.h"
#include "retrieval/search/sections.h"

#include <searchr1/ext/embed.h>

#include <math.h>
#include <string.h>

static sr1_status open_dense_vectors(struct sr1__faiss_vectors *v, const char *path,
                                     int32_t dim)
{
    const struct sr1__dense_meta *m;

    SR1__TRY(sr1__dense_open(&v->index, path));
    m = sr1__dense_meta(v->index);
    v->n = (size_t)m->documents;
    v->dim = (int32_t)m->dim;
    if (dim != 0 && dim != v->dim)
        return sr1__fail(SR1_E_INVALID, "%s has vectors of %d numbers, not %d", path,
                         (int)v->dim, (int)dim);
    return SR1_OK;
}

static sr1_status open_raw(struct sr1__faiss_vectors *v, const char *path, int32_t dim)
{
    size_t row = (size_t)dim * sizeof(float);

    if (dim < 1 || dim > SR1_EMBED_DIM_MAX)
        return sr1__fail(SR1_E_INVALID,
                         "%s is no dense index, and for raw vectors dim has to be in "
                         "1..%d, not %d",
                         path, SR1_EMBED_DIM_MAX, (int)dim);
    v->dim = dim;
    v->n = v->raw.size / row;
    if (v->n == 0 || v->raw.size % row != 0 || v->n > INT32_MAX)
        return sr1__fail(SR1_E_INVALID, "%s: %zu bytes are not fp32 vectors of %d", path,
                         v->raw.size, (int)dim);
    return SR1_OK;
}

sr1_status sr1__faiss_vectors_open(struct sr1__faiss_vectors *v, const char *path,
                                   int32_t dim)
{
    SR1__TRY(sr1__map_open_watched(&v->raw, path, 0));
    if (v->raw.size < 8 || memcmp(v->raw.data, sr1__dense_kind.magic, 8) != 0)
        return open_raw(v, path, dim);
    sr1__map_close(&v->raw);
    return open_dense_vectors(v, path, dim);
}

void sr1__faiss_vectors_close(struct sr1__faiss_vectors *v)
{
    sr1__map_close(&v->raw);
    sr1__dense_close(v->index);
}

/* Like sr1__dense_check_changed, whatever the vectors lie in. */
static sr1_status check_vectors_changed(const struct sr1__faiss_vectors *v,
                                        sr1_status status)
{
    return v->index != NULL ? sr1__dense_check_changed(v->index, status)
                            : sr1__map_blame(&v->raw, status);
}

sr1_status sr1__faiss_vectors_read(const struct sr1__faiss_vectors *v, size_t first,
                                   size_t n, float *out)
{
    size_t dim = (size_t)v->dim;

    if (v->index != NULL)
        sr1__dense_floats(v->index, first, n, out);
    else
        memcpy(out, v->raw.data + first * dim * sizeof(*out), n * dim * sizeof(*out));
    for (size_t i = 0; i < n * dim; i++)
        if (!isfinite(out[i]))
            return check_vectors_changed(
                v, sr1__fail(SR1_E_NUMERIC, "vector %zu is not finite", first + i / dim));
    return check_vectors_changed(v, SR1_OK);
}
