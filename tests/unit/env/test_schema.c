/* Schemas of tools: what is refused when a tool is added, and what is told about
 * arguments that do not fit. */
#include "base/json.h"
#include "environment/env/schema.h"

#include "../../support/torture.h"

#include <stdio.h>
#include <stdlib.h>
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

/* Numbers that no double tells apart. */
static void large_integers_are_exact(void **state)
{
    static const struct {
        const char *keyword, *value;
        int fits;
    } cases[] = {
        {"\"enum\": [9007199254740993]", "9007199254740993", 1},
        {"\"enum\": [9007199254740993]", "9007199254740992", 0},
        {"\"const\": -9007199254740993", "-9007199254740992", 0},
        {"\"minimum\": 9007199254740993", "9007199254740992", 0},
        {"\"exclusiveMinimum\": 9007199254740992", "9007199254740993", 1},
        {"\"maximum\": 9223372036854775806", "9223372036854775807", 0},
        {"\"exclusiveMaximum\": 9223372036854775807", "9223372036854775806", 1},
        {"\"multipleOf\": 2", "9007199254740993", 0},
        {"\"const\": 9007199254740992.0", "9007199254740993", 0},
        {"\"const\": 2.0", "2", 1},
        {"\"maximum\": 2.5", "3", 0},
        {"\"minimum\": -2.5", "-2", 1},
        {"\"maximum\": 18446744073709551615", "9223372036854775807", 1},
        {"\"maximum\": 1e300", "9223372036854775807", 1},
        {"\"minimum\": -1e300", "-9223372036854775808", 1},
        {"\"maximum\": -1e300", "-9223372036854775808", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *schema = NULL, *value = NULL;
        char text[256];

        snprintf(text, sizeof text,
                 "{\"type\": \"object\", \"properties\": {\"k\": {%s}}}",
                 cases[i].keyword);
        assert_int_equal(sr1__schema_parse(&schema, text), SR1_OK);
        snprintf(text, sizeof text, "{\"k\": %s}", cases[i].value);
        assert_int_equal(sr1__json_parse(&value, text, strlen(text), "value"), SR1_OK);
        if (sr1__schema_fits(schema, value, NULL) != cases[i].fits)
            fail_msg("%s, %s", cases[i].keyword, cases[i].value);
        json_decref(schema);
        json_decref(value);
    }
}

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

/* As pydantic and MCP servers write it. */
static const char published[] =
    "{\"$defs\": {\"Place\": {\"type\": \"object\", \"title\": \"Place\", "
    "\"properties\": "
    "{\"name\": {\"type\": \"string\", \"minLength\": 1, \"maxLength\": 4}, \"near\": "
    "{\"anyOf\": [{\"$ref\": \"#/$defs/Place\"}, {\"type\": \"null\"}], \"default\": "
    "null}}, "
    "\"required\": [\"name\"]}}, \"type\": \"object\", \"properties\": {"
    "\"place\": {\"$ref\": \"#/$defs/Place\"}, "
    "\"code\": {\"type\": [\"string\", \"null\"], \"pattern\": \"^[a-z]+$\"}, "
    "\"unit\": {\"const\": \"C\"}, "
    "\"level\": {\"oneOf\": [{\"type\": \"integer\", \"exclusiveMinimum\": 0}, "
    "{\"type\": \"integer\", \"multipleOf\": 2}]}, "
    "\"bag\": {\"type\": \"array\", \"uniqueItems\": true, \"minItems\": 1, "
    "\"prefixItems\": [{\"type\": \"string\"}], \"items\": {\"type\": \"integer\"}}, "
    "\"more\": {\"type\": \"object\", \"additionalProperties\": {\"type\": \"integer\"}, "
    "\"propertyNames\": {\"maxLength\": 2}, \"maxProperties\": 2}, "
    "\"any\": {\"type\": \"object\"}, "
    "\"both\": {\"allOf\": [{\"properties\": {\"a\": {\"type\": \"integer\"}}}, "
    "{\"properties\": {\"b\": {\"type\": \"integer\"}}}]}, "
    "\"no\": {\"not\": {\"type\": \"string\"}}, "
    "\"evil\": {\"type\": \"string\", \"pattern\": \"^(a+)+$\"}}}";

static const struct {
    const char *value;
    const char *why; /* NULL: it fits */
} published_cases[] = {
    {"{\"place\": {\"name\": \"Oslo\", \"near\": {\"name\": \"\u00c5s\", \"near\": "
     "null}}}",
     NULL},
    {"{\"place\": {\"name\": \"Lisboa\"}}",
     "argument 'place.name' must have at most 4 characters"},
    {"{\"place\": {\"name\": \"a\", \"near\": 3}}",
     "argument 'place.near' fits no alternative: argument 'place.near' must be an "
     "object, "
     "not an integer; argument 'place.near' must be null, not an integer"},
    {"{\"place\": {\"name\": \"a\", \"far\": 1}}",
     "argument 'place.far' is not known; known: name, near"},
    {"{\"code\": null, \"unit\": \"C\", \"level\": 1, \"bag\": [\"a\", 1, 2], \"more\": "
     "{\"a\": 1}, \"any\": {\"b\": 1}, \"both\": {\"a\": 1, \"b\": 2}, \"no\": 1}",
     NULL},
    {"{\"code\": 1}", "argument 'code' must be a string or null, not an integer"},
    {"{\"code\": \"A\"}", "argument 'code' must match the pattern \"^[a-z]+$\""},
    {"{\"code\": \"a\\n\"}", "argument 'code' must match the pattern \"^[a-z]+$\""},
    {"{\"unit\": \"F\"}", "argument 'unit' must be \"C\""},
    {"{\"level\": 2}", "argument 'level' fits more than one alternative"},
    {"{\"level\": -1}",
     "argument 'level' fits no alternative: argument 'level' must be above 0; argument "
     "'level' must be a multiple of 2"},
    {"{\"bag\": []}", "argument 'bag' must have at least 1 items"},
    {"{\"bag\": [1]}", "argument 'bag[0]' must be a string, not an integer"},
    {"{\"bag\": [\"a\", 1, 1]}", "argument 'bag' must not hold a value twice"},
    {"{\"more\": {\"a\": \"b\"}}", "argument 'more.a' must be an integer, not a string"},
    {"{\"more\": {\"abc\": 1}}", "argument 'more.abc' must have at most 2 characters"},
    {"{\"more\": {\"a\": 1, \"b\": 2, \"c\": 3}}",
     "argument 'more' must have at most 2 members"},
    {"{\"both\": {\"a\": 1, \"b\": \"x\"}}",
     "argument 'both.b' must be an integer, not a string"},
    {"{\"no\": \"x\"}", "argument 'no' must not fit {\"type\":\"string\"}"},
    {"{\"evil\": \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\"}",
     "argument 'evil' cannot be checked against its pattern: that takes too long"},
};

static void check_reason(const json_t *schema, const char *text, const char *want)
{
    struct sr1__buf why;
    json_t *value = NULL;

    sr1__buf_init(&why, 0);
    assert_int_equal(sr1__json_parse(&value, text, strlen(text), "value"), SR1_OK);
    assert_int_equal(sr1__schema_fits(schema, value, &why), want == NULL);
    assert_string_equal(sr1__buf_cstr(&why), want != NULL ? want : "");
    json_decref(value);
    sr1__buf_free(&why);
}

static void published_schemas_are_checked(void **state)
{
    json_t *schema = NULL;
    size_t i;

    (void)state;
    assert_int_equal(sr1__schema_parse(&schema, published), SR1_OK);
    for (i = 0; i < sizeof published_cases / sizeof published_cases[0]; i++)
        check_reason(schema, published_cases[i].value, published_cases[i].why);
    json_decref(schema);
}

/* Schemas that would be checked for ever. */
static void hostile_schemas_end(void **state)
{
    static const char *const circle =
        "{\"type\": \"object\", \"$defs\": {\"a\": {\"$ref\": \"#/$defs/a\"}}, "
        "\"properties\": {\"x\": {\"$ref\": \"#/$defs/a\"}}}";
    static const char *const bomb =
        "{\"type\": \"object\", \"$defs\": {\"a\": {\"anyOf\": [{\"$ref\": "
        "\"#/$defs/a\"}, "
        "{\"$ref\": \"#/$defs/a\"}, {\"$ref\": \"#/$defs/a\"}]}}, "
        "\"properties\": {\"x\": {\"$ref\": \"#/$defs/a\"}}}";
    json_t *schema = NULL, *value = NULL;
    struct sr1__buf why;

    (void)state;
    assert_int_equal(sr1__schema_parse(&schema, circle), SR1_OK);
    check_reason(schema, "{\"x\": 1}",
                 "argument 'x' cannot be checked: its schema refers to itself");
    json_decref(schema);
    assert_int_equal(sr1__schema_parse(&schema, bomb), SR1_OK);
    assert_int_equal(sr1__json_parse(&value, "{\"x\": 1}", 8, "value"), SR1_OK);
    sr1__buf_init(&why, 0);
    assert_int_equal(sr1__schema_fits(schema, value, &why), 0);
    assert_true(why.len < 4096);
    sr1__buf_free(&why);
    json_decref(value);
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
    {"{\"type\": [\"object\", \"null\"]}", SR1_E_INVALID, "type must be object"},
    {"{\"type\": \"object\", \"minContains\": 1}", SR1_E_UNSUPPORTED, "'minContains'"},
    {"{\"type\": \"object\", \"oneOf\": []}", SR1_E_INVALID, "oneOf must be a list"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"pattern\": \"(\"}}}",
     SR1_E_INVALID, "property 'a': schema: the pattern '(' at 1"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"items\": {\"$ref\": "
     "\"other.json\"}}}}",
     SR1_E_UNSUPPORTED, "$ref 'other.json' leads to no schema"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"$ref\": \"#/$defs/b\"}}}",
     SR1_E_UNSUPPORTED, "$ref '#/$defs/b'"},
    {"{\"type\": \"object\", \"properties\": {\"a\": {\"enum\": [{}]}, \"b\": "
     "{\"$ref\": \"#/properties/a/enum/0\"}}}",
     SR1_E_UNSUPPORTED, "$ref '#/properties/a/enum/0'"},
    {"{\"type\": \"object\", \"minLength\": -1}", SR1_E_INVALID, "minLength must be"},
    {"{\"type\": \"object\", \"multipleOf\": 0}", SR1_E_INVALID, "multipleOf"},
    {"{\"type\": \"object\", \"exclusiveMinimum\": true}", SR1_E_INVALID,
     "exclusiveMinimum must be a number"},
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
    {"{\"type\": \"object\", \"additionalProperties\": 1}", SR1_E_INVALID,
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

/* Random schemas and values, judged by the package jsonschema
 * (tests/golden/make_schema_vectors.py). */
static void jsonschema_agrees(void **state)
{
    char path[1024];
    size_t pairs = 0, fits = 0;
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    FILE *f;

    (void)state;
    snprintf(path, sizeof path, "%s/tests/golden/schemas.jsonl", getenv("SR1_SRC"));
    f = fopen(path, "r");
    assert_non_null(f);
    while ((n = getline(&line, &cap, f)) > 0) {
        json_t *row = NULL, *schema = NULL, *pair;
        struct sr1__buf text;
        size_t i;

        sr1__buf_init(&text, 0);
        assert_int_equal(sr1__json_parse(&row, line, (size_t)n, "row"), SR1_OK);
        assert_int_equal(sr1__json_dump(json_object_get(row, "schema"), 0, &text),
                         SR1_OK);
        if (sr1__schema_parse(&schema, sr1__buf_cstr(&text)) != SR1_OK)
            fail_msg("%s: %s", sr1__buf_cstr(&text), sr1_last_error());
        json_array_foreach(json_object_get(row, "values"), i, pair)
        {
            struct sr1__buf why;
            int want = json_is_true(json_array_get(pair, 1)), got;

            sr1__buf_init(&why, 0);
            got = sr1__schema_fits(schema, json_array_get(pair, 0), &why);
            if (got != want)
                fail_msg("jsonschema says %d, here %d (%s): %s, value %zu", want, got,
                         sr1__buf_cstr(&why), line, i);
            pairs++;
            fits += (size_t)got;
            sr1__buf_free(&why);
        }
        sr1__buf_free(&text);
        json_decref(schema);
        json_decref(row);
    }
    free(line);
    fclose(f);
    assert_true(pairs > 4000 && fits > 1000 && pairs - fits > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(large_integers_are_exact),
        cmocka_unit_test(published_schemas_are_checked),
        cmocka_unit_test(hostile_schemas_end),
        cmocka_unit_test(jsonschema_agrees),
        cmocka_unit_test(long_values_are_cut),
        cmocka_unit_test(what_is_not_known_is_refused_by_name),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(a_schema_is_shown_line_by_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
