/* retrieval/search/disk_store.h - values by key in one append-only file that processes
 * share. */
#ifndef SR1__SEARCH_DISK_STORE_H
#define SR1__SEARCH_DISK_STORE_H

#include "base/buf.h"

struct sr1__disk_store;

/* Open the store in a folder, which is made where it is missing. Safe to use from several
 * threads; several stores, of one process or of many, may have the folder open. A file
 * named `answers` there that holds no record is left as it is: SR1_E_CORRUPT. */
sr1_status sr1__disk_store_open(struct sr1__disk_store **out, const char *folder,
                                uint64_t max_bytes);
void sr1__disk_store_close(struct sr1__disk_store *s); /* NULL is fine */

/* Append the value last put under a key to *value, with the time it was put with. 0 when
 * there is none that can be read. */
int32_t sr1__disk_store_get(struct sr1__disk_store *s, const void *key, size_t key_len,
                            struct sr1__buf *value, int64_t *time);

/* Put a value of this time. Does nothing when it is too large, or cannot be written: a
 * cache is a help, not a promise. */
void sr1__disk_store_put(struct sr1__disk_store *s, const void *key, size_t key_len,
                         const void *value, size_t value_len, int64_t time);

#endif
