/* search/rows.c - stored rows: find the frame, unpack it, find the row in it. */
#include "search/rows.h"

#include "base/mem.h"

#include <zstd.h>

/* Where the rows of documents [first, end) lie; bytes NULL when that is nowhere. Not
 * checked further. */
struct frame {
    const unsigned char *bytes;
    size_t size;
    uint32_t first;
    uint32_t end;
    uint32_t raw; /* bytes when unpacked */
};

struct sr1__row_reader {
    const struct sr1__rows *rows;
    ZSTD_DCtx *zstd;
    unsigned char *raw; /* the block read last */
    size_t raw_size;
    size_t capacity;
    size_t block; /* SIZE_MAX: none */
};

sr1_status sr1__rows_init(struct sr1__rows *rows, const struct sr1__section *documents,
                          const struct sr1__section *directory)
{
    if (directory->size % ROWS_DIR_ENTRY != 0)
        return sr1__index_corrupt("a section has a wrong size");
    rows->frames = documents->p;
    rows->frames_size = documents->size;
    rows->dir = directory->p;
    rows->n = directory->size / ROWS_DIR_ENTRY;
    return SR1_OK;
}

sr1_status sr1__row_reader_new(struct sr1__row_reader **out, const struct sr1__rows *rows)
{
    struct sr1__row_reader *r = sr1__calloc(1, sizeof(*r));

    if (r == NULL)
        return sr1__fail_nomem("document reader");
    r->rows = rows;
    r->block = SIZE_MAX;
    r->zstd = ZSTD_createDCtx();
    if (r->zstd == NULL) {
        sr1__free(r);
        return sr1__fail_nomem("document reader");
    }
    *out = r;
    return SR1_OK;
}

void sr1__row_reader_free(struct sr1__row_reader *r)
{
    if (r == NULL)
        return;
    ZSTD_freeDCtx(r->zstd);
    sr1__free(r->raw);
    sr1__free(r);
}

static struct frame frame_at(const struct sr1__rows *rows, size_t i)
{
    const unsigned char *e = rows->dir + i * ROWS_DIR_ENTRY;
    struct frame f = {.end = index_u32(e + 8), .raw = index_u32(e + 12)};
    uint64_t begin = i > 0 ? index_u64(e - ROWS_DIR_ENTRY) : 0;
    uint64_t end = index_u64(e);

    f.first = i > 0 ? index_u32(e - ROWS_DIR_ENTRY + 8) : 0;
    if (begin <= end && end <= rows->frames_size) {
        f.bytes = rows->frames + begin;
        f.size = (size_t)(end - begin);
    }
    return f;
}

/* The frame that has the document, or the number of frames. */
static size_t find_frame(const struct sr1__rows *rows, uint32_t doc)
{
    size_t low = 0;
    size_t high = rows->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (frame_at(rows, mid).end <= doc)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static sr1_status load_frame(struct sr1__row_reader *r, size_t i,
                             const struct frame *f)
{
    size_t got;

    r->block = SIZE_MAX;
    if (f->bytes == NULL || f->raw > ROWS_RAW_MAX)
        return sr1__index_corrupt("the directory of documents is out of order");
    if (f->raw > r->capacity) {
        unsigned char *raw = sr1__realloc(r->raw, f->raw, 1);

        if (raw == NULL)
            return sr1__fail_nomem("stored documents");
        r->raw = raw;
        r->capacity = f->raw;
    }
    got = ZSTD_decompressDCtx(r->zstd, r->raw, r->capacity, f->bytes, f->size);
    if (ZSTD_isError(got) || got != f->raw)
        return sr1__index_corrupt("stored documents do not decompress");
    r->raw_size = f->raw;
    r->block = i;
    return SR1_OK;
}

sr1_status sr1__row_read(struct sr1__row_reader *r, uint32_t doc, const char **row,
                         size_t *n)
{
    size_t block = find_frame(r->rows, doc);
    struct frame f;
    uint64_t before = 0;
    uint64_t size = 0;
    struct sr1__reader lengths;

    if (block == r->rows->n)
        return sr1__index_corrupt("documents are missing");
    f = frame_at(r->rows, block);
    if (doc < f.first)
        return sr1__index_corrupt("the directory of documents is out of order");
    if (block != r->block)
        SR1__TRY(load_frame(r, block, &f));
    sr1__reader_init(&lengths, r->raw, r->raw_size);
    for (uint32_t d = f.first; d < f.end && !lengths.failed; d++) {
        uint64_t v = sr1__index_varint(&lengths);

        if (v > r->raw_size)
            return sr1__index_corrupt("a stored document is too long");
        before += d < doc ? v : 0;
        size = d == doc ? v : size;
    }
    (void)sr1__read_bytes(&lengths, (size_t)before);
    *row = sr1__read_bytes(&lengths, (size_t)size);
    if (lengths.failed)
        return sr1__index_corrupt("a stored document is cut short");
    *n = (size_t)size;
    return SR1_OK;
}

sr1_status sr1__row_fetch(struct sr1__row_reader *r, struct sr1__doc_cache *cache,
                          uint32_t doc, struct sr1__doc **out)
{
    const char *bytes = NULL;
    size_t n = 0;
    sr1_status status;

    *out = sr1__doc_cache_get(cache, doc);
    if (*out != NULL)
        return SR1_OK;
    SR1__TRY(sr1__row_read(r, doc, &bytes, &n));
    status = sr1__doc_parse(out, doc, bytes, n);
    if (status == SR1_E_PARSE)
        return sr1__index_corrupt("a stored row is not JSON with id and contents");
    SR1__TRY(status);
    sr1__doc_cache_put(cache, *out);
    return SR1_OK;
}
