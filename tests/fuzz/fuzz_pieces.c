/* fuzz_pieces.c - input: tokenizer.json of any kind, then (after a NUL byte) a text. What
 * is taken encodes the text within its bounds, and what it gives is decoded to UTF-8.
 * The text alone also goes through a WordPiece, a Unigram and a BPE tokenizer that have
 * every part, the bytes alone through the character map's reader. */
#include "fuzz.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/precompiled_charsmap.h"
#include "text/tokenizer/tokenizer_internal.h"

#define TEXT_MAX 300
#define TOKENS_MAX 64

static void check(const sr1_tokenizer *t, const char *text, const char *pair)
{
    int32_t *ids = NULL, *types = NULL;
    char *decoded = NULL;
    size_t n = 0, len = 0;

    /* A pattern may be refused for the steps it takes, a text for a missing unk_id. */
    if (sr1_tokenizer_encode_input(t, text, pair, TOKENS_MAX, &ids, &types, &n) != SR1_OK)
        return;
    FUZZ_CHECK(n <= TOKENS_MAX);
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK(ids[i] >= 0 && (uint32_t)ids[i] <= SR1__TOKEN_ID_MAX && types[i] >= 0);
    FUZZ_CHECK(sr1_tokenizer_decode(t, ids, n, 0, &decoded, &len) == SR1_OK);
    FUZZ_CHECK(sr1__utf8_valid(decoded, len));
    sr1_free(ids);
    sr1_free(types);
    sr1_free(decoded);
}

/* The vocabularies have a few words, so that all ways through the models are taken. */
static sr1_tokenizer *made(const char *json)
{
    sr1_tokenizer *t = NULL;

    FUZZ_CHECK(sr1__tokenizer_parse(&t, json, strlen(json), "made") == SR1_OK);
    return t;
}

static const char wordpiece[] =
    "{\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, "
    "\"handle_chinese_chars\": true, \"strip_accents\": null, \"lowercase\": true}, "
    "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"decoder\": {\"type\": "
    "\"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}, \"post_processor\": "
    "{\"type\": "
    "\"BertProcessing\", \"sep\": [\"[SEP]\", 1], \"cls\": [\"[CLS]\", 2]}, "
    "\"added_tokens\": [{\"id\": 1, \"content\": \"[SEP]\", \"special\": true, "
    "\"lstrip\": true, \"rstrip\": true}, {\"id\": 9, \"content\": \"B a\", "
    "\"normalized\": true}], \"model\": {\"type\": \"WordPiece\", "
    "\"max_input_chars_per_word\": 20, \"vocab\": {\"[UNK]\": 0, \"[SEP]\": 1, "
    "\"[CLS]\": "
    "2, \"a\": 3, \"##a\": 4, \"b\": 5, \"##ab\": 6, \".\": 7, \"'\": 8}}}";

static const char unigram[] =
    "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Nmt\"}, "
    "{\"type\": \"NFKC\"}, {\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, "
    "\"content\": \" \"}, {\"type\": \"Strip\", \"strip_left\": true, \"strip_right\": "
    "true}]}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
    "\"Whitespace\"}, {\"type\": \"Metaspace\", \"prepend_scheme\": \"first\"}]}, "
    "\"decoder\": {\"type\": \"Metaspace\"}, \"post_processor\": {\"type\": "
    "\"RobertaProcessing\", \"sep\": [\"</s>\", 1], \"cls\": [\"<s>\", 2]}, "
    "\"added_tokens\": [{\"id\": 1, \"content\": \"</s>\", \"special\": true}], "
    "\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"byte_fallback\": true, "
    "\"vocab\": "
    "[[\"<unk>\", 0], [\"</s>\", 0], [\"<s>\", 0], [\"\\u2581a\", -1.5], [\"a\", -2], "
    "[\"ab\", -3], [\"b\", -2.5], [\"\\u2581\", -4], [\"<0x41>\", -5]]}}";

static const char text_bpe[] =
    "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": "
    "\"Prepend\", \"prepend\": \"\\u2581\"}, {\"type\": \"Replace\", \"pattern\": "
    "{\"String\": \" \"}, \"content\": \"\\u2581\"}]}, \"pre_tokenizer\": {\"type\": "
    "\"Split\", \"pattern\": {\"String\": \".\"}, \"behavior\": \"MergedWithNext\"}, "
    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", "
    "\"pattern\": {\"String\": \"\\u2581\"}, \"content\": \" \"}, {\"type\": "
    "\"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", "
    "\"start\": 1, \"stop\": 1}]}, \"added_tokens\": [{\"id\": 1, \"content\": \"</s>\", "
    "\"special\": true, \"lstrip\": true}], \"model\": {\"type\": \"BPE\", "
    "\"unk_token\": "
    "\"<unk>\", \"fuse_unk\": false, \"byte_fallback\": true, \"vocab\": {\"<unk>\": 0, "
    "\"</s>\": 1, \"\\u2581\": 2, \"a\": 3, \"b\": 4, \"ab\": 5, \"\\u2581a\": 6, "
    "\"<0xC3>\": 7, \"<0xA9>\": 8, \"<0x41>\": 9, \"aa\": 10}, \"merges\": [\"a b\", "
    "\"\\u2581 a\", \"a a\"]}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static sr1_tokenizer *fixed[3];
    const char *json = (const char *)data;
    const char *nul = size ? memchr(json, '\0', size) : NULL;
    size_t n_json = nul ? (size_t)(nul - json) : size;
    size_t n_text = nul ? size - n_json - 1 : size;
    struct sr1__precompiled_charsmap *map = NULL;
    sr1_tokenizer *t = NULL;
    char *text;

    n_text = n_text < TEXT_MAX ? n_text : TEXT_MAX;
    text = sr1__strndup(nul ? nul + 1 : json, n_text);
    FUZZ_CHECK(text);
    if (!fixed[0]) {
        fixed[0] = made(wordpiece);
        fixed[1] = made(unigram);
        fixed[2] = made(text_bpe);
    }
    for (int i = 0; i < 3; i++)
        check(fixed[i], text, n_text % 2 ? text + n_text / 2 : NULL);
    if (sr1__precompiled_charsmap_new(&map, json, n_json, "fuzz") == SR1_OK) {
        struct sr1__buf out;

        sr1__buf_init(&out, 0);
        if (sr1__utf8_valid(text, strlen(text)))
            sr1__precompiled_charsmap_apply(map, text, strlen(text), &out);
        FUZZ_CHECK(sr1__utf8_valid(sr1__buf_cstr(&out), out.len));
        sr1__buf_free(&out);
    }
    sr1__precompiled_charsmap_free(map);
    if (sr1__tokenizer_parse(&t, json, n_json, "fuzz") == SR1_OK)
        check(t, text, text);
    sr1_tokenizer_free(t);
    sr1__free(text);
    return 0;
}
