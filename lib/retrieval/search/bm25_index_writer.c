/* retrieval/search/bm25_index_writer.c - see bm25_format.h for the layout. Documents and
 * postings go to the file as they come; what belongs behind them waits in spools. */
#include "retrieval/search/bm25_index_writer.h"

#include "base/file.h"
#include "base/mem.h"
#include "retrieval/search/analyze.h"
#include "retrieval/search/bm25_format.h"
#include "retrieval/search/spool.h"

#define LIST_MAX ((size_t)UINT32_MAX) /* bytes of one term's postings */

struct sr1__index_writer {
    struct sr1__section_writer out;
    struct sr1__index_meta meta;
    struct sr1__spool *spools[INDEX_SECTIONS]; /* of sections that wait */
    const unsigned char *length_codes;         /* [documents], once in_terms */

    int in_terms;
    char term[SR1__TOKEN_MAX_BYTES];
    size_t term_bytes;
    char last_term[SR1__TOKEN_MAX_BYTES];
    size_t last_term_bytes;
    struct sr1__buf entry;

    uint32_t docs[SR1__INDEX_BLOCK]; /* the open block of the open term */
    uint32_t tfs[SR1__INDEX_BLOCK];
    uint32_t count;
    uint32_t df;
    uint32_t n_blocks;
    int64_t last_doc; /* of the block before; -1 */
    size_t group_begin;
    struct sr1__buf blocks;
    struct sr1__buf block_dir;
    struct sr1__buf group_dir;
    struct sr1__impacts group;
    struct sr1__impacts list;
};

static const struct sr1__impacts no_impacts = {255, 0, 255};

/* ---- sections ---- */

static sr1_status put_section(struct sr1__index_writer *w, enum index_section s,
                              const void *bytes, size_t n)
{
    return sr1__section_put(&w->out, s, bytes, n);
}

static sr1_status put_spool(struct sr1__index_writer *w, enum index_section s)
{
    return sr1__section_put_spool(&w->out, s, w->spools[s]);
}

static sr1_status add_to_spool(struct sr1__index_writer *w, enum index_section s,
                               const struct sr1__buf *b)
{
    SR1__TRY(sr1__buf_status(b, "index directory"));
    return sr1__spool_add(w->spools[s], sr1__buf_cstr(b), b->len);
}

/* ---- open and close ---- */

static void index_writer_free(struct sr1__index_writer *w)
{
    for (int i = 0; i < INDEX_SECTIONS; i++)
        sr1__spool_close(w->spools[i]);
    sr1__buf_free(&w->entry);
    sr1__buf_free(&w->blocks);
    sr1__buf_free(&w->block_dir);
    sr1__buf_free(&w->group_dir);
    sr1__free(w);
}

void sr1__index_writer_abort(struct sr1__index_writer *w)
{
    if (w == NULL)
        return;
    sr1__file_writer_abort(w->out.file);
    index_writer_free(w);
}

static sr1_status begin_index_file(struct sr1__index_writer *w, const char *path)
{
    static const enum index_section waiting[] = {SECTION_LENGTHS, SECTION_DOC_DIR,
                                                 SECTION_TERMS, SECTION_TERM_DIR};

    SR1__TRY(sr1__file_writer_open(&w->out.file, path));
    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++)
        SR1__TRY(sr1__spool_open(&w->spools[waiting[i]], path));
    SR1__TRY(sr1__section_header(&w->out, &sr1__bm25_kind));
    return sr1__section_begin(&w->out, SECTION_DOCUMENTS, 8);
}

sr1_status sr1__index_writer_open(struct sr1__index_writer **out, const char *path,
                                  const char *analyzer)
{
    struct sr1__index_writer *w = sr1__calloc(1, sizeof(*w));

    SR1__CHECK_ALLOC(w, "index writer");
    sr1__buf_init(&w->entry, 0);
    sr1__buf_init(&w->blocks, LIST_MAX);
    sr1__buf_init(&w->block_dir, LIST_MAX);
    sr1__buf_init(&w->group_dir, LIST_MAX);
    memcpy(w->meta.analyzer, analyzer, strnlen(analyzer, INDEX_ANALYZER_BYTES - 1));
    w->last_doc = -1;
    w->group = w->list = no_impacts;
    SR1__RETURN_NEW(out, w, begin_index_file(w, path), sr1__index_writer_abort);
}

/* ---- documents ---- */

sr1_status sr1__index_writer_block(struct sr1__index_writer *w,
                                   const struct sr1__doc_block *b)
{
    SR1__TRY(sr1__stored_rows_put(&w->out, SECTION_DOCUMENTS, w->spools[SECTION_DOC_DIR],
                                  b, &w->meta.documents));
    w->meta.total_terms += b->total_terms;
    w->meta.contents_bytes += b->contents_bytes;
    return add_to_spool(w, SECTION_LENGTHS, &b->length_codes);
}

/* ---- postings ---- */

static uint8_t min_length(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

static void widen_impacts(struct sr1__impacts *a, const struct sr1__impacts *b)
{
    a->length1 = min_length(a->length1, b->length1);
    a->tf2 = a->tf2 > b->tf2 ? a->tf2 : b->tf2;
    a->length2 = min_length(a->length2, b->length2);
}

static struct sr1__impacts block_impacts(const struct sr1__index_writer *w)
{
    struct sr1__impacts all = no_impacts;

    for (uint32_t i = 0; i < w->count; i++) {
        uint8_t code = w->length_codes[w->docs[i]];
        struct sr1__impacts one = no_impacts;

        if (w->tfs[i] == 1) {
            one.length1 = code;
        } else {
            one.tf2 = w->tfs[i] < 255 ? (uint8_t)w->tfs[i] : 255;
            one.length2 = code;
        }
        widen_impacts(&all, &one);
    }
    return all;
}

static void pack_block(struct sr1__index_writer *w)
{
    unsigned char packed[SR1__BLOCK_BYTES];
    uint32_t gaps[SR1__INDEX_BLOCK] = {0};
    uint32_t more[SR1__INDEX_BLOCK] = {0};
    int64_t before = w->last_doc;
    uint32_t any = 0;

    for (uint32_t i = 0; i < w->count; i++) {
        gaps[i] = (uint32_t)((int64_t)w->docs[i] - before - 1);
        more[i] = w->tfs[i] - 1;
        any |= more[i];
        before = w->docs[i];
    }
    sr1__buf_add(&w->blocks, packed, sr1__block_pack(gaps, w->count, packed));
    if (any > 0)
        sr1__buf_add(&w->blocks, packed, sr1__block_pack(more, w->count, packed));
}

static void add_impacts(struct sr1__buf *b, const struct sr1__impacts *i)
{
    const uint8_t bytes[INDEX_IMPACTS] = {i->length1, i->tf2, i->length2};

    sr1__buf_add(b, bytes, sizeof(bytes));
}

/* The directory's entry of a group, once its last block is in. */
static void end_group(struct sr1__index_writer *w)
{
    sr1__buf_u32(&w->group_dir, (uint32_t)w->group_begin);
    add_impacts(&w->group_dir, &w->group);
    widen_impacts(&w->list, &w->group);
    w->group = no_impacts;
    w->group_begin = w->blocks.len;
}

static void add_u16(struct sr1__buf *b, size_t v)
{
    sr1__buf_u8(b, (uint8_t)v);
    sr1__buf_u8(b, (uint8_t)(v >> 8));
}

static sr1_status flush_block(struct sr1__index_writer *w)
{
    struct sr1__impacts impacts;

    if (w->count == 0)
        return SR1_OK;
    impacts = block_impacts(w);
    widen_impacts(&w->group, &impacts);
    pack_block(w);
    w->last_doc = w->docs[w->count - 1];
    w->count = 0;
    for (uint32_t i = 0; i < index_last_bytes(w->meta.documents); i++)
        sr1__buf_u8(&w->block_dir, (uint8_t)(w->last_doc >> (8 * i)));
    add_u16(&w->block_dir, w->blocks.len - w->group_begin);
    add_impacts(&w->block_dir, &impacts);
    if (++w->n_blocks % SR1__INDEX_GROUP == 0)
        end_group(w);
    SR1__TRY(sr1__buf_status(&w->block_dir, "directory of postings"));
    SR1__TRY(sr1__buf_status(&w->group_dir, "directory of postings"));
    return sr1__buf_status(&w->blocks, "postings");
}

/* ---- terms ---- */

static void add_index_varint(struct sr1__buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        sr1__buf_u8(b, (uint8_t)(v | 0x80));
    sr1__buf_u8(b, (uint8_t)v);
}

static void add_lengths(struct sr1__buf *b, size_t shared, size_t suffix)
{
    size_t high = shared < INDEX_NIBBLE ? shared : INDEX_NIBBLE;
    size_t low = suffix < INDEX_NIBBLE ? suffix : INDEX_NIBBLE;

    sr1__buf_u8(b, (uint8_t)(high << 4 | low));
    if (high == INDEX_NIBBLE)
        add_index_varint(b, shared - INDEX_NIBBLE);
    if (low == INDEX_NIBBLE)
        add_index_varint(b, suffix - INDEX_NIBBLE);
}

static sr1_status add_term_block(struct sr1__index_writer *w, uint64_t offset)
{
    sr1__buf_clear(&w->entry);
    sr1__buf_u64(&w->entry, sr1__spool_size(w->spools[SECTION_TERMS]));
    sr1__buf_u64(&w->entry, offset);
    return add_to_spool(w, SECTION_TERM_DIR, &w->entry);
}

/* The dictionary's entry of the term just ended, whose postings begin at `offset`. */
static sr1_status add_entry(struct sr1__index_writer *w, uint64_t offset, uint64_t size)
{
    size_t shared = 0;

    if (w->meta.terms % INDEX_TERM_BLOCK == 0) {
        SR1__TRY(add_term_block(w, offset));
    } else {
        while (shared < w->term_bytes && shared < w->last_term_bytes &&
               w->term[shared] == w->last_term[shared])
            shared++;
    }
    sr1__buf_clear(&w->entry);
    add_lengths(&w->entry, shared, w->term_bytes - shared);
    sr1__buf_add(&w->entry, w->term + shared, w->term_bytes - shared);
    add_index_varint(&w->entry, w->df);
    add_index_varint(&w->entry, size);
    memcpy(w->last_term, w->term, w->term_bytes);
    w->last_term_bytes = w->term_bytes;
    w->meta.terms++;
    w->meta.postings += w->df;
    return add_to_spool(w, SECTION_TERMS, &w->entry);
}

static sr1_status put_posting_list(struct sr1__index_writer *w)
{
    const struct sr1__impacts *i = &w->list;
    const uint8_t impacts[INDEX_IMPACTS] = {i->length1, i->tf2, i->length2};

    if (w->n_blocks > 1) {
        SR1__TRY(put_section(w, SECTION_POSTINGS, impacts, sizeof(impacts)));
        if (w->n_blocks > SR1__INDEX_GROUP)
            SR1__TRY(
                put_section(w, SECTION_POSTINGS, w->group_dir.data, w->group_dir.len));
        SR1__TRY(put_section(w, SECTION_POSTINGS, w->block_dir.data, w->block_dir.len));
    }
    return put_section(w, SECTION_POSTINGS, w->blocks.data, w->blocks.len);
}

static sr1_status end_term(struct sr1__index_writer *w)
{
    uint64_t begin = w->out.places[SECTION_POSTINGS].size;

    if (w->df == 0)
        return SR1_OK;
    SR1__TRY(flush_block(w));
    if (w->n_blocks % SR1__INDEX_GROUP != 0)
        end_group(w);
    SR1__TRY(sr1__buf_status(&w->group_dir, "directory of postings"));
    SR1__TRY(put_posting_list(w));
    SR1__TRY(add_entry(w, begin, w->out.places[SECTION_POSTINGS].size - begin));
    sr1__buf_clear(&w->blocks);
    sr1__buf_clear(&w->block_dir);
    sr1__buf_clear(&w->group_dir);
    w->group = w->list = no_impacts;
    w->group_begin = 0;
    w->n_blocks = 0;
    w->df = 0;
    w->last_doc = -1;
    return SR1_OK;
}

static sr1_status begin_terms(struct sr1__index_writer *w)
{
    SR1__TRY(put_spool(w, SECTION_LENGTHS));
    SR1__TRY(sr1__spool_map(w->spools[SECTION_LENGTHS], &w->length_codes));
    w->in_terms = 1;
    return sr1__section_begin(&w->out, SECTION_POSTINGS, 8);
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
    status = sr1__section_footer(&w->out, &sr1__bm25_kind, &b);
    sr1__buf_free(&b);
    return status;
}

static sr1_status finish_index(struct sr1__index_writer *w)
{
    static const char padding[INDEX_PADDING];

    if (!w->in_terms)
        SR1__TRY(begin_terms(w));
    SR1__TRY(end_term(w));
    SR1__TRY(put_section(w, SECTION_POSTINGS, padding, sizeof(padding)));
    SR1__TRY(put_spool(w, SECTION_DOC_DIR));
    SR1__TRY(put_spool(w, SECTION_TERMS));
    SR1__TRY(put_spool(w, SECTION_TERM_DIR));
    return write_footer(w);
}

sr1_status sr1__index_writer_commit(struct sr1__index_writer *w)
{
    sr1_status status = finish_index(w);

    if (status == SR1_OK)
        status = sr1__file_writer_commit(w->out.file);
    else
        sr1__file_writer_abort(w->out.file);
    index_writer_free(w);
    return status;
}
