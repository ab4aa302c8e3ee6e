/* retrieval/search/corpus_reader.c - see corpus_reader.h. Rows are copied once, from the
 * file's buffer to the item; those of a TSV file become JSON there. */
#include "retrieval/search/corpus_reader.h"

#include "base/magic.h"
#include "base/mem.h"
#include "base/source.h"
#include "base/text.h"
#include "base/utf8.h"
#include "retrieval/search/stored_rows.h"
#include "retrieval/search/tsv_row.h"

#include <string.h>

#define CHUNK ((size_t)1 << 16)
#define ITEM_BLOCKS 8

struct sr1__corpus_reader {
    struct sr1__source *source;
    char *path;
    int is_tsv;            /* rows are lines of DPR's passages */
    struct sr1__buf cells; /* of such a line, */
    struct sr1__buf row;   /* which is this row */
    size_t line;
    size_t at; /* chunk[at..n) is not read yet */
    size_t n;
    char chunk[CHUNK];
};

/* Refuse a file of another kind, with an error that says which. */
static sr1_status check_corpus_kind(struct sr1__corpus_reader *r)
{
    size_t at = sr1__utf8_mark(r->chunk, r->n);

    SR1__TRY(sr1__magic_check(r->path, r->chunk, r->n, "a corpus of JSON rows"));
    r->is_tsv = sr1__tsv_is_header(r->chunk + at, r->n - at);
    if (r->is_tsv)
        return SR1_OK;
    while (at < r->n && sr1__is_json_space(r->chunk[at]))
        at++;
    if (at == r->n || r->chunk[at] == '{')
        return SR1_OK;
    return sr1__fail(SR1_E_PARSE,
                     "%s is no corpus: a corpus has one JSON object a line, as in "
                     "{\"id\": \"7\", \"contents\": \"Title\\nText\"}, or is a TSV "
                     "file whose first line is id, text, title",
                     r->path);
}

static sr1_status open_corpus_file(struct sr1__corpus_reader *r, const char *path)
{
    sr1__buf_init(&r->cells, 0);
    sr1__buf_init(&r->row, 0);
    r->path = sr1__strdup(path);
    if (r->path == NULL)
        return sr1__fail_nomem("corpus reader");
    SR1__TRY(sr1__source_open(&r->source, r->path));
    SR1__TRY(sr1__source_read(r->source, r->chunk, CHUNK, &r->n));
    return check_corpus_kind(r);
}

sr1_status sr1__corpus_reader_open(struct sr1__corpus_reader **out, const char *path)
{
    struct sr1__corpus_reader *r = sr1__calloc(1, sizeof(*r));
    sr1_status status;

    if (r == NULL)
        return sr1__fail_nomem("corpus reader");
    status = open_corpus_file(r, path);
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
    sr1__source_close(r->source);
    sr1__buf_free(&r->cells);
    sr1__buf_free(&r->row);
    sr1__free(r->path);
    sr1__free(r);
}

static sr1_status read_corpus_chunk(struct sr1__corpus_reader *r)
{
    r->at = 0;
    return sr1__source_read(r->source, r->chunk, CHUNK, &r->n);
}

/* Append the next line with its end; *n is its bytes, 0 at the end of the file. */
static sr1_status read_corpus_line(struct sr1__corpus_reader *r, struct sr1__buf *text,
                                   size_t *n)
{
    size_t begin = text->len;
    const char *newline = NULL;

    r->line++;
    while (newline == NULL) {
        const char *from = r->chunk + r->at;
        size_t part;

        if (r->at == r->n) {
            SR1__TRY(read_corpus_chunk(r));
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
    return SR1_OK;
}

/* Cut blanks off both ends of text[*at..*at + n), and a byte order mark off the first
 * line. Returns what is left. */
static size_t trim_row(const struct sr1__corpus_reader *r, const char *text, size_t *at,
                       size_t n)
{
    size_t mark = r->line == 1 ? sr1__utf8_mark(text + *at, n) : 0;

    *at += mark;
    n -= mark;
    while (n > 0 && sr1__is_json_space(text[*at + n - 1]))
        n--;
    while (n > 0 && sr1__is_json_space(text[*at])) {
        ++*at;
        n--;
    }
    return n;
}

/* A line of n bytes at the end of text becomes a row of *n at *at; 0: it holds none. */
static sr1_status make_row(struct sr1__corpus_reader *r, struct sr1__buf *text,
                           size_t *at, size_t *n)
{
    size_t begin = *at;

    if (!r->is_tsv || r->line == 1) {
        *n = r->is_tsv ? 0 : trim_row(r, text->data, at, *n);
        return SR1_OK;
    }
    sr1__buf_clear(&r->row);
    SR1__TRY(sr1__context(sr1__tsv_row_json(text->data + begin, *n, &r->cells, &r->row),
                          "%s:%zu", r->path, r->line));
    text->len = begin;
    sr1__buf_add(text, r->row.data, r->row.len);
    *n = text->len - begin;
    return sr1__buf_status(text, "a row");
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

        SR1__TRY(read_corpus_line(r, &item->text, &n));
        if (n == 0) {
            *ended = 1;
            break;
        }
        SR1__TRY(make_row(r, &item->text, &at, &n));
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
    item->corpus_end = sr1__corpus_reader_done(r);
    return SR1_OK;
}

uint64_t sr1__corpus_reader_total(const struct sr1__corpus_reader *r)
{
    return sr1__source_size(r->source);
}

uint64_t sr1__corpus_reader_done(const struct sr1__corpus_reader *r)
{
    return sr1__source_packing(r->source) != NULL
               ? sr1__source_at(r->source)
               : sr1__source_at(r->source) - (r->n - r->at);
}
