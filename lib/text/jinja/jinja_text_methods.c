/* text/jinja/jinja_text_methods.c - the methods of texts that templates call. */
#include "text/jinja/jinja_value.h"

#include "base/text.h"

#include <string.h>

#include <utf8proc.h>

static sr1_status method_case(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jtext_case(r, c->self.text, c->how, out));
    out->form = c->self.form;
    return SR1_OK;
}

static sr1_status strip_sides(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    *out = c->self;
    return sr1__jtext_strip_by(r, c->self.text, &c->arg[0], c->how, &out->text);
}

/* ---- split ---- */

static sr1_status add_part(struct sr1__jrun *r, struct sr1__jvalue *list,
                           struct sr1__jtext t, size_t begin, size_t end)
{
    return sr1__jlist_add(r, list->list,
                          sr1__jvalue_text(sr1__jtext_slice(t, begin, end)));
}

/* At runs of white space, none of which is left at the ends. */
static sr1_status split_spaces(struct sr1__jrun *r, struct sr1__jtext t, int64_t most,
                               struct sr1__jvalue *out)
{
    uint32_t cp;
    size_t i;

    for (;;) {
        t = sr1__jtext_strip(t, 1);
        if (t.n == 0)
            return SR1_OK;
        if (most-- == 0)
            return add_part(r, out, t, 0, sr1__jtext_strip(t, 2).n);
        for (i = 0; i < t.n;) {
            size_t n = sr1__jinja_char(t.s + i, t.n - i, &cp);

            if (sr1__is_space(cp))
                break;
            i += n;
        }
        SR1__TRY(add_part(r, out, t, 0, i));
        t = sr1__jtext_slice(t, i, t.n);
    }
}

static sr1_status text_split(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    struct sr1__jtext t = c->self.text, by;
    size_t from = 0, at;
    int64_t most;

    SR1__TRY(sr1__jarg_int(r, &c->arg[1], -1, &most));
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, out));
    SR1__TRY(sr1__jrun_spend(r, t.n / 64));
    most = most < 0 ? INT64_MAX : most;
    if (c->arg[0].kind == SR1__J_ABSENT || c->arg[0].kind == SR1__J_NONE)
        return split_spaces(r, t, most, out);
    SR1__TRY(sr1__jarg_text(r, &c->arg[0], "split", &by));
    if (by.n == 0)
        return sr1__jrun_fail(r, "split: the separator is empty");
    while (most-- > 0 && (at = sr1__jtext_find(t, by, from)) != SR1__J_NOWHERE) {
        SR1__TRY(add_part(r, out, t, from, at));
        from = at + by.n;
    }
    return add_part(r, out, t, from, t.n);
}

/* The last place where `what` stands before `end`; 64 bytes that are compared or looked
 * through are a step. */
static sr1_status find_last(struct sr1__jrun *r, struct sr1__jtext t,
                            struct sr1__jtext what, size_t end, size_t *out)
{
    size_t n = end >= what.n ? end - what.n + 1 : 0;

    *out = SR1__J_NOWHERE;
    while (n > 0) {
        const char *at = what.n ? memrchr(t.s, what.s[0], n) : t.s + n - 1;
        size_t passed = at ? n - (size_t)(at - t.s) : n;

        SR1__TRY(sr1__jrun_spend(r, 1 + (passed + what.n) / 64));
        n -= passed;
        if (at && (what.n == 0 || memcmp(at, what.s, what.n) == 0)) {
            *out = n;
            return SR1_OK;
        }
    }
    return SR1_OK;
}

static sr1_status text_rsplit(struct sr1__jrun *r, struct sr1__jcall *c,
                              struct sr1__jvalue *out)
{
    struct sr1__jtext t = c->self.text, by;
    size_t end = t.n, at;
    int64_t most;

    SR1__TRY(sr1__jarg_int(r, &c->arg[1], -1, &most));
    if (most < 0)
        return text_split(r, c, out);
    SR1__TRY(sr1__jarg_text(r, &c->arg[0], "rsplit", &by));
    if (by.n == 0)
        return sr1__jrun_fail(r, "rsplit: the separator is empty");
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_LIST, out));
    while (most-- > 0) {
        SR1__TRY(find_last(r, t, by, end, &at));
        if (at == SR1__J_NOWHERE)
            break;
        SR1__TRY(add_part(r, out, t, at + by.n, end));
        end = at;
    }
    SR1__TRY(add_part(r, out, t, 0, end));
    sr1__jlist_reverse(out->list);
    return SR1_OK;
}

/* The first place where a text stands, or (last) the last. */
static sr1_status find_place(struct sr1__jrun *r, struct sr1__jtext t,
                             struct sr1__jtext what, int last, size_t *out)
{
    if (last)
        return find_last(r, t, what, t.n, out);
    SR1__TRY(sr1__jrun_spend(r, t.n / 16));
    *out = sr1__jtext_find(t, what, 0);
    return SR1_OK;
}

/* (before, separator, behind), at the first place or (how) at the last. */
static sr1_status part_text(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    struct sr1__jtext t = c->self.text, by;
    size_t at, behind;

    SR1__TRY(sr1__jarg_text(r, &c->arg[0], "partition", &by));
    if (by.n == 0)
        return sr1__jrun_fail(r, "partition: the separator is empty");
    SR1__TRY(sr1__jlist_new(r, SR1__J_IS_TUPLE, out));
    SR1__TRY(find_place(r, t, by, c->how, &at));
    behind = at == SR1__J_NOWHERE ? (c->how ? 0 : t.n) : at + by.n;
    at = at == SR1__J_NOWHERE ? behind : at;
    SR1__TRY(add_part(r, out, t, 0, at));
    SR1__TRY(add_part(r, out, t, at, behind));
    return add_part(r, out, t, behind, t.n);
}

static sr1_status text_splitlines(struct sr1__jrun *r, struct sr1__jcall *c,
                                  struct sr1__jvalue *out)
{
    return sr1__jtext_lines(r, c->self.text, sr1__jarg_true(&c->arg[0], 0), out);
}

/* ---- finding ---- */

static int has_affix(struct sr1__jtext t, struct sr1__jtext what, int at_end)
{
    return what.n <= t.n && (what.n == 0 || memcmp(t.s + (at_end ? t.n - what.n : 0),
                                                   what.s, what.n) == 0);
}

/* One text, or a tuple of which one will do, at the beginning or (how) at the end. */
static sr1_status test_affix(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    const struct sr1__jvalue *v = &c->arg[0];
    int many = v->kind == SR1__J_LIST && v->form == SR1__J_IS_TUPLE, is = 0;
    struct sr1__jtext what;

    if (c->arg[1].kind != SR1__J_ABSENT)
        return sr1__jrun_fail(r, "startswith and endswith take no bounds here; slice the "
                                 "text");
    for (size_t i = 0; i < (many ? v->list->n : 1); i++) {
        SR1__TRY(sr1__jarg_text(r, many ? &v->list->v[i] : v, "startswith", &what));
        SR1__TRY(sr1__jrun_spend(r, 1 + what.n / 64));
        is |= has_affix(c->self.text, what, c->how);
    }
    *out = sr1__jvalue_bool(is);
    return SR1_OK;
}

static sr1_status remove_affix(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    struct sr1__jtext what, t = c->self.text;

    SR1__TRY(sr1__jarg_text(r, &c->arg[0], "removeprefix", &what));
    SR1__TRY(sr1__jrun_spend(r, what.n / 64));
    *out = c->self;
    if (has_affix(t, what, c->how))
        out->text = sr1__jtext_slice(t, c->how ? 0 : what.n, c->how ? t.n - what.n : t.n);
    return SR1_OK;
}

/* Characters before the first or (how) the last place of arg[0]; -1: it is nowhere. */
static sr1_status find_text(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    struct sr1__jvalue before;
    struct sr1__jtext what;
    size_t at, n;

    SR1__TRY(sr1__jarg_text(r, &c->arg[0], "find", &what));
    if (c->arg[1].kind != SR1__J_ABSENT)
        return sr1__jrun_fail(r, "find takes no bounds here; slice the text");
    SR1__TRY(find_place(r, c->self.text, what, c->how, &at));
    *out = sr1__jvalue_int(-1);
    if (at == SR1__J_NOWHERE)
        return SR1_OK;
    before = sr1__jvalue_text(sr1__jtext_slice(c->self.text, 0, at));
    SR1__TRY(sr1__jvalue_length(r, &before, &n));
    *out = sr1__jvalue_int((int64_t)n);
    return SR1_OK;
}

static sr1_status index_text(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    SR1__TRY(find_text(r, c, out));
    return out->i >= 0 ? SR1_OK : sr1__jrun_fail(r, "index: the text is not there");
}

static sr1_status text_count(struct sr1__jrun *r, struct sr1__jcall *c,
                             struct sr1__jvalue *out)
{
    struct sr1__jtext what;
    size_t from = 0, at, n = 0;

    SR1__TRY(sr1__jarg_text(r, &c->arg[0], "count", &what));
    if (what.n == 0) {
        SR1__TRY(sr1__jvalue_length(r, &c->self, &n));
        *out = sr1__jvalue_int((int64_t)n + 1);
        return SR1_OK;
    }
    SR1__TRY(sr1__jrun_spend(r, c->self.text.n / 16));
    while ((at = sr1__jtext_find(c->self.text, what, from)) != SR1__J_NOWHERE) {
        from = at + what.n;
        n++;
    }
    *out = sr1__jvalue_int((int64_t)n);
    return SR1_OK;
}

static sr1_status text_replace(struct sr1__jrun *r, struct sr1__jcall *c,
                               struct sr1__jvalue *out)
{
    struct sr1__jtext old, by;
    int64_t count;

    SR1__TRY(sr1__jarg_text(r, &c->arg[0], "replace", &old));
    SR1__TRY(sr1__jarg_text(r, &c->arg[1], "replace", &by));
    SR1__TRY(sr1__jarg_int(r, &c->arg[2], -1, &count));
    return sr1__jtext_replace(r, c->self.text, old, by, count, out);
}

static sr1_status text_join(struct sr1__jrun *r, struct sr1__jcall *c,
                            struct sr1__jvalue *out)
{
    struct sr1__jlist *list;

    SR1__TRY(sr1__jvalue_iterate(r, &c->arg[0], &list));
    return sr1__jtext_join(r, c->self.text, list, 1, out);
}

/* ---- asking what characters are ---- */

enum char_class { DIGITS, LETTERS, LETTERS_OR_DIGITS, SPACES };

static int is_of_class(uint32_t cp, enum char_class class)
{
    utf8proc_category_t g = utf8proc_category((utf8proc_int32_t)cp);
    int letter = g >= UTF8PROC_CATEGORY_LU && g <= UTF8PROC_CATEGORY_LO;
    int digit = g == UTF8PROC_CATEGORY_ND;

    return class == DIGITS    ? digit
           : class == LETTERS ? letter
           : class == SPACES  ? sr1__is_space(cp)
                              : letter || digit;
}

static sr1_status are_all(struct sr1__jrun *r, struct sr1__jcall *c,
                          struct sr1__jvalue *out)
{
    struct sr1__jtext t = c->self.text;
    int are = t.n > 0;
    uint32_t cp;

    SR1__TRY(sr1__jrun_spend(r, t.n));
    for (size_t i = 0; i < t.n && are;) {
        i += sr1__jinja_char(t.s + i, t.n - i, &cp);
        are = is_of_class(cp, (enum char_class)c->how);
    }
    *out = sr1__jvalue_bool(are);
    return SR1_OK;
}

/* Some letter of this case and none of the other. */
static int has_only_case(struct sr1__jtext t, int upper)
{
    int seen = 0;
    uint32_t cp;

    for (size_t i = 0; i < t.n;) {
        utf8proc_category_t g;

        i += sr1__jinja_char(t.s + i, t.n - i, &cp);
        g = utf8proc_category((utf8proc_int32_t)cp);
        if (g == UTF8PROC_CATEGORY_LT ||
            g == (upper ? UTF8PROC_CATEGORY_LL : UTF8PROC_CATEGORY_LU))
            return 0;
        seen |= g == (upper ? UTF8PROC_CATEGORY_LU : UTF8PROC_CATEGORY_LL);
    }
    return seen;
}

static sr1_status test_only_case(struct sr1__jrun *r, struct sr1__jcall *c,
                                 struct sr1__jvalue *out)
{
    SR1__TRY(sr1__jrun_spend(r, c->self.text.n));
    *out = sr1__jvalue_bool(has_only_case(c->self.text, c->how == SR1__J_UPPER));
    return SR1_OK;
}

const struct sr1__jfunction sr1__jinja_text_methods[] = {
    {"upper", method_case, "", 0, SR1__J_UPPER},
    {"lower", method_case, "", 0, SR1__J_LOWER},
    {"title", method_case, "", 0, SR1__J_TITLE},
    {"capitalize", method_case, "", 0, SR1__J_CAPITALIZE},
    {"strip", strip_sides, "chars", 0, 3},
    {"lstrip", strip_sides, "chars", 0, 1},
    {"rstrip", strip_sides, "chars", 0, 2},
    {"split", text_split, "sep maxsplit", 0},
    {"rsplit", text_rsplit, "sep maxsplit", 0},
    {"partition", part_text, "sep", 1, 0},
    {"rpartition", part_text, "sep", 1, 1},
    {"splitlines", text_splitlines, "keepends", 0},
    {"startswith", test_affix, "prefix start end", 1, 0},
    {"endswith", test_affix, "suffix start end", 1, 1},
    {"removeprefix", remove_affix, "prefix", 1, 0},
    {"removesuffix", remove_affix, "suffix", 1, 1},
    {"find", find_text, "sub start end", 1, 0},
    {"rfind", find_text, "sub start end", 1, 1},
    {"index", index_text, "sub start end", 1, 0},
    {"rindex", index_text, "sub start end", 1, 1},
    {"count", text_count, "sub", 1},
    {"replace", text_replace, "old new count", 2},
    {"join", text_join, "iterable", 1},
    {"isdigit", are_all, "", 0, DIGITS},
    {"isalpha", are_all, "", 0, LETTERS},
    {"isalnum", are_all, "", 0, LETTERS_OR_DIGITS},
    {"isspace", are_all, "", 0, SPACES},
    {"isupper", test_only_case, "", 0, SR1__J_UPPER},
    {"islower", test_only_case, "", 0, SR1__J_LOWER},
    {"format", NULL, NULL, 0},
    {"format_map", NULL, NULL, 0},
    {"casefold", NULL, NULL, 0},
    {"center", NULL, NULL, 0},
    {"encode", NULL, NULL, 0},
    {"expandtabs", NULL, NULL, 0},
    {"isascii", NULL, NULL, 0},
    {"isdecimal", NULL, NULL, 0},
    {"isidentifier", NULL, NULL, 0},
    {"isnumeric", NULL, NULL, 0},
    {"isprintable", NULL, NULL, 0},
    {"istitle", NULL, NULL, 0},
    {"ljust", NULL, NULL, 0},
    {"maketrans", NULL, NULL, 0},
    {"rjust", NULL, NULL, 0},
    {"swapcase", NULL, NULL, 0},
    {"translate", NULL, NULL, 0},
    {"zfill", NULL, NULL, 0},
    {NULL, NULL, NULL, 0},
};
