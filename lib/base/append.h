/* base/append.h - a file that grows by whole records. */
#ifndef SR1__BASE_APPEND_H
#define SR1__BASE_APPEND_H

#include "base/error.h"

/* Write bytes[0..n) behind the first *size bytes of an open file, and add n to *size. On
 * failure the file is cut back to *size, so that no part of a record stays; where that
 * fails too, the error says that it ends in a torn record. path is for messages. */
sr1_status sr1__append(int fd, const char *path, uint64_t *size, const void *bytes,
                       size_t n);

#endif
