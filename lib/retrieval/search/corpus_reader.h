/* retrieval/search/corpus_reader.h - a corpus file cut into items of whole rows. */
#ifndef SR1__SEARCH_CORPUS_READER_H
#define SR1__SEARCH_CORPUS_READER_H

#include "retrieval/search/build_item.h"

struct sr1__corpus_reader;

/* The file may be compressed (base/source.h). */
sr1_status sr1__corpus_reader_open(struct sr1__corpus_reader **out, const char *path);
void sr1__corpus_reader_free(struct sr1__corpus_reader *r); /* NULL is fine */
/* Fill the item (initialised) with the next rows, blank lines left out: 8 blocks of
 * documents. *ended: there are no more; the item may hold rows even then. */
sr1_status sr1__corpus_reader_next(struct sr1__corpus_reader *r,
                                   struct sr1__build_item *item, int *ended);
/* Bytes of the file, as it was opened, and of those bytes how many the rows came from. */
uint64_t sr1__corpus_reader_total(const struct sr1__corpus_reader *r);
uint64_t sr1__corpus_reader_done(const struct sr1__corpus_reader *r);

#endif
