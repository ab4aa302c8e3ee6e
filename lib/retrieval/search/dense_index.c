/* retrieval/search/dense_index.c - open a dense index and check it. */
#include "retrieval/search/dense_index.h"

#include "base/mem.h"
#include "base/struct.h"
#include "base/utf8.h"
#include "retrieval/search/dense_device.h"
#include "retrieval/search/encoding.h"

#include <searchr1/ext/embed.h>

struct sr1__dense_index {
    struct sr1__map map; /* of a file; empty when the bytes are the caller's */
    struct sr1__section sections[DENSE_SECTIONS];
    struct sr1__dense_meta meta;
    struct sr1__stored_rows rows;
    size_t n_sections;
    char embedder[DENSE_NAME_MAX + 1];
    char encoding[SR1__ENCODING_MAX + 1];
};

const struct sr1__index_kind sr1__dense_kind = {"SR1DENSE", "dense index", 2,
                                                DENSE_COUNTS_BYTES, DENSE_SECTIONS};
/* Before encodings were kept. */
static const struct sr1__index_kind first_kind = {"SR1DENSE", "dense index", 1,
                                                  DENSE_COUNTS_BYTES, DENSE_ENCODING};

static sr1_status read_dense_counts(struct sr1__dense_meta *m,
                                    const unsigned char *counts)
{
    struct sr1__reader r;

    sr1__reader_init(&r, counts, DENSE_COUNTS_BYTES);
    m->documents = sr1__read_u64(&r);
    m->contents_bytes = sr1__read_u64(&r);
    m->dim = sr1__read_u32(&r);
    m->stride = sr1__read_u32(&r);
    m->type = sr1__dense_type_at(sr1__read_u32(&r));
    if (m->documents < 1 || m->documents > INT32_MAX || m->dim < 1 ||
        m->dim > SR1_EMBED_DIM_MAX || m->stride != sr1__dense_stride(m->dim) ||
        m->type == NULL)
        return sr1__index_corrupt("its counts are out of range");
    return SR1_OK;
}

/* Sizes and places only. The address of bytes is a multiple of 16. */
static sr1_status check_sections(const struct sr1__dense_index *ix,
                                 const unsigned char *bytes)
{
    const struct sr1__dense_meta *m = &ix->meta;
    const struct sr1__section *vectors = &ix->sections[DENSE_VECTORS];
    const struct sr1__section *scales = &ix->sections[DENSE_SCALES];
    uint64_t row_bytes = m->stride * m->type->size;

    if (vectors->size / row_bytes != m->documents || vectors->size % row_bytes != 0 ||
        scales->size != (m->type->scaled ? m->documents * sizeof(float) : 0))
        return sr1__index_corrupt("a section has a wrong size");
    if ((vectors->p - bytes) % DENSE_ALIGN != 0 || (scales->p - bytes) % 8 != 0)
        return sr1__index_corrupt("a section has a wrong place");
    return SR1_OK;
}

/* The text of a section into out[most + 1], which is zeros. */
static sr1_status read_section_text(const struct sr1__section *s, char *out, size_t most,
                                    const char *what)
{
    if (s->size == 0)
        return SR1_OK;
    if (s->size > most || memchr(s->p, '\0', s->size) != NULL ||
        !sr1__utf8_valid((const char *)s->p, s->size))
        return sr1__index_corrupt(what);
    memcpy(out, s->p, s->size);
    return SR1_OK;
}

static sr1_status read_texts(struct sr1__dense_index *ix)
{
    SR1__TRY(read_section_text(&ix->sections[DENSE_EMBEDDER], ix->embedder,
                               DENSE_NAME_MAX, "the name of its embedder is no text"));
    SR1__TRY(read_section_text(&ix->sections[DENSE_ENCODING], ix->encoding,
                               SR1__ENCODING_MAX,
                               "the encoding of its embedder is no text"));
    ix->meta.embedder = ix->embedder;
    ix->meta.encoding = ix->encoding;
    return SR1_OK;
}

static sr1_status check_dense_index(struct sr1__dense_index *ix,
                                    const unsigned char *bytes, size_t n)
{
    struct sr1__dense_meta *m = &ix->meta;
    const unsigned char *counts = NULL;
    int first = n >= SECTIONS_HEADER_BYTES && index_u32(bytes + 8) == first_kind.version;
    const struct sr1__index_kind *kind = first ? &first_kind : &sr1__dense_kind;

    ix->n_sections = kind->n_sections;
    SR1__TRY(sr1__sections_open(kind, bytes, n, ix->sections, &counts));
    SR1__TRY(read_dense_counts(m, counts));
    SR1__TRY(check_sections(ix, bytes));
    SR1__TRY(read_texts(ix));
    SR1__TRY(sr1__stored_rows_init(&ix->rows, &ix->sections[DENSE_DOCUMENTS],
                                   &ix->sections[DENSE_DOC_DIR]));
    m->file_bytes = n;
    m->search_bytes = ix->sections[DENSE_VECTORS].size + ix->sections[DENSE_SCALES].size;
    m->documents_bytes =
        ix->sections[DENSE_DOCUMENTS].size + ix->sections[DENSE_DOC_DIR].size;
    return SR1_OK;
}

sr1_status sr1__dense_open_memory(struct sr1__dense_index **out, const void *bytes,
                                  size_t n)
{
    struct sr1__dense_index *ix = sr1__calloc(1, sizeof(*ix));

    SR1__CHECK_ALLOC(ix, "index");
    SR1__RETURN_NEW(out, ix, check_dense_index(ix, bytes, n), sr1__free);
}

sr1_status sr1__dense_open(struct sr1__dense_index **out, const char *path)
{
    struct sr1__dense_index *ix = NULL;
    struct sr1__map map;
    sr1_status status;

    SR1__TRY(sr1__sections_map(&map, &sr1__dense_kind, path));
    status = sr1__map_blame(&map, sr1__dense_open_memory(&ix, map.data, map.size));
    if (status != SR1_OK) {
        sr1__map_close(&map);
        return sr1__context(status, "%s", path);
    }
    ix->map = map;
    *out = ix;
    return SR1_OK;
}

void sr1__dense_close(struct sr1__dense_index *ix)
{
    if (ix == NULL)
        return;
    sr1__map_close(&ix->map);
    sr1__free(ix);
}

sr1_status sr1__dense_check(const struct sr1__dense_index *ix)
{
    static const char *const names[DENSE_SECTIONS] = {
        "documents", "directory of documents", "vectors",
        "scales",    "embedder's name",        "embedder's encoding"};

    return sr1__dense_check_changed(
        ix, sr1__sections_verify(ix->sections, names, ix->n_sections));
}

sr1_status sr1__dense_check_changed(const struct sr1__dense_index *ix, sr1_status status)
{
    return sr1__map_blame(&ix->map, status);
}

const struct sr1__dense_meta *sr1__dense_meta(const struct sr1__dense_index *ix)
{
    return &ix->meta;
}

const struct sr1__stored_rows *sr1__dense_rows(const struct sr1__dense_index *ix)
{
    return &ix->rows;
}

const void *sr1__dense_vectors(const struct sr1__dense_index *ix)
{
    return ix->sections[DENSE_VECTORS].p;
}

const float *sr1__dense_scales(const struct sr1__dense_index *ix)
{
    const void *p = ix->sections[DENSE_SCALES].p;

    return ix->meta.type->scaled ? p : NULL;
}

void sr1__dense_floats(const struct sr1__dense_index *ix, uint64_t first, size_t n,
                       float *out)
{
    const struct sr1__dense_meta *m = &ix->meta;
    const unsigned char *row = ix->sections[DENSE_VECTORS].p;
    const float *scales = sr1__dense_scales(ix);

    row += first * m->stride * m->type->size;
    for (size_t i = 0; i < n; i++, row += m->stride * m->type->size, out += m->dim)
        sr1__dense_decode(m->type, row, scales != NULL ? scales[first + i] : 1.0F, m->dim,
                          out);
}

void sr1__dense_info_fill(const struct sr1__dense_meta *m, sr1_dense_info *info)
{
    info->documents = m->documents;
    info->file_bytes = m->file_bytes;
    info->search_bytes = m->search_bytes;
    info->documents_bytes = m->documents_bytes;
    info->contents_bytes = m->contents_bytes;
    info->dtype = m->type->name;
    info->embedder = m->embedder;
    info->dim = (int32_t)m->dim;
    info->device_bytes = sr1__dense_device_bytes(m);
}

/* ---- of a file ---- */

sr1_status sr1_dense_verify(const char *path)
{
    struct sr1__dense_index *ix = NULL;
    sr1_status status;

    if (path == NULL)
        return sr1__fail(SR1_E_INVALID, "dense verify: the path is NULL");
    SR1__TRY(sr1__dense_open(&ix, path));
    status = sr1__context(sr1__dense_check(ix), "%s", path);
    sr1__dense_close(ix);
    return status;
}

sr1_status sr1_dense_info_read(const char *path, sr1_dense_info *out)
{
    struct sr1__dense_index *ix = NULL;
    sr1_dense_info info = {sizeof(info)};

    if (path == NULL)
        return sr1__fail(SR1_E_INVALID, "dense info: the path is NULL");
    SR1__TRY(sr1__dense_open(&ix, path));
    sr1__dense_info_fill(&ix->meta, &info);
    info.embedder = NULL;
    sr1__dense_close(ix);
    return sr1__struct_give(out, &info, sizeof(info), "dense info");
}

sr1_status sr1_dense_embedder_name(const char *path, char **out)
{
    struct sr1__dense_index *ix = NULL;
    char *name;

    if (path == NULL || out == NULL)
        return sr1__fail(SR1_E_INVALID, "dense embedder: an argument is NULL");
    SR1__TRY(sr1__dense_open(&ix, path));
    name = sr1__strdup(ix->embedder);
    sr1__dense_close(ix);
    SR1__CHECK_ALLOC(name, "embedder's name");
    *out = name;
    return SR1_OK;
}
