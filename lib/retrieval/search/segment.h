/* retrieval/search/segment.h - postings in memory, by term, of a range of documents; and
 * on disk.
 *
 * Batches are added in document order. When the memory allowed is used up the segment is
 * written to a spool as a run, sorted by term, and begins anew; at the end the runs are
 * merged. Runs follow each other in document order, so a term's postings in the index are
 * those of its runs one after the other, and do not depend on how many runs there were.
 *
 * A run is a record a term: varint bytes of the term, the term, varint bytes of its
 * postings, the postings (inverter.h; the first gap counts from document 0). */
#ifndef SR1__SEARCH_SEGMENT_H
#define SR1__SEARCH_SEGMENT_H

#include "retrieval/search/inverter.h"
#include "retrieval/search/spool.h"

struct sr1__segment;

sr1_status sr1__segment_new(struct sr1__segment **out);
void sr1__segment_free(struct sr1__segment *s);
/* base: number of the batch's first document. */
sr1_status sr1__segment_add(struct sr1__segment *s, const struct sr1__inverted_batch *b,
                            uint32_t base);
/* Memory in use, with what a spill takes besides. */
uint64_t sr1__segment_bytes(const struct sr1__segment *s);
/* Append the terms, sorted, to a spool, and empty the segment. */
sr1_status sr1__segment_spill(struct sr1__segment *s, struct sr1__spool *out);

/* Who gets the merged terms, in byte order, each with its postings by document. */
struct sr1__term_sink {
    sr1_status (*term)(void *self, const char *text, size_t n);
    sr1_status (*posting)(void *self, uint32_t doc, uint32_t tf);
    void *self;
};

/* Merge n runs, all finished, in document order; buffers of memory bytes in all. */
sr1_status sr1__runs_merge(struct sr1__spool *const *runs, size_t n, size_t memory,
                           const struct sr1__term_sink *sink);
/* The same into one run. */
sr1_status sr1__runs_join(struct sr1__spool *const *runs, size_t n, size_t memory,
                          struct sr1__spool *out);

#endif
