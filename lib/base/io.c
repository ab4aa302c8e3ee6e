/* base/io.c - see io.h. */
#include "base/io.h"

#include <errno.h>
#include <unistd.h>

#define IN_PLACE UINT64_MAX /* of the file's own position */

static ssize_t read_once(int fd, void *bytes, size_t n, uint64_t at)
{
    ssize_t got;

    do
        got = at == IN_PLACE ? read(fd, bytes, n) : pread(fd, bytes, n, (off_t)at);
    while (got < 0 && errno == EINTR);
    return got;
}

static ssize_t read_from(int fd, void *bytes, size_t n, uint64_t at)
{
    size_t done = 0;

    while (done < n) {
        ssize_t got = read_once(fd, (char *)bytes + done, n - done,
                                at == IN_PLACE ? at : at + done);

        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static int write_to(int fd, const void *bytes, size_t n, uint64_t at)
{
    const char *p = bytes;

    for (size_t done = 0; done < n;) {
        ssize_t k = at == IN_PLACE ? write(fd, p + done, n - done)
                                   : pwrite(fd, p + done, n - done, (off_t)(at + done));

        if (k < 0 && errno == EINTR)
            continue;
        if (k == 0)
            errno = EIO;
        if (k <= 0)
            return -1;
        done += (size_t)k;
    }
    return 0;
}

ssize_t sr1__read_all(int fd, void *bytes, size_t n)
{
    return read_from(fd, bytes, n, IN_PLACE);
}

ssize_t sr1__pread_all(int fd, void *bytes, size_t n, uint64_t at)
{
    return read_from(fd, bytes, n, at);
}

int sr1__write_all(int fd, const void *bytes, size_t n)
{
    return write_to(fd, bytes, n, IN_PLACE);
}

int sr1__pwrite_all(int fd, const void *bytes, size_t n, uint64_t at)
{
    return write_to(fd, bytes, n, at);
}
