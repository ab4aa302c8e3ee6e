/* text/jinja/jinja_lex.c - a template's text to tokens: what stands between tags, without
 * the white space that signs, trim_blocks and lstrip_blocks take away, and the words
 * within tags. */
#include "text/jinja/jinja_tree.h"

#include "base/num.h"
#include "base/text.h"
#include "base/utf8.h"

#include <string.h>

#define TOKENS_MAX 2000000

struct lexer {
    struct sr1__jarena *memory;
    struct sr1__jtokens *out;
    const char *p, *end;
    int line;
    int line_starts;                 /* what came before ended with a line end */
    char open[SR1__JINJA_DEPTH_MAX]; /* the brackets to close */
    int n_open;
};

static sr1_status fail_lexing(const struct lexer *x, const char *what)
{
    return sr1__fail(SR1_E_PARSE, "chat template, line %d: %s", x->line, what);
}

static sr1_status add_token(struct lexer *x, int kind, const char *s, size_t n)
{
    struct sr1__jtokens *t = x->out;

    if (t->n == TOKENS_MAX)
        return sr1__fail(SR1_E_LIMIT, "chat template: more than %d words", TOKENS_MAX);
    SR1__RESERVE(t->v, t->cap, t->n + 1, "chat template");
    t->v[t->n++] = (struct sr1__jtoken){kind, x->line, s, n};
    return SR1_OK;
}

static void count_lines(struct lexer *x, const char *from, const char *to)
{
    for (; from < to; from++)
        x->line += *from == '\n';
}

/* Go on behind white space, as \s* does. */
static void skip_spaces(struct lexer *x)
{
    uint32_t cp;

    while (x->p < x->end) {
        size_t n = sr1__jinja_char(x->p, (size_t)(x->end - x->p), &cp);

        if (!sr1__is_space(cp))
            break;
        x->line += *x->p == '\n';
        x->p += n;
    }
}

static const char *strip_right(const char *from, const char *to)
{
    struct sr1__jtext t = {from, (size_t)(to - from), NULL};

    return from + sr1__jtext_strip(t, 2).n;
}

/* Where the indentation before a tag begins; `to` when something else stands there. */
static const char *strip_indent(const struct lexer *x, const char *from, const char *to)
{
    const char *line = to;

    while (line > from && line[-1] != '\n')
        line--;
    if (line == from && !x->line_starts)
        return to;
    return strip_right(line, to) == line ? line : to;
}

/* The text before a tag, whose sign is '-', '+' or none. */
static sr1_status add_data(struct lexer *x, const char *to, char sign, int variable)
{
    const char *from = x->p, *end = to;

    if (sign == '-')
        end = strip_right(from, to);
    else if (sign != '+' && !variable)
        end = strip_indent(x, from, to);
    if (end > from)
        SR1__TRY(add_token(x, SR1__T_DATA, from, (size_t)(end - from)));
    count_lines(x, from, to);
    x->p = to;
    return SR1_OK;
}

static char sign_at(const char *p, const char *end)
{
    return p < end && (*p == '-' || *p == '+') ? *p : '\0';
}

/* Behind a tag's end: '-' takes white space, trim_blocks one line end. */
static void finish_tag(struct lexer *x, const char *behind, char sign, int trims)
{
    count_lines(x, x->p, behind);
    x->p = behind;
    if (sign == '-')
        skip_spaces(x);
    else if (sign != '+' && trims && x->p < x->end && *x->p == '\n') {
        x->p++;
        x->line++;
    }
    x->line_starts = x->p[-1] == '\n';
}

static sr1_status skip_comment(struct lexer *x)
{
    const char *close = memmem(x->p, (size_t)(x->end - x->p), "#}", 2);
    char sign;

    if (!close)
        return fail_lexing(x, "a comment does not end; write #} behind it");
    sign = close > x->p ? sign_at(close - 1, close) : '\0';
    finish_tag(x, close + 2, sign, 1);
    return SR1_OK;
}

/* ---- words within tags ---- */

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_name_char(char c)
{
    return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (unsigned char)c >= 0x80;
}

/* The character of \xHH, \uHHHH, \UHHHHHHHH or \OOO; returns where it ends, NULL: none.
 */
static const char *read_code(const char *p, const char *end, uint32_t *cp)
{
    int digits = *p == 'x' ? 2 : *p == 'u' ? 4 : 8;

    *cp = 0;
    if (is_digit(*p)) {
        for (int i = 0; i < 3 && p < end && *p >= '0' && *p <= '7'; i++)
            *cp = *cp * 8 + (uint32_t)(*p++ - '0');
        return p;
    }
    for (p++; digits > 0; digits--, p++) {
        int v = p < end ? sr1__hex_digit(*p) : -1;

        if (v < 0)
            return NULL;
        *cp = *cp * 16 + (uint32_t)v;
    }
    return *cp > 0x10ffff || (*cp >= 0xd800 && *cp < 0xe000) ? NULL : p;
}

/* What a backslash and the character at p mean; NULL: nothing that can be read. */
static const char *unescape_one(const char *p, const char *end, char **to)
{
    static const char from[] = "\\'\"abfnrtv", means[] = "\\'\"\a\b\f\n\r\t\v";
    const char *at = *p ? strchr(from, *p) : NULL;
    uint32_t cp;

    if (at) {
        *(*to)++ = means[at - from];
        return p + 1;
    }
    if (*p == '\n')
        return p + 1;
    if (*p == 'N')
        return NULL;
    if (strchr("xuU01234567", *p) && *p) {
        p = read_code(p, end, &cp);
        *to += p ? sr1__utf8_put(cp, *to) : 0;
        return p;
    }
    *(*to)++ = '\\';
    return p;
}

/* A string that begins at its quote. */
static sr1_status lex_string(struct lexer *x)
{
    char quote = *x->p;
    const char *p = x->p + 1, *stop = p;
    char *text, *to;

    while (stop < x->end && *stop != quote)
        stop += *stop == '\\' && stop + 1 < x->end ? 2 : 1;
    if (stop >= x->end)
        return fail_lexing(x, "a string does not end; close its quotes");
    to = text = sr1__jarena_take(x->memory, (size_t)(stop - p) + 5);
    SR1__CHECK_ALLOC(text, "chat template");
    while (p && p < stop) {
        if (*p != '\\')
            *to++ = *p++;
        else
            p = unescape_one(p + 1, stop, &to);
    }
    if (!p)
        return fail_lexing(x, "a string holds an escape that is not supported; write the "
                              "character itself");
    SR1__TRY(add_token(x, SR1__T_STRING, text, (size_t)(to - text)));
    count_lines(x, x->p, stop);
    x->p = stop + 1;
    return SR1_OK;
}

/* Digits with single underscores between them. */
static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && (is_digit(*p) || (*p == '_' && p + 1 < end && is_digit(p[1]))))
        p++;
    return p;
}

static const char *skip_exponent(const char *p, const char *end)
{
    const char *q = p + 1;

    if (p >= end || (*p != 'e' && *p != 'E'))
        return p;
    q += q < end && (*q == '-' || *q == '+');
    return q < end && is_digit(*q) ? skip_digits(q, end) : p;
}

static sr1_status lex_number(struct lexer *x)
{
    const char *p = skip_digits(x->p, x->end), *q = p;
    int behind_dot = x->out->n && x->p[-1] == '.';
    int kind = SR1__T_INT;

    if (*x->p == '0' && x->p + 2 < x->end && strchr("xXoObB", x->p[1])) {
        q = x->p + 2;
        while (q < x->end && (sr1__hex_digit(*q) >= 0 || *q == '_'))
            q++;
        p = q;
    } else if (!behind_dot) {
        if (q + 1 < x->end && *q == '.' && is_digit(q[1]))
            q = skip_digits(q + 1, x->end);
        q = skip_exponent(q, x->end);
        kind = q > p ? SR1__T_REAL : SR1__T_INT;
        p = q;
    }
    SR1__TRY(add_token(x, kind, x->p, (size_t)(p - x->p)));
    x->p = p;
    return SR1_OK;
}

static sr1_status balance_bracket(struct lexer *x, char c)
{
    static const char open[] = "([{", close[] = ")]}";
    const char *at = strchr(open, c);

    if (at) {
        if (x->n_open == SR1__JINJA_DEPTH_MAX)
            return sr1__fail(SR1_E_LIMIT,
                             "chat template, line %d: brackets nest deeper than %d",
                             x->line, SR1__JINJA_DEPTH_MAX);
        x->open[x->n_open++] = close[at - open];
    } else if (strchr(close, c)) {
        if (x->n_open == 0 || x->open[--x->n_open] != c)
            return fail_lexing(x, "a bracket closes that was not opened");
    }
    return SR1_OK;
}

static sr1_status lex_operator(struct lexer *x)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    size_t n = 1;

    for (size_t i = 0; i < 6 && x->p + 1 < x->end; i++)
        n = memcmp(x->p, two[i], 2) == 0 ? 2 : n;
    if (n == 1 && (*x->p == '\0' || !strchr("+-/*%~[](){}><=.:|,;", *x->p)))
        return fail_lexing(x, "a character that no expression has");
    if (n == 1)
        SR1__TRY(balance_bracket(x, *x->p));
    SR1__TRY(add_token(x, SR1__T_OPERATOR, x->p, n));
    x->p += n;
    return SR1_OK;
}

static sr1_status lex_word(struct lexer *x)
{
    const char *p = x->p;

    if (*p == '"' || *p == '\'')
        return lex_string(x);
    if (is_digit(*p))
        return lex_number(x);
    if (!is_name_char(*p))
        return lex_operator(x);
    while (p < x->end && is_name_char(*p))
        p++;
    SR1__TRY(add_token(x, SR1__T_NAME, x->p, (size_t)(p - x->p)));
    x->p = p;
    return SR1_OK;
}

/* Does a tag of this kind end at p, and with which sign? */
static int ends_tag(const struct lexer *x, char kind, char *sign)
{
    const char *p = x->p;

    *sign = sign_at(p, x->end);
    if (kind == '}' && *sign == '+')
        *sign = '\0';
    p += *sign != '\0';
    return x->n_open == 0 && x->end - p >= 2 && p[0] == kind && p[1] == '}';
}

/* The words of a tag up to its end: kind '%' or '}'. */
static sr1_status lex_tag(struct lexer *x, char kind)
{
    int variable = kind == '}';
    char sign;

    SR1__TRY(
        add_token(x, variable ? SR1__T_VARIABLE_BEGIN : SR1__T_BLOCK_BEGIN, x->p, 0));
    x->n_open = 0;
    for (;;) {
        if (ends_tag(x, kind, &sign))
            break;
        skip_spaces(x);
        if (x->p >= x->end)
            return fail_lexing(x, variable ? "an expression does not end; write }} "
                                             "behind it"
                                           : "a tag does not end; write %} behind it");
        if (!ends_tag(x, kind, &sign))
            SR1__TRY(lex_word(x));
    }
    SR1__TRY(add_token(x, variable ? SR1__T_VARIABLE_END : SR1__T_BLOCK_END, x->p, 0));
    finish_tag(x, x->p + 2 + (sign != '\0'), sign, !variable);
    return SR1_OK;
}

/* ---- raw ---- */

/* p behind "{%" and a sign: behind the word and spaces; NULL: another tag. */
static const char *skip_tag_word(const struct lexer *x, const char *p, const char *word)
{
    struct lexer at = *x;

    at.p = p;
    skip_spaces(&at);
    if ((size_t)(at.end - at.p) < strlen(word) || memcmp(at.p, word, strlen(word)) != 0)
        return NULL;
    at.p += strlen(word);
    skip_spaces(&at);
    return at.p;
}

/* p at a tag's end, with or without a sign: its sign; 0 if there is none. */
static int closes_tag(const struct lexer *x, const char *p, char *sign)
{
    *sign = sign_at(p, x->end);
    p += *sign != '\0';
    return x->end - p >= 2 && p[0] == '%' && p[1] == '}';
}

/* `{% raw %}` whose inner part begins at p; *is 0: another tag. */
static sr1_status lex_raw(struct lexer *x, const char *p, int *is)
{
    const char *behind = skip_tag_word(x, p, "raw"), *at, *inner;
    char sign, close;

    *is = behind && closes_tag(x, behind, &sign) && sign != '+';
    if (!*is)
        return SR1_OK;
    finish_tag(x, behind + 2 + (sign != '\0'), sign, 0);
    for (at = x->p; (at = memmem(at, (size_t)(x->end - at), "{%", 2)); at += 2) {
        sign = sign_at(at + 2, x->end);
        inner = skip_tag_word(x, at + 2 + (sign != '\0'), "endraw");
        if (!inner || !closes_tag(x, inner, &close))
            continue;
        SR1__TRY(add_data(x, at, sign, 0));
        finish_tag(x, inner + 2 + (close != '\0'), close, 1);
        return SR1_OK;
    }
    return fail_lexing(x, "a raw block does not end; write {% endraw %} behind it");
}

/* The next tag at or behind p; the end of the text if there is none. */
static const char *find_tag(const struct lexer *x)
{
    for (const char *p = x->p; p + 1 < x->end; p++)
        if (*p == '{' && (p[1] == '{' || p[1] == '%' || p[1] == '#'))
            return p;
    return x->end;
}

static sr1_status lex_next(struct lexer *x)
{
    const char *tag = find_tag(x);
    char kind, sign;
    int raw = 0;

    if (tag == x->end) {
        if (x->p < x->end)
            SR1__TRY(add_token(x, SR1__T_DATA, x->p, (size_t)(x->end - x->p)));
        x->p = x->end;
        return SR1_OK;
    }
    kind = tag[1];
    sign = sign_at(tag + 2, x->end);
    SR1__TRY(add_data(x, tag, sign, kind == '{'));
    if (kind == '%')
        SR1__TRY(lex_raw(x, tag + 2 + (sign != '\0'), &raw));
    if (raw)
        return SR1_OK;
    x->p = tag + 2 + (sign != '\0');
    if (kind == '#')
        return skip_comment(x);
    return lex_tag(x, kind == '{' ? '}' : '%');
}

/* Lines end with \n only, and one at the end is left out. */
static char *copy_lines(struct sr1__jarena *memory, const char *text, size_t *n)
{
    char *copy = sr1__jarena_take(memory, *n + 1), *to = copy;

    for (size_t i = 0; copy && i < *n; i++) {
        if (text[i] != '\r')
            *to++ = text[i];
        else if (i + 1 == *n || text[i + 1] != '\n')
            *to++ = '\n';
    }
    *n = copy ? (size_t)(to - copy) : 0;
    if (*n && copy[*n - 1] == '\n')
        copy[--*n] = '\0';
    return copy;
}

sr1_status sr1__jinja_lex(struct sr1__jarena *memory, const char *text, size_t n,
                          struct sr1__jtokens *out)
{
    struct lexer x = {.memory = memory, .out = out, .line = 1, .line_starts = 1};

    x.p = copy_lines(memory, text, &n);
    SR1__CHECK_ALLOC(x.p, "chat template");
    x.end = x.p + n;
    while (x.p < x.end)
        SR1__TRY(lex_next(&x));
    return add_token(&x, SR1__T_END, x.p, 0);
}
