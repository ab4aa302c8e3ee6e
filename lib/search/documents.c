/* search/documents.c - see documents.h. What is read often stays taken apart. */
#include "search/documents.h"

#include "base/file.h"
#include "base/mem.h"
#include "search/dense_index.h"
#include "search/index.h"
#include "search/line_offsets.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#define CACHE_BYTES ((uint64_t)64 << 20)

/* A kind of file with rows. read: borrowed until its next call, one call at a time. */
struct kind {
    const struct sr1__index_kind *index; /* NULL: no index */
    sr1_status (*open)(struct sr1__documents *d, const char *path);
    sr1_status (*read)(struct sr1__documents *d, uint64_t row, const char **text,
                       size_t *n);
};

struct sr1__documents {
    const struct kind *kind;
    char *path;
    uint64_t count;
    struct sr1__index *bm25;        /* one of these three */
    struct sr1__dense_index *dense;
    struct sr1__line_offsets *lines;
    struct sr1__row_reader *reader; /* of an index */
    struct sr1__doc_cache *cache;
    pthread_mutex_t lock; /* around kind->read and what it gave */
};

/* ---- an index ---- */

static sr1_status bm25_open(struct sr1__documents *d, const char *path)
{
    SR1__TRY(sr1__index_open(&d->bm25, path));
    d->count = sr1__index_meta(d->bm25)->documents;
    return sr1__row_reader_new(&d->reader, sr1__index_rows(d->bm25));
}

static sr1_status dense_open(struct sr1__documents *d, const char *path)
{
    SR1__TRY(sr1__dense_open(&d->dense, path));
    d->count = sr1__dense_meta(d->dense)->documents;
    return sr1__row_reader_new(&d->reader, sr1__dense_rows(d->dense));
}

static sr1_status index_read(struct sr1__documents *d, uint64_t row, const char **text,
                             size_t *n)
{
    return sr1__row_read(d->reader, (uint32_t)row, text, n);
}

/* ---- a corpus ---- */

static sr1_status lines_open(struct sr1__documents *d, const char *path)
{
    SR1__TRY(sr1__line_offsets_open(&d->lines, path));
    d->count = sr1__line_offsets_count(d->lines);
    return SR1_OK;
}

static sr1_status lines_read(struct sr1__documents *d, uint64_t row, const char **text,
                             size_t *n)
{
    SR1__TRY(sr1__line_offsets_row(d->lines, row, text, n));
    if (*n > ROWS_ROW_MAX)
        return sr1__fail(SR1_E_LIMIT, "row %" PRIu64 " is longer than %zu bytes", row,
                         ROWS_ROW_MAX);
    return SR1_OK;
}

/* ---- any of them ---- */

static const struct kind kinds[] = {
    {&sr1__bm25_kind, bm25_open, index_read},
    {&sr1__dense_kind, dense_open, index_read},
    {NULL, lines_open, lines_read},
};

static sr1_status find_kind(const struct kind **out, const char *path)
{
    struct sr1__map m;
    size_t k = 0;

    SR1__TRY(sr1__map_open(&m, path));
    while (kinds[k].index != NULL &&
           (m.size < 8 || memcmp(m.data, kinds[k].index->magic, 8) != 0))
        k++;
    sr1__map_close(&m);
    *out = &kinds[k];
    return SR1_OK;
}

static sr1_status set_up(struct sr1__documents *d, const char *path)
{
    d->path = sr1__strdup(path);
    if (d->path == NULL)
        return sr1__fail_nomem("documents");
    SR1__TRY(find_kind(&d->kind, path));
    SR1__TRY(d->kind->open(d, path));
    if (d->count == 0 || d->count > INT32_MAX)
        return sr1__fail(SR1_E_LIMIT, "%s: %" PRIu64 " documents; from 1 to 2^31 - 1",
                         path, d->count);
    return sr1__doc_cache_new(&d->cache, CACHE_BYTES);
}

sr1_status sr1__documents_open(struct sr1__documents **out, const char *path)
{
    struct sr1__documents *d = sr1__calloc(1, sizeof(*d));
    sr1_status status;

    if (d == NULL)
        return sr1__fail_nomem("documents");
    pthread_mutex_init(&d->lock, NULL);
    status = set_up(d, path);
    if (status != SR1_OK) {
        sr1__documents_close(d);
        return status;
    }
    *out = d;
    return SR1_OK;
}

void sr1__documents_close(struct sr1__documents *d)
{
    if (d == NULL)
        return;
    sr1__row_reader_free(d->reader);
    sr1__index_close(d->bm25);
    sr1__dense_close(d->dense);
    sr1__line_offsets_close(d->lines);
    sr1__doc_cache_free(d->cache);
    pthread_mutex_destroy(&d->lock);
    sr1__free(d->path);
    sr1__free(d);
}

uint64_t sr1__documents_count(const struct sr1__documents *d)
{
    return d->count;
}

static sr1_status read_row(struct sr1__documents *d, uint64_t row, struct sr1__doc **out)
{
    const char *text = NULL;
    size_t n = 0;
    sr1_status status;

    pthread_mutex_lock(&d->lock);
    status = d->kind->read(d, row, &text, &n);
    if (status == SR1_OK)
        status = sr1__doc_parse(out, (uint32_t)row, text, n);
    pthread_mutex_unlock(&d->lock);
    return sr1__context(status, "%s", d->path);
}

sr1_status sr1__documents_get(struct sr1__documents *d, uint64_t row,
                              struct sr1__doc **out)
{
    if (row >= d->count)
        return sr1__fail(SR1_E_NOT_FOUND, "%s: no document %" PRIu64 " of %" PRIu64,
                         d->path, row, d->count);
    *out = sr1__doc_cache_get(d->cache, (uint32_t)row);
    if (*out != NULL)
        return SR1_OK;
    SR1__TRY(read_row(d, row, out));
    sr1__doc_cache_put(d->cache, *out);
    return SR1_OK;
}
