/* Datasets: formats, errors that name the place, splits, streaming, hostile files. */
#include "../../support/torture.h"
#include "../../support/files.h"

#include "base/clock.h"
#include "base/rng.h"
#include "config/config.h"
#include "text/data/dataset.h"

#include <searchr1/ext/data_files.h>

#include <string.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

static sr1_status open_one(sr1_dataset **out, const char *path,
                           const sr1_dataset_options *o)
{
    return sr1_dataset_open(out, &path, 1, o);
}

static void assert_error(sr1_status status, sr1_status expected, const char *part)
{
    if (status != expected || !strstr(sr1_last_error(), part))
        fail_msg("%s: '%s', not %s: '%s'", sr1_status_name(status), sr1_last_error(),
                 sr1_status_name(expected), part);
}

/* Three forms of the same two rows. */
static const char *const forms[][2] = {
    {"a.jsonl",
     "\n{\"id\":7,\"question\":\"Q1\",\"golden_answers\":[\"a\",2,0.5]}\r\n  \n"
     "{\"question\":\"Q2\",\"golden_answers\":\"b\",\"data_source\":\"nq\"}"},
    {"a.json",
     "[ {\"id\":7,\"question\":\"Q1\",\"golden_answers\":[\"a\",2,0.5]} ,\n"
     "{\"question\":\"Q2\",\"golden_answers\":\"b\",\"data_source\":\"nq\"}\n]\n"},
    {"a.json",
     "{\"version\": [1, {\"x\": \"]\"}], \"data\":[{\"id\":7,\"question\":\"Q1\","
     "\"golden_answers\":[\"a\",2,0.5]},{\"question\":\"Q2\",\"golden_answers\":\"b\","
     "\"data_source\":\"nq\"}], \"n\": 2}"},
    {"a.csv", "id,question,golden_answers,data_source\r\n"
              "7,Q1,\"[\"\"a\"\", 2, 0.5]\",\r\n\r\n,Q2,b,nq\r\n"},
    {"a.jsonl",
     "\xef\xbb\xbf{\"id\":7,\"question\":\"Q1\",\"golden_answers\":[\"a\",2,0.5]}\n"
     "{\"question\":\"Q2\",\"golden_answers\":\"b\",\"data_source\":\"nq\"}\n"},
    {"a.json",
     "\xef\xbb\xbf[{\"id\":7,\"question\":\"Q1\",\"golden_answers\":[\"a\",2,0.5]},"
     "{\"question\":\"Q2\",\"golden_answers\":\"b\",\"data_source\":\"nq\"}]"},
    {"a.csv", "\xef\xbb\xbfid,question,golden_answers,data_source\n"
              "7,Q1,\"[\"\"a\"\", 2, 0.5]\",\n,Q2,b,nq\n"},
    {"a.csv", "id,question,golden_answers,data_source\n" /* as Python prints it */
              "7,Q1,\"['a', 2, 0.5]\",\n,Q2,['b'],nq\n"},
};

/* A cell, and the answers that it holds. */
static const struct {
    const char *cell;
    const char *answers[4];
} python_cells[] = {
    {"['Paris']", {"Paris"}},
    {"[ 'a' , \"it's\", 'say \\'x\\' \\\\ \\n\\t', ]", {"a", "it's", "say 'x' \\ \n\t"}},
    {"['\\xe9\\u20ac\\U0001f600', '\xc3\xa9']",
     {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9"}},
    {"['Paris' 'Lyon'\n \"L'Isle\"]", {"Paris", "Lyon", "L'Isle"}}, /* numpy */
    {"[1, -2.5, 'x']", {"1", "-2.5", "x"}},
    {"[12345678901234567890, 1e2]", {"12345678901234567890", "100"}},
    /* no lists: one answer each */
    {"[sic] Paris", {"[sic] Paris"}},
    {"['a', None]", {"['a', None]"}},
    {"['a'", {"['a'"}},
    {"['a'] and more", {"['a'] and more"}},
    {"['a''b']", {"['a''b']"}},
    {"['a',, 'b']", {"['a',, 'b']"}},
    {"['\\ud800']", {"['\\ud800']"}},
    {"['\\x00']", {"['\\x00']"}},
    {"['\\q']", {"['\\q']"}},
    {"['a", {"['a"}},
    {"['a\\", {"['a\\"}},
    {"[", {"["}},
};

/* Rows of TriviaQA and SQuAD as they are published (made up here). */
static const struct {
    const char *row;
    const char *field;      /* answer_field; NULL: the default */
    const char *answers[5]; /* up to the first NULL */
} nested[] = {
    {"{\"question\":\"q\",\"question_id\":\"tc_1\",\"answer\":{\"aliases\":[\"Paris\","
     "\"City "
     "of Light\",\"\"],\"normalized_aliases\":[\"paris\",\"city of light\"],\"value\":"
     "\"Paris\",\"type\":\"WikipediaEntity\",\"matched_wiki_entity_name\":\"\"}}",
     NULL,
     {"Paris", "City of Light", "paris", "city of light"}},
    {"{\"question\":\"q\",\"answer\":{\"aliases\":[\"A\",\"B\"],\"normalized_aliases\":"
     "[\"a\"],\"value\":\"A\"}}",
     "answer",
     {"A", "B", "a"}},
    {"{\"question\":\"q\",\"answer\":{\"aliases\":[\"A\",\"B\"],\"normalized_aliases\":"
     "[\"a\"],\"value\":\"A\"}}",
     "answer.normalized_aliases",
     {"a"}},
    {"{\"question\":\"q\",\"x\":{\"y\":{\"z\":7}},\"x.y.z\":\"plain\"}",
     "x.y.z",
     {"plain"}},
    {"{\"question\":\"q\",\"x\":{\"y\":{\"z\":7}}}", "x.y.z", {"7"}},
    {"{\"question\":\"q\",\"answers\":{\"text\":[\"a\",\"b\",\"a\"],\"answer_start\":[1,"
     "2,"
     "1]}}",
     "answers",
     {"a", "b"}},
    {"{\"question\":\"q\",\"golden_answers\":[\"g\"],\"answer\":{\"value\":\"v\"}}",
     NULL,
     {"g"}},
};

static void python_lists_are_read_in_cells(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(python_cells); i++) {
        sr1_dataset *d = NULL;
        sr1_row *row = NULL;
        struct sr1__buf file;
        size_t n = 0;

        while (n < COUNT(python_cells[i].answers) && python_cells[i].answers[n])
            n++;
        sr1__buf_init(&file, 0);
        sr1__buf_str(&file, "question,golden_answers\nq,\"");
        for (const char *c = python_cells[i].cell; *c; c++) {
            sr1__buf_str(&file, *c == '"' ? "\"" : "");
            sr1__buf_char(&file, *c);
        }
        sr1__buf_str(&file, "\"\n");
        if (open_one(&d, scratch_file("p.csv", sr1__buf_cstr(&file), 0), NULL) != SR1_OK)
            fail_msg("%s", sr1_last_error());
        assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
        assert_int_equal(sr1_row_answer_count(row), n);
        for (size_t k = 0; k < n; k++)
            assert_string_equal(sr1_row_answer(row, k), python_cells[i].answers[k]);
        sr1_row_free(row);
        sr1_dataset_free(d);
        sr1__buf_free(&file);
    }
}

/* Text is text, whatever it looks like; only a cell of a CSV file may be a list. */
static void text_like_a_list_is_an_answer(void **state)
{
    static const char *const answers[] = {"[1, 2]", "[]", "[\\\"a\\\"]"};

    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        sr1_dataset *d = NULL;
        sr1_row *row = NULL;
        json_t *text = NULL;
        char line[128];

        snprintf(line, sizeof line, "{\"question\":\"q\",\"golden_answers\":\"%s\"}",
                 answers[i]);
        if (open_one(&d, scratch_file("n.jsonl", line, 0), NULL) != SR1_OK)
            fail_msg("%s: %s", line, sr1_last_error());
        assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
        assert_int_equal(sr1__json_parse(&text, line, strlen(line), "line"), SR1_OK);
        assert_int_equal(sr1_row_answer_count(row), 1);
        assert_string_equal(sr1_row_answer(row, 0),
                            json_string_value(json_object_get(text, "golden_answers")));
        json_decref(text);
        sr1_row_free(row);
        sr1_dataset_free(d);
    }
}

static void nested_answers_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(nested); i++) {
        sr1_dataset_options o = {.struct_size = sizeof o,
                                 .answer_field = nested[i].field};
        sr1_dataset *d = NULL;
        sr1_row *row = NULL;
        size_t n = 0;

        while (nested[i].answers[n])
            n++;
        assert_int_equal(open_one(&d, scratch_file("n.jsonl", nested[i].row, 0), &o),
                         SR1_OK);
        assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
        assert_int_equal(sr1_row_answer_count(row), n);
        for (size_t k = 0; k < n; k++)
            assert_string_equal(sr1_row_answer(row, k), nested[i].answers[k]);
        sr1_row_free(row);
        sr1_dataset_free(d);
    }
}

/* Rows as public sets and TRL have them, by default. */
static void rows_as_published_are_read(void **state)
{
    static const struct {
        const char *row, *question, *answer;
        size_t history;
    } rows[] = {
        {"{\"question\":\"who?\",\"answer\":[\"a\",\"b\"]}", "who?", "a", 0},
        {"{\"question\":\"who?\",\"answer\":\"a\",\"type\":\"bridge\"}", "who?", "a", 0},
        {"{\"question\":\"who?\",\"answers\":{\"text\":[\"a\"],\"answer_start\":[3]}}",
         "who?", "a", 0},
        {"{\"prompt\":\"2 + 2 =\",\"answer\":4}", "2 + 2 =", "4", 0},
        {"{\"prompt\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\","
         "\"content\":\"who?\"}],\"answer\":\"a\"}",
         "who?", "a", 1},
        {"{\"question\":\"who?\",\"golden_answers\":[\"g\"],\"answer\":\"a\"}", "who?",
         "g", 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        sr1_dataset *d = NULL;
        sr1_row *row = NULL;

        if (open_one(&d, scratch_file("n.jsonl", rows[i].row, 0), NULL) != SR1_OK)
            fail_msg("%s: %s", rows[i].row, sr1_last_error());
        assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
        assert_string_equal(sr1_row_question(row), rows[i].question);
        assert_string_equal(sr1_row_answer(row, 0), rows[i].answer);
        assert_int_equal(sr1_row_history_count(row), rows[i].history);
        sr1_row_free(row);
        sr1_dataset_free(d);
    }
}

/* Rows of the seven sets of Search-R1's table, of FlashRAG, GSM8K, SQuAD and of BEIR's
 * queries, with the members that their published files have. */
static void the_published_sets_are_read(void **state)
{
    static const struct {
        const char *set, *row, *question, *id, *answers[4];
        const char *file; /* NULL: of JSON lines */
    } rows[] = {
        {"NQ-open",
         "{\"question\": \"who?\", \"answer\": [\"a\", \"b\"]}",
         "who?",
         NULL,
         {"a", "b"}},
        {"TriviaQA",
         "{\"question\": \"who?\", \"question_id\": \"tc_2\", \"answer\": {\"aliases\": "
         "[\"A\", \"Aa\"], \"normalized_aliases\": [\"a\"], \"value\": \"A\", \"type\": "
         "\"WikipediaEntity\"}}",
         "who?",
         "tc_2",
         {"A", "Aa", "a"}},
        {"TriviaQA's own file",
         "{\"Data\": [{\"Answer\": {\"Aliases\": [\"A\", \"Aa\"], "
         "\"MatchedWikiEntityName\": \"A\", \"NormalizedAliases\": [\"a\"], "
         "\"NormalizedValue\": \"a\", \"Type\": \"WikipediaEntity\", \"Value\": "
         "\"A\"}, \"EntityPages\": [], \"Question\": \"who?\", \"QuestionId\": "
         "\"tc_2\", \"QuestionSource\": \"s\"}], \"Domain\": \"unfiltered-web\", "
         "\"VerifiedEval\": false, \"Version\": 1.0}",
         "who?",
         "tc_2",
         {"A", "Aa", "a"},
         "unfiltered-web-dev.json"},
        {"PopQA",
         "{\"id\": 4222362, \"subj\": \"G. R.\", \"prop\": \"occupation\", \"obj\": "
         "\"politician\", \"question\": \"What is G. R.'s occupation?\", "
         "\"possible_answers\": \"[\\\"politician\\\", \\\"pol\\\"]\"}",
         "What is G. R.'s occupation?",
         "4222362",
         {"politician", "pol"}},
        {"PopQA's own file",
         "id\tsubj\tprop\tobj\tquestion\tpossible_answers\n"
         "4222362\tG. R.\toccupation\tpolitician\tWhat is G. R.'s occupation?\t"
         "\"[\"\"politician\"\", \"\"pol\"\"]\"\n",
         "What is G. R.'s occupation?",
         "4222362",
         {"politician", "pol"},
         "popQA.tsv"},
        {"HotpotQA's own file",
         "[{\"_id\": \"5a8b\", \"answer\": \"yes\", \"question\": \"Were both?\", "
         "\"supporting_facts\": [[\"T\", 0]], \"context\": [[\"T\", [\"S.\"]]], "
         "\"type\": \"comparison\", \"level\": \"hard\"}]",
         "Were both?",
         "5a8b",
         {"yes"},
         "hotpot_dev_distractor_v1.json"},
        {"HotpotQA",
         "{\"_id\": \"5a8b\", \"answer\": \"yes\", \"question\": \"Were both?\", "
         "\"supporting_facts\": [[\"T\", 0]], \"context\": [[\"T\", [\"S.\"]]], "
         "\"type\": "
         "\"comparison\", \"level\": \"hard\"}",
         "Were both?",
         "5a8b",
         {"yes"}},
        {"2WikiMultihopQA",
         "{\"_id\": \"13f5\", \"type\": \"compositional\", \"question\": \"Who?\", "
         "\"context\": [[\"T\", [\"S.\"]]], \"evidences\": [[\"T\", \"r\", \"a\"]], "
         "\"answer\": \"a\"}",
         "Who?",
         "13f5",
         {"a"}},
        {"MuSiQue",
         "{\"id\": \"2hop__1_2\", \"paragraphs\": [{\"idx\": 0}], \"question\": "
         "\"When?\", "
         "\"question_decomposition\": [{\"id\": 1}], \"answer\": \"1952\", "
         "\"answer_aliases\": [\"in 1952\", \"1952\"], \"answerable\": true}",
         "When?",
         "2hop__1_2",
         {"1952", "in 1952"}},
        {"Bamboogle",
         "{\"Question\": \"Who was?\", \"Answer\": \"James\"}",
         "Who was?",
         NULL,
         {"James"}},
        {"Bamboogle's table",
         "Question,Answer\nWho was?,James\n",
         "Who was?",
         NULL,
         {"James"},
         "bamboogle.csv"},
        {"FlashRAG",
         "{\"id\": \"test_0\", \"question\": \"who?\", \"golden_answers\": [\"a\"], "
         "\"metadata\": {\"type\": \"bridge\"}}",
         "who?",
         "test_0",
         {"a"}},
        {"GSM8K",
         "{\"question\": \"How many?\", \"answer\": \"He has 16 - 3 = <<16-3=13>>13.\\n"
         "Then 13 + 5 = <<13+5=18>>18.\\n#### 18\"}",
         "How many?",
         NULL,
         {"18"}},
        {"a solution that ends in a line break",
         "{\"question\": \"How many?\", \"answer\": \"13 + 5\\n#### 18\\n\"}",
         "How many?",
         NULL,
         {"18\n"}},
        {"a heading is no answer",
         "{\"question\": \"How many?\", \"answer\": \"13\\n#### 18\\nno\"}",
         "How many?",
         NULL,
         {"13\n#### 18\nno"}},
        {"SQuAD",
         "{\"id\": \"56be\", \"question\": \"Where?\", \"context\": \"In Rome.\", "
         "\"answers\": {\"text\": [\"Rome\", \"In Rome\"], \"answer_start\": [3, 0]}}",
         "Where?",
         "56be",
         {"Rome", "In Rome"}},
        {"SQuAD's own questions",
         "{\"id\": \"56be\", \"question\": \"Where?\", \"answers\": [{\"text\": "
         "\"Rome\", "
         "\"answer_start\": 3}, {\"text\": \"In Rome\", \"answer_start\": 0}, {\"text\": "
         "\"Rome\", \"answer_start\": 3}]}",
         "Where?",
         "56be",
         {"Rome", "In Rome"}},
        {"BEIR",
         "{\"_id\": \"PLAIN-2\", \"text\": \"do statins?\", \"metadata\": {}}",
         "do statins?",
         "PLAIN-2",
         {NULL}},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        sr1_dataset_options o = {.struct_size = sizeof o, .answers_optional = 1};
        sr1_dataset *d = NULL;
        sr1_row *row = NULL;
        size_t n = 0;

        if (open_one(
                &d, scratch_file(rows[i].file ? rows[i].file : "n.jsonl", rows[i].row, 0),
                &o) != SR1_OK)
            fail_msg("%s: %s", rows[i].set, sr1_last_error());
        assert_int_equal(sr1_dataset_count(d), 1);
        assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
        assert_string_equal(sr1_row_question(row), rows[i].question);
        if (rows[i].id)
            assert_string_equal(sr1_row_id(row), rows[i].id);
        while (rows[i].answers[n])
            n++;
        if (sr1_row_answer_count(row) != n)
            fail_msg("%s: %zu answers", rows[i].set, sr1_row_answer_count(row));
        for (size_t k = 0; k < n; k++)
            assert_string_equal(sr1_row_answer(row, k), rows[i].answers[k]);
        sr1_row_free(row);
        sr1_dataset_free(d);
    }
}

/* pandas writes its index so. Blank lines before the header are none of it. */
static void a_first_column_may_have_no_name(void **state)
{
    static const char *const files[][2] = {
        {"index.tsv", "\tquestion\tanswer\n0\tq\ta\n"},
        {"index.csv", ",question,answer\n0,q,a\n"},
        {"late.tsv", "\xef\xbb\xbf \r\n\n\tquestion\tanswer\n\n0\tq\ta\n"},
        {"late.csv", " \t\n\n,question,answer\n\t\n0,q,a\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(files); i++) {
        sr1_dataset *d = NULL;
        sr1_row *row = NULL;

        if (open_one(&d, scratch_file(files[i][0], files[i][1], 0), NULL) != SR1_OK)
            fail_msg("%s: %s", files[i][0], sr1_last_error());
        assert_int_equal(sr1_dataset_count(d), 1);
        assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
        assert_string_equal(sr1_row_question(row), "q");
        sr1_row_free(row);
        sr1_dataset_free(d);
    }
}

/* The same rows, ids and lines of errors as of the plain file. */
static void packed_files_are_read(void **state)
{
    static const char *const plain[] = {"p.jsonl", "p.csv", "p.tsv", "p.json"};
    static const char *const texts[] = {
        "{\"question\":\"Q1\",\"answer\":\"a\"}\n{"
        "\"question\":\"Q2\",\"answer\":\"b\"}\n",
        "question,answer\nQ1,a\nQ2,b\n", "question\tanswer\nQ1\ta\nQ2\tb\n",
        "{\"Data\": [{\"question\":\"Q1\",\"answer\":\"a\"}, "
        "{\"question\":\"Q2\",\"answer\":\"b\"}]}"};
    static const char *const packers[] = {"gzip -kf", "zstd -qf"};
    static const char *const endings[] = {".gz", ".zst"};

    (void)state;
    for (size_t i = 0; i < 8; i++) {
        char command[1200], packed[600];
        const char *path = scratch_file(plain[i % 4], texts[i % 4], 0);
        sr1_dataset *d = NULL, *whole = NULL;
        uint64_t hash[2];
        sr1_row *row = NULL;

        snprintf(command, sizeof command, "%s %s", packers[i / 4], path);
        if (system(command) != 0)
            skip();
        snprintf(packed, sizeof packed, "%s%s", path, endings[i / 4]);
        assert_int_equal(open_one(&whole, path, NULL), SR1_OK);
        assert_int_equal(open_one(&d, packed, NULL), SR1_OK);
        assert_int_equal(sr1__dataset_hash(whole, &hash[0]), SR1_OK);
        assert_int_equal(sr1__dataset_hash(d, &hash[1]), SR1_OK);
        assert_true(hash[0] == hash[1]);
        assert_int_equal(sr1_dataset_read(d, 1, &row), SR1_OK);
        assert_string_equal(sr1_row_question(row), "Q2");
        assert_string_equal(sr1_row_data_source(row), "p");
        sr1_row_free(row);
        sr1_dataset_free(d);
        sr1_dataset_free(whole);
    }
    assert_error(open_one(&(sr1_dataset *){NULL},
                          scratch_file("t.jsonl.gz", "\x1f\x8b\x08", 3), NULL),
                 SR1_E_CORRUPT, "t.jsonl.gz");
    setenv("TMPDIR", scratch_path("none"), 1);
    assert_error(open_one(&(sr1_dataset *){NULL}, scratch_path("t.jsonl.gz"), NULL),
                 SR1_E_IO, "(TMPDIR)");
    unsetenv("TMPDIR");
}

/* Rounded they could not be met, and ids of two rows would be one. */
static void numbers_beyond_64_bits_are_refused(void **state)
{
    static const struct {
        const char *row, *says; /* NULL: it is read */
    } rows[] = {
        {"{\"id\":12345678901234567890,\"question\":\"a\",\"answer\":\"b\"}",
         "n.jsonl:2: field 'id' has 12345678901234567890, a whole number of more than 64 "
         "bits; write it as a text, in quotes"},
        {"{\"question\":\"a : \\\"b\\\": "
         "1\",\"answer\":[{\"x\":1},-9223372036854775809]}",
         "n.jsonl:2: field 'answer' has -9223372036854775809, a whole"},
        {"{\"question\":\"a\",\"answer\":\"b\", \"s\" : [NaN, "
         "1234567890123456789012345678901234567890123]}",
         "field 's' has 1234567890123456789012345678901234567890..., a whole"},
        {"{\"question\":\"a\",\"answer\":NaN,\"answers\":"
         "[-9223372036854775808,9223372036854775807,12345678901234567890.0,1e30]}",
         NULL},
        {"{\"question\":\"12345678901234567890\",\"answer\":\"b\",\"x\":NaN}", NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[512];
        sr1_dataset *d = NULL;
        sr1_status st;

        snprintf(text, sizeof text, "{\"question\":\"a\",\"answer\":\"b\"}\n%s\n",
                 rows[i].row);
        st = open_one(&d, scratch_file("n.jsonl", text, 0),
                      &(sr1_dataset_options){.struct_size = sizeof(sr1_dataset_options),
                                             .answers_optional = 1});
        if (rows[i].says)
            assert_error(st, SR1_E_PARSE, rows[i].says);
        else
            assert_int_equal(st, SR1_OK);
        sr1_dataset_free(d);
    }
}

/* 5000 different aliases. */
static void too_many_aliases_are_refused(void **state)
{
    struct sr1__buf b;
    sr1_dataset *d = NULL;

    (void)state;
    sr1__buf_init(&b, 0);
    sr1__buf_str(&b, "{\"question\":\"q\",\"answer\":{\"aliases\":[\"a\"");
    for (int i = 0; i < 5000; i++)
        sr1__buf_fmt(&b, ",\"%d\"", i);
    sr1__buf_str(&b, "]}}");
    assert_error(open_one(&d, scratch_file("n.jsonl", b.data, b.len), NULL), SR1_E_LIMIT,
                 "more than 4096 answers");
    sr1__buf_free(&b);
}

static void every_form_gives_the_same_rows(void **state)
{
    char second_id[64] = "";

    (void)state;
    for (size_t i = 0; i < COUNT(forms); i++) {
        sr1_dataset *d = NULL;
        sr1_row *row = NULL;
        char *json = NULL;

        if (open_one(&d, scratch_file(forms[i][0], forms[i][1], 0), NULL) != SR1_OK)
            fail_msg("form %zu: %s", i, sr1_last_error());
        assert_int_equal(sr1_dataset_count(d), 2);
        assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
        assert_string_equal(sr1_row_id(row), "7");
        assert_string_equal(sr1_row_question(row), "Q1");
        assert_int_equal(sr1_row_answer_count(row), 3);
        assert_string_equal(sr1_row_answer(row, 0), "a");
        assert_string_equal(sr1_row_answer(row, 1), "2");
        assert_string_equal(sr1_row_answer(row, 2), "0.5");
        assert_null(sr1_row_answer(row, 3));
        assert_int_equal(sr1_row_json(row, &json), SR1_OK);
        assert_non_null(strstr(json, "\"question\":\"Q1\""));
        sr1_free(json);
        sr1_row_free(row);
        assert_int_equal(sr1_dataset_read(d, 1, &row), SR1_OK);
        assert_string_equal(sr1_row_data_source(row), "nq");
        assert_int_equal(sr1_row_answer_count(row), 1);
        assert_int_equal(strlen(sr1_row_id(row)), 16);
        if (i > 0)
            assert_string_equal(sr1_row_id(row), second_id);
        snprintf(second_id, sizeof second_id, "%s", sr1_row_id(row));
        sr1_row_free(row);
        assert_error(sr1_dataset_read(d, 2, &row), SR1_E_INVALID, "row 2 of 2");
        assert_error(sr1_dataset_read(d, -1, &row), SR1_E_INVALID, "row -1");
        sr1_dataset_free(d);
    }
    sr1_dataset_free(NULL);
    sr1_row_free(NULL);
}

/* Numbers as pandas writes a column with a gap in it. */
static void numbers_are_taken_as_they_are_meant(void **state)
{
    sr1_dataset *d = NULL;
    sr1_row *row = NULL;

    (void)state;
    assert_int_equal(
        open_one(&d,
                 scratch_file("n.jsonl",
                              "{\"id\":7.0,\"question\":\"Q\",\"data_source\":3,"
                              "\"answer\":[1889.0,0.5]}\n"
                              "{\"id\":NaN,\"question\":\"Q\",\"data_source\":null,"
                              "\"answer\":\"a\"}\n",
                              0),
                 NULL),
        SR1_OK);
    assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
    assert_string_equal(sr1_row_id(row), "7");
    assert_string_equal(sr1_row_data_source(row), "3");
    assert_string_equal(sr1_row_answer(row, 0), "1889");
    assert_string_equal(sr1_row_answer(row, 1), "0.5");
    sr1_row_free(row);
    assert_int_equal(sr1_dataset_read(d, 1, &row), SR1_OK);
    assert_int_equal(strlen(sr1_row_id(row)), 16);
    assert_string_equal(sr1_row_data_source(row), "n");
    sr1_row_free(row);
    sr1_dataset_free(d);
}

static const struct {
    const char *name, *text, *expected;
} bad[] = {
    {"b.jsonl",
     "{\"question\":\"q\",\"golden_answers\":\"a\"}\n\n{\"query\":\"q\",\"x\":1}\n",
     "b.jsonl:3: no field 'question'; fields are query, x; set question_field"},
    {"b.jsonl", "{\"question\":\"q\"}\n",
     "b.jsonl:1: no field 'golden_answers'; fields are question; set answer_field"},
    {"b.jsonl", "{\"question\":\"q\",\"golden_answers\":[]}\n",
     "b.jsonl:1: field 'golden_answers' has no answer"},
    {"b.jsonl", "{\"question\":\"q\",\"answer\":[]}\n",
     "b.jsonl:1: field 'answer' has no answer"},
    {"b.jsonl", "{\"question\":\"q\",\"golden_answers\":[\"\", \" \"]}\n",
     "b.jsonl:1: field 'golden_answers' has no answer"},
    {"b.csv", "question,answer\nq,\n", "field 'answer' has no answer"},
    {"b.jsonl", "{\"question\":\"q\",\"golden_answers\":null}\n",
     "b.jsonl:1: field 'golden_answers' has no answer in it"},
    {"b.jsonl", "{\"question\":\"q\",\"answer\":null}\n",
     "b.jsonl:1: field 'answer' has no answer in it"},
    {"b.jsonl", "{\"question\":\"q\",\"golden_answers\":[true]}\n",
     "field 'golden_answers' is not text: it has true; write the text that is meant, as "
     "\"yes\""},
    {"b.jsonl", "{\"question\":\"q\",\"golden_answers\":[1,null]}\n",
     "is not text: it has null"},
    {"b.jsonl", "{\"question\":\"q\",\"answer\":{\"type\":\"x\"}}\n",
     "is an object without value"},
    {"b.jsonl", "{\"question\":\"q\",\"answer\":{\"aliases\":[\"\"]}}\n",
     "has no answer in it"},
    {"b.jsonl", "{\"question\":\"q\",\"answer\":{\"aliases\":[{}]}}\n", "is not text"},
    {"b.jsonl", "{\"question\":\"q\",\"golden_answers\":[[\"a\"]]}\n", "is not text"},
    {"b.jsonl", "{\"question\":7,\"golden_answers\":\"a\"}\n",
     "field 'question' is not text"},
    {"b.jsonl", "{\"question\":\" \\n\",\"golden_answers\":\"a\"}\n",
     "field 'question' is empty"},
    {"b.jsonl", "{\"question\":\"a\\u0000b\",\"golden_answers\":\"a\"}\n",
     "field 'question' holds a NUL"},
    {"b.jsonl", "{\"question\":\"q\",\"golden_answers\":\"a\\u0000\"}\n", "holds a NUL"},
    {"b.jsonl", "{\"question\":\"q\",\"golden_answers\":\"a\",\"id\":{}}\n",
     "field 'id' is not text"},
    {"b.jsonl", "{\"question\":\"q\",\"golden_answers\":\"a\",\"data_source\":[3]}\n",
     "field 'data_source' is not text"},
    {"b.jsonl", "\n\n{\"question\":\n", "b.jsonl:3: column "},
    {"b.jsonl", "[1]\n", "b.jsonl:1: each row must be an object"},
    {"b.jsonl", "{\"question\":\"\x80\"}\n", "b.jsonl:1: column "},
    {"b.jsonl", "{\"question\":\"q\",\"golden_answers\":\"a\"} x\n", "b.jsonl:1: col"},
    {"b.jsonl", " \n\t\r\n", "there is no row in it"},
    {"b.json", " ", "the file is empty"},
    {"b.json", "[]", "there is no row in it"},
    {"b.json", "{\"data\": []}", "there is no row in it"},
    {"b.json", "7", "neither a list of rows"},
    {"b.json", "{\"rows\": []}", "no list of rows under \"data\""},
    {"b.json", "{\"data\": 3}", "no list of rows under \"data\""},
    {"b.json", "[\n{\"question\":\"q\",\"golden_answers\":\"a\"}\n{}]",
     "b.json:3: ',' or ']' is missing"},
    {"b.json", "[\n1]", "b.json:2: each row must be an object"},
    {"b.json", "[{\"question\":\"q\",\"golden_answers\":\"a\"}, {}]",
     "b.json:1, row 2: no field 'question'"},
    {"b.json", "[{\"question\":\"q\",\"golden_answers\":\"a\"},\n{}]",
     "b.json:2: no field 'question'"},
    {"b.json", "[{\"question\":\"q\",\"golden_answers\":\"a\"},]",
     "each row must be an object"},
    {"b.json", "[{\"question\":\"q\",\"golden_answers\":\"a\"}", "',' or ']' is missing"},
    {"b.json", "[{\"question\":\"q\"", "the file ends inside a value"},
    {"b.json", "[{\"question\":\"q", "the file ends inside a string"},
    {"b.json", "[{\"question\":\"q\\", "the file ends inside a string"},
    {"b.json", "[{}] x", "text after the end"},
    {"b.json", "{\"data\": [{}]", "not closed"},
    {"b.json", "{\"data\" [{}]}", "':' is missing"},
    {"b.json", "{\"n\": 1 \"data\": [{}]}",
     "b.json:1: ',' is missing between two members"},
    {"b.json", "{\"data\": [{}], }", "b.json:1: a key is missing after ','"},
    {"b.json", "{\"data\": [{\"a\":1]}]}", "b.json:1: ',' or ']' is missing"},
    {"b.json", "[{\"a\":1]]", "b.json:1: column "},
    {"b.csv", "\n\n", "no header row"},
    {"b.csv", "question,golden_answers\n", "there is no row in it"},
    {"b.csv", "q,a\nx,y\n",
     "b.csv:2: no field 'question'; fields are q, a; set question_field"},
    {"b.csv", "question,golden_answers\nx,y\nx\n",
     "b.csv:3: 1 field where the header has 2"},
    {"b.csv", "question,golden_answers\n\"x\ny\",z\na,b,c\n",
     "b.csv:4: 3 fields where the header has 2"},
    {"b.csv", "question,golden_answers\nx,\"y\nz\n", "b.csv:2: a quote is opened"},
    {"b.csv", "question,golden_answers\nx,y\"z\"\n",
     "b.csv:2: row: field 2 has a quote inside"},
    {"b.csv", "question,question\nx,y\n", "two columns are named 'question'"},
    {"b.csv", "question,golden_answers\nx,\x80\n",
     "b.csv:2: column 'golden_answers' is not UTF-8"},
    {"b.csv", "question,\x80\nx,y\n", "the header is not UTF-8"},
    {"b.csv", "question,golden_answers\n,y\n", "b.csv:2: field 'question' is empty"},
    {"b.tsv", "question\tanswer\nq\ta\n\t\n", "b.tsv:3: field 'question' is empty"},
    {"b.parquet", "PAR1", "python3 -m searchr1.parquet "},
    {"b.tab", "question\tanswer\n", "must end in .jsonl, .json, .csv or .tsv"},
    {"noending", "x", "must end in .jsonl, .json, .csv or .tsv"},
    /* a file of another form than its name says, and the remedy */
    {"b.json", "{\"question\":\"q\",\"answer\":\"a\"}\n{\"question\":\"r\"}\n",
     "a file of one object a line is named .jsonl"},
    {"b.jsonl", "[\n {\"question\": \"q\", \"answer\": \"a\"}\n]\n",
     "a list over several lines is named .json"},
    {"b.jsonl", "{\n \"question\": \"q\",\n \"answer\": \"a\"\n}\n",
     "each line of a .jsonl file is one whole object"},
    {"b.jsonl", "[{\"question\":\"q\",\"answer\":\"a\"}]\n",
     "one list of them is named .json"},
    {"b.csv", "question;answer\nWho, then?;a\n",
     "'question;answer'; fields of a .csv file are separated by commas"},
    {"b.csv", "question\tanswer\nq\ta\n", "those of a .tsv file by tabs"},
    {"b.jsonl", "{\"question\":\"K\xf6ln?\",\"answer\":\"a\"}\n",
     "from Latin-1: iconv -f LATIN1 -t UTF-8"},
    {"b.csv", "question,answer\nK\xf6ln?,a\n", "iconv -f LATIN1 -t UTF-8"},
    {"b.jsonl", "\xff\xfe{", "b.jsonl is text in UTF-16, not rows of text; write it"},
    {"b.csv", "\xfe\xff", "iconv -f UTF-16 -t UTF-8"},
};

/* In quotes it is a part of the name; without them the file has other separators. */
static void a_quoted_name_may_have_separators(void **state)
{
    sr1_dataset_options o = {.struct_size = sizeof o,
                             .question_field = "City, country",
                             .answers_optional = 1};
    sr1_dataset *d = NULL;
    sr1_row *row = NULL;

    (void)state;
    if (open_one(&d, scratch_file("q.csv", "\"City, country\"\n\"Riga, Latvia\"\n", 0),
                 &o) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
    assert_string_equal(sr1_row_question(row), "Riga, Latvia");
    sr1_row_free(row);
    sr1_dataset_free(d);
}

static void errors_name_the_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        sr1_dataset *d = NULL;
        sr1_status status = open_one(&d, scratch_file(bad[i].name, bad[i].text, 0), NULL);

        assert_null(d);
        if (status == SR1_OK || !strstr(sr1_last_error(), bad[i].expected))
            fail_msg("%s: '%s', not '%s'", bad[i].text, sr1_last_error(),
                     bad[i].expected);
    }
}

static void bad_files(void **state)
{
    const char *empty = scratch_path("empty.jsonl");
    sr1_dataset *d = NULL;

    (void)state;
    assert_error(open_one(&d, scratch_path("gone.jsonl"), NULL), SR1_E_IO, "gone.jsonl");
    assert_error(open_one(&d, "/tmp/.json", NULL), SR1_E_IO, "/tmp/.json");
    assert_int_equal(sr1__dir_make(scratch_path("folder.csv")), SR1_OK);
    assert_error(open_one(&d, scratch_path("folder.csv"), NULL), SR1_E_IO,
                 "not a regular file");
    assert_int_equal(sr1__file_replace(empty, "", 0), SR1_OK);
    assert_error(open_one(&d, empty, NULL), SR1_E_PARSE, "there is no row");
    assert_error(sr1_dataset_open(&d, NULL, 0, NULL), SR1_E_INVALID, "no file");
    assert_error(
        open_one(&d, scratch_file("nul.jsonl", "{\"question\":\"a\0\"}\n", 18), NULL),
        SR1_E_PARSE, "nul.jsonl:1");
    assert_error(open_one(&d, scratch_file("nul.csv", "question\na\0b\n", 13), NULL),
                 SR1_E_PARSE, "nul.csv:2: row: field 1 holds a NUL");
    assert_null(d);
}

static void options(void **state)
{
    sr1_dataset_options o = {.struct_size = sizeof o,
                             .question_field = "q",
                             .answer_field = "a",
                             .id_field = "key",
                             .source_field = "from"};
    const char *path = scratch_file(
        "o.jsonl", "{\"q\":\"x\",\"a\":1,\"key\":\"k\",\"from\":\"s\"}\n", 0);
    const char *bare = scratch_file("some.set.jsonl", "{\"q\":\"x\"}\nbroken\n", 0);
    sr1_dataset *d = NULL;
    sr1_row *row = NULL;

    (void)state;
    assert_int_equal(open_one(&d, path, &o), SR1_OK);
    assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
    assert_string_equal(sr1_row_id(row), "k");
    assert_string_equal(sr1_row_data_source(row), "s");
    assert_string_equal(sr1_row_answer(row, 0), "1");
    sr1_row_free(row);
    sr1_dataset_free(d);
    d = NULL;
    o.answers_optional = 1;
    assert_error(open_one(&d, bare, &o), SR1_E_PARSE, "some.set.jsonl:2");
    o.skip_check = 1;
    assert_int_equal(open_one(&d, bare, &o), SR1_OK);
    assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
    assert_int_equal(sr1_row_answer_count(row), 0);
    assert_string_equal(sr1_row_data_source(row), "some.set");
    sr1_row_free(row);
    row = NULL;
    assert_error(sr1_dataset_read(d, 1, &row), SR1_E_PARSE, "some.set.jsonl:2");
    assert_null(row);
    sr1_dataset_free(d);
    o.struct_size = 0;
    assert_error(open_one(&d, path, &o), SR1_E_INVALID, "struct_size");
}

/* The column may be one of messages, as where nobody names it. */
static void a_named_column_may_have_messages(void **state)
{
    static const char rows[] =
        "{\"%s\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": "
        "\"user\", \"content\": \"Where?\"}], \"golden_answers\": \"a\"}\n";
    static const char *const columns[] = {"prompt", "asked", "question"};

    (void)state;
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        sr1_dataset_options o = {.struct_size = sizeof o, .question_field = columns[i]};
        sr1_dataset *d = NULL;
        sr1_row *row = NULL;
        char text[300];

        snprintf(text, sizeof text, rows, columns[i]);
        assert_int_equal(open_one(&d, scratch_file("m.jsonl", text, 0), &o), SR1_OK);
        assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
        assert_string_equal(sr1_row_question(row), "Where?");
        assert_int_equal(sr1_row_history_count(row), 1);
        sr1_row_free(row);
        sr1_dataset_free(d);
    }
}

/* What is made of it, names of metrics among others, must be UTF-8. */
static void a_source_is_utf8_whatever_the_file_is_called(void **state)
{
    const char *path = scratch_file("caf\xE9.jsonl",
                                    "{\"question\":\"q\",\"golden_answers\":\"a\"}\n", 0);
    sr1_dataset *d = NULL;
    sr1_row *row = NULL;

    (void)state;
    assert_int_equal(open_one(&d, path, NULL), SR1_OK);
    assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
    assert_string_equal(sr1_row_data_source(row), "caf\xEF\xBF\xBD");
    sr1_row_free(row);
    sr1_dataset_free(d);
}

static void several_files_and_a_shrinking_one(void **state)
{
    char a[600], b[600];
    const char *paths[2] = {a, b};
    sr1_dataset *d = NULL;
    sr1_row *row = NULL;

    (void)state;
    snprintf(a, sizeof a, "%s",
             scratch_file("one.csv", "question,golden_answers\nq0,a\nq1,a\n", 0));
    snprintf(
        b, sizeof b, "%s",
        scratch_file("two.jsonl", "{\"question\":\"q2\",\"golden_answers\":\"a\"}\n", 0));
    assert_int_equal(sr1_dataset_open(&d, paths, 2, NULL), SR1_OK);
    assert_int_equal(sr1_dataset_count(d), 3);
    for (int64_t i = 2; i >= 0; i--) {
        char expected[8];

        snprintf(expected, sizeof expected, "q%d", (int)i);
        assert_int_equal(sr1_dataset_read(d, i, &row), SR1_OK);
        assert_string_equal(sr1_row_question(row), expected);
        assert_string_equal(sr1_row_data_source(row), i == 2 ? "two" : "one");
        sr1_row_free(row);
    }
    assert_int_equal(truncate(b, 5), 0);
    assert_error(sr1_dataset_read(d, 2, &row), SR1_E_IO, "shorter");
    sr1_dataset_free(d);
}

/* n numbered rows, from..from+n. */
static const char *numbered(const char *name, int from, int n)
{
    const char *path = scratch_path(name);
    FILE *f = fopen(path, "w");

    for (int i = from; i < from + n; i++)
        fprintf(f,
                "{\"id\":\"r%d\",\"question\":\"question "
                "%d\",\"golden_answers\":[\"a%d\"]}\n",
                i, i, i);
    fclose(f);
    return path;
}

static void split_parts_are_stable(void **state)
{
    sr1_dataset *small = NULL, *big = NULL;
    char part_of[1000];
    int64_t total = 0;

    (void)state;
    memset(part_of, 9, sizeof part_of);
    assert_int_equal(open_one(&small, numbered("small.jsonl", 0, 1000), NULL), SR1_OK);
    assert_int_equal(open_one(&big, numbered("big.jsonl", -500, 2000), NULL), SR1_OK);
    for (int32_t part = 0; part < 3; part++) {
        sr1_dataset *d = NULL, *b = NULL;
        sr1_row *row = NULL;

        assert_int_equal(sr1_dataset_split(&d, small, 0.1, 0.2, 42, part), SR1_OK);
        total += sr1_dataset_count(d);
        assert_in_range(sr1_dataset_count(d),
                        part == 0   ? 640
                        : part == 1 ? 70
                                    : 160,
                        part == 0   ? 760
                        : part == 1 ? 130
                                    : 240);
        for (int64_t i = 0; i < sr1_dataset_count(d); i++) {
            assert_int_equal(sr1_dataset_read(d, i, &row), SR1_OK);
            part_of[atoi(sr1_row_id(row) + 1)] = (char)part;
            sr1_row_free(row);
        }
        sr1_dataset_free(d);
        assert_int_equal(sr1_dataset_split(&b, big, 0.1, 0.2, 42, part), SR1_OK);
        for (int64_t i = 0; i < sr1_dataset_count(b); i++) {
            int number;

            assert_int_equal(sr1_dataset_read(b, i, &row), SR1_OK);
            number = atoi(sr1_row_id(row) + 1);
            if (number >= 0 && number < 1000 && part_of[number] != part)
                assert_int_equal(part_of[number], 9); /* a later part is not known yet */
            sr1_row_free(row);
        }
        sr1_dataset_free(b);
    }
    assert_int_equal(total, 1000);
    sr1_dataset_free(small);
    sr1_dataset_free(big);
}

static void splits_are_checked(void **state)
{
    static const double bad_pairs[][2] = {
        {-0.1, 0}, {0.5, 0.5}, {1.0, 0}, {0, 2}, {0.0 / 0.0, 0}};
    sr1_dataset *d = NULL, *part = NULL;

    (void)state;
    assert_int_equal(open_one(&d, numbered("s.jsonl", 0, 3), NULL), SR1_OK);
    for (size_t i = 0; i < COUNT(bad_pairs); i++)
        assert_error(sr1_dataset_split(&part, d, bad_pairs[i][0], bad_pairs[i][1], 0, 0),
                     SR1_E_INVALID, "fractions");
    assert_error(sr1_dataset_split(&part, d, 0.1, 0.1, 0, 3), SR1_E_INVALID, "part 3");
    assert_error(sr1_dataset_split(&part, d, 0.0, 0.1, 0, SR1_PART_VALIDATION),
                 SR1_E_INVALID, "no row of 3");
    assert_int_equal(sr1_dataset_split(&part, d, 0.0, 0.0, 0, SR1_PART_TRAIN), SR1_OK);
    sr1_dataset_free(d); /* the part holds the files */
    assert_int_equal(sr1_dataset_count(part), 3);
    sr1_dataset_free(part);
}

static void configured_parts(void **state)
{
    sr1_config *c = NULL;
    sr1_dataset *d = NULL;
    char path[600];
    int64_t train, validation;

    (void)state;
    snprintf(path, sizeof path, "%s", numbered("conf.jsonl", 0, 200));
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_error(sr1__dataset_configured(&d, c, SR1_PART_TRAIN), SR1_E_NOT_FOUND,
                 "set train_file");
    assert_int_equal(sr1_config_set(c, "train_file", path), SR1_OK);
    assert_error(sr1__dataset_configured(&d, c, SR1_PART_VALIDATION), SR1_E_NOT_FOUND,
                 "set validation_file");
    assert_int_equal(sr1__dataset_configured(&d, c, SR1_PART_TRAIN), SR1_OK);
    assert_int_equal(sr1_dataset_count(d), 200);
    sr1_dataset_free(d);
    assert_int_equal(sr1_config_set(c, "validation_split", "0.25"), SR1_OK);
    assert_int_equal(sr1__dataset_configured(&d, c, SR1_PART_TRAIN), SR1_OK);
    train = sr1_dataset_count(d);
    sr1_dataset_free(d);
    assert_int_equal(sr1__dataset_configured(&d, c, SR1_PART_VALIDATION), SR1_OK);
    validation = sr1_dataset_count(d);
    sr1_dataset_free(d);
    assert_int_equal(train + validation, 200);
    assert_int_equal(sr1_config_set(c, "question_field", "query"), SR1_OK);
    assert_error(sr1__dataset_configured(&d, c, SR1_PART_TRAIN), SR1_E_PARSE,
                 "set question_field");
    sr1_config_free(c);
}

/* Files of a list are one data set, in the order of the list. */
static void configured_lists(void **state)
{
    sr1_config *c = NULL;
    sr1_dataset *d = NULL;
    char a[600], b[600], list[1300];
    const char *ids[] = {"r5", "r6", "r0", "r1", "r2"};

    (void)state;
    snprintf(a, sizeof a, "%s", numbered("list-a.jsonl", 5, 2));
    snprintf(b, sizeof b, "%s", numbered("list-b.jsonl", 0, 3));
    snprintf(list, sizeof list, "%s, %s", a, b);
    assert_int_equal(sr1_config_new(&c), SR1_OK);
    for (int32_t part = SR1_PART_TRAIN; part <= SR1_PART_TEST; part++) {
        static const char *const keys[] = {"train_file", "validation_file", "test_file"};

        assert_int_equal(sr1_config_set(c, keys[part], list), SR1_OK);
        assert_int_equal(sr1__dataset_configured(&d, c, part), SR1_OK);
        assert_int_equal(sr1_dataset_count(d), COUNT(ids));
        for (size_t i = 0; i < COUNT(ids); i++) {
            sr1_row *row = NULL;

            assert_int_equal(sr1_dataset_read(d, (int64_t)i, &row), SR1_OK);
            assert_string_equal(sr1_row_id(row), ids[i]);
            assert_string_equal(sr1_row_data_source(row), i < 2 ? "list-a" : "list-b");
            sr1_row_free(row);
        }
        sr1_dataset_free(d);
    }
    snprintf(list, sizeof list, "%s,%s", a,
             scratch_file("list-bad.jsonl",
                          "{\"question\": \"a\", \"golden_answers\": \"b\"}\n"
                          "{\"x\": 1}\n",
                          0));
    assert_int_equal(sr1_config_set(c, "train_file", list), SR1_OK);
    assert_error(sr1__dataset_configured(&d, c, SR1_PART_TRAIN), SR1_E_PARSE,
                 "list-bad.jsonl:2: no field 'question'");
    assert_int_equal(sr1_config_set(c, "train_file", "a.jsonl,,b.jsonl"), SR1_OK);
    assert_error(sr1_config_validate(c), SR1_E_CONFIG, "train_file names no file");
    sr1_config_free(c);
}

/* 200,000 rows: some 36 MiB on disk, a few MiB in memory. */
static void streaming_is_bounded(void **state)
{
    enum { ROWS = 200000 };
    static char filler[128];
    const char *path = scratch_path("long.jsonl");
    FILE *f = fopen(path, "w");
    struct sr1__rng rng;
    sr1_dataset *d = NULL;
    int64_t before;

    (void)state;
    memset(filler, 'x', sizeof filler - 1);
    for (int i = 0; i < ROWS; i++)
        fprintf(f,
                "{\"id\":%d,\"question\":\"q%d\",\"golden_answers\":[\"%d\"],\"text\":\"%"
                "s\"}\n",
                i, i, i, filler);
    assert_int_equal(fclose(f), 0);
    before = sr1__rss_bytes();
    assert_int_equal(open_one(&d, path, NULL), SR1_OK);
    assert_int_equal(sr1_dataset_count(d), ROWS);
    sr1__rng_seed(&rng, 1, 1);
    for (int i = 0; i < 2000; i++) {
        int64_t index = (int64_t)sr1__rng_below(&rng, ROWS);
        sr1_row *row = NULL;

        assert_int_equal(sr1_dataset_read(d, index, &row), SR1_OK);
        assert_int_equal(atoi(sr1_row_id(row)), index);
        assert_int_equal(atoi(sr1_row_answer(row, 0)), index);
        sr1_row_free(row);
    }
#ifndef SANITIZED /* its quarantine keeps freed memory */
    assert_true(sr1__rss_bytes() - before < 8 << 20);
#else
    (void)before;
#endif
    sr1_dataset_free(d);
    unlink(path);
}

static void rows_are_bounded(void **state)
{
    size_t n = (17u << 20);
    char *big = malloc(n);
    sr1_dataset *d = NULL;

    (void)state;
    memset(big, 'x', n);
    memcpy(big, "{\"question\":\"", 13);
    assert_error(open_one(&d, scratch_file("huge.jsonl", big, n), NULL), SR1_E_LIMIT,
                 "huge.jsonl:1: a row above 16 MiB");
    memcpy(big, "question\n\"xxxxxxx", 17);
    assert_error(open_one(&d, scratch_file("huge.csv", big, n), NULL), SR1_E_LIMIT,
                 "huge.csv:2: a row above 16 MiB; is a quote");
    memset(big, 'x', n);
    memcpy(big, "[\n{\"question\":\"", 15);
    memcpy(big + n - 24, "\",\"golden_answers\":\"a\"}]", 24);
    assert_error(open_one(&d, scratch_file("huge.json", big, n), NULL), SR1_E_LIMIT,
                 "huge.json:2: a row above 16 MiB");
    memset(big, '[', n);
    big[0] = '[';
    big[1] = '{';
    assert_error(open_one(&d, scratch_file("huge.json", big, n), NULL), SR1_E_PARSE,
                 "huge.json:1");
    free(big);
    unlink(scratch_path("huge.jsonl"));
    unlink(scratch_path("huge.csv"));
    unlink(scratch_path("huge.json"));
}

static void every_truncation(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        size_t n = strlen(forms[i][1]);

        for (size_t cut = 1; cut < n; cut++) {
            sr1_dataset *d = NULL;
            const char *path = scratch_file(forms[i][0], forms[i][1], cut);

            sr1_set_error(SR1_OK, "");
            if (open_one(&d, path, NULL) == SR1_OK)
                assert_in_range(sr1_dataset_count(d), 1, 2);
            else
                assert_non_null(strstr(sr1_last_error(), path));
            sr1_dataset_free(d);
        }
    }
}

static sr1_status use(void *arg)
{
    const char *path = arg;
    sr1_dataset *d = NULL, *part = NULL;
    sr1_row *row = NULL;
    char *json = NULL;
    sr1_status status = open_one(&d, path, NULL);

    if (status == SR1_OK)
        status = sr1_dataset_split(&part, d, 0.0, 0.0, 1, SR1_PART_TRAIN);
    if (status == SR1_OK)
        status = sr1_dataset_read(part, 0, &row);
    if (status == SR1_OK)
        status = sr1_row_json(row, &json);
    sr1_free(json);
    sr1_row_free(row);
    sr1_dataset_free(part);
    sr1_dataset_free(d);
    return status;
}

static void memory_may_fail(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char path[600];

        snprintf(path, sizeof path, "%s", scratch_file(forms[i][0], forms[i][1], 0));
        assert_true(torture(use, path) > 30);
    }
}

/* ---- records of Search-R1's published code ---- */

struct paths {
    char from[1024], to[1024];
};

static sr1_status write_records(void *arg)
{
    sr1_record_options o = {sizeof o, "nq", "test"};
    const struct paths *p = arg;
    sr1_dataset *d = NULL;
    sr1_status status = open_one(&d, p->from, NULL);

    if (status == SR1_OK)
        status = sr1_dataset_write_records(d, p->to, &o);
    sr1_dataset_free(d);
    return status;
}

static void names_of_records_are_utf8(void **state)
{
    sr1_record_options o = {sizeof o, "n\x80q", "test"};
    const char *to = scratch_path("none.jsonl");
    sr1_dataset *d = NULL;

    (void)state;
    assert_int_equal(
        open_one(&d,
                 scratch_file("q.jsonl",
                              "{\"question\": \"q\", \"golden_answers\": \"a\"}", 0),
                 NULL),
        SR1_OK);
    assert_error(sr1_dataset_write_records(d, to, &o), SR1_E_INVALID,
                 "data_source is not UTF-8");
    o.data_source = NULL;
    o.split = "\xff";
    assert_error(sr1_dataset_write_records(d, to, &o), SR1_E_INVALID,
                 "split is not UTF-8");
    assert_false(sr1__path_exists(to));
    sr1_dataset_free(d);
}

static sr1_status read_records(void *arg)
{
    const struct paths *p = arg;
    sr1_dataset *d = NULL;
    sr1_row *row = NULL;
    sr1_status status = open_one(&d, p->to, NULL);

    if (status == SR1_OK)
        status = sr1_dataset_read(d, 0, &row);
    sr1_row_free(row);
    sr1_dataset_free(d);
    return status;
}

static void make_paths(struct paths *p)
{
    snprintf(p->to, sizeof p->to, "%s", scratch_file("records.jsonl", "old", 0));
    snprintf(p->from, sizeof p->from, "%s",
             scratch_file("plain.jsonl",
                          "{\"question\": \" who \\\"is\\\" it \", "
                          "\"golden_answers\": [\"Ann\", \"B\"]}\n"
                          "{\"question\": \"and this?\", \"golden_answers\": \"C\"}\n",
                          0));
}

static void records_are_written(void **state)
{
    static const char begins[] =
        "{\"data_source\":\"nq\",\"prompt\":[{\"role\":\"user\",\"content\":\"Answer the";
    static const char ends[] =
        "Question: who \\\"is\\\" it?\\n\"}],\"ability\":\"fact-reasoning\","
        "\"reward_model\":{\"style\":\"rule\",\"ground_truth\":{\"target\":[\"Ann\","
        "\"B\"]}},\"extra_info\":{\"split\":\"test\",\"index\":0}}\n{\"data_source\"";
    struct paths p;
    struct sr1__buf b;

    (void)state;
    make_paths(&p);
    if (write_records(&p) != SR1_OK)
        fail_msg("%s", sr1_last_error());
    assert_int_equal(sr1__file_read(p.to, 1 << 20, &b), SR1_OK);
    assert_memory_equal(sr1__buf_cstr(&b), begins, strlen(begins));
    assert_non_null(strstr(sr1__buf_cstr(&b), ends));
    assert_non_null(strstr(sr1__buf_cstr(&b), "\"target\":[\"C\"]"));
    assert_non_null(strstr(sr1__buf_cstr(&b), "\"index\":1}}\n"));
    for (int64_t n = 1; n < 200; n++) { /* all of it, or an error */
        int64_t live = sr1__mem_live();
        struct sr1__buf again;
        sr1_status status;

        sr1__mem_fail_at(n);
        status = write_records(&p);
        sr1__mem_fail_at(0);
        if (sr1__mem_live() != live)
            fail_msg("allocation %d: leaks", (int)n);
        assert_true(status == SR1_OK || status == SR1_E_NOMEM);
        assert_int_equal(sr1__file_read(p.to, 1 << 20, &again), SR1_OK);
        assert_int_equal(again.len, b.len);
        assert_memory_equal(again.data, b.data, b.len);
        sr1__buf_free(&again);
    }
    sr1__buf_free(&b);
    snprintf(p.to, sizeof p.to, "%s", p.from);
    assert_error(write_records(&p), SR1_E_INVALID, "same file as the input");
    snprintf(p.to, sizeof p.to, "/no/such/folder/records.jsonl");
    assert_error(write_records(&p), SR1_E_IO, "/no/such/folder");
}

static void records_are_read(void **state)
{
    static const char other[] =
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"just ask\"}], "
        "\"reward_model\": {\"ground_truth\": {\"target\": \"one\"}}}\n";
    static const char verls[] =
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"2 + 2?\"}], "
        "\"reward_model\": {\"style\": \"rule\", \"ground_truth\": \"4\"}}\n";
    sr1_dataset *d = NULL;
    sr1_row *row = NULL;
    struct paths p;

    (void)state;
    make_paths(&p);
    assert_int_equal(write_records(&p), SR1_OK);
    assert_int_equal(open_one(&d, p.to, NULL), SR1_OK);
    assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
    assert_string_equal(sr1_row_question(row), "who \"is\" it?");
    assert_string_equal(sr1_row_data_source(row), "nq");
    assert_int_equal(sr1_row_answer_count(row), 2);
    assert_string_equal(sr1_row_answer(row, 1), "B");
    sr1_row_free(row);
    sr1_dataset_free(d);
    assert_true(torture(read_records, &p) > 30);
    assert_int_equal(open_one(&d, scratch_file("other.jsonl", other, 0), NULL), SR1_OK);
    assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
    assert_string_equal(sr1_row_question(row), "just ask");
    assert_string_equal(sr1_row_answer(row, 0), "one");
    sr1_row_free(row);
    sr1_dataset_free(d);
    assert_int_equal(open_one(&d, scratch_file("verls.jsonl", verls, 0), NULL), SR1_OK);
    assert_int_equal(sr1_dataset_read(d, 0, &row), SR1_OK);
    assert_string_equal(sr1_row_answer(row, 0), "4");
    sr1_row_free(row);
    sr1_dataset_free(d);
}

/* Training by these files, and a key "KEY=VALUE" (NULL: none), uses questions want[n]; n
 * 0: it is refused with the text want[0]. */
static void check_order(const char *files, const char *pair, const char *const *want,
                        size_t n)
{
    sr1_config *c = NULL;
    sr1_dataset *d = NULL;

    assert_int_equal(sr1_config_new(&c), SR1_OK);
    assert_int_equal(sr1_config_set(c, "train_file", files), SR1_OK);
    if (pair) {
        char key[32];
        size_t len = strcspn(pair, "=");

        snprintf(key, sizeof key, "%.*s", (int)len, pair);
        assert_int_equal(sr1_config_set(c, key, pair + len + 1), SR1_OK);
    }
    assert_int_equal(sr1__dataset_configured(&d, c, SR1_PART_TRAIN), SR1_OK);
    if (n == 0) {
        assert_true(sr1__dataset_mix(d, c) != SR1_OK);
        assert_non_null(strstr(sr1_last_error(), want[0]));
    } else {
        assert_int_equal(sr1__dataset_mix(d, c), SR1_OK);
        assert_int_equal(sr1_dataset_count(d), n);
    }
    for (size_t i = 0; i < n; i++) {
        sr1_row *row = NULL;

        assert_int_equal(sr1_dataset_read(d, (int64_t)i, &row), SR1_OK);
        assert_string_equal(sr1_row_question(row), want[i]);
        sr1_row_free(row);
    }
    sr1_dataset_free(d);
    sr1_config_free(c);
}

static void files_have_weights_and_rows_grades(void **state)
{
    char files[1200];
    const char *a = scratch_file("w1.jsonl",
                                 "{\"question\":\"a\",\"answer\":\"1\",\"level\":2}\n"
                                 "{\"question\":\"b\",\"answer\":\"1\",\"level\":0.5}\n",
                                 0);
    const char *b = scratch_file("w2.csv", "question,answer,level\nc,1,1\nd,1,2\n", 0);

    (void)state;
    snprintf(files, sizeof files, "%s,%s", a, b);
    check_order(files, "train_weights=1,3",
                (const char *[]){"a", "b", "c", "d", "c", "d", "c", "d"}, 8);
    check_order(files, "curriculum_field=level", (const char *[]){"b", "c", "a", "d"}, 4);
    check_order(files, NULL, (const char *[]){"a", "b", "c", "d"}, 4);
    check_order(files, "train_weights=2",
                (const char *[]){"1 number, and train_file 2 files"}, 0);
    check_order(files, "train_weights=0,1",
                (const char *[]){"'0' is no whole number from 1 to 1000"}, 0);
    check_order(
        files, "curriculum_field=hard",
        (const char *[]){"w1.jsonl:1: field 'hard' (curriculum_field) is no number: the "
                         "row has no field of this name"},
        0);
    check_order(
        files, "curriculum_field=question",
        (const char *[]){"w1.jsonl:1: field 'question' (curriculum_field) is no number"},
        0);
    assert_null(strstr(sr1_last_error(), "no field of this name"));
}

/* The real question sets, where they are at hand; else one of ours. */
static void real_questions(void **state)
{
    static const struct {
        const char *path, *answer_field;
        int64_t rows;
    } sets[] = {{"squad/dev.jsonl", "golden_answers", 3892},
                {"hotpotqa/dev500.jsonl", "golden_answers", 500},
                {"nq/NQ-open.dev.first2406.jsonl", "answer", 2406}};
    const char *src = getenv("SR1_SRC");
    char path[1024];

    (void)state;
    snprintf(path, sizeof path, "%s/../shared/data", src ? src : ".");
    if (!sr1__path_is_dir(path)) {
        use((void *)(uintptr_t)numbered("ours.jsonl", 0, 100));
        return;
    }
    for (size_t i = 0; i < COUNT(sets); i++) {
        sr1_dataset_options o = {.struct_size = sizeof o,
                                 .answer_field = sets[i].answer_field};
        sr1_dataset *d = NULL;

        snprintf(path, sizeof path, "%s/../shared/data/%s", src ? src : ".",
                 sets[i].path);
        if (open_one(&d, path, &o) != SR1_OK)
            fail_msg("%s", sr1_last_error());
        assert_int_equal(sr1_dataset_count(d), sets[i].rows);
        sr1_dataset_free(d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_the_same_rows),
        cmocka_unit_test(text_like_a_list_is_an_answer),
        cmocka_unit_test(python_lists_are_read_in_cells),
        cmocka_unit_test(nested_answers_are_found),
        cmocka_unit_test(rows_as_published_are_read),
        cmocka_unit_test(the_published_sets_are_read),
        cmocka_unit_test(a_first_column_may_have_no_name),
        cmocka_unit_test(packed_files_are_read),
        cmocka_unit_test(files_have_weights_and_rows_grades),
        cmocka_unit_test(too_many_aliases_are_refused),
        cmocka_unit_test(numbers_beyond_64_bits_are_refused),
        cmocka_unit_test(numbers_are_taken_as_they_are_meant),
        cmocka_unit_test(errors_name_the_place),
        cmocka_unit_test(a_quoted_name_may_have_separators),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(options),
        cmocka_unit_test(a_named_column_may_have_messages),
        cmocka_unit_test(a_source_is_utf8_whatever_the_file_is_called),
        cmocka_unit_test(several_files_and_a_shrinking_one),
        cmocka_unit_test(split_parts_are_stable),
        cmocka_unit_test(splits_are_checked),
        cmocka_unit_test(configured_parts),
        cmocka_unit_test(configured_lists),
        cmocka_unit_test(streaming_is_bounded),
        cmocka_unit_test(rows_are_bounded),
        cmocka_unit_test(every_truncation),
        cmocka_unit_test(memory_may_fail),
        cmocka_unit_test(records_are_written),
        cmocka_unit_test(names_of_records_are_utf8),
        cmocka_unit_test(records_are_read),
        cmocka_unit_test(real_questions),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
