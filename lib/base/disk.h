/* base/disk.h - the free space of a file system. */
#ifndef SR1__BASE_DISK_H
#define SR1__BASE_DISK_H

#include <stdint.h>

/* Bytes that can still be written below path, which need not exist yet; -1 where the file
 * system does not say. */
int64_t sr1__disk_free(const char *path);

/* "512 bytes", "1.2 MB", "34 GB", as disks are sold. */
void sr1__disk_text(int64_t bytes, char out[24]);

#endif
