/* retrieval/search/dense_import.c - vectors that were made elsewhere to a dense index:
 * rows of fp32 numbers, nothing before, between or behind them. */
#include "retrieval/search/dense_writer.h"

#include "base/file.h"
#include "base/mem.h"
#include "retrieval/search/index_kind.h"

#include <searchr1/ext/embed.h>

struct dense_import {
    struct sr1__dense_plan plan;
    const char *vectors_path;
    struct sr1__map map;
    uint64_t rows; /* in the file */
    struct sr1__dense_writer writer;
    struct sr1__spool *scales;
    float *v; /* [dim] */
    void *row;
    size_t row_bytes;
};

static sr1_status open_vectors(struct dense_import *m)
{
    size_t bytes = m->plan.dim * sizeof(float);

    SR1__TRY(sr1__map_open_watched(&m->map, m->vectors_path, 0));
    if (m->map.size % bytes != 0)
        return sr1__fail(
            SR1_E_PARSE,
            "%s: %zu bytes are not rows of %zu fp32 numbers; is --dim right, "
            "is it raw fp32?",
            m->vectors_path, m->map.size, m->plan.dim);
    m->rows = m->map.size / bytes;
    return SR1_OK;
}

/* sr1__dense_row_fn: stop at once where the corpus is longer. */
static sr1_status count_row(void *self, const char *line, size_t n,
                            const struct sr1__parsed_row *row)
{
    struct dense_import *m = self;

    (void)line;
    (void)n;
    (void)row;
    if (m->writer.documents > m->rows)
        return sr1__fail(
            SR1_E_PARSE,
            "%s has %llu vectors of %zu numbers, the corpus has more documents",
            m->vectors_path, (unsigned long long)m->rows, m->plan.dim);
    if (m->writer.documents % 65536 == 0)
        return sr1__dense_writer_report(&m->writer, 0);
    return SR1_OK;
}

static sr1_status put_vectors(struct dense_import *m)
{
    struct sr1__section_writer *out = &m->writer.out;
    size_t bytes = m->plan.dim * sizeof(float);
    float scale;

    SR1__TRY(sr1__section_begin(out, DENSE_VECTORS, DENSE_ALIGN));
    for (uint64_t i = 0; i < m->rows; i++) {
        memcpy(m->v, m->map.data + i * bytes, bytes);
        SR1__TRY(sr1__context(
            sr1__dense_encode(m->plan.type, m->v, m->plan.dim, m->row, &scale),
            "%s: row %llu", m->vectors_path, (unsigned long long)i));
        SR1__TRY(sr1__section_put(out, DENSE_VECTORS, m->row, m->row_bytes));
        if (m->plan.type->scaled)
            SR1__TRY(sr1__spool_add(m->scales, &scale, sizeof(scale)));
    }
    return sr1__section_put_spool(out, DENSE_SCALES, m->scales);
}

static sr1_status import_vectors(struct dense_import *m)
{
    SR1__TRY(open_vectors(m));
    m->row_bytes = sr1__dense_stride(m->plan.dim) * m->plan.type->size;
    m->v = sr1__calloc(m->plan.dim, sizeof(*m->v));
    m->row = sr1__calloc(1, m->row_bytes);
    SR1__CHECK_ALLOC(m->v && m->row, "dense import");
    SR1__TRY(sr1__dense_writer_open(&m->writer, &m->plan));
    SR1__TRY(sr1__spool_open(&m->scales, m->plan.index_path));
    SR1__TRY(sr1__dense_writer_rows(&m->writer, count_row, m));
    if (m->writer.documents != m->rows)
        return sr1__fail(SR1_E_PARSE,
                         "%s has %llu vectors of %zu numbers, the corpus %llu documents",
                         m->vectors_path, (unsigned long long)m->rows, m->plan.dim,
                         (unsigned long long)m->writer.documents);
    SR1__TRY(sr1__map_blame(&m->map, put_vectors(m)));
    m->writer.corpus_done = sr1__corpus_reader_total(m->writer.reader);
    SR1__TRY(sr1__dense_writer_report(&m->writer, 0));
    return sr1__dense_writer_commit(&m->writer);
}

sr1_status sr1_dense_import(const char *corpus_path, const char *vectors_path,
                            int32_t dim, const char *index_path,
                            const sr1_dense_build_options *options,
                            sr1_dense_progress_fn progress, void *user)
{
    struct dense_import m = {.vectors_path = vectors_path};
    sr1_status status;

    if (corpus_path == NULL || vectors_path == NULL || index_path == NULL)
        return sr1__fail(SR1_E_INVALID, "dense import: a path is NULL");
    if (dim < 1 || dim > SR1_EMBED_DIM_MAX)
        return sr1__fail(SR1_E_INVALID, "dense import: dim %d is not in 1..%d", (int)dim,
                         SR1_EMBED_DIM_MAX);
    SR1__TRY(sr1__path_distinct(corpus_path, index_path));
    SR1__TRY(sr1__path_distinct(vectors_path, index_path));
    SR1__TRY(sr1__dense_plan_read(&m.plan, options, NULL, "dense import"));
    m.plan.corpus_path = corpus_path;
    m.plan.index_path = index_path;
    SR1__TRY(sr1__index_place_check(index_path, "dense", m.plan.force));
    m.plan.dim = (size_t)dim;
    m.plan.progress = progress;
    m.plan.user = user;
    status = import_vectors(&m);
    sr1__dense_writer_close(&m.writer);
    sr1__spool_close(m.scales);
    sr1__map_close(&m.map);
    sr1__free(m.v);
    sr1__free(m.row);
    return status;
}
