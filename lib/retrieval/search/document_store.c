/* retrieval/search/document_store.c - see document_store.h. What is read often stays
 * taken apart. */
#include "retrieval/search/document_store.h"

#include "base/mem.h"
#include "base/source.h"
#include "retrieval/search/dense_index.h"
#include "retrieval/search/bm25_index.h"
#include "retrieval/search/line_offsets.h"
#include "retrieval/search/row_parse.h"
#include "retrieval/search/tsv_row.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#define CACHE_BYTES ((uint64_t)64 << 20)

/* A kind of file with rows. read: borrowed until its next call, one call at a time. */
struct documents_kind {
    const struct sr1__index_kind *index; /* NULL: no index */
    sr1_status (*open)(struct sr1__document_store *d, const char *path);
    sr1_status (*read)(struct sr1__document_store *d, uint64_t row, const char **text,
                       size_t *n);
};

struct sr1__document_store {
    const struct documents_kind *kind;
    char *path;
    uint64_t count;
    struct sr1__index *bm25; /* one of these three */
    struct sr1__dense_index *dense;
    struct sr1__line_offsets *lines;
    struct sr1__row_parser parser;  /* of lines */
    struct sr1__row_reader *reader; /* of an index */
    struct sr1__doc_cache *cache;
    pthread_mutex_t lock; /* around kind->read and what it gave */
};

/* ---- an index ---- */

static sr1_status bm25_open(struct sr1__document_store *d, const char *path)
{
    SR1__TRY(sr1__index_open(&d->bm25, path));
    d->count = sr1__index_meta(d->bm25)->documents;
    return sr1__row_reader_new(&d->reader, sr1__index_rows(d->bm25));
}

static sr1_status dense_open(struct sr1__document_store *d, const char *path)
{
    SR1__TRY(sr1__dense_open(&d->dense, path));
    d->count = sr1__dense_meta(d->dense)->documents;
    return sr1__row_reader_new(&d->reader, sr1__dense_rows(d->dense));
}

static sr1_status index_read(struct sr1__document_store *d, uint64_t row,
                             const char **text, size_t *n)
{
    return sr1__row_read(d->reader, (uint32_t)row, text, n);
}

/* ---- a corpus ---- */

static sr1_status open_corpus_lines(struct sr1__document_store *d, const char *path)
{
    SR1__TRY(sr1__line_offsets_open(&d->lines, path));
    d->count = sr1__line_offsets_count(d->lines);
    return SR1_OK;
}

/* With the members that rows of an index have, whatever the form of the corpus. */
static sr1_status read_corpus_row(struct sr1__document_store *d, uint64_t row,
                                  const char **text, size_t *n)
{
    struct sr1__parsed_row parsed = {0};

    SR1__TRY(sr1__line_offsets_row(d->lines, row, text, n));
    if (*n > ROWS_ROW_MAX)
        return sr1__fail(SR1_E_LIMIT, "row %" PRIu64 " is longer than %zu bytes", row,
                         ROWS_ROW_MAX);
    SR1__TRY(sr1__context(sr1__row_parse(&d->parser, *text, *n, &parsed), "row %" PRIu64,
                          row));
    *text = parsed.row;
    *n = parsed.row_size;
    return SR1_OK;
}

/* ---- any of them ---- */

static const struct documents_kind kinds[] = {
    {&sr1__bm25_kind, bm25_open, index_read},
    {&sr1__dense_kind, dense_open, index_read},
    {NULL, open_corpus_lines, read_corpus_row},
};

static sr1_status find_documents_kind(const struct documents_kind **out, const char *path)
{
    struct sr1__map m;
    const char *packing;
    int is_tsv;
    size_t k = 0;

    SR1__TRY(sr1__map_open_watched(&m, path, 0));
    while (kinds[k].index != NULL &&
           (m.size < 8 || memcmp(m.data, kinds[k].index->magic, 8) != 0))
        k++;
    packing = sr1__packing_of(m.data, m.size);
    is_tsv = sr1__tsv_is_header((const char *)m.data, m.size);
    sr1__map_close(&m);
    if (packing != NULL)
        return sr1__fail(
            SR1_E_UNSUPPORTED,
            "%s is compressed (%s), and rows are read from everywhere in it: "
            "decompress it, or name a bm25 or dense index of it",
            path, packing);
    if (is_tsv)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%s is a TSV corpus, of which no row can be read alone: name a "
                         "bm25 or dense index of it",
                         path);
    *out = &kinds[k];
    return SR1_OK;
}

static sr1_status set_up_documents(struct sr1__document_store *d, const char *path)
{
    d->path = sr1__strdup(path);
    SR1__CHECK_ALLOC(d->path, "documents");
    SR1__TRY(find_documents_kind(&d->kind, path));
    SR1__TRY(d->kind->open(d, path));
    if (d->count == 0 || d->count > INT32_MAX)
        return sr1__fail(SR1_E_LIMIT, "%s: %" PRIu64 " documents; from 1 to 2^31 - 1",
                         path, d->count);
    return sr1__doc_cache_new(&d->cache, CACHE_BYTES);
}

sr1_status sr1__document_store_open(struct sr1__document_store **out, const char *path)
{
    struct sr1__document_store *d = sr1__calloc(1, sizeof(*d));

    SR1__CHECK_ALLOC(d, "documents");
    pthread_mutex_init(&d->lock, NULL);
    sr1__row_parser_init(&d->parser, sr1__text_format_find("plain", NULL));
    SR1__RETURN_NEW(out, d, set_up_documents(d, path), sr1__document_store_close);
}

void sr1__document_store_close(struct sr1__document_store *d)
{
    if (d == NULL)
        return;
    sr1__row_reader_free(d->reader);
    sr1__index_close(d->bm25);
    sr1__dense_close(d->dense);
    sr1__line_offsets_close(d->lines);
    sr1__row_parser_free(&d->parser);
    sr1__doc_cache_free(d->cache);
    pthread_mutex_destroy(&d->lock);
    sr1__free(d->path);
    sr1__free(d);
}

uint64_t sr1__document_store_count(const struct sr1__document_store *d)
{
    return d->count;
}

/* The files under the reader may change. */
static sr1_status check_documents_changed(const struct sr1__document_store *d,
                                          sr1_status status)
{
    if (d->bm25 != NULL)
        return sr1__index_check_changed(d->bm25, status);
    if (d->dense != NULL)
        return sr1__dense_check_changed(d->dense, status);
    return sr1__line_offsets_check_changed(d->lines, status);
}

static sr1_status read_document_row(struct sr1__document_store *d, uint64_t row,
                                    struct sr1__doc **out)
{
    struct sr1__doc *doc = NULL;
    const char *text = NULL;
    size_t n = 0;
    sr1_status status;

    pthread_mutex_lock(&d->lock);
    status = d->kind->read(d, row, &text, &n);
    if (status == SR1_OK)
        status = sr1__doc_parse(&doc, (uint32_t)row, text, n);
    pthread_mutex_unlock(&d->lock);
    status = sr1__context(check_documents_changed(d, status), "%s", d->path);
    if (status != SR1_OK)
        sr1__doc_release(doc);
    else
        *out = doc;
    return status;
}

sr1_status sr1__document_store_get(struct sr1__document_store *d, uint64_t row,
                                   struct sr1__doc **out)
{
    if (row >= d->count)
        return sr1__fail(SR1_E_NOT_FOUND, "%s: no document %" PRIu64 " of %" PRIu64,
                         d->path, row, d->count);
    *out = sr1__doc_cache_get(d->cache, (uint32_t)row);
    if (*out != NULL)
        return SR1_OK;
    SR1__TRY(read_document_row(d, row, out));
    sr1__doc_cache_put(d->cache, *out);
    return SR1_OK;
}
