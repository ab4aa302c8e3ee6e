/* retrieval/search/dense_index.h - reading a dense index.
 *
 * A file of sections (sections.h) whose footer begins with documents:u64
 * contents_bytes:u64 dim:u32 stride:u32 type:u32 0:u32:
 *
 *     documents, doc_dir  the rows (stored_rows.h)
 *     vectors             [documents, stride] of the type, at a multiple of 64; stride is
 *                         dim and zeros up to a multiple of 16
 *     scales              [documents] float, where the type has them
 *     embedder            the name of what made the vectors, UTF-8
 *     encoding            how it made them (encoding.h); empty: not known. Not in files
 *                         of version 1
 *
 * An open index is read-only and may be used from several threads. Whatever the bytes of
 * the file, calls end with a status. */
#ifndef SR1__SEARCH_DENSE_INDEX_H
#define SR1__SEARCH_DENSE_INDEX_H

#include <searchr1/ext/dense.h>

#include "retrieval/search/dense_vectors.h"
#include "retrieval/search/stored_rows.h"

#define DENSE_COUNTS_BYTES 32
#define DENSE_ALIGN 64
#define DENSE_NAME_MAX ((size_t)4096)

enum dense_section {
    DENSE_DOCUMENTS,
    DENSE_DOC_DIR,
    DENSE_VECTORS,
    DENSE_SCALES,
    DENSE_EMBEDDER,
    DENSE_ENCODING,
    DENSE_SECTIONS,
};

extern const struct sr1__index_kind sr1__dense_kind;

struct sr1__dense_index;

struct sr1__dense_meta {
    uint64_t documents; /* 1 to 2^31 - 1 */
    uint64_t contents_bytes;
    uint64_t file_bytes;
    uint64_t search_bytes;
    uint64_t documents_bytes;
    size_t dim;
    size_t stride;
    const struct sr1__dense_type *type;
    const char *embedder; /* "": unknown */
    const char *encoding; /* "": unknown */
};

sr1_status sr1__dense_open(struct sr1__dense_index **out, const char *path);
/* The same over bytes that the caller keeps while the index is open, at an address that
 * is a multiple of 16. */
sr1_status sr1__dense_open_memory(struct sr1__dense_index **out, const void *bytes,
                                  size_t n);
void sr1__dense_close(struct sr1__dense_index *ix); /* NULL is fine */
/* Read everything once and compare the checksums: SR1_E_CORRUPT names the section. */
sr1_status sr1__dense_check(const struct sr1__dense_index *ix);
/* The status of work on it: see sr1__index_check_changed. */
sr1_status sr1__dense_check_changed(const struct sr1__dense_index *ix, sr1_status status);

/* All borrowed until the index is closed. */
const struct sr1__dense_meta *sr1__dense_meta(const struct sr1__dense_index *ix);
const struct sr1__stored_rows *sr1__dense_rows(const struct sr1__dense_index *ix);
/* [documents, stride] */
const void *sr1__dense_vectors(const struct sr1__dense_index *ix);
/* [documents], or NULL */
const float *sr1__dense_scales(const struct sr1__dense_index *ix);

/* Vectors of documents [first, first + n), all of which exist, to out [n, dim]. */
void sr1__dense_floats(const struct sr1__dense_index *ix, uint64_t first, size_t n,
                       float *out);

void sr1__dense_info_fill(const struct sr1__dense_meta *m, sr1_dense_info *info);

/* sr1_search_open_dense over an open index, which is taken over in any case. */
sr1_status sr1__search_open_dense_index(sr1_search **out, struct sr1__dense_index *ix,
                                        sr1_embedder *embedder,
                                        const sr1_dense_options *options);

#endif
