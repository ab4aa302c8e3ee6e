/* search/corpus_reader.c - see corpus_reader.h. Rows are copied once, from the file's
 * buffer to the item. */
#include "search/corpus_reader.h"

#include "base/mem.h"
#include "search/rows.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 16)
#define ITEM_BLOCKS 8

struct sr1__corpus_reader {
    int fd;
    char *path;
    uint64_t total;
    uint64_t done;
    size_t line;
    size_t at; /* chunk[at..n) is not read yet */
    size_t n;
    char chunk[CHUNK];
};

static sr1_status open_file(struct sr1__corpus_reader *r)
{
    struct stat st;

    r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return sr1__fail_errno("open", r->path);
    if (fstat(r->fd, &st) != 0)
        return sr1__fail_errno("read", r->path);
    if (S_ISDIR(st.st_mode))
        return sr1__fail(SR1_E_IO, "%s is a folder, not a file", r->path);
    r->total = (uint64_t)st.st_size;
    return SR1_OK;
}

sr1_status sr1__corpus_reader_open(struct sr1__corpus_reader **out, const char *path)
{
    struct sr1__corpus_reader *r = sr1__calloc(1, sizeof(*r));
    sr1_status status;

    if (r == NULL)
        return sr1__fail_nomem("corpus reader");
    r->fd = -1;
    r->path = sr1__strdup(path);
    status = r->path != NULL ? open_file(r) : sr1__fail_nomem("corpus reader");
    if (status != SR1_OK) {
        sr1__corpus_reader_free(r);
        return status;
    }
    *out = r;
    return SR1_OK;
}

void sr1__corpus_reader_free(struct sr1__corpus_reader *r)
{
    if (r == NULL)
        return;
    if (r->fd >= 0)
        close(r->fd);
    sr1__free(r->path);
    sr1__free(r);
}

static sr1_status read_chunk(struct sr1__corpus_reader *r)
{
    ssize_t n;

    do
        n = read(r->fd, r->chunk, CHUNK);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return sr1__fail_errno("read", r->path);
    r->at = 0;
    r->n = (size_t)n;
    return SR1_OK;
}

/* Append the next line with its end; *n is its bytes, 0 at the end of the file. */
static sr1_status next_line(struct sr1__corpus_reader *r, struct sr1__buf *text,
                            size_t *n)
{
    size_t begin = text->len;
    const char *newline = NULL;

    r->line++;
    while (newline == NULL) {
        const char *from = r->chunk + r->at;
        size_t part;

        if (r->at == r->n) {
            SR1__TRY(read_chunk(r));
            if (r->n == 0)
                break;
            from = r->chunk;
        }
        newline = memchr(from, '\n', r->n - r->at);
        part = newline != NULL ? (size_t)(newline + 1 - from) : r->n - r->at;
        if (part > ROWS_ROW_MAX - (text->len - begin))
            return sr1__fail(SR1_E_LIMIT, "%s:%zu: a row longer than %zu bytes", r->path,
                             r->line, ROWS_ROW_MAX);
        sr1__buf_add(text, from, part);
        SR1__TRY(sr1__buf_status(text, "a row"));
        r->at += part;
    }
    *n = text->len - begin;
    r->done += *n;
    return SR1_OK;
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Cut blanks off both ends of text[*at..*at + n), and a byte order mark off the first
 * line. Returns what is left. */
static size_t trim(const struct sr1__corpus_reader *r, const char *text, size_t *at,
                   size_t n)
{
    if (r->line == 1 && n >= 3 && memcmp(text + *at, "\xEF\xBB\xBF", 3) == 0) {
        *at += 3;
        n -= 3;
    }
    while (n > 0 && is_blank(text[*at + n - 1]))
        n--;
    while (n > 0 && is_blank(text[*at])) {
        ++*at;
        n--;
    }
    return n;
}

sr1_status sr1__corpus_reader_next(struct sr1__corpus_reader *r,
                                   struct sr1__build_item *item, int *ended)
{
    size_t blocks = 0;
    size_t bytes = 0;

    sr1__build_item_clear(item);
    while (blocks < ITEM_BLOCKS) {
        size_t at = item->text.len;
        size_t before = at;
        size_t n = 0;

        SR1__TRY(next_line(r, &item->text, &n));
        if (n == 0) {
            *ended = 1;
            break;
        }
        n = trim(r, item->text.data, &at, n);
        if (n == 0) {
            item->text.len = before; /* nothing is kept of a blank line */
            continue;
        }
        SR1__TRY(sr1__build_item_add(item, at, n, r->line));
        bytes += n;
        if (bytes >= ROWS_FRAME) {
            blocks++;
            bytes = 0;
        }
    }
    item->corpus_end = r->done;
    return SR1_OK;
}

uint64_t sr1__corpus_reader_total(const struct sr1__corpus_reader *r)
{
    return r->total;
}

uint64_t sr1__corpus_reader_done(const struct sr1__corpus_reader *r)
{
    return r->done;
}
