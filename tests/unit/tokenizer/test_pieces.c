/* test_pieces.c - WordPiece and Unigram: ids, types and decoded text equal to the
 * reference's (tests/golden/make_piece_vectors.py), over the small tokenizers kept there,
 * variants of them that take each part in turn, and where SR1_MINILM names its unpacked
 * folder the real MiniLM. */
#include "support.h"

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

/* The tree of a kept tokenizer.json. */
static json_t *file_of(const char *folder)
{
    char name[256];
    json_t *j = NULL;

    snprintf(name, sizeof name, "%s/tokenizer.json", folder);
    OK(sr1__json_load(&j, fixture_path(name), 0));
    return j;
}

static json_t *member(json_t *j, const char *key)
{
    return json_is_array(j) ? json_array_get(j, strtoul(key, NULL, 10))
                            : json_object_get(j, key);
}

/* Set a member by its path; "+" at its end appends; a type that is null is left out. */
static void set_member(json_t *j, const char *path, json_t *value)
{
    char key[64];
    const char *dot;

    while ((dot = strchr(path, '.')) != NULL) {
        snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        j = member(j, key);
        path = dot + 1;
    }
    if (strcmp(path, "+") == 0)
        json_array_extend(j, value);
    else if (json_is_array(j))
        json_array_set(j, strtoul(path, NULL, 10), value);
    else if (json_is_null(value) && strcmp(path, "type") == 0)
        json_object_del(j, path);
    else
        json_object_set(j, path, value);
}

static sr1_tokenizer *variant(const json_t *v)
{
    json_t *file = file_of(json_string_value(json_object_get(v, "folder")));
    struct sr1__buf text;
    sr1_tokenizer *t = NULL;
    const char *path;
    json_t *value;

    json_object_foreach(json_object_get(v, "set"), path, value)
        set_member(file, path, value);
    sr1__buf_init(&text, 0);
    OK(sr1__json_dump(file, 0, &text));
    OK(sr1__tokenizer_parse(&t, text.data, text.len, "variant"));
    sr1__buf_free(&text);
    json_decref(file);
    return t;
}

static void one_variant(const json_t *v, void *arg)
{
    char *what = json_dumps(json_object_get(v, "set"), JSON_COMPACT);
    sr1_tokenizer *t = variant(v);
    const json_t *c;
    size_t i;

    (void)arg;
    print_message("%.100s\n", what);
    json_array_foreach(json_object_get(v, "cases"), i, c) one_case(c, t);
    sr1_tokenizer_free(t);
    free(what);
}

static void each_part_is_the_references(void **state)
{
    (void)state;
    assert_true(each_line(fixture_path("parts.jsonl"), one_variant, NULL) >= 40);
}

/* A longer comparison: any folder, any cases. */
static void given_cases_are_the_references(void **state)
{
    const char *folder = getenv("SR1_TOKENIZER"), *cases = getenv("SR1_TOKENIZER_CASES");

    (void)state;
    if (!folder || !cases)
        skip();
    same_as_reference(folder, cases, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wordpiece_is_the_references),
        cmocka_unit_test(bert_vocab_is_the_references),
        cmocka_unit_test(unigram_is_the_references),
        cmocka_unit_test(each_part_is_the_references),
        cmocka_unit_test(given_cases_are_the_references),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
