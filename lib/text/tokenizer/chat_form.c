/* text/tokenizer/chat_form.c - the normal form of a chat template, by which it is
 * recognised.
 *
 * Two templates of one normal form render every conversation alike. The form omits the
 * parts that Jinja does not render, with trim_blocks and lstrip_blocks as transformers
 * sets them: comments, white space that a '-' trims, line ends behind blocks, indentation
 * before them, runs of white space inside of tags; the markers {% generation %}, which
 * TRL adds and which print nothing; and the text of the default system message. */
#include "text/tokenizer/chat.h"

#include <string.h>

#define DATA '\x01' /* stands before literal text, TAG before what is between braces */
#define TAG '\x02'
#define SYSTEM "\x03"
#define FORM_BYTES "\x01\x02\x03"

/* A tag as it stands in the template. */
struct tag {
    const char *begin, *end; /* its braces included */
    const char *inner;       /* between braces and signs */
    size_t inner_n;
    char kind;                   /* '{', '%' or '#' */
    int trims_left, trims_right; /* '-' */
};

static int is_jinja_space(char c)
{
    return c != '\0' && strchr(" \t\r\n\v\f", c) != NULL;
}

/* The end of a string that begins at its quote; NULL if it has none. */
static const char *string_end(const char *p)
{
    char quote = *p++;

    for (; *p && *p != quote; p++)
        if (*p == '\\' && p[1])
            p++;
    return *p ? p + 1 : NULL;
}

/* Where the braces close that p is behind; NULL: nowhere. Strings are skipped. */
static const char *find_close(const char *p, char kind)
{
    char close[3] = {kind == '{' ? '}' : kind, '}', '\0'};

    while (p && *p && strncmp(p, close, 2) != 0)
        p = kind != '#' && (*p == '\'' || *p == '"') ? string_end(p) : p + 1;
    return p && *p ? p : NULL;
}

/* The next tag at or behind p; 0: none, -1: one that does not end. */
static int next_tag(const char *p, struct tag *t)
{
    const char *close;

    while ((p = strchr(p, '{')) && !strchr("{%#", p[1] ? p[1] : 'x'))
        p++;
    if (!p)
        return 0;
    t->begin = p;
    t->kind = p[1];
    close = find_close(p + 2, t->kind);
    if (!close)
        return -1;
    t->end = close + 2;
    t->trims_left = p[2] == '-';
    t->trims_right = close[-1] == '-' && close - 1 > p + 2;
    t->inner = p + 2 + t->trims_left;
    t->inner_n = (size_t)(close - t->trims_right - t->inner);
    return 1;
}

/* ---- literal text ---- */

/* The text between two tags; a tag is NULL at an end of the template. */
static void put_literal_text(const char *p, const char *end, const struct tag *before,
                             const struct tag *behind, struct sr1__buf *out)
{
    if (before && before->trims_right)
        while (p < end && is_jinja_space(*p))
            p++;
    else if (before && before->kind != '{' && p < end && *p == '\n')
        p++;
    if (behind && behind->trims_left) {
        while (end > p && is_jinja_space(end[-1]))
            end--;
    } else if (behind && behind->kind != '{') {
        const char *line = end;

        while (line > p && (line[-1] == ' ' || line[-1] == '\t'))
            line--;
        end = line > p && line[-1] != '\n' ? end : line;
    } else if (!behind && end > p && end[-1] == '\n') {
        end--; /* Jinja drops one line end of the template */
    }
    if (end > p) {
        sr1__buf_char(out, DATA);
        sr1__buf_add(out, p, (size_t)(end - p));
    }
}

/* ---- tags ---- */

/* A string of the template's source; the default system message in it is left out. */
static void put_jinja_string(const char *p, size_t n, struct sr1__str system,
                             struct sr1__buf *out)
{
    const char *at = system.n ? memmem(p, n, system.s, system.n) : NULL;

    if (!at) {
        sr1__buf_add(out, p, n);
        return;
    }
    sr1__buf_add(out, p, (size_t)(at - p));
    sr1__buf_str(out, SYSTEM);
    sr1__buf_add(out, at + system.n, (size_t)(p + n - at) - system.n);
}

static void put_inner(const struct tag *t, struct sr1__str system, struct sr1__buf *out)
{
    const char *p = t->inner, *end = t->inner + t->inner_n, *stop;
    int wrote = 0, pending = 0; /* white space behind what was written */

    sr1__buf_char(out, TAG);
    sr1__buf_char(out, t->kind);
    while (p < end) {
        stop = *p == '\'' || *p == '"' ? string_end(p) : p + 1;
        if (is_jinja_space(*p)) {
            pending = wrote;
        } else {
            if (pending)
                sr1__buf_char(out, ' ');
            pending = 0;
            wrote = 1;
            put_jinja_string(p, (size_t)(stop - p), system, out);
        }
        p = stop;
    }
}

static int is_tag_word(const struct tag *t, const char *word)
{
    const char *p = t->inner, *end = t->inner + t->inner_n;

    while (p < end && is_jinja_space(*p))
        p++;
    while (end > p && is_jinja_space(end[-1]))
        end--;
    return (size_t)(end - p) == strlen(word) && memcmp(p, word, strlen(word)) == 0;
}

/* Does this tag print nothing and choose nothing? */
static int is_silent(const struct tag *t)
{
    return t->kind == '#' || (t->kind == '%' && (is_tag_word(t, "generation") ||
                                                 is_tag_word(t, "endgeneration")));
}

int sr1__chat_form(const char *text, struct sr1__str system, struct sr1__buf *out)
{
    struct tag tags[2];
    struct tag *before = NULL, *t = &tags[0];
    int found;

    if (strpbrk(text, FORM_BYTES))
        return 0;
    while ((found = next_tag(text, t)) == 1) {
        put_literal_text(text, t->begin, before, t, out);
        if (!is_silent(t))
            put_inner(t, system, out);
        text = t->end;
        before = t;
        t = t == &tags[0] ? &tags[1] : &tags[0];
    }
    if (found == 0)
        put_literal_text(text, text + strlen(text), before, NULL, out);
    return found == 0;
}
