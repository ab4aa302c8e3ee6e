/* retrieval/search/dense_part.h - vectors that are done while an index is built: a file
 * beside it that outlives the process.
 *
 *     header   magic[8] version:u32 n:u32 key[n] sum:u64
 *     records  n:u32 0:u32 hash:u64 sum:u64, then n rows, then n scales where the type
 *              has them; sum is of all the rest
 *
 * key says what the vectors are of and how they are kept; hash is of the corpus's rows
 * from the first to the record's last. A file of another key is begun anew; what follows
 * the last whole record is cut off. One process at a time has it open. */
#ifndef SR1__SEARCH_DENSE_PART_H
#define SR1__SEARCH_DENSE_PART_H

#include "retrieval/search/dense_index.h"

struct sr1__dense_part;

/* INDEX.part of an index; key is copied. SR1_E_STATE: somebody else has it open. */
sr1_status sr1__dense_part_open(struct sr1__dense_part **out, const char *index_path,
                                const char *key, const struct sr1__dense_type *type,
                                size_t dim);
void sr1__dense_part_close(struct sr1__dense_part *p); /* NULL is fine */
/* The file goes too. */
void sr1__dense_part_remove(struct sr1__dense_part *p);

size_t sr1__dense_part_records(const struct sr1__dense_part *p);
/* Rows up to the end of record i, and the hash there. */
uint64_t sr1__dense_part_end(const struct sr1__dense_part *p, size_t i, uint64_t *hash);

/* Forget all records. */
sr1_status sr1__dense_part_reset(struct sr1__dense_part *p);
/* v: [n, dim], n > 0. Errors name the row, counted from 0 in the corpus. */
sr1_status sr1__dense_part_add(struct sr1__dense_part *p, const float *v, size_t n,
                               uint64_t hash);
/* All rows to one section, all scales to another. */
sr1_status sr1__dense_part_copy(struct sr1__dense_part *p, struct sr1__section_writer *w);

#endif
