/* retrieval/search/spool.c - see spool.h. */
#include "retrieval/search/spool.h"

#include "base/buf.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PENDING ((size_t)1 << 16)

struct sr1__spool {
    int fd;
    char *path; /* what is being built */
    uint64_t size;
    void *map; /* [size], or NULL */
    size_t n_pending;
    char *pending; /* [PENDING]; NULL once finished */
};

static sr1_status open_spool_file(struct sr1__spool *s)
{
    static atomic_uint counter;
    struct sr1__buf name;
    sr1_status status;

    sr1__buf_init(&name, 0);
    sr1__buf_fmt(&name, "%s.tmp-%ld-s%u", s->path, (long)getpid(),
                 atomic_fetch_add(&counter, 1));
    status = sr1__buf_status(&name, "file name");
    if (status == SR1_OK) {
        s->fd = open(name.data, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (s->fd < 0)
            status = sr1__fail_errno("write", s->path);
        else
            unlink(name.data);
    }
    sr1__buf_free(&name);
    return status;
}

sr1_status sr1__spool_open(struct sr1__spool **out, const char *path)
{
    struct sr1__spool *s = sr1__malloc(sizeof(*s));

    SR1__CHECK_ALLOC(s, "temporary file");
    s->fd = -1;
    s->size = 0;
    s->map = NULL;
    s->n_pending = 0;
    s->path = sr1__strdup(path);
    s->pending = sr1__malloc(PENDING);
    SR1__RETURN_NEW(out, s,
                    s->path != NULL && s->pending != NULL
                        ? open_spool_file(s)
                        : sr1__fail_nomem("temporary file"),
                    sr1__spool_close);
}

void sr1__spool_close(struct sr1__spool *s)
{
    if (s == NULL)
        return;
    if (s->map != NULL)
        munmap(s->map, (size_t)s->size);
    if (s->fd >= 0)
        close(s->fd);
    sr1__free(s->pending);
    sr1__free(s->path);
    sr1__free(s);
}

static sr1_status write_spool_bytes(const struct sr1__spool *s, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t done = write(s->fd, p, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return sr1__fail_errno("write a temporary file beside", s->path);
        p += done;
        n -= (size_t)done;
    }
    return SR1_OK;
}

static sr1_status flush_spool(struct sr1__spool *s)
{
    size_t n = s->n_pending;

    s->n_pending = 0;
    return write_spool_bytes(s, s->pending, n);
}

sr1_status sr1__spool_finish(struct sr1__spool *s)
{
    SR1__TRY(flush_spool(s));
    sr1__free(s->pending);
    s->pending = NULL;
    return SR1_OK;
}

sr1_status sr1__spool_add(struct sr1__spool *s, const void *bytes, size_t n)
{
    s->size += n;
    if (n > PENDING - s->n_pending)
        SR1__TRY(flush_spool(s));
    if (n >= PENDING)
        return write_spool_bytes(s, bytes, n);
    if (n > 0)
        memcpy(s->pending + s->n_pending, bytes, n);
    s->n_pending += n;
    return SR1_OK;
}

uint64_t sr1__spool_size(const struct sr1__spool *s)
{
    return s->size;
}

sr1_status sr1__spool_read(const struct sr1__spool *s, uint64_t offset, void *out,
                           size_t n)
{
    char *p = out;

    while (n > 0) {
        ssize_t done = pread(s->fd, p, n, (off_t)offset);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return sr1__fail_errno("read a temporary file beside", s->path);
        if (done == 0)
            return sr1__fail(SR1_E_IO, "a temporary file beside %s was cut short",
                             s->path);
        p += done;
        offset += (uint64_t)done;
        n -= (size_t)done;
    }
    return SR1_OK;
}

sr1_status sr1__spool_map(struct sr1__spool *s, const unsigned char **out)
{
    SR1__TRY(sr1__spool_finish(s));
    if (s->map == NULL && s->size > 0) {
        void *map = mmap(NULL, (size_t)s->size, PROT_READ, MAP_SHARED, s->fd, 0);

        if (map == MAP_FAILED)
            return sr1__fail_errno("map a temporary file beside", s->path);
        s->map = map;
    }
    *out = s->map != NULL ? s->map : (const void *)"";
    return SR1_OK;
}
