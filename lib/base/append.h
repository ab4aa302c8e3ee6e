/* base/append.h - a file that grows by whole records. */
#ifndef SR1__BASE_APPEND_H
#define SR1__BASE_APPEND_H

#include "base/error.h"

/* Open path for reading and writing, and create it if it is missing. *fd is the file, and
 * *size becomes its bytes. The file has one writer: it stays locked until
 * sr1__append_close, and SR1_E_STATE is returned while another writer, of this process or
 * of another, has it open. SR1_E_IO: it cannot be opened, or is not a regular file. On
 * failure *fd is -1. On a file system without locks nobody is kept out. */
sr1_status sr1__append_open(int *fd, const char *path, uint64_t *size);

/* Give the lock back, also for children of this process, and close. -1 is fine. */
void sr1__append_close(int fd);

/* Write bytes[0..n) after the first *size bytes of an open file, and add n to *size. On
 * failure the file is truncated to *size, so no part of a record stays; if that fails
 * too, the error says that the file ends in a torn record. path is for messages. */
sr1_status sr1__append(int fd, const char *path, uint64_t *size, const void *bytes,
                       size_t n);

/* Cut the file back to `to` of its *size bytes. SR1_E_CORRUPT: it is shorter. */
sr1_status sr1__append_cut(int fd, const char *path, uint64_t *size, uint64_t to);

/* Make its bytes durable: before another file records how many they are. */
sr1_status sr1__append_sync(int fd, const char *path);

#endif
