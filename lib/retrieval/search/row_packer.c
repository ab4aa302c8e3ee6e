/* retrieval/search/row_packer.c - rows to frames of the documents section
 * (stored_rows.h). */
#include "retrieval/search/bm25_index_writer.h"

#include "base/mem.h"
#include "retrieval/search/bm25_index.h"

#include <zstd.h>

struct sr1__row_packer {
    ZSTD_CCtx *zstd;
    int32_t zstd_level;
    struct sr1__buf row_lengths;
    struct sr1__buf rows;
    struct sr1__buf length_codes;
    uint32_t documents;
    uint64_t total_terms;
    uint64_t contents_bytes;
};

void sr1__doc_block_init(struct sr1__doc_block *b)
{
    memset(b, 0, sizeof(*b));
    sr1__buf_init(&b->packed, 0);
    sr1__buf_init(&b->length_codes, 0);
}

void sr1__doc_block_free(struct sr1__doc_block *b)
{
    sr1__buf_free(&b->packed);
    sr1__buf_free(&b->length_codes);
}

sr1_status sr1__row_packer_new(struct sr1__row_packer **out, int32_t zstd_level)
{
    struct sr1__row_packer *p = sr1__calloc(1, sizeof(*p));

    SR1__CHECK_ALLOC(p, "stored documents");
    sr1__buf_init(&p->row_lengths, 0);
    sr1__buf_init(&p->rows, 0);
    sr1__buf_init(&p->length_codes, 0);
    p->zstd_level = zstd_level;
    p->zstd = ZSTD_createCCtx();
    if (p->zstd == NULL) {
        sr1__row_packer_free(p);
        return sr1__fail_nomem("stored documents");
    }
    *out = p;
    return SR1_OK;
}

void sr1__row_packer_free(struct sr1__row_packer *p)
{
    if (p == NULL)
        return;
    ZSTD_freeCCtx(p->zstd);
    sr1__buf_free(&p->row_lengths);
    sr1__buf_free(&p->rows);
    sr1__buf_free(&p->length_codes);
    sr1__free(p);
}

static void add_row_varint(struct sr1__buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        sr1__buf_u8(b, (uint8_t)(v | 0x80));
    sr1__buf_u8(b, (uint8_t)v);
}

sr1_status sr1__row_packer_add(struct sr1__row_packer *p, const char *row, size_t n,
                               uint32_t length, size_t contents_bytes)
{
    if (n > ROWS_ROW_MAX)
        return sr1__fail(SR1_E_LIMIT, "a row of %zu bytes; at most %zu", n, ROWS_ROW_MAX);
    add_row_varint(&p->row_lengths, n);
    sr1__buf_add(&p->rows, row, n);
    sr1__buf_u8(&p->length_codes, sr1__length_encode(length));
    p->documents++;
    p->total_terms += length;
    p->contents_bytes += contents_bytes;
    SR1__TRY(sr1__buf_status(&p->row_lengths, "stored documents"));
    SR1__TRY(sr1__buf_status(&p->rows, "stored documents"));
    return sr1__buf_status(&p->length_codes, "stored documents");
}

static sr1_status compress_rows(struct sr1__row_packer *p, struct sr1__buf *out)
{
    size_t bound = ZSTD_compressBound(p->row_lengths.len);
    size_t n;

    sr1__buf_clear(out);
    sr1__buf_room(out, bound);
    SR1__TRY(sr1__buf_status(out, "stored documents"));
    ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_compressionLevel, p->zstd_level);
    ZSTD_CCtx_setParameter(p->zstd, ZSTD_c_checksumFlag, 1);
    n = ZSTD_compress2(p->zstd, out->data, bound, p->row_lengths.data,
                       p->row_lengths.len);
    if (ZSTD_isError(n))
        return sr1__fail(SR1_E_INTERNAL, "compressing documents: %s",
                         ZSTD_getErrorName(n));
    out->len = n;
    return SR1_OK;
}

static void swap_bufs(struct sr1__buf *a, struct sr1__buf *b)
{
    struct sr1__buf c = *a;

    *a = *b;
    *b = c;
}

sr1_status sr1__row_packer_finish(struct sr1__row_packer *p, struct sr1__doc_block *out)
{
    sr1__buf_add(&p->row_lengths, sr1__buf_cstr(&p->rows), p->rows.len);
    SR1__TRY(sr1__buf_status(&p->row_lengths, "stored documents"));
    if (p->row_lengths.len > ROWS_RAW_MAX)
        return sr1__fail(SR1_E_LIMIT, "stored documents: a block of %zu bytes",
                         p->row_lengths.len);
    SR1__TRY(compress_rows(p, &out->packed));
    swap_bufs(&p->length_codes, &out->length_codes);
    out->documents = p->documents;
    out->raw = (uint32_t)p->row_lengths.len;
    out->total_terms = p->total_terms;
    out->contents_bytes = p->contents_bytes;
    sr1__buf_clear(&p->row_lengths);
    sr1__buf_clear(&p->rows);
    sr1__buf_clear(&p->length_codes);
    p->documents = 0;
    p->total_terms = 0;
    p->contents_bytes = 0;
    return SR1_OK;
}

sr1_status sr1__stored_rows_put(struct sr1__section_writer *w, size_t documents,
                                struct sr1__spool *dir, const struct sr1__doc_block *b,
                                uint64_t *n)
{
    unsigned char e[ROWS_DIR_ENTRY];
    uint64_t end;

    if (*n + b->documents > INT32_MAX)
        return sr1__fail(SR1_E_LIMIT, "more than %d documents", INT32_MAX);
    SR1__TRY(sr1__section_put(w, documents, b->packed.data, b->packed.len));
    *n += b->documents;
    end = w->places[documents].size;
    for (int i = 0; i < 8; i++)
        e[i] = (unsigned char)(end >> (8 * i));
    for (int i = 0; i < 4; i++) {
        e[8 + i] = (unsigned char)(*n >> (8 * i));
        e[12 + i] = (unsigned char)(b->raw >> (8 * i));
    }
    return sr1__spool_add(dir, e, sizeof(e));
}
