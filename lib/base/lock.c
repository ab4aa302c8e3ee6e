/* base/lock.c - see lock.h. flock belongs to the open file, so two holders in one process
 * exclude each other as two processes do, and the kernel releases the lock when they end.
 */
#include "base/lock.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

struct sr1__lock {
    int fd;
};

/* The text that the holder wrote, printable characters only, because anybody may have
 * written it. */
static void read_holder(int fd, char holder[SR1__LOCK_HOLDER])
{
    ssize_t n = pread(fd, holder, SR1__LOCK_HOLDER - 1, 0);
    ssize_t kept = 0;

    for (ssize_t i = 0; i < n; i++)
        if (holder[i] >= ' ' && holder[i] <= '~')
            holder[kept++] = holder[i];
    holder[kept] = '\0';
    if (kept == 0)
        snprintf(holder, SR1__LOCK_HOLDER, "another process");
}

/* For messages only: a disk that is full does not keep the lock from being held. */
static void write_holder(int fd)
{
    char host[64] = "", text[SR1__LOCK_HOLDER];
    int n;

    (void)gethostname(host, sizeof(host) - 1);
    n = snprintf(text, sizeof(text), "process %ld on %s\n", (long)getpid(), host);
    (void)!ftruncate(fd, 0);
    (void)!pwrite(fd, text, (size_t)n, 0);
}

/* Errors of a file system without locks. */
static int has_no_locks(int error)
{
    return error == ENOSYS || error == ENOTSUP || error == EOPNOTSUPP ||
           error == EINVAL || error == ENOLCK;
}

static int try_flock(int fd, int kind)
{
    int rc;

    do
        rc = flock(fd, kind | LOCK_NB);
    while (rc != 0 && errno == EINTR);
    return rc == 0 || has_no_locks(errno) ? 0 : errno;
}

int sr1__flock(int fd)
{
    return try_flock(fd, LOCK_EX);
}

static sr1_status acquire_flock(int fd, int kind, const char *path,
                                char holder[SR1__LOCK_HOLDER])
{
    int error = try_flock(fd, kind);

    if (error == EWOULDBLOCK) {
        read_holder(fd, holder);
        return sr1__fail(SR1_E_STATE, "%s is held by %s", path, holder);
    }
    if (error != 0) {
        errno = error;
        return sr1__fail_errno("lock", path);
    }
    return SR1_OK;
}

sr1_status sr1__lock_look(const char *path, char holder[SR1__LOCK_HOLDER])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    sr1_status st;

    holder[0] = '\0';
    if (fd < 0)
        return errno == ENOENT ? SR1_OK : sr1__fail_errno("read", path);
    st = acquire_flock(fd, LOCK_SH, path, holder);
    close(fd);
    return st;
}

sr1_status sr1__lock_take(struct sr1__lock **out, const char *path,
                          char holder[SR1__LOCK_HOLDER])
{
    struct sr1__lock *l = sr1__malloc(sizeof(*l));
    sr1_status st;

    holder[0] = '\0';
    SR1__CHECK_ALLOC(l, "lock");
    l->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    st = l->fd >= 0 ? acquire_flock(l->fd, LOCK_EX, path, holder)
                    : sr1__fail_errno("write", path);
    if (st == SR1_OK) {
        write_holder(l->fd);
        *out = l;
        return SR1_OK;
    }
    if (l->fd >= 0)
        close(l->fd);
    sr1__free(l);
    return st;
}

void sr1__lock_release(struct sr1__lock *l)
{
    if (!l)
        return;
    (void)!ftruncate(l->fd, 0);
    (void)flock(l->fd, LOCK_UN); /* for children of this process too */
    close(l->fd);
    sr1__free(l);
}
