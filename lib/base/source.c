/* base/source.c - see source.h. */
#include "base/source.h"

#include "base/io.h"
#include "base/mem.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>
#include <zstd.h>

#define CHUNK ((size_t)1 << 16)
#define GZIP_OR_ZLIB 32 /* zlib finds out */
#define GZIP_MAGIC "\x1f\x8b"

/* A compression format: how to recognise a file and decompress it. */
struct packing {
    const char *name;
    const char *magic;
    size_t n_magic;
    sr1_status (*open)(struct sr1__source *s);
    /* Take from in[at..n), add to out[*made..max). */
    sr1_status (*step)(struct sr1__source *s, unsigned char *out, size_t max,
                       size_t *made);
};

struct sr1__source {
    int fd;
    char *path;
    uint64_t size;
    uint64_t read;
    const struct packing *packing; /* NULL: none */
    z_stream zlib;
    int zlib_open;
    ZSTD_DCtx *zstd;
    int whole; /* no frame of the packing is open */
    int ended; /* of the file */
    int may_be_torn;
    size_t at; /* in[at..n) is not used yet */
    size_t n;
    unsigned char in[CHUNK];
};

static sr1_status fail_corrupt_source(const struct sr1__source *s, const char *why)
{
    return sr1__fail(SR1_E_CORRUPT, "%s: its %s data cannot be read: %s", s->path,
                     s->packing->name, why != NULL ? why : "it is damaged");
}

/* ---- gzip ---- */

static sr1_status gzip_open(struct sr1__source *s)
{
    if (inflateInit2(&s->zlib, MAX_WBITS | GZIP_OR_ZLIB) != Z_OK)
        return sr1__fail_nomem("gzip");
    s->zlib_open = 1;
    return SR1_OK;
}

/* Zeros fill a file up to a whole block of a tape or disk; gzip passes them over too. */
static void skip_zeros(struct sr1__source *s)
{
    while (s->at < s->n && s->in[s->at] == 0)
        s->at++;
}

/* A file may be several members in a row, with zeros behind each. */
static sr1_status gzip_step(struct sr1__source *s, unsigned char *out, size_t max,
                            size_t *made)
{
    z_stream *z = &s->zlib;
    size_t room = max - *made < UINT_MAX ? max - *made : UINT_MAX;
    int how;

    if (s->whole) {
        skip_zeros(s);
        if (s->at == s->n)
            return SR1_OK;
        if (s->in[s->at] != (unsigned char)GZIP_MAGIC[0])
            return fail_corrupt_source(s, "what follows its last member is not gzip");
        if (inflateReset(z) != Z_OK)
            return fail_corrupt_source(s, z->msg);
    }
    z->next_in = s->in + s->at;
    z->avail_in = (unsigned)(s->n - s->at);
    z->next_out = out + *made;
    z->avail_out = (unsigned)room;
    how = inflate(z, Z_NO_FLUSH);
    s->at = s->n - z->avail_in;
    *made += room - z->avail_out;
    s->whole = how == Z_STREAM_END;
    if (how == Z_MEM_ERROR)
        return sr1__fail_nomem("gzip");
    return how == Z_OK || how == Z_STREAM_END || how == Z_BUF_ERROR
               ? SR1_OK
               : fail_corrupt_source(s, z->msg);
}

/* ---- zstd ---- */

static sr1_status zstd_open(struct sr1__source *s)
{
    s->zstd = ZSTD_createDCtx();
    return s->zstd != NULL ? SR1_OK : sr1__fail_nomem("zstd");
}

static sr1_status zstd_step(struct sr1__source *s, unsigned char *out, size_t max,
                            size_t *made)
{
    ZSTD_inBuffer from = {s->in, s->n, s->at};
    ZSTD_outBuffer to = {out, max, *made};
    size_t left = ZSTD_decompressStream(s->zstd, &to, &from);

    if (ZSTD_isError(left))
        return fail_corrupt_source(s, ZSTD_getErrorName(left));
    s->at = from.pos;
    *made = to.pos;
    s->whole = left == 0;
    return SR1_OK;
}

static const struct packing packings[] = {
    {"gzip", GZIP_MAGIC, 2, gzip_open, gzip_step},
    {"zstd", "\x28\xb5\x2f\xfd", 4, zstd_open, zstd_step},
};

static const struct packing *find_packing(const void *bytes, size_t n)
{
    for (size_t i = 0; i < sizeof(packings) / sizeof(packings[0]); i++)
        if (n >= packings[i].n_magic &&
            memcmp(bytes, packings[i].magic, packings[i].n_magic) == 0)
            return &packings[i];
    return NULL;
}

const char *sr1__packing_of(const void *bytes, size_t n)
{
    const struct packing *p = find_packing(bytes, n);

    return p != NULL ? p->name : NULL;
}

/* ---- the file ---- */

/* Fill s->in, whose bytes are used up. */
static sr1_status refill_input(struct sr1__source *s)
{
    ssize_t n = sr1__read_all(s->fd, s->in, CHUNK);

    if (n < 0)
        return sr1__fail_errno("read", s->path);
    s->at = 0;
    s->n = (size_t)n;
    s->ended = s->n < CHUNK;
    s->read += s->n;
    return SR1_OK;
}

static sr1_status open_source_file(struct sr1__source *s)
{
    struct stat st;

    s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0)
        return sr1__fail_errno("open", s->path);
    if (fstat(s->fd, &st) != 0)
        return sr1__fail_errno("read", s->path);
    if (S_ISDIR(st.st_mode))
        return sr1__fail(SR1_E_IO, "%s is a folder, not a file", s->path);
    s->size = (uint64_t)st.st_size;
    SR1__TRY(refill_input(s));
    s->whole = 1;
    s->packing = find_packing(s->in, s->n);
    return s->packing != NULL ? s->packing->open(s) : SR1_OK;
}

sr1_status sr1__source_open(struct sr1__source **out, const char *path)
{
    struct sr1__source *s = sr1__calloc(1, sizeof(*s));

    SR1__CHECK_ALLOC(s, "file to be read");
    s->fd = -1;
    s->path = sr1__strdup(path);
    SR1__RETURN_NEW(out, s,
                    s->path != NULL ? open_source_file(s)
                                    : sr1__fail_nomem("file to be read"),
                    sr1__source_close);
}

void sr1__source_close(struct sr1__source *s)
{
    if (s == NULL)
        return;
    if (s->zlib_open)
        (void)inflateEnd(&s->zlib);
    ZSTD_freeDCtx(s->zstd);
    if (s->fd >= 0)
        close(s->fd);
    sr1__free(s->path);
    sr1__free(s);
}

static sr1_status copy_step(struct sr1__source *s, unsigned char *out, size_t max,
                            size_t *made)
{
    size_t n = s->n - s->at < max - *made ? s->n - s->at : max - *made;

    memcpy(out + *made, s->in + s->at, n);
    s->at += n;
    *made += n;
    return SR1_OK;
}

sr1_status sr1__source_read(struct sr1__source *s, void *bytes, size_t n, size_t *got)
{
    sr1_status (*step)(struct sr1__source *, unsigned char *, size_t, size_t *) =
        s->packing != NULL ? s->packing->step : copy_step;

    *got = 0;
    while (*got < n) {
        size_t before = *got;

        if (s->at == s->n && !s->ended)
            SR1__TRY(refill_input(s));
        if (s->at == s->n && s->whole)
            break;
        SR1__TRY(step(s, bytes, n, got));
        if (s->at == s->n && s->ended && !s->whole && *got == before)
            return s->may_be_torn ? SR1_OK : fail_corrupt_source(s, "it ends too early");
    }
    return SR1_OK;
}

void sr1__source_allow_torn(struct sr1__source *s)
{
    s->may_be_torn = 1;
}

uint64_t sr1__source_size(const struct sr1__source *s)
{
    return s->size;
}

uint64_t sr1__source_at(const struct sr1__source *s)
{
    return s->read - (s->n - s->at);
}

const char *sr1__source_packing(const struct sr1__source *s)
{
    return s->packing != NULL ? s->packing->name : NULL;
}
