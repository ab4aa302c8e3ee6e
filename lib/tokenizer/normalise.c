/* tokenizer/normalise.c - the kinds of normalizers and what each does. A kind is a row of
 * the table at the end: how it is read from the file, and how it is run. */
#include "tokenizer/normalise.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/nfc.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

#include <string.h>

#define PUT_MAX 64 /* bytes that one Replace may put in; a bound on growth */

enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };

struct sr1__step_kind {
    const char *type;
    sr1_status (*load)(struct sr1__step *s, const json_t *o, const char *name);
    sr1_status (*run)(const struct sr1__step *s, const char *text, size_t n,
                      struct sr1__buf *out);
    int (*same)(const char *text, size_t n); /* surely nothing to do; NULL: not known */
};

static sr1_status load_nothing(struct sr1__step *s, const json_t *o, const char *name)
{
    (void)s;
    (void)o;
    (void)name;
    return SR1_OK;
}

static sr1_status finish(const struct sr1__buf *out)
{
    return sr1__buf_status(out, "text in normal form");
}

static void put_char(struct sr1__buf *out, uint32_t cp)
{
    char utf8[4];

    if (cp < 0x80)
        sr1__buf_char(out, (char)cp);
    else
        sr1__buf_add(out, utf8, (size_t)sr1__utf8_put(cp, utf8));
}

static void put_lower(struct sr1__buf *out, uint32_t cp)
{
    uint32_t lower[2];
    size_t n = sr1__char_lower(cp, lower);

    for (size_t i = 0; i < n; i++)
        put_char(out, lower[i]);
}

/* Calls put for each character of text. */
static void each_char(const char *text, size_t n, struct sr1__buf *out,
                      void (*use)(struct sr1__buf *out, uint32_t cp))
{
    for (size_t i = 0; i < n;) {
        uint32_t cp = (unsigned char)text[i];

        i += cp < 0x80 ? 1 : (size_t)sr1__utf8_next(text + i, n - i, &cp);
        use(out, cp);
    }
}

static int is_ascii(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] >= 0x80)
            return 0;
    return 1;
}

static sr1_status run_nfc(const struct sr1__step *s, const char *text, size_t n,
                          struct sr1__buf *out)
{
    (void)s;
    return sr1__normal_form(SR1__NFC, text, n, out);
}

static sr1_status run_nfd(const struct sr1__step *s, const char *text, size_t n,
                          struct sr1__buf *out)
{
    (void)s;
    return sr1__normal_form(SR1__NFD, text, n, out);
}

static sr1_status run_nfkc(const struct sr1__step *s, const char *text, size_t n,
                           struct sr1__buf *out)
{
    (void)s;
    return sr1__normal_form(SR1__NFKC, text, n, out);
}

static sr1_status run_nfkd(const struct sr1__step *s, const char *text, size_t n,
                           struct sr1__buf *out)
{
    (void)s;
    return sr1__normal_form(SR1__NFKD, text, n, out);
}

static sr1_status run_lowercase(const struct sr1__step *s, const char *text, size_t n,
                                struct sr1__buf *out)
{
    (void)s;
    each_char(text, n, out, put_lower);
    return finish(out);
}

static void put_without_accents(struct sr1__buf *out, uint32_t cp)
{
    if (!sr1__char_is_accent(cp))
        put_char(out, cp);
}

static sr1_status run_strip_accents(const struct sr1__step *s, const char *text, size_t n,
                                    struct sr1__buf *out)
{
    (void)s;
    each_char(text, n, out, put_without_accents);
    return finish(out);
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
    put_char(out, cp);
}

static sr1_status run_nmt(const struct sr1__step *s, const char *text, size_t n,
                          struct sr1__buf *out)
{
    (void)s;
    each_char(text, n, out, put_nmt);
    return finish(out);
}

static sr1_status load_strip(struct sr1__step *s, const json_t *o, const char *name)
{
    (void)name;
    s->parts = (json_is_true(json_object_get(o, "strip_left")) ? STRIP_LEFT : 0) |
               (json_is_true(json_object_get(o, "strip_right")) ? STRIP_RIGHT : 0);
    return SR1_OK;
}

static sr1_status run_strip(const struct sr1__step *s, const char *text, size_t n,
                            struct sr1__buf *out)
{
    size_t left = s->parts & STRIP_LEFT ? sr1__space_after(text, n) : 0;
    size_t right = s->parts & STRIP_RIGHT ? sr1__space_before(text + left, n - left) : 0;

    sr1__buf_add(out, text + left, n - left - right);
    return finish(out);
}

static sr1_status load_precompiled(struct sr1__step *s, const json_t *o, const char *name)
{
    const json_t *map = json_object_get(o, "precompiled_charsmap");

    if (!json_is_string(map))
        return sr1__fail(SR1_E_PARSE,
                         "%s: the normalizer Precompiled needs 'precompiled_charsmap'",
                         name);
    return sr1__charsmap_new(&s->map, json_string_value(map), json_string_length(map),
                             name);
}

static sr1_status run_precompiled(const struct sr1__step *s, const char *text, size_t n,
                                  struct sr1__buf *out)
{
    sr1__charsmap_apply(s->map, text, n, out);
    return finish(out);
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

static sr1_status load_replace(struct sr1__step *s, const json_t *o, const char *name)
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

static void replace_text(const struct sr1__step *s, const char *text, size_t n,
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

static sr1_status replace_pattern(const struct sr1__step *s, const char *text, size_t n,
                                  struct sr1__buf *out)
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

static sr1_status run_replace(const struct sr1__step *s, const char *text, size_t n,
                              struct sr1__buf *out)
{
    if (s->find)
        replace_text(s, text, n, out);
    else
        SR1__TRY(replace_pattern(s, text, n, out));
    return finish(out);
}

static sr1_status load_bert(struct sr1__step *s, const json_t *o, const char *name)
{
    const json_t *strip = json_object_get(o, "strip_accents");
    int lower = json_is_true(json_object_get(o, "lowercase"));
    int strips = json_is_boolean(strip) ? json_is_true(strip) : lower;

    (void)name;
    s->parts = (json_is_true(json_object_get(o, "clean_text")) ? SR1__BERT_CLEAN : 0) |
               (json_is_true(json_object_get(o, "handle_chinese_chars")) ? SR1__BERT_HAN
                                                                         : 0) |
               (strips ? SR1__BERT_STRIP_MARKS : 0) | (lower ? SR1__BERT_LOWER : 0);
    return SR1_OK;
}

/* Spaces and Han of one character that is not ASCII; what is removed adds nothing. */
static void clean_char(const struct sr1__step *s, uint32_t cp, struct sr1__buf *out)
{
    int han = (s->parts & SR1__BERT_HAN) && sr1__char_is_han(cp);

    if (s->parts & SR1__BERT_CLEAN) {
        if (cp == 0xfffd || sr1__char_is_bert_removed(cp))
            return;
        cp = sr1__char_is_space(cp) ? ' ' : cp;
    }
    if (han)
        sr1__buf_char(out, ' ');
    put_char(out, cp);
    if (han)
        sr1__buf_char(out, ' ');
}

/* Buffers of one run. */
struct bert_room {
    struct sr1__buf clean;
    struct sr1__buf form;
};

/* A stretch without ASCII: cleaned, decomposed, without marks, in lower case. */
static sr1_status bert_stretch(const struct sr1__step *s, const char *text, size_t n,
                               struct bert_room *room, struct sr1__buf *out)
{
    struct sr1__buf *from = &room->clean;
    int strip = (s->parts & SR1__BERT_STRIP_MARKS) != 0;

    sr1__buf_clear(&room->clean);
    sr1__buf_clear(&room->form);
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;

        i += (size_t)sr1__utf8_next(text + i, n - i, &cp);
        clean_char(s, cp, from);
    }
    SR1__TRY(finish(from));
    if (strip) {
        SR1__TRY(sr1__normal_form(SR1__NFD, sr1__buf_cstr(from), from->len, &room->form));
        from = &room->form;
    }
    for (size_t i = 0; i < from->len;) {
        uint32_t cp = 0;

        i += (size_t)sr1__utf8_next(from->data + i, from->len - i, &cp);
        if (strip && sr1__char_is_bert_mark(cp))
            continue;
        if (s->parts & SR1__BERT_LOWER)
            put_lower(out, cp);
        else
            put_char(out, cp);
    }
    return SR1_OK;
}

/* ASCII up to the first other character; returns how many bytes it was. */
static size_t bert_ascii(const struct sr1__step *s, const char *text, size_t n,
                         struct sr1__buf *out)
{
    int clean = (s->parts & SR1__BERT_CLEAN) != 0,
        lower = (s->parts & SR1__BERT_LOWER) != 0;
    size_t i = 0;
    char *to;

    sr1__buf_room(out, n);
    if (out->status != SR1_OK)
        return n;
    to = out->data + out->len;
    for (; i < n && (unsigned char)text[i] < 0x80; i++) {
        char c = text[i];

        if (clean && (c < ' ' || c == 0x7f)) {
            if (c != '\t' && c != '\n' && c != '\r')
                continue;
            c = ' ';
        }
        *to++ = lower && c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    out->len = (size_t)(to - out->data);
    *to = '\0';
    return i;
}

/* No ASCII character changes with what stands beside it, nor the other way round. */
static sr1_status run_bert(const struct sr1__step *s, const char *text, size_t n,
                           struct sr1__buf *out)
{
    struct bert_room room;
    sr1_status status = SR1_OK;

    sr1__buf_init(&room.clean, 0);
    sr1__buf_init(&room.form, 0);
    for (size_t i = 0, end; i < n && status == SR1_OK; i = end) {
        i += bert_ascii(s, text + i, n - i, out);
        for (end = i; end < n && (unsigned char)text[end] >= 0x80;)
            end++;
        if (end > i)
            status = bert_stretch(s, text + i, end - i, &room, out);
    }
    sr1__buf_free(&room.clean);
    sr1__buf_free(&room.form);
    return status == SR1_OK ? finish(out) : status;
}

static const struct sr1__step_kind kinds[] = {
    {"BertNormalizer", load_bert, run_bert, NULL},
    {"NFC", load_nothing, run_nfc, sr1__nfc_quick},
    {"NFD", load_nothing, run_nfd, is_ascii},
    {"NFKC", load_nothing, run_nfkc, is_ascii},
    {"NFKD", load_nothing, run_nfkd, is_ascii},
    {"Lowercase", load_nothing, run_lowercase, NULL},
    {"StripAccents", load_nothing, run_strip_accents, is_ascii},
    {"Nmt", load_nothing, run_nmt, NULL},
    {"Strip", load_strip, run_strip, NULL},
    {"Replace", load_replace, run_replace, NULL},
    {"Precompiled", load_precompiled, run_precompiled, NULL},
};

static sr1_status load_step(struct sr1__normaliser *to, const json_t *o, const char *type,
                            const char *name)
{
    struct sr1__step *s;

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

sr1_status sr1__normaliser_load(struct sr1__normaliser *to, const json_t *o,
                                const char *name)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    const json_t *list = json_object_get(o, "normalizers"), *item;
    size_t i;

    if (json_is_null(o))
        return SR1_OK;
    if (!type || strcmp(type, "Sequence") != 0)
        return load_step(to, o, type ? type : "", name);
    json_array_foreach(list, i, item) SR1__TRY(sr1__normaliser_load(to, item, name));
    return SR1_OK;
}

void sr1__normaliser_free(struct sr1__normaliser *n)
{
    for (size_t i = 0; i < n->n; i++) {
        sr1__free(n->steps[i].find);
        sr1__free(n->steps[i].put);
        sr1__pattern_free(n->steps[i].pattern);
        sr1__charsmap_free(n->steps[i].map);
    }
    memset(n, 0, sizeof *n);
}

struct sr1__step *sr1__normaliser_bert(struct sr1__normaliser *n)
{
    for (size_t i = 0; i < n->n; i++)
        if (n->steps[i].kind->run == run_bert)
            return &n->steps[i];
    return NULL;
}

sr1_status sr1__normalise(const struct sr1__normaliser *steps, struct sr1__buf room[2],
                          const char **text, size_t *n)
{
    int turn = 0;

    for (size_t i = 0; i < steps->n; i++) {
        const struct sr1__step *s = &steps->steps[i];
        struct sr1__buf *out = &room[turn];

        if (s->kind->same && s->kind->same(*text, *n))
            continue;
        sr1__buf_clear(out);
        SR1__TRY(s->kind->run(s, *text, *n, out));
        *text = sr1__buf_cstr(out);
        *n = out->len;
        turn = !turn;
    }
    return SR1_OK;
}
