/* text/data/row_files.c - open row files and read single rows. The index has offsets
 * only: a row is read with one pread, and its line number is counted again if an error
 * has to name it. */
#include "text/data/row_files.h"

#include "base/file.h"
#include "base/io.h"
#include "base/magic.h"
#include "base/mem.h"
#include "base/quote.h"
#include "base/rng.h"
#include "base/source.h"
#include "base/text.h"
#include "base/utf8.h"
#include "text/data/csv.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOT_UTF8_REMEDY "write the file in UTF-8 (from Latin-1: iconv -f LATIN1 -t UTF-8)"

struct sr1__row_files {
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

void sr1__row_files_free(struct sr1__row_files *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_files; i++)
        file_free(&r->files[i]);
    sr1__free(r->files);
    sr1__free(r->offsets.at);
    sr1__free(r);
}

static int name_ends_with(const char *name, size_t n, const char *ending)
{
    size_t len = strlen(ending);

    return n > len && memcmp(name + n - len, ending, len) == 0;
}

/* Bytes of the name without .gz or .zst. */
static size_t unpacked_length(const char *name)
{
    size_t n = strlen(name);

    if (name_ends_with(name, n, ".gz"))
        return n - strlen(".gz");
    return name_ends_with(name, n, ".zst") ? n - strlen(".zst") : n;
}

/* By format. */
static const char *const row_endings[] = {".jsonl", ".json", ".csv", ".tsv"};
#define FORMATS ((int)(sizeof row_endings / sizeof *row_endings))

/* The format of a file of this name, -1: it has none of the endings; *stem: bytes before
 * them. */
static int find_row_ending(const char *name, size_t *stem)
{
    size_t n = unpacked_length(name);

    for (int i = 0; i < FORMATS; i++) {
        if (name_ends_with(name, n, row_endings[i])) {
            *stem = n - strlen(row_endings[i]);
            return i;
        }
    }
    return -1;
}

size_t sr1__row_files_stem(const char *name)
{
    size_t n;

    return find_row_ending(name, &n) < 0 ? 0 : n;
}

static sr1_status refuse_parquet(const char *path, size_t stem)
{
    char rows[4096], from[SR1__QUOTED_SIZE], to[SR1__QUOTED_SIZE];

    snprintf(rows, sizeof rows, "%.*s.jsonl", (int)stem, path);
    sr1__quote_word(path, from, sizeof from);
    sr1__quote_word(rows, to, sizeof to);
    return sr1__fail(SR1_E_INVALID,
                     "%s: Parquet is not read; python3 -m searchr1.parquet %s %s makes "
                     "rows of it",
                     path, from, to);
}

static sr1_status find_row_format(const char *path, int *format)
{
    const char *dot = strrchr(path, '.');
    size_t n;

    *format = find_row_ending(path, &n);
    if (*format >= 0)
        return SR1_OK;
    if (dot && strcmp(dot, ".parquet") == 0)
        return refuse_parquet(path, (size_t)(dot - path));
    if (sr1__path_is_dir(path))
        return sr1__fail(SR1_E_INVALID,
                         "%s is a folder, not a file of rows (.jsonl, .json, .csv, .tsv)",
                         path);
    return sr1__fail(
        SR1_E_INVALID,
        "%s: the name must end in .jsonl, .json, .csv or .tsv, or in these with "
        ".gz or .zst",
        path);
}

int sr1__row_files_has_cells(const char *path)
{
    size_t n;

    return sr1__rows_have_cells(find_row_ending(path, &n));
}

static void init_record(struct sr1__csv_record *r, int format)
{
    sr1__csv_record_init(r);
    r->comma = format == SR1__ROWS_TSV ? '\t' : ',';
}

#define MAX_UNPACKED ((uint64_t)1 << 40)

static sr1_status unpack_into(struct sr1__source *from, int fd, const char *path)
{
    const size_t room = (size_t)1 << 18;
    char *bytes = sr1__malloc(room);
    uint64_t all = 0;
    size_t got = room;
    sr1_status st = bytes ? SR1_OK : sr1__fail_nomem("rows");

    while (st == SR1_OK && got == room) {
        st = sr1__source_read(from, bytes, room, &got);
        if (st == SR1_OK && sr1__write_all(fd, bytes, got) != 0)
            st = sr1__fail_errno("write", "a temporary file (TMPDIR)");
        all += got;
        if (st == SR1_OK && all > MAX_UNPACKED)
            st = sr1__fail(SR1_E_LIMIT, "%s: more than 1 TiB when it is unpacked", path);
    }
    sr1__free(bytes);
    return st;
}

/* Rows are read anywhere in a file, and packed ones from its front only: f->fd becomes a
 * temporary file that vanishes with it. */
static sr1_status unpack_rows(struct sr1__row_file *f)
{
    const char *folder = getenv("TMPDIR");
    char *name = sr1__path_join(folder && *folder ? folder : "/tmp", "searchr1-XXXXXX");
    struct sr1__source *from = NULL;
    int fd = name ? mkostemp(name, O_CLOEXEC) : -1;
    sr1_status st = SR1_OK;

    if (!name)
        st = sr1__fail_nomem("path");
    else if (fd < 0)
        st = sr1__fail_errno("make a temporary file (TMPDIR)", name);
    else
        (void)unlink(name);
    sr1__free(name);
    if (st == SR1_OK)
        st = sr1__source_open(&from, f->path);
    if (st == SR1_OK)
        st = unpack_into(from, fd, f->path);
    sr1__source_close(from);
    if (st != SR1_OK) {
        if (fd >= 0)
            close(fd);
        return st;
    }
    close(f->fd);
    f->fd = fd;
    return SR1_OK;
}

static sr1_status open_row_file(struct sr1__row_file *f, const char *path)
{
    char begin[8];
    struct stat st;
    ssize_t n;

    f->fd = -1;
    SR1__TRY(find_row_format(path, &f->format));
    f->path = sr1__strdup(path);
    SR1__CHECK_ALLOC(f->path, "file name");
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        return sr1__fail_errno("open", path);
    if (!S_ISREG(st.st_mode))
        return sr1__fail(SR1_E_IO, "cannot open %s: it is not a regular file", path);
    if (unpacked_length(path) < strlen(path))
        SR1__TRY(unpack_rows(f));
    n = pread(f->fd, begin, sizeof begin, 0);
    return sr1__magic_check(path, begin, n > 0 ? (size_t)n : 0, "rows of text");
}

/* Read exactly [from, from + n) into b. */
static sr1_status read_range(const struct sr1__row_file *f, uint64_t from, size_t n,
                             struct sr1__buf *b)
{
    ssize_t got;

    sr1__buf_clear(b);
    sr1__buf_room(b, n);
    SR1__TRY(sr1__buf_status(b, f->path));
    got = sr1__pread_all(f->fd, b->data, n, from);
    if (got < 0)
        return sr1__fail_errno("read", f->path);
    if ((size_t)got < n)
        return sr1__fail(SR1_E_IO, "%s: the file became shorter while in use", f->path);
    b->len = n;
    b->data[n] = '\0';
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
        return sr1__fail(SR1_E_PARSE, "%s: the header is not UTF-8; " NOT_UTF8_REMEDY,
                         f->path);
    f->columns[f->n_columns] = sr1__strndup(name, n);
    SR1__CHECK_ALLOC(f->columns[f->n_columns], "column names");
    f->n_columns++;
    return SR1_OK;
}

/* A header that is one field, as the file has other separators than its name says; in
 * quotes they are part of the name. */
static sr1_status check_separator(const struct sr1__row_file *f,
                                  const struct sr1__csv_record *header)
{
    size_t n;
    const char *name = sr1__csv_field(header, 0, &n);

    if (header->n > 1 || header->n_quoted > 0 ||
        !(memchr(name, ';', n) || memchr(name, '\t', n) || memchr(name, ',', n)))
        return SR1_OK;
    return sr1__fail(SR1_E_PARSE,
                     "%s: the header is one field, '%.*s'; fields of a .csv file are "
                     "separated by commas, those of a .tsv file by tabs",
                     f->path, (int)(n > 80 ? sr1__utf8_complete(name, 80) : n), name);
}

static sr1_status take_header(struct sr1__row_file *f,
                              const struct sr1__csv_record *header)
{
    sr1_status status = SR1_OK;

    SR1__TRY(check_separator(f, header));
    SR1__CALLOC(f->columns, header->n, "column names");
    for (size_t i = 0; status == SR1_OK && i < header->n; i++) {
        size_t n;
        const char *name = sr1__csv_field(header, i, &n);

        status = add_column(f, name, n);
    }
    return status;
}

/* Where the first line that is not blank begins. */
static size_t skip_blank_lines(const struct sr1__row_file *f, const char *s)
{
    const char *space = f->format == SR1__ROWS_TSV ? " \r" : " \t\r", *line = s;

    while (line[strspn(line, space)] == '\n')
        line += strspn(line, space) + 1;
    return (size_t)(line - s);
}

/* Blank lines and a byte-order mark may stand before the header. */
static sr1_status read_csv_header(struct sr1__row_file *f, uint64_t end)
{
    struct sr1__csv_record *record = sr1__malloc(sizeof *record);
    struct sr1__buf b;
    const char *s;
    size_t used, skip;
    sr1_status status;

    SR1__CHECK_ALLOC(record, "header");
    init_record(record, f->format);
    sr1__buf_init(&b, 2 * SR1__ROW_MAX);
    status = read_range(f, 0, (size_t)end, &b);
    if (status == SR1_OK) {
        s = sr1__buf_cstr(&b);
        skip = sr1__utf8_mark(s, b.len);
        skip += skip_blank_lines(f, s + skip);
        status = sr1__csv_parse(record, s + skip, b.len - skip, &used, f->path);
    }
    if (status == SR1_OK)
        status = take_header(f, record);
    sr1__buf_free(&b);
    sr1__csv_record_free(record);
    sr1__free(record);
    return status;
}

static sr1_status add_row_file(struct sr1__row_files *r, const char *path)
{
    struct sr1__row_file *f = &r->files[r->n_files++];
    size_t before = r->offsets.n;
    uint64_t header_end = 0;

    f->first_row = r->n_rows;
    SR1__TRY(open_row_file(f, path));
    SR1__TRY(sr1__row_files_index(f, &r->offsets, &header_end));
    if (sr1__rows_have_cells(f->format))
        SR1__TRY(read_csv_header(f, header_end));
    r->n_rows += (int64_t)(r->offsets.n - before) - 1;
    return SR1_OK;
}

sr1_status sr1__row_files_open(struct sr1__row_files **out, const char *const *paths,
                               size_t n_paths)
{
    struct sr1__row_files *r;
    sr1_status status = SR1_OK;

    if (n_paths == 0)
        return sr1__fail(SR1_E_INVALID, "no file of rows was given");
    SR1__CALLOC(r, 1, "row files");
    r->files = sr1__calloc(n_paths, sizeof *r->files);
    if (!r->files)
        status = sr1__fail_nomem("row files");
    for (size_t i = 0; status == SR1_OK && i < n_paths; i++)
        status = paths[i]
                     ? add_row_file(r, paths[i])
                     : sr1__fail(SR1_E_INVALID, "path %zu of %zu is NULL", i, n_paths);
    if (status == SR1_OK && r->n_rows == 0)
        status = sr1__fail(SR1_E_PARSE, "%s: there is no row in it", paths[0]);
    SR1__RETURN_NEW(out, r, status, sr1__row_files_free);
}

int64_t sr1__row_files_count(const struct sr1__row_files *r)
{
    return r->n_rows;
}

size_t sr1__row_files_file(const struct sr1__row_files *r, int64_t i)
{
    size_t f = r->n_files - 1;

    while (r->files[f].first_row > i)
        f--;
    return f;
}

const char *sr1__row_files_path(const struct sr1__row_files *r, int64_t i)
{
    return r->files[sr1__row_files_file(r, i)].path;
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

sr1_status sr1__row_files_distinct(const struct sr1__row_files *r, const char *path)
{
    for (size_t f = 0; f < r->n_files; f++)
        SR1__TRY(sr1__path_distinct(r->files[f].path, path));
    return SR1_OK;
}

uint64_t sr1__row_files_line(const struct sr1__row_files *r, int64_t i)
{
    size_t f = sr1__row_files_file(r, i);

    return line_at(&r->files[f], r->offsets.at[(size_t)i + f]);
}

/* Which row of its file it is, from 1 on, where it stands behind another one in its line
 * (a list of JSON may be one line); else 0. */
static uint64_t number_in_line(const struct sr1__row_files *r, int64_t i, uint64_t line)
{
    int64_t first = r->files[sr1__row_files_file(r, i)].first_row;

    if (i == first || sr1__row_files_line(r, i - 1) != line)
        return 0;
    return (uint64_t)(i - first) + 1;
}

sr1_status sr1__row_files_context(const struct sr1__row_files *r, int64_t i,
                                  sr1_status status)
{
    unsigned long long line, number;

    if (status == SR1_OK)
        return SR1_OK; /* counting lines is for errors */
    line = sr1__row_files_line(r, i);
    number = number_in_line(r, i, line);
    if (number == 0)
        return sr1__context(status, "%s:%llu", sr1__row_files_path(r, i), line);
    return sr1__context(status, "%s:%llu, row %llu", sr1__row_files_path(r, i), line,
                        number);
}

static sr1_status add_cell(json_t *row, const char *column, const char *s, size_t n)
{
    json_t *v;

    if (!sr1__utf8_valid(s, n))
        return sr1__fail(SR1_E_PARSE, "column '%s' is not UTF-8; " NOT_UTF8_REMEDY,
                         column);
    v = json_stringn(s, n);
    if (!v || json_object_set_new(row, column, v) != 0)
        return sr1__fail_nomem("row");
    return SR1_OK;
}

static sr1_status fill_row(const struct sr1__row_file *f,
                           const struct sr1__csv_record *record, json_t *row)
{
    if (record->n != f->n_columns)
        return sr1__fail(SR1_E_PARSE, "%zu field%s where the header has %zu", record->n,
                         record->n == 1 ? "" : "s", f->n_columns);
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
    init_record(record, f->format);
    status = sr1__csv_parse(record, sr1__buf_cstr(b), b->len, &used, "row");
    if (status == SR1_OK)
        status = fill_row(f, record, row);
    sr1__csv_record_free(record);
    sr1__free(record);
    SR1__RETURN_NEW(out, row, status, json_decref);
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

/* A row of s[0..n) that does not parse, for a reason that the whole file may have. */
static sr1_status explain_broken_json(const struct sr1__row_file *f, const char *s,
                                      size_t n, sr1_status status)
{
    size_t begin = 0;

    if (!sr1__utf8_valid(s, n))
        return sr1__fail(status, "%s; " NOT_UTF8_REMEDY, sr1_last_error());
    sr1__strip(s, &begin, &n);
    if (f->format == SR1__ROWS_JSONL && n == 1 && strchr("[{", s[begin]))
        return sr1__fail(
            status,
            "%s; each line of a .jsonl file is one whole object; a list over "
            "several lines is named .json",
            sr1_last_error());
    return status;
}

/* As other programs write rows, but for numbers that would be rounded: ids of two rows
 * might become one, and an answer could not be met. */
static sr1_status parse_json_row(json_t **out, const char *s, size_t n)
{
    sr1_status status = sr1__json_parse(out, s, n, NULL);

    if (status != SR1_E_PARSE)
        return status;
    SR1__TRY(sr1__json_refuse_big(s, n));
    return sr1__json_parse_loose(out, s, n, NULL);
}

static sr1_status json_row(const struct sr1__row_file *f, const struct sr1__buf *b,
                           json_t **out)
{
    const char *s = sr1__buf_cstr(b);
    size_t n = without_tail(s, b->len, f->format == SR1__ROWS_JSON ? " \t\r\n," : "\r\n");
    json_t *j = NULL;
    sr1_status status;

    if (n > SR1__ROW_MAX)
        return row_too_long();
    status = parse_json_row(&j, s, n);
    if (status == SR1_E_PARSE)
        return explain_broken_json(f, s, n, status);
    SR1__TRY(status);
    if (!json_is_object(j)) {
        json_decref(j);
        return sr1__fail(SR1_E_PARSE, "each row must be an object {...}; a file that is "
                                      "one list of them is named .json");
    }
    *out = j;
    return SR1_OK;
}

/* The bytes of row i, and what may stand between it and the next one. */
static sr1_status read_row_bytes(const struct sr1__row_files *r, int64_t i,
                                 struct sr1__buf *b)
{
    size_t f = sr1__row_files_file(r, i);
    const uint64_t *at = r->offsets.at + (size_t)i + f;

    if (at[1] - at[0] > 2 * SR1__ROW_MAX)
        return row_too_long();
    return read_range(&r->files[f], at[0], (size_t)(at[1] - at[0]), b);
}

static sr1_status read_indexed_row(const struct sr1__row_files *r, int64_t i,
                                   struct sr1__buf *b, json_t **out)
{
    const struct sr1__row_file *file = &r->files[sr1__row_files_file(r, i)];

    SR1__TRY(read_row_bytes(r, i, b));
    return sr1__rows_have_cells(file->format) ? csv_row(file, b, out)
                                              : json_row(file, b, out);
}

sr1_status sr1__row_files_hash(const struct sr1__row_files *r, int64_t i, uint64_t *hash)
{
    struct sr1__buf b;
    sr1_status status;
    size_t n;

    sr1__buf_init(&b, 2 * SR1__ROW_MAX);
    status = read_row_bytes(r, i, &b);
    n = without_tail(sr1__buf_cstr(&b), b.len, " \t\r\n,");
    if (status == SR1_OK)
        *hash = sr1__hash64(sr1__buf_cstr(&b), n, *hash);
    sr1__buf_free(&b);
    return sr1__row_files_context(r, i, status);
}

sr1_status sr1__row_files_read(const struct sr1__row_files *r, int64_t i, json_t **out)
{
    struct sr1__buf b;
    sr1_status status;

    if (i < 0 || i >= r->n_rows)
        return sr1__fail(SR1_E_INVALID, "row %lld of %lld is asked for", (long long)i,
                         (long long)r->n_rows);
    sr1__buf_init(&b, 2 * SR1__ROW_MAX);
    status = read_indexed_row(r, i, &b, out);
    sr1__buf_free(&b);
    return sr1__row_files_context(r, i, status);
}
