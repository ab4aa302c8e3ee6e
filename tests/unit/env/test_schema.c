/* Schemas of tools: what is refused when a tool is added, and what is told about
 * arguments that do not fit. */
#include "base/json.h"
#include "environment/env/schema.h"

#include "../../support/torture.h"

#include <string.h>

static const char base[] =
    "{\"type\": \"object\", \"required\": [\"query\"], \"properties\": {"
    "\"query\": {\"type\": \"string\", \"description\": \"what to look for\"},"
    "\"k\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 10, \"default\": 3},"
    "\"share\": {\"type\": \"number\", \"minimum\": 0.5},"
    "\"mode\": {\"enum\": [\"fast\", \"good\", 2, null]},"
    "\"deep\": {\"type\": \"boolean\"},"
    "\"years\": {\"type\": \"array\", \"items\": {\"type\": \"integer\"}},"
    "\"filter\": {\"type\": \"object\", \"required\": [\"lang\"], \"properties\": {"
    "\"lang\": {\"type\": \"string\"}, \"tags\": {\"type\": \"array\", \"items\": "
    "{\"type\": \"object\", \"properties\": {\"t\": {\"type\": \"null\"}}}}}},"
    "\"free\": {\"type\": \"object\", \"additionalProperties\": true}}}";

static const struct {
    const char *value;
    const char *why; /* NULL: it fits */
} value_cases[] = {
    {"{\"query\": \"x\"}", NULL},
    {"{\"query\": \"\", \"k\": 1, \"share\": 1, \"mode\": 2.0, \"deep\": false, "
     "\"years\": [], \"filter\": {\"lang\": \"en\", \"tags\": [{\"t\": null}, {}]}}",
     NULL},
    {"{\"query\": \"x\", \"free\": {\"any\": [1, {}]}}", NULL},
    {"{}", "argument 'query' is missing"},
    {"[]", "the arguments must be an object, not a list"},
    {"\"x\"", "the arguments must be an object, not a string"},
    {"{\"query\": 3}", "argument 'query' must be a string, not an integer"},
    {"{\"query\": null}", "argument 'query' must be a string, not null"},
    {"{\"query\": \"x\", \"k\": \"3\"}", "argument 'k' must be an integer, not a string"},
    {"{\"query\": \"x\", \"k\": 3.0}", "argument 'k' must be an integer, not a number"},
    {"{\"query\": \"x\", \"k\": true}",
     "argument 'k' must be an integer, not true or false"},
    {"{\"query\": \"x\", \"k\": 0}", "argument 'k' must be at least 1"},
    {"{\"query\": \"x\", \"k\": 11}", "argument 'k' must be at most 10"},
    {"{\"query\": \"x\", \"share\": 0.25}", "argument 'share' must be at least 0.5"},
    {"{\"query\": \"x\", \"mode\": \"slow\"}",
     "argument 'mode' must be one of \"fast\", \"good\", 2, null"},
    {"{\"query\": \"x\", \"years\": [1, \"2\"]}",
     "argument 'years[1]' must be an integer, not a string"},
    {"{\"query\": \"x\", \"filter\": {}}", "argument 'filter.lang' is missing"},
    {"{\"query\": \"x\", \"filter\": {\"lang\": \"en\", \"tags\": [{\"t\": 1}]}}",
     "argument 'filter.tags[0].t' must be null, not an integer"},
    {"{\"query\": \"x\", \"limit\": 3}",
     "argument 'limit' is not known; known: query, k, share, mode, deep, years, filter, "
     "free"},
};

static void arguments_are_checked(void **state)
{
    json_t *schema = NULL, *value = NULL;
    struct sr1__buf why;
    size_t i;

    (void)state;
    assert_int_equal(sr1__schema_parse(&schema, base), SR1_OK);
    for (i = 0; i < sizeof value_cases / sizeof value_cases[0]; i++) {
        const char *text = value_cases[i].value, *want = value_cases[i].why;

        sr1__buf_init(&why, 0);
        assert_int_equal(sr1__json_parse(&value, text, strlen(text), "value"), SR1_OK);
        assert_int_equal(sr1__schema_fits(schema, value, &why), want == NULL);
        assert_string_equal(sr1__buf_cstr(&why), want != NULL ? want : "");
        json_decref(value);
        sr1__buf_free(&why);
    }
    json_decref(schema);
}

#define X10 "xxxxxxxxxx"

/* 64 bytes and no half character. */
static void long_values_are_cut(void **state)
{
    static const char text[] =
        "{\"type\": \"object\", \"properties\": {\"mode\": {\"enum\": [\"" X10 X10 X10 X10
            X10 X10 "xx\u00e9" X10 "\", \"short\"]}}}";
    json_t *schema = NULL, *value = NULL;
    struct sr1__buf why;

    (void)state;
    assert_int_equal(sr1__schema_parse(&schema, text), SR1_OK);
    assert_int_equal(sr1__json_parse(&value, "{\"mode\": 1}", 11, "value"), SR1_OK);
    sr1__buf_init(&why, 0);
    assert_int_equal(sr1__schema_fits(schema, value, &why), 0);
    assert_string_equal(sr1__buf_cstr(&why),
                        "argument 'mode' must be one of \"" X10 X10 X10 X10 X10 X10
                        "xx..., \"short\"");
    sr1__buf_free(&why);
    json_decref(value);
    json_decref(schema);
}

static const struct {
    const char *schema;
    sr1_status status;
    const char *said;
} schema_cases[] = {
    {"{\"type\": \"object\"", SR1_E_PARSE, "schema"},
    {"[]", SR1_E_INVALID, "must be a JSON object"},
    {"{}", SR1_E_INVALID, "type must be object"},
    {"{\"type\": \"string\"}", SR1_E_INVALID, "type must be object"},
    {"{\"type\": \"thing\"}", SR1_E_INVALID, "type must be one of"},
    {"{\"type\": [\"object\", \"null\"]}", SR1_E_INVALID, "type must be one of"},
    {"{\"type\": \"object\", \"oneOf\": []}", SR1_E_UNSUPPORTED, "'oneOf'"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"pattern\": \"x\"}}}",
     SR1_E_UNSUPPORTED, "property 'a': schema: the keyword 'pattern'"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"items\": {\"$ref\": \"#\"}}}}",
     SR1_E_UNSUPPORTED, "property 'a': items: schema: the keyword '$ref'"},
    {"{\"type\": \"object\", \"properties\": []}", SR1_E_INVALID, "properties"},
    {"{\"type\": \"object\", \"properties\": {\"a\": 1}}", SR1_E_INVALID, "property 'a'"},
    {"{\"type\": \"object\", \"required\": \"a\"}", SR1_E_INVALID, "required"},
    {"{\"type\": \"object\", \"required\": [1]}", SR1_E_INVALID, "required"},
    {"{\"type\": \"object\", \"required\": [\"a\"]}", SR1_E_INVALID, "'a' is required"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"enum\": []}}}", SR1_E_INVALID,
     "enum"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"minimum\": \"1\"}}}",
     SR1_E_INVALID, "minimum"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"minimum\": 2, \"maximum\": 1}}}",
     SR1_E_INVALID, "minimum is above maximum"},
    {"{\"type\": \"object\", \"additionalProperties\": {}}", SR1_E_UNSUPPORTED,
     "additionalProperties"},
    {"{\"type\": \"object\", \"description\": 1}", SR1_E_INVALID, "description"},
};

static void what_is_not_known_is_refused_by_name(void **state)
{
    json_t *schema = NULL;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof schema_cases / sizeof schema_cases[0]; i++) {
        assert_int_equal(sr1__schema_parse(&schema, schema_cases[i].schema),
                         schema_cases[i].status);
        if (!strstr(sr1_last_error(), schema_cases[i].said))
            fail_msg("'%s' is not in: %s", schema_cases[i].said, sr1_last_error());
        assert_null(schema);
    }
}

static void depth_is_bounded(void **state)
{
    struct sr1__buf text;
    json_t *schema = NULL;
    int depth, k;

    (void)state;
    for (depth = SR1__SCHEMA_DEPTH; depth <= SR1__SCHEMA_DEPTH + 1; depth++) {
        sr1__buf_init(&text, 0);
        sr1__buf_str(&text, "{\"type\": \"object\"");
        for (k = 0; k < depth; k++)
            sr1__buf_str(&text, ", \"items\": {\"type\": \"array\"");
        for (k = 0; k <= depth; k++)
            sr1__buf_char(&text, '}');
        assert_int_equal(sr1__schema_parse(&schema, sr1__buf_cstr(&text)),
                         depth > SR1__SCHEMA_DEPTH ? SR1_E_LIMIT : SR1_OK);
        json_decref(schema);
        schema = NULL;
        sr1__buf_free(&text);
    }
}

static void a_schema_is_shown_line_by_line(void **state)
{
    json_t *schema = NULL;
    struct sr1__buf text;

    (void)state;
    sr1__buf_init(&text, 0);
    assert_int_equal(sr1__schema_parse(&schema, base), SR1_OK);
    sr1__schema_describe(schema, &text);
    assert_string_equal(sr1__buf_cstr(&text),
                        "- query (string, required): what to look for\n"
                        "- k (integer, at least 1, at most 10, default 3)\n"
                        "- share (number, at least 0.5)\n"
                        "- mode (any, one of \"fast\", \"good\", 2, null)\n"
                        "- deep (boolean)\n"
                        "- years (array)\n"
                        "- filter (object)\n"
                        "- free (object)\n");
    sr1__buf_free(&text);
    json_decref(schema);
    assert_int_equal(sr1__schema_parse(&schema, NULL), SR1_OK);
    json_decref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(long_values_are_cut),
        cmocka_unit_test(what_is_not_known_is_refused_by_name),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(a_schema_is_shown_line_by_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
