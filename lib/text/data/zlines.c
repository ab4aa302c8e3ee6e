/* text/data/zlines.c - see zlines.h. */
#include "text/data/zlines.h"

#include "base/append.h"
#include "base/file.h"
#include "base/map_watch.h"
#include "base/mem.h"
#include "base/source.h"
#include "base/str.h"

#include <searchr1/ext/data_files.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define LEVEL 3
#define FRAME_BYTES ((size_t)8 << 20) /* of lines; more begin another frame */
#define LINE_BYTES ((size_t)64 << 20) /* a longer line is refused */
#define READ_BYTES ((size_t)1 << 17)

/* ---- writing ---- */

struct sr1__zlines {
    int fd;
    uint64_t size;
    char *path;
    ZSTD_CCtx *zstd;
    struct sr1__buf lines, frame;
};

sr1_status sr1__zlines_open(struct sr1__zlines **out, const char *path)
{
    struct sr1__zlines *w = sr1__calloc(1, sizeof(*w));
    sr1_status st;

    SR1__CHECK_ALLOC(w, "record writer");
    w->fd = -1;
    sr1__buf_init(&w->lines, 0);
    sr1__buf_init(&w->frame, 0);
    w->path = sr1__strdup(path);
    w->zstd = ZSTD_createCCtx();
    st = w->path && w->zstd ? sr1__append_open(&w->fd, w->path, &w->size)
                            : sr1__fail_nomem("record writer");
    if (st != SR1_OK) {
        sr1__zlines_close(w);
        return st;
    }
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_checksumFlag, 1);
    *out = w;
    return SR1_OK;
}

sr1_status sr1__zlines_add(struct sr1__zlines *w, const char *line, size_t n)
{
    if (n > LINE_BYTES)
        return sr1__fail(SR1_E_LIMIT,
                         "%s: a line of %zu bytes; nobody reads more than 64 MiB",
                         w->path, n);
    if (w->lines.len > 0 && w->lines.len + n > FRAME_BYTES)
        SR1__TRY(sr1__zlines_flush(w));
    sr1__buf_add(&w->lines, line, n);
    sr1__buf_char(&w->lines, '\n');
    return sr1__buf_status(&w->lines, w->path);
}

sr1_status sr1__zlines_flush(struct sr1__zlines *w)
{
    size_t room = ZSTD_compressBound(w->lines.len);
    size_t n;

    if (w->lines.len == 0)
        return SR1_OK;
    sr1__buf_clear(&w->frame);
    sr1__buf_room(&w->frame, room);
    SR1__TRY(sr1__buf_status(&w->frame, w->path));
    n = ZSTD_compress2(w->zstd, w->frame.data, room, w->lines.data, w->lines.len);
    sr1__buf_clear(&w->lines);
    if (ZSTD_isError(n))
        return sr1__fail_nomem(w->path);
    return sr1__append(w->fd, w->path, &w->size, w->frame.data, n);
}

uint64_t sr1__zlines_size(const struct sr1__zlines *w)
{
    return w->size;
}

sr1_status sr1__zlines_truncate(struct sr1__zlines *w, uint64_t size)
{
    sr1__buf_clear(&w->lines);
    return sr1__append_cut(w->fd, w->path, &w->size, size);
}

sr1_status sr1__zlines_mend(struct sr1__zlines *w)
{
    struct sr1__map map;
    size_t at = 0;
    sr1_status st;

    SR1__TRY(sr1__map_open_watched(&map, w->path, 0));
    while (at < map.size) {
        size_t n = ZSTD_findFrameCompressedSize(map.data + at, map.size - at);

        if (ZSTD_isError(n))
            break;
        at += n;
    }
    st = sr1__map_check(&map);
    sr1__map_close(&map);
    return st == SR1_OK ? sr1__zlines_truncate(w, at) : st;
}

sr1_status sr1__zlines_sync(struct sr1__zlines *w)
{
    return sr1__append_sync(w->fd, w->path);
}

void sr1__zlines_close(struct sr1__zlines *w)
{
    if (!w)
        return;
    sr1__append_close(w->fd);
    ZSTD_freeCCtx(w->zstd);
    sr1__buf_free(&w->lines);
    sr1__buf_free(&w->frame);
    sr1__free(w->path);
    sr1__free(w);
}

/* ---- reading ---- */

struct sr1_lines {
    struct sr1__source *source;
    char *path;
    struct sr1__buf text;
    size_t at;     /* text[at..) was not yet given */
    size_t looked; /* text[..looked) holds no further line end */
    int at_end;    /* of the file */
};

/* A file that is shorter than the mark of its format is being written, or was torn. */
static sr1_status open_lines_source(sr1_lines *l, const char *path)
{
    const char *packing;
    struct stat st;

    l->path = sr1__strdup(path);
    SR1__CHECK_ALLOC(l->path, "line reader");
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return sr1__fail(SR1_E_IO, "cannot open %s: it is not a file", path);
    SR1__TRY(sr1__source_open(&l->source, path));
    sr1__source_allow_torn(l->source);
    packing = sr1__source_packing(l->source);
    if (sr1__str_ends_with(sr1__str_of(path), ".zst") && packing == NULL &&
        sr1__source_size(l->source) >= 4)
        return sr1__fail(SR1_E_CORRUPT, "%s does not begin as zstd data do", path);
    return SR1_OK;
}

sr1_status sr1_lines_open(sr1_lines **out, const char *path)
{
    sr1_lines *l;

    if (!out || !path)
        return sr1__fail(SR1_E_INVALID, "lines: out and path are required");
    SR1__CALLOC(l, 1, "line reader");
    sr1__buf_init(&l->text, LINE_BYTES + (1 << 20));
    SR1__RETURN_NEW(out, l, open_lines_source(l, path), sr1_lines_free);
}

void sr1_lines_free(sr1_lines *l)
{
    if (!l)
        return;
    sr1__source_close(l->source);
    sr1__buf_free(&l->text);
    sr1__free(l->path);
    sr1__free(l);
}

static sr1_status fill_line_buffer(sr1_lines *l)
{
    size_t got;

    sr1__buf_room(&l->text, READ_BYTES);
    SR1__TRY(sr1__buf_status(&l->text, l->path));
    SR1__TRY(sr1__source_read(l->source, l->text.data + l->text.len, READ_BYTES, &got));
    l->text.len += got;
    l->text.data[l->text.len] = '\0';
    l->at_end = got == 0;
    return SR1_OK;
}

/* Lines that were given make room. */
static void drop_given(sr1_lines *l)
{
    if (l->at == 0)
        return;
    memmove(l->text.data, l->text.data + l->at, l->text.len - l->at);
    l->text.len -= l->at;
    l->looked -= l->at;
    l->at = 0;
}

sr1_status sr1_lines_next(sr1_lines *l, const char **text, size_t *n)
{
    char *end;

    if (!l || !text || !n)
        return sr1__fail(SR1_E_INVALID, "lines: reader, text and n are required");
    for (;;) {
        size_t len = l->text.len;

        end = len > l->looked ? memchr(l->text.data + l->looked, '\n', len - l->looked)
                              : NULL;
        l->looked = len;
        if (end || l->at_end)
            break;
        drop_given(l);
        if (l->text.len > LINE_BYTES)
            return sr1__fail(SR1_E_LIMIT, "%s: a line of more than 64 MiB", l->path);
        SR1__TRY(fill_line_buffer(l));
    }
    *text = NULL;
    *n = 0;
    if (!end)
        return SR1_OK;
    *text = l->text.data + l->at;
    *n = (size_t)(end - *text);
    *end = '\0';
    l->at = l->looked = (size_t)(end - l->text.data) + 1;
    return SR1_OK;
}
