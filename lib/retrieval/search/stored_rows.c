/* retrieval/search/stored_rows.c - stored rows: find the frame, unpack it, find the row
 * in it. */
#include "retrieval/search/stored_rows.h"

#include "base/mem.h"

#include <zstd.h>

/* Where the rows of documents [first, end) lie; bytes NULL when that is nowhere. Not
 * checked further. */
struct row_frame {
    const unsigned char *bytes;
    size_t size;
    uint32_t first;
    uint32_t end;
    uint32_t raw; /* bytes when unpacked */
};

/* Frames stay unpacked: neighbours in a corpus answer the same questions. */
#define FRAMES_KEPT 64
#define FRAME_KEPT_MAX (4 * ROWS_FRAME) /* larger ones share one place */

struct raw_frame {
    unsigned char *raw;
    size_t size;
    size_t capacity;
    size_t number; /* of the frame, from 1; 0: none */
};

struct sr1__row_reader {
    const struct sr1__stored_rows *rows;
    ZSTD_DCtx *zstd;
    struct raw_frame kept[FRAMES_KEPT]; /* frame i at i % FRAMES_KEPT */
    struct raw_frame large;
};

sr1_status sr1__stored_rows_init(struct sr1__stored_rows *rows,
                                 const struct sr1__section *documents,
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

sr1_status sr1__row_reader_new(struct sr1__row_reader **out,
                               const struct sr1__stored_rows *rows)
{
    struct sr1__row_reader *r = sr1__calloc(1, sizeof(*r));

    if (r == NULL)
        return sr1__fail_nomem("document reader");
    r->rows = rows;
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
    for (size_t i = 0; i < FRAMES_KEPT; i++)
        sr1__free(r->kept[i].raw);
    sr1__free(r->large.raw);
    sr1__free(r);
}

static struct row_frame frame_at(const struct sr1__stored_rows *rows, size_t i)
{
    const unsigned char *e = rows->dir + i * ROWS_DIR_ENTRY;
    struct row_frame f = {.end = index_u32(e + 8), .raw = index_u32(e + 12)};
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
static size_t find_frame(const struct sr1__stored_rows *rows, uint32_t doc)
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

static sr1_status unpack_frame(struct sr1__row_reader *r, const struct row_frame *f,
                               struct raw_frame *out)
{
    size_t got;

    if (f->raw > out->capacity) {
        unsigned char *raw = sr1__realloc(out->raw, f->raw, 1);

        if (raw == NULL)
            return sr1__fail_nomem("stored documents");
        out->raw = raw;
        out->capacity = f->raw;
    }
    got = ZSTD_decompressDCtx(r->zstd, out->raw, out->capacity, f->bytes, f->size);
    if (ZSTD_isError(got) || got != f->raw)
        return sr1__index_corrupt("stored documents do not decompress");
    out->size = f->raw;
    return SR1_OK;
}

/* Frame i unpacked, borrowed until the reader's next call. */
static sr1_status load_frame(struct sr1__row_reader *r, size_t i,
                             const struct row_frame *f, const struct raw_frame **out)
{
    struct raw_frame *place =
        f->raw <= FRAME_KEPT_MAX ? &r->kept[i % FRAMES_KEPT] : &r->large;

    if (f->bytes == NULL || f->raw > ROWS_RAW_MAX)
        return sr1__index_corrupt("the directory of documents is out of order");
    *out = place;
    if (place->number == i + 1)
        return SR1_OK;
    place->number = 0;
    SR1__TRY(unpack_frame(r, f, place));
    place->number = i + 1;
    return SR1_OK;
}

sr1_status sr1__row_read(struct sr1__row_reader *r, uint32_t doc, const char **row,
                         size_t *n)
{
    size_t i = find_frame(r->rows, doc);
    const struct raw_frame *frame = NULL;
    struct row_frame f;
    uint64_t before = 0;
    uint64_t size = 0;
    struct sr1__reader lengths;

    if (i == r->rows->n)
        return sr1__index_corrupt("documents are missing");
    f = frame_at(r->rows, i);
    if (doc < f.first)
        return sr1__index_corrupt("the directory of documents is out of order");
    SR1__TRY(load_frame(r, i, &f, &frame));
    sr1__reader_init(&lengths, frame->raw, frame->size);
    for (uint32_t d = f.first; d < f.end && !lengths.failed; d++) {
        uint64_t v = sr1__index_varint(&lengths);

        if (v > frame->size)
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
