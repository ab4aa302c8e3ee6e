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
 *   doc_dir    a frame: end:u64 in documents, docs_end:u32 (document after), raw:u32
 *   lengths    a byte a document: Lucene's code of its length
 *   postings   the terms' postings one after the other, then 8 bytes of padding
 *   terms      blocks of 16 terms in byte order, a term: varint shared prefix (0 for the
 *              first), varint suffix length, suffix, varint df, varint bytes of postings
 *   term_dir   a block: offset:u64 in terms, offset:u64 of its first term in postings
 *
 * Postings of a term are blocks of 128 documents and a shorter last one. One block stands
 * alone; more are preceded by the term's impacts[8] and a directory with, for each block,
 * last document:u32, end:u32 counted from the first block, impacts[8]. A full block is
 * gap width:u8, tf width:u8, then 128 gaps - 1 and 128 tf - 1 packed in that many bits; a
 * shorter one holds, for each document, varint (gap - 1) * 2 + (tf == 1), and where
 * tf > 1 varint tf - 2. The document before the first is -1.
 *
 * Impacts are 4 pairs (largest tf, smallest length code) over the postings with tf 1, 2,
 * 3 to 4, and 5 or more; tf 0: there are none; tf 255: 255 or more. For any k1 and b the
 * best of the 4 scores is an upper bound of the block's. */
#ifndef SR1__SEARCH_INDEX_FORMAT_H
#define SR1__SEARCH_INDEX_FORMAT_H

#include "base/buf.h"
#include "search/index.h"

#include <string.h>

#define INDEX_MAGIC "SR1BM25\n"
#define INDEX_VERSION 1
#define INDEX_HEADER_BYTES 16
#define INDEX_ANALYZER_BYTES 32
#define INDEX_SECTIONS 6
#define INDEX_COUNTS 5
/* counts, analyser, (offset, size, checksum) a section, checksum, magic */
#define INDEX_FOOTER_BYTES                                                               \
    (INDEX_COUNTS * 8 + INDEX_ANALYZER_BYTES + INDEX_SECTIONS * 24 + 8 + 8)
#define INDEX_TERM_BLOCK 16
#define INDEX_DIR_ENTRY 16 /* of doc_dir, term_dir, and a term's blocks */
#define INDEX_PADDING 8
#define INDEX_DOC_BLOCK ((size_t)64 << 10)
#define INDEX_ROW_MAX ((size_t)16 << 20)
#define INDEX_RAW_MAX (INDEX_DOC_BLOCK + 2 * INDEX_ROW_MAX)

enum index_section {
    SECTION_DOCUMENTS,
    SECTION_DOC_DIR,
    SECTION_LENGTHS,
    SECTION_POSTINGS,
    SECTION_TERMS,
    SECTION_TERM_DIR,
};

static inline uint32_t index_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static inline uint64_t index_u64(const unsigned char *p)
{
    return (uint64_t)index_u32(p) | (uint64_t)index_u32(p + 4) << 32;
}

static inline int impact_bucket(uint32_t tf)
{
    return tf <= 2 ? (int)tf - 1 : tf <= 4 ? 2 : 3;
}

/* Of the sections that an open reads whole. Eight bytes a step: a mixing of FNV's kind.
 */
static inline uint64_t index_checksum(const unsigned char *p, size_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ n;

    for (; n >= 8; n -= 8, p += 8) {
        h = (h ^ index_u64(p)) * 0xFF51AFD7ED558CCDu;
        h ^= h >> 32;
    }
    for (; n > 0; n--, p++)
        h = (h ^ *p) * 0x100000001B3u;
    return h ^ h >> 29;
}

#endif
