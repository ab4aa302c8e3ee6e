/* test_load.c - what tokenizer files are taken, what is read from their companions, and
 * what is refused, by name. */
#include "support.h"

#include "../../support/files.h"
#include "../../support/torture.h"

static json_t *small_json(void)
{
    return file_of("small");
}

static void refuses_other_kinds(void **state)
{
    static const struct {
        const char *path;
        const char *value;
        sr1_status status;
        const char *says;
    } cases[] = {
        {"model.type", "\"WordLevel\"", SR1_E_UNSUPPORTED, "WordLevel"},
        {"model.byte_fallback", "true", SR1_E_UNSUPPORTED, "byte_fallback"},
        {"model.dropout", "0.1", SR1_E_UNSUPPORTED, "dropout"},
        {"model.end_of_word_suffix", "\"</w>\"", SR1_E_UNSUPPORTED, "end_of_word_suffix"},
        {"model.vocab", "[]", SR1_E_PARSE, "model.vocab"},
        {"model.vocab", "{}", SR1_E_UNSUPPORTED, "byte 0x00"},
        {"model.vocab", "{\"a\": -1}", SR1_E_PARSE, "-1"},
        {"model.vocab", "{\"a\": 4194304}", SR1_E_LIMIT, "4194304"},
        {"model.vocab", "{\"a\": 1, \"b\": 1}", SR1_E_PARSE, "given twice"},
        {"model.merges.0", "\"ab\"", SR1_E_PARSE, "no space"},
        {"model.merges.0", "[\"a\"]", SR1_E_PARSE, "two tokens"},
        {"model.merges.0", "[\"a\", \"b\", \"c\"]", SR1_E_PARSE, "two tokens"},
        {"model.merges.0", "[\"zq\", \"b\"]", SR1_E_PARSE, "'zq'"},
        {"model.merges.0", "[\"~\", \"~\"]", SR1_E_PARSE, "merge 0"},
        {"model.merges.0", "[\"\\u4f60\", \"a\"]", SR1_E_PARSE, "byte-level"},
        {"normalizer", "{\"type\": \"ByteLevel\"}", SR1_E_UNSUPPORTED, "ByteLevel"},
        {"pre_tokenizer", "{\"type\": \"Whitespace\"}", SR1_E_UNSUPPORTED, "Whitespace"},
        {"pre_tokenizer", "null", SR1_E_UNSUPPORTED, "pre-tokenizer"},
        {"pre_tokenizer.pretokenizers.0.behavior", "\"Removed\"", SR1_E_UNSUPPORTED,
         "Removed"},
        {"pre_tokenizer.pretokenizers.0.invert", "true", SR1_E_UNSUPPORTED, "invert"},
        {"pre_tokenizer.pretokenizers.0.pattern", "{\"String\": \" \"}",
         SR1_E_UNSUPPORTED, "Regex"},
        {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"\\\\h+\"", SR1_E_UNSUPPORTED,
         "\\h"},
        {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"[a-z&&b]\"", SR1_E_UNSUPPORTED,
         "&&"},
        {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"(?R)\"", SR1_E_UNSUPPORTED,
         "(?R)"},
        {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"[]a]\"", SR1_E_UNSUPPORTED,
         "[]a]"},
        {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"a{1,3}?\"", SR1_E_UNSUPPORTED,
         "}?"},
        {"pre_tokenizer.pretokenizers.0.pattern.Regex", "\"(a\"", SR1_E_PARSE, "pattern"},
        {"pre_tokenizer.pretokenizers.1.add_prefix_space", "true", SR1_E_UNSUPPORTED,
         "add_prefix_space"},
        {"pre_tokenizer.pretokenizers", "[]", SR1_E_UNSUPPORTED, "no steps"},
        {"pre_tokenizer.pretokenizers", "[{\"type\": \"Punctuation\"}]",
         SR1_E_UNSUPPORTED, "Punctuation"},
        {"pre_tokenizer.pretokenizers", "[{\"type\": \"Digits\"}]", SR1_E_UNSUPPORTED,
         "does not end in ByteLevel"},
        {"pre_tokenizer.pretokenizers",
         "[{\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
         "{\"type\": \"Digits\"}]",
         SR1_E_UNSUPPORTED, "before another"},
        {"pre_tokenizer.pretokenizers",
         "[{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
         "\"use_regex\": false}]",
         SR1_E_UNSUPPORTED, "without a pattern"},
        {"pre_tokenizer.pretokenizers",
         "[{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},"
         "{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},"
         "{\"type\":\"Digits\"},{\"type\":\"Digits\"},{\"type\":\"Digits\"},"
         "{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]",
         SR1_E_LIMIT, "8 splits"},
        {"post_processor", "{\"type\": \"TemplateProcessing\"}", SR1_E_UNSUPPORTED,
         "TemplateProcessing"},
        {"decoder", "{\"type\": \"Metaspace\"}", SR1_E_UNSUPPORTED, "Metaspace"},
        {"decoder", "null", SR1_E_UNSUPPORTED, "null"},
        {"added_tokens.0.single_word", "true", SR1_E_UNSUPPORTED, "single_word"},
        {"added_tokens.0.id", "5", SR1_E_PARSE, "another token"},
        {"added_tokens.0.id", "\"5\"", SR1_E_PARSE, "'id'"},
        {"added_tokens.0.content", "\"\"", SR1_E_PARSE, "'content'"},
        {"added_tokens.1.content", "\"<|endoftext|>\"", SR1_E_PARSE, "given twice"},
        {"added_tokens", "{}", SR1_E_PARSE, "array"},
        {"model", "null", SR1_E_PARSE, "model"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *j = small_json();
        sr1_tokenizer *t = NULL;
        sr1_status status;

        set_path(j, cases[i].path, cases[i].value);
        status = parse_tree(&t, j);
        if (status != cases[i].status || !strstr(sr1_last_error(), cases[i].says) ||
            !strstr(sr1_last_error(), "t.json") || t)
            fail_msg("%s = %s: %d: %s", cases[i].path, cases[i].value, status,
                     sr1_last_error());
        json_decref(j);
    }
}

static void refuses_broken_text(void **state)
{
    static const char *const cases[] = {
        "",
        "[]",
        "{",
        "{\"model\"",
        "{\"model\": ",
        "{\"model\": {]}",
        "{\"model\": {}, }",
        "{\"model\": {\"vocab\": {\"a",
        "{\"model\": {\"vocab\": {\"a\": 1 \"b\": 2}}}",
        "{\"model\": 1, \"model\": 2}",
        "{\"a\": \"\\",
        "{\"\\ud800\": 1}",
        "{\"\xff\": 1}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sr1_tokenizer *t = NULL;

        if (sr1__tokenizer_parse(&t, cases[i], strlen(cases[i]), "t.json") == SR1_OK || t)
            fail_msg("taken: %s", cases[i]);
    }
}

/* Cut anywhere, the small file is refused and nothing leaks. */
static void refuses_cut_files(void **state)
{
    struct sr1__buf text;

    (void)state;
    OK(sr1__file_read(fixture_path("small/tokenizer.json"), 0, &text));
    for (size_t n = 0; n + 3 < text.len; n += 97) {
        sr1_tokenizer *t = NULL;
        int64_t live = sr1__mem_live();

        assert_int_not_equal(sr1__tokenizer_parse(&t, text.data, n, "cut"), SR1_OK);
        assert_null(t);
        assert_true(sr1__mem_live() == live);
    }
    sr1__buf_free(&text);
}

static int32_t first_id(const sr1_tokenizer *t, const char *text)
{
    int32_t *ids = NULL, id;
    size_t n = 0;

    OK(sr1_tokenizer_encode(t, text, strlen(text), SR1_ENCODE_ALL_ADDED, &ids, &n));
    assert_true(n > 0);
    id = ids[0];
    sr1_free(ids);
    return id;
}

/* The older form of merges, GPT-2's pattern, no normaliser: same file otherwise. */
static void takes_the_older_forms(void **state)
{
    json_t *j = small_json(),
           *merges = json_object_get(json_object_get(j, "model"), "merges");
    sr1_tokenizer *pairs = NULL, *texts = NULL;
    json_t *m;
    size_t i;

    (void)state;
    OK(parse_tree(&pairs, j));
    json_array_foreach(merges, i, m)
    {
        char text[256];

        snprintf(text, sizeof text, "%s %s", json_string_value(json_array_get(m, 0)),
                 json_string_value(json_array_get(m, 1)));
        json_array_set_new(merges, i, json_string(text));
    }
    set_path(j, "normalizer", "null");
    set_path(
        j, "pre_tokenizer",
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}");
    OK(parse_tree(&texts, j));
    assert_int_equal(first_id(pairs, "search"), first_id(texts, "search"));
    assert_int_equal(sr1_tokenizer_vocab_size(pairs), sr1_tokenizer_vocab_size(texts));
    /* GPT-2's numbers are not single digits, and nothing composes. */
    assert_int_equal(first_id(texts, "\xcc\x81"), first_id(pairs, "\xcc\x81"));
    sr1_tokenizer_free(pairs);
    sr1_tokenizer_free(texts);
    json_decref(j);
}

static void normalised_added_tokens_compose(void **state)
{
    json_t *j = small_json();
    sr1_tokenizer *t = NULL;

    (void)state;
    set_path(j, "added_tokens.0.content", "\"caf\\u00e9\"");
    set_path(j, "added_tokens.0.normalized", "true");
    OK(parse_tree(&t, j));
    assert_int_equal(first_id(t, "cafe\xcc\x81"),
                     json_integer_value(json_object_get(
                         json_array_get(json_object_get(j, "added_tokens"), 0), "id")));
    sr1_tokenizer_free(t);
    json_decref(j);
}

static void whole_pieces_when_merges_are_ignored(void **state)
{
    json_t *j = small_json();
    sr1_tokenizer *t = NULL;

    (void)state;
    set_path(j, "model.ignore_merges", "true");
    set_path(j, "model.vocab.zqzq", "5000");
    OK(parse_tree(&t, j));
    assert_int_equal(first_id(t, "zqzq"), 5000);
    assert_int_equal(sr1_tokenizer_vocab_size(t), 5001);
    sr1_tokenizer_free(t);
    json_decref(j);
}

/* A folder of the small tokenizer with these companions (NULL: none). */
static sr1_status open_folder_with(sr1_tokenizer **t, const char *config,
                                   const char *generation, const char *model)
{
    const char *names[] = {"tokenizer_config.json", "generation_config.json",
                           "config.json"};
    const char *texts[] = {config, generation, model};
    struct sr1__buf bytes;

    OK(sr1__file_read(fixture_path("small/tokenizer.json"), 0, &bytes));
    scratch_file("tokenizer.json", bytes.data, bytes.len);
    sr1__buf_free(&bytes);
    for (size_t i = 0; i < 3; i++) {
        remove(scratch_path(names[i]));
        if (texts[i])
            scratch_file(names[i], texts[i], 0);
    }
    return sr1_tokenizer_open(t, scratch_dir);
}

static void reads_roles_and_stops(void **state)
{
    sr1_tokenizer *t = NULL;
    const int32_t *stops;
    int32_t end, text_end;
    size_t n = 0;

    (void)state;
    OK(open_folder_with(&t, "{\"eos_token\": {\"content\": \"<|im_end|>\"}}",
                        "{\"eos_token_id\": [1, 2, 1]}", "{\"eos_token_id\": 7}"));
    end = sr1_tokenizer_token_to_id(t, "<|im_end|>");
    text_end = sr1_tokenizer_token_to_id(t, "<|endoftext|>");
    stops = sr1_tokenizer_stop_ids(t, &n);
    assert_int_equal(n, 3);
    assert_int_equal(stops[0], end);
    assert_int_equal(stops[1], 1);
    assert_int_equal(stops[2], 2);
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_EOS), end);
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_PAD), text_end);
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_BOS), -1);
    assert_int_equal(sr1_tokenizer_special_id(t, 99), -1);
    sr1_tokenizer_free(t);
    OK(open_folder_with(&t, NULL, NULL, "{\"eos_token_id\": 7}"));
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_EOS), 7);
    sr1_tokenizer_free(t);
    OK(open_folder_with(&t, NULL, NULL, NULL));
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_EOS), -1);
    sr1_tokenizer_stop_ids(t, &n);
    assert_int_equal(n, 0);
    sr1_tokenizer_free(t);
}

static void refuses_what_does_not_fit(void **state)
{
    sr1_tokenizer *t = NULL;

    (void)state;
    assert_int_equal(open_folder_with(&t, "{\"eos_token\": \"<eos>\"}", NULL, NULL),
                     SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "<eos>"));
    assert_int_equal(
        open_folder_with(&t,
                         "{\"added_tokens_decoder\": {\"3\": {\"content\": \"<x>\"}}}",
                         NULL, NULL),
        SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "<x>"));
    assert_int_equal(open_folder_with(&t, "{", NULL, NULL), SR1_E_PARSE);
    assert_int_equal(sr1_tokenizer_open(&t, scratch_path("nothing")), SR1_E_IO);
    assert_int_equal(sr1_tokenizer_open(NULL, "x"), SR1_E_INVALID);
    assert_null(t);
}

/* What was loaded is saved, though its folder is another's by then; and nothing of
 * another tokenizer stays beside it. */
static void saves_what_was_loaded(void **state)
{
    static const char *const stale[] = {"save-to/chat_template.jinja",
                                        "save-to/vocab.txt",
                                        "save-to/generation_config.json"};
    sr1_tokenizer *t = NULL, *again = NULL;
    char to[512];
    struct sr1__buf before, after;

    (void)state;
    snprintf(to, sizeof to, "%s", scratch_path("save-to"));
    OK(open_folder_with(&t, "{\"eos_token\": \"<|im_end|>\"}", NULL, NULL));
    OK(sr1__file_read(scratch_path("tokenizer.json"), 0, &before));
    OK(sr1__dir_make(to));
    for (size_t i = 0; i < sizeof stale / sizeof stale[0]; i++)
        scratch_file(stale[i], "{}", 0);
    scratch_file("save-to/other.txt", "mine", 0);
    scratch_file("tokenizer.json", "{}", 0);
    assert_int_equal(remove(scratch_path("tokenizer_config.json")), 0);
    OK(sr1_tokenizer_save(t, to));
    OK(sr1__file_read(scratch_path("save-to/tokenizer.json"), 0, &after));
    assert_int_equal(after.len, before.len);
    assert_memory_equal(after.data, before.data, after.len);
    for (size_t i = 0; i < sizeof stale / sizeof stale[0]; i++)
        assert_false(sr1__path_exists(scratch_path(stale[i])));
    assert_true(sr1__path_exists(scratch_path("save-to/other.txt")));
    OK(sr1_tokenizer_open(&again, to));
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_EOS),
                     sr1_tokenizer_special_id(again, SR1_TOKEN_EOS));
    scratch_file("tokenizer.json", before.data, before.len);
    sr1__buf_free(&before);
    sr1__buf_free(&after);
    sr1_tokenizer_free(t);
    sr1_tokenizer_free(again);
}

static void saves_its_files(void **state)
{
    sr1_tokenizer *t = NULL, *again = NULL;
    const char *to = scratch_path("copy");

    (void)state;
    OK(open_folder_with(&t, "{\"eos_token\": \"<|im_end|>\"}", NULL, "{}"));
    OK(sr1__dir_make(to));
    OK(sr1_tokenizer_save(t, to));
    OK(sr1_tokenizer_open(&again, to));
    assert_int_equal(sr1_tokenizer_special_id(t, SR1_TOKEN_EOS),
                     sr1_tokenizer_special_id(again, SR1_TOKEN_EOS));
    assert_false(sr1__path_exists(scratch_path("copy/config.json")));
    assert_int_not_equal(sr1_tokenizer_save(t, scratch_path("nowhere")), SR1_OK);
    sr1_tokenizer_free(t);
    sr1_tokenizer_free(again);
    OK(sr1_tokenizer_open(&t, scratch_path("tokenizer.json")));
    assert_int_equal(sr1_tokenizer_save(t, to), SR1_E_STATE);
    sr1_tokenizer_free(t);
}

static void write_small(const char *name, const char *end)
{
    struct sr1__buf text;

    OK(sr1__file_read(fixture_path("small/tokenizer.json"), 0, &text));
    sr1__buf_str(&text, end);
    (void)scratch_file(name, text.data, text.len);
    sr1__buf_free(&text);
}

/* What transformers writes where a tokenizer has no longest text. */
static void numbers_beyond_64_bits_are_read(void **state)
{
    static const char config[] = "{\"model_max_length\": "
                                 "1000000000000000019884624838656}";
    sr1_tokenizer *t = NULL;

    (void)state;
    OK(sr1__dir_make(scratch_path("long")));
    write_small("long/tokenizer.json", "");
    (void)scratch_file("long/tokenizer_config.json", config, 0);
    (void)scratch_file("long/generation_config.json", config, 0);
    OK(sr1_tokenizer_open(&t, scratch_path("long")));
    sr1_tokenizer_free(t);
    OK(sr1__dir_make(scratch_path("pieces")));
    (void)scratch_file("pieces/tokenizer_config.json", config, 0);
    (void)scratch_file("pieces/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n", 0);
    OK(sr1_tokenizer_open(&t, scratch_path("pieces")));
    sr1_tokenizer_free(t);
}

static uint64_t hash_of(const char *path)
{
    sr1_tokenizer *t = NULL;
    uint64_t hash = 0;

    OK(sr1__tokenizer_open_on(&t, path, NULL));
    sr1__tokenizer_hash_files(t, 0, &hash);
    sr1_tokenizer_free(t);
    return hash;
}

/* An adapter's folder without a tokenizer takes that of its base. */
static void a_hash_is_of_the_files_that_were_read(void **state)
{
    char config[700];
    uint64_t before;

    (void)state;
    OK(sr1__dir_make(scratch_path("base")));
    OK(sr1__dir_make(scratch_path("adapter")));
    snprintf(config, sizeof config, "{\"base_model_name_or_path\": \"%s\"}",
             scratch_path("base"));
    (void)scratch_file("adapter/adapter_config.json", config, 0);
    write_small("base/tokenizer.json", "");
    before = hash_of(scratch_path("adapter"));
    assert_true(before != 0 && before == hash_of(scratch_path("base")));
    write_small("base/tokenizer.json", " ");
    assert_true(hash_of(scratch_path("adapter")) != before);
    assert_true(hash_of(scratch_path("base/tokenizer.json")) == 0); /* none is kept */
}

static sr1_status open_it(void *path)
{
    sr1_tokenizer *t = NULL;
    sr1_status status = sr1_tokenizer_open(&t, path);

    sr1_tokenizer_free(t);
    return status;
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    assert_true(torture(open_it, (void *)fixture_path("small")) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_other_kinds),
        cmocka_unit_test(refuses_broken_text),
        cmocka_unit_test(refuses_cut_files),
        cmocka_unit_test(takes_the_older_forms),
        cmocka_unit_test(normalised_added_tokens_compose),
        cmocka_unit_test(whole_pieces_when_merges_are_ignored),
        cmocka_unit_test(reads_roles_and_stops),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(saves_its_files),
        cmocka_unit_test(saves_what_was_loaded),
        cmocka_unit_test(numbers_beyond_64_bits_are_read),
        cmocka_unit_test(a_hash_is_of_the_files_that_were_read),
        cmocka_unit_test(survives_failing_allocations),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
