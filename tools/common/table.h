/* table.h - rows of text under headings, in columns as wide as what they hold. */
#ifndef SR1_TOOLS_TABLE_H
#define SR1_TOOLS_TABLE_H

#include <stddef.h>
#include <stdio.h>

enum table_align { TABLE_LEFT, TABLE_RIGHT };

struct table_column {
    const char *heading;
    enum table_align align;
    int max_width; /* longer cells are cut with "..."; 0: as wide as they are */
};

struct table {
    const struct table_column *columns;
    size_t n_columns;
    char **cells; /* [n_rows][n_columns] */
    size_t n_rows;
    int failed; /* memory ran out: rows are missing */
};

/* Bytes of UTF-8 text that its first `width` characters have. */
size_t text_prefix(const char *s, int width);

void table_begin(struct table *t, const struct table_column *columns, size_t n);
/* One row; cells are copied, NULL is an empty cell. Line ends become spaces. */
void table_row(struct table *t, const char *const *cells);
/* Print and free. Returns 0, or -1 when memory ran out on the way. */
int table_end(struct table *t, FILE *out);

#endif
