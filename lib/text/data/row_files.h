/* text/data/row_files.h - files of rows, indexed in one pass and read on demand as JSON
 * objects. */
#ifndef SR1__DATA_ROW_FILES_H
#define SR1__DATA_ROW_FILES_H

#include "base/json.h"

#define SR1__ROW_MAX ((size_t)1 << 24)

struct sr1__row_files;

/* Formats by ending: .jsonl, .json, .csv, .tsv, each also packed as .gz or .zst, which is
 * unpacked into a temporary file without a name. A set without rows is an error. */
sr1_status sr1__row_files_open(struct sr1__row_files **out, const char *const *paths,
                               size_t n_paths);
void sr1__row_files_free(struct sr1__row_files *r);
int64_t sr1__row_files_count(const struct sr1__row_files *r);

/* Row i as a new object; a CSV row has a string for each column. Threads may read at
 * once. */
sr1_status sr1__row_files_read(const struct sr1__row_files *r, int64_t i, json_t **out);

/* Fold the bytes of row i into *hash. */
sr1_status sr1__row_files_hash(const struct sr1__row_files *r, int64_t i, uint64_t *hash);

/* Bytes of a file's name before its endings: "nq" of "nq.jsonl.gz"; 0: it is no name of
 * rows. */
size_t sr1__row_files_stem(const char *name);

/* By its name: a file of cells, CSV or TSV, which are all texts. */
int sr1__row_files_has_cells(const char *path);
/* "path" of the file that holds row i. */
const char *sr1__row_files_path(const struct sr1__row_files *r, int64_t i);

/* The number of that file. */
size_t sr1__row_files_file(const struct sr1__row_files *r, int64_t i);

/* The line of that file on which row i begins; 0 when it cannot be read any more. */
uint64_t sr1__row_files_line(const struct sr1__row_files *r, int64_t i);

/* Put "path:line: " of row i, "path:line, row N: " where rows share a line, before the
 * text of a failure; returns status. */
sr1_status sr1__row_files_context(const struct sr1__row_files *r, int64_t i,
                                  sr1_status status);

/* SR1_E_INVALID where path leads to a file of these rows, which it would replace. */
sr1_status sr1__row_files_distinct(const struct sr1__row_files *r, const char *path);

/* One file while it is indexed: the ending tells the format. */
enum { SR1__ROWS_JSONL, SR1__ROWS_JSON, SR1__ROWS_CSV, SR1__ROWS_TSV };

/* Of records of cells, under a header. */
static inline int sr1__rows_have_cells(int format)
{
    return format == SR1__ROWS_CSV || format == SR1__ROWS_TSV;
}

struct sr1__row_file {
    char *path;
    int fd;
    int format;
    int64_t first_row;
    char **columns; /* of cells: the header */
    size_t n_columns;
};

/* Offsets of rows, growing. A file ends with one more: where its last row ends. */
struct sr1__offsets {
    uint64_t *at;
    size_t n;
    size_t cap;
};

sr1_status sr1__row_files_index(const struct sr1__row_file *f,
                                struct sr1__offsets *offsets, uint64_t *header_end);

#endif
