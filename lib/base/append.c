/* base/append.c - see append.h. */
#include "base/append.h"

#include <errno.h>
#include <unistd.h>

static sr1_status write_all(int fd, const char *path, uint64_t at, const char *bytes,
                            size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(fd, bytes + done, n - done, (off_t)(at + done));

        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return sr1__fail_errno("write", path);
        done += (size_t)k;
    }
    return SR1_OK;
}

sr1_status sr1__append(int fd, const char *path, uint64_t *size, const void *bytes,
                       size_t n)
{
    sr1_status st = write_all(fd, path, *size, bytes, n);

    if (st == SR1_OK)
        *size += n;
    else if (ftruncate(fd, (off_t)*size) != 0)
        return sr1__context(st, "%s ends in a torn record", path);
    return st;
}
