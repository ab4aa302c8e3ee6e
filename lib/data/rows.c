/* data/rows.c - row files opened, one row read. The index is offsets only, so a row is
 * read with one pread, and its line is counted again when an error must name it. */
#include "data/rows.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "data/csv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sr1__rows {
    struct sr1__row_file *files;
    size_t n_files;
    struct sr1__offsets offsets; /* row i of file f at [i + f] */
    int64_t n_rows;
};

static void file_free(struct sr1__row_file *f)
{
    for (size_t i = 0; i < f->n_columns; i++)
        sr1__free(f->columns[i]);
    sr1__free(f->columns);
    sr1__free(f->path);
    if (f->fd >= 0)
        close(f->fd);
}

void sr1__rows_free(struct sr1__rows *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_files; i++)
        file_free(&r->files[i]);
    sr1__free(r->files);
    sr1__free(r->offsets.at);
    sr1__free(r);
}

static sr1_status format_of(const char *path, int *format)
{
    static const char *const endings[] = {".jsonl", ".json", ".csv"};
    const char *dot = strrchr(path, '.');

    for (int i = 0; i < 3; i++) {
        if (dot && strcmp(dot, endings[i]) == 0) {
            *format = i;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_INVALID, "%s: the name must end in .jsonl, .json or .csv",
                     path);
}

static sr1_status open_file(struct sr1__row_file *f, const char *path)
{
    struct stat st;

    f->fd = -1;
    SR1__TRY(format_of(path, &f->format));
    f->path = sr1__strdup(path);
    if (!f->path)
        return sr1__fail_nomem("file name");
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        return sr1__fail_errno("open", path);
    if (!S_ISREG(st.st_mode))
        return sr1__fail(SR1_E_IO, "cannot open %s: it is not a regular file", path);
    return SR1_OK;
}

/* Read exactly [from, from + n) into b. */
static sr1_status read_range(const struct sr1__row_file *f, uint64_t from, size_t n,
                             struct sr1__buf *b)
{
    char chunk[4096];

    sr1__buf_clear(b);
    while (b->len < n) {
        size_t want = n - b->len < sizeof chunk ? n - b->len : sizeof chunk;
        ssize_t got = pread(f->fd, chunk, want, (off_t)(from + b->len));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sr1__fail_errno("read", f->path);
        if (got == 0)
            return sr1__fail(SR1_E_IO, "%s: the file became shorter while in use",
                             f->path);
        sr1__buf_add(b, chunk, (size_t)got);
        SR1__TRY(sr1__buf_status(b, f->path));
    }
    return SR1_OK;
}

static sr1_status add_column(struct sr1__row_file *f, const char *name, size_t n)
{
    for (size_t i = 0; i < f->n_columns; i++) {
        if (strlen(f->columns[i]) == n && memcmp(f->columns[i], name, n) == 0)
            return sr1__fail(SR1_E_PARSE, "%s: two columns are named '%s'", f->path,
                             f->columns[i]);
    }
    if (!sr1__utf8_valid(name, n))
        return sr1__fail(SR1_E_PARSE, "%s: the header is not UTF-8", f->path);
    f->columns[f->n_columns] = sr1__strndup(name, n);
    if (!f->columns[f->n_columns])
        return sr1__fail_nomem("column names");
    f->n_columns++;
    return SR1_OK;
}

static sr1_status take_header(struct sr1__row_file *f,
                              const struct sr1__csv_record *header)
{
    sr1_status status = SR1_OK;

    f->columns = sr1__calloc(header->n, sizeof *f->columns);
    if (!f->columns)
        return sr1__fail_nomem("column names");
    for (size_t i = 0; status == SR1_OK && i < header->n; i++) {
        size_t n;
        const char *name = sr1__csv_field(header, i, &n);

        status = add_column(f, name, n);
    }
    return status;
}

/* Blank lines and a byte-order mark may stand before the header. */
static sr1_status read_header(struct sr1__row_file *f, uint64_t end)
{
    struct sr1__csv_record *record = sr1__malloc(sizeof *record);
    struct sr1__buf b;
    const char *s;
    size_t used, skip;
    sr1_status status;

    if (!record)
        return sr1__fail_nomem("header");
    sr1__csv_record_init(record);
    sr1__buf_init(&b, 2 * SR1__ROW_MAX);
    status = read_range(f, 0, (size_t)end, &b);
    if (status == SR1_OK) {
        s = sr1__buf_cstr(&b);
        skip = strncmp(s, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        skip += strspn(s + skip, " \t\r\n");
        status = sr1__csv_parse(record, s + skip, b.len - skip, &used, f->path);
    }
    if (status == SR1_OK)
        status = take_header(f, record);
    sr1__buf_free(&b);
    sr1__csv_record_free(record);
    sr1__free(record);
    return status;
}

static sr1_status add_file(struct sr1__rows *r, const char *path)
{
    struct sr1__row_file *f = &r->files[r->n_files++];
    size_t before = r->offsets.n;
    uint64_t header_end = 0;

    f->first_row = r->n_rows;
    SR1__TRY(open_file(f, path));
    SR1__TRY(sr1__rows_index(f, &r->offsets, &header_end));
    if (f->format == SR1__ROWS_CSV)
        SR1__TRY(read_header(f, header_end));
    r->n_rows += (int64_t)(r->offsets.n - before) - 1;
    return SR1_OK;
}

sr1_status sr1__rows_open(struct sr1__rows **out, const char *const *paths,
                          size_t n_paths)
{
    struct sr1__rows *r;
    sr1_status status = SR1_OK;

    if (n_paths == 0)
        return sr1__fail(SR1_E_INVALID, "no file of rows was given");
    r = sr1__calloc(1, sizeof *r);
    if (!r)
        return sr1__fail_nomem("row files");
    r->files = sr1__calloc(n_paths, sizeof *r->files);
    if (!r->files)
        status = sr1__fail_nomem("row files");
    for (size_t i = 0; status == SR1_OK && i < n_paths; i++)
        status = add_file(r, paths[i]);
    if (status == SR1_OK && r->n_rows == 0)
        status = sr1__fail(SR1_E_PARSE, "%s: there is no row in it", paths[0]);
    if (status != SR1_OK) {
        sr1__rows_free(r);
        return status;
    }
    *out = r;
    return SR1_OK;
}

int64_t sr1__rows_count(const struct sr1__rows *r)
{
    return r->n_rows;
}

static size_t file_of(const struct sr1__rows *r, int64_t i)
{
    size_t f = r->n_files - 1;

    while (r->files[f].first_row > i)
        f--;
    return f;
}

const char *sr1__rows_path(const struct sr1__rows *r, int64_t i)
{
    return r->files[file_of(r, i)].path;
}

/* Line ends before this offset, plus 1; 0 when the file cannot be read any more. */
static uint64_t line_at(const struct sr1__row_file *f, uint64_t offset)
{
    char chunk[16384];
    uint64_t line = 1;

    for (uint64_t at = 0; at < offset;) {
        size_t want = offset - at < sizeof chunk ? (size_t)(offset - at) : sizeof chunk;
        ssize_t got = pread(f->fd, chunk, want, (off_t)at);

        if (got <= 0)
            return 0;
        for (ssize_t i = 0; i < got; i++)
            line += chunk[i] == '\n';
        at += (uint64_t)got;
    }
    return line;
}

sr1_status sr1__rows_context(const struct sr1__rows *r, int64_t i, sr1_status status)
{
    size_t f = file_of(r, i);

    if (status == SR1_OK)
        return SR1_OK; /* counting lines is for errors */
    return sr1__context(
        status, "%s:%llu", r->files[f].path,
        (unsigned long long)line_at(&r->files[f], r->offsets.at[(size_t)i + f]));
}

static sr1_status add_cell(json_t *row, const char *column, const char *s, size_t n)
{
    json_t *v;

    if (!sr1__utf8_valid(s, n))
        return sr1__fail(SR1_E_PARSE, "column '%s' is not UTF-8", column);
    v = json_stringn(s, n);
    if (!v || json_object_set_new(row, column, v) != 0)
        return sr1__fail_nomem("row");
    return SR1_OK;
}

static sr1_status fill_row(const struct sr1__row_file *f,
                           const struct sr1__csv_record *record, json_t *row)
{
    if (record->n != f->n_columns)
        return sr1__fail(SR1_E_PARSE, "%zu fields where the header has %zu", record->n,
                         f->n_columns);
    for (size_t i = 0; i < record->n; i++) {
        size_t n;
        const char *s = sr1__csv_field(record, i, &n);

        SR1__TRY(add_cell(row, f->columns[i], s, n));
    }
    return SR1_OK;
}

static sr1_status csv_row(const struct sr1__row_file *f, const struct sr1__buf *b,
                          json_t **out)
{
    struct sr1__csv_record *record = sr1__malloc(sizeof *record);
    json_t *row = json_object();
    size_t used;
    sr1_status status = SR1_OK;

    if (!record || !row) {
        sr1__free(record);
        json_decref(row);
        return sr1__fail_nomem("row");
    }
    sr1__csv_record_init(record);
    status = sr1__csv_parse(record, sr1__buf_cstr(b), b->len, &used, "row");
    if (status == SR1_OK)
        status = fill_row(f, record, row);
    sr1__csv_record_free(record);
    sr1__free(record);
    if (status != SR1_OK) {
        json_decref(row);
        return status;
    }
    *out = row;
    return SR1_OK;
}

/* Between two rows of an array stand spaces and one comma. */
static size_t without_tail(const char *s, size_t n, const char *tail)
{
    while (n > 0 && strchr(tail, s[n - 1]) && s[n - 1] != '\0')
        n--;
    return n;
}

static sr1_status row_too_long(void)
{
    return sr1__fail(SR1_E_LIMIT, "a row above 16 MiB");
}

static sr1_status json_row(const struct sr1__row_file *f, const struct sr1__buf *b,
                           json_t **out)
{
    const char *s = sr1__buf_cstr(b);
    size_t n = without_tail(s, b->len, f->format == SR1__ROWS_JSON ? " \t\r\n," : "\r\n");
    json_t *j = NULL;

    if (n > SR1__ROW_MAX)
        return row_too_long();
    SR1__TRY(sr1__json_parse(&j, s, n, "row"));
    if (!json_is_object(j)) {
        json_decref(j);
        return sr1__fail(SR1_E_PARSE, "each row must be an object {...}");
    }
    *out = j;
    return SR1_OK;
}

static sr1_status read_row(const struct sr1__rows *r, int64_t i, struct sr1__buf *b,
                           json_t **out)
{
    size_t f = file_of(r, i);
    const struct sr1__row_file *file = &r->files[f];
    const uint64_t *at = r->offsets.at + (size_t)i + f;

    if (at[1] - at[0] > 2 * SR1__ROW_MAX)
        return row_too_long();
    SR1__TRY(read_range(file, at[0], (size_t)(at[1] - at[0]), b));
    return file->format == SR1__ROWS_CSV ? csv_row(file, b, out) : json_row(file, b, out);
}

sr1_status sr1__rows_read(const struct sr1__rows *r, int64_t i, json_t **out)
{
    struct sr1__buf b;
    sr1_status status;

    if (i < 0 || i >= r->n_rows)
        return sr1__fail(SR1_E_INVALID, "row %lld of %lld is asked for", (long long)i,
                         (long long)r->n_rows);
    sr1__buf_init(&b, 2 * SR1__ROW_MAX);
    status = read_row(r, i, &b, out);
    sr1__buf_free(&b);
    return sr1__rows_context(r, i, status);
}
