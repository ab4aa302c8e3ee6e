/* retrieval/search/line_offsets.c - one scan of a file of JSON lines finds where each row
 * begins:
 *
 *     magic[8]  size:u64 seconds:u64 nanoseconds:u64  of the file scanned
 *     offset:u64 ...                                  of each row that is not blank
 *     size:u64                                        after the last
 *
 * All little-endian. The last number is no row's offset, so that a file that was cut
 * shows it. */
#include "retrieval/search/line_offsets.h"

#include "base/map_watch.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/utf8.h"
#include "retrieval/search/sections.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define MAGIC "SR1OFFS\n"
#define HEADER_BYTES 32

struct sr1__line_offsets {
    struct sr1__map corpus;
    struct sr1__map offsets;
    const unsigned char *list; /* [count + 1] u64 */
    uint64_t count;
};

/* ---- lines ---- */

/* The row that begins at `at`, without blanks around it; *end: after its line. */
static size_t take_line(const struct sr1__map *m, size_t *at, size_t *end)
{
    const unsigned char *newline = memchr(m->data + *at, '\n', m->size - *at);
    size_t last = newline != NULL ? (size_t)(newline - m->data) : m->size;

    *end = newline != NULL ? last + 1 : last;
    if (*at == 0)
        *at = sr1__utf8_mark((const char *)m->data, m->size);
    while (*at < last && sr1__is_json_space((char)m->data[*at]))
        ++*at;
    while (last > *at && sr1__is_json_space((char)m->data[last - 1]))
        last--;
    return last - *at;
}

/* ---- writing ---- */

static void put_u64(unsigned char *to, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)(v >> 8 * i);
}

static void make_offsets_header(unsigned char *h, const struct stat *st)
{
    memcpy(h, MAGIC, 8);
    put_u64(h + 8, (uint64_t)st->st_size);
    put_u64(h + 16, (uint64_t)st->st_mtim.tv_sec);
    put_u64(h + 24, (uint64_t)st->st_mtim.tv_nsec);
}

static sr1_status add_offset(struct sr1__file_writer *w, uint64_t offset)
{
    unsigned char bytes[8];

    put_u64(bytes, offset);
    return sr1__file_writer_add(w, bytes, 8);
}

static sr1_status scan_line_offsets(struct sr1__file_writer *w, const struct sr1__map *m)
{
    for (size_t at = 0, end; at < m->size; at = end)
        if (take_line(m, &at, &end) > 0)
            SR1__TRY(add_offset(w, at));
    return add_offset(w, m->size);
}

static sr1_status write_offsets(const char *path, const unsigned char *header,
                                const struct sr1__map *m)
{
    struct sr1__file_writer *w = NULL;
    sr1_status status;

    SR1__TRY(sr1__file_clean(path));
    SR1__TRY(sr1__file_writer_open(&w, path));
    status = sr1__file_writer_add(w, header, HEADER_BYTES);
    if (status == SR1_OK)
        status = scan_line_offsets(w, m);
    if (status == SR1_OK)
        return sr1__file_writer_commit(w);
    sr1__file_writer_abort(w);
    return status;
}

/* ---- reading ---- */

/* Are the mapped offsets those of the file that the header describes? */
static int take_offsets(struct sr1__line_offsets *o, const unsigned char *header)
{
    size_t size = o->offsets.size;

    if (size < HEADER_BYTES + 8 || size % 8 != 0 ||
        memcmp(o->offsets.data, header, HEADER_BYTES) != 0 ||
        index_u64(o->offsets.data + size - 8) != o->corpus.size)
        return 0;
    o->list = o->offsets.data + HEADER_BYTES;
    o->count = (size - HEADER_BYTES) / 8 - 1;
    return 1;
}

/* A file that was never ours is not ours to replace. */
static int is_foreign(const struct sr1__map *m)
{
    return memcmp(m->data, MAGIC, m->size < 8 ? m->size : 8) != 0;
}

static sr1_status open_offsets(struct sr1__line_offsets *o, const char *path,
                               const unsigned char *header)
{
    int foreign;

    if (sr1__path_exists(path)) {
        SR1__TRY(sr1__map_open_watched(&o->offsets, path, 0));
        if (take_offsets(o, header))
            return SR1_OK;
        foreign = is_foreign(&o->offsets);
        sr1__map_close(&o->offsets);
        if (foreign)
            return sr1__fail(SR1_E_STATE,
                             "%s does not hold the offsets of a corpus, which are kept "
                             "there: move it away",
                             path);
    }
    SR1__TRY(sr1__context(write_offsets(path, header, &o->corpus),
                          "the offsets of a corpus are kept beside it"));
    SR1__TRY(sr1__map_open_watched(&o->offsets, path, 0));
    if (!take_offsets(o, header))
        return sr1__fail(SR1_E_CORRUPT, "%s: not what was just written", path);
    return SR1_OK;
}

static sr1_status open_both(struct sr1__line_offsets *o, const char *path)
{
    unsigned char header[HEADER_BYTES];
    struct sr1__buf name;
    struct stat st;
    sr1_status status;

    if (stat(path, &st) != 0)
        return sr1__fail_errno("open", path);
    SR1__TRY(sr1__map_open_watched(&o->corpus, path, 0));
    if (o->corpus.size != (size_t)st.st_size)
        return sr1__fail(SR1_E_IO, "%s changes while it is read", path);
    make_offsets_header(header, &st);
    sr1__buf_init(&name, 0);
    sr1__buf_fmt(&name, "%s.offsets", path);
    status = sr1__buf_status(&name, "file name");
    if (status == SR1_OK)
        status = open_offsets(o, name.data, header);
    sr1__buf_free(&name);
    return status;
}

sr1_status sr1__line_offsets_open(struct sr1__line_offsets **out, const char *path)
{
    struct sr1__line_offsets *o = sr1__calloc(1, sizeof(*o));

    SR1__CHECK_ALLOC(o, "offsets of rows");
    SR1__RETURN_NEW(out, o, sr1__line_offsets_check_changed(o, open_both(o, path)),
                    sr1__line_offsets_close);
}

void sr1__line_offsets_close(struct sr1__line_offsets *o)
{
    if (o == NULL)
        return;
    sr1__map_close(&o->corpus);
    sr1__map_close(&o->offsets);
    sr1__free(o);
}

sr1_status sr1__line_offsets_check_changed(const struct sr1__line_offsets *o,
                                           sr1_status status)
{
    return sr1__map_blame(&o->corpus, sr1__map_blame(&o->offsets, status));
}

uint64_t sr1__line_offsets_count(const struct sr1__line_offsets *o)
{
    return o->count;
}

sr1_status sr1__line_offsets_row(const struct sr1__line_offsets *o, uint64_t i,
                                 const char **row, size_t *n)
{
    uint64_t offset = index_u64(o->list + 8 * i);
    uint64_t next = index_u64(o->list + 8 * (i + 1));
    size_t at = (size_t)offset;
    size_t end;

    if (offset >= next || next > o->corpus.size)
        return sr1__fail(SR1_E_CORRUPT,
                         "the .offsets file beside the corpus is damaged; remove it");
    *n = take_line(&o->corpus, &at, &end);
    *row = (const char *)o->corpus.data + at;
    return SR1_OK;
}
