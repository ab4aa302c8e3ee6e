/* test_parity.c - ids, text and chat prompts equal to the reference's, case by case. Over
 * the real Qwen3 vocabulary where it is there, and always over the small one of the
 * fixtures. */
#include "support.h"

#include "base/utf8.h"
#include "text/tokenizer/chat_turn.h"

static void check_ids(const sr1_tokenizer *t, const json_t *text, const json_t *want,
                      int32_t mode)
{
    struct sr1__ids expected = {0};
    int32_t *ids = NULL;
    size_t n = 0;

    ids_from(want, &expected);
    OK(sr1_tokenizer_encode(t, json_string_value(text), json_string_length(text), mode,
                            &ids, &n));
    assert_same_ids(ids, n, &expected, json_string_value(text));
    sr1_free(ids);
    sr1__ids_free(&expected);
}

/* Text that is all the template's own is encoded as text in which all is recognised. */
static void check_own(const sr1_tokenizer *t, const json_t *text, const json_t *want)
{
    size_t n = json_string_length(text);
    const size_t own[2] = {0, n};
    struct sr1__ids expected = {0}, ids = {0};

    ids_from(want, &expected);
    OK(sr1__tokenizer_encode_own(t, json_string_value(text), n, own, 1, 0, &ids));
    assert_same_ids(ids.v, ids.n, &expected, json_string_value(text));
    sr1__ids_free(&ids);
    sr1__ids_free(&expected);
}

static void check_decoded(const sr1_tokenizer *t, const json_t *ids, const json_t *want,
                          int32_t skip)
{
    struct sr1__ids given = {0};
    char *text = NULL;
    size_t n = 0;

    ids_from(ids, &given);
    OK(sr1_tokenizer_decode(t, given.v, given.n, skip, &text, &n));
    assert_same_text(text, n, json_string_value(want), json_string_length(want),
                     "decoded");
    sr1_free(text);
    sr1__ids_free(&given);
}

/* What streaming gives, piece by piece, is whole characters and adds up to the same text.
 */
static void check_streamed(sr1_tokenizer *t, const json_t *ids, const json_t *want,
                           int32_t skip)
{
    struct sr1__buf all;
    sr1_token_stream *s = NULL;
    const char *text = NULL;
    const json_t *id;
    size_t i, n = 0;

    sr1__buf_init(&all, 0);
    OK(sr1_token_stream_new(&s, t, skip));
    json_array_foreach(ids, i, id)
    {
        OK(sr1_token_stream_push(s, (int32_t)json_integer_value(id), &text, &n));
        assert_int_equal(sr1__utf8_valid(text, n), 1);
        sr1__buf_add(&all, text, n);
    }
    OK(sr1_token_stream_finish(s, &text, &n));
    sr1__buf_add(&all, text, n);
    assert_same_text(all.data ? all.data : "", all.len, json_string_value(want),
                     json_string_length(want), "streamed");
    sr1__buf_free(&all);
    sr1_token_stream_free(s);
}

/* cases.jsonl: text, ids, decoded and the variants where they differ. */
static void encode_case(const json_t *c, void *arg)
{
    sr1_tokenizer *t = arg;
    const json_t *ids = json_object_get(c, "ids");
    const json_t *as_text = json_object_get(c, "ids_special_as_text");
    const json_t *decoded = json_object_get(c, "decoded");
    const json_t *skipped = json_object_get(c, "decoded_skip_special");

    check_ids(t, json_object_get(c, "text"), ids, SR1_ENCODE_ALL_ADDED);
    check_own(t, json_object_get(c, "text"), ids);
    check_ids(t, json_object_get(c, "text"), as_text ? as_text : ids,
              SR1_ENCODE_SPECIAL_AS_TEXT);
    if (!decoded)
        return;
    check_decoded(t, ids, decoded, 0);
    check_decoded(t, ids, skipped ? skipped : decoded, 1);
    check_streamed(t, ids, decoded, 0);
    check_streamed(t, ids, skipped ? skipped : decoded, 1);
}

static void decode_case(const json_t *c, void *arg)
{
    const json_t *ids = json_object_get(c, "ids");

    check_decoded(arg, ids, json_object_get(c, "text"), 0);
    check_decoded(arg, ids, json_object_get(c, "text_skip_special"), 1);
    check_streamed(arg, ids, json_object_get(c, "text"), 0);
    check_streamed(arg, ids, json_object_get(c, "text_skip_special"), 1);
}

static void chat_case(const json_t *c, void *arg)
{
    const json_t *thinking = json_object_get(c, "enable_thinking");
    const json_t *tools = json_object_get(c, "tools");
    const json_t *want = json_object_get(c, "text");
    sr1_chat_options o = {.struct_size = sizeof o, .recognise_added = 1};
    struct sr1__ids expected = {0};
    struct sr1__buf messages, tool_text;
    char *text = NULL;
    int32_t *ids = NULL;
    size_t n_text = 0, n_ids = 0;

    sr1__buf_init(&messages, 0);
    sr1__buf_init(&tool_text, 0);
    OK(sr1__json_dump(json_object_get(c, "messages"), 0, &messages));
    if (tools)
        OK(sr1__json_dump(tools, 0, &tool_text));
    o.tools = tools ? tool_text.data : NULL;
    o.add_generation_prompt = json_is_true(json_object_get(c, "add_generation_prompt"));
    o.no_thinking = json_is_false(thinking);
    OK(sr1_tokenizer_chat_json(arg, messages.data, messages.len, &o, &text, &n_text, &ids,
                               &n_ids));
    assert_same_text(text, n_text, json_string_value(want), json_string_length(want),
                     "chat");
    ids_from(json_object_get(c, "ids"), &expected);
    assert_same_ids(ids, n_ids, &expected, text);
    sr1_free(text);
    sr1_free(ids);
    sr1__ids_free(&expected);
    sr1__buf_free(&messages);
    sr1__buf_free(&tool_text);
}

/* A file of cases, in one folder or the other, over the shared vocabulary. */
static void shared_cases(const char *(*folder)(const char *), const char *name,
                         size_t at_least, void (*use)(const json_t *, void *))
{
    sr1_tokenizer *t = NULL;

    if (!shared_path(""))
        skip();
    OK(sr1_tokenizer_open(&t, shared_path("")));
    assert_true(each_line(folder(name), use, t) >= at_least);
    sr1_tokenizer_free(t);
}

static void encodes_as_qwen3(void **state)
{
    (void)state;
    shared_cases(shared_path, "cases.jsonl", 330, encode_case);
}

static void encodes_as_llama_cpp_keeps(void **state)
{
    (void)state;
    shared_cases(shared_path, "llama_cpp_qwen2.jsonl", 43, encode_case);
}

static void decodes_as_qwen3(void **state)
{
    (void)state;
    shared_cases(shared_path, "decode_cases.jsonl", 55, decode_case);
}

static void chats_as_qwen3(void **state)
{
    (void)state;
    shared_cases(shared_path, "chat_cases.jsonl", 33, chat_case);
}

static void encodes_random_text_as_qwen3(void **state)
{
    (void)state;
    shared_cases(fixture_path, "random_qwen3.jsonl", 1000, encode_case);
}

/* Over the small vocabulary, or any folder with cases of it that
 * tests/golden/make_tokenizer_vectors.py made. */
static void encodes_random_text(void **state)
{
    const char *folder = getenv("SR1_TOKENIZER"), *cases = getenv("SR1_TOKENIZER_CASES");
    int own = folder && cases;
    sr1_tokenizer *t = NULL;

    (void)state;
    OK(sr1_tokenizer_open(&t, own ? folder : fixture_path("small")));
    assert_true(each_line(own ? cases : fixture_path("random_small.jsonl"), encode_case,
                          t) >= (own ? 1 : 1000));
    sr1_tokenizer_free(t);
}

/* A tokenizer.json whose pre-tokenizer is another family's, and what is encoded by it. */
struct family {
    json_t *whole;
    sr1_tokenizer *t;
    size_t families;
};

static void add_tokens(json_t *whole, const json_t *tokens)
{
    json_t *list = json_object_get(whole, "added_tokens"), *token;
    json_int_t next = 0;
    size_t i;

    json_array_foreach(list, i, token)
    {
        json_int_t id = json_integer_value(json_object_get(token, "id"));

        next = id >= next ? id + 1 : next;
    }
    json_array_foreach(tokens, i, token)
    {
        token = json_deep_copy(token);
        json_object_set_new(token, "id", json_integer(next + (json_int_t)i));
        json_array_append_new(list, token);
    }
}

static void take_family(struct family *f, const json_t *c)
{
    json_t *model = json_object_get(f->whole, "model");
    struct sr1__buf text;

    add_tokens(f->whole, json_object_get(c, "added_tokens"));
    sr1_tokenizer_free(f->t);
    json_object_set_new(f->whole, "normalizer", json_null());
    json_object_set(f->whole, "pre_tokenizer", json_object_get(c, "pre_tokenizer"));
    json_object_set_new(model, "ignore_merges",
                        json_boolean(json_is_true(json_object_get(c, "ignore_merges"))));
    sr1__buf_init(&text, 0);
    OK(sr1__json_dump(f->whole, 0, &text));
    OK(sr1__tokenizer_parse(&f->t, text.data, text.len, "tokenizer.json"));
    sr1__buf_free(&text);
    f->families++;
}

static void family_case(const json_t *c, void *arg)
{
    struct family *f = arg;
    const json_t *text = json_object_get(c, "text"), *ids = json_object_get(c, "ids");

    if (json_object_get(c, "family")) {
        take_family(f, c);
        return;
    }
    check_ids(f->t, text, ids, SR1_ENCODE_ALL_ADDED);
    check_own(f->t, text, ids);
}

/* Llama 3's digits by threes, SmolLM2's one by one before GPT-2's pattern, Tekken's cases
 * of letters, and added tokens with white space or in normal text: over the small
 * vocabulary, or another folder with a file of its own. */
static void splits_as_other_families(void **state)
{
    const char *folder = getenv("SR1_TOKENIZER"), *cases = getenv("SR1_TOKENIZER_SPLITS");
    struct family f = {0};
    char path[600];

    (void)state;
    snprintf(path, sizeof path, "%s/tokenizer.json",
             folder && cases ? folder : fixture_path("small"));
    OK(sr1__json_load(&f.whole, path, (size_t)64 << 20));
    assert_true(each_line(folder && cases ? cases : fixture_path("splits.jsonl"),
                          family_case, &f) >= 2005);
    assert_int_equal(f.families, 5);
    sr1_tokenizer_free(f.t);
    json_decref(f.whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_as_qwen3),
        cmocka_unit_test(encodes_as_llama_cpp_keeps),
        cmocka_unit_test(decodes_as_qwen3),
        cmocka_unit_test(chats_as_qwen3),
        cmocka_unit_test(encodes_random_text_as_qwen3),
        cmocka_unit_test(encodes_random_text),
        cmocka_unit_test(splits_as_other_families),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
