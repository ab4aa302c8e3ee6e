/* retrieval/search/strip_markup.c - small cutters, not browsers.
 *
 *   html      tags and comments off; what is within script, style and their like too;
 *             entities (numbers and the common names) become characters; elements that
 *             begin a line of their own do so, runs of blanks become one
 *   markdown  marks of headings, quotes, lists, rules, fences and table frames off at the
 *             beginning of lines; emphasis, code marks and escapes off within; links and
 *             images leave their text; HTML tags in between are cut as above
 *   auto      html where the text begins with a document type or <html, or has an end tag
 *             of a common element; else as it is
 *
 * One pass, linear in the text. Anything that is not understood stays. */
#include "retrieval/search/strip_markup.h"

#include "base/utf8.h"

#include <string.h>

struct markup_stripper {
    const char *s;
    size_t n;
    size_t at;
    struct sr1__buf *out;
    size_t begin;  /* of this text in out */
    char gap;      /* blank owed before the next character: '\n', ' ' or 0 */
    int no_quotes; /* one was left open: what they enclose cannot be told */
    int no_tags;   /* no '>' is left */
};

/* ---- output with single blanks ---- */

static void owe_blank(struct markup_stripper *c, char blank)
{
    if (blank == '\n' || c->gap == 0)
        c->gap = blank;
}

static void emit_stripped(struct markup_stripper *c, const char *s, size_t n)
{
    if (n == 0)
        return;
    if (c->gap != 0 && c->out->len > c->begin)
        sr1__buf_char(c->out, c->gap);
    c->gap = 0;
    sr1__buf_add(c->out, s, n);
}

static int is_markup_blank(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r' || ch == '\f';
}

static int is_markup_letter(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
}

static int is_markup_digit(char ch)
{
    return ch >= '0' && ch <= '9';
}

static char to_lower_ascii(char ch)
{
    return ch >= 'A' && ch <= 'Z' ? (char)(ch + 32) : ch;
}

/* Does s[at..n) begin with this lower-case word, in any case? */
static int begins_with_word(const char *s, size_t n, size_t at, const char *word)
{
    for (; *word != '\0'; word++, at++) {
        if (at >= n || to_lower_ascii(s[at]) != *word)
            return 0;
    }
    return 1;
}

/* ---- entities ---- */

static const struct {
    const char *name;
    uint32_t cp;
} entities[] = {
    {"amp", '&'},       {"lt", '<'},       {"gt", '>'},       {"quot", '"'},
    {"apos", '\''},     {"nbsp", ' '},     {"ndash", 0x2013}, {"mdash", 0x2014},
    {"hellip", 0x2026}, {"lsquo", 0x2018}, {"rsquo", 0x2019}, {"ldquo", 0x201C},
    {"rdquo", 0x201D},  {"laquo", 0xAB},   {"raquo", 0xBB},   {"bull", 0x2022},
    {"middot", 0xB7},   {"deg", 0xB0},     {"copy", 0xA9},    {"reg", 0xAE},
    {"trade", 0x2122},  {"euro", 0x20AC},  {"pound", 0xA3},   {"sect", 0xA7},
    {"times", 0xD7},    {"agrave", 0xE0},  {"aacute", 0xE1},  {"acirc", 0xE2},
    {"auml", 0xE4},     {"aring", 0xE5},   {"aelig", 0xE6},   {"ccedil", 0xE7},
    {"egrave", 0xE8},   {"eacute", 0xE9},  {"ecirc", 0xEA},   {"euml", 0xEB},
    {"iacute", 0xED},   {"icirc", 0xEE},   {"iuml", 0xEF},    {"ntilde", 0xF1},
    {"oacute", 0xF3},   {"ocirc", 0xF4},   {"ouml", 0xF6},    {"oslash", 0xF8},
    {"uacute", 0xFA},   {"ucirc", 0xFB},   {"uuml", 0xFC},    {"szlig", 0xDF},
    {"Auml", 0xC4},     {"Ouml", 0xD6},    {"Uuml", 0xDC},    {"Eacute", 0xC9},
};

#define ENTITY_MAX 12

static uint32_t parse_entity_number(const char *s, size_t n)
{
    int hex = n > 1 && (s[1] == 'x' || s[1] == 'X');
    uint32_t v = 0;

    for (size_t i = hex ? 2 : 1; i < n; i++) {
        char ch = to_lower_ascii(s[i]);
        uint32_t digit;

        if (is_markup_digit(ch))
            digit = (uint32_t)(ch - '0');
        else if (hex && ch >= 'a' && ch <= 'f')
            digit = (uint32_t)(ch - 'a') + 10;
        else
            return 0;
        v = v * (hex ? 16 : 10) + digit; /* at most ENTITY_MAX digits; see its use */
        if (v > 0x10FFFF)
            return 0;
    }
    return n > (hex ? 2U : 1U) ? v : 0;
}

/* The character of the entity at s[at] == '&', 0 when it is none; *size its bytes. */
static uint32_t entity_at(const struct markup_stripper *c, size_t *size)
{
    const char *name = c->s + c->at + 1;
    size_t left = c->n - c->at - 1;
    const char *end = memchr(name, ';', left < ENTITY_MAX ? left : ENTITY_MAX);
    size_t n = end != NULL ? (size_t)(end - name) : 0;

    *size = n + 2;
    if (n == 0)
        return 0;
    if (name[0] == '#')
        return parse_entity_number(name, n);
    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++) {
        if (strlen(entities[i].name) == n && memcmp(entities[i].name, name, n) == 0)
            return entities[i].cp;
    }
    return 0;
}

static void strip_entity(struct markup_stripper *c)
{
    size_t size;
    uint32_t cp = entity_at(c, &size);
    char bytes[4];

    if (cp == 0) {
        emit_stripped(c, "&", 1);
        c->at++;
        return;
    }
    c->at += size;
    if (cp == 0xA0 || (cp < 0x80 && is_markup_blank((char)cp)))
        owe_blank(c, ' ');
    else
        emit_stripped(c, bytes, (size_t)sr1__utf8_put(cp, bytes));
}

/* ---- tags ---- */

/* Elements whose content is not text. */
static const char *const hidden[] = {"script",   "style",  "noscript", "template",
                                     "textarea", "iframe", "svg",      "head"};

/* Elements that stand on lines of their own. */
static const char *const lines[] = {
    "address", "article", "aside", "blockquote", "body",   "br",     "caption", "dd",
    "div",     "dl",      "dt",    "fieldset",   "figure", "footer", "form",    "h1",
    "h2",      "h3",      "h4",    "h5",         "h6",     "header", "hr",      "html",
    "li",      "main",    "nav",   "ol",         "p",      "pre",    "section", "table",
    "tbody",   "tfoot",   "thead", "title",      "tr",     "ul",
};

static int is_listed_name(const char *name, size_t n, const char *const *list,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(list[i]) == n && begins_with_word(name, n, 0, list[i]))
            return 1;
    }
    return 0;
}

#define IS_ONE_OF(name, n, list)                                                         \
    is_listed_name(name, n, list, sizeof(list) / sizeof((list)[0]))

/* Offset just past the '>' that closes the tag opened before `at`; '>' within quotes
 * is skipped; 0 when there is none. A failed search sets no_quotes, which keeps the
 * whole pass linear. */
static size_t quoted_tag_end(const struct markup_stripper *c, size_t at)
{
    char quote = 0;

    for (; at < c->n; at++) {
        char ch = c->s[at];

        if (quote != 0)
            quote = ch == quote ? 0 : quote;
        else if (ch == '>')
            return at + 1;
        else if ((ch == '"' || ch == '\'') && c->s[at - 1] == '=')
            quote = ch;
    }
    return 0;
}

static size_t tag_end(struct markup_stripper *c, size_t at)
{
    const char *end;

    if (!c->no_quotes) {
        size_t quoted = quoted_tag_end(c, at);

        if (quoted > 0)
            return quoted;
        c->no_quotes = 1;
    }
    end = c->no_tags || at == c->n ? NULL : memchr(c->s + at, '>', c->n - at);
    c->no_tags = end == NULL;
    return end != NULL ? (size_t)(end + 1 - c->s) : 0;
}

/* Just behind what ends with `end`, from `at` on; the text's end without it. */
static size_t skip_past(const struct markup_stripper *c, size_t at, const char *end)
{
    for (; at < c->n; at++) {
        if (c->s[at] == *end && begins_with_word(c->s, c->n, at, end))
            return at + strlen(end);
    }
    return c->n;
}

/* Behind the end tag of a hidden element. */
static size_t skip_past_element(struct markup_stripper *c, size_t at, const char *name,
                                size_t n)
{
    for (; at + n + 2 <= c->n; at++) {
        size_t i = 0;

        if (c->s[at] != '<' || c->s[at + 1] != '/')
            continue;
        while (i < n && to_lower_ascii(c->s[at + 2 + i]) == to_lower_ascii(name[i]))
            i++;
        if (i == n) {
            size_t end = tag_end(c, at + 2 + n);

            return end > 0 ? end : c->n;
        }
    }
    return c->n;
}

/* At '<': cut a tag, comment or declaration; 0 when it is only a '<'. */
static int strip_tag(struct markup_stripper *c)
{
    size_t name = c->at + 1;
    size_t closing = name < c->n && c->s[name] == '/';
    size_t n = 0;
    size_t end;

    if (begins_with_word(c->s, c->n, c->at, "<!--")) {
        c->at = skip_past(c, c->at + 4, "-->");
        return 1;
    }
    name += closing;
    while (name + n < c->n &&
           (is_markup_letter(c->s[name + n]) || is_markup_digit(c->s[name + n])))
        n++;
    if (n == 0 && (closing || name >= c->n || (c->s[name] != '!' && c->s[name] != '?')))
        return 0;
    if (n > 0 && !is_markup_letter(c->s[name]))
        return 0;
    end = tag_end(c, name + n);
    if (end == 0)
        return 0;
    if (IS_ONE_OF(c->s + name, n, lines))
        owe_blank(c, '\n');
    else if (begins_with_word(c->s + name, n, 0, "td") ||
             begins_with_word(c->s + name, n, 0, "th"))
        owe_blank(c, ' ');
    c->at = end;
    if (!closing && c->s[end - 2] != '/' && IS_ONE_OF(c->s + name, n, hidden)) {
        c->at = skip_past_element(c, end, c->s + name, n);
        owe_blank(c, ' ');
    }
    return 1;
}

static sr1_status strip_html(const char *s, size_t n, struct sr1__buf *out)
{
    struct markup_stripper c = {.s = s, .n = n, .out = out, .begin = out->len};

    while (c.at < n) {
        size_t run = c.at;

        if (s[c.at] == '<' && strip_tag(&c))
            continue;
        if (s[c.at] == '&') {
            strip_entity(&c);
            continue;
        }
        if (is_markup_blank(s[c.at])) {
            owe_blank(&c, ' ');
            c.at++;
            continue;
        }
        do
            run++;
        while (run < n && s[run] != '<' && s[run] != '&' && !is_markup_blank(s[run]));
        emit_stripped(&c, s + c.at, run - c.at);
        c.at = run;
    }
    return sr1__buf_status(out, "text");
}

/* ---- Markdown ---- */

static size_t line_end(const char *s, size_t n, size_t at)
{
    const char *end = memchr(s + at, '\n', n - at);

    return end != NULL ? (size_t)(end - s) : n;
}

/* A line of only these marks and blanks, three or more: a rule, or what underlines a
 * heading or a table's head. */
static int is_rule(const char *s, size_t from, size_t to)
{
    size_t marks = 0;

    for (size_t i = from; i < to; i++) {
        if (strchr("-=*_|:+", s[i]) != NULL && s[i] != '\0')
            marks++;
        else if (!is_markup_blank(s[i]))
            return 0;
    }
    return marks >= 3;
}

/* Behind the marks that begin a line: indents, quotes, headings, items. */
static size_t skip_line_marks(const char *s, size_t at, size_t end)
{
    for (;;) {
        size_t i = at;

        while (i < end && is_markup_blank(s[i]))
            i++;
        at = i;
        while (i < end && i - at < 6 && s[i] == '#')
            i++;
        if (i == at && i < end && strchr(">-*+|", s[i]) != NULL && s[i] != '\0')
            i++;
        if (i == at) {
            while (i < end && i - at < 9 && is_markup_digit(s[i]))
                i++;
            i += i > at && i < end && (s[i] == '.' || s[i] == ')');
            if (i == at || (s[i - 1] != '.' && s[i - 1] != ')'))
                return at;
        }
        if (i < end && !is_markup_blank(s[i]) && s[i - 1] != '>' && s[i - 1] != '|')
            return at;
        at = i;
    }
}

/* At '[': the text of a link [text](address) or [text][name] is s[at + 1..*close);
 * returns where the link ends, or 0 for none. No brackets within: the first ']' ends it,
 * so that the search stays linear. */
static size_t link_end(const char *s, size_t end, size_t at, size_t *close)
{
    size_t i = at + 1;
    char last;

    while (i < end && s[i] != ']' && s[i] != '[')
        i++;
    if (i + 1 >= end || s[i] != ']' || (s[i + 1] != '(' && s[i + 1] != '['))
        return 0;
    *close = i;
    last = s[i + 1] == '(' ? ')' : ']';
    for (i += 2; i < end && s[i] != last && s[i] != '['; i++)
        ;
    return i < end && s[i] == last ? i + 1 : 0;
}

/* One line without its marks. */
static void strip_inline(struct markup_stripper *c, size_t end)
{
    const char *s = c->s;

    while (c->at < end) {
        char ch = s[c->at];
        size_t close;
        size_t after;

        if (is_markup_blank(ch) || ch == '|') {
            owe_blank(c, ' ');
            c->at++;
        } else if (ch == '\\' && c->at + 1 < end && !is_markup_blank(s[c->at + 1]) &&
                   !is_markup_letter(s[c->at + 1]) && !is_markup_digit(s[c->at + 1]) &&
                   (unsigned char)s[c->at + 1] < 0x80) {
            emit_stripped(c, s + c->at + 1, 1);
            c->at += 2;
        } else if (ch == '!' && c->at + 1 < end && s[c->at + 1] == '[') {
            c->at++; /* an image: its text, as of a link */
        } else if (ch == '[' && (after = link_end(s, end, c->at, &close)) > 0) {
            c->at++;
            strip_inline(c, close);
            c->at = after > c->at ? after : c->at; /* a tag may reach further */
        } else if (ch == '*' || ch == '`' || ch == '~') {
            c->at++;
        } else if (ch == '_' && (c->at == 0 || is_markup_blank(s[c->at - 1]) ||
                                 c->at + 1 == end || is_markup_blank(s[c->at + 1]))) {
            c->at++; /* emphasis, not part of a name */
        } else if (ch == '&') {
            strip_entity(c);
        } else if (ch != '<' || !strip_tag(c)) {
            emit_stripped(c, s + c->at, 1);
            c->at++;
        }
    }
}

static sr1_status strip_markdown(const char *s, size_t n, struct sr1__buf *out)
{
    struct markup_stripper c = {.s = s, .n = n, .out = out, .begin = out->len};
    int fenced = 0;

    while (c.at < n) {
        size_t end = line_end(s, n, c.at);

        if (begins_with_word(s, end, c.at, "```") ||
            begins_with_word(s, end, c.at, "~~~")) {
            fenced = !fenced;
            c.at = end;
        } else if (fenced) {
            emit_stripped(&c, s + c.at, end - c.at);
            c.at = end;
        } else if (is_rule(s, c.at, end)) {
            c.at = end;
        } else {
            c.at = skip_line_marks(s, c.at, end);
            strip_inline(&c, end);
        }
        owe_blank(&c, '\n');
        if (c.at == end) /* not when a tag went on into further lines */
            c.at++;
    }
    return sr1__buf_status(out, "text");
}

/* ---- auto ---- */

static int looks_like_html(const char *s, size_t n)
{
    static const char *const ends[] = {"</p>",  "</div>",  "</body>", "</html>",
                                       "</a>",  "</span>", "</li>",   "</h1>",
                                       "</h2>", "</td>"};
    size_t at = 0;

    while (at < n && is_markup_blank(s[at]))
        at++;
    if (begins_with_word(s, n, at, "<!doctype html") ||
        begins_with_word(s, n, at, "<html"))
        return 1;
    for (; at + 1 < n; at++) {
        if (s[at] != '<' || s[at + 1] != '/')
            continue;
        for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
            if (begins_with_word(s, n, at, ends[i]))
                return 1;
        }
    }
    return 0;
}

static sr1_status strip_auto(const char *s, size_t n, struct sr1__buf *out)
{
    if (looks_like_html(s, n))
        return strip_html(s, n, out);
    sr1__buf_add(out, s, n);
    return sr1__buf_status(out, "text");
}

static const struct sr1__text_format formats[] = {
    {"plain", NULL},
    {"html", strip_html},
    {"markdown", strip_markdown},
    {"auto", strip_auto},
};

const struct sr1__text_format *sr1__text_format_find(const char *name, const char **names)
{
    if (names != NULL)
        *names = "plain, html, markdown, auto";
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (strcmp(formats[i].name, name) == 0)
            return &formats[i];
    }
    return NULL;
}
