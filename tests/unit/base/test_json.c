/* JSON and YAML: the same values, errors with their line, what is refused by name. */
#include "../../support/torture.h"
#include "../../support/files.h"

#include "base/json.h"

#include <malloc.h>
#include <math.h>

/* expected: compact JSON, or for failures a part of the error. */
struct fixture {
    const char *text;
    const char *expected;
};

static void check_good(const struct fixture *f, size_t n,
                       sr1_status (*parse)(json_t **, const char *, size_t, const char *))
{
    for (size_t i = 0; i < n; i++) {
        struct sr1__buf b;
        json_t *j = NULL;

        if (parse(&j, f[i].text, strlen(f[i].text), "t") != SR1_OK)
            fail_msg("%s: %s", f[i].text, sr1_last_error());
        sr1__buf_init(&b, 0);
        assert_int_equal(sr1__json_dump(j, 0, &b), SR1_OK);
        assert_string_equal(sr1__buf_cstr(&b), f[i].expected);
        sr1__buf_free(&b);
        json_decref(j);
    }
}

static void check_bad(const struct fixture *f, size_t n,
                      sr1_status (*parse)(json_t **, const char *, size_t, const char *))
{
    for (size_t i = 0; i < n; i++) {
        json_t *j = NULL;

        if (parse(&j, f[i].text, strlen(f[i].text), "name") != SR1_E_PARSE)
            fail_msg("accepted: %s", f[i].text);
        assert_null(j);
        if (strncmp(sr1_last_error(), "name: ", 6) ||
            !strstr(sr1_last_error(), f[i].expected))
            fail_msg("'%s' instead of '%s'", sr1_last_error(), f[i].expected);
    }
}

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void good_json(void **state)
{
    static const struct fixture rows[] = {
        {"{\"b\":1,\"a\":[true,null,-2.5]}", "{\"b\":1,\"a\":[true,null,-2.5]}"},
        {"\xef\xbb\xbf 7", "7"},
        {"9223372036854775807", "9223372036854775807"},
        {"1.0", "1.0"},
        {"1e2", "100.0"},
        {"0.1", "0.10000000000000001"},
        {"\"a\\u0000b\"", "\"a\\u0000b\""},
        {"\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\""},
    };

    (void)state;
    check_good(rows, COUNT(rows), sr1__json_parse);
}

static void bad_json(void **state)
{
    static const struct fixture rows[] = {
        {"", "line 1"},
        {"{\n\"a\": 1,\n}", "line 3"},
        {"{\"a\": 1", "line 1"},
        {"[1, 2\n,\n 3", "line 3"},
        {"{\"a\":1,\"a\":2}", "duplicate"},
        {"\"\\ud800\"", "line 1"},
        {"\"\x80\"", "line 1"},
        {"9223372036854775808", "line 1"},
        {"1e999", "line 1"},
        {"NaN", "line 1"},
        {"1 2", "line 1"},
        {"{'a':1}", "line 1"},
    };

    (void)state;
    check_bad(rows, COUNT(rows), sr1__json_parse);
}

static void good_yaml(void **state)
{
    static const struct fixture rows[] = {
        {"", "null"},
        {"# only a comment\n", "null"},
        {"a: 1\nb: [x, 'y', \"z\"]\nc:\n  d: ~\n  e:\n",
         "{\"a\":1,\"b\":[\"x\",\"y\",\"z\"],\"c\":{\"d\":null,\"e\":null}}"},
        {"lr: 1e-5", "{\"lr\":1.0000000000000001e-5}"},
        {"- true\n- False\n- NULL\n- yes\n- 'true'\n",
         "[true,false,null,\"yes\",\"true\"]"},
        {"[0xfffffffffffffffff.g, 0o8, 0x, 0x7fffffffffffffff]",
         "[\"0xfffffffffffffffff.g\",\"0o8\",\"0x\",9223372036854775807]"},
        {"[0x1F, 0o17, 017, +3, -4, .5, 2., 1e3, 1_000]",
         "[31,15,17,3,-4,0.5,2.0,1000.0,\"1_000\"]"},
        {"---\na: b\n...\n", "{\"a\":\"b\"}"},
        {"a: |\n  one\n  two\n", "{\"a\":\"one\\ntwo\\n\"}"},
        {"\xef\xbb\xbf"
         "a: \xe6\x9c\xaa\r\nb: 1\r\n",
         "{\"a\":\"\xe6\x9c\xaa\",\"b\":1}"},
        {"1: x", "{\"1\":\"x\"}"},
        {"\"<<\": x", "{\"<<\":\"x\"}"},
        {"a: \"x\\0y\"", "{\"a\":\"x\\u0000y\"}"},
        {"{\"a\": [1, 2]}", "{\"a\":[1,2]}"},
        {"a: {}\nb: []", "{\"a\":{},\"b\":[]}"},
    };
    struct fixture exponent = rows[3];
    json_t *j = NULL;

    (void)state;
    check_good(rows, 3, sr1__yaml_parse);
    check_good(rows + 4, COUNT(rows) - 4, sr1__yaml_parse);
    assert_int_equal(sr1__yaml_parse(&j, exponent.text, strlen(exponent.text), "t"),
                     SR1_OK);
    assert_true(json_real_value(json_object_get(j, "lr")) == 1e-5);
    json_decref(j);
}

static void bad_yaml(void **state)
{
    static const struct fixture rows[] = {
        {"a: 1\nb: 2\na: 3\n", "line 3: key 'a' is given twice"},
        {"a: 0x10000000000000000\n", "line 1: an integer beyond 64 bits"},
        {"a: 1\nb: 0o7777777777777777777777\n", "line 2: an integer beyond 64 bits"},
        {"a: &x 1\n", "line 1: anchors"},
        {"a: 1\nb: *x\n", "line 2: aliases"},
        {"a: !!int 1\n", "line 1: tags"},
        {"a:\n  - !foo [1]\n", "line 2: tags"},
        {"a: &x {b: 1}\n", "anchors"},
        {"a:\n  <<: {b: 1}\n", "line 2: merge keys"},
        {"a: 1\n---\nb: 2\n", "line 2: a second document"},
        {"? [1, 2]\n: x\n", "line 1: a key must be a plain name"},
        {"a: 1\nb: [1, 2\n", "line 3"},
        {"a: 1\n  b: 2\n", "line 2"},
        {"a: 'x\n", "line"},
        {"a: 99999999999999999999\n", "line 1: an integer beyond 64 bits"},
        {"x: 1\ny: .inf\n", "line 2: infinite"},
        {"y: .NaN\n", "not-a-number"},
        {"a: \x80\n", "byte 3"},
        {"a: \x01\n", "name: "},
        {"\t- a\n", "line 1"},
        {"\"a\\0b\": 1", "a NUL"},
    };
    char deep[400];
    json_t *j = NULL;

    (void)state;
    check_bad(rows, COUNT(rows), sr1__yaml_parse);
    memset(deep, '[', 100);
    memset(deep + 100, ']', 100);
    assert_int_equal(sr1__yaml_parse(&j, deep, 200, "name"), SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "nested deeper than 64"));
    assert_int_equal(sr1__yaml_parse(&j, deep + 40, 120, "name"), SR1_OK);
    json_decref(j);
    memset(deep, 'k', 300);
    memcpy(deep + 300, ": 1", 4);
    assert_int_equal(sr1__yaml_parse(&j, deep, 303, "name"), SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "longer than 255"));
}

static void members(void **state)
{
    json_t *o = NULL;
    const char *s = NULL;
    int64_t i = 0;
    double d = 0.0;

    (void)state;
    assert_int_equal(sr1__yaml_parse(&o, "s: x\ni: 3\nr: 1.5\n", 17, "t"), SR1_OK);
    assert_int_equal(sr1__json_get_str(o, "s", &s), SR1_OK);
    assert_string_equal(s, "x");
    assert_int_equal(sr1__json_get_int(o, "i", &i), SR1_OK);
    assert_int_equal(sr1__json_get_num(o, "i", &d), SR1_OK);
    assert_true(d == 3.0);
    assert_int_equal(sr1__json_get_num(o, "r", &d), SR1_OK);
    assert_int_equal(sr1__json_get_int(o, "r", &i), SR1_E_PARSE);
    assert_string_equal(sr1_last_error(), "'r' is a real number, not an integer");
    assert_int_equal(sr1__json_get_str(o, "gone", &s), SR1_E_PARSE);
    assert_string_equal(sr1_last_error(), "'gone' is missing");
    assert_int_equal(sr1__json_get_num(o, "s", &d), SR1_E_PARSE);
    assert_int_equal(sr1__json_get_str(NULL, "s", &s), SR1_E_PARSE);
    assert_int_equal(sr1__json_get_str(json_object_get(o, "i"), "s", &s), SR1_E_PARSE);
    assert_int_equal(i, 3);
    json_decref(o);
}

static void numbers_keep_their_kind(void **state)
{
    static const struct {
        double v;
        json_type type;
    } rows[] = {{1.0, JSON_INTEGER},   {-0.5, JSON_REAL},  {NAN, JSON_NULL},
                {INFINITY, JSON_NULL}, {1e300, JSON_REAL}, {0.0, JSON_INTEGER}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        json_t *j = sr1__json_number(rows[i].v);

        assert_int_equal(json_typeof(j), rows[i].type);
        if (json_is_number(j))
            assert_true(json_number_value(j) == rows[i].v);
        json_decref(j);
    }
}

static void files_by_ending(void **state)
{
    const char *json = scratch_file("a.json", "{\"a\": 1}", 0);
    const char *yaml = scratch_file("a.yaml", "a: 1", 0);
    const char *saved = scratch_path("saved.json");
    json_t *a = NULL, *b = NULL;

    (void)state;
    assert_int_equal(sr1__json_load(&a, json, 0), SR1_OK);
    assert_int_equal(sr1__json_save(a, 2, saved), SR1_OK);
    assert_int_equal(sr1__json_load(&b, saved, 100), SR1_OK);
    assert_true(json_equal(a, b));
    json_decref(b);
    b = NULL;
    assert_int_equal(sr1__json_load(&b, saved, 4), SR1_E_LIMIT);
    assert_int_equal(sr1__json_load(&b, yaml, 0), SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "a.yaml: line 1"));
    assert_null(b);
    json_decref(a);
}

/* begin, then n times the piece (its number in place of %zu) with commas between, end. */
static struct sr1__buf repeat_json(const char *begin, const char *piece, size_t n,
                                   const char *end)
{
    const char *number = strstr(piece, "%zu");
    size_t before = number ? (size_t)(number - piece) : strlen(piece);
    struct sr1__buf b;

    sr1__buf_init(&b, 0);
    sr1__buf_str(&b, begin);
    for (size_t i = 0; i < n; i++) {
        sr1__buf_str(&b, i ? "," : "");
        sr1__buf_add(&b, piece, before);
        if (number)
            sr1__buf_fmt(&b, "%zu%s", i, number + 3);
    }
    sr1__buf_str(&b, end);
    assert_int_equal(b.status, SR1_OK);
    return b;
}

/* What the values of a text fill is measured by the C library's own count. */
static size_t bytes_in_use(void)
{
    struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

static void what_values_fill_is_known_before(void **state)
{
    static const char *const rows[][3] = {
        {"[", "{}", "]"},
        {"[", "[]", "]"},
        {"[", "1", "]"},
        {"[", "[1]", "]"},
        {"[", "1.5", "]"},
        {"[", "\"\"", "]"},
        {"[", "\"a text of some forty characters, no more\"", "]"},
        {"[", "[[[[]]]]", "]"},
        {"[", "{\"\":1}", "]"},
        {"[", "{\"a\":{\"b\":[1,\"c\"]}}", "]"},
        {"[", "{\"1\":1,\"2\":2,\"3\":3,\"4\":4,\"5\":5,\"6\":6,\"7\":7,\"8\":8}", "]"},
        {"{", "\"%zu\":1", "}"},
        {"{", "\"%zu\":\"\"", "}"},
        {"{", "\"%zu\":[]", "}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t n = 1; n < 70000; n = 8 * n + 1) {
            struct sr1__buf b = repeat_json(rows[i][0], rows[i][1], n, rows[i][2]);
            size_t before = bytes_in_use(), filled;
            json_t *j = NULL;

            assert_int_equal(sr1__json_parse(&j, b.data, b.len, "t"), SR1_OK);
            filled = bytes_in_use() - before;
            if (filled > sr1__json_memory(b.data, b.len))
                fail_msg("%zu times %s: %zu bytes, not %zu", n, rows[i][1], filled,
                         sr1__json_memory(b.data, b.len));
            json_decref(j);
            sr1__buf_free(&b);
        }
}

static void many_values_are_refused(void **state)
{
    static const char *const pieces[] = {"{}", "[]", "{\"\":0}", "[[]]", "1", "\"\""};

    (void)state;
    for (size_t i = 0; i < COUNT(pieces); i++) {
        struct sr1__buf b = repeat_json("[", pieces[i], (size_t)10 << 20, "]");
        json_t *j = NULL;

        assert_int_equal(sr1__json_parse(&j, b.data, b.len, "the answer"), SR1_E_LIMIT);
        assert_non_null(strstr(sr1_last_error(), "the answer: its values would fill"));
        assert_non_null(strstr(sr1_last_error(), "ask for fewer"));
        assert_int_equal(sr1__json_parse_loose(&j, b.data, b.len, NULL), SR1_E_LIMIT);
        assert_non_null(strstr(sr1_last_error(), "the row: its values"));
        assert_null(j);
        sr1__buf_free(&b);
    }
}

/* What large texts of real files and servers are made of takes at most half of it. */
static void what_is_common_is_well_within(void **state)
{
    static const struct {
        const char *begin, *piece;
        size_t n;
        const char *end;
    } rows[] = {
        /* a vocabulary and merges of tokenizer.json, in both forms */
        {"{\"model\":{\"vocab\":{", "\"\u0120token%zu\": 1", 300000, "}}}"},
        {"{\"merges\":[", "\"\u0120tok en%zu\"", 300000, "]}"},
        {"{\"merges\":[", "[\n        \"\u0120tok\",\n        \"en%zu\"\n      ]", 300000,
         "]}"},
        /* the header of a safetensors file, and an index of many */
        {"{",
         "\"model.layers.%zu.mlp.experts.3.up_proj.weight\":{\"dtype\":\"BF16\","
         "\"shape\":"
         "[4096,1024],\"data_offsets\":[123456789,132456789]}",
         50000, "}"},
        {"{\"weight_map\":{",
         "\"model.layers.%zu.mlp.experts.3.up_proj.weight\": "
         "\"model-00001-of-00163.safetensors\"",
         300000, "}}"},
        /* hits, ids of tokens, log-probs, an embedding */
        {"{\"result\":[[",
         "{\"document\":{\"id\":\"%zu\",\"contents\":\"\\\"Title\\\"\\nA passage of a "
         "hundred words would be longer than this one is.\"},\"score\":9.5}",
         100000, "]]}"},
        {"{\"token_ids\":[", "%zu", 1000000, "]}"},
        {"{\"content\":[",
         "{\"token\": \" tok\", \"logprob\": -0.123456, \"bytes\": [32, 116, 111, 107], "
         "\"top_logprobs\": []}",
         65536, "]}"},
        {"{\"embedding\":[", "-0.01234567", 1000000, "]}"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sr1__buf b =
            repeat_json(rows[i].begin, rows[i].piece, rows[i].n, rows[i].end);

        if (sr1__json_memory(b.data, b.len) > SR1__JSON_MEMORY_MAX(b.len) / 2)
            fail_msg("%s: %zu of %zu", rows[i].piece, sr1__json_memory(b.data, b.len),
                     SR1__JSON_MEMORY_MAX(b.len));
        sr1__buf_free(&b);
    }
}

static void a_bounded_buffer_bounds_a_dump(void **state)
{
    json_t *j = json_string("0123456789");
    struct sr1__buf b;

    (void)state;
    sr1__buf_init(&b, 5);
    assert_int_equal(sr1__json_dump(j, 0, &b), SR1_E_LIMIT);
    sr1__buf_free(&b);
    json_decref(j);
}

static const char torture_text[] =
    "{\"a\": [1, 2.5, \"x\", {\"b\": null}], \"c\": \"\\u00e9\"}";

static sr1_status read_json(void *arg)
{
    json_t *j = NULL;
    struct sr1__buf b;
    sr1_status status;

    (void)arg;
    SR1__TRY(sr1__json_parse(&j, torture_text, strlen(torture_text), "t"));
    sr1__buf_init(&b, 0);
    status = sr1__json_dump(j, 2, &b);
    sr1__buf_free(&b);
    json_decref(j);
    return status;
}

static sr1_status read_yaml(void *arg)
{
    json_t *j = NULL;

    (void)arg;
    SR1__TRY(sr1__yaml_parse(&j, torture_text, strlen(torture_text), "t"));
    json_decref(j);
    return SR1_OK;
}

static sr1_status read_string(void *text)
{
    json_t *j = NULL;

    SR1__TRY(sr1__json_parse(&j, text, strlen(text), "t"));
    json_decref(j);
    return SR1_OK;
}

/* Strings whose closing quote makes the parser's buffer grow are among these lengths. */
static void memory_may_fail_at_a_quote(void **state)
{
    char text[160];

    (void)state;
    for (size_t n = 0; n < 140; n++) {
        memset(text, 'x', sizeof text);
        text[0] = text[n + 1] = '"';
        text[n + 2] = '\0';
        assert_true(torture(read_string, text) >= 3);
    }
}

static void memory_may_fail(void **state)
{
    (void)state;
    assert_true(torture(read_json, NULL) > 10);
    assert_true(torture(read_yaml, NULL) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_json),
        cmocka_unit_test(bad_json),
        cmocka_unit_test(good_yaml),
        cmocka_unit_test(bad_yaml),
        cmocka_unit_test(members),
        cmocka_unit_test(numbers_keep_their_kind),
        cmocka_unit_test(files_by_ending),
        cmocka_unit_test(what_values_fill_is_known_before),
        cmocka_unit_test(many_values_are_refused),
        cmocka_unit_test(what_is_common_is_well_within),
        cmocka_unit_test(a_bounded_buffer_bounds_a_dump),
        cmocka_unit_test(memory_may_fail),
        cmocka_unit_test(memory_may_fail_at_a_quote),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
