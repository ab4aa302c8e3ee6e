/* search/rows.c - stored rows: find the frame, unpack it, find the row in it. */
#include "search/index.h"

#include "base/mem.h"
#include "search/index_format.h"

#include <zstd.h>

struct sr1__row_reader {
    const struct sr1__index *ix;
    ZSTD_DCtx *zstd;
    unsigned char *raw; /* the block read last */
    size_t raw_size;
    size_t capacity;
    size_t block; /* SIZE_MAX: none */
};

sr1_status sr1__row_reader_new(struct sr1__row_reader **out, const struct sr1__index *ix)
{
    struct sr1__row_reader *r = sr1__calloc(1, sizeof(*r));

    if (r == NULL)
        return sr1__fail_nomem("document reader");
    r->ix = ix;
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

static sr1_status corrupt(const char *what)
{
    return sr1__fail(SR1_E_CORRUPT, "index is damaged: %s; build it again", what);
}

/* The frame that has the document, or the number of frames. */
static size_t find_frame(const struct sr1__index *ix, uint32_t doc)
{
    size_t low = 0;
    size_t high = sr1__index_frames(ix);

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (sr1__index_frame(ix, mid).end <= doc)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static sr1_status load_frame(struct sr1__row_reader *r, size_t i,
                             const struct sr1__index_frame *f)
{
    size_t got;

    r->block = SIZE_MAX;
    if (f->bytes == NULL || f->raw > INDEX_RAW_MAX)
        return corrupt("the directory of documents is out of order");
    if (f->raw > r->capacity) {
        unsigned char *raw = sr1__realloc(r->raw, f->raw, 1);

        if (raw == NULL)
            return sr1__fail_nomem("stored documents");
        r->raw = raw;
        r->capacity = f->raw;
    }
    got = ZSTD_decompressDCtx(r->zstd, r->raw, r->capacity, f->bytes, f->size);
    if (ZSTD_isError(got) || got != f->raw)
        return corrupt("stored documents do not decompress");
    r->raw_size = f->raw;
    r->block = i;
    return SR1_OK;
}

sr1_status sr1__row_read(struct sr1__row_reader *r, uint32_t doc, const char **row,
                         size_t *n)
{
    size_t block = find_frame(r->ix, doc);
    struct sr1__index_frame f;
    uint64_t before = 0;
    uint64_t size = 0;
    struct sr1__reader lengths;

    if (block == sr1__index_frames(r->ix))
        return corrupt("documents are missing");
    f = sr1__index_frame(r->ix, block);
    if (doc < f.first)
        return corrupt("the directory of documents is out of order");
    if (block != r->block)
        SR1__TRY(load_frame(r, block, &f));
    sr1__reader_init(&lengths, r->raw, r->raw_size);
    for (uint32_t d = f.first; d < f.end && !lengths.failed; d++) {
        uint64_t v = sr1__index_varint(&lengths);

        if (v > r->raw_size)
            return corrupt("a stored document is too long");
        before += d < doc ? v : 0;
        size = d == doc ? v : size;
    }
    (void)sr1__read_bytes(&lengths, (size_t)before);
    *row = sr1__read_bytes(&lengths, (size_t)size);
    if (lengths.failed)
        return corrupt("a stored document is cut short");
    *n = (size_t)size;
    return SR1_OK;
}
