/* tokenizer/load.c - tokenizer.json to a tokenizer. The vocabulary and the merges are
 * read in place (scan.h), the small members as JSON trees. What the file asks for and
 * this library does not do is refused by name; truncation and padding are the caller's,
 * as they are with the reference. */
#include "tokenizer/internal.h"

#include "tokenizer/nfc.h"
#include "tokenizer/scan.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* The text and what is at work on it. */
struct load {
    sr1_tokenizer *t;
    const char *name;
    struct sr1__buf escape; /* of the string being read */
    struct sr1__buf left;   /* bytes of a token */
};

/* A member that is looked for. */
struct wanted {
    const char *key;
    struct sr1__slice *value;
};

static sr1_status find_members(struct load *l, struct sr1__slice object, const char *what,
                               const struct wanted *w, size_t n)
{
    struct sr1__scan s;
    struct sr1__slice key, value, text;
    int more;

    SR1__TRY(sr1__scan_open(&s, object, '{', l->name, what));
    for (;;) {
        SR1__TRY(sr1__scan_next(&s, &key, &value, &more));
        if (!more)
            return SR1_OK;
        SR1__TRY(sr1__scan_string(key, &l->escape, l->name, &text));
        for (size_t i = 0; i < n; i++) {
            if (!sr1__slice_is(text, w[i].key))
                continue;
            if (w[i].value->p)
                return sr1__fail(SR1_E_PARSE, "%s: '%s' is given twice in %s", l->name,
                                 w[i].key, what);
            *w[i].value = value;
        }
    }
}

static int is_null(struct sr1__slice s)
{
    return !s.p || sr1__slice_is(s, "null");
}

/* The string member `key` of o; "" when there is none. */
static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

static sr1_status unsupported(const struct load *l, const char *what, const char *kind)
{
    return sr1__fail(SR1_E_UNSUPPORTED,
                     "%s: %s '%s' is not supported; byte-level BPE as Qwen2.5 and Qwen3 "
                     "have it is",
                     l->name, what, kind);
}

static int flag(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

/* Members of "model" that must be off: present and neither null, false, 0 nor "". */
static sr1_status check_off(struct load *l, const char *key, struct sr1__slice value)
{
    static const char *const off[] = {"null", "false", "0", "0.0", "\"\""};

    if (!value.p)
        return SR1_OK;
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        if (sr1__slice_is(value, off[i]))
            return SR1_OK;
    return unsupported(l, "the model's", key);
}

/* A token as the vocabulary writes it to its bytes in l->left; one with characters
 * outside the byte alphabet cannot come from text and stays as it is written. */
static sr1_status token_bytes(struct load *l, struct sr1__slice value, int *in_alphabet)
{
    struct sr1__slice text;

    SR1__TRY(sr1__scan_string(value, &l->escape, l->name, &text));
    sr1__buf_clear(&l->left);
    *in_alphabet = sr1__alphabet_decode(text.p, text.n, &l->left);
    if (!*in_alphabet)
        sr1__buf_add(&l->left, text.p, text.n);
    return sr1__buf_status(&l->left, "a token");
}

static sr1_status load_vocab(struct load *l, struct sr1__slice vocab)
{
    struct sr1__scan s;
    struct sr1__slice key, value;
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

static sr1_status load_bytes(struct load *l)
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
static sr1_status merge_side(struct load *l, const char *p, size_t n, uint32_t *id)
{
    size_t from = l->left.len;

    if (n == 0 || !sr1__alphabet_decode(p, n, &l->left))
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
static sr1_status merge_from_text(struct load *l, struct sr1__slice value,
                                  struct sr1__merge *m)
{
    struct sr1__slice text;
    const char *space;

    SR1__TRY(sr1__scan_string(value, &l->escape, l->name, &text));
    space = memchr(text.p, ' ', text.n);
    if (!space)
        return sr1__fail(SR1_E_PARSE, "%s: model.merges: '%.*s' has no space", l->name,
                         (int)(text.n < 40 ? text.n : 40), text.p);
    SR1__TRY(merge_side(l, text.p, (size_t)(space - text.p), &m->left));
    return merge_side(l, space + 1, (size_t)(text.p + text.n - space - 1), &m->right);
}

/* ["a", "b"]. */
static sr1_status merge_from_pair(struct load *l, struct sr1__slice value,
                                  struct sr1__merge *m)
{
    uint32_t *sides[2] = {&m->left, &m->right};
    struct sr1__scan s;
    struct sr1__slice item, text;
    int more = 1;

    SR1__TRY(sr1__scan_open(&s, value, '[', l->name, "a merge"));
    for (int i = 0; i < 3; i++) {
        SR1__TRY(sr1__scan_next(&s, NULL, &item, &more));
        if (more != (i < 2))
            return sr1__fail(SR1_E_PARSE, "%s: model.merges: a merge needs two tokens",
                             l->name);
        if (!more)
            break;
        SR1__TRY(sr1__scan_string(item, &l->escape, l->name, &text));
        SR1__TRY(merge_side(l, text.p, text.n, sides[i]));
    }
    return SR1_OK;
}

static sr1_status load_merges(struct load *l, struct sr1__slice merges)
{
    struct sr1__scan s;
    struct sr1__slice item;
    int more;

    SR1__TRY(sr1__scan_open(&s, merges, '[', l->name, "model.merges"));
    for (uint32_t rank = 0;; rank++) {
        struct sr1__merge m = {.rank = rank};

        SR1__TRY(sr1__scan_next(&s, NULL, &item, &more));
        if (!more)
            return SR1_OK;
        sr1__buf_clear(&l->left);
        SR1__TRY(item.p[0] == '[' ? merge_from_pair(l, item, &m)
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

static sr1_status load_model(struct load *l, struct sr1__slice model)
{
    struct sr1__slice type = {0}, vocab = {0}, merges = {0}, ignore = {0};
    struct sr1__slice off[4] = {{0}};
    static const char *const off_keys[4] = {"dropout", "continuing_subword_prefix",
                                            "end_of_word_suffix", "byte_fallback"};
    const struct wanted w[] = {
        {"type", &type},        {"vocab", &vocab},
        {"merges", &merges},    {"ignore_merges", &ignore},
        {off_keys[0], &off[0]}, {off_keys[1], &off[1]},
        {off_keys[2], &off[2]}, {off_keys[3], &off[3]},
    };
    char kind[64];

    SR1__TRY(find_members(l, model, "model", w, sizeof w / sizeof w[0]));
    if (type.p && !sr1__slice_is(type, "\"BPE\"")) {
        snprintf(kind, sizeof kind, "%.*s", (int)(type.n < 60 ? type.n : 60), type.p);
        return unsupported(l, "the model type", kind);
    }
    for (size_t i = 0; i < 4; i++)
        SR1__TRY(check_off(l, off_keys[i], off[i]));
    if (!vocab.p || !merges.p)
        return sr1__fail(SR1_E_PARSE, "%s: model needs 'vocab' and 'merges'", l->name);
    l->t->ignore_merges = sr1__slice_is(ignore, "true");
    SR1__TRY(load_vocab(l, vocab));
    SR1__TRY(load_bytes(l));
    return load_merges(l, merges);
}

/* null or NFC. */
static sr1_status load_normaliser(struct load *l, const json_t *o)
{
    if (json_is_null(o))
        return SR1_OK;
    if (strcmp(text_of(o, "type"), "NFC") != 0)
        return unsupported(l, "the normalizer", text_of(o, "type"));
    l->t->nfc = 1;
    return SR1_OK;
}

static sr1_status load_split(struct load *l, const json_t *o)
{
    const json_t *regex = json_object_get(json_object_get(o, "pattern"), "Regex");

    if (strcmp(text_of(o, "type"), "Split") != 0)
        return unsupported(l, "the pre-tokenizer", text_of(o, "type"));
    if (!json_is_string(regex))
        return unsupported(l, "the pre-tokenizer Split", "without a Regex pattern");
    if (strcmp(text_of(o, "behavior"), "Isolated") != 0)
        return unsupported(l, "the pre-tokenizer Split with behavior",
                           text_of(o, "behavior"));
    if (flag(o, "invert"))
        return unsupported(l, "the pre-tokenizer Split with", "invert");
    return sr1__pattern_new(&l->t->pattern, json_string_value(regex),
                            json_string_length(regex), l->name);
}

static sr1_status check_byte_level(struct load *l, const json_t *o, int *use_regex)
{
    const json_t *regex = json_object_get(o, "use_regex");

    if (strcmp(text_of(o, "type"), "ByteLevel") != 0)
        return unsupported(l, "the pre-tokenizer", text_of(o, "type"));
    if (!json_is_false(json_object_get(o, "add_prefix_space")))
        return unsupported(l, "the pre-tokenizer ByteLevel with", "add_prefix_space");
    *use_regex = !json_is_false(regex);
    return SR1_OK;
}

/* ByteLevel with GPT-2's pattern, or Sequence[Split, ByteLevel without a pattern]. */
static sr1_status load_pre_tokenizer(struct load *l, const json_t *o)
{
    const json_t *list = json_object_get(o, "pretokenizers");
    int use_regex;

    if (strcmp(text_of(o, "type"), "Sequence") != 0) {
        SR1__TRY(check_byte_level(l, o, &use_regex));
        if (!use_regex)
            return unsupported(l, "the pre-tokenizer ByteLevel", "without a pattern");
        return sr1__pattern_new(&l->t->pattern, sr1__pattern_gpt2,
                                strlen(sr1__pattern_gpt2), l->name);
    }
    if (json_array_size(list) != 2)
        return unsupported(l, "the pre-tokenizer Sequence", "of other than two steps");
    SR1__TRY(load_split(l, json_array_get(list, 0)));
    SR1__TRY(check_byte_level(l, json_array_get(list, 1), &use_regex));
    return use_regex ? unsupported(l, "the pre-tokenizer", "Split before use_regex")
                     : SR1_OK;
}

/* Nothing may be put around the text, and tokens must be turned back to bytes. */
static sr1_status check_post_processor(struct load *l, const json_t *o)
{
    if (!json_is_null(o) && strcmp(text_of(o, "type"), "ByteLevel") != 0)
        return unsupported(l, "the post-processor", text_of(o, "type"));
    return SR1_OK;
}

static sr1_status check_decoder(struct load *l, const json_t *o)
{
    if (strcmp(text_of(o, "type"), "ByteLevel") != 0)
        return unsupported(l, "the decoder",
                           json_is_null(o) ? "null" : text_of(o, "type"));
    return SR1_OK;
}

/* Where an added token's bytes go: a token of the model keeps its id and gets the flags,
 * a new one is made. Its bytes follow the decoder's rule, as a vocabulary token's do. */
static sr1_status enter_added(struct load *l, const char *text, size_t n, uint32_t id,
                              uint8_t flags)
{
    struct sr1__vocab *v = &l->t->vocab;
    size_t len = 0;
    const char *known = sr1__vocab_bytes(v, id, &len);

    sr1__buf_clear(&l->left);
    if (!sr1__alphabet_decode(text, n, &l->left))
        sr1__buf_add(&l->left, text, n);
    SR1__TRY(sr1__buf_status(&l->left, "an added token"));
    if (known && (len != l->left.len || memcmp(known, l->left.data, len) != 0))
        return sr1__fail(SR1_E_PARSE, "id %u belongs to another token", id);
    if (!known)
        return sr1__vocab_add(v, id, l->left.data, l->left.len, flags);
    v->tokens[id].flags |= flags;
    return SR1_OK;
}

/* One that is looked for in normalised text is looked for in its own normal form. */
static sr1_status seek_added(struct load *l, const char *text, size_t n, uint32_t id,
                             int special, int normalised)
{
    struct sr1__added *a = normalised ? &l->t->added_normalised : &l->t->added;

    if (normalised && l->t->nfc) {
        sr1__buf_clear(&l->left);
        SR1__TRY(sr1__nfc(text, n, &l->left));
        text = sr1__buf_cstr(&l->left);
        n = l->left.len;
    }
    return sr1__added_insert(a, text, n, (int32_t)id, special);
}

static sr1_status load_added_token(struct load *l, const json_t *o)
{
    static const char *const refused[] = {"single_word", "lstrip", "rstrip"};
    const json_t *content = json_object_get(o, "content");
    json_int_t id = json_integer_value(json_object_get(o, "id"));
    size_t n = json_string_length(content);
    int special = flag(o, "special");
    uint8_t flags = SR1__TOKEN_ADDED | (special ? SR1__TOKEN_SPECIAL : 0);
    const char *text = json_string_value(content);

    if (n == 0 || !json_is_integer(json_object_get(o, "id")) || id < 0 ||
        id > (json_int_t)SR1__TOKEN_ID_MAX)
        return sr1__fail(SR1_E_PARSE,
                         "%s: added_tokens: an entry needs 'id' and 'content'", l->name);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (flag(o, refused[i]))
            return sr1__fail(SR1_E_UNSUPPORTED,
                             "%s: added token '%s': '%s' is not supported", l->name, text,
                             refused[i]);
    SR1__TRY(sr1__context(enter_added(l, text, n, (uint32_t)id, flags),
                          "%s: added token '%s'", l->name, text));
    return sr1__context(
        seek_added(l, text, n, (uint32_t)id, special, flag(o, "normalized")), "%s",
        l->name);
}

static sr1_status load_added(struct load *l, const json_t *list)
{
    size_t i;
    json_t *o;

    if (!json_is_null(list) && !json_is_array(list))
        return sr1__fail(SR1_E_PARSE, "%s: added_tokens must be an array", l->name);
    json_array_foreach(list, i, o) SR1__TRY(load_added_token(l, o));
    return SR1_OK;
}

/* Parse a small member (absent counts as null) and hand it on. */
static sr1_status with_tree(struct load *l, struct sr1__slice text,
                            sr1_status (*use)(struct load *, const json_t *))
{
    json_t *j = NULL;
    sr1_status status;

    if (is_null(text))
        text = (struct sr1__slice){"null", 4};
    SR1__TRY(sr1__json_parse(&j, text.p, text.n, l->name));
    status = use(l, j);
    json_decref(j);
    return status;
}

static sr1_status load_file(struct load *l, struct sr1__slice file)
{
    struct sr1__slice model = {0}, added = {0}, normaliser = {0}, pre = {0}, post = {0},
                      decoder = {0};
    const struct wanted w[] = {
        {"model", &model},       {"added_tokens", &added},  {"normalizer", &normaliser},
        {"pre_tokenizer", &pre}, {"post_processor", &post}, {"decoder", &decoder},
    };

    SR1__TRY(find_members(l, file, "the file", w, sizeof w / sizeof w[0]));
    if (!model.p)
        return sr1__fail(SR1_E_PARSE, "%s: no 'model'; is it a tokenizer.json?", l->name);
    SR1__TRY(with_tree(l, normaliser, load_normaliser));
    SR1__TRY(with_tree(l, pre, load_pre_tokenizer));
    SR1__TRY(with_tree(l, post, check_post_processor));
    SR1__TRY(with_tree(l, decoder, check_decoder));
    SR1__TRY(load_model(l, model));
    return with_tree(l, added, load_added);
}

static sr1_tokenizer *new_tokenizer(void)
{
    sr1_tokenizer *t = sr1__calloc(1, sizeof *t);

    if (!t)
        return NULL;
    atomic_init(&t->references, 1);
    sr1__vocab_init(&t->vocab);
    for (int i = 0; i < SR1__TOKEN_ROLES; i++)
        t->role_id[i] = -1;
    return t;
}

/* Tokens known by their names; tokenizer_config.json adds the others. */
static void find_roles(sr1_tokenizer *t)
{
    t->role_id[SR1_TOKEN_IM_START] = sr1_tokenizer_token_to_id(t, "<|im_start|>");
    t->role_id[SR1_TOKEN_IM_END] = sr1_tokenizer_token_to_id(t, "<|im_end|>");
    t->role_id[SR1_TOKEN_ENDOFTEXT] = sr1_tokenizer_token_to_id(t, "<|endoftext|>");
}

sr1_status sr1__tokenizer_parse(sr1_tokenizer **out, const char *json, size_t n,
                                const char *name)
{
    struct load l = {.t = new_tokenizer(), .name = name};
    sr1_status status;

    if (!l.t)
        return sr1__fail_nomem("tokenizer");
    sr1__buf_init(&l.escape, 0);
    sr1__buf_init(&l.left, 0);
    status = load_file(&l, (struct sr1__slice){json, n});
    if (status == SR1_OK) {
        find_roles(l.t);
        status = sr1__chat_recognise(l.t, NULL);
    }
    sr1__buf_free(&l.escape);
    sr1__buf_free(&l.left);
    if (status != SR1_OK)
        sr1_tokenizer_free(l.t);
    else
        *out = l.t;
    return status;
}
