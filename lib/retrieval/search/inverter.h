/* retrieval/search/inverter.h - the postings of a batch of documents, by term: what one
 * thread of a build makes of its share of the corpus. */
#ifndef SR1__SEARCH_INVERTER_H
#define SR1__SEARCH_INVERTER_H

#include "retrieval/search/analyze.h"

/* Postings as bytes: varint (gap * 2 + (tf == 1)), and where tf > 1 varint (tf - 2); gaps
 * count from the document after the one before. */
#define SR1__POSTING_BYTES 10 /* at most */
unsigned char *sr1__posting_put(unsigned char *p, uint32_t gap, uint32_t tf);
const unsigned char *sr1__posting_get(const unsigned char *p, uint32_t *gap,
                                      uint32_t *tf);

/* One term of a batch. */
struct sr1__inverted_term {
    size_t text; /* in batch.text, n bytes */
    uint32_t n;
    uint32_t hash;
    uint32_t first; /* document, counted in the batch */
    uint32_t last;
    uint32_t tf;  /* in the first document */
    size_t bytes; /* in batch.postings: those after the first */
    size_t size;
};

struct sr1__inverted_batch {
    struct sr1__inverted_term *terms; /* by first occurrence */
    size_t n_terms;
    size_t capacity;
    struct sr1__buf text;
    struct sr1__buf postings;
};
void sr1__inverted_batch_init(struct sr1__inverted_batch *b);
void sr1__inverted_batch_free(struct sr1__inverted_batch *b);

/* Documents in, one after the other, then the batch out. The inverter remembers what
 * words became of earlier batches: analysis is asked once for most. */
struct sr1__inverter;
sr1_status sr1__inverter_new(struct sr1__inverter **out,
                             const struct sr1__analyzer *analyzer);
void sr1__inverter_free(struct sr1__inverter *v);
/* *length: the document's tokens. */
sr1_status sr1__inverter_add(struct sr1__inverter *v, const char *text, size_t n,
                             uint32_t *length);
/* Fill *out (initialised; its memory is used again) and start afresh. */
sr1_status sr1__inverter_finish(struct sr1__inverter *v, struct sr1__inverted_batch *out);

#endif
