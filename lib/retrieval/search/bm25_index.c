/* retrieval/search/bm25_index.c - open an index file, check it, find terms and stored
 * rows. */
#include "retrieval/search/bm25_index.h"

#include "base/mem.h"
#include "retrieval/search/analyze.h"
#include "retrieval/search/bm25_format.h"

struct sr1__index {
    struct sr1__map map; /* of a file; empty when the bytes are the caller's */
    struct sr1__section sections[INDEX_SECTIONS];
    struct sr1__index_meta meta;
    struct sr1__stored_rows rows;
    size_t n_term_blocks;
};

const struct sr1__index_kind sr1__bm25_kind = {INDEX_MAGIC, "BM25 index", INDEX_VERSION,
                                               INDEX_COUNTS_BYTES, INDEX_SECTIONS};

/* ---- lengths ---- */

#define LENGTH_FREE 24 /* lengths that the 4-bit float leaves room for */

uint8_t sr1__length_encode(uint32_t length)
{
    uint32_t j;
    uint32_t shift = 0;

    if (length < LENGTH_FREE)
        return (uint8_t)length;
    j = length - LENGTH_FREE;
    if (j > INT32_MAX - LENGTH_FREE)
        j = INT32_MAX - LENGTH_FREE;
    if (j < 16)
        return (uint8_t)(LENGTH_FREE + j);
    while (j >> shift >= 16)
        shift++;
    return (uint8_t)(LENGTH_FREE + ((j >> shift & 7) | (shift + 1) << 3));
}

uint32_t sr1__length_decode(uint8_t code)
{
    uint32_t j;
    uint32_t exponent;

    if (code < LENGTH_FREE + 16)
        return code;
    j = (uint32_t)code - LENGTH_FREE;
    exponent = j >> 3;
    return LENGTH_FREE + (((j & 7) | 8) << (exponent - 1));
}

/* ---- open ---- */

static sr1_status read_bm25_counts(struct sr1__index *ix, const unsigned char *counts)
{
    struct sr1__index_meta *m = &ix->meta;
    struct sr1__reader r;

    sr1__reader_init(&r, counts, INDEX_COUNTS_BYTES);
    m->documents = sr1__read_u64(&r);
    m->terms = sr1__read_u64(&r);
    m->total_terms = sr1__read_u64(&r);
    m->postings = sr1__read_u64(&r);
    m->contents_bytes = sr1__read_u64(&r);
    memcpy(m->analyzer, sr1__read_bytes(&r, INDEX_ANALYZER_BYTES), INDEX_ANALYZER_BYTES);
    if (m->analyzer[INDEX_ANALYZER_BYTES - 1] != '\0' || m->documents < 1 ||
        m->documents > INT32_MAX || m->terms > UINT32_MAX)
        return sr1__index_corrupt("its counts are out of range");
    return SR1_OK;
}

/* Sizes only: entries are checked where they are used. */
static sr1_status check_bm25_sizes(struct sr1__index *ix)
{
    size_t term_dir = ix->sections[SECTION_TERM_DIR].size;

    ix->n_term_blocks = term_dir / INDEX_DIR_ENTRY;
    if (ix->sections[SECTION_LENGTHS].size != ix->meta.documents ||
        ix->sections[SECTION_POSTINGS].size < INDEX_PADDING ||
        term_dir % INDEX_DIR_ENTRY != 0 ||
        ix->n_term_blocks != (ix->meta.terms + INDEX_TERM_BLOCK - 1) / INDEX_TERM_BLOCK)
        return sr1__index_corrupt("a section has a wrong size");
    return sr1__stored_rows_init(&ix->rows, &ix->sections[SECTION_DOCUMENTS],
                                 &ix->sections[SECTION_DOC_DIR]);
}

static sr1_status check_bm25_index(struct sr1__index *ix, const unsigned char *bytes,
                                   size_t n)
{
    struct sr1__index_meta *m = &ix->meta;
    const unsigned char *counts = NULL;

    SR1__TRY(sr1__sections_open(&sr1__bm25_kind, bytes, n, ix->sections, &counts));
    SR1__TRY(read_bm25_counts(ix, counts));
    SR1__TRY(check_bm25_sizes(ix));
    m->file_bytes = n;
    m->documents_bytes =
        ix->sections[SECTION_DOCUMENTS].size + ix->sections[SECTION_DOC_DIR].size;
    m->search_bytes = n - m->documents_bytes;
    return SR1_OK;
}

sr1_status sr1__index_open_memory(struct sr1__index **out, const void *bytes, size_t n)
{
    struct sr1__index *ix = sr1__calloc(1, sizeof(*ix));

    SR1__CHECK_ALLOC(ix, "index");
    SR1__RETURN_NEW(out, ix, check_bm25_index(ix, bytes, n), sr1__free);
}

sr1_status sr1__index_open(struct sr1__index **out, const char *path)
{
    struct sr1__index *ix = NULL;
    struct sr1__map map;
    sr1_status status;

    SR1__TRY(sr1__sections_map(&map, &sr1__bm25_kind, path));
    status = sr1__map_blame(&map, sr1__index_open_memory(&ix, map.data, map.size));
    if (status != SR1_OK) {
        sr1__map_close(&map);
        return sr1__context(status, "%s", path);
    }
    ix->map = map;
    *out = ix;
    return SR1_OK;
}

void sr1__index_close(struct sr1__index *ix)
{
    if (ix == NULL)
        return;
    sr1__map_close(&ix->map);
    sr1__free(ix);
}

sr1_status sr1__index_verify(const struct sr1__index *ix)
{
    static const char *const names[INDEX_SECTIONS] = {
        "documents", "lengths",           "postings", "directory of documents",
        "terms",     "directory of terms"};

    return sr1__index_check_changed(
        ix, sr1__sections_verify(ix->sections, names, INDEX_SECTIONS));
}

sr1_status sr1__index_check_changed(const struct sr1__index *ix, sr1_status status)
{
    return sr1__map_blame(&ix->map, status);
}

const struct sr1__index_meta *sr1__index_meta(const struct sr1__index *ix)
{
    return &ix->meta;
}

const struct sr1__stored_rows *sr1__index_rows(const struct sr1__index *ix)
{
    return &ix->rows;
}

const uint8_t *sr1__index_length_codes(const struct sr1__index *ix)
{
    return ix->sections[SECTION_LENGTHS].p;
}

/* ---- terms ---- */

/* A term as it stands in its block: what it adds to the one before. */
struct term_entry {
    size_t shared; /* bytes of the term before that it begins with */
    const char *added;
    size_t n_added;
    uint64_t df;
    uint64_t size;
};

static void read_lengths(struct sr1__reader *r, uint64_t *shared, uint64_t *suffix)
{
    uint8_t both = index_byte(r);

    *shared = both >> 4;
    *suffix = both & INDEX_NIBBLE;
    if (*shared == INDEX_NIBBLE)
        *shared += sr1__index_varint(r);
    if (*suffix == INDEX_NIBBLE)
        *suffix += sr1__index_varint(r);
}

/* Turn the entry before into the next one. */
static sr1_status next_entry(struct sr1__reader *r, struct term_entry *e)
{
    uint64_t shared;
    uint64_t added;

    read_lengths(r, &shared, &added);
    if (shared > e->shared + e->n_added || added > SR1__TOKEN_MAX_BYTES - shared)
        return sr1__index_corrupt("a term is too long");
    e->added = sr1__read_bytes(r, (size_t)added);
    e->shared = (size_t)shared;
    e->n_added = (size_t)added;
    e->df = sr1__index_varint(r);
    e->size = sr1__index_varint(r);
    return r->failed ? sr1__index_corrupt("a term is cut short") : SR1_OK;
}

static int compare_terms(const char *a, size_t na, const char *b, size_t nb)
{
    int c = memcmp(a, b, na < nb ? na : nb);

    return c != 0 ? c : na < nb ? -1 : na > nb;
}

/* The same of an entry and the term. *alike: bytes that the entry before, which is below
 * the term, has in common with it; then those of this entry. */
static int compare_entry(const struct term_entry *e, const char *term, size_t n,
                         size_t *alike)
{
    size_t begin = *alike;
    size_t most = e->n_added < n - begin ? e->n_added : n - begin;
    size_t i = 0;

    if (e->shared != begin)
        return e->shared > begin ? -1 : 1;
    while (i < most && e->added[i] == term[begin + i])
        i++;
    *alike = begin + i;
    return compare_terms(e->added + i, e->n_added - i, term + *alike, n - *alike);
}

/* An offset out of range gives a reader of nothing. */
static void block_reader(const struct sr1__index *ix, size_t block, struct sr1__reader *r)
{
    const struct sr1__section *terms = &ix->sections[SECTION_TERMS];
    uint64_t offset =
        index_u64(ix->sections[SECTION_TERM_DIR].p + block * INDEX_DIR_ENTRY);

    if (offset > terms->size)
        offset = terms->size;
    sr1__reader_init(r, terms->p + offset, terms->size - (size_t)offset);
}

/* The last block whose first term is <= the term; 0 when there is none. */
static sr1_status find_term_block(const struct sr1__index *ix, const char *term, size_t n,
                                  size_t *out)
{
    size_t low = 0;
    size_t high = ix->n_term_blocks;

    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        struct sr1__reader r;
        const char *first;
        uint64_t shared;
        uint64_t size;

        block_reader(ix, mid, &r);
        read_lengths(&r, &shared, &size);
        first = sr1__read_bytes(&r, (size_t)size);
        if (r.failed)
            return sr1__index_corrupt("a term is cut short");
        if (compare_terms(first, (size_t)size, term, n) <= 0)
            low = mid;
        else
            high = mid;
    }
    *out = low;
    return SR1_OK;
}

static sr1_status set_term(const struct sr1__index *ix, const struct term_entry *e,
                           uint64_t offset, struct sr1__index_term *out)
{
    const struct sr1__section *s = &ix->sections[SECTION_POSTINGS];
    uint64_t limit = s->size - INDEX_PADDING;

    if (e->df < 1 || e->df > ix->meta.documents || offset > limit ||
        e->size > limit - offset)
        return sr1__index_corrupt("a term's postings lie outside their section");
    out->df = (uint32_t)e->df;
    out->bytes = s->p + offset;
    out->size = (size_t)e->size;
    return SR1_OK;
}

sr1_status sr1__index_find(const struct sr1__index *ix, const char *term, size_t n,
                           struct sr1__index_term *out)
{
    struct sr1__index_term none = {0, NULL, 0};
    struct term_entry e = {0};
    struct sr1__reader r;
    uint64_t offset;
    size_t alike = 0;
    size_t block = 0;
    size_t left;

    *out = none;
    if (ix->n_term_blocks == 0)
        return SR1_OK;
    SR1__TRY(find_term_block(ix, term, n, &block));
    block_reader(ix, block, &r);
    offset = index_u64(ix->sections[SECTION_TERM_DIR].p + block * INDEX_DIR_ENTRY + 8);
    left = (size_t)ix->meta.terms - block * INDEX_TERM_BLOCK;
    for (size_t i = 0; i < left && i < INDEX_TERM_BLOCK; i++) {
        int c;

        SR1__TRY(next_entry(&r, &e));
        c = compare_entry(&e, term, n, &alike);
        if (c == 0)
            return set_term(ix, &e, offset, out);
        if (c > 0)
            return SR1_OK;
        if (e.size > ix->sections[SECTION_POSTINGS].size)
            return sr1__index_corrupt("a term's postings lie outside their section");
        offset += e.size;
    }
    return SR1_OK;
}
