/* Conversations in rows: which message is the question, and what stood before it. */
#include "../../support/torture.h"
#include "../../support/files.h"

#include "base/buf.h"
#include "base/file.h"
#include "text/data/dataset.h"

#include <searchr1/ext/data_files.h>

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define GOLD ",\"golden_answers\":\"a\"}\n"
#define MESSAGES                                                                         \
    "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"q1\"},"   \
    "{\"role\":\"assistant\",\"content\":\"a1\"}"

/* The same conversation, as files may have it. */
static const char *const forms[][2] = {
    {"a.jsonl", "{\"question\":\"q2\",\"history\":" MESSAGES "]" GOLD},
    {"a.jsonl",
     "{\"messages\":" MESSAGES ",{\"role\":\"user\",\"content\":\"q2\"}]" GOLD},
    {"a.jsonl", "{\"prompt\":" MESSAGES ",{\"role\":\"user\",\"content\":\"q2\"}]" GOLD},
    {"a.jsonl", /* the answer to be learned is no part of it */
     "{\"messages\":" MESSAGES ",{\"role\":\"user\",\"content\":\"q2\"},"
     "{\"role\":\"assistant\",\"content\":\"a2\"}]" GOLD},
    {"a.csv",
     "question,golden_answers,history\r\n"
     "q2,a,\"[{\"\"role\"\":\"\"system\"\",\"\"content\"\":\"\"s\"\"},{\"\"role\"\":"
     "\"\"user\"\",\"\"content\"\":\"\"q1\"\"},{\"\"content\"\":\"\"a1\"\",\"\"role\"\":"
     "\"\"assistant\"\"}]\"\r\n"},
};

static sr1_status read_first(sr1_row **out, const char *path,
                             const sr1_dataset_options *o)
{
    sr1_dataset *d = NULL;
    sr1_status status = sr1_dataset_open(&d, &path, 1, o);

    if (status == SR1_OK)
        status = sr1_dataset_read(d, 0, out);
    sr1_dataset_free(d);
    return status;
}

static sr1_row *first(const char *name, const char *text, const sr1_dataset_options *o)
{
    sr1_row *row = NULL;

    if (read_first(&row, scratch_file(name, text, 0), o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    return row;
}

static void check_conversation(const sr1_row *row)
{
    static const char *const expected[][2] = {
        {"system", "s"}, {"user", "q1"}, {"assistant", "a1"}};
    const char *role;

    assert_string_equal(sr1_row_question(row), "q2");
    assert_int_equal(sr1_row_history_count(row), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(sr1_row_history(row, i, &role), expected[i][1]);
        assert_string_equal(role, expected[i][0]);
    }
    assert_null(sr1_row_history(row, 3, &role));
}

static void every_form_gives_the_same_conversation(void **state)
{
    char id[64] = "";

    (void)state;
    for (size_t i = 0; i < COUNT(forms); i++) {
        sr1_row *row = first(forms[i][0], forms[i][1], NULL);

        check_conversation(row);
        if (i)
            assert_string_equal(sr1_row_id(row), id);
        snprintf(id, sizeof id, "%s", sr1_row_id(row));
        sr1_row_free(row);
    }
}

static void other_conversations_have_other_ids(void **state)
{
    sr1_row *with = first(forms[0][0], forms[0][1], NULL);
    sr1_row *without = first("a.jsonl", "{\"question\":\"q2\"" GOLD, NULL);
    sr1_row *empty = first("a.jsonl", "{\"question\":\"q2\",\"history\":[]" GOLD, NULL);
    sr1_row *cell = first("a.csv", "question,golden_answers,history\nq2,a,\n", NULL);

    (void)state;
    assert_string_not_equal(sr1_row_id(with), sr1_row_id(without));
    assert_string_equal(sr1_row_id(empty), sr1_row_id(without));
    assert_string_equal(sr1_row_id(cell), sr1_row_id(without));
    assert_int_equal(sr1_row_history_count(without), 0);
    sr1_row_free(with);
    sr1_row_free(without);
    sr1_row_free(empty);
    sr1_row_free(cell);
}

static void the_field_has_a_name(void **state)
{
    sr1_dataset_options o = {.struct_size = sizeof o, .history_field = "before"};
    sr1_row *row =
        first("a.jsonl",
              "{\"question\":\"q2\",\"history\":7,\"before\":" MESSAGES "]" GOLD, &o);

    (void)state;
    check_conversation(row);
    sr1_row_free(row);
}

static void wrong_conversations_are_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"{\"question\":\"q\",\"history\":7" GOLD, "not a list of messages"},
        {"{\"question\":\"q\",\"history\":{}" GOLD, "not a list of messages"},
        {"{\"question\":\"q\",\"history\":[7]" GOLD, "message 0"},
        {"{\"question\":\"q\",\"history\":[{\"role\":\"user\"}]" GOLD, "content"},
        {"{\"question\":\"q\",\"history\":[{\"role\":\"user\",\"content\":[]}]" GOLD,
         "content"},
        {"{\"question\":\"q\",\"history\":"
         "[{\"role\":\"user\",\"content\":\"\\u0000\"}]" GOLD,
         "NUL"},
        {"{\"question\":\"q\",\"history\":[{\"role\":\"tool\",\"content\":\"x\"}]" GOLD,
         "'tool'"},
        {"{\"question\":\"q\",\"history\":[{\"role\":\"user\",\"content\":\"x\"},"
         "{\"role\":\"system\",\"content\":\"x\"}]" GOLD,
         "message 1"},
        {"{\"question\":\"q\",\"history\":[{\"role\":\"assistant\",\"content\":\"x\","
         "\"tool_calls\":[{}]}]" GOLD,
         "tool calls"},
        {"{\"messages\":[]" GOLD, "no message of the user"},
        {"{\"prompt\":" MESSAGES ",{\"role\":\"user\",\"content\":\"q2\"},"
         "{\"role\":\"assistant\",\"content\":\"Let me\"}]" GOLD,
         "behind the last message of the user"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}]" GOLD,
         "no message of the user"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\" \"}]" GOLD,
         "field 'messages' is empty"},
        {"{\"messages\":" MESSAGES ",{\"role\":\"user\",\"content\":\"q2\"}],\"history\":"
         "[{\"role\":\"user\",\"content\":\"x\"}]" GOLD,
         "both"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        sr1_row *row = NULL;
        sr1_status status =
            read_first(&row, scratch_file("bad.jsonl", bad[i].text, 0), NULL);

        if (status != SR1_E_PARSE || !strstr(sr1_last_error(), bad[i].why) ||
            !strstr(sr1_last_error(), "bad.jsonl:1"))
            fail_msg("%zu: %s: '%s'", i, sr1_status_name(status), sr1_last_error());
        assert_null(row);
    }
}

static sr1_status write_and_read(void *arg)
{
    const char *from = arg;
    sr1_dataset *d = NULL;
    sr1_row *row = NULL;
    sr1_status status = sr1_dataset_open(&d, &from, 1, NULL);

    if (status == SR1_OK)
        status = sr1_dataset_write_records(d, scratch_path("records.jsonl"), NULL);
    if (status == SR1_OK)
        status = read_first(&row, scratch_path("records.jsonl"), NULL);
    sr1_row_free(row);
    sr1_dataset_free(d);
    return status;
}

/* Records keep it; reading and writing them survives any allocation that fails. */
static void records_hold_conversations(void **state)
{
    char from[1024];
    struct sr1__buf b;
    sr1_row *row = NULL;

    (void)state;
    snprintf(from, sizeof from, "%s", scratch_file(forms[0][0], forms[0][1], 0));
    assert_int_equal(write_and_read(from), SR1_OK);
    assert_int_equal(sr1__file_read(scratch_path("records.jsonl"), 1 << 20, &b), SR1_OK);
    assert_non_null(strstr(sr1__buf_cstr(&b), "\"prompt\":" MESSAGES ",{\"role\":"));
    sr1__buf_free(&b);
    assert_int_equal(read_first(&row, scratch_path("records.jsonl"), NULL), SR1_OK);
    assert_string_equal(sr1_row_question(row), "q2?"); /* the records' rule */
    assert_int_equal(sr1_row_history_count(row), 3);
    sr1_row_free(row);
    assert_true(torture(write_and_read, from) > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_the_same_conversation),
        cmocka_unit_test(other_conversations_have_other_ids),
        cmocka_unit_test(the_field_has_a_name),
        cmocka_unit_test(wrong_conversations_are_refused),
        cmocka_unit_test(records_hold_conversations),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
