/* text/data/prompt_template.c - a template is split once into literal pieces and
 * placeholders. */
#include "text/data/prompt_template.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

#define MAX_FILE ((size_t)1 << 20)
#define MAX_PIECES 1024

/* A literal text[from, to), or with place >= 0 the value of that name. */
struct template_piece {
    size_t from;
    size_t to;
    int place;
};

struct sr1__prompt_template {
    char *text;
    struct template_piece pieces[MAX_PIECES];
    size_t n;
};

struct parse {
    struct sr1__prompt_template *t;
    const char *name;
    const char *const *names;
    size_t n_names;
};

static size_t find_template_line(const struct sr1__prompt_template *t, size_t at)
{
    size_t line = 1;

    for (size_t i = 0; i < at; i++)
        line += t->text[i] == '\n';
    return line;
}

static sr1_status add_template_piece(struct parse *p, size_t from, size_t to, int place)
{
    if (p->t->n == MAX_PIECES)
        return sr1__fail(SR1_E_LIMIT, "%s: more than %d places", p->name, MAX_PIECES / 2);
    p->t->pieces[p->t->n++] = (struct template_piece){from, to, place};
    return SR1_OK;
}

static sr1_status unknown_place(const struct parse *p, size_t at, const char *name,
                                size_t n)
{
    struct sr1__buf known;
    sr1_status status;

    sr1__buf_init(&known, 512);
    for (size_t i = 0; i < p->n_names; i++)
        sr1__buf_fmt(&known, "%s{{%s}}", i ? ", " : "", p->names[i]);
    status = sr1__fail(SR1_E_PARSE, "%s:%zu: {{%.*s}} is not known here; known: %s",
                       p->name, find_template_line(p->t, at), (int)(n < 64 ? n : 64),
                       name, known.len ? sr1__buf_cstr(&known) : "none");
    sr1__buf_free(&known);
    return status;
}

/* The name, n bytes, between the braces that open here; NULL: they are not closed. *end
 * is left behind them. */
static const char *read_place(const char *open, size_t *n, const char **end)
{
    const char *name = open + 2;
    const char *close = strstr(name, "}}");

    if (!close)
        return NULL;
    *end = close + 2;
    while (name < close && *name == ' ')
        name++;
    while (close > name && close[-1] == ' ')
        close--;
    *n = (size_t)(close - name);
    return name;
}

static int is_place(const char *place, const char *name, size_t n)
{
    return strlen(place) == n && memcmp(place, name, n) == 0;
}

/* The place that opens at `at`; *end is left behind its closing braces. */
static sr1_status add_template_place(struct parse *p, size_t at, size_t *end)
{
    const char *behind = NULL;
    size_t n = 0;
    const char *name = read_place(p->t->text + at, &n, &behind);

    if (!name)
        return sr1__fail(SR1_E_PARSE, "%s:%zu: '{{' without '}}'", p->name,
                         find_template_line(p->t, at));
    *end = (size_t)(behind - p->t->text);
    for (size_t i = 0; i < p->n_names; i++) {
        if (is_place(p->names[i], name, n))
            return add_template_piece(p, 0, 0, (int)i);
    }
    return unknown_place(p, at, name, n);
}

static sr1_status split_template(struct parse *p)
{
    const char *text = p->t->text;
    size_t pos = 0;
    const char *open;

    while ((open = strstr(text + pos, "{{")) != NULL) {
        size_t at = (size_t)(open - text);

        SR1__TRY(add_template_piece(p, pos, at, -1));
        SR1__TRY(add_template_place(p, at, &pos));
    }
    return add_template_piece(p, pos, strlen(text), -1);
}

sr1_status sr1__prompt_template_parse(struct sr1__prompt_template **out, const char *text,
                                      size_t n, const char *name,
                                      const char *const *names, size_t n_names)
{
    struct parse p = {NULL, name, names, n_names};
    sr1_status status;

    if (!sr1__utf8_valid(text, n) || (n && memchr(text, '\0', n)))
        return sr1__fail(SR1_E_PARSE,
                         "%s: a template must be UTF-8 text without NUL bytes", name);
    SR1__CALLOC(p.t, 1, "template");
    p.t->text = sr1__strndup(text, n);
    status = p.t->text ? split_template(&p) : sr1__fail_nomem("template");
    if (status != SR1_OK) {
        sr1__prompt_template_free(p.t);
        return status;
    }
    *out = p.t;
    return SR1_OK;
}

sr1_status sr1__system_template_parse(struct sr1__prompt_template **out, const char *text,
                                      const char *name)
{
    static const char *const places[] = {"tools"};

    return sr1__prompt_template_parse(out, text, strlen(text), name, places, 1);
}

sr1_status sr1__prompt_template_load(struct sr1__prompt_template **out, const char *path,
                                     const char *const *names, size_t n_names)
{
    struct sr1__buf b;
    sr1_status status;

    SR1__TRY(sr1__file_read(path, MAX_FILE, &b));
    status =
        sr1__prompt_template_parse(out, sr1__buf_cstr(&b), b.len, path, names, n_names);
    sr1__buf_free(&b);
    return status;
}

int sr1__prompt_template_has(const struct sr1__prompt_template *t, int place)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->pieces[i].place == place)
            return 1;
    return 0;
}

int sr1__prompt_template_names(const char *text, const char *place)
{
    const char *name, *end;
    size_t n;

    for (; (text = strstr(text, "{{")) != NULL; text += 2)
        if ((name = read_place(text, &n, &end)) != NULL && is_place(place, name, n))
            return 1;
    return 0;
}

sr1_status sr1__prompt_template_needs_place(const struct sr1__prompt_template *t,
                                            const char *name, const char *place)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->pieces[i].place >= 0)
            return SR1_OK;
    return sr1__fail(SR1_E_PARSE,
                     "%s: {{%s}} does not stand in it, so that all prompts would be the "
                     "same",
                     name, place);
}

void sr1__prompt_template_free(struct sr1__prompt_template *t)
{
    if (!t)
        return;
    sr1__free(t->text);
    sr1__free(t);
}

sr1_status sr1__prompt_template_render(const struct sr1__prompt_template *t,
                                       const char *const *values, struct sr1__buf *out,
                                       struct sr1__spans *own)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct template_piece *p = &t->pieces[i];
        size_t at = out->len;

        if (p->place >= 0) {
            sr1__buf_str(out, values[p->place]);
            continue;
        }
        sr1__buf_add(out, t->text + p->from, p->to - p->from);
        if (own)
            SR1__TRY(sr1__spans_add(own, at, out->len));
    }
    return sr1__buf_status(out, "prompt");
}

static sr1_status no_builtin(const char *name)
{
    struct sr1__buf known;
    sr1_status status;

    sr1__buf_init(&known, 512);
    for (size_t i = 0; i < sr1__n_builtin_templates; i++)
        sr1__buf_fmt(&known, "%s%s", i ? ", " : "", sr1__builtin_templates[i].name);
    status = sr1__fail(SR1_E_NOT_FOUND, "no built-in template '%.64s'; there are %s",
                       name, sr1__buf_cstr(&known));
    sr1__buf_free(&known);
    return status;
}

sr1_status sr1__prompt_template_builtin(const char *name, const char **text, size_t *n)
{
    for (size_t i = 0; i < sr1__n_builtin_templates; i++) {
        const struct sr1__builtin_template *t = &sr1__builtin_templates[i];

        if (strcmp(t->name, name) != 0)
            continue;
        *text = (const char *)t->text;
        if (n)
            *n = t->n;
        return SR1_OK;
    }
    return no_builtin(name);
}
