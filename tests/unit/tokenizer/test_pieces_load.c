/* test_pieces_load.c - which WordPiece and Unigram files are taken and what is refused,
 * by name; folders of BERT and SentencePiece; what is not served; failing allocations. */
#include "support.h"

#include "../../support/files.h"
#include "../../support/torture.h"
#include "text/tokenizer/tokenizer_internal.h"

struct refusal {
    const char *folder;
    const char *path;
    const char *value;
    sr1_status status;
    const char *says;
};

#define WP "wordpiece"
#define UN "unigram"

static const struct refusal refusals[] = {
    {WP, "model.type", "\"WordLevel\"", SR1_E_UNSUPPORTED, "WordLevel"},
    {WP, "model.vocab", "[]", SR1_E_PARSE, "model.vocab"},
    {WP, "model.vocab", "{}", SR1_E_PARSE, "[UNK]"},
    {WP, "model.vocab", "{\"[UNK]\": 0, \"a\": 0}", SR1_E_PARSE, "given twice"},
    {WP, "model.vocab", "{\"[UNK]\": 4194304}", SR1_E_LIMIT, "4194304"},
    {WP, "model.vocab", "{\"[UNK]\": 1.5}", SR1_E_PARSE, "1.5"},
    {WP, "model.vocab", "null", SR1_E_PARSE, "model.vocab"},
    {WP, "model.unk_token", "\"nowhere\"", SR1_E_PARSE, "nowhere"},
    {WP, "model.unk_token", "3", SR1_E_PARSE, "string"},
    {WP, "model.continuing_subword_prefix", "[]", SR1_E_PARSE, "string"},
    {WP, "model.max_input_chars_per_word", "-1", SR1_E_PARSE, "-1"},
    {WP, "normalizer", "{\"type\": \"Prepend\"}", SR1_E_PARSE, "Prepend"},
    {WP, "normalizer", "{\"type\": \"Append\"}", SR1_E_UNSUPPORTED, "Append"},
    {WP, "normalizer", "{}", SR1_E_UNSUPPORTED, "normalizer ''"},
    {WP, "normalizer", "{\"type\": \"Replace\"}", SR1_E_PARSE, "pattern"},
    {WP, "normalizer",
     "{\"type\": \"Replace\", \"pattern\": {\"String\": \"\"}, \"content\": \"\"}",
     SR1_E_PARSE, "pattern"},
    {WP, "normalizer",
     "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"a*\"}, \"content\": \"b\"}",
     SR1_E_UNSUPPORTED, "matches nothing"},
    {WP, "normalizer",
     "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"(a)\"}, \"content\": \"$1\"}",
     SR1_E_UNSUPPORTED, "$1"},
    {WP, "normalizer",
     "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"\\\\h\"}, \"content\": \"b\"}",
     SR1_E_UNSUPPORTED, "\\h"},
    {WP, "pre_tokenizer", "{\"type\": \"ByteLevel\"}", SR1_E_UNSUPPORTED, "ByteLevel"},
    {WP, "pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"ab\"}",
     SR1_E_PARSE, "replacement"},
    {WP, "pre_tokenizer", "{\"type\": \"Metaspace\", \"prepend_scheme\": \"last\"}",
     SR1_E_UNSUPPORTED, "last"},
    {WP, "post_processor", "{\"type\": \"Other\"}", SR1_E_UNSUPPORTED, "Other"},
    {WP, "post_processor.single", "[]", SR1_E_UNSUPPORTED, "left out"},
    {WP, "post_processor.pair.+", "[{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}]",
     SR1_E_UNSUPPORTED, "given twice"},
    {WP, "post_processor.single.+", "[{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}]",
     SR1_E_PARSE, "second"},
    {WP, "post_processor.single.+", "[{\"Sequence\": {\"id\": \"C\", \"type_id\": 1}}]",
     SR1_E_PARSE, "A or B"},
    {WP, "post_processor.single.+", "[{\"SpecialToken\": {\"id\": \"x\"}}]", SR1_E_PARSE,
     "'x'"},
    {WP, "post_processor.single.0.SpecialToken.type_id", "-1", SR1_E_PARSE, "type_id"},
    {WP, "post_processor", "{\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 3]}",
     SR1_E_PARSE, "'cls'"},
    {WP, "decoder", "{\"type\": \"ByteLevel\"}", SR1_E_UNSUPPORTED, "ByteLevel"},
    {WP, "decoder", "{\"type\": \"Fuse\"}", SR1_E_UNSUPPORTED, "Fuse"},
    {WP, "added_tokens.0.single_word", "true", SR1_E_UNSUPPORTED, "single_word"},
    {"llama2", "model.unk_token", "\"nowhere\"", SR1_E_PARSE, "nowhere"},
    {"llama2", "model.dropout", "0.1", SR1_E_UNSUPPORTED, "dropout"},
    {"llama2", "model.merges.+", "[[\"a\", \"nowhere\"]]", SR1_E_PARSE, "nowhere"},
    {"llama2", "model.merges.+", "[\"ab\"]", SR1_E_PARSE, "no space"},
    {"llama2", "decoder.decoders", "[]", SR1_E_UNSUPPORTED, "no Fuse"},
    {"llama2", "decoder.decoders", "[{\"type\": \"Fuse\"}, {\"type\": \"ByteFallback\"}]",
     SR1_E_UNSUPPORTED, "ByteFallback at this place"},
    {"llama2", "decoder.decoders.3.content", "\"ab\"", SR1_E_PARSE, "Strip"},
    {"llama2", "decoder.decoders.0.pattern", "{\"Regex\": \" \"}", SR1_E_UNSUPPORTED,
     "Replace"},
    {"llama2", "pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \" \"}}",
     SR1_E_UNSUPPORTED, "Split"},
    {"gemma", "pre_tokenizer.behavior", "\"Kept\"", SR1_E_UNSUPPORTED, "Kept"},
    {"gemma", "pre_tokenizer.invert", "true", SR1_E_UNSUPPORTED, "invert"},
    {UN, "model.vocab", "[]", SR1_E_PARSE, "no token"},
    {UN, "model.vocab", "{}", SR1_E_PARSE, "array"},
    {UN, "model.vocab.+", "[[\"zz\"]]", SR1_E_PARSE, "its score"},
    {UN, "model.vocab.+", "[[\"zz\", 1, 2]]", SR1_E_PARSE, "its score"},
    {UN, "model.vocab.+", "[[\"zz\", \"1\"]]", SR1_E_PARSE, "score"},
    {UN, "model.vocab.+", "[[\"zz\", true]]", SR1_E_PARSE, "true"},
    {UN, "model.vocab.+", "[[1, 1]]", SR1_E_PARSE, "string"},
    {UN, "model.vocab.+", "[3]", SR1_E_PARSE, "array"},
    {UN, "model.vocab.+", "[[\"</s>\", -1.5]]", SR1_E_PARSE, "same bytes"},
    {UN, "model.unk_id", "100000", SR1_E_PARSE, "100000"},
    {UN, "model.unk_id", "\"x\"", SR1_E_PARSE, "x"},
    {UN, "normalizer.precompiled_charsmap", "\"AAAA!\"", SR1_E_PARSE, "base64"},
    {UN, "normalizer.precompiled_charsmap", "\"AAA\"", SR1_E_PARSE, "base64"},
    {UN, "normalizer.precompiled_charsmap", "\"AAA=\"", SR1_E_PARSE, "cut short"},
    {UN, "normalizer.precompiled_charsmap", "\"/////w==\"", SR1_E_PARSE, "cut short"},
    {UN, "normalizer.precompiled_charsmap", "\"AAAAAP8=\"", SR1_E_PARSE, "UTF-8"},
    {UN, "normalizer.precompiled_charsmap", "3", SR1_E_PARSE, "precompiled_charsmap"},
};

static void refuses_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        json_t *j = file_of(r->folder);
        sr1_tokenizer *t = NULL;
        sr1_status status;

        set_path(j, r->path, r->value);
        status = parse_tree(&t, j);
        if (status != r->status || !strstr(sr1_last_error(), r->says) ||
            !strstr(sr1_last_error(), "t.json") || t)
            fail_msg("%s = %s: %d: %s", r->path, r->value, status, sr1_last_error());
        json_decref(j);
    }
}

/* A text full of one would take its length at each place. */
static void tokens_of_the_trie_have_a_length(void **state)
{
    for (size_t n = 1024; n <= 1025; n++) {
        json_t *j = file_of(WP);
        struct sr1__buf vocab;
        sr1_tokenizer *t = NULL;
        sr1_status status;

        (void)state;
        sr1__buf_init(&vocab, 0);
        sr1__buf_str(&vocab, "{\"[UNK]\": 0, \"");
        for (size_t i = 0; i < n; i++)
            sr1__buf_char(&vocab, 'a');
        sr1__buf_str(&vocab, "\": 1}");
        set_path(j, "model.vocab", sr1__buf_cstr(&vocab));
        set_path(j, "added_tokens", "[]");
        set_path(j, "post_processor", "null");
        status = parse_tree(&t, j);
        if (n == 1024)
            assert_int_equal(status, SR1_OK);
        else
            assert_int_equal(status, SR1_E_LIMIT);
        if (n == 1025 && !strstr(sr1_last_error(), "t.json: model.vocab: the vocabulary "
                                                   "has a token of 1025 bytes"))
            fail_msg("%s", sr1_last_error());
        sr1_tokenizer_free(t);
        sr1__buf_free(&vocab);
        json_decref(j);
    }
}

/* Sixteen steps that each make 64 bytes of one: 64 of them is all that a text becomes. */
static void steps_of_a_normalizer_do_not_multiply(void **state)
{
    json_t *j = file_of(WP);
    struct sr1__buf steps;
    sr1_tokenizer *t = NULL;
    int32_t *ids = NULL;
    size_t n = 0;

    (void)state;
    sr1__buf_init(&steps, 0);
    sr1__buf_str(&steps, "{\"type\": \"Sequence\", \"normalizers\": [");
    for (int i = 0; i < 16; i++) {
        sr1__buf_fmt(&steps,
                     "%s{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, "
                     "\"content\": \"",
                     i ? ", " : "");
        for (int k = 0; k < 64; k++)
            sr1__buf_char(&steps, 'a');
        sr1__buf_str(&steps, "\"}");
    }
    sr1__buf_str(&steps, "]}");
    set_path(j, "normalizer", sr1__buf_cstr(&steps));
    OK(parse_tree(&t, j));
    assert_int_equal(sr1_tokenizer_encode_input(t, "aa", NULL, 512, &ids, NULL, &n),
                     SR1_E_LIMIT);
    if (!strstr(sr1_last_error(), "normalizer Replace: text in normal form: longer than "
                                  "1048704 bytes"))
        fail_msg("%s", sr1_last_error());
    assert_null(ids);
    sr1_tokenizer_free(t);
    sr1__buf_free(&steps);
    json_decref(j);
}

/* Cut anywhere, a file is refused and nothing leaks. */
static void refuses_cut_files(void **state)
{
    static const char *const files[] = {WP "/tokenizer.json", UN "/tokenizer.json",
                                        "llama2/tokenizer.json"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct sr1__buf text;

        OK(sr1__file_read(fixture_path(files[i]), 0, &text));
        for (size_t n = 0; n + 3 < text.len; n += 61) {
            sr1_tokenizer *t = NULL;
            int64_t live = sr1__mem_live();

            assert_int_not_equal(sr1__tokenizer_parse(&t, text.data, n, "cut"), SR1_OK);
            assert_null(t);
            assert_true(sr1__mem_live() == live);
        }
        sr1__buf_free(&text);
    }
}

static sr1_tokenizer *open_kept(const char *folder)
{
    sr1_tokenizer *t = NULL;

    OK(sr1_tokenizer_open(&t, fixture_path(folder)));
    return t;
}

/* Encodes to exactly these ids. */
static void assert_input(const sr1_tokenizer *t, const char *text, size_t max,
                         const int32_t *want, size_t n_want)
{
    int32_t *ids = NULL;
    size_t n = 0;

    OK(sr1_tokenizer_encode_input(t, text, NULL, max, &ids, NULL, &n));
    assert_int_equal(n, n_want);
    assert_memory_equal(ids, want, n * sizeof *ids);
    sr1_free(ids);
}

static void bounds_of_inputs(void **state)
{
    sr1_tokenizer *t = open_kept(WP);
    const int32_t cls = sr1_tokenizer_token_to_id(t, "[CLS]");
    const int32_t sep = sr1_tokenizer_token_to_id(t, "[SEP]");
    const int32_t the = sr1_tokenizer_token_to_id(t, "the");
    const int32_t unknown = sr1_tokenizer_token_to_id(t, "[UNK]");
    const int32_t none[] = {cls, sep}, one[] = {cls, the, sep},
                  odd[] = {cls, unknown, sep};
    int32_t *ids = NULL, *types = NULL;
    size_t n = 7;

    (void)state;
    assert_input(t, "", 512, none, 2);
    assert_input(t, "the the the", 2, none, 2);
    assert_input(t, "the the the", 3, one, 3);
    assert_input(t, "\xff\xfe", 512, none, 2); /* U+FFFD, which BERT removes */
    assert_input(t, "\xe2\x98\x83", 512, odd, 3);
    assert_int_equal(sr1_tokenizer_encode_input(t, "a", NULL, 1, &ids, &types, &n),
                     SR1_E_INVALID);
    assert_int_equal(sr1_tokenizer_encode_input(t, "a", "b", 2, &ids, &types, &n),
                     SR1_E_INVALID);
    assert_int_equal(sr1_tokenizer_encode_input(NULL, "a", NULL, 9, &ids, &types, &n),
                     SR1_E_INVALID);
    assert_int_equal(sr1_tokenizer_encode_input(t, NULL, NULL, 9, &ids, &types, &n),
                     SR1_E_INVALID);
    assert_int_equal(sr1_tokenizer_encode_input(t, "a", NULL, 9, NULL, &types, &n),
                     SR1_E_INVALID);
    assert_null(ids);
    assert_null(types);
    assert_int_equal(n, 7);
    sr1_tokenizer_free(t);
}

/* Byte-level BPE without a post-processor gives the text alone. */
static void other_models_give_inputs_too(void **state)
{
    sr1_tokenizer *t = open_kept("small");
    int32_t *ids = NULL, *types = NULL, *plain = NULL;
    size_t n = 0, n_plain = 0;

    (void)state;
    OK(sr1_tokenizer_encode(t, "search it", 9, 0, &plain, &n_plain));
    OK(sr1_tokenizer_encode_input(t, "search it", "search it", 512, &ids, &types, &n));
    assert_int_equal(n, 2 * n_plain);
    assert_memory_equal(ids, plain, n_plain * sizeof *ids);
    assert_memory_equal(ids + n_plain, plain, n_plain * sizeof *ids);
    assert_int_equal(types[0], 0);
    assert_int_equal(types[n - 1], 1);
    sr1_free(ids);
    sr1_free(types);
    sr1_free(plain);
    sr1_tokenizer_free(t);
}

static void generation_is_not_served(void **state)
{
    static const char *const folders[] = {WP, UN};
    static const char *const roles[] = {"user"}, *const contents[] = {"a"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sr1_tokenizer *t = open_kept(folders[i]);
        sr1_token_stream *stream = NULL;
        char *text = NULL;

        assert_int_equal(sr1_token_stream_new(&stream, t, 0), SR1_E_UNSUPPORTED);
        assert_non_null(strstr(sr1_last_error(), i ? "Unigram" : "WordPiece"));
        assert_int_equal(sr1_tokenizer_chat(t, roles, contents, NULL, 1, NULL, &text,
                                            NULL, NULL, NULL),
                         SR1_E_UNSUPPORTED);
        assert_int_equal(
            sr1_tokenizer_chat_json(t, "[]", 2, NULL, &text, NULL, NULL, NULL),
            SR1_E_UNSUPPORTED);
        assert_null(stream);
        assert_null(text);
        assert_string_equal(sr1_tokenizer_chat_family(t), "unknown");
        sr1_tokenizer_free(t);
    }
}

/* Unigram without unk_id: what it cannot write is an error, as in the reference. */
static void unknown_without_a_token_is_an_error(void **state)
{
    json_t *j = file_of(UN);
    sr1_tokenizer *t = NULL;
    int32_t *ids = NULL;
    size_t n = 0;

    (void)state;
    set_path(j, "model.unk_id", "null");
    OK(parse_tree(&t, j));
    OK(sr1_tokenizer_encode_input(t, "the", NULL, 512, &ids, NULL, &n));
    sr1_free(ids);
    assert_int_equal(
        sr1_tokenizer_encode_input(t, "the \xe2\x98\x83", NULL, 512, &ids, NULL, &n),
        SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "\xe2\x98\x83"));
    sr1_tokenizer_free(t);
    json_decref(j);
}

/* Scores of every length and size are numbers; what is no number is not. */
static void odd_scores(void **state)
{
    static const char *const fine[] = {
        "0",
        "-0",
        "1e5",
        "-1.5E-3",
        "1e+2",
        "1e-400",
        "1.5e-9223372036854775807",
        "-0.000000000000000000000000000000000000000000000001",
        "123456789012345678901234567890",
        "-3.14159265358979323846264338327950288"};
    static const char *const bad[] = {"+1", "1e400", "nan", "-", "1e", "0x1"};

    (void)state;
    for (size_t i = 0; i < sizeof fine / sizeof fine[0] + sizeof bad / sizeof bad[0];
         i++) {
        int good = i < sizeof fine / sizeof fine[0];
        const char *score = good ? fine[i] : bad[i - sizeof fine / sizeof fine[0]];
        sr1_tokenizer *t = NULL;
        char json[256];

        snprintf(json, sizeof json,
                 "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", %s]]}}", score);
        if ((sr1__tokenizer_parse(&t, json, strlen(json), "t.json") == SR1_OK) != good)
            fail_msg("%s: %s", score, sr1_last_error());
        sr1_tokenizer_free(t);
    }
}

/* What the reference (tokenizers 0.23.3) writes for a file with these scores, which it
 * does not read to the nearest double. */
static void scores_are_read_as_the_reference_does(void **state)
{
    static const struct {
        const char *written;
        double read;
    } cases[] = {
        {"-3.8631783514263525", -3.863178351426353},
        {"-7.2114422761664825", -7.211442276166483},
        {"-7.3364453745120395", -7.33644537451204},
        {"-7.5771263184887605", -7.57712631848876},
        {"-7.6783230775079865", -7.678323077507987},
        {"-9.490863121895753", -9.490863121895751},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sr1_tokenizer *t = NULL;
        char json[256];

        snprintf(json, sizeof json,
                 "{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", %s]]}}",
                 cases[i].written);
        OK(sr1__tokenizer_parse(&t, json, strlen(json), "t.json"));
        assert_true(t->scores[0] == cases[i].read);
        sr1_tokenizer_free(t);
    }
}

static void roles_and_ids(void **state)
{
    sr1_tokenizer *t = open_kept(WP);

    (void)state;
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_PAD),
                     sr1_tokenizer_token_to_id(t, "[PAD]"));
    assert_int_equal(sr1_tokenizer_token_to_id(t, "[PAD]"), 0);
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_EOS), -1);
    assert_int_equal(sr1_tokenizer_token_to_id(t, "nothing like it"), -1);
    assert_true(sr1_tokenizer_token_to_id(t, "##s") > 0);
    sr1_tokenizer_free(t);
}

/* The ids of a text in the scratch folder's tokenizer. */
static size_t scratch_ids(const char *text, int32_t ids[16])
{
    sr1_tokenizer *t = NULL;
    int32_t *got = NULL;
    size_t n = 0;

    OK(sr1_tokenizer_open(&t, scratch_dir));
    OK(sr1_tokenizer_encode_input(t, text, NULL, 16, &got, NULL, &n));
    memcpy(ids, got, n * sizeof *got);
    sr1_free(got);
    sr1_tokenizer_free(t);
    return n;
}

/* Keys of tokenizer_config.json over both forms of a BERT folder. Ids by hand. */
static void configuration_counts(void **state)
{
    static const char vocab[] =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\r\na\nA\n\xc3\xa4\n\xe4\xb8\xad\n\n<s>\n";
    static const struct {
        const char *config;
        int32_t want[8];
        size_t n;
    } cases[] = {
        {"{}", {2, 4, 4, 7, 4, 3}, 6},
        {"{\"do_lower_case\": false}", {2, 5, 6, 7, 4, 3}, 6},
        {"{\"strip_accents\": false}", {2, 4, 6, 7, 4, 3}, 6},
        {"{\"do_lower_case\": false, \"strip_accents\": true}", {2, 5, 4, 7, 4, 3}, 6},
        {"{\"tokenize_chinese_chars\": false}", {2, 4, 4, 1, 3}, 5},
        {"{\"cls_token\": \"<s>\"}", {9, 4, 4, 7, 4, 3}, 6},
        {"{\"sep_token\": {\"content\": \"<s>\"}}", {2, 4, 4, 7, 4, 9}, 6},
    };

    (void)state;
    scratch_file("vocab.txt", vocab, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t ids[16];

        scratch_file("tokenizer_config.json", cases[i].config, 0);
        assert_int_equal(scratch_ids("A \xc3\xa4 \xe4\xb8\xad"
                                     "a",
                                     ids),
                         cases[i].n);
        assert_memory_equal(ids, cases[i].want, cases[i].n * sizeof ids[0]);
    }
    remove(scratch_path("vocab.txt"));
    remove(scratch_path("tokenizer_config.json"));
}

static void configuration_changes_the_file(void **state)
{
    struct sr1__buf text;
    int32_t lower[16], upper[16], left[16];
    size_t n, n_left;

    (void)state;
    OK(sr1__file_read(fixture_path(WP "/tokenizer.json"), 0, &text));
    scratch_file("tokenizer.json", text.data, text.len);
    sr1__buf_free(&text);
    n = scratch_ids("The The was", lower);
    scratch_file("tokenizer_config.json", "{\"do_lower_case\": false}", 0);
    scratch_ids("The The was", upper);
    assert_true(lower[1] != upper[1]);
    scratch_file("tokenizer_config.json", "{\"truncation_side\": \"left\"}", 0);
    n_left = scratch_ids("a a a a a a a a a a a a a a a a The The was", left);
    assert_int_equal(n_left, 16);
    assert_memory_equal(left + 16 - (n - 1), lower + 1, (n - 1) * sizeof lower[0]);
    remove(scratch_path("tokenizer.json"));
    remove(scratch_path("tokenizer_config.json"));
}

static sr1_status open_scratch(void *arg)
{
    sr1_tokenizer *t = NULL;
    sr1_status status = sr1_tokenizer_open(&t, scratch_dir);

    (void)arg;
    sr1_tokenizer_free(t);
    return status;
}

static void folders_that_do_not_do(void **state)
{
    static const char *const names[] = {"spiece.model", "sentencepiece.bpe.model"};
    sr1_tokenizer *t = NULL;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        scratch_file(names[i], "x", 0);
        assert_int_equal(sr1_tokenizer_open(&t, scratch_dir), SR1_E_UNSUPPORTED);
        assert_non_null(strstr(sr1_last_error(), names[i]));
        assert_non_null(strstr(sr1_last_error(), "save_pretrained"));
        remove(scratch_path(names[i]));
    }
    assert_int_equal(sr1_tokenizer_open(&t, scratch_dir), SR1_E_NOT_FOUND);
    scratch_file("vocab.txt", "[UNK]\n[CLS]\na\n", 0);
    assert_int_equal(sr1_tokenizer_open(&t, scratch_dir), SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "[SEP]"));
    scratch_file("vocab.txt", "[UNK]\n[CLS]\n[SEP]\n\xff\n", 0);
    assert_int_equal(sr1_tokenizer_open(&t, scratch_dir), SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "line 4 is not UTF-8"));
    scratch_file("vocab.txt", "[UNK]\n[CLS]\n[SEP]\na\n", 0);
    torture(open_scratch, NULL);
    remove(scratch_path("vocab.txt"));
    assert_null(t);
}

static void saves_its_files(void **state)
{
    sr1_tokenizer *t = open_kept("bert_vocab"), *again = NULL;

    (void)state;
    OK(sr1_tokenizer_save(t, scratch_dir));
    OK(sr1_tokenizer_open(&again, scratch_dir));
    assert_int_equal(sr1_tokenizer_vocab_size(t), sr1_tokenizer_vocab_size(again));
    remove(scratch_path("vocab.txt"));
    remove(scratch_path("tokenizer_config.json"));
    sr1_tokenizer_free(t);
    sr1_tokenizer_free(again);
}

static sr1_status open_it(void *folder)
{
    sr1_tokenizer *t = NULL;
    sr1_status status = sr1_tokenizer_open(&t, folder);

    sr1_tokenizer_free(t);
    return status;
}

/* Texts that take every way through the parts. */
static sr1_status use_it(void *arg)
{
    static const char text[] =
        "The  \xc3\xa4\xcc\xa3 caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 "
        "\xe2\x98\x83\xe2\x98\x83 <mask> [SEP] wordless";
    int32_t *ids = NULL, *types = NULL;
    char *decoded = NULL;
    size_t n = 0;
    sr1_status status = sr1_tokenizer_encode_input(arg, text, "b", 512, &ids, &types, &n);

    if (status == SR1_OK)
        status = sr1_tokenizer_decode(arg, ids, n, 1, &decoded, NULL);
    sr1_free(ids);
    sr1_free(types);
    sr1_free(decoded);
    return status;
}

static void survives_failing_allocations(void **state)
{
    static const char *const folders[] = {WP, "bert_vocab", UN};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        sr1_tokenizer *t = open_kept(folders[i]);

        assert_true(torture(open_it, (void *)fixture_path(folders[i])) > 10);
        assert_true(torture(use_it, t) > 5);
        sr1_tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_by_name),
        cmocka_unit_test(tokens_of_the_trie_have_a_length),
        cmocka_unit_test(steps_of_a_normalizer_do_not_multiply),
        cmocka_unit_test(refuses_cut_files),
        cmocka_unit_test(bounds_of_inputs),
        cmocka_unit_test(other_models_give_inputs_too),
        cmocka_unit_test(generation_is_not_served),
        cmocka_unit_test(unknown_without_a_token_is_an_error),
        cmocka_unit_test(odd_scores),
        cmocka_unit_test(scores_are_read_as_the_reference_does),
        cmocka_unit_test(roles_and_ids),
        cmocka_unit_test(configuration_counts),
        cmocka_unit_test(configuration_changes_the_file),
        cmocka_unit_test(folders_that_do_not_do),
        cmocka_unit_test(saves_its_files),
        cmocka_unit_test(survives_failing_allocations),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
