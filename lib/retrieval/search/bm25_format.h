/* retrieval/search/bm25_format.h - the layout of a BM25 index, shared by reader and
 * writer only: a file of sections (sections.h) whose footer begins with counts and
 * analyser.
 *
 * documents, doc_dir the rows (stored_rows.h) lengths    a byte a document: Lucene's code
 * of its length postings   the terms' postings one after the other, then 16 bytes of
 * padding terms      blocks of 32 terms in byte order, a term: a byte with two lengths,
 * what it
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
 *   last:u24 end:u16 impacts[3]         for each block: its last document (u32 where
 * there are more than 2^24 documents), its end counted from the beginning of its group
 *
 * A block is its gaps (document - document before - 1; the one before the first is -1),
 * then, unless all are 0, its tf - 1, each as block_codec.h packs numbers.
 *
 * Impacts bound what a posting can score: the smallest length code of the postings with
 * tf 1 (255: none, or as long as that), the largest tf from 2 on (0: none; 255: 255 or
 * more) and the smallest length code of those. For any k1 and b the better of the 2
 * scores is an upper bound. */
#ifndef SR1__SEARCH_BM25_FORMAT_H
#define SR1__SEARCH_BM25_FORMAT_H

#include "retrieval/search/bm25_index.h"
#include "retrieval/search/sections.h"

#define INDEX_MAGIC "SR1BM25\n"
#define INDEX_VERSION 2
#define INDEX_ANALYZER_BYTES 32
#define INDEX_SECTIONS 6
#define INDEX_COUNTS 5
#define INDEX_COUNTS_BYTES (INDEX_COUNTS * 8 + INDEX_ANALYZER_BYTES)
#define INDEX_TERM_BLOCK 32
#define INDEX_DIR_ENTRY 16 /* of term_dir */
#define INDEX_IMPACTS 3
#define INDEX_GROUP_ENTRY 7
#define INDEX_BLOCK_ENTRY(last_bytes) ((last_bytes) + 5)
#define INDEX_NIBBLE 15 /* or more */
#define INDEX_PADDING 16

enum index_section {
    SECTION_DOCUMENTS,
    SECTION_LENGTHS,
    SECTION_POSTINGS,
    SECTION_DOC_DIR,
    SECTION_TERMS,
    SECTION_TERM_DIR,
};

/* Bytes of a document's number in a directory of blocks. */
static inline uint32_t index_last_bytes(uint64_t documents)
{
    return documents <= (uint64_t)1 << 24 ? 3 : 4;
}

#endif
