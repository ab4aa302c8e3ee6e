/* table.c - see table.h. Widths count characters: wide ones (CJK) take one place too
 * many. */
#include "table.h"

#include "progress.h"

#include <stdlib.h>
#include <string.h>

#define LAST_LEAST 16 /* columns of text that are always shown */

void table_begin(struct table *t, const struct table_column *columns, size_t n)
{
    memset(t, 0, sizeof(*t));
    t->columns = columns;
    t->n_columns = n;
}

/* Characters of UTF-8 text. */
static int width_of(const char *s)
{
    int n = 0;

    for (; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static void cut(char *s, int max)
{
    int n = 0;

    if (max < 4 || width_of(s) <= max)
        return;
    for (; *s != '\0'; s++) {
        n += ((unsigned char)*s & 0xC0) != 0x80;
        if (n == max - 2) {
            strcpy(s, "...");
            return;
        }
    }
}

/* A copy on one line, cut to the column; room for the dots is always there. */
static char *cell_copy(const char *s, int max)
{
    char *copy = malloc(strlen(s) + 4);

    if (copy == NULL)
        return NULL;
    strcpy(copy, s);
    for (char *p = copy; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            *p = ' ';
    }
    cut(copy, max);
    return copy;
}

void table_row(struct table *t, const char *const *cells)
{
    char **grown = realloc(t->cells, (t->n_rows + 1) * t->n_columns * sizeof(*grown));

    if (grown == NULL) {
        t->failed = 1;
        return;
    }
    t->cells = grown;
    for (size_t i = 0; i < t->n_columns; i++) {
        char *copy = cell_copy(cells[i] != NULL ? cells[i] : "", t->columns[i].max_width);

        t->failed |= copy == NULL;
        t->cells[t->n_rows * t->n_columns + i] = copy;
    }
    t->n_rows++;
}

static void print_cell(const char *s, enum table_align align, int width, int last,
                       FILE *out)
{
    int pad = width - width_of(s);

    if (align == TABLE_RIGHT)
        fprintf(out, "%*s", pad, "");
    fputs(s, out);
    if (align == TABLE_LEFT && !last)
        fprintf(out, "%*s", pad, "");
    fputs(last ? "\n" : "  ", out);
}

static int column_width(const struct table *t, size_t column)
{
    int width = width_of(t->columns[column].heading);

    for (size_t r = 0; r < t->n_rows; r++) {
        const char *cell = t->cells[r * t->n_columns + column];
        int w = cell != NULL ? width_of(cell) : 0;

        width = w > width ? w : width;
    }
    return width;
}

/* On a terminal the last column, where it is text, is cut to the place that is left:
 * lines that wrap are no table. */
static void fit(struct table *t, FILE *out)
{
    size_t last = t->n_columns - 1;
    int room = terminal_width(fileno(out));

    if (room == 0 || t->columns[last].align != TABLE_LEFT)
        return;
    for (size_t i = 0; i < last; i++)
        room -= column_width(t, i) + 2;
    for (size_t r = 0; r < t->n_rows; r++) {
        char *cell = t->cells[r * t->n_columns + last];

        if (cell != NULL)
            cut(cell, room > LAST_LEAST ? room : LAST_LEAST);
    }
}

int table_end(struct table *t, FILE *out)
{
    fit(t, out);
    for (size_t r = 0; r <= t->n_rows; r++) {
        for (size_t i = 0; i < t->n_columns; i++) {
            const char *cell =
                r == 0 ? t->columns[i].heading : t->cells[(r - 1) * t->n_columns + i];

            print_cell(cell != NULL ? cell : "", t->columns[i].align, column_width(t, i),
                       i + 1 == t->n_columns, out);
        }
    }
    for (size_t i = 0; i < t->n_rows * t->n_columns; i++)
        free(t->cells[i]);
    free(t->cells);
    return t->failed ? -1 : 0;
}
