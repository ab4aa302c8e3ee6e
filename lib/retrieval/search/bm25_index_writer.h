/* retrieval/search/bm25_index_writer.h - write an index file from documents in order,
 * then terms in order.
 *
 * The writer holds one term's postings in memory; directories, lengths and the dictionary
 * wait on disk. Blocks of documents are made apart from it, by any thread. */
#ifndef SR1__SEARCH_BM25_INDEX_WRITER_H
#define SR1__SEARCH_BM25_INDEX_WRITER_H

#include "base/buf.h"

struct sr1__index_writer;

sr1_status sr1__index_writer_open(struct sr1__index_writer **out, const char *path,
                                  const char *analyzer);

/* Rows of neighbouring documents, compressed together. */
struct sr1__doc_block {
    struct sr1__buf packed;       /* a frame of the documents section */
    struct sr1__buf length_codes; /* [documents] */
    uint32_t documents;
    uint32_t raw; /* bytes of the frame when unpacked */
    uint64_t total_terms;
    uint64_t contents_bytes;
};
void sr1__doc_block_init(struct sr1__doc_block *b);
void sr1__doc_block_free(struct sr1__doc_block *b);

struct sr1__row_packer;
sr1_status sr1__row_packer_new(struct sr1__row_packer **out, int32_t zstd_level);
void sr1__row_packer_free(struct sr1__row_packer *p);
/* The next document: its row as stored, its length in tokens, the bytes of text indexed.
 */
sr1_status sr1__row_packer_add(struct sr1__row_packer *p, const char *row, size_t n,
                               uint32_t length, size_t contents_bytes);
/* Make *out (initialised; its memory is used again) of what was added; start afresh. */
sr1_status sr1__row_packer_finish(struct sr1__row_packer *p, struct sr1__doc_block *out);

sr1_status sr1__index_writer_block(struct sr1__index_writer *w,
                                   const struct sr1__doc_block *b);

/* After the last document: the next term, in byte order, then its postings, by document.
 */
sr1_status sr1__index_writer_term(struct sr1__index_writer *w, const char *term,
                                  size_t n);
sr1_status sr1__index_writer_posting(struct sr1__index_writer *w, uint32_t doc,
                                     uint32_t tf);

/* Finish and put the file in place; frees w in any case. */
sr1_status sr1__index_writer_commit(struct sr1__index_writer *w);
/* Give up; the old file stands. NULL is fine. */
void sr1__index_writer_abort(struct sr1__index_writer *w);

#endif
