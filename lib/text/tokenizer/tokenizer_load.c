/* text/tokenizer/tokenizer_load.c - load tokenizer.json into a tokenizer. The vocabulary
 * and the merges are read in place (scan.h), the small members as JSON trees. Unsupported
 * parts of the file are refused by name; truncation and padding are left to the caller,
 * as in the reference. The kinds of models are rows of a table. */
#include "text/tokenizer/tokenizer_load.h"

#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

sr1_status sr1__load_members(struct sr1__load *l, struct sr1__str object,
                             const char *what, const struct sr1__wanted *w, size_t n)
{
    struct sr1__scan s;
    struct sr1__str key, value, text;
    int more;

    SR1__TRY(sr1__scan_open(&s, object, '{', l->name, what));
    for (;;) {
        SR1__TRY(sr1__scan_next(&s, &key, &value, &more));
        if (!more)
            return SR1_OK;
        SR1__TRY(sr1__scan_string(key, &l->escape, l->name, &text));
        for (size_t i = 0; i < n; i++) {
            if (!sr1__str_is(text, w[i].key))
                continue;
            if (w[i].value->s)
                return sr1__fail(SR1_E_PARSE, "%s: '%s' is given twice in %s", l->name,
                                 w[i].key, what);
            *w[i].value = value;
        }
    }
}

sr1_status sr1__load_string(struct sr1__load *l, struct sr1__str value,
                            struct sr1__str *text)
{
    return sr1__scan_string(value, &l->escape, l->name, text);
}

const char *sr1__load_text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : "";
}

sr1_status sr1__load_unsupported(const struct sr1__load *l, const char *what,
                                 const char *kind)
{
    return sr1__fail(SR1_E_UNSUPPORTED, "%s: %s '%s' is not supported", l->name, what,
                     kind);
}

int sr1__load_flag(const json_t *o, const char *key)
{
    return json_is_true(json_object_get(o, key));
}

/* For each kind the member of "model" that identifies it if "type" is missing. */
static const struct {
    struct sr1__model model;
    const char *mark;
} models[] = {
    {{"BPE", 1, 1, sr1__load_bpe_pre, sr1__load_bpe, sr1__encode_split, sr1__merge_piece},
     "merges"},
    {{"Unigram", 0, 0, sr1__load_pre_tokenizers, sr1__load_unigram,
      sr1__encode_pre_tokenized, sr1__unigram_piece},
     "unk_id"},
    {{"WordPiece", 0, 0, sr1__load_pre_tokenizers, sr1__load_wordpiece,
      sr1__encode_pre_tokenized, sr1__wordpiece_piece},
     "continuing_subword_prefix"},
};

#define N_MODELS (sizeof models / sizeof models[0])

/* BPE over characters, as files made from SentencePiece have it. */
static const struct sr1__model text_bpe = {"BPE",
                                           0,
                                           1,
                                           sr1__load_pre_tokenizers,
                                           sr1__load_bpe,
                                           sr1__encode_pre_tokenized,
                                           sr1__merge_text_piece};

/* Is there a step ByteLevel in a pre-tokenizer, or a decoder? */
static int has_byte_level(const json_t *o)
{
    const json_t *list = json_object_get(o, "pretokenizers"), *step;
    size_t i;

    if (strcmp(sr1__load_text(o, "type"), "ByteLevel") == 0)
        return 1;
    json_array_foreach((json_t *)(uintptr_t)list, i, step)
    {
        if (has_byte_level(step))
            return 1;
    }
    return 0;
}

/* Of characters, unless a part of the file says bytes. */
static sr1_status note_byte_level(struct sr1__load *l, const json_t *o)
{
    l->byte_level |= has_byte_level(o);
    return SR1_OK;
}

static sr1_status find_model_kind(struct sr1__load *l, struct sr1__str model)
{
    struct sr1__str type = {0}, marks[N_MODELS] = {{0}}, text = {0};
    struct sr1__wanted w[N_MODELS + 1] = {{"type", &type}};
    char kind[64];

    for (size_t i = 0; i < N_MODELS; i++)
        w[i + 1] = (struct sr1__wanted){models[i].mark, &marks[i]};
    SR1__TRY(sr1__load_members(l, model, "model", w, N_MODELS + 1));
    if (type.s)
        SR1__TRY(sr1__load_string(l, type, &text));
    for (size_t i = 0; i < N_MODELS; i++) {
        if (type.s ? !sr1__str_is(text, models[i].model.type) : !marks[i].s)
            continue;
        l->t->model = &models[i].model;
        return SR1_OK;
    }
    snprintf(kind, sizeof kind, "%.*s", (int)(text.n < 60 ? text.n : 60),
             text.s ? text.s : "");
    return sr1__load_unsupported(l, "the model type", kind);
}

static sr1_status load_normaliser(struct sr1__load *l, const json_t *o)
{
    return sr1__normalizer_load(&l->t->normaliser, o, l->name);
}

static sr1_status load_pre_tokenizer(struct sr1__load *l, const json_t *o)
{
    return l->t->model->load_pre(l, o);
}

static sr1_status load_post_processor(struct sr1__load *l, const json_t *o)
{
    return sr1__post_processor_load(&l->t->templates, o, l->name);
}

static sr1_status load_decoder(struct sr1__load *l, const json_t *o)
{
    return sr1__token_decoder_load(l->t, o, l->name);
}

/* Where an added token's bytes go: a token of the model keeps its id and gets the flags,
 * a new one is made. Its bytes follow the decoder's rule, as a vocabulary token's do. */
static sr1_status enter_added(struct sr1__load *l, const char *text, size_t n,
                              uint32_t id, uint8_t flags)
{
    struct sr1__vocab *v = &l->t->vocab;
    size_t len = 0;
    const char *known = sr1__vocab_bytes(v, id, &len);

    sr1__buf_clear(&l->left);
    if (!l->t->model->alphabet || !sr1__alphabet_decode(text, n, &l->left))
        sr1__buf_add(&l->left, text, n);
    SR1__TRY(sr1__buf_status(&l->left, "an added token"));
    if (known && (len != l->left.len || memcmp(known, l->left.data, len) != 0))
        return sr1__fail(SR1_E_PARSE, "id %u belongs to another token", id);
    if (!known)
        return sr1__vocab_add(v, id, l->left.data, l->left.len, flags);
    v->tokens[id].flags |= flags;
    return SR1_OK;
}

/* An added token with normalized=true is matched in its normalised form, and decoded to
 * that form; if nothing is left of it, it is never matched. */
static sr1_status seek_added(struct sr1__load *l, const char *text, size_t n, uint32_t id,
                             int flags, int normalised)
{
    sr1_tokenizer *t = l->t;
    struct sr1__buf room[2];
    const char *form = text;
    size_t len = n;
    sr1_status status;

    if (!normalised)
        return sr1__added_insert(&t->added, text, n, (int32_t)id, flags);
    sr1__buf_init(&room[0], 0);
    sr1__buf_init(&room[1], 0);
    status = sr1__normalizer_run(&t->normaliser, room, &form, &len, 0);
    if (status == SR1_OK && len)
        status = sr1__added_insert(&t->added_normalised, form, len, (int32_t)id, flags);
    if (status == SR1_OK && !t->model->alphabet &&
        (len != n || memcmp(form, text, n) != 0))
        status = sr1__vocab_add(&t->shown, id, form, len, SR1__TOKEN_ADDED);
    sr1__buf_free(&room[0]);
    sr1__buf_free(&room[1]);
    return status;
}

static sr1_status load_added_token(struct sr1__load *l, const json_t *o)
{
    const json_t *content = json_object_get(o, "content");
    json_int_t id = json_integer_value(json_object_get(o, "id"));
    size_t n = json_string_length(content);
    int special = sr1__load_flag(o, "special");
    int how = (special ? SR1__ADDED_SPECIAL : 0) |
              (sr1__load_flag(o, "lstrip") ? SR1__ADDED_LSTRIP : 0) |
              (sr1__load_flag(o, "rstrip") ? SR1__ADDED_RSTRIP : 0);
    uint8_t flags = SR1__TOKEN_ADDED | (special ? SR1__TOKEN_SPECIAL : 0);
    const char *text = json_string_value(content);

    if (n == 0 || !json_is_integer(json_object_get(o, "id")) || id < 0 ||
        id > (json_int_t)SR1__TOKEN_ID_MAX)
        return sr1__fail(SR1_E_PARSE,
                         "%s: added_tokens: an entry needs 'id' and 'content'", l->name);
    if (sr1__load_flag(o, "single_word"))
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "%s: added token '%s': 'single_word' is not supported", l->name,
                         text);
    SR1__TRY(sr1__context(enter_added(l, text, n, (uint32_t)id, flags),
                          "%s: added token '%s'", l->name, text));
    return sr1__context(
        seek_added(l, text, n, (uint32_t)id, how, sr1__load_flag(o, "normalized")), "%s",
        l->name);
}

static sr1_status load_added(struct sr1__load *l, const json_t *list)
{
    size_t i;
    json_t *o;

    if (!json_is_null(list) && !json_is_array(list))
        return sr1__fail(SR1_E_PARSE, "%s: added_tokens must be an array", l->name);
    json_array_foreach(list, i, o) SR1__TRY(load_added_token(l, o));
    return SR1_OK;
}

/* Parse a small member (absent counts as null) and hand it on. */
static sr1_status with_tree(struct sr1__load *l, struct sr1__str text,
                            sr1_status (*use)(struct sr1__load *, const json_t *))
{
    json_t *j = NULL;
    sr1_status status;

    if (!text.s)
        text = (struct sr1__str){"null", 4};
    SR1__TRY(sr1__json_parse(&j, text.s, text.n, l->name));
    status = use(l, j);
    json_decref(j);
    return status;
}

static sr1_status load_tokenizer_json(struct sr1__load *l, struct sr1__str file)
{
    struct sr1__str model = {0}, added = {0}, normaliser = {0}, pre = {0}, post = {0},
                    decoder = {0};
    const struct sr1__wanted w[] = {
        {"model", &model},       {"added_tokens", &added},  {"normalizer", &normaliser},
        {"pre_tokenizer", &pre}, {"post_processor", &post}, {"decoder", &decoder},
    };

    SR1__TRY(sr1__load_members(l, file, "the file", w, sizeof w / sizeof w[0]));
    if (!model.s)
        return sr1__fail(SR1_E_PARSE, "%s: no 'model'; is it a tokenizer.json?", l->name);
    SR1__TRY(find_model_kind(l, model));
    SR1__TRY(with_tree(l, pre, note_byte_level));
    SR1__TRY(with_tree(l, decoder, note_byte_level));
    if (strcmp(l->t->model->type, "BPE") == 0 && !l->byte_level)
        l->t->model = &text_bpe;
    SR1__TRY(with_tree(l, normaliser, load_normaliser));
    SR1__TRY(with_tree(l, pre, load_pre_tokenizer));
    SR1__TRY(with_tree(l, post, load_post_processor));
    SR1__TRY(with_tree(l, decoder, load_decoder));
    SR1__TRY(l->t->model->load(l, &model));
    return with_tree(l, added, load_added);
}

static sr1_tokenizer *new_tokenizer(void)
{
    sr1_tokenizer *t = sr1__calloc(1, sizeof *t);

    if (!t)
        return NULL;
    atomic_init(&t->references, 1);
    sr1__vocab_init(&t->vocab);
    sr1__vocab_init(&t->shown);
    sr1__vocab_init(&t->spelled);
    t->unknown = SR1__NO_TOKEN;
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
    struct sr1__load l = {.t = new_tokenizer(), .name = name};
    sr1_status status;

    SR1__CHECK_ALLOC(l.t, "tokenizer");
    sr1__buf_init(&l.escape, 0);
    sr1__buf_init(&l.left, 0);
    status = load_tokenizer_json(&l, (struct sr1__str){json, n});
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
