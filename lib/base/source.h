/* base/source.h - read a file from front to back; a gzip or zstd file, recognised by its
 * first bytes, is decompressed. */
#ifndef SR1__BASE_SOURCE_H
#define SR1__BASE_SOURCE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct sr1__source;

sr1_status sr1__source_open(struct sr1__source **out, const char *path);
void sr1__source_close(struct sr1__source *s); /* NULL is fine */
/* Fill bytes[0..n); *got < n only at the end. SR1_E_CORRUPT: the compressed data cannot
 * be read, or ends too early. */
sr1_status sr1__source_read(struct sr1__source *s, void *bytes, size_t n, size_t *got);
/* Packed data that end too early are the end of the file and no error: the file is being
 * written, or was torn. */
void sr1__source_allow_torn(struct sr1__source *s);
/* Bytes of the file, as it was opened, and how many of them have been read. */
uint64_t sr1__source_size(const struct sr1__source *s);
uint64_t sr1__source_at(const struct sr1__source *s);
/* "gzip", "zstd", or NULL: its bytes are given as they are. */
const char *sr1__source_packing(const struct sr1__source *s);
/* The same of the first n bytes of a file. */
const char *sr1__packing_of(const void *bytes, size_t n);

#endif
