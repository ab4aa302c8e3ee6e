/* base/io.h - reads and writes of all bytes: a signal or a part does not end them. */
#ifndef SR1__BASE_IO_H
#define SR1__BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes read, fewer than n only at the end of the file; -1 with errno set. */
ssize_t sr1__read_all(int fd, void *bytes, size_t n);
ssize_t sr1__pread_all(int fd, void *bytes, size_t n, uint64_t at);

/* 0, or -1 with errno set. */
int sr1__write_all(int fd, const void *bytes, size_t n);
int sr1__pwrite_all(int fd, const void *bytes, size_t n, uint64_t at);

#endif
