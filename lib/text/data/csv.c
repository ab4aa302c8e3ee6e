/* text/data/csv.c - read a record field by field, strictly by RFC 4180: input that a
 * lenient reader would have to guess about is an error that names the field. */
#include "text/data/csv.h"

#include <string.h>

void sr1__csv_record_init(struct sr1__csv_record *r)
{
    sr1__buf_init(&r->text, SR1__CSV_MAX_FIELD * 4);
    r->n = r->n_quoted = 0;
    r->comma = ',';
}

void sr1__csv_record_free(struct sr1__csv_record *r)
{
    sr1__buf_free(&r->text);
    r->n = 0;
}

const char *sr1__csv_field(const struct sr1__csv_record *r, size_t i, size_t *len)
{
    size_t start = i ? r->ends[i - 1] : 0;

    *len = r->ends[i] - start;
    return sr1__buf_cstr(&r->text) + start;
}

static sr1_status fail_field(const struct sr1__csv_record *r, sr1_status code,
                             const char *name, const char *what)
{
    return sr1__fail(code, "%s: field %zu %s", name, r->n + 1, what);
}

/* A quoted field from its opening quote on; *pos is left behind the closing one. */
static sr1_status read_quoted_field(struct sr1__csv_record *r, const char *s, size_t n,
                                    size_t *pos, const char *name)
{
    size_t i = *pos + 1;

    for (;;) {
        const char *quote = i < n ? memchr(s + i, '"', n - i) : NULL;
        size_t end;

        if (!quote)
            return fail_field(r, SR1_E_PARSE, name, "opens a quote that is never closed");
        end = (size_t)(quote - s);
        sr1__buf_add(&r->text, s + i, end - i);
        i = end + 1;
        if (i == n || s[i] != '"')
            break;
        sr1__buf_char(&r->text, '"');
        i++;
    }
    *pos = i;
    return SR1_OK;
}

static int ends_record(const char *s, size_t n, size_t i)
{
    return i == n || s[i] == '\n' || (s[i] == '\r' && (i + 1 == n || s[i + 1] == '\n'));
}

static sr1_status read_plain_field(struct sr1__csv_record *r, const char *s, size_t n,
                                   size_t *pos, const char *name)
{
    size_t i = *pos;

    while (!ends_record(s, n, i) && s[i] != r->comma) {
        if (s[i] == '"')
            return fail_field(
                r, SR1_E_PARSE, name,
                "has a quote inside; put the whole field in quotes and double "
                "those inside");
        if (s[i] == '\r')
            return fail_field(r, SR1_E_PARSE, name,
                              "has a carriage return inside; lines end in LF or CRLF");
        i++;
    }
    sr1__buf_add(&r->text, s + *pos, i - *pos);
    *pos = i;
    return SR1_OK;
}

static sr1_status one_field(struct sr1__csv_record *r, const char *s, size_t n,
                            size_t *pos, const char *name)
{
    size_t start = r->text.len;

    if (r->n == SR1__CSV_MAX_FIELDS)
        return fail_field(r, SR1_E_LIMIT, name, "is one more than the 1024 allowed");
    if (*pos < n && s[*pos] == '"') {
        SR1__TRY(read_quoted_field(r, s, n, pos, name));
        r->n_quoted++;
    } else {
        SR1__TRY(read_plain_field(r, s, n, pos, name));
    }
    SR1__TRY(sr1__buf_status(&r->text, name));
    if (r->text.len - start > SR1__CSV_MAX_FIELD)
        return fail_field(r, SR1_E_LIMIT, name, "is longer than 4 MiB");
    if (r->text.len > start && memchr(r->text.data + start, '\0', r->text.len - start))
        return fail_field(r, SR1_E_PARSE, name, "holds a NUL byte; the file is not text");
    if (!ends_record(s, n, *pos) && s[*pos] != r->comma)
        return fail_field(r, SR1_E_PARSE, name, "has text after its closing quote");
    r->ends[r->n++] = r->text.len;
    return SR1_OK;
}

sr1_status sr1__csv_parse(struct sr1__csv_record *r, const char *s, size_t n,
                          size_t *used, const char *name)
{
    size_t pos = 0;

    sr1__buf_clear(&r->text);
    r->n = r->n_quoted = 0;
    SR1__TRY(one_field(r, s, n, &pos, name));
    while (pos < n && s[pos] == r->comma) {
        pos++;
        SR1__TRY(one_field(r, s, n, &pos, name));
    }
    pos += pos < n && s[pos] == '\r';
    pos += pos < n && s[pos] == '\n';
    *used = pos;
    return SR1_OK;
}

void sr1__csv_add(struct sr1__buf *b, const char *field, size_t n, int first)
{
    size_t start = 0;
    int needs_quotes = n == 0 && first; /* a lone empty field would be a blank line */

    if (!first)
        sr1__buf_char(b, ',');
    for (size_t i = 0; i < n; i++)
        needs_quotes |=
            field[i] == ',' || field[i] == '"' || field[i] == '\r' || field[i] == '\n';
    if (!needs_quotes) {
        sr1__buf_add(b, field, n);
        return;
    }
    sr1__buf_char(b, '"');
    for (size_t i = 0; i < n; i++) {
        if (field[i] == '"') {
            sr1__buf_add(b, field + start, i + 1 - start);
            start = i; /* the quote goes out again with what follows */
        }
    }
    sr1__buf_add(b, field + start, n - start);
    sr1__buf_char(b, '"');
}

void sr1__csv_end(struct sr1__buf *b)
{
    sr1__buf_str(b, "\r\n");
}
