/* text/tokenizer/load_bpe.c - BPE in tokenizer.json: vocabulary and merges, of bytes or
 * of text (SentencePiece's), and the splits of byte-level BPE by patterns. */
#include "text/tokenizer/tokenizer_load.h"

#include <string.h>

/* Members of "model" that must be off: present and neither null, false, 0 nor "". */
static sr1_status check_off(struct sr1__load *l, const char *key, struct sr1__str value)
{
    static const char *const off[] = {"null", "false", "0", "0.0", "\"\""};

    if (!value.s)
        return SR1_OK;
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        if (sr1__str_is(value, off[i]))
            return SR1_OK;
    return sr1__load_unsupported(l, "the model's", key);
}

/* A token as the vocabulary writes it to its bytes in l->left; one with characters
 * outside the byte alphabet cannot come from text and stays as it is written. */
static sr1_status token_bytes(struct sr1__load *l, struct sr1__str value,
                              int *in_alphabet)
{
    struct sr1__str text;

    SR1__TRY(sr1__load_string(l, value, &text));
    sr1__buf_clear(&l->left);
    *in_alphabet = !l->t->model->alphabet;
    if (!*in_alphabet)
        *in_alphabet = sr1__alphabet_decode(text.s, text.n, &l->left);
    if (l->left.len == 0)
        sr1__buf_add(&l->left, text.s, text.n);
    return sr1__buf_status(&l->left, "a token");
}

static sr1_status load_bpe_vocab(struct sr1__load *l, struct sr1__str vocab)
{
    struct sr1__scan s;
    struct sr1__str key, value;
    int more, in_alphabet;
    uint32_t id;

    SR1__TRY(sr1__scan_open(&s, vocab, '{', l->name, "model.vocab"));
    for (;;) {
        SR1__TRY(sr1__scan_next(&s, &key, &value, &more));
        if (!more)
            return SR1_OK;
        SR1__TRY(sr1__scan_uint(value, SR1__TOKEN_ID_MAX, l->name, &id));
        SR1__TRY(token_bytes(l, key, &in_alphabet));
        SR1__TRY(sr1__context(
            sr1__vocab_add(&l->t->vocab, id, sr1__buf_cstr(&l->left), l->left.len,
                           in_alphabet ? SR1__TOKEN_MODEL : SR1__TOKEN_UNREACHABLE),
            "%s: model.vocab", l->name));
    }
}

static sr1_status load_bytes(struct sr1__load *l)
{
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;

        l->t->byte_id[b] = sr1__vocab_find(&l->t->vocab, &byte, 1);
        if (l->t->byte_id[b] == SR1__NO_TOKEN)
            return sr1__fail(SR1_E_UNSUPPORTED,
                             "%s: the vocabulary has no token for byte 0x%02x; only "
                             "byte-level BPE is supported",
                             l->name, (unsigned)b);
    }
    return SR1_OK;
}

/* Append the bytes of one side of a merge to l->left and give its id. */
static sr1_status merge_side(struct sr1__load *l, const char *p, size_t n, uint32_t *id)
{
    size_t from = l->left.len;

    if (n && !l->t->model->alphabet)
        sr1__buf_add(&l->left, p, n);
    else if (n == 0 || !sr1__alphabet_decode(p, n, &l->left))
        return sr1__fail(SR1_E_PARSE, "%s: model.merges: '%.*s' is not byte-level text",
                         l->name, (int)(n < 40 ? n : 40), p);
    SR1__TRY(sr1__buf_status(&l->left, "a merge"));
    *id = sr1__vocab_find(&l->t->vocab, l->left.data + from, l->left.len - from);
    if (*id == SR1__NO_TOKEN)
        return sr1__fail(SR1_E_PARSE, "%s: model.merges: '%.*s' is not in the vocabulary",
                         l->name, (int)(n < 40 ? n : 40), p);
    return SR1_OK;
}

/* "a b", the older form. */
static sr1_status merge_from_text(struct sr1__load *l, struct sr1__str value,
                                  struct sr1__merge *m)
{
    struct sr1__str text;
    const char *space;

    SR1__TRY(sr1__load_string(l, value, &text));
    space = memchr(text.s, ' ', text.n);
    if (!space)
        return sr1__fail(SR1_E_PARSE, "%s: model.merges: '%.*s' has no space", l->name,
                         (int)(text.n < 40 ? text.n : 40), text.s);
    SR1__TRY(merge_side(l, text.s, (size_t)(space - text.s), &m->left));
    return merge_side(l, space + 1, (size_t)(text.s + text.n - space - 1), &m->right);
}

/* ["a", "b"]. */
static sr1_status merge_from_pair(struct sr1__load *l, struct sr1__str value,
                                  struct sr1__merge *m)
{
    uint32_t *sides[2] = {&m->left, &m->right};
    struct sr1__scan s;
    struct sr1__str item, text;
    int more = 1;

    SR1__TRY(sr1__scan_open(&s, value, '[', l->name, "a merge"));
    for (int i = 0; i < 3; i++) {
        SR1__TRY(sr1__scan_next(&s, NULL, &item, &more));
        if (more != (i < 2))
            return sr1__fail(SR1_E_PARSE, "%s: model.merges: a merge needs two tokens",
                             l->name);
        if (!more)
            break;
        SR1__TRY(sr1__load_string(l, item, &text));
        SR1__TRY(merge_side(l, text.s, text.n, sides[i]));
    }
    return SR1_OK;
}

static sr1_status load_merges(struct sr1__load *l, struct sr1__str merges)
{
    struct sr1__scan s;
    struct sr1__str item;
    int more;

    SR1__TRY(sr1__scan_open(&s, merges, '[', l->name, "model.merges"));
    for (uint32_t rank = 0;; rank++) {
        struct sr1__merge m = {.rank = rank};

        SR1__TRY(sr1__scan_next(&s, NULL, &item, &more));
        if (!more)
            return SR1_OK;
        sr1__buf_clear(&l->left);
        SR1__TRY(item.s[0] == '[' ? merge_from_pair(l, item, &m)
                                  : merge_from_text(l, item, &m));
        m.id = sr1__vocab_find(&l->t->vocab, l->left.data, l->left.len);
        if (m.id == SR1__NO_TOKEN)
            return sr1__fail(
                SR1_E_PARSE,
                "%s: model.merges: merge %u makes a token that is not in the "
                "vocabulary",
                l->name, rank);
        SR1__TRY(sr1__merges_add(&l->t->merges, m));
    }
}

/* The token of characters that the vocabulary lacks. */
static sr1_status load_unknown(struct sr1__load *l, struct sr1__str value)
{
    struct sr1__str text;

    if (!value.s || sr1__str_is(value, "null"))
        return SR1_OK;
    SR1__TRY(sr1__load_string(l, value, &text));
    l->t->unknown = sr1__vocab_find(&l->t->vocab, text.s, text.n);
    return l->t->unknown != SR1__NO_TOKEN
               ? SR1_OK
               : sr1__fail(SR1_E_PARSE, "%s: unk_token '%.*s' is not in model.vocab",
                           l->name, (int)(text.n < 40 ? text.n : 40), text.s);
}

sr1_status sr1__load_bpe(struct sr1__load *l, const struct sr1__str *model)
{
    struct sr1__str vocab = {0}, merges = {0}, ignore = {0};
    struct sr1__str fallback = {0}, unknown = {0}, fuse = {0}, off[3] = {{0}};
    static const char *const off_keys[3] = {"dropout", "continuing_subword_prefix",
                                            "end_of_word_suffix"};
    const struct sr1__wanted w[] = {
        {"vocab", &vocab},          {"merges", &merges},
        {"ignore_merges", &ignore}, {"byte_fallback", &fallback},
        {"unk_token", &unknown},    {"fuse_unk", &fuse},
        {off_keys[0], &off[0]},     {off_keys[1], &off[1]},
        {off_keys[2], &off[2]},
    };

    SR1__TRY(sr1__load_members(l, *model, "model", w, sizeof w / sizeof w[0]));
    for (size_t i = 0; i < 3; i++)
        SR1__TRY(check_off(l, off_keys[i], off[i]));
    if (l->t->model->alphabet)
        SR1__TRY(check_off(l, "byte_fallback", fallback));
    if (!vocab.s || !merges.s)
        return sr1__fail(SR1_E_PARSE, "%s: model needs 'vocab' and 'merges'", l->name);
    l->t->ignore_merges = sr1__str_is(ignore, "true");
    SR1__TRY(load_bpe_vocab(l, vocab));
    if (l->t->model->alphabet) {
        SR1__TRY(load_bytes(l));
        return load_merges(l, merges);
    }
    l->t->byte_fallback = sr1__str_is(fallback, "true");
    l->t->fuse_unknown = sr1__str_is(fuse, "true");
    sr1__find_byte_tokens(l->t);
    SR1__TRY(load_unknown(l, unknown));
    SR1__TRY(load_merges(l, merges));
    return sr1__spell_tokens(l->t);
}

/* ---- pre-tokenizers: patterns by which a text is cut, one after the other ---- */

static sr1_status add_split(struct sr1__load *l, const char *regex, size_t n)
{
    sr1_tokenizer *t = l->t;

    if (t->n_splits == SR1__SPLITS_MAX)
        return sr1__fail(SR1_E_LIMIT, "%s: more than %d splits in the pre-tokenizer",
                         l->name, SR1__SPLITS_MAX);
    SR1__TRY(sr1__pattern_new(&t->splits[t->n_splits], regex, n, l->name));
    t->n_splits++;
    return SR1_OK;
}

static sr1_status load_split(struct sr1__load *l, const json_t *o, int last)
{
    const json_t *regex = json_object_get(json_object_get(o, "pattern"), "Regex");

    if (last)
        return sr1__load_unsupported(l, "the pre-tokenizer of a BPE model",
                                     "that does not end in ByteLevel");
    if (!json_is_string(regex))
        return sr1__load_unsupported(l, "the pre-tokenizer Split",
                                     "without a Regex pattern");
    if (strcmp(sr1__load_text(o, "behavior"), "Isolated") != 0)
        return sr1__load_unsupported(l, "the pre-tokenizer Split with behavior",
                                     sr1__load_text(o, "behavior"));
    if (sr1__load_flag(o, "invert"))
        return sr1__load_unsupported(l, "the pre-tokenizer Split with", "invert");
    return add_split(l, json_string_value(regex), json_string_length(regex));
}

static sr1_status load_digits(struct sr1__load *l, const json_t *o, int last)
{
    static const char run[] = "\\p{N}+";
    int each = sr1__load_flag(o, "individual_digits");

    return last ? load_split(l, o, last)
                : add_split(l, run, sizeof run - 1 - (each != 0));
}

static sr1_status load_byte_level(struct sr1__load *l, const json_t *o, int last)
{
    if (!last)
        return sr1__load_unsupported(l, "the pre-tokenizer", "ByteLevel before another");
    if (!json_is_false(json_object_get(o, "add_prefix_space")))
        return sr1__load_unsupported(l, "the pre-tokenizer ByteLevel with",
                                     "add_prefix_space");
    if (!json_is_false(json_object_get(o, "use_regex")))
        return add_split(l, sr1__pattern_gpt2, strlen(sr1__pattern_gpt2));
    return l->t->n_splits ? SR1_OK
                          : sr1__load_unsupported(l, "the pre-tokenizer ByteLevel",
                                                  "without a pattern");
}

static sr1_status load_split_step(struct sr1__load *l, const json_t *o, int last)
{
    static const struct {
        const char *type;
        sr1_status (*load)(struct sr1__load *l, const json_t *o, int last);
    } kinds[] = {
        {"Split", load_split}, {"Digits", load_digits}, {"ByteLevel", load_byte_level}};
    const char *type = sr1__load_text(o, "type");

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(type, kinds[i].type) == 0)
            return kinds[i].load(l, o, last);
    return sr1__load_unsupported(l, "the pre-tokenizer", type);
}

/* ByteLevel, with GPT-2's pattern or after steps that cut. */
sr1_status sr1__load_bpe_pre(struct sr1__load *l, const json_t *o)
{
    const json_t *list = json_object_get(o, "pretokenizers");
    size_t n = json_array_size(list), i;
    const json_t *step;

    if (strcmp(sr1__load_text(o, "type"), "Sequence") != 0)
        return load_split_step(l, o, 1);
    if (n == 0)
        return sr1__load_unsupported(l, "the pre-tokenizer Sequence", "of no steps");
    json_array_foreach((json_t *)(uintptr_t)list, i, step)
        SR1__TRY(load_split_step(l, step, i + 1 == n));
    return SR1_OK;
}
