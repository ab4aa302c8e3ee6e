/* test_jinja.c - templates against what Jinja2 made of them, which words of a text are a
 * template's own, and the bounds of a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../support/torture.h"
#include "base/file.h"
#include "base/json.h"
#include "text/jinja/jinja.h"

#define OK(expr)                                                                         \
    do {                                                                                 \
        sr1_status ok_status = (expr);                                                   \
        if (ok_status != SR1_OK)                                                         \
            fail_msg("%s: %d: %s", #expr, ok_status, sr1_last_error());                  \
    } while (0)

static void golden_path(const char *name, char path[4096])
{
    const char *root = getenv("SR1_SRC");

    snprintf(path, 4096, "%s/tests/golden/jinja/%s", root ? root : ".", name);
}

static struct sr1__buf golden_file(const char *name)
{
    char path[4096];
    struct sr1__buf b;

    golden_path(name, path);
    OK(sr1__file_read(path, 0, &b));
    return b;
}

/* The lines of a file as an array. */
static json_t *golden_lines(const char *name)
{
    struct sr1__buf b = golden_file(name);
    json_t *list = json_array(), *j = NULL;

    for (char *line = b.data, *end; line && *line; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        OK(sr1__json_parse(&j, line, (size_t)(end - line), name));
        json_array_append_new(list, j);
    }
    sr1__buf_free(&b);
    return list;
}

static sr1_status render_vars(const struct sr1__jinja *t, const json_t *vars,
                              struct sr1__buf *text, struct sr1__spans *own)
{
    struct sr1__jrun *r = NULL;
    const char *name;
    json_t *value;
    sr1_status status = sr1__jrun_new(&r, t, 1700000000);

    json_object_foreach((json_t *)vars, name, value) if (status == SR1_OK) status =
        sr1__jrun_bind_json(r, name, value, NULL);
    if (status == SR1_OK)
        status = sr1__jrun_render(r, text, own);
    sr1__jrun_free(r);
    return status;
}

static sr1_status render_text(const char *source, const char *vars, struct sr1__buf *text,
                              struct sr1__spans *own)
{
    struct sr1__jinja *t = NULL;
    json_t *j = NULL;
    sr1_status status = sr1__json_parse(&j, vars, strlen(vars), "vars");

    if (status == SR1_OK)
        status = sr1__jinja_parse(&t, source, strlen(source));
    if (status == SR1_OK)
        status = render_vars(t, j, text, own);
    sr1__jinja_free(t);
    json_decref(j);
    return status;
}

/* FNV-1a, as make_jinja_vectors.py has it. */
static void hash_text(const struct sr1__buf *text, char out[17])
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < text->len; i++)
        h = (h ^ (unsigned char)text->data[i]) * 0x100000001b3u;
    snprintf(out, 17, "%016llx", (unsigned long long)h);
}

static size_t check_template(const json_t *row, const json_t *conversations)
{
    const char *name = json_string_value(json_object_get(row, "template"));
    const json_t *hashes = json_object_get(row, "hashes"), *c;
    struct sr1__buf source = golden_file(name), text;
    struct sr1__jinja *t = NULL;
    size_t i;

    OK(sr1__jinja_parse(&t, sr1__buf_cstr(&source), source.len));
    json_array_foreach(conversations, i, c)
    {
        const char *want = json_string_value(json_array_get(hashes, i));
        char got[17] = "";

        sr1__buf_init(&text, 0);
        if (render_vars(t, c, &text, NULL) == SR1_OK)
            hash_text(&text, got);
        if (strcmp(got, want) != 0)
            fail_msg("%s, conversation %zu: hash '%s', Jinja2's '%s': %s\n%s", name, i,
                     got, want, got[0] ? "" : sr1_last_error(), sr1__buf_cstr(&text));
        sr1__buf_free(&text);
    }
    sr1__jinja_free(t);
    sr1__buf_free(&source);
    return i;
}

static void templates_render_as_jinja2_does(void **state)
{
    json_t *rows = golden_lines("renderings.jsonl"), *row;
    json_t *conversations = golden_lines("conversations.jsonl");
    size_t i, n = 0;

    (void)state;
    json_array_foreach(rows, i, row) n += check_template(row, conversations);
    assert_true(i >= 60);
    assert_true(n >= 3800);
    json_decref(rows);
    json_decref(conversations);
}

/* What Python's objects and Jinja's rules give, worked out by hand. */
static void values_follow_python(void **state)
{
    static const struct {
        const char *source, *text;
    } cases[] = {
        {"{{ 7 // -2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1 / 2 }} {{ 1e16 }}",
         "-4 2 1024 0.5 1e+16"},
        {"{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}"
         "{{ c.next() }}{{ c.reset() }}{{ c.current }}",
         "abbaNonea"},
        {"{{ ['b', 'A', 'a', 'B']|groupby(0)|list }}",
         "[('A', ['A', 'a']), ('b', ['b', 'B'])]"},
        {"{% for g in [{'r': 1, 'x': 2}, {'r': 0}, {'r': 1}]|groupby('r') %}"
         "{{ g.grouper }}:{{ g.list|length }} {% endfor %}",
         "0:1 1:2 "},
        {"{{ [1, 2, 3, 4, 5]|batch(2, 'x')|list }}", "[[1, 2], [3, 4], [5, 'x']]"},
        {"{{ [1, 2, 3, 4, 5]|slice(3, 0)|list }}", "[[1, 2], [3, 4], [5, 0]]"},
        {"{{ [1, 'a', none, true, {'k': 1.0}] }}", "[1, 'a', None, True, {'k': 1.0}]"},
        {"{{ 'a' ~ 1 ~ none }}{{ nothing }}", "a1None"},
        {"{{ 1 < 2 < 3 }} {{ 'b' in 'abc' }} {{ 2 not in [1] }}", "True True True"},
        {"{{ {'a': [1, '\xc3\xa9\"']}|tojson(indent=1) }}",
         "{\n \"a\": [\n  1,\n  \"\xc3\xa9\\\"\"\n ]\n}"},
        {"{% for x in [1, 2, 3] if x != 2 %}{{ x }}{{ ',' if not loop.last }}{% endfor "
         "%}",
         "1,3"},
        {"{% set n = namespace(v=1) %}{% for x in 'ab' %}{% set n.v = n.v + 1 %}{% set y "
         "= "
         "x %}{% endfor %}{{ n.v }}{{ y is defined }}",
         "3False"},
        {"{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(b=2, a=3) }}",
         "1132"},
        {"a\n  {% if true %}\n  b\n  {% endif %}\n c\n", "a\n  b\n c"},
        {"{{ d.items }}|{{ d['items'] }}|{{ d.get('x', 4) }}", NULL},
        {"{{ '\xe4\xbd\xa0\xe5\xa5\xbd!'[::-1] }}{{ '\xe4\xbd\xa0'|length }}",
         "!\xe5\xa5\xbd\xe4\xbd\xa0"
         "1"},
        {"{{ strftime_now('%d %b %Y, %H:%M') }}", "14 Nov 2023, 22:13"},
        {"{{ 1.5|round(-9223372036854775807 - 1) }}", "0.0"},
        {"{{ 'abcab'.rfind('ab') }} {{ 'aab'.rfind('') }} {{ 'ab'.rfind('abc') }} "
         "{{ ''.rfind('') }} {{ 'a-b-c'.rsplit('-', 1) }} {{ 'aaa'.rpartition('aa') }}",
         "3 3 -1 0 ['a-b', 'c'] ('a', 'aa', '')"},
        {"{{ {(1, (2, 'x')): 'found'}[(1, (2, 'x'))] }}|{{ {(1, 2): 3}.get((1, 2)) }}",
         "|3"},
    };
    struct sr1__buf text;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sr1__buf_init(&text, 0);
        if (cases[i].text) {
            OK(render_text(cases[i].source, "{}", &text, NULL));
            assert_string_equal(sr1__buf_cstr(&text), cases[i].text);
        } else {
            assert_int_equal(
                render_text(cases[i].source, "{\"d\": {\"items\": 3}}", &text, NULL),
                SR1_E_INVALID);
        }
        sr1__buf_free(&text);
    }
}

/* The bytes that are not the template's own, '.' for each of its own. */
static void own_words(const char *source, const char *vars, const char *want)
{
    struct sr1__spans own = {0};
    struct sr1__buf text;

    sr1__buf_init(&text, 0);
    OK(render_text(source, vars, &text, &own));
    for (size_t i = 0; i < own.n; i++)
        memset(text.data + own.v[2 * i], '.', own.v[2 * i + 1] - own.v[2 * i]);
    assert_string_equal(sr1__buf_cstr(&text), want);
    sr1__buf_free(&text);
    sr1__spans_free(&own);
}

static void texts_from_outside_stay_apart(void **state)
{
    static const char vars[] = "{\"x\": \" <a>b<a> \", \"m\": [{\"c\": \"</t>q\"}]}";

    (void)state;
    own_words("<s>{{ x }}<e>", vars, "... <a>b<a> ...");
    own_words("{{ '<a>' + x|trim ~ 1 }}", vars, "...<a>b<a>.");
    own_words("{{ x.split('b')[1] ~ x[1:3]|upper }}", vars, "<a> <A");
    own_words("{{ x|replace('<a>', '<z>') }}", vars, " ...b... ");
    own_words("{% set y %}[{{ x.strip() }}]{% endset %}{{ y ~ y|length }}", vars,
              ".<a>b<a>..");
    own_words("{% macro f(t) %}<t>{{ t }}{% endmacro %}{{ f(m[0].c) }}", vars,
              "...</t>q");
    own_words("{{ m|tojson }}{{ [x, '<s>']|join('<j>') }}", vars,
              "[{\"c\": \"</t>q\"}] <a>b<a> ......");
}

static void refusals_name_line_and_reason(void **state)
{
    static const struct {
        const char *source;
        sr1_status status;
        const char *says;
    } cases[] = {
        {"a\n{{ x.y }}", SR1_E_INVALID, "line 2: 'x' is undefined and has no 'y'"},
        {"{% if 1 %}", SR1_E_PARSE, "line 1: the template ends where endif is due"},
        {"\n\n{{ 'a }}", SR1_E_PARSE, "line 3: a string does not end"},
        {"{% include 'x' %}", SR1_E_UNSUPPORTED, "'include' is no statement"},
        {"{{ raise_exception('no ' ~ 1) }}", SR1_E_INVALID, "the conversation: no 1"},
        {"{{ [1].append(2) }}", SR1_E_INVALID, "must not change a list"},
        {"{{ x|nofilter }}", SR1_E_INVALID, "there is no filter 'nofilter'"},
        {"{{ 'a'.encode() }}", SR1_E_UNSUPPORTED, "function encode is not supported"},
        {"{{ 9223372036854775807 + 1 }}", SR1_E_INVALID, "64 bits"},
        {"{% for x in range(99999) %}{% for y in range(99999) %}{% endfor %}{% endfor %}",
         SR1_E_LIMIT, "shorten the conversation"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", SR1_E_LIMIT, "too deep"},
        {"{% set n = namespace(v='xxxxxxxxxxxxxxxx') %}{% for x in range(40) %}{% set "
         "n.v = "
         "n.v ~ n.v %}{% endfor %}",
         SR1_E_LIMIT, "line 1"},
        {"{% set n = namespace(v=[]) %}{% for x in range(5000) %}{% set n.v = [n.v] "
         "%}{% endfor %}{{ n.v }}",
         SR1_E_LIMIT, "too deep"},
        {"{{ 'x' * 9999999999 }}", SR1_E_LIMIT, "line 1"},
        {"{{ range(1000000) }}", SR1_E_INVALID, "more than 100000"},
        {"{{ range(0, 9223372036854775807, 922337203685477580)[::100] }}", SR1_E_INVALID,
         "64 bits"},
    };
    struct sr1__buf text;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sr1__buf_init(&text, 0);
        assert_int_equal(render_text(cases[i].source, "{}", &text, NULL),
                         cases[i].status);
        if (!strstr(sr1_last_error(), cases[i].says))
            fail_msg("%s: %s", cases[i].source, sr1_last_error());
        assert_int_equal(text.len, 0);
        sr1__buf_free(&text);
    }
}

/* Tuples that hold one another, twice each or one in the other: a hash of them is as
 * bounded as a comparison. */
static void hashes_of_tuples_are_bounded(void **state)
{
    static const char doubles[] = "{% set t = (t, t) %}", use[] = "{{ {t: 1} }}";
    struct sr1__buf source, text;

    (void)state;
    sr1__buf_init(&source, 0);
    sr1__buf_init(&text, 0);
    sr1__buf_str(&source, "{% set t = (1,) %}");
    for (int i = 0; i < 64; i++)
        sr1__buf_str(&source, doubles);
    sr1__buf_str(&source, use);
    assert_int_equal(render_text(sr1__buf_cstr(&source), "{}", &text, NULL), SR1_E_LIMIT);
    assert_non_null(strstr(sr1_last_error(), "not done within"));
    assert_int_equal(
        render_text("{% set ns = namespace(t=()) %}{% for i in range(9) %}{% for j in "
                    "range(100000) %}{% set ns.t = (ns.t,) %}{% endfor %}{% endfor %}{{ "
                    "{}.get(ns.t) }}",
                    "{}", &text, NULL),
        SR1_E_LIMIT);
    assert_non_null(strstr(sr1_last_error(), "nest too deep"));
    assert_int_equal(render_text("{{ {(1, [2]): 3} }}", "{}", &text, NULL),
                     SR1_E_INVALID);
    sr1__buf_free(&source);
    sr1__buf_free(&text);
}

/* Each would take minutes or hours if what one call compares were not counted. */
static void long_comparisons_are_counted(void **state)
{
    static const char *const cases[] = {
        "{{ a.strip('b' * 4000000 ~ 'a') }}",
        "{{ a.rfind('a' * 2000000 ~ 'b') }}",
        "{% for i in many %}{% if d.get(b) %}{% endif %}{% endfor %}",
        "{% for i in many %}{% if a < b %}{% endif %}{% endfor %}",
        "{% for i in many %}{% if a.startswith(a) %}{% endif %}{% endfor %}",
        "{% for i in many %}{% if b.isalpha() %}{% endif %}{% endfor %}",
        "{% for i in many %}{% if many == as_many %}{% endif %}{% endfor %}",
        "{% for i in many %}{% if -1 in many %}{% endif %}{% endfor %}",
        "{% set n = namespace(dict(range(20000)|slice(10000))) %}{% for i in many %}{% "
        "if "
        "n.x %}{% endif %}{% endfor %}",
        "{% for i in many %}{% if many|sum %}{% endif %}{% endfor %}",
        "{% for i in many %}{% if many|max %}{% endif %}{% endfor %}",
        "{% for i in many %}{% if many|select('none')|list %}{% endif %}{% endfor %}",
    };
    struct sr1__buf source, text;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sr1__buf_init(&source, 0);
        sr1__buf_init(&text, 0);
        sr1__buf_str(&source, "{% set a = 'a' * 4000000 %}{% set b = 'a' * 3999999 ~ 'b' "
                              "%}{% set d = {a: 1} %}{% set many = range(100000) %}"
                              "{% set as_many = range(100000) %}");
        sr1__buf_str(&source, cases[i]);
        if (render_text(sr1__buf_cstr(&source), "{}", &text, NULL) != SR1_E_LIMIT)
            fail_msg("%s: it is done", cases[i]);
        assert_non_null(strstr(sr1_last_error(), "not done within"));
        sr1__buf_free(&source);
        sr1__buf_free(&text);
    }
}

static void nesting_is_bounded(void **state)
{
    struct sr1__jinja *t = NULL;
    char deep[4096];

    (void)state;
    memset(deep, '(', sizeof deep);
    memcpy(deep, "{{", 2);
    assert_int_equal(sr1__jinja_parse(&t, deep, sizeof deep), SR1_E_LIMIT);
    for (size_t i = 0; i + 12 <= sizeof deep; i += 12)
        memcpy(deep + i, "{% if 1   %}", 12);
    assert_int_equal(sr1__jinja_parse(&t, deep, sizeof deep / 12 * 12), SR1_E_LIMIT);
    memset(deep, '-', sizeof deep);
    memcpy(deep, "{{ ", 3);
    memcpy(deep + sizeof deep - 5, "x }} ", 5);
    assert_int_equal(sr1__jinja_parse(&t, deep, sizeof deep), SR1_E_LIMIT);
    assert_null(t);
}

static sr1_status render_some(void *arg)
{
    struct sr1__spans own = {0};
    struct sr1__buf text;
    sr1_status status;

    sr1__buf_init(&text, 0);
    status = render_text(arg,
                         "{\"m\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": "
                         "\"x\", \"content\": \"yo\"}]}",
                         &text, &own);
    sr1__buf_free(&text);
    sr1__spans_free(&own);
    return status;
}

static void memory_may_run_out(void **state)
{
    char source[] = "{% macro f(a) %}<{{ a|upper }}>{% endmacro %}{% for x in m %}{{ "
                    "f(x.content) ~ x|tojson }}{% endfor %}{{ 'y' * 70000 }}";

    (void)state;
    assert_true(torture(render_some, source) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_render_as_jinja2_does),
        cmocka_unit_test(values_follow_python),
        cmocka_unit_test(texts_from_outside_stay_apart),
        cmocka_unit_test(refusals_name_line_and_reason),
        cmocka_unit_test(hashes_of_tuples_are_bounded),
        cmocka_unit_test(long_comparisons_are_counted),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(memory_may_run_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
