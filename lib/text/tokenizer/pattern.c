/* text/tokenizer/pattern.c - tokenizer.json's regular expressions through PCRE2.
 *
 * The reference matches with Oniguruma over Unicode 16. A pattern is rewritten so that
 * PCRE2 means the same: \p{L}, its kinds, \p{N} and \p{M} get the characters PCRE2 may
 * not know yet, \s is spelled out (PCRE2 counts U+180E, Unicode no longer does).
 * Constructs that may differ between the two are refused. */
#include "text/tokenizer/pattern.h"

#include "base/buf.h"
#include "base/mem.h"
#include "text/tokenizer/pattern_table.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string.h>

/* Steps one match may take: a pattern that needs more is refused rather than waited for.
 */
#define MATCH_LIMIT 20000000u
#define HEAP_LIMIT_KIB 262144u
#define REGEX_MAX 65536u

const char sr1__pattern_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                                 " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
const char sr1__pattern_qwen[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

struct sr1__pattern {
    pcre2_general_context *memory;
    pcre2_code *code;
    pcre2_match_context *limits;
};

/* Classes as items between brackets. ASCII first: PCRE2 tests those by a bit map. */
struct regex_class {
    const char *escape;  /* as a pattern writes it */
    const char *negated; /* its complement */
    const char *items;
    const char *more;
};

static const char white_space[] =
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";

static const struct regex_class classes[] = {
    {"\\s", "\\S", white_space, ""},
    {"\\p{L}", "\\P{L}", "A-Za-z\\p{L}", newer_letters},
    {"\\p{Lu}", "\\P{Lu}", "A-Z\\p{Lu}", newer_upper_case},
    {"\\p{Ll}", "\\P{Ll}", "a-z\\p{Ll}", newer_lower_case},
    {"\\p{Lt}", "\\P{Lt}", "\\p{Lt}", ""},
    {"\\p{Lm}", "\\P{Lm}", "\\p{Lm}", newer_modifiers},
    {"\\p{Lo}", "\\P{Lo}", "\\p{Lo}", newer_other_letters},
    {"\\p{N}", "\\P{N}", "0-9\\p{N}", newer_numbers},
    {"\\p{M}", "\\P{M}", "\\p{M}", newer_marks},
};

static sr1_status refuse_pattern(const char *name, const char *regex, size_t n)
{
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: the pattern uses '%.*s', which is not supported", name,
                     (int)(n < 8 ? n : 8), regex);
}

static int starts_with(const char *p, const char *end, const char *prefix)
{
    size_t n = strlen(prefix);

    return (size_t)(end - p) >= n && memcmp(p, prefix, n) == 0;
}

/* Rewrite the class escape at p; returns what it took, 0: it is none that is known. */
static size_t put_class(const char *p, const char *end, int in_brackets,
                        struct sr1__buf *out)
{
    for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        const struct regex_class *c = &classes[i];
        int negated = starts_with(p, end, c->negated);

        if ((!negated && !starts_with(p, end, c->escape)) || (negated && in_brackets))
            continue;
        sr1__buf_str(out, in_brackets ? "" : negated ? "[^" : "[");
        sr1__buf_str(out, c->items);
        sr1__buf_str(out, c->more);
        sr1__buf_str(out, in_brackets ? "" : "]");
        return strlen(c->escape);
    }
    return 0;
}

/* Copy or rewrite the escape at p; returns what it took, 0: not supported. */
static size_t put_escape(const char *p, const char *end, int in_brackets,
                         struct sr1__buf *out)
{
    if (end - p < 2 || (unsigned char)p[1] > 0x7e || p[1] <= ' ')
        return 0;
    if (p[1] == 's' || p[1] == 'S' || p[1] == 'p' || p[1] == 'P')
        return put_class(p, end, in_brackets, out);
    if (strchr("rnt", p[1]) ||
        !((p[1] >= '0' && p[1] <= '9') || (p[1] >= 'A' && p[1] <= 'Z') ||
          (p[1] >= 'a' && p[1] <= 'z'))) {
        sr1__buf_add(out, p, 2);
        return 2;
    }
    return 0;
}

/* Groups that mean the same in both engines. */
static int known_group(const char *p, const char *end)
{
    static const char *const kinds[] = {"(?:",  "(?i:", "(?=", "(?!",
                                        "(?<=", "(?<!", "(?>"};

    if (!starts_with(p, end, "(?") && !starts_with(p, end, "(*"))
        return 1;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (starts_with(p, end, kinds[i]))
            return 1;
    return 0;
}

/* What the engines read differently, at p: classes within classes, intersections; */
static int differs_in_brackets(const char *p, const char *end)
{
    return *p == '\0' || *p == '[' || starts_with(p, end, "&&");
}

/* anchors and the dot (whose line ends differ), a bracket that begins a class, and a lazy
 * or greedy mark after a counted repeat. */
static int differs_outside(const char *p, const char *end)
{
    static const char *const others[] = {"[]", "[^]", "}?", "}+", "^", "$", "."};

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (starts_with(p, end, others[i]))
            return 1;
    return *p == '\0' || (*p == '(' && !known_group(p, end));
}

static sr1_status translate_pattern(const char *p, size_t n, const char *name,
                                    struct sr1__buf *out)
{
    const char *end = p + n;
    int in_brackets = 0;

    while (p < end) {
        size_t took = 1;

        if (*p == '\\') {
            took = put_escape(p, end, in_brackets, out);
            if (took == 0)
                return refuse_pattern(name, p, (size_t)(end - p));
        } else if (in_brackets ? differs_in_brackets(p, end) : differs_outside(p, end)) {
            return refuse_pattern(name, p, (size_t)(end - p));
        } else {
            sr1__buf_char(out, *p);
            if (*p == '[' && end - p > 1 && p[1] == '^') {
                sr1__buf_char(out, '^');
                took = 2;
            }
            in_brackets = *p == '[' ? 1 : *p == ']' ? 0 : in_brackets;
        }
        p += took;
    }
    return sr1__buf_status(out, "pattern");
}

static void *pattern_malloc(size_t n, void *unused)
{
    (void)unused;
    return sr1__malloc(n);
}

static void pattern_free(void *p, void *unused)
{
    (void)unused;
    sr1__free(p);
}

void sr1__pattern_free(struct sr1__pattern *p)
{
    if (!p)
        return;
    pcre2_match_context_free(p->limits);
    pcre2_code_free(p->code);
    pcre2_general_context_free(p->memory);
    sr1__free(p);
}

static sr1_status compile_pattern(struct sr1__pattern *p, const struct sr1__buf *regex,
                                  const char *name)
{
    pcre2_compile_context *context = NULL;
    int code = 0;
    PCRE2_SIZE at = 0;
    PCRE2_UCHAR text[128];

    p->memory = pcre2_general_context_create(pattern_malloc, pattern_free, NULL);
    context = p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    p->limits = context ? pcre2_match_context_create(p->memory) : NULL;
    if (!p->limits) {
        pcre2_compile_context_free(context);
        return sr1__fail_nomem("pattern");
    }
    p->code = pcre2_compile((PCRE2_SPTR)sr1__buf_cstr(regex), regex->len,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at,
                            context);
    pcre2_compile_context_free(context);
    if (!p->code) {
        if (code == PCRE2_ERROR_HEAP_FAILED)
            return sr1__fail_nomem("pattern");
        pcre2_get_error_message(code, text, sizeof text);
        return sr1__fail(SR1_E_PARSE, "%s: the pattern: %s", name, (const char *)text);
    }
    pcre2_set_match_limit(p->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(p->limits, HEAP_LIMIT_KIB);
    /* Without a compiler for this processor matching is slower, not different. */
    if (pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) == PCRE2_ERROR_NOMEMORY)
        return sr1__fail_nomem("pattern");
    return SR1_OK;
}

sr1_status sr1__pattern_new(struct sr1__pattern **out, const char *regex, size_t n,
                            const char *name)
{
    struct sr1__pattern *p = sr1__calloc(1, sizeof *p);
    struct sr1__buf translated;
    sr1_status status;

    SR1__CHECK_ALLOC(p, "pattern");
    sr1__buf_init(&translated, 16 * REGEX_MAX);
    status = translate_pattern(regex, n, name, &translated);
    if (status == SR1_OK)
        status = compile_pattern(p, &translated, name);
    sr1__buf_free(&translated);
    if (status == SR1_OK)
        *out = p;
    else
        sr1__pattern_free(p);
    return status;
}

sr1_status sr1__split_begin(struct sr1__split *s, const struct sr1__pattern *p)
{
    *s = (struct sr1__split){.pattern = p};
    s->data = pcre2_match_data_create(1, p->memory);
    return s->data ? SR1_OK : sr1__fail_nomem("pattern match");
}

void sr1__split_end(struct sr1__split *s)
{
    pcre2_match_data_free(s->data);
    s->data = NULL;
}

void sr1__split_text(struct sr1__split *s, const char *text, size_t n)
{
    s->text = text;
    s->n = n;
    s->at = s->match = s->match_end = 0;
}

/* A match at or after `from`; the compiled matcher first, the slower one when its stack
 * of 32 KiB does not do. */
static int match_pattern_from(struct sr1__split *s, size_t from)
{
    const struct sr1__pattern *p = s->pattern;
    int rc = pcre2_match(p->code, (PCRE2_SPTR)s->text, s->n, from, PCRE2_NO_UTF_CHECK,
                         s->data, p->limits);

    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(p->code, (PCRE2_SPTR)s->text, s->n, from,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->data, p->limits);
    return rc;
}

/* Set match to the next match that is not empty, or to the end of the text. */
static sr1_status next_match(struct sr1__split *s)
{
    size_t from = s->at;

    for (;;) {
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(s->data);
        int rc = match_pattern_from(s, from);

        if (rc == PCRE2_ERROR_NOMATCH) {
            s->match = s->match_end = s->n;
            return SR1_OK;
        }
        if (rc == PCRE2_ERROR_NOMEMORY)
            return sr1__fail_nomem("pattern match");
        if (rc < 0)
            return sr1__fail(SR1_E_LIMIT,
                             "the pattern takes too many steps "
                             "on this text (PCRE2 error %d)",
                             rc);
        if (span[1] > span[0] && span[0] >= s->at) {
            s->match = span[0];
            s->match_end = span[1];
            return SR1_OK;
        }
        from = span[1] > from ? span[1] : from + 1;
        while (from < s->n && ((unsigned char)s->text[from] & 0xc0) == 0x80)
            from++;
        if (from > s->n)
            from = s->n;
        if (from == s->n) {
            s->match = s->match_end = s->n;
            return SR1_OK;
        }
    }
}

sr1_status sr1__split_next(struct sr1__split *s, const char **piece, size_t *n)
{
    size_t end;

    if (s->at < s->n && s->match_end <= s->at)
        SR1__TRY(next_match(s));
    end = s->at < s->match ? s->match : s->match_end;
    *piece = s->text + s->at;
    *n = s->at < s->n ? end - s->at : 0;
    s->at += *n;
    return SR1_OK;
}

int sr1__split_at_match(const struct sr1__split *s)
{
    return s->match_end > s->match && s->at == s->match_end;
}

sr1_status sr1__pattern_matches_empty(const struct sr1__pattern *p, int *matches)
{
    struct sr1__split s;

    SR1__TRY(sr1__split_begin(&s, p));
    sr1__split_text(&s, "", 0);
    *matches = match_pattern_from(&s, 0) != PCRE2_ERROR_NOMATCH;
    sr1__split_end(&s);
    return SR1_OK;
}
