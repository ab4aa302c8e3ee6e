/* base/append.c - see append.h. */
#include "base/append.h"

#include "base/io.h"
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static sr1_status claim_records(int fd, const char *path, uint64_t *size)
{
    struct stat st;
    int error;

    if (fstat(fd, &st) != 0)
        return sr1__fail_errno("write", path);
    if (!S_ISREG(st.st_mode))
        return sr1__fail(SR1_E_IO, "cannot write %s: it is not a regular file", path);
    error = sr1__flock(fd);
    if (error == EWOULDBLOCK)
        return sr1__fail(SR1_E_STATE,
                         "%s is being written, here or by another program: close that "
                         "writer or wait until it ends, or name another file",
                         path);
    if (error != 0) {
        errno = error;
        return sr1__fail_errno("lock", path);
    }
    *size = (uint64_t)st.st_size;
    return SR1_OK;
}

sr1_status sr1__append_open(int *fd, const char *path, uint64_t *size)
{
    sr1_status st;

    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (*fd < 0)
        return sr1__fail_errno("write", path);
    st = claim_records(*fd, path, size);
    if (st != SR1_OK) {
        close(*fd);
        *fd = -1;
    }
    return st;
}

void sr1__append_close(int fd)
{
    if (fd < 0)
        return;
    (void)flock(fd, LOCK_UN);
    close(fd);
}

sr1_status sr1__append(int fd, const char *path, uint64_t *size, const void *bytes,
                       size_t n)
{
    sr1_status st = sr1__pwrite_all(fd, bytes, n, *size) == 0
                        ? SR1_OK
                        : sr1__fail_errno("write", path);

    if (st == SR1_OK)
        *size += n;
    else if (ftruncate(fd, (off_t)*size) != 0)
        return sr1__context(st, "%s ends in a torn record", path);
    return st;
}

sr1_status sr1__append_cut(int fd, const char *path, uint64_t *size, uint64_t to)
{
    if (to > *size)
        return sr1__fail(SR1_E_CORRUPT, "%s: %llu bytes long, not the %llu it once had",
                         path, (unsigned long long)*size, (unsigned long long)to);
    if (ftruncate(fd, (off_t)to) != 0)
        return sr1__fail_errno("cut", path);
    *size = to;
    return SR1_OK;
}

/* Some file systems cannot sync; on those there is nothing more to do. */
sr1_status sr1__append_sync(int fd, const char *path)
{
    if (fdatasync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        return sr1__fail_errno("sync", path);
    return SR1_OK;
}
