/* retrieval/search/doc_cache.h - documents of an index, unpacked and taken apart, by
 * their number; those that were not used lately leave first. */
#ifndef SR1__SEARCH_DOC_CACHE_H
#define SR1__SEARCH_DOC_CACHE_H

#include "base/error.h"

/* Counted and read-only. The texts are valid UTF-8. */
struct sr1__doc;

/* Copies. row is the document's JSON object. U+0000 within contents or row becomes
 * U+FFFD, for a C string cannot hold it. */
sr1_status sr1__doc_new(struct sr1__doc **out, uint32_t number, const char *id,
                        const char *contents, size_t contents_size, const char *row,
                        size_t row_size);
/* The same from the row alone, its id a string or a whole number: SR1_E_PARSE where it is
 * not JSON with id and contents. */
sr1_status sr1__doc_parse(struct sr1__doc **out, uint32_t number, const char *row,
                          size_t n);
void sr1__doc_retain(struct sr1__doc *d);
void sr1__doc_release(struct sr1__doc *d); /* NULL is fine */
size_t sr1__doc_bytes(const struct sr1__doc *d);
const char *sr1__doc_id(const struct sr1__doc *d);
const char *sr1__doc_contents(const struct sr1__doc *d);
const char *sr1__doc_row(const struct sr1__doc *d);

struct sr1__doc_cache;

/* Safe to use from several threads. */
sr1_status sr1__doc_cache_new(struct sr1__doc_cache **out, uint64_t max_bytes);
void sr1__doc_cache_free(struct sr1__doc_cache *c);
/* A new reference, or NULL. */
struct sr1__doc *sr1__doc_cache_get(struct sr1__doc_cache *c, uint32_t number);
/* Takes a reference of its own; takes no memory. */
void sr1__doc_cache_put(struct sr1__doc_cache *c, struct sr1__doc *d);

#endif
