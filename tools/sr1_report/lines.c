/* lines.c - see lines.h. */
#include "sr1_report/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define FIRST_CAP ((size_t)1 << 18)
#define IN_BYTES ((size_t)1 << 16)

static int is_compressed(const char *path)
{
    size_t n = strlen(path);

    return n > 4 && strcmp(path + n - 4, ".zst") == 0;
}

int text_lines_open(struct lines *l, const char *path)
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
    if (is_compressed(path)) {
        l->zstd = ZSTD_createDCtx();
        l->in = malloc(IN_BYTES);
    }
    if (l->buf != NULL && (!is_compressed(path) || (l->zstd != NULL && l->in != NULL)))
        return 0;
    lines_close(l);
    return ENOMEM;
}

void lines_close(struct lines *l)
{
    if (l->fd >= 0)
        close(l->fd);
    free(l->buf);
    free(l->in);
    ZSTD_freeDCtx(l->zstd);
    memset(l, 0, sizeof(*l));
    l->fd = -1;
}

/* Move the rest of the buffer to its front and make room behind it. -1: the buffer may
 * not grow further. */
static int reserve_line_room(struct lines *l)
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

static size_t read_lines_bytes(struct lines *l, char *to, size_t n)
{
    ssize_t got;

    do
        got = read(l->fd, to, n);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        l->error = errno;
    if (got <= 0)
        l->at_end = 1;
    return got > 0 ? (size_t)got : 0;
}

/* Decompress more text from the bytes read, and read more bytes if that gives none. */
static void decompress_lines(struct lines *l)
{
    size_t before = l->end;

    while (l->end == before && !l->at_end) {
        ZSTD_inBuffer in = {l->in, l->in_end, l->in_begin};
        ZSTD_outBuffer out = {l->buf, l->cap, l->end};
        size_t left = ZSTD_decompressStream(l->zstd, &out, &in);

        if (ZSTD_isError(left)) {
            l->error = EBADMSG;
            return;
        }
        l->end = out.pos;
        l->in_begin = in.pos;
        if (l->end == before && l->in_begin == l->in_end) {
            l->in_end = read_lines_bytes(l, l->in, IN_BYTES);
            l->in_begin = 0;
        }
    }
}

static void fill_lines_buffer(struct lines *l)
{
    if (l->zstd != NULL)
        decompress_lines(l);
    else
        l->end += read_lines_bytes(l, l->buf + l->end, l->cap - l->end);
}

static void emit_line(struct lines *l, struct report_line *out, size_t len, size_t taken,
                      int whole)
{
    *out = (struct report_line){l->buf + l->begin, len, l->offset, whole};
    l->begin += taken;
    l->offset += taken;
}

/* Drop the buffered text up to the next line end; -1 if there is none. */
static int drop_to_line_end(struct lines *l)
{
    const char *nl = memchr(l->buf + l->begin, '\n', l->end - l->begin);
    size_t n = nl != NULL ? (size_t)(nl - (l->buf + l->begin)) + 1 : l->end - l->begin;

    l->begin += n;
    l->offset += n;
    return nl != NULL ? 0 : -1;
}

/* A line that does not fit: pass over all of it. 0 when an error stops that. */
static int pass_over(struct lines *l, struct report_line *out)
{
    uint64_t from = l->offset;

    while (drop_to_line_end(l) != 0 && !l->at_end && !l->error) {
        l->begin = l->end = 0;
        fill_lines_buffer(l);
    }
    if (l->error)
        return 0;
    *out = (struct report_line){"", 0, from, 0};
    return 1;
}

int lines_next(struct lines *l, struct report_line *out)
{
    size_t seen = 0; /* bytes of the line known to hold no line end */

    while (!l->error) {
        size_t n = l->end - l->begin;
        const char *from = l->buf + l->begin;
        const char *nl = memchr(from + seen, '\n', n - seen);

        if (nl != NULL) {
            emit_line(l, out, (size_t)(nl - from), (size_t)(nl - from) + 1, 1);
            return 1;
        }
        seen = n;
        if (l->at_end) {
            if (n == 0)
                return 0;
            emit_line(l, out, n, n, 0);
            return 1;
        }
        if (reserve_line_room(l) != 0)
            return l->error ? 0 : pass_over(l, out);
        fill_lines_buffer(l);
    }
    return 0;
}
