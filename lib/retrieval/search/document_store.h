/* retrieval/search/document_store.h - the documents of a corpus by the number of their
 * row, for engines that find numbers: from a BM25 or dense index of ours, or from the
 * corpus itself.
 *
 * Of a corpus (JSON lines, as sr1_bm25_build reads it) the rows' offsets are found by one
 * scan and kept in CORPUS.offsets beside it, which is made again when the corpus has
 * another size or time stamp. Memory does not grow with the corpus: both are mapped. */
#ifndef SR1__SEARCH_DOCUMENT_STORE_H
#define SR1__SEARCH_DOCUMENT_STORE_H

#include "retrieval/search/doc_cache.h"

struct sr1__document_store;

/* The first bytes of the file decide its kind (BM25 index, dense index, JSON lines). */
sr1_status sr1__document_store_open(struct sr1__document_store **out, const char *path);
void sr1__document_store_close(struct sr1__document_store *d); /* NULL is fine */
uint64_t sr1__document_store_count(const struct sr1__document_store *d);
/* A reference to the document of a row (0-based), to be given back with
 * sr1__doc_release. From any thread. SR1_E_NOT_FOUND past the last, SR1_E_PARSE or
 * _CORRUPT for a row that is no document. */
sr1_status sr1__document_store_get(struct sr1__document_store *d, uint64_t row,
                                   struct sr1__doc **out);

#endif
