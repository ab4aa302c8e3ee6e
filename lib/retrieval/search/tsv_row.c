/* retrieval/search/tsv_row.c - see tsv_row.h. A cell that begins with a double quote goes
 * to the next single one; two of them are one of the text. Anywhere else a quote is a
 * character. */
#include "retrieval/search/tsv_row.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

#define HEADER "id\ttext\ttitle"
#define CELLS 3

int sr1__tsv_is_header(const char *line, size_t n)
{
    size_t end = strlen(HEADER);

    return n > end && memcmp(line, HEADER, end) == 0 &&
           (line[end] == '\n' || line[end] == '\r');
}

/* Append the cell at s[*at], and put *at behind it. */
static sr1_status take_cell(const char *s, size_t n, size_t *at, struct sr1__buf *out)
{
    int quoted = *at < n && s[*at] == '"';

    for (*at += (size_t)quoted; *at < n && (quoted || s[*at] != '\t'); ++*at) {
        if (quoted && s[*at] == '"') {
            quoted = *at + 1 < n && s[*at + 1] == '"';
            if (!quoted)
                continue;
            ++*at;
        }
        sr1__buf_char(out, s[*at]);
    }
    return quoted ? sr1__fail(SR1_E_PARSE, "a quote of the row is never closed") : SR1_OK;
}

/* The cells are text->data[ends[i - 1]..ends[i]), the first from 0 on. */
static sr1_status read_cells(const char *line, size_t n, struct sr1__buf *text,
                             size_t ends[CELLS])
{
    size_t at = 0, cells = 0;

    sr1__buf_clear(text);
    for (; cells < CELLS && (cells == 0 || (at < n && line[at] == '\t')); cells++) {
        at += cells > 0;
        SR1__TRY(take_cell(line, n, &at, text));
        ends[cells] = text->len;
    }
    if (cells < CELLS || at < n)
        return sr1__fail(SR1_E_PARSE,
                         "a row of a TSV corpus is id, text and title with tabs between");
    return sr1__buf_status(text, "row");
}

sr1_status sr1__tsv_row_json(const char *line, size_t n, struct sr1__buf *scratch,
                             struct sr1__buf *out)
{
    size_t ends[CELLS] = {0};
    const char *s;
    json_t *row;
    sr1_status st;

    while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
        n--;
    if (!sr1__utf8_valid(line, n))
        return sr1__fail(SR1_E_PARSE, "the row is not UTF-8");
    SR1__TRY(read_cells(line, n, scratch, ends));
    s = sr1__buf_cstr(scratch);
    row = json_pack("{s:s%, s:s%, s:s%}", "id", s, ends[0], "title", s + ends[1],
                    ends[2] - ends[1], "text", s + ends[0], ends[1] - ends[0]);
    SR1__CHECK_ALLOC(row, "row");
    st = sr1__json_dump(row, 0, out);
    json_decref(row);
    return st;
}
