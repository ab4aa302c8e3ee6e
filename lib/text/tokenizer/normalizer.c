/* text/tokenizer/normalizer.c - the kinds of normalizers. A kind is a row of the table at
 * the end: a function that reads it from the file, and one that applies it. */
#include "text/tokenizer/normalizer.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/bert_normalizer.h"
#include "text/tokenizer/precompiled_charsmap.h"
#include "text/tokenizer/nfc.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/unicode.h"

#include <string.h>

#define PUT_MAX 64 /* bytes that one Replace may put in */

/* The most that the steps may make of each byte of a text, beyond the first MiB: several
 * steps that put in more than they take out multiply. NFKC makes at most 11 of one. */
#define GROWTH_MAX 64

enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };

struct sr1__normalizer_step_kind {
    const char *type;
    sr1_status (*load)(struct sr1__normalizer_step *s, const json_t *o, const char *name);
    sr1_status (*run)(const struct sr1__normalizer_step *s, const char *text, size_t n,
                      struct sr1__buf *out);
    int (*same)(const char *text, size_t n); /* surely nothing to do; NULL: not known */
    enum sr1__form form;                     /* of run_form */
    int leads;                               /* puts something in front of a text */
};

static sr1_status load_plain_normalizer(struct sr1__normalizer_step *s, const json_t *o,
                                        const char *name)
{
    (void)s;
    (void)o;
    (void)name;
    return SR1_OK;
}

static sr1_status check_normalized_text(const struct sr1__buf *out)
{
    return sr1__buf_status(out, "text in normal form");
}

/* Calls use for each character of text. */
static void each_char(const char *text, size_t n, struct sr1__buf *out,
                      void (*use)(struct sr1__buf *out, uint32_t cp))
{
    for (size_t i = 0; i < n;) {
        uint32_t cp = (unsigned char)text[i];

        i += cp < 0x80 ? 1 : (size_t)sr1__utf8_next(text + i, n - i, &cp);
        use(out, cp);
    }
}

static int is_ascii_text(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0x80)
            return 0;
    return 1;
}

static sr1_status run_form(const struct sr1__normalizer_step *s, const char *text,
                           size_t n, struct sr1__buf *out)
{
    return sr1__normal_form(s->kind->form, text, n, out);
}

static sr1_status run_lowercase(const struct sr1__normalizer_step *s, const char *text,
                                size_t n, struct sr1__buf *out)
{
    (void)s;
    each_char(text, n, out, sr1__put_lower);
    return check_normalized_text(out);
}

static void put_without_accents(struct sr1__buf *out, uint32_t cp)
{
    if (!sr1__char_is_accent(cp))
        sr1__put_char(out, cp);
}

static sr1_status run_strip_accents(const struct sr1__normalizer_step *s,
                                    const char *text, size_t n, struct sr1__buf *out)
{
    (void)s;
    each_char(text, n, out, put_without_accents);
    return check_normalized_text(out);
}

/* Nmt: control characters go, other marks of space become one. */
static void put_nmt(struct sr1__buf *out, uint32_t cp)
{
    if ((cp >= 1 && cp <= 8) || cp == 0xb || (cp >= 0xe && cp <= 0x1f) || cp == 0x7f ||
        cp == 0x8f || cp == 0x9f)
        return;
    if (cp == 9 || cp == 0xa || cp == 0xc || cp == 0xd || cp == 0x1680 ||
        (cp >= 0x200b && cp <= 0x200f) || cp == 0x2028 || cp == 0x2029 || cp == 0x2581 ||
        cp == 0xfeff || cp == 0xfffd)
        cp = ' ';
    sr1__put_char(out, cp);
}

static sr1_status run_nmt(const struct sr1__normalizer_step *s, const char *text,
                          size_t n, struct sr1__buf *out)
{
    (void)s;
    each_char(text, n, out, put_nmt);
    return check_normalized_text(out);
}

static sr1_status load_strip(struct sr1__normalizer_step *s, const json_t *o,
                             const char *name)
{
    (void)name;
    s->parts = (json_is_true(json_object_get(o, "strip_left")) ? STRIP_LEFT : 0) |
               (json_is_true(json_object_get(o, "strip_right")) ? STRIP_RIGHT : 0);
    return SR1_OK;
}

static sr1_status run_strip(const struct sr1__normalizer_step *s, const char *text,
                            size_t n, struct sr1__buf *out)
{
    size_t left = s->parts & STRIP_LEFT ? sr1__space_after(text, n) : 0;
    size_t right = s->parts & STRIP_RIGHT ? sr1__space_before(text + left, n - left) : 0;

    sr1__buf_add(out, text + left, n - left - right);
    return check_normalized_text(out);
}

static sr1_status load_precompiled(struct sr1__normalizer_step *s, const json_t *o,
                                   const char *name)
{
    const json_t *map = json_object_get(o, "precompiled_charsmap");

    if (!json_is_string(map))
        return sr1__fail(SR1_E_PARSE,
                         "%s: the normalizer Precompiled needs 'precompiled_charsmap'",
                         name);
    return sr1__precompiled_charsmap_new(&s->map, json_string_value(map),
                                         json_string_length(map), name);
}

static sr1_status run_precompiled(const struct sr1__normalizer_step *s, const char *text,
                                  size_t n, struct sr1__buf *out)
{
    sr1__precompiled_charsmap_apply(s->map, text, n, out);
    return check_normalized_text(out);
}

/* Whether a pattern matches nothing somewhere in the empty text or in a space: the
 * reference would put something in between characters. */
static sr1_status check_not_empty(const struct sr1__pattern *p, const char *name)
{
    int empty = 0;

    SR1__TRY(sr1__pattern_matches_empty(p, &empty));
    return empty ? sr1__fail(SR1_E_UNSUPPORTED,
                             "%s: the normalizer Replace with a pattern that matches "
                             "nothing is not supported",
                             name)
                 : SR1_OK;
}

static sr1_status load_replace(struct sr1__normalizer_step *s, const json_t *o,
                               const char *name)
{
    const json_t *pattern = json_object_get(o, "pattern");
    const json_t *regex = json_object_get(pattern, "Regex");
    const char *find = json_string_value(json_object_get(pattern, "String"));
    const char *put = json_string_value(json_object_get(o, "content"));

    if ((!find && !json_is_string(regex)) || !put || (find && !*find))
        return sr1__fail(SR1_E_PARSE,
                         "%s: the normalizer Replace needs 'pattern' and 'content'",
                         name);
    if (strlen(put) > PUT_MAX || (regex && strchr(put, '$')))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%s: the normalizer Replace by '%.*s' is not supported", name,
                         PUT_MAX, put);
    s->put = sr1__strdup(put);
    s->find = find ? sr1__strdup(find) : NULL;
    if (!s->put || (find && !s->find))
        return sr1__fail_nomem("normalizer");
    if (find)
        return SR1_OK;
    SR1__TRY(sr1__pattern_new(&s->pattern, json_string_value(regex),
                              json_string_length(regex), name));
    return check_not_empty(s->pattern, name);
}

static sr1_status load_prepended(struct sr1__normalizer_step *s, const json_t *o,
                                 const char *name)
{
    const char *put = json_string_value(json_object_get(o, "prepend"));

    if (!put || strlen(put) > PUT_MAX)
        return sr1__fail(put ? SR1_E_UNSUPPORTED : SR1_E_PARSE,
                         "%s: the normalizer Prepend needs 'prepend' of at most %d bytes",
                         name, PUT_MAX);
    s->put = sr1__strdup(put);
    return s->put ? SR1_OK : sr1__fail_nomem("normalizer");
}

static sr1_status run_prepend(const struct sr1__normalizer_step *s, const char *text,
                              size_t n, struct sr1__buf *out)
{
    if (n > 0)
        sr1__buf_str(out, s->put);
    sr1__buf_add(out, text, n);
    return check_normalized_text(out);
}

static void replace_text(const struct sr1__normalizer_step *s, const char *text, size_t n,
                         struct sr1__buf *out)
{
    size_t len = strlen(s->find), from = 0;

    for (size_t i = 0; i + len <= n;) {
        if (memcmp(text + i, s->find, len) != 0) {
            i++;
            continue;
        }
        sr1__buf_add(out, text + from, i - from);
        sr1__buf_str(out, s->put);
        from = i += len;
    }
    sr1__buf_add(out, text + from, n - from);
}

static sr1_status replace_pattern(const struct sr1__normalizer_step *s, const char *text,
                                  size_t n, struct sr1__buf *out)
{
    struct sr1__split split;
    sr1_status status = sr1__split_begin(&split, s->pattern);
    const char *piece = NULL;
    size_t len = 1;

    if (status == SR1_OK)
        sr1__split_text(&split, text, n);
    while (status == SR1_OK && len) {
        status = sr1__split_next(&split, &piece, &len);
        if (status != SR1_OK || !len)
            break;
        if (sr1__split_at_match(&split))
            sr1__buf_str(out, s->put);
        else
            sr1__buf_add(out, piece, len);
    }
    sr1__split_end(&split);
    return status;
}

static sr1_status run_replace(const struct sr1__normalizer_step *s, const char *text,
                              size_t n, struct sr1__buf *out)
{
    if (s->find)
        replace_text(s, text, n, out);
    else
        SR1__TRY(replace_pattern(s, text, n, out));
    return check_normalized_text(out);
}

/* The flag under a key, where it is one, sets a part. */
static void set_part(struct sr1__normalizer_step *s, const json_t *flag, uint32_t part)
{
    if (json_is_boolean(flag))
        s->parts = json_is_true(flag) ? s->parts | part : s->parts & ~part;
}

static sr1_status load_bert_normalizer(struct sr1__normalizer_step *s, const json_t *o,
                                       const char *name)
{
    const json_t *strip = json_object_get(o, "strip_accents");
    const json_t *lower = json_object_get(o, "lowercase");

    (void)name;
    set_part(s, json_object_get(o, "clean_text"), SR1__BERT_CLEAN);
    set_part(s, json_object_get(o, "handle_chinese_chars"), SR1__BERT_HAN);
    set_part(s, lower, SR1__BERT_LOWER);
    set_part(s, json_is_boolean(strip) ? strip : lower, SR1__BERT_STRIP_MARKS);
    return SR1_OK;
}

static sr1_status run_bert_normalizer(const struct sr1__normalizer_step *s,
                                      const char *text, size_t n, struct sr1__buf *out)
{
    return sr1__bert_normalize(s->parts, text, n, out);
}

static const struct sr1__normalizer_step_kind kinds[] = {
    {"BertNormalizer", load_bert_normalizer, run_bert_normalizer, NULL},
    {"NFC", load_plain_normalizer, run_form, sr1__nfc_quick, SR1__NFC},
    {"NFD", load_plain_normalizer, run_form, is_ascii_text, SR1__NFD},
    {"NFKC", load_plain_normalizer, run_form, is_ascii_text, SR1__NFKC},
    {"NFKD", load_plain_normalizer, run_form, is_ascii_text, SR1__NFKD},
    {"Lowercase", load_plain_normalizer, run_lowercase, NULL},
    {"StripAccents", load_plain_normalizer, run_strip_accents, is_ascii_text},
    {"Nmt", load_plain_normalizer, run_nmt, NULL},
    {"Strip", load_strip, run_strip, NULL},
    {"Replace", load_replace, run_replace, NULL},
    {"Prepend", load_prepended, run_prepend, NULL, .leads = 1},
    {"Precompiled", load_precompiled, run_precompiled, NULL},
};

static sr1_status load_step(struct sr1__normalizer *to, const json_t *o, const char *type,
                            const char *name)
{
    struct sr1__normalizer_step *s;

    if (to->n == SR1__STEPS_MAX)
        return sr1__fail(SR1_E_LIMIT, "%s: a normalizer of more than %d steps", name,
                         SR1__STEPS_MAX);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].type, type) != 0)
            continue;
        s = &to->steps[to->n++];
        s->kind = &kinds[i];
        return kinds[i].load(s, o, name);
    }
    return sr1__fail(SR1_E_UNSUPPORTED, "%s: the normalizer '%s' is not supported", name,
                     type);
}

sr1_status sr1__normalizer_load(struct sr1__normalizer *to, const json_t *o,
                                const char *name)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    const json_t *list = json_object_get(o, "normalizers"), *item;
    size_t i;

    if (json_is_null(o))
        return SR1_OK;
    if (!type || strcmp(type, "Sequence") != 0)
        return load_step(to, o, type ? type : "", name);
    json_array_foreach(list, i, item) SR1__TRY(sr1__normalizer_load(to, item, name));
    return SR1_OK;
}

void sr1__normalizer_free(struct sr1__normalizer *n)
{
    for (size_t i = 0; i < n->n; i++) {
        sr1__free(n->steps[i].find);
        sr1__free(n->steps[i].put);
        sr1__pattern_free(n->steps[i].pattern);
        sr1__precompiled_charsmap_free(n->steps[i].map);
    }
    memset(n, 0, sizeof *n);
}

void sr1__normalizer_configure(struct sr1__normalizer *n, const json_t *config)
{
    const json_t *strip = json_object_get(config, "strip_accents");
    const json_t *lower = json_object_get(config, "do_lower_case");

    for (size_t i = 0; i < n->n; i++) {
        struct sr1__normalizer_step *s = &n->steps[i];

        if (s->kind->run != run_bert_normalizer)
            continue;
        set_part(s, json_object_get(config, "tokenize_chinese_chars"), SR1__BERT_HAN);
        set_part(s, lower, SR1__BERT_LOWER);
        set_part(s, json_is_boolean(strip) ? strip : lower, SR1__BERT_STRIP_MARKS);
    }
}

/* last: the step that came last, or that left nothing. */
static sr1_status run_normalizer_steps(const struct sr1__normalizer *steps,
                                       struct sr1__buf room[2], const char **text,
                                       size_t *n, int continued,
                                       const struct sr1__normalizer_step **last)
{
    size_t most = *n < SR1__BUF_DEFAULT_MAX / GROWTH_MAX
                      ? GROWTH_MAX * *n + ((size_t)1 << 20)
                      : SR1__BUF_DEFAULT_MAX;
    int turn = 0;

    for (size_t i = 0; i < steps->n && *n; i++) {
        const struct sr1__normalizer_step *s = &steps->steps[i];
        struct sr1__buf *out = &room[turn];

        *last = s;
        if ((continued && s->kind->leads) || (s->kind->same && s->kind->same(*text, *n)))
            continue;
        sr1__buf_clear(out);
        out->max = most;
        SR1__TRY(sr1__context(s->kind->run(s, *text, *n, out), "normalizer %s",
                              s->kind->type));
        *text = sr1__buf_cstr(out);
        *n = out->len;
        turn = !turn;
    }
    return SR1_OK;
}

sr1_status sr1__normalizer_run(const struct sr1__normalizer *steps,
                               struct sr1__buf room[2], const char **text, size_t *n,
                               int continued)
{
    const struct sr1__normalizer_step *last = NULL;

    return run_normalizer_steps(steps, room, text, n, continued, &last);
}

sr1_status sr1__normalizer_first_char(const struct sr1__normalizer *steps,
                                      struct sr1__buf room[2], const char *text, size_t n,
                                      size_t *first)
{
    const struct sr1__normalizer_step *last = NULL;
    uint32_t cp;

    n = (size_t)sr1__utf8_next(text, n, &cp);
    SR1__TRY(run_normalizer_steps(steps, room, &text, &n, 0, &last));
    *first = n == 0 && last && last->kind->run == run_precompiled ? 1 : n;
    return SR1_OK;
}
