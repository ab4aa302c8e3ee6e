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
static int get_cell_width(const char *s)
{
    int n = 0;

    for (; *s != '\0'; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

size_t text_prefix(const char *s, int width)
{
    size_t n = 0;

    for (; s[n] != '\0'; n++) {
        width -= ((unsigned char)s[n] & 0xC0) != 0x80;
        if (width < 0)
            break;
    }
    return n;
}

static void truncate_cell(char *s, int max)
{
    if (max >= 4 && get_cell_width(s) > max)
        strcpy(s + text_prefix(s, max - 3), "...");
}

/* A copy on one line, cut to the column; room for the dots is always there. */
static char *cell_copy(const char *s, int max)
{
    char *copy = malloc(strlen(s) + 4);

    if (copy == NULL)
        return NULL;
    strcpy(copy, s);
    for (unsigned char *p = (unsigned char *)copy, before = 0; *p != '\0'; before = *p++)
        if (is_control(before, *p))
            *p = before == 0xC2 && *p >= 0x80 ? 0xA0 : ' '; /* U+00A0 is a space too */
    truncate_cell(copy, max);
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
    int pad = width - get_cell_width(s);

    if (align == TABLE_RIGHT)
        fprintf(out, "%*s", pad, "");
    fputs(s, out);
    if (align == TABLE_LEFT && !last)
        fprintf(out, "%*s", pad, "");
    fputs(last ? "\n" : "  ", out);
}

static int column_width(const struct table *t, size_t column)
{
    int width = get_cell_width(t->columns[column].heading);

    for (size_t r = 0; r < t->n_rows; r++) {
        const char *cell = t->cells[r * t->n_columns + column];
        int w = cell != NULL ? get_cell_width(cell) : 0;

        width = w > width ? w : width;
    }
    return width;
}

/* On a terminal the last column, where it is text, is cut to the place that is left:
 * lines that wrap are no table. */
static void fit_last_column(struct table *t, FILE *out)
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
            truncate_cell(cell, room > LAST_LEAST ? room : LAST_LEAST);
    }
}

int table_end(struct table *t, FILE *out)
{
    fit_last_column(t, out);
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
