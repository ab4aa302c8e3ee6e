/* text/data/row_index.c - find the beginning of each row in one pass over a file, in
 * pieces of 64 KiB.
 *
 * JSONL: lines that are not blank. CSV: records, a record ending at a line end outside
 * quotes; a doubled quote toggles twice. JSON: the elements of the outer array, found by
 * counting brackets outside strings; reading an element checks that it is well formed. */
#include "text/data/row_files.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/text.h"

#include <string.h>

#define CHUNK ((size_t)1 << 16)

struct index_scan {
    const struct sr1__row_file *file;
    struct sr1__offsets *offsets;
    uint64_t base; /* file offset of buf[0] */
    uint64_t line; /* of the next character, from 1 */
    size_t pos;
    size_t len;
    sr1_status status;
    unsigned char buf[CHUNK];
};

#define END (-1)

static void refill_scan_buffer(struct index_scan *s)
{
    ssize_t n;

    s->base += s->len;
    s->pos = 0;
    s->len = 0;
    n = sr1__pread_all(s->file->fd, s->buf, CHUNK, s->base);
    if (n < 0)
        s->status = sr1__fail_errno("read", s->file->path);
    else
        s->len = (size_t)n;
}

/* The next character without taking it; END at the end or after a failure. */
static int peek_char(struct index_scan *s)
{
    if (s->pos == s->len && s->status == SR1_OK)
        refill_scan_buffer(s);
    return s->pos < s->len ? s->buf[s->pos] : END;
}

static int take_char(struct index_scan *s)
{
    int c = peek_char(s);

    if (c != END)
        s->pos++;
    s->line += c == '\n';
    return c;
}

static uint64_t scan_offset(const struct index_scan *s)
{
    return s->base + s->pos;
}

static sr1_status fail_here(struct index_scan *s, sr1_status code, const char *what)
{
    if (s->status != SR1_OK)
        return s->status; /* the read failed: that is the cause */
    return s->status = sr1__fail(code, "%s:%llu: %s", s->file->path,
                                 (unsigned long long)s->line, what);
}

static sr1_status push_row_offset(struct index_scan *s, uint64_t offset)
{
    struct sr1__offsets *o = s->offsets;

    if (o->n == o->cap) {
        uint64_t *at = sr1__grow(o->at, &o->cap, o->n + 1, sizeof *at);

        if (!at)
            return s->status = sr1__fail_nomem("row index");
        o->at = at;
    }
    o->at[o->n++] = offset;
    return SR1_OK;
}

static void skip_bom(struct index_scan *s)
{
    if (peek_char(s) == 0xef && s->len >= 3 && s->buf[1] == 0xbb && s->buf[2] == 0xbf)
        s->pos = 3;
}

static int skip_row_space(struct index_scan *s)
{
    while (sr1__is_json_space((char)peek_char(s)))
        take_char(s);
    return peek_char(s);
}

/* A tab between cells is no space: a row of empty cells is a row. */
static int is_blank_char(const struct index_scan *s, int c)
{
    return sr1__is_json_space((char)c) && (c != '\t' || s->file->format != SR1__ROWS_TSV);
}

/* Take one line or record; *blank tells whether it held anything. */
static sr1_status take_record(struct index_scan *s, int quotes, int *blank)
{
    uint64_t start = scan_offset(s);
    uint64_t line = s->line;
    int quoted = 0;
    int c;

    *blank = 1;
    while ((c = take_char(s)) != END && (c != '\n' || quoted)) {
        *blank &= is_blank_char(s, c);
        quoted ^= quotes && c == '"';
        if (scan_offset(s) - start > SR1__ROW_MAX) {
            s->line = line;
            return fail_here(s, SR1_E_LIMIT,
                             quoted ? "a row above 16 MiB; is a quote left open?"
                                    : "a row above 16 MiB");
        }
    }
    if (quoted) {
        s->line = line;
        return fail_here(s, SR1_E_PARSE,
                         "a quote is opened in this record and never closed");
    }
    return s->status;
}

static sr1_status index_records(struct index_scan *s, int quotes)
{
    int blank;

    while (peek_char(s) != END) {
        uint64_t start = scan_offset(s);

        SR1__TRY(take_record(s, quotes, &blank));
        if (!blank)
            SR1__TRY(push_row_offset(s, start));
    }
    SR1__TRY(s->status);
    return push_row_offset(s, scan_offset(s));
}

/* The header is the first record that is not blank. */
static sr1_status index_csv(struct index_scan *s, uint64_t *header_end)
{
    int blank = 1;

    while (blank) {
        if (peek_char(s) == END)
            return fail_here(s, SR1_E_PARSE, "no header row; the file is empty");
        SR1__TRY(take_record(s, 1, &blank));
    }
    *header_end = scan_offset(s);
    return index_records(s, 1);
}

/* Take a string whose opening quote is next. Its first bytes go to text (NULL: nowhere).
 */
static sr1_status take_string(struct index_scan *s, char *text, size_t size)
{
    size_t n = 0;
    int c;

    take_char(s);
    while ((c = take_char(s)) != '"') {
        if (c == END)
            return fail_here(s, SR1_E_PARSE, "the file ends inside a string");
        if (c == '\\')
            c = take_char(s) == END ? 0 : '\\';
        if (text && n + 1 < size)
            text[n++] = (char)c;
    }
    if (text)
        text[n] = '\0';
    return s->status;
}

/* Take one value: a string, a bracketed value, or a word up to the next delimiter. */
static sr1_status skip_element_value(struct index_scan *s)
{
    uint64_t depth = 0;

    do {
        int c = skip_row_space(s);

        if (c == END)
            return fail_here(s, SR1_E_PARSE, "the file ends inside a value");
        if (c == '"') {
            SR1__TRY(take_string(s, NULL, 0));
            continue;
        }
        if (depth == 0 && strchr(",:]}", c))
            return fail_here(s, SR1_E_PARSE, "a value is missing");
        take_char(s);
        depth += c == '{' || c == '[';
        depth -= (c == '}' || c == ']') && depth > 0;
        if (depth == 0 && c != '}' && c != ']') {
            while (peek_char(s) != END && !sr1__is_json_space((char)peek_char(s)) &&
                   !strchr(",:]}", peek_char(s)))
                take_char(s);
        }
    } while (depth > 0);
    return s->status;
}

/* The elements of an array whose opening bracket is next. */
static sr1_status index_array(struct index_scan *s)
{
    uint64_t end;

    take_char(s);
    if (skip_row_space(s) == ']') {
        take_char(s);
        return push_row_offset(s, scan_offset(s));
    }
    for (;;) {
        if (skip_row_space(s) != '{')
            return fail_here(s, SR1_E_PARSE, "each row must be an object {...}");
        SR1__TRY(push_row_offset(s, scan_offset(s)));
        SR1__TRY(skip_element_value(s));
        end = scan_offset(s);
        if (skip_row_space(s) == ']')
            break;
        if (peek_char(s) != ',')
            return fail_here(s, SR1_E_PARSE, "',' or ']' is missing after a row");
        take_char(s);
    }
    take_char(s);
    return push_row_offset(s, end);
}

/* TriviaQA has "Data". */
static int is_rows_key(const char *key)
{
    return strcmp(key, "data") == 0 || strcmp(key, "Data") == 0;
}

/* {"data": [...], anything else} */
static sr1_status index_object(struct index_scan *s)
{
    char key[16];
    int found = 0, more = 0;

    take_char(s);
    while (skip_row_space(s) == '"' || more) {
        if (peek_char(s) != '"')
            return fail_here(s, SR1_E_PARSE, "a key is missing after ','");
        SR1__TRY(take_string(s, key, sizeof key));
        if (skip_row_space(s) != ':')
            return fail_here(s, SR1_E_PARSE, "':' is missing after a key");
        take_char(s);
        if (is_rows_key(key) && !found && skip_row_space(s) == '[') {
            found = 1;
            SR1__TRY(index_array(s));
        } else {
            SR1__TRY(skip_element_value(s));
        }
        more = skip_row_space(s) == ',';
        if (!more)
            break;
        take_char(s);
    }
    if (peek_char(s) == '"')
        return fail_here(s, SR1_E_PARSE, "',' is missing between two members");
    if (peek_char(s) != '}')
        return fail_here(s, SR1_E_PARSE, "the object is not closed");
    take_char(s);
    if (!found)
        return fail_here(s, SR1_E_PARSE,
                         "the object has no list of rows under \"data\"; a file of one "
                         "object a line is named .jsonl");
    return SR1_OK;
}

static sr1_status index_json(struct index_scan *s)
{
    switch (skip_row_space(s)) {
    case '[':
        SR1__TRY(index_array(s));
        break;
    case '{':
        SR1__TRY(index_object(s));
        break;
    case END:
        return fail_here(s, SR1_E_PARSE, "the file is empty");
    default:
        return fail_here(s, SR1_E_PARSE,
                         "neither a list of rows nor an object with one under \"data\"");
    }
    if (skip_row_space(s) != END)
        return fail_here(s, SR1_E_PARSE, "text after the end of the rows");
    return s->status;
}

sr1_status sr1__row_files_index(const struct sr1__row_file *f,
                                struct sr1__offsets *offsets, uint64_t *header_end)
{
    struct index_scan *s = sr1__malloc(sizeof *s);
    sr1_status status;

    SR1__CHECK_ALLOC(s, "row index");
    s->file = f;
    s->offsets = offsets;
    s->base = 0;
    s->line = 1;
    s->pos = s->len = 0;
    s->status = SR1_OK;
    skip_bom(s);
    if (f->format == SR1__ROWS_JSON)
        status = index_json(s);
    else if (sr1__rows_have_cells(f->format))
        status = index_csv(s, header_end);
    else
        status = index_records(s, 0);
    sr1__free(s);
    return status;
}
