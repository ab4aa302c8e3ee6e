/* search/index_format.h - the layout of an index file, shared by reader and writer only.
 *
 *     header    magic[8] version:u32 0:u32
 *     sections  each begins at a multiple of 8
 *     footer    counts, analyser, section table, checksum, magic[8]; fixed size
 *
 * All integers are little-endian. Sections:
 *
 *   documents  zstd frames, each of whole rows up to about 64 KiB: for its documents the
 *              varint length of each row, then the rows
 *   lengths    a byte a document: Lucene's code of its length
 *   postings   the terms' postings one after the other, then 16 bytes of padding
 *   doc_dir    a frame: end:u64 in documents, docs_end:u32 (document after), raw:u32
 *   terms      blocks of 32 terms in byte order, a term: a byte with two lengths, what it
 *              shares with the term before (0 for the first) in the upper 4 bits, what it
 *              adds in the lower; 15 stands for 15 or more, with a varint of the excess
 *              behind; then the bytes it adds, varint df, varint bytes of postings
 *   term_dir   a block: offset:u64 in terms, offset:u64 of its first term in postings
 *
 * Postings of a term are blocks of 128 documents and a shorter last one. One block stands
 * alone; more are preceded by
 *
 *   impacts[3]                          of the whole list
 *   offset:u32 impacts[3]               for each group of 32 blocks, where there is more
 *                                       than one: where it begins, counted from the first
 *                                       block, and its impacts
 *   last:u32 end:u16 impacts[3]         for each block: its last document, its end
 * counted from the beginning of its group
 *
 * A block is its gaps (document - document before - 1; the one before the first is -1),
 * then, unless all are 0, its tf - 1, each as block_codec.h packs numbers.
 *
 * Impacts bound what a posting can score: the smallest length code of the postings with
 * tf 1 (255: none, or as long as that), the largest tf from 2 on (0: none; 255: 255 or
 * more) and the smallest length code of those. For any k1 and b the better of the 2
 * scores is an upper bound. */
#ifndef SR1__SEARCH_INDEX_FORMAT_H
#define SR1__SEARCH_INDEX_FORMAT_H

#include "base/buf.h"
#include "search/index.h"

#include <string.h>

#define INDEX_MAGIC "SR1BM25\n"
#define INDEX_VERSION 2
#define INDEX_HEADER_BYTES 16
#define INDEX_ANALYZER_BYTES 32
#define INDEX_SECTIONS 6
#define INDEX_COUNTS 5
/* counts, analyser, (offset, size, checksum) a section, checksum, magic */
#define INDEX_FOOTER_BYTES                                                               \
    (INDEX_COUNTS * 8 + INDEX_ANALYZER_BYTES + INDEX_SECTIONS * 24 + 8 + 8)
#define INDEX_TERM_BLOCK 32
#define INDEX_DIR_ENTRY 16 /* of doc_dir and term_dir */
#define INDEX_IMPACTS 3
#define INDEX_GROUP_ENTRY 7
#define INDEX_BLOCK_ENTRY(last_bytes) ((last_bytes) + 5)
#define INDEX_NIBBLE 15 /* or more */
#define INDEX_PADDING 16
#define INDEX_DOC_BLOCK ((size_t)64 << 10)
#define INDEX_ROW_MAX ((size_t)16 << 20)
#define INDEX_RAW_MAX (4 * INDEX_DOC_BLOCK + 2 * INDEX_ROW_MAX) /* of a frame */

enum index_section {
    SECTION_DOCUMENTS,
    SECTION_LENGTHS,
    SECTION_POSTINGS,
    SECTION_DOC_DIR,
    SECTION_TERMS,
    SECTION_TERM_DIR,
};

static inline uint32_t index_u16(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t index_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static inline uint32_t index_u24(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

/* Bytes of a document's number in a directory of blocks. */
static inline uint32_t index_last_bytes(uint64_t documents)
{
    return documents <= (uint64_t)1 << 24 ? 3 : 4;
}

static inline uint64_t index_u64(const unsigned char *p)
{
    return (uint64_t)index_u32(p) | (uint64_t)index_u32(p + 4) << 32;
}

/* A checksum taken in pieces. Eight bytes a step: a mixing of FNV's kind. */
struct index_sum {
    uint64_t h;
    uint64_t n;
    unsigned char rest[8]; /* [n % 8] */
};

static inline void index_sum_add(struct index_sum *s, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t have = (size_t)(s->n % 8);

    if (n == 0)
        return;
    s->n += n;
    if (have > 0) {
        size_t take = n < 8 - have ? n : 8 - have;

        memcpy(s->rest + have, p, take);
        p += take;
        n -= take;
        if (have + take < 8)
            return;
        s->h = (s->h ^ index_u64(s->rest)) * 0xFF51AFD7ED558CCDu;
        s->h ^= s->h >> 32;
    }
    for (; n >= 8; n -= 8, p += 8) {
        s->h = (s->h ^ index_u64(p)) * 0xFF51AFD7ED558CCDu;
        s->h ^= s->h >> 32;
    }
    if (n > 0)
        memcpy(s->rest, p, n);
}

static inline uint64_t index_sum_end(const struct index_sum *s)
{
    uint64_t h = s->h ^ 0x9E3779B97F4A7C15u ^ s->n;

    for (size_t i = 0; i < s->n % 8; i++)
        h = (h ^ s->rest[i]) * 0x100000001B3u;
    h = (h ^ h >> 29) * 0xFF51AFD7ED558CCDu;
    return h ^ h >> 32;
}

#endif
