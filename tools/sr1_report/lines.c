/* lines.c - see lines.h. */
#include "sr1_report/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_CAP ((size_t)1 << 18)

int lines_open(struct lines *l, const char *path)
{
    struct stat st;

    memset(l, 0, sizeof(*l));
    l->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (l->fd < 0)
        return errno;
    if (fstat(l->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(l->fd);
        l->fd = -1;
        return EINVAL;
    }
    l->cap = FIRST_CAP;
    l->buf = malloc(l->cap);
    if (l->buf == NULL) {
        close(l->fd);
        l->fd = -1;
        return ENOMEM;
    }
    return 0;
}

void lines_close(struct lines *l)
{
    if (l->fd >= 0)
        close(l->fd);
    free(l->buf);
    memset(l, 0, sizeof(*l));
    l->fd = -1;
}

/* Move what is left to the front and make room behind it. -1: no more room allowed. */
static int make_room(struct lines *l)
{
    size_t n = l->end - l->begin;
    char *grown;

    memmove(l->buf, l->buf + l->begin, n);
    l->begin = 0;
    l->end = n;
    if (n < l->cap)
        return 0;
    if (l->cap >= LINE_MAX_BYTES)
        return -1;
    grown = realloc(l->buf, l->cap * 2);
    if (grown == NULL) {
        l->error = ENOMEM;
        return -1;
    }
    l->buf = grown;
    l->cap *= 2;
    return 0;
}

static void fill(struct lines *l)
{
    ssize_t got;

    do
        got = read(l->fd, l->buf + l->end, l->cap - l->end);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        l->error = errno;
    if (got <= 0)
        l->at_end = 1;
    else
        l->end += (size_t)got;
}

static void give(struct lines *l, struct line *out, size_t len, size_t taken, int whole)
{
    *out = (struct line){l->buf + l->begin, len, l->offset, whole};
    l->begin += taken;
    l->offset += taken;
}

/* Forget what is buffered up to the next line end; -1 when there is none. */
static int drop_to_line_end(struct lines *l)
{
    const char *nl = memchr(l->buf + l->begin, '\n', l->end - l->begin);
    size_t n = nl != NULL ? (size_t)(nl - (l->buf + l->begin)) + 1 : l->end - l->begin;

    l->begin += n;
    l->offset += n;
    return nl != NULL ? 0 : -1;
}

/* A line that does not fit: pass over all of it. */
static int pass_over(struct lines *l, struct line *out)
{
    uint64_t from = l->offset;

    while (drop_to_line_end(l) != 0 && !l->at_end) {
        l->begin = l->end = 0;
        fill(l);
    }
    *out = (struct line){"", 0, from, 0};
    return 1;
}

int lines_next(struct lines *l, struct line *out)
{
    size_t seen = 0; /* bytes of the line known to hold no line end */

    while (!l->error) {
        size_t n = l->end - l->begin;
        const char *from = l->buf + l->begin;
        const char *nl = memchr(from + seen, '\n', n - seen);

        if (nl != NULL) {
            give(l, out, (size_t)(nl - from), (size_t)(nl - from) + 1, 1);
            return 1;
        }
        seen = n;
        if (l->at_end) {
            if (n == 0)
                return 0;
            give(l, out, n, n, 0);
            return 1;
        }
        if (make_room(l) != 0)
            return l->error ? 0 : pass_over(l, out);
        fill(l);
    }
    return 0;
}
