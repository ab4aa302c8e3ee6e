/* text/tokenizer/pre_tokenizer.c - the kinds of pre-tokenizers, rows of the table at the
 * end. */
#include "text/tokenizer/tokenizer_internal.h"

#include "base/utf8.h"
#include "text/tokenizer/unicode.h"

#include <string.h>

#define SPACE_MARK "\xe2\x96\x81" /* U+2581 */

struct sr1__pre_tokenizer_kind {
    const char *type;
    sr1_status (*load)(struct sr1__pre_tokenizer *c, const json_t *o, const char *name);
    sr1_status (*run)(struct sr1__text_encoder *e, size_t level, const char *text,
                      size_t n, size_t first);
};

static sr1_status load_plain_pre_tokenizer(struct sr1__pre_tokenizer *c, const json_t *o,
                                           const char *name)
{
    (void)c;
    (void)o;
    (void)name;
    return SR1_OK;
}

/* How many of the first character's bytes lie at or after offset `from`. */
static size_t remaining_first_bytes(size_t first, size_t from)
{
    return first > from ? first - from : 0;
}

static uint32_t next_char(const char *text, size_t n, size_t *len)
{
    uint32_t cp = (unsigned char)text[0];

    *len = cp < 0x80 ? 1 : (size_t)sr1__utf8_next(text, n, &cp);
    return cp;
}

/* Classes of characters by which a text is cut: neighbours of one class stay together,
 * those of SPACE vanish, each of ALONE is a piece. */
enum split_class { SPACE, ALONE, WORD, OTHER };

static enum split_class classify_bert_char(uint32_t cp)
{
    return sr1__char_is_space(cp)              ? SPACE
           : sr1__char_is_bert_punctuation(cp) ? ALONE
                                               : WORD;
}

static enum split_class classify_space_char(uint32_t cp)
{
    return sr1__char_is_space(cp) ? SPACE : WORD;
}

static enum split_class classify_word_char(uint32_t cp)
{
    return sr1__char_is_space(cp) ? SPACE : sr1__char_is_word(cp) ? WORD : OTHER;
}

static sr1_status cut_by_class(struct sr1__text_encoder *e, size_t level,
                               const char *text, size_t n, size_t first,
                               enum split_class (*class_of)(uint32_t cp))
{
    size_t from = 0, i = 0;
    enum split_class before = SPACE;

    while (i < n) {
        size_t len;
        enum split_class now = class_of(next_char(text + i, n - i, &len));

        if ((now != before || now == ALONE) && before != SPACE)
            SR1__TRY(sr1__pre_tokenize(e, level + 1, text + from, i - from,
                                       remaining_first_bytes(first, from)));
        if (now != before || now == ALONE)
            from = i;
        before = now;
        i += len;
    }
    return before == SPACE ? SR1_OK
                           : sr1__pre_tokenize(e, level + 1, text + from, n - from,
                                               remaining_first_bytes(first, from));
}

static sr1_status run_bert_pre_tokenizer(struct sr1__text_encoder *e, size_t level,
                                         const char *text, size_t n, size_t first)
{
    return cut_by_class(e, level, text, n, first, classify_bert_char);
}

static sr1_status run_whitespace_split(struct sr1__text_encoder *e, size_t level,
                                       const char *text, size_t n, size_t first)
{
    return cut_by_class(e, level, text, n, first, classify_space_char);
}

static sr1_status run_whitespace(struct sr1__text_encoder *e, size_t level,
                                 const char *text, size_t n, size_t first)
{
    return cut_by_class(e, level, text, n, first, classify_word_char);
}

static int one_character(const char *text)
{
    uint32_t cp;
    size_t n = text ? strlen(text) : 0;

    return n > 0 && sr1__utf8_next(text, n, &cp) == (int)n;
}

/* prepend_scheme, or add_prefix_space of older files. */
static sr1_status load_prepend_scheme(struct sr1__metaspace *to, const json_t *o,
                                      const char *name)
{
    static const char *const schemes[] = {"always", "first", "never"};
    const char *scheme = json_string_value(json_object_get(o, "prepend_scheme"));

    to->prepend = json_is_false(json_object_get(o, "add_prefix_space"))
                      ? SR1__PREPEND_NEVER
                      : SR1__PREPEND_ALWAYS;
    if (!scheme)
        return SR1_OK;
    for (int i = 0; i < 3; i++) {
        if (strcmp(scheme, schemes[i]) == 0) {
            to->prepend = i;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: Metaspace with prepend_scheme '%s' is not supported", name,
                     scheme);
}

sr1_status sr1__metaspace_load(struct sr1__metaspace *to, const json_t *o,
                               const char *name)
{
    const char *mark = json_string_value(json_object_get(o, "replacement"));

    mark = mark ? mark : SPACE_MARK;
    if (!one_character(mark))
        return sr1__fail(SR1_E_PARSE, "%s: Metaspace: 'replacement' is not a character",
                         name);
    memcpy(to->mark, mark, strlen(mark) + 1);
    to->split = !json_is_false(json_object_get(o, "split"));
    return load_prepend_scheme(to, o, name);
}

static sr1_status load_metaspace_pre_tokenizer(struct sr1__pre_tokenizer *c,
                                               const json_t *o, const char *name)
{
    return sr1__metaspace_load(&c->metaspace, o, name);
}

/* Does a mark go before a piece? first: it begins the text. */
static int wants_mark(const struct sr1__metaspace *m, int first, int continued)
{
    return first ? m->prepend != SR1__PREPEND_NEVER && !continued
                 : m->prepend == SR1__PREPEND_ALWAYS;
}

/* Text with marks for spaces, one in front if it is wanted and none is there. */
static void mark_spaces(const struct sr1__metaspace *m, const char *text, size_t n,
                        int wanted, struct sr1__buf *out)
{
    size_t mark = strlen(m->mark), from = 0;
    int there = text[0] == ' ' || (n >= mark && memcmp(text, m->mark, mark) == 0);

    if (wanted && !there)
        sr1__buf_add(out, m->mark, mark);
    for (size_t i = 0; i < n; i++) {
        if (text[i] != ' ')
            continue;
        sr1__buf_add(out, text + from, i - from);
        sr1__buf_add(out, m->mark, mark);
        from = i + 1;
    }
    sr1__buf_add(out, text + from, n - from);
}

/* Where the next mark is in text[from..n); n: nowhere. */
static size_t find_mark(const char *mark, const char *text, size_t n, size_t from)
{
    size_t len = strlen(mark);

    while (from < n) {
        const char *p = memchr(text + from, mark[0], n - from);

        if (!p)
            return n;
        from = (size_t)(p - text);
        if (n - from >= len && memcmp(p, mark, len) == 0)
            return from;
        from++;
    }
    return n;
}

/* Each piece but perhaps the first begins with a mark. */
static sr1_status run_metaspace(struct sr1__text_encoder *e, size_t level,
                                const char *text, size_t n, size_t first)
{
    const struct sr1__metaspace *m = &e->t->cuts.list[level].metaspace;
    struct sr1__buf *marked = &e->marked[level];
    size_t from = 0;

    sr1__buf_clear(marked);
    mark_spaces(m, text, n, wants_mark(m, first > 0, e->continued), marked);
    SR1__TRY(sr1__buf_status(marked, "text to encode"));
    if (!m->split)
        return sr1__pre_tokenize(e, level + 1, marked->data, marked->len, first);
    while (from < marked->len) {
        size_t end = find_mark(m->mark, marked->data, marked->len, from + 1);

        SR1__TRY(sr1__pre_tokenize(e, level + 1, marked->data + from, end - from,
                                   from ? 0 : first));
        from = end;
    }
    return SR1_OK;
}

/* ---- Split ---- */

static sr1_status load_split_text(struct sr1__pre_tokenizer *c, const json_t *o,
                                  const char *name)
{
    static const char *const names[] = {[SR1__SPLIT_REMOVED] = "Removed",
                                        [SR1__SPLIT_ISOLATED] = "Isolated",
                                        [SR1__SPLIT_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [SR1__SPLIT_WITH_NEXT] = "MergedWithNext",
                                        [SR1__SPLIT_CONTIGUOUS] = "Contiguous"};
    const char *find =
        json_string_value(json_object_get(json_object_get(o, "pattern"), "String"));
    const char *behavior = json_string_value(json_object_get(o, "behavior"));

    if (!find || !*find || strlen(find) > SR1__SPLIT_MAX ||
        json_is_true(json_object_get(o, "invert")))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%s: the pre-tokenizer Split is supported with a String pattern "
                         "of at most %d bytes and without invert only",
                         name, SR1__SPLIT_MAX);
    memcpy(c->find, find, strlen(find) + 1);
    for (size_t i = 0; behavior && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(behavior, names[i]) == 0) {
            c->behavior = (int)i;
            return SR1_OK;
        }
    }
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: the pre-tokenizer Split with behavior '%.40s' is not supported",
                     name, behavior ? behavior : "");
}

/* Where the piece that begins at `from` ends. What is found joins the piece before it, or
 * its like, by the behavior; two neighbours are never one but with Contiguous. */
static size_t end_split_piece(const struct sr1__pre_tokenizer *c, const char *text,
                              size_t n, size_t from)
{
    size_t len = strlen(c->find), at = find_mark(c->find, text, n, from), end;

    if (at > from)
        return c->behavior == SR1__SPLIT_WITH_PREVIOUS && at < n ? at + len : at;
    end = from + len;
    while (c->behavior == SR1__SPLIT_CONTIGUOUS &&
           find_mark(c->find, text, n, end) == end && end < n)
        end += len;
    if (c->behavior == SR1__SPLIT_WITH_NEXT)
        return find_mark(c->find, text, n, end);
    return end;
}

static sr1_status run_split_text(struct sr1__text_encoder *e, size_t level,
                                 const char *text, size_t n, size_t first)
{
    const struct sr1__pre_tokenizer *c = &e->t->cuts.list[level];

    for (size_t from = 0, end; from < n; from = end) {
        int found = find_mark(c->find, text, n, from) == from;

        end = end_split_piece(c, text, n, from);
        if (found && c->behavior == SR1__SPLIT_REMOVED)
            continue;
        SR1__TRY(sr1__pre_tokenize(e, level + 1, text + from, end - from,
                                   remaining_first_bytes(first, from)));
    }
    return SR1_OK;
}

static const struct sr1__pre_tokenizer_kind kinds[] = {
    {"BertPreTokenizer", load_plain_pre_tokenizer, run_bert_pre_tokenizer},
    {"WhitespaceSplit", load_plain_pre_tokenizer, run_whitespace_split},
    {"Whitespace", load_plain_pre_tokenizer, run_whitespace},
    {"Metaspace", load_metaspace_pre_tokenizer, run_metaspace},
    {"Split", load_split_text, run_split_text},
};

static sr1_status load_cut(struct sr1__pre_tokenizers *to, const json_t *o,
                           const char *type, const char *name)
{
    struct sr1__pre_tokenizer *c;

    if (to->n == SR1__PRE_TOKENIZERS_MAX)
        return sr1__fail(SR1_E_LIMIT, "%s: a pre-tokenizer of more than %d steps", name,
                         SR1__PRE_TOKENIZERS_MAX);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].type, type) != 0)
            continue;
        c = &to->list[to->n++];
        c->kind = &kinds[i];
        SR1__TRY(kinds[i].load(c, o, name));
        to->needs_first |= c->metaspace.prepend == SR1__PREPEND_FIRST;
        return SR1_OK;
    }
    return sr1__fail(SR1_E_UNSUPPORTED, "%s: the pre-tokenizer '%s' is not supported",
                     name, type);
}

sr1_status sr1__pre_tokenizers_load(struct sr1__pre_tokenizers *to, const json_t *o,
                                    const char *name)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    const json_t *list = json_object_get(o, "pretokenizers"), *item;
    size_t i;

    if (json_is_null(o))
        return SR1_OK;
    if (!type || strcmp(type, "Sequence") != 0)
        return load_cut(to, o, type ? type : "", name);
    json_array_foreach(list, i, item) SR1__TRY(sr1__pre_tokenizers_load(to, item, name));
    return SR1_OK;
}

sr1_status sr1__pre_tokenize(struct sr1__text_encoder *e, size_t level, const char *text,
                             size_t n, size_t first)
{
    if (n == 0)
        return SR1_OK;
    if (level == e->t->cuts.n)
        return e->t->model->piece(e, text, n);
    return e->t->cuts.list[level].kind->run(e, level, text, n, first);
}
