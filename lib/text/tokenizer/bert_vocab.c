/* text/tokenizer/bert_vocab.c - a BERT folder without tokenizer.json: vocab.txt, one
 * token a line, and do_lower_case, strip_accents, tokenize_chinese_chars and the names of
 * the special tokens from the tokenizer_config.json beside it. From these the
 * tokenizer.json is written that the reference would make, and read. */
#include "text/tokenizer/tokenizer_internal.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <string.h>

#define VOCAB_MAX ((size_t)64 << 20)
#define CONFIG_MAX ((size_t)16 << 20)

/* Special tokens by the key that may rename them. */
enum { UNK, CLS, SEP, PAD, MASK, SPECIALS };

static const char *const special_names[SPECIALS][2] = {
    [UNK] = {"unk_token", "[UNK]"},    [CLS] = {"cls_token", "[CLS]"},
    [SEP] = {"sep_token", "[SEP]"},    [PAD] = {"pad_token", "[PAD]"},
    [MASK] = {"mask_token", "[MASK]"},
};

/* A token is a string or an object with "content". */
static const char *special_text(const json_t *config, int which)
{
    const json_t *value = json_object_get(config, special_names[which][0]);
    const char *text = json_string_value(
        json_is_object(value) ? json_object_get(value, "content") : value);

    return text ? text : special_names[which][1];
}

/* Line by line, in place; the last of equal lines counts, as in the reference. */
static sr1_status read_vocab(struct sr1__buf *text, const char *name, json_t *vocab)
{
    size_t from = 0;

    for (json_int_t id = 0; from < text->len; id++) {
        char *line = text->data + from;
        char *end = memchr(line, '\n', text->len - from);
        size_t n = end ? (size_t)(end - line) : text->len - from;

        from += n + 1;
        while (n && line[n - 1] == '\r')
            n--;
        line[n] = '\0';
        if (!sr1__utf8_valid(line, n))
            return sr1__fail(SR1_E_PARSE,
                             "%s: line %" JSON_INTEGER_FORMAT " is not UTF-8", name,
                             id + 1);
        if (n && json_object_set_new(vocab, line, json_integer(id)) != 0)
            return sr1__fail_nomem(name);
    }
    return SR1_OK;
}

static json_t *bert_normaliser(const json_t *config)
{
    const json_t *strip = json_object_get(config, "strip_accents");
    int lower = !json_is_false(json_object_get(config, "do_lower_case"));
    int han = !json_is_false(json_object_get(config, "tokenize_chinese_chars"));

    return json_pack("{s:s, s:b, s:b, s:b, s:b}", "type", "BertNormalizer", "clean_text",
                     1, "handle_chinese_chars", han, "strip_accents",
                     json_is_boolean(strip) ? json_is_true(strip) : lower, "lowercase",
                     lower);
}

/* Those of the special tokens that the vocabulary has. */
static json_t *added_tokens(const json_t *config, const json_t *vocab)
{
    json_t *list = json_array();

    for (int i = 0; list && i < SPECIALS; i++) {
        const char *text = special_text(config, i);
        json_t *id = json_object_get(vocab, text);

        if (id && json_array_append_new(list, json_pack("{s:O, s:s, s:b}", "id", id,
                                                        "content", text, "special", 1))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* NULL: no memory, or a special token that is not in the vocabulary. */
static json_t *bert_tokenizer(const json_t *config, json_t *vocab)
{
    json_t *cls = json_object_get(vocab, special_text(config, CLS));
    json_t *sep = json_object_get(vocab, special_text(config, SEP));

    return json_pack("{s:o, s:{s:s}, s:{s:s, s:[s, O], s:[s, O]}, s:{s:s}, s:o, "
                     "s:{s:s, s:s, s:O}}",
                     "normalizer", bert_normaliser(config), "pre_tokenizer", "type",
                     "BertPreTokenizer", "post_processor", "type", "BertProcessing",
                     "sep", special_text(config, SEP), sep, "cls",
                     special_text(config, CLS), cls, "decoder", "type", "WordPiece",
                     "added_tokens", added_tokens(config, vocab), "model", "type",
                     "WordPiece", "unk_token", special_text(config, UNK), "vocab", vocab);
}

static sr1_status check_specials(const json_t *config, const json_t *vocab,
                                 const char *name)
{
    for (int i = UNK; i <= SEP; i++)
        if (!json_object_get(vocab, special_text(config, i)))
            return sr1__fail(SR1_E_PARSE, "%s: no line '%s'", name,
                             special_text(config, i));
    return SR1_OK;
}

static sr1_status open_vocab(sr1_tokenizer **out, struct sr1__buf *text,
                             const json_t *config, const char *name)
{
    json_t *vocab = json_object(), *file = NULL;
    struct sr1__buf json;
    sr1_status status = vocab ? read_vocab(text, name, vocab) : sr1__fail_nomem(name);

    sr1__buf_init(&json, 0);
    if (status == SR1_OK)
        status = check_specials(config, vocab, name);
    if (status == SR1_OK) {
        file = bert_tokenizer(config, vocab);
        status = file ? sr1__json_dump(file, 0, &json) : sr1__fail_nomem(name);
    }
    if (status == SR1_OK)
        status = sr1__tokenizer_parse(out, sr1__buf_cstr(&json), json.len, name);
    sr1__buf_free(&json);
    json_decref(file);
    json_decref(vocab);
    return status;
}

/* The tokenizer_config.json in the folder of a file; *out NULL: there is none. */
static sr1_status read_tokenizer_config(const char *beside, json_t **out)
{
    const char *slash = strrchr(beside, '/');
    char *folder =
        slash ? sr1__strndup(beside, (size_t)(slash - beside) + 1) : sr1__strdup(".");
    char *path = folder ? sr1__path_join(folder, "tokenizer_config.json") : NULL;
    sr1_status status = path ? SR1_OK : sr1__fail_nomem("tokenizer");

    if (status == SR1_OK && sr1__path_exists(path))
        status = sr1__json_load_loose(out, path, CONFIG_MAX);
    sr1__free(folder);
    sr1__free(path);
    return status;
}

sr1_status sr1__bert_vocab_open(sr1_tokenizer **out, const char *vocab_path)
{
    struct sr1__buf text;
    json_t *config = NULL;
    sr1_status status;

    SR1__TRY(read_tokenizer_config(vocab_path, &config));
    sr1__buf_init(&text, 0);
    status = sr1__file_read(vocab_path, VOCAB_MAX, &text);
    if (status == SR1_OK)
        status = open_vocab(out, &text, config, vocab_path);
    sr1__buf_free(&text);
    json_decref(config);
    return status;
}
