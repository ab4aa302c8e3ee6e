/* text/data/jsonl.c - see jsonl.h. */
#include "text/data/jsonl.h"

#include "base/append.h"
#include "base/mem.h"
#include "text/data/row_files.h"

#include <errno.h>
#include <unistd.h>

struct sr1__jsonl {
    int fd;
    uint64_t size;
    char *path;
    struct sr1__buf line;
};

/* All n bytes at an offset, which the file had when it was looked at. */
static sr1_status read_at(const struct sr1__jsonl *w, void *bytes, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(w->fd, (char *)bytes + done, n - done, (off_t)(at + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sr1__fail_errno("read", w->path);
        if (got == 0)
            return sr1__fail(SR1_E_IO,
                             "cannot read %s: it was cut while it was opened; end the "
                             "other program that writes it",
                             w->path);
        done += (size_t)got;
    }
    return SR1_OK;
}

/* *size becomes the offset behind the last line end in the file, 0 when there is none. */
static sr1_status whole_lines(const struct sr1__jsonl *w, uint64_t *size)
{
    char chunk[4096];
    uint64_t at = *size;

    while (at > 0) {
        uint64_t from = at > sizeof chunk ? at - sizeof chunk : 0;

        SR1__TRY(read_at(w, chunk, (size_t)(at - from), from));
        for (; at > from; at--) {
            if (chunk[at - from - 1] == '\n') {
                *size = at;
                return SR1_OK;
            }
        }
    }
    *size = 0;
    return SR1_OK;
}

sr1_status sr1__jsonl_truncate(struct sr1__jsonl *w, uint64_t size)
{
    return sr1__append_cut(w->fd, w->path, &w->size, size);
}

/* Whether what follows from, behind the last line end, is an object of its own: a line
 * written by hand, not a torn one. */
static sr1_status is_record(const struct sr1__jsonl *w, uint64_t from, int *yes)
{
    size_t n = (size_t)(w->size - from);
    json_t *o = NULL;
    char *text;
    sr1_status status;

    *yes = 0;
    if (w->size - from > SR1__ROW_MAX)
        return SR1_OK;
    text = sr1__malloc(n);
    SR1__CHECK_ALLOC(text, "record writer");
    status = read_at(w, text, n, from);
    if (status == SR1_OK && sr1__json_parse(&o, text, n, "record") == SR1_E_NOMEM)
        status = SR1_E_NOMEM;
    *yes = json_is_object(o);
    json_decref(o);
    sr1__free(text);
    return status;
}

static sr1_status open_at_end(struct sr1__jsonl *w)
{
    uint64_t size;
    int whole;

    SR1__TRY(sr1__append_open(&w->fd, w->path, &w->size));
    size = w->size;
    SR1__TRY(whole_lines(w, &size));
    if (size == w->size)
        return SR1_OK;
    SR1__TRY(is_record(w, size, &whole));
    return whole ? sr1__append(w->fd, w->path, &w->size, "\n", 1)
                 : sr1__jsonl_truncate(w, size);
}

sr1_status sr1__jsonl_open(struct sr1__jsonl **out, const char *path)
{
    struct sr1__jsonl *w = sr1__calloc(1, sizeof *w);

    SR1__CHECK_ALLOC(w, "record writer");
    w->fd = -1;
    sr1__buf_init(&w->line, 0);
    w->path = sr1__strdup(path);
    SR1__RETURN_NEW(out, w, w->path ? open_at_end(w) : sr1__fail_nomem("record writer"),
                    sr1__jsonl_close);
}

sr1_status sr1__jsonl_add(struct sr1__jsonl *w, const json_t *record)
{
    sr1__buf_clear(&w->line);
    SR1__TRY(sr1__json_dump(record, 0, &w->line));
    sr1__buf_char(&w->line, '\n');
    SR1__TRY(sr1__buf_status(&w->line, w->path));
    return sr1__append(w->fd, w->path, &w->size, w->line.data, w->line.len);
}

uint64_t sr1__jsonl_size(const struct sr1__jsonl *w)
{
    return w->size;
}

sr1_status sr1__jsonl_sync(struct sr1__jsonl *w)
{
    return sr1__append_sync(w->fd, w->path);
}

void sr1__jsonl_close(struct sr1__jsonl *w)
{
    if (!w)
        return;
    sr1__append_close(w->fd);
    sr1__buf_free(&w->line);
    sr1__free(w->path);
    sr1__free(w);
}
