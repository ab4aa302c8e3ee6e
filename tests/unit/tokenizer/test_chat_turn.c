/* A conversation that grows message by message has the ids that transformers gives for
 * the whole of it. */
#include "support.h"

#include "../../support/files.h"
#include "../../support/torture.h"

#include "text/tokenizer/chat_turn.h"

/* The small tokenizer with what else the scratch folder holds. */
static sr1_tokenizer *open_scratch(void)
{
    sr1_tokenizer *t = NULL;
    struct sr1__buf bytes;

    OK(sr1__file_read(fixture_path("small/tokenizer.json"), 0, &bytes));
    scratch_file("tokenizer.json", bytes.data, bytes.len);
    sr1__buf_free(&bytes);
    OK(sr1_tokenizer_open(&t, scratch_dir));
    return t;
}

/* With Qwen3's rules of chat. */
static sr1_tokenizer *open_small(void)
{
    sr1_tokenizer *t = open_scratch();

    OK(sr1_tokenizer_set_chat_family(t, "qwen3"));
    return t;
}

struct growing {
    sr1_tokenizer *t;
    struct sr1__turn_delimiters border;
    struct sr1__ids ids;
};

static void add(struct sr1__ids *to, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        OK(sr1__ids_add(to, ids[i]));
}

static void begin(struct growing *g, const json_t *c)
{
    static const char *const roles[2] = {"system", "user"};
    const char *contents[2] = {json_string_value(json_object_get(c, "system")),
                               json_string_value(json_object_get(c, "question"))};
    sr1_chat_options o = {.struct_size = sizeof o, .add_generation_prompt = 1};
    int32_t *ids = NULL;
    size_t n = 0;

    OK(sr1_tokenizer_chat(g->t, roles, contents, NULL, 2, &o, NULL, NULL, &ids, &n));
    add(&g->ids, ids, n);
    sr1_free(ids);
}

/* The policy speaks, then the user answers. */
static void add_turn(struct growing *g, const json_t *turn)
{
    const char *said = json_string_value(json_array_get(turn, 0));
    const char *body = json_string_value(json_array_get(turn, 1));
    const char *notice = json_string_value(json_array_get(turn, 2));
    struct sr1__buf text;
    size_t own[4] = {0};

    OK(sr1__tokenizer_encode(g->t, said, strlen(said), SR1_ENCODE_ADDED_AS_TEXT,
                             &g->ids));
    add(&g->ids, g->border.close_ids.v, g->border.close_ids.n);
    sr1__buf_init(&text, 0);
    sr1__buf_str(&text, body ? "<result>\n" : "");
    own[1] = text.len;
    sr1__buf_str(&text, body ? body : notice);
    own[2] = text.len;
    sr1__buf_str(&text, body ? "\n</result>" : "");
    own[3] = text.len;
    OK(sr1__tokenizer_encode_own(g->t, sr1__buf_cstr(&text), text.len, own, 2, 0,
                                 &g->ids));
    sr1__buf_free(&text);
    add(&g->ids, g->border.open_ids.v, g->border.open_ids.n);
}

static void conversation_case(const json_t *c, void *arg)
{
    const json_t *turns = json_object_get(c, "turns"), *want = json_object_get(c, "ids");
    struct growing g = {.t = arg};
    size_t i;

    OK(sr1__turn_delimiters_make(&g.border, g.t, 0));
    begin(&g, c);
    for (i = 0; i < json_array_size(turns); i++)
        add_turn(&g, json_array_get(turns, i));
    assert_int_equal(g.ids.n, json_array_size(want));
    for (i = 0; i < g.ids.n; i++)
        assert_int_equal(g.ids.v[i], json_integer_value(json_array_get(want, i)));
    sr1__ids_free(&g.ids);
    sr1__turn_delimiters_free(&g.border);
}

static void a_growing_conversation_has_the_ids_of_the_whole(void **state)
{
    sr1_tokenizer *t = open_small();

    (void)state;
    assert_true(each_line(fixture_path("turns_small.jsonl"), conversation_case, t) >=
                100);
    sr1_tokenizer_free(t);
}

static void it_has_with_qwen3s_vocabulary(void **state)
{
    sr1_tokenizer *t = NULL;

    (void)state;
    if (!shared_path(""))
        skip();
    OK(sr1_tokenizer_open(&t, shared_path("")));
    assert_true(each_line(fixture_path("turns_qwen3.jsonl"), conversation_case, t) >=
                100);
    sr1_tokenizer_free(t);
}

static void the_border_is_the_templates_own_words(void **state)
{
    sr1_tokenizer *t = open_small();
    struct sr1__turn_delimiters b = {0};

    (void)state;
    OK(sr1__turn_delimiters_make(&b, t, 0));
    assert_string_equal(b.close, "<|im_end|>\n<|im_start|>user\n");
    assert_string_equal(b.open, "<|im_end|>\n<|im_start|>assistant\n");
    assert_int_equal(b.n_end, 1);
    assert_string_equal(b.close + b.end_len, "\n<|im_start|>user\n");
    assert_int_equal(b.close_ids.v[0], sr1_tokenizer_special_id(t, SR1_TOKEN_IM_END));
    sr1__turn_delimiters_free(&b);
    OK(sr1__turn_delimiters_make(&b, t, 1));
    assert_string_equal(b.open,
                        "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    sr1__turn_delimiters_free(&b);
    sr1__turn_delimiters_free(&b);
    sr1_tokenizer_free(t);
}

/* What stands outside the stretches cannot be an added token. */
static void only_own_words_hold_added_tokens(void **state)
{
    static const char text[] = "<|im_end|>x<|im_end|>";
    sr1_tokenizer *t = open_small();
    int32_t end = sr1_tokenizer_special_id(t, SR1_TOKEN_IM_END);
    size_t own[2] = {0, 10}, crossing[2] = {5, 21}, count = 0;
    struct sr1__ids ids = {0};

    (void)state;
    OK(sr1__tokenizer_encode_own(t, text, strlen(text), own, 1, 0, &ids));
    assert_int_equal(ids.v[0], end);
    for (size_t i = 0; i < ids.n; i++)
        count += ids.v[i] == end;
    assert_int_equal(count, 1);
    ids.n = 0;
    OK(sr1__tokenizer_encode_own(t, text, strlen(text), crossing, 1, 0, &ids));
    assert_int_equal(ids.v[ids.n - 1], end);
    assert_true(ids.v[0] != end);
    ids.n = 0;
    OK(sr1__tokenizer_encode_own(t, text, strlen(text), NULL, 0, 0, &ids));
    for (size_t i = 0; i < ids.n; i++)
        assert_true(ids.v[i] != end);
    assert_int_equal(sr1__tokenizer_encode_own(t, "\xff", 1, NULL, 0, 0, &ids),
                     SR1_E_INVALID);
    sr1__ids_free(&ids);
    sr1_tokenizer_free(t);
}

static sr1_status make_border(void *arg)
{
    struct sr1__turn_delimiters b = {0};
    sr1_status st = sr1__turn_delimiters_make(&b, arg, 0);

    sr1__turn_delimiters_free(&b);
    return st;
}

static void any_allocation_may_fail(void **state)
{
    sr1_tokenizer *t = open_small();

    (void)state;
    assert_true(torture(make_border, t) > 5);
    sr1_tokenizer_free(t);
}

/* The small tokenizer with a template of tests/golden/jinja. */
static sr1_tokenizer *open_program(const char *name)
{
    sr1_tokenizer *t = NULL;
    struct sr1__buf bytes;
    char below[256];

    snprintf(below, sizeof below, "tests/golden/jinja/%s.jinja", name);
    OK(sr1__file_read(source_path(below), 0, &bytes));
    scratch_file("chat_template.jinja", bytes.data, bytes.len);
    sr1__buf_free(&bytes);
    scratch_file("tokenizer_config.json", "{\"eos_token\": \"<|endoftext|>\"}", 0);
    t = open_scratch();
    remove(scratch_path("tokenizer_config.json"));
    remove(scratch_path("chat_template.jinja"));
    return t;
}

/* What stands between turns is read off the template; NULL: it is refused with the text.
 */
static void a_template_that_is_run_shows_its_turns(void **state)
{
    static const struct {
        const char *name, *close, *open;
    } cases[] = {
        {"qwen3_thinking", "<|im_end|>\n<|im_start|>user\n",
         "<|im_end|>\n<|im_start|>assistant\n<think>\n"},
        {"phi4", "<|im_end|><|im_start|>user<|im_sep|>",
         "<|im_end|><|im_start|>assistant<|im_sep|>"},
        {"gemma3", "<end_of_turn>\n<start_of_turn>user\n",
         "<end_of_turn>\n<start_of_turn>model\n"},
        {"glm4_5", "<|user|>\n", "<|assistant|>"},
        {"deepseek_v3_1",
         "<\xef\xbd\x9c"
         "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd"
         "\x9c><\xef\xbd\x9cUser\xef\xbd\x9c>",
         "<\xef\xbd\x9c"
         "Assistant\xef\xbd\x9c></think>"},
        {"mistral_v3", NULL, "with a system message otherwise once it goes on"},
        {"olmo", "<|endoftext|>\n<|user|>\n", "\n<|assistant|>\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sr1_tokenizer *t = open_program(cases[i].name);
        struct sr1__turn_delimiters b = {0};

        assert_string_equal(sr1_tokenizer_chat_family(t), "template");
        if (!cases[i].close) {
            assert_int_equal(sr1__turn_delimiters_make(&b, t, 0), SR1_E_UNSUPPORTED);
            if (!strstr(sr1_last_error(), cases[i].open))
                fail_msg("%s: %s", cases[i].name, sr1_last_error());
            sr1_tokenizer_free(t);
            continue;
        }
        OK(sr1__turn_delimiters_make(&b, t, 0));
        assert_string_equal(b.close, cases[i].close);
        assert_string_equal(b.open, cases[i].open);
        assert_int_equal(b.n_end, strncmp(b.close, "<|im_end|>", 10) == 0 ||
                                      strncmp(b.close, "<|endoftext|>", 13) == 0);
        sr1__turn_delimiters_free(&b);
        sr1_tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_growing_conversation_has_the_ids_of_the_whole),
        cmocka_unit_test(it_has_with_qwen3s_vocabulary),
        cmocka_unit_test(the_border_is_the_templates_own_words),
        cmocka_unit_test(a_template_that_is_run_shows_its_turns),
        cmocka_unit_test(only_own_words_hold_added_tokens),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
