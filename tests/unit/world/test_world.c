/* Worlds in each protocol: their demonstrations act as the environment understands, and
 * names stay the same tokens in every place. */
#include "support/files.h"

#include "base/json.h"
#include "environment/env/protocol.h"

#include <searchr1/ext/tokenizer.h>
#include <searchr1/ext/world.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define OK(expr)                                                                         \
    do {                                                                                 \
        sr1_status ok_status = (expr);                                                   \
        if (ok_status != SR1_OK)                                                         \
            fail_msg("%s: %d: %s", #expr, ok_status, sr1_last_error());                  \
    } while (0)

static sr1_world_options options(const char *protocol, int32_t hops)
{
    static const int32_t steps[5] = {1, 1, 4, 4, 10};
    sr1_world_options o = {0};

    sr1_world_options_init(&o);
    o.seed = 5;
    o.scale = 0.1;
    o.sft_worlds = 4;
    o.test_questions = 20;
    memcpy(o.stage_steps, steps, sizeof steps);
    o.protocol = protocol;
    o.hops = hops;
    return o;
}

/* Calls use(row, arg) for each line of world NAME's file. */
static size_t each_row(const char *world, const char *file,
                       void (*use)(const json_t *row, void *arg), void *arg)
{
    struct sr1__buf text;
    char path[256], *line, *end;
    size_t n = 0;

    snprintf(path, sizeof path, "%s/%s", world, file);
    OK(sr1__file_read(scratch_path(path), 0, &text));
    for (line = text.data; (end = strchr(line, '\n')) != NULL; line = end + 1, n++) {
        json_t *row = NULL;

        OK(sr1__json_parse(&row, line, (size_t)(end - line), file));
        use(row, arg);
        json_decref(row);
    }
    sr1__buf_free(&text);
    return n;
}

/* ---- what demonstrations say ---- */

struct counts {
    const struct sr1__protocol *p;
    int acts, results, errors, answers;
    int after_action; /* a block must follow */
};

static void look_at_policy(struct counts *c, const char *text)
{
    struct sr1__text_range content;
    size_t end = 0;
    int event = sr1__protocol_first_event(c->p, text, strlen(text), 0, &content, &end);

    c->acts += event == SR1__EVENT_ACTION;
    c->answers += event == SR1__EVENT_ANSWER;
    c->after_action = event == SR1__EVENT_ACTION;
    if (event != SR1__EVENT_NONE)
        assert_int_equal(end, strlen(text)); /* nothing is said behind it */
}

static void look_at_block(struct counts *c, const char *text)
{
    size_t begin, len;

    assert_true(c->after_action);
    OK(sr1__observation_split(c->p, text, strlen(text), &begin, &len));
    c->results++;
    c->errors += strncmp(text + begin, "\nError: ", 8) == 0;
    c->after_action = 0;
}

static void look_at_demo(const json_t *row, void *arg)
{
    const json_t *segments = json_object_get(row, "segments"), *s;
    const char *question = json_string_value(json_object_get(row, "question"));
    struct counts *c = arg;
    size_t i;

    if (strcmp(question, "Repeat the list.") == 0 || strcmp(question, "Look it up.") == 0)
        return;
    c->after_action = 0;
    json_array_foreach((json_t *)(uintptr_t)segments, i, s)
    {
        const char *text = json_string_value(json_object_get(s, "text"));

        if (strcmp(json_string_value(json_object_get(s, "source")), "policy") == 0)
            look_at_policy(c, text);
        else
            look_at_block(c, text);
    }
    assert_false(c->after_action);
}

static struct counts look_at(const char *world, const char *protocol, const char *file)
{
    struct counts c = {.p = sr1__protocol_find(protocol)};

    assert_true(each_row(world, file, look_at_demo, &c) > 0);
    assert_int_equal(c.acts, c.results);
    return c;
}

static void clean_demonstrations_act_without_errors(void **state)
{
    static const char *const protocols[] = {"search-r1", "mt-grpo", "hermes"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sr1_world_options o = options(protocols[i], 0);
        struct counts c;

        OK(sr1_world_write(scratch_path(protocols[i]), &o, NULL, NULL));
        c = look_at(protocols[i], protocols[i], "sft.jsonl");
        assert_int_equal(c.answers, 128); /* of the stages with questions */
        assert_true(c.acts > c.answers);  /* some need two */
        assert_int_equal(c.errors, 0);
        c = look_at(protocols[i], protocols[i], "mix.jsonl");
        assert_int_equal(c.answers, 160);
        assert_int_equal(c.errors > 0, i == 1); /* only a call can be broken */
    }
}

/* ---- one hop ---- */

static void is_one_hop(const json_t *row, void *arg)
{
    (void)arg;
    assert_string_equal(json_string_value(json_object_get(row, "data_source")),
                        "one-hop");
}

static void one_hop_needs_one_call(void **state)
{
    static const char *const files[] = {"train.jsonl", "validation.jsonl", "test.jsonl"};
    sr1_world_options o = options("mt-grpo", 1);
    struct counts c;

    (void)state;
    OK(sr1_world_write(scratch_path("one"), &o, NULL, NULL));
    for (size_t i = 0; i < 3; i++)
        assert_true(each_row("one", files[i], is_one_hop, NULL) >= 10);
    c = look_at("one", "mt-grpo", "sft.jsonl");
    assert_int_equal(c.acts, c.answers);
}

/* Stages without a step leave no file without a row, nor that of an earlier world. */
static void a_stage_left_out_has_no_file(void **state)
{
    sr1_world_options o = options("search-r1", 2);

    (void)state;
    OK(sr1_world_write(scratch_path("fewer"), &o, NULL, NULL));
    assert_true(sr1__path_exists(scratch_path("fewer/mix.jsonl")));
    o.stage_steps[4] = 0;
    OK(sr1_world_write(scratch_path("fewer"), &o, NULL, NULL));
    assert_false(sr1__path_exists(scratch_path("fewer/mix.jsonl")));
    assert_true(sr1__path_exists(scratch_path("fewer/sft.jsonl")));
}

/* ---- tokens ---- */

/* " Bak" and "del" in a question, a quoted query, a passage and an answer. */
static void a_name_is_the_same_tokens_in_a_call(void **state)
{
    sr1_world_options o = options("mt-grpo", 1);
    char folder[512], text[128], name[16] = {0};
    struct sr1__buf row;
    sr1_tokenizer *t = NULL;
    int32_t *alone = NULL, *quoted = NULL;
    size_t n = 0, m = 0, at = 0;

    (void)state;
    OK(sr1_world_write(scratch_path("tokens"), &o, NULL, NULL));
    OK(sr1__file_read(scratch_path("tokens/test.jsonl"), 0, &row));
    sscanf(strstr(row.data, "golden_answers") + strlen("golden_answers\":[\""),
           "%6[A-Za-z]", name);
    sr1__buf_free(&row);
    snprintf(folder, sizeof folder, "%s", scratch_path("tokens/tokenizer"));
    OK(sr1_tokenizer_open(&t, folder));
    snprintf(text, sizeof text, " %s", name);
    OK(sr1_tokenizer_encode(t, text, strlen(text), SR1_ENCODE_ALL_ADDED, &alone, &n));
    assert_int_equal(n, 2);
    snprintf(text, sizeof text,
             "<tool>{\"name\": \"wiki_search\", \"args\": {\"query\": "
             "\" %s born \"}}</tool>",
             name);
    OK(sr1_tokenizer_encode(t, text, strlen(text), SR1_ENCODE_ALL_ADDED, &quoted, &m));
    while (at + 1 < m && (quoted[at] != alone[0] || quoted[at + 1] != alone[1]))
        at++;
    assert_true(at + 1 < m);
    assert_true(m < 24); /* the words of a call are few tokens */
    sr1_free(alone);
    sr1_free(quoted);
    sr1_tokenizer_free(t);
}

static void wrong_options_are_refused(void **state)
{
    sr1_world_options o = options("mt-ppo", 1);

    (void)state;
    assert_int_equal(sr1_world_write(scratch_path("w"), &o, NULL, NULL), SR1_E_NOT_FOUND);
    assert_non_null(strstr(sr1_last_error(), "'mt-ppo'"));
    o = options(NULL, 3);
    assert_int_equal(sr1_world_write(scratch_path("w"), &o, NULL, NULL), SR1_E_INVALID);
    assert_non_null(strstr(sr1_last_error(), "hops is 3"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clean_demonstrations_act_without_errors),
        cmocka_unit_test(one_hop_needs_one_call),
        cmocka_unit_test(a_stage_left_out_has_no_file),
        cmocka_unit_test(a_name_is_the_same_tokens_in_a_call),
        cmocka_unit_test(wrong_options_are_refused),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
