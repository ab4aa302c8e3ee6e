/* search/index_writer.c - see index_format.h for the layout. Rows and postings go to the
 * file as they come; directories are kept until the end. */
#include "search/index_writer.h"

#include "base/file.h"
#include "base/mem.h"
#include "search/analyze.h"
#include "search/index_format.h"

#include <zstd.h>

#define DICTIONARY_MAX ((size_t)1 << 36)

struct section_place {
    uint64_t offset;
    uint64_t size;
    uint64_t checksum;
};

struct sr1__index_writer {
    struct sr1__file_writer *file;
    struct sr1__index_meta meta;
    struct section_place places[INDEX_SECTIONS];

    ZSTD_CCtx *zstd;
    int32_t zstd_level;
    struct sr1__buf row_lengths; /* of the open block of documents */
    struct sr1__buf rows;
    struct sr1__buf packed;
    struct sr1__buf doc_dir;
    struct sr1__buf lengths;

    int in_terms;
    char term[SR1__TOKEN_MAX_BYTES];
    size_t term_bytes;
    char last_term[SR1__TOKEN_MAX_BYTES];
    size_t last_term_bytes;
    struct sr1__buf terms;
    struct sr1__buf term_dir;

    uint32_t docs[SR1__INDEX_BLOCK]; /* the open block of the open term */
    uint32_t tfs[SR1__INDEX_BLOCK];
    uint32_t count;
    uint32_t df;
    int64_t last_doc; /* of the block before; -1 */
    struct sr1__buf blocks;
    struct sr1__buf block_dir;
    unsigned char impacts[8];
};

/* ---- bytes ---- */

static void add_varint(struct sr1__buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        sr1__buf_u8(b, (uint8_t)(v | 0x80));
    sr1__buf_u8(b, (uint8_t)v);
}

static unsigned bits_of(uint32_t v)
{
    unsigned bits = 0;

    for (; v != 0; v >>= 1)
        bits++;
    return bits;
}

static void pack(struct sr1__buf *b, const uint32_t *values, unsigned bits)
{
    uint64_t pending = 0;
    unsigned filled = 0;

    for (unsigned i = 0; i < SR1__INDEX_BLOCK; i++) {
        pending |= (uint64_t)values[i] << filled;
        for (filled += bits; filled >= 8; filled -= 8, pending >>= 8)
            sr1__buf_u8(b, (uint8_t)pending);
    }
}

/* ---- sections ---- */

static sr1_status begin_section(struct sr1__index_writer *w, enum index_section s)
{
    static const char zeros[8];
    uint64_t at = sr1__file_writer_offset(w->file);

    if (at % 8 != 0)
        SR1__TRY(sr1__file_writer_add(w->file, zeros, 8 - at % 8));
    w->places[s].offset = sr1__file_writer_offset(w->file);
    return SR1_OK;
}

static void end_section(struct sr1__index_writer *w, enum index_section s)
{
    w->places[s].size = sr1__file_writer_offset(w->file) - w->places[s].offset;
}

static sr1_status write_section(struct sr1__index_writer *w, enum index_section s,
                                const struct sr1__buf *b)
{
    SR1__TRY(sr1__buf_status(b, "index directory"));
    SR1__TRY(begin_section(w, s));
    SR1__TRY(sr1__file_writer_add(w->file, sr1__buf_cstr(b), b->len));
    end_section(w, s);
    w->places[s].checksum =
        index_checksum((const unsigned char *)sr1__buf_cstr(b), b->len);
    return SR1_OK;
}

/* ---- open and close ---- */

static void writer_free(struct sr1__index_writer *w)
{
    ZSTD_freeCCtx(w->zstd);
    sr1__buf_free(&w->row_lengths);
    sr1__buf_free(&w->rows);
    sr1__buf_free(&w->packed);
    sr1__buf_free(&w->doc_dir);
    sr1__buf_free(&w->lengths);
    sr1__buf_free(&w->terms);
    sr1__buf_free(&w->term_dir);
    sr1__buf_free(&w->blocks);
    sr1__buf_free(&w->block_dir);
    sr1__free(w);
}

void sr1__index_writer_abort(struct sr1__index_writer *w)
{
    if (w == NULL)
        return;
    sr1__file_writer_abort(w->file);
    writer_free(w);
}

static sr1_status write_header(struct sr1__index_writer *w)
{
    unsigned char header[INDEX_HEADER_BYTES] = INDEX_MAGIC;

    header[8] = INDEX_VERSION;
    return sr1__file_writer_add(w->file, header, sizeof(header));
}

sr1_status sr1__index_writer_open(struct sr1__index_writer **out, const char *path,
                                  const char *analyzer, int32_t zstd_level)
{
    struct sr1__index_writer *w = sr1__calloc(1, sizeof(*w));
    sr1_status status = SR1_OK;

    if (w == NULL)
        return sr1__fail_nomem("index writer");
    sr1__buf_init(&w->row_lengths, 0);
    sr1__buf_init(&w->rows, 0);
    sr1__buf_init(&w->packed, 0);
    sr1__buf_init(&w->doc_dir, DICTIONARY_MAX);
    sr1__buf_init(&w->lengths, DICTIONARY_MAX);
    sr1__buf_init(&w->terms, DICTIONARY_MAX);
    sr1__buf_init(&w->term_dir, DICTIONARY_MAX);
    sr1__buf_init(&w->blocks, DICTIONARY_MAX);
    sr1__buf_init(&w->block_dir, DICTIONARY_MAX);
    memcpy(w->meta.analyzer, analyzer, strnlen(analyzer, INDEX_ANALYZER_BYTES - 1));
    w->zstd_level = zstd_level;
    w->zstd = ZSTD_createCCtx();
    if (w->zstd == NULL)
        status = sr1__fail_nomem("index writer");
    if (status == SR1_OK)
        status = sr1__file_writer_open(&w->file, path);
    if (status == SR1_OK)
        status = write_header(w);
    if (status == SR1_OK)
        status = begin_section(w, SECTION_DOCUMENTS);
    if (status != SR1_OK) {
        sr1__index_writer_abort(w);
        return status;
    }
    *out = w;
    return SR1_OK;
}

/* ---- documents ---- */

static sr1_status compress(struct sr1__index_writer *w)
{
    size_t n;

    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, w->zstd_level);
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1);
    n = ZSTD_compress2(w->zstd, w->packed.data, w->packed.len, w->row_lengths.data,
                       w->row_lengths.len);
    if (ZSTD_isError(n))
        return sr1__fail(SR1_E_INTERNAL, "compressing documents: %s",
                         ZSTD_getErrorName(n));
    w->packed.len = n;
    return SR1_OK;
}

static sr1_status flush_rows(struct sr1__index_writer *w)
{
    if (w->row_lengths.len == 0)
        return SR1_OK;
    sr1__buf_add(&w->row_lengths, sr1__buf_cstr(&w->rows), w->rows.len);
    SR1__TRY(sr1__buf_status(&w->row_lengths, "stored documents"));
    sr1__buf_clear(&w->packed);
    for (size_t bound = ZSTD_compressBound(w->row_lengths.len); w->packed.len < bound;) {
        static const char zeros[4096];
        size_t left = bound - w->packed.len;

        sr1__buf_add(&w->packed, zeros, left < sizeof(zeros) ? left : sizeof(zeros));
        SR1__TRY(sr1__buf_status(&w->packed, "stored documents"));
    }
    SR1__TRY(compress(w));
    SR1__TRY(sr1__file_writer_add(w->file, w->packed.data, w->packed.len));
    sr1__buf_u64(&w->doc_dir,
                 sr1__file_writer_offset(w->file) - w->places[SECTION_DOCUMENTS].offset);
    sr1__buf_u32(&w->doc_dir, (uint32_t)w->meta.documents);
    sr1__buf_u32(&w->doc_dir, (uint32_t)w->row_lengths.len);
    sr1__buf_clear(&w->row_lengths);
    sr1__buf_clear(&w->rows);
    return sr1__buf_status(&w->doc_dir, "directory of documents");
}

sr1_status sr1__index_writer_document(struct sr1__index_writer *w, const char *row,
                                      size_t n, uint32_t length, size_t contents_bytes)
{
    if (n > INDEX_ROW_MAX)
        return sr1__fail(SR1_E_LIMIT, "a row of %zu bytes; at most %zu", n,
                         INDEX_ROW_MAX);
    if (w->meta.documents >= INT32_MAX)
        return sr1__fail(SR1_E_LIMIT, "more than %d documents", INT32_MAX);
    add_varint(&w->row_lengths, n);
    sr1__buf_add(&w->rows, row, n);
    sr1__buf_u8(&w->lengths, sr1__length_encode(length));
    w->meta.documents++;
    w->meta.total_terms += length;
    w->meta.contents_bytes += contents_bytes;
    SR1__TRY(sr1__buf_status(&w->row_lengths, "stored documents"));
    SR1__TRY(sr1__buf_status(&w->rows, "stored documents"));
    SR1__TRY(sr1__buf_status(&w->lengths, "document lengths"));
    return w->rows.len >= INDEX_DOC_BLOCK ? flush_rows(w) : SR1_OK;
}

/* ---- terms ---- */

static void add_impact(unsigned char *impacts, uint32_t tf, uint8_t length_code)
{
    unsigned char *pair = impacts + 2 * impact_bucket(tf);
    uint8_t capped = tf < 255 ? (uint8_t)tf : 255;

    if (pair[0] == 0 || length_code < pair[1])
        pair[1] = length_code;
    if (capped > pair[0])
        pair[0] = capped;
}

static void flush_full(struct sr1__index_writer *w)
{
    uint32_t gaps[SR1__INDEX_BLOCK];
    uint32_t more[SR1__INDEX_BLOCK];
    uint32_t all_gaps = 0;
    uint32_t all_more = 0;

    for (uint32_t i = 0; i < SR1__INDEX_BLOCK; i++) {
        int64_t before = i > 0 ? (int64_t)w->docs[i - 1] : w->last_doc;

        gaps[i] = (uint32_t)((int64_t)w->docs[i] - before - 1);
        more[i] = w->tfs[i] - 1;
        all_gaps |= gaps[i];
        all_more |= more[i];
    }
    sr1__buf_u8(&w->blocks, (uint8_t)bits_of(all_gaps));
    sr1__buf_u8(&w->blocks, (uint8_t)bits_of(all_more));
    pack(&w->blocks, gaps, bits_of(all_gaps));
    pack(&w->blocks, more, bits_of(all_more));
}

static void flush_short(struct sr1__index_writer *w)
{
    int64_t before = w->last_doc;

    for (uint32_t i = 0; i < w->count; i++) {
        uint64_t gap = (uint64_t)((int64_t)w->docs[i] - before - 1);

        add_varint(&w->blocks, gap * 2 + (w->tfs[i] == 1));
        if (w->tfs[i] > 1)
            add_varint(&w->blocks, w->tfs[i] - 2);
        before = w->docs[i];
    }
}

static sr1_status flush_block(struct sr1__index_writer *w)
{
    unsigned char impacts[8] = {0};

    if (w->count == 0)
        return SR1_OK;
    for (uint32_t i = 0; i < w->count; i++) {
        uint8_t code = (uint8_t)w->lengths.data[w->docs[i]];

        add_impact(impacts, w->tfs[i], code);
        add_impact(w->impacts, w->tfs[i], code);
    }
    if (w->count == SR1__INDEX_BLOCK)
        flush_full(w);
    else
        flush_short(w);
    w->last_doc = w->docs[w->count - 1];
    w->count = 0;
    if (w->blocks.len > UINT32_MAX)
        return sr1__fail(SR1_E_LIMIT, "postings of one term: more than 4 GiB");
    sr1__buf_u32(&w->block_dir, (uint32_t)w->last_doc);
    sr1__buf_u32(&w->block_dir, (uint32_t)w->blocks.len);
    sr1__buf_add(&w->block_dir, impacts, sizeof(impacts));
    SR1__TRY(sr1__buf_status(&w->block_dir, "directory of postings"));
    return sr1__buf_status(&w->blocks, "postings");
}

/* The dictionary's entry of the term just ended, whose postings begin at `offset`. */
static sr1_status add_entry(struct sr1__index_writer *w, uint64_t offset, uint64_t size)
{
    size_t shared = 0;

    if (w->meta.terms % INDEX_TERM_BLOCK == 0) {
        sr1__buf_u64(&w->term_dir, w->terms.len);
        sr1__buf_u64(&w->term_dir, offset);
    } else {
        while (shared < w->term_bytes && shared < w->last_term_bytes &&
               w->term[shared] == w->last_term[shared])
            shared++;
    }
    add_varint(&w->terms, shared);
    add_varint(&w->terms, w->term_bytes - shared);
    sr1__buf_add(&w->terms, w->term + shared, w->term_bytes - shared);
    add_varint(&w->terms, w->df);
    add_varint(&w->terms, size);
    memcpy(w->last_term, w->term, w->term_bytes);
    w->last_term_bytes = w->term_bytes;
    w->meta.terms++;
    w->meta.postings += w->df;
    SR1__TRY(sr1__buf_status(&w->term_dir, "directory of terms"));
    return sr1__buf_status(&w->terms, "terms");
}

static sr1_status end_term(struct sr1__index_writer *w)
{
    uint64_t begin = sr1__file_writer_offset(w->file);

    if (w->df == 0)
        return SR1_OK;
    SR1__TRY(flush_block(w));
    if (w->df > SR1__INDEX_BLOCK) {
        SR1__TRY(sr1__file_writer_add(w->file, w->impacts, sizeof(w->impacts)));
        SR1__TRY(sr1__file_writer_add(w->file, w->block_dir.data, w->block_dir.len));
    }
    SR1__TRY(sr1__file_writer_add(w->file, w->blocks.data, w->blocks.len));
    SR1__TRY(add_entry(w, begin - w->places[SECTION_POSTINGS].offset,
                       sr1__file_writer_offset(w->file) - begin));
    sr1__buf_clear(&w->blocks);
    sr1__buf_clear(&w->block_dir);
    memset(w->impacts, 0, sizeof(w->impacts));
    w->df = 0;
    w->last_doc = -1;
    return SR1_OK;
}

static sr1_status begin_terms(struct sr1__index_writer *w)
{
    SR1__TRY(flush_rows(w));
    end_section(w, SECTION_DOCUMENTS);
    w->in_terms = 1;
    w->last_doc = -1;
    return begin_section(w, SECTION_POSTINGS);
}

sr1_status sr1__index_writer_term(struct sr1__index_writer *w, const char *term, size_t n)
{
    if (!w->in_terms)
        SR1__TRY(begin_terms(w));
    SR1__TRY(end_term(w));
    if (n == 0 || n > sizeof(w->term))
        return sr1__fail(SR1_E_INTERNAL, "index writer: a term of %zu bytes", n);
    memcpy(w->term, term, n);
    w->term_bytes = n;
    return SR1_OK;
}

sr1_status sr1__index_writer_posting(struct sr1__index_writer *w, uint32_t doc,
                                     uint32_t tf)
{
    int64_t before = w->count > 0 ? (int64_t)w->docs[w->count - 1] : w->last_doc;

    if ((int64_t)doc <= before || doc >= w->meta.documents || tf < 1 || tf > INT32_MAX)
        return sr1__fail(SR1_E_INTERNAL, "index writer: postings out of order");
    if (w->count == SR1__INDEX_BLOCK)
        SR1__TRY(flush_block(w));
    w->docs[w->count] = doc;
    w->tfs[w->count++] = tf;
    w->df++;
    return SR1_OK;
}

/* ---- the end ---- */

static sr1_status write_footer(struct sr1__index_writer *w)
{
    struct sr1__buf b;
    sr1_status status;

    sr1__buf_init(&b, 0);
    sr1__buf_u64(&b, w->meta.documents);
    sr1__buf_u64(&b, w->meta.terms);
    sr1__buf_u64(&b, w->meta.total_terms);
    sr1__buf_u64(&b, w->meta.postings);
    sr1__buf_u64(&b, w->meta.contents_bytes);
    sr1__buf_add(&b, w->meta.analyzer, INDEX_ANALYZER_BYTES);
    for (int i = 0; i < INDEX_SECTIONS; i++) {
        sr1__buf_u64(&b, w->places[i].offset);
        sr1__buf_u64(&b, w->places[i].size);
        sr1__buf_u64(&b, w->places[i].checksum);
    }
    status = sr1__buf_status(&b, "index footer");
    if (status == SR1_OK) {
        sr1__buf_u64(&b, index_checksum((const unsigned char *)b.data, b.len));
        sr1__buf_add(&b, INDEX_MAGIC, 8);
        status = sr1__buf_status(&b, "index footer");
    }
    if (status == SR1_OK)
        status = sr1__file_writer_add(w->file, b.data, b.len);
    sr1__buf_free(&b);
    return status;
}

static sr1_status finish(struct sr1__index_writer *w)
{
    static const char padding[INDEX_PADDING];

    if (!w->in_terms)
        SR1__TRY(begin_terms(w));
    SR1__TRY(end_term(w));
    SR1__TRY(sr1__file_writer_add(w->file, padding, sizeof(padding)));
    end_section(w, SECTION_POSTINGS);
    SR1__TRY(write_section(w, SECTION_DOC_DIR, &w->doc_dir));
    SR1__TRY(write_section(w, SECTION_LENGTHS, &w->lengths));
    SR1__TRY(write_section(w, SECTION_TERMS, &w->terms));
    SR1__TRY(write_section(w, SECTION_TERM_DIR, &w->term_dir));
    return write_footer(w);
}

sr1_status sr1__index_writer_commit(struct sr1__index_writer *w)
{
    sr1_status status = finish(w);

    if (status == SR1_OK)
        status = sr1__file_writer_commit(w->file);
    else
        sr1__file_writer_abort(w->file);
    writer_free(w);
    return status;
}
