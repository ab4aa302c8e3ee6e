/* test_pieces.c - WordPiece and Unigram: ids, types and decoded text equal to the
 * reference's (tests/golden/make_piece_vectors.py), over the small tokenizers kept there,
 * variants of them that take each part in turn, and where SR1_MINILM names its unpacked
 * folder the real MiniLM. */
#include "support.h"

#include "../../support/files.h"
#include "text/tokenizer/chat_turn.h"

/* "folder/name"; static memory. */
static const char *join(const char *folder, const char *name)
{
    static char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void check_input(const sr1_tokenizer *t, const json_t *c)
{
    const json_t *max = json_object_get(c, "max_tokens");
    const char *text = json_string_value(json_object_get(c, "text"));
    const char *pair = json_string_value(json_object_get(c, "pair"));
    struct sr1__ids ids = {0}, types = {0};
    int32_t *got = NULL, *got_types = NULL, *alone = NULL;
    size_t n = 0;

    ids_from(json_object_get(c, "ids"), &ids);
    ids_from(json_object_get(c, "types"), &types);
    OK(sr1_tokenizer_encode_input(t, text, pair, (size_t)json_integer_value(max), &got,
                                  &got_types, &n));
    assert_same_ids(got, n, &ids, text);
    assert_same_ids(got_types, n, &types, text);
    OK(sr1_tokenizer_encode_input(t, text, pair, (size_t)json_integer_value(max), &alone,
                                  NULL, &n));
    assert_same_ids(alone, n, &ids, text);
    sr1_free(got);
    sr1_free(got_types);
    sr1_free(alone);
    sr1__ids_free(&ids);
    sr1__ids_free(&types);
}

static void check_decoded(const sr1_tokenizer *t, const json_t *c, int32_t skip)
{
    const json_t *want = json_object_get(c, "decoded");
    const json_t *skipped = json_object_get(c, "decoded_skip_special");
    struct sr1__ids ids = {0};
    char *text = NULL;
    size_t n = 0;

    want = skip && skipped ? skipped : want;
    ids_from(json_object_get(c, "ids"), &ids);
    OK(sr1_tokenizer_decode(t, ids.v, ids.n, skip, &text, &n));
    assert_same_text(text, n, json_string_value(want), json_string_length(want),
                     json_string_value(json_object_get(c, "text")));
    sr1_free(text);
    sr1__ids_free(&ids);
}

static void one_case(const json_t *c, void *arg)
{
    check_input(arg, c);
    check_decoded(arg, c, 0);
    check_decoded(arg, c, 1);
}

static void same_as_reference(const char *folder, const char *cases, size_t at_least)
{
    sr1_tokenizer *t = NULL;

    OK(sr1_tokenizer_open(&t, folder));
    assert_true(each_line(cases, one_case, t) >= at_least);
    sr1_tokenizer_free(t);
}

static void wordpiece_is_the_references(void **state)
{
    (void)state;
    same_as_reference(fixture_path("wordpiece"), fixture_path("wordpiece.jsonl"), 400);
}

/* A folder with vocab.txt only. */
static void bert_vocab_is_the_references(void **state)
{
    (void)state;
    same_as_reference(fixture_path("bert_vocab"), fixture_path("bert_vocab.jsonl"), 400);
}

static void unigram_is_the_references(void **state)
{
    (void)state;
    same_as_reference(fixture_path("unigram"), fixture_path("unigram.jsonl"), 400);
}

/* BPE over characters, in the forms of Llama 2 and Gemma. */
static void text_bpe_is_the_references(void **state)
{
    (void)state;
    same_as_reference(fixture_path("llama2"), fixture_path("llama2.jsonl"), 400);
    same_as_reference(fixture_path("gemma"), fixture_path("gemma.jsonl"), 400);
}

static sr1_tokenizer *variant(const json_t *v)
{
    json_t *file = file_of(json_string_value(json_object_get(v, "folder")));
    sr1_tokenizer *t = NULL;
    const char *path;
    json_t *value;

    json_object_foreach(json_object_get(v, "set"), path, value)
        set_member(file, path, value);
    OK(parse_tree(&t, file));
    json_decref(file);
    return t;
}

static void one_variant(const json_t *v, void *arg)
{
    sr1_tokenizer *t = variant(v);
    const json_t *c;
    size_t i;

    (void)arg;
    json_array_foreach(json_object_get(v, "cases"), i, c) one_case(c, t);
    sr1_tokenizer_free(t);
}

static void each_part_is_the_references(void **state)
{
    (void)state;
    assert_true(each_line(fixture_path("parts.jsonl"), one_variant, NULL) >= 40);
}

static void each_part_of_text_bpe_is_the_references(void **state)
{
    const char *given = getenv("SR1_TOKENIZER_PARTS");

    (void)state;
    assert_true(each_line(given ? given : fixture_path("text_bpe_parts.jsonl"),
                          one_variant, NULL) >= 30);
}

/* ---- a text that continues another ---- */

static void one_continued(const json_t *c, void *arg)
{
    static const int32_t modes[] = {SR1_ENCODE_ALL_ADDED, SR1_ENCODE_SPECIAL_AS_TEXT,
                                    SR1_ENCODE_ADDED_AS_TEXT};
    const json_t *text = json_object_get(c, "text");
    const char *s = json_string_value(text);
    size_t n = json_string_length(text);
    struct sr1__ids want = {0}, ids = {0};
    struct sr1__buf spelled;

    ids_from(json_object_get(c, "ids"), &want);
    for (size_t i = 0; i < 3; i++) {
        ids.n = 0;
        OK(sr1__tokenizer_encode(arg, s, n, modes[i] | SR1_ENCODE_CONTINUED, &ids));
        assert_same_ids(ids.v, ids.n, &want, s);
    }
    ids.n = 0;
    OK(sr1__tokenizer_encode_own(arg, s, n, NULL, 0, 1, &ids));
    assert_same_ids(ids.v, ids.n, &want, s);
    sr1__buf_init(&spelled, 0);
    OK(sr1__tokenizer_spell(arg, ids.v, ids.n, 0, &spelled));
    if (!strstr(s, "\xe2\x96\x81")) /* a mark in the text is a space */
        assert_same_text(sr1__buf_cstr(&spelled), spelled.len, s, n, s);
    sr1__buf_free(&spelled);
    sr1__ids_free(&want);
    sr1__ids_free(&ids);
}

/* Wherever a file puts a mark in front of a text, in front of these there is none. */
static void nothing_goes_before_a_text_that_continues(void **state)
{
    static const char *const sets[] = {
        "{}",
        "{\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Metaspace\", "
        "\"prepend_scheme\": \"always\", \"split\": false}}",
        "{\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Metaspace\", "
        "\"prepend_scheme\": \"first\", \"split\": true}}"};

    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        json_t *v = json_pack("{s:s, s:o}", "folder", "llama2", "set",
                              json_loads(sets[i], 0, NULL));
        sr1_tokenizer *t = variant(v);
        struct sr1__ids ids = {0}, front = {0};

        assert_true(each_line(fixture_path("continued.jsonl"), one_continued, t) >= 200);
        OK(sr1__tokenizer_encode(t, "it", 2, SR1_ENCODE_CONTINUED, &ids));
        OK(sr1__tokenizer_encode(t, "it", 2, 0, &front));
        assert_true(ids.v[0] != front.v[0]);
        sr1__ids_free(&ids);
        sr1__ids_free(&front);
        sr1_tokenizer_free(t);
        json_decref(v);
    }
}

/* The marks of spaces that decode takes away do not come out of a stream. */
static void check_stream(const json_t *c, sr1_tokenizer *t)
{
    sr1_token_stream *s = NULL;
    const char *text = NULL;
    const json_t *id;
    size_t i, n = 0;

    OK(sr1_token_stream_new(&s, t, 1));
    json_array_foreach(json_object_get(c, "ids"), i, id)
    {
        OK(sr1_token_stream_push(s, (int32_t)json_integer_value(id), &text, &n));
        assert_null(memmem(text, n, "\xe2\x96\x81", 3));
    }
    sr1_token_stream_free(s);
}

static void one_metaspace(const json_t *v, void *arg)
{
    const json_t *decoder = json_object_get(json_object_get(v, "set"), "decoder");
    const char *type = json_string_value(json_object_get(decoder, "type"));
    sr1_tokenizer *t;
    const json_t *c;
    size_t i;

    if (!type || strcmp(type, "Metaspace") != 0)
        return;
    t = variant(v);
    json_array_foreach(json_object_get(v, "cases"), i, c) check_stream(c, t);
    *(size_t *)arg += i;
    sr1_tokenizer_free(t);
}

static void streams_have_spaces_for_marks(void **state)
{
    size_t cases = 0;

    (void)state;
    (void)each_line(fixture_path("text_bpe_parts.jsonl"), one_metaspace, &cases);
    assert_true(cases >= 5);
}

static void each_text(const json_t *c, void *arg)
{
    sr1_tokenizer *const *both = arg;
    const char *text = json_string_value(json_object_get(c, "text"));
    int32_t *one = NULL, *other = NULL;
    size_t n_one = 0, n_other = 0;

    OK(sr1_tokenizer_encode_input(both[0], text, NULL, 512, &one, NULL, &n_one));
    OK(sr1_tokenizer_encode_input(both[1], text, NULL, 512, &other, NULL, &n_other));
    assert_int_equal(n_one, n_other);
    assert_memory_equal(one, other, n_one * sizeof *one);
    sr1_free(one);
    sr1_free(other);
}

/* The real MiniLM where SR1_MINILM names its folder: its two forms, tokenizer.json and
 * vocab.txt, agree, and known ids (of "hello world", of BERT's papers) are there. */
static void minilm_in_both_forms(void **state)
{
    static const int32_t hello[] = {101, 7592, 2088, 102};
    const char *folder = getenv("SR1_MINILM");
    sr1_tokenizer *t[2] = {NULL, NULL};
    struct sr1__buf bytes;
    int32_t *ids = NULL;
    size_t n = 0;

    (void)state;
    OK(sr1_tokenizer_open(&t[0], folder));
    OK(sr1__file_read(join(folder, "vocab.txt"), 0, &bytes));
    scratch_file("vocab.txt", bytes.data, bytes.len);
    sr1__buf_free(&bytes);
    OK(sr1_tokenizer_open(&t[1], scratch_dir));
    OK(sr1_tokenizer_encode_input(t[0], "Hello world", NULL, 512, &ids, NULL, &n));
    assert_int_equal(n, 4);
    assert_memory_equal(ids, hello, sizeof hello);
    sr1_free(ids);
    assert_true(each_line(fixture_path("wordpiece.jsonl"), each_text, t) >= 400);
    sr1_tokenizer_free(t[0]);
    sr1_tokenizer_free(t[1]);
}

/* A longer comparison: any folder, any cases. */
static void given_cases_are_the_references(void **state)
{
    (void)state;
    same_as_reference(getenv("SR1_TOKENIZER"), getenv("SR1_TOKENIZER_CASES"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wordpiece_is_the_references),
        cmocka_unit_test(bert_vocab_is_the_references),
        cmocka_unit_test(unigram_is_the_references),
        cmocka_unit_test(each_part_is_the_references),
        cmocka_unit_test(text_bpe_is_the_references),
        cmocka_unit_test(each_part_of_text_bpe_is_the_references),
        cmocka_unit_test(nothing_goes_before_a_text_that_continues),
        cmocka_unit_test(streams_have_spaces_for_marks),
    };
    const struct CMUnitTest minilm[] = {cmocka_unit_test(minilm_in_both_forms)};
    const struct CMUnitTest given[] = {cmocka_unit_test(given_cases_are_the_references)};
    int failed = cmocka_run_group_tests(tests, scratch_make, scratch_remove);

    if (getenv("SR1_MINILM"))
        failed += cmocka_run_group_tests(minilm, scratch_make, scratch_remove);
    if (getenv("SR1_TOKENIZER") && getenv("SR1_TOKENIZER_CASES"))
        failed += cmocka_run_group_tests(given, NULL, NULL);
    return failed;
}
