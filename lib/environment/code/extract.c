/* environment/code/extract.c - the program in a model's text.
 *
 * Code blocks as in CommonMark, as far as models write them. The blocks that CTRL (the
 * first one, its end optional) and SandboxFusion (closed before open, the right language
 * before others) find are found; where the two differ, SandboxFusion's order applies. */
#include "environment/code/answer_text.h"

#include "base/buf.h"

#include <searchr1/ext/code.h>

#include <string.h>

#define CODE_MAX ((size_t)1 << 20)

/* A line of backticks. */
struct fence {
    size_t indent; /* white space before them */
    size_t ticks;  /* 0: the line is no fence */
    const char *info;
    size_t info_n; /* what follows them, stripped */
};

struct code_block {
    size_t begin; /* its lines in the text */
    size_t end;
    size_t indent;
    int python;
    int closed;
};

/* ---- lines ---- */

/* Length of the line at s, without its end. */
static size_t line_length(const char *s, size_t n)
{
    const char *end = memchr(s, '\n', n);

    return end != NULL ? (size_t)(end - s) : n;
}

static struct fence read_fence(const char *line, size_t n)
{
    struct fence f = {0};

    while (n > 0 && (line[n - 1] == ' ' || line[n - 1] == '\t' || line[n - 1] == '\r'))
        n--;
    while (f.indent < n && (line[f.indent] == ' ' || line[f.indent] == '\t'))
        f.indent++;
    while (f.indent + f.ticks < n && line[f.indent + f.ticks] == '`')
        f.ticks++;
    f.info = line + f.indent + f.ticks;
    f.info_n = n - f.indent - f.ticks;
    while (f.info_n > 0 && (*f.info == ' ' || *f.info == '\t')) {
        f.info++;
        f.info_n--;
    }
    if (f.ticks < 3 || memchr(f.info, '`', f.info_n) != NULL)
        f.ticks = 0;
    return f;
}

static int is_python(const struct fence *f)
{
    static const char *const names[] = {"python", "py", "python3"};
    size_t n = 0;

    while (n < f->info_n && f->info[n] != ' ' && f->info[n] != '\t')
        n++;
    for (size_t i = 0; i < 3; i++)
        if (strlen(names[i]) == n && strncasecmp(f->info, names[i], n) == 0)
            return 1;
    return 0;
}

/* ---- blocks ---- */

/* Is b to be taken rather than what was found before? */
static int is_better(const struct code_block *b, const struct code_block *best, int any)
{
    if (!any || b->closed != best->closed)
        return !any || b->closed > best->closed;
    return b->python > best->python;
}

/* The block that the fence at *at opens; *at becomes what follows it. A fence with a
 * language inside an open block begins another one: the first was never closed. */
static struct code_block read_code_block(const char *s, size_t n, size_t *at)
{
    struct fence open = read_fence(s + *at, line_length(s + *at, n - *at));
    struct code_block b = {.indent = open.indent, .python = is_python(&open)};
    size_t pos = *at + line_length(s + *at, n - *at) + 1;

    b.begin = pos < n ? pos : n;
    for (; pos < n; pos += line_length(s + pos, n - pos) + 1) {
        struct fence f = read_fence(s + pos, line_length(s + pos, n - pos));

        if (f.ticks < open.ticks)
            continue;
        b.end = pos;
        b.closed = f.info_n == 0;
        *at = b.closed ? pos + line_length(s + pos, n - pos) + 1 : pos;
        return b;
    }
    b.end = n;
    *at = n;
    return b;
}

/* The block to take; 0 when there is none. */
static int find_code_block(const char *s, size_t n, struct code_block *best)
{
    int any = 0;
    size_t at = 0;

    while (at < n) {
        size_t len = line_length(s + at, n - at);

        if (read_fence(s + at, len).ticks == 0) {
            at += len + 1;
        } else {
            struct code_block b = read_code_block(s, n, &at);

            if (is_better(&b, best, any))
                *best = b;
            any = 1;
        }
    }
    return any;
}

/* Its lines, each without the indentation of its fence. */
static void copy_block(struct sr1__buf *b, const char *s, const struct code_block *block)
{
    for (size_t at = block->begin; at < block->end;) {
        size_t len = line_length(s + at, block->end - at);
        size_t skip = 0;

        while (skip < block->indent && skip < len &&
               (s[at + skip] == ' ' || s[at + skip] == '\t'))
            skip++;
        sr1__buf_utf8(b, s + at + skip, len - skip);
        if (at + len < block->end)
            sr1__buf_char(b, '\n');
        at += len + 1;
    }
    if (b->status == SR1_OK && b->len > 0 && b->data[b->len - 1] == '\n')
        b->data[--b->len] = '\0';
}

size_t sr1__after_thinking(const char *s, size_t n)
{
    static const char tag[] = "</think>";
    size_t m = sizeof(tag) - 1;

    for (size_t at = n; at >= m; at--)
        if (memcmp(s + at - m, tag, m) == 0)
            return at;
    return 0;
}

sr1_status sr1_code_extract(const char *text, size_t len, char **out, size_t *out_len,
                            int32_t *found)
{
    struct code_block block = {0};
    int32_t where = SR1_CODE_WHOLE;
    struct sr1__buf b;
    sr1_status status;
    size_t skip, n;
    char *code;

    if (text == NULL || out == NULL || out_len == NULL)
        return sr1__fail(SR1_E_INVALID, "code extract: text or an output is NULL");
    skip = sr1__after_thinking(text, len);
    text += skip;
    len -= skip;
    sr1__buf_init(&b, CODE_MAX);
    if (find_code_block(text, len, &block)) {
        where = block.closed ? SR1_CODE_FENCED : SR1_CODE_OPEN_FENCE;
        copy_block(&b, text, &block);
    } else {
        sr1__buf_utf8(&b, text, len);
    }
    status = sr1__buf_status(&b, "program");
    n = b.len;
    code = status == SR1_OK ? sr1__buf_take(&b) : NULL;
    if (status == SR1_OK && code == NULL)
        status = sr1__fail_nomem("program");
    sr1__buf_free(&b);
    if (status != SR1_OK)
        return status;
    *out = code;
    *out_len = n;
    if (found != NULL)
        *found = where;
    return SR1_OK;
}
