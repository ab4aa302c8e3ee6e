/* search/index_writer.h - write an index file from documents in order, then terms in
 * order.
 *
 * What is fed in may come from memory or from merged runs on disk: the writer holds only
 * a byte a document, the dictionary, and one term's postings. */
#ifndef SR1__SEARCH_INDEX_WRITER_H
#define SR1__SEARCH_INDEX_WRITER_H

#include "base/error.h"

struct sr1__index_writer;

sr1_status sr1__index_writer_open(struct sr1__index_writer **out, const char *path,
                                  const char *analyzer, int32_t zstd_level);

/* The next document: its row as stored, its length in tokens, the bytes of text indexed.
 */
sr1_status sr1__index_writer_document(struct sr1__index_writer *w, const char *row,
                                      size_t n, uint32_t length, size_t contents_bytes);

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
