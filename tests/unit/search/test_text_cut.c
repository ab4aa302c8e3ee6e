/* test_text_cut.c - what is left of HTML and Markdown. */
#include "retrieval/search/strip_markup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_cut(const char *format, const char *text, const char *want)
{
    struct sr1__buf out;

    sr1__buf_init(&out, 0);
    assert_int_equal(sr1__text_format_find(format, NULL)->cut(text, strlen(text), &out),
                     SR1_OK);
    assert_string_equal(sr1__buf_cstr(&out), want);
    sr1__buf_free(&out);
}

static void html_leaves_text(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"no markup at all", "no markup at all"},
        {"\"Paris\"\n<p>The <b>Eiffel</b> Tower</p>", "\"Paris\"\nThe Eiffel Tower"},
        {"<h1>One</h1><p>two<br>three", "One\ntwo\nthree"},
        {"a &amp; b &lt;c&gt; &#65;&#x42; &eacute;&nbsp;x", "a & b <c> AB \xC3\xA9 x"},
        {"&unknown; & &#0; &#xFFFFFFFFF;", "&unknown; & &#0; &#xFFFFFFFFF;"},
        {"1 < 2 and <3 > 4", "1 < 2 and <3 > 4"},
        {"x<script>if (a < b) { '</p>' }</script>y", "x y"},
        {"x<STYLE>p {}</Style >y", "x y"},
        {"x<script>never closed", "x"},
        {"a<!-- <p>gone</p> -->b", "ab"},
        {"<a title=\"1 > 0\" href='x'>link</a>", "link"},
        {"<a title=\"left open>link</a>", "link"},
        {"<!DOCTYPE html><html><head><title>t</title></head><body>b</body></html>", "b"},
        {"<table><tr><td>1</td><td>2</td></tr><tr><th>3</th></tr></table>", "1 2\n3"},
        {"<p>  many \n\t blanks  </p>\n\n<p>x</p>", "many blanks\nx"},
        {"<svg/>seen", "seen"},
        {"caf\xC3\xA9<i>\xE4\xBD\xA0</i>", "caf\xC3\xA9\xE4\xBD\xA0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_cut("html", cases[i][0], cases[i][1]);
}

static void markdown_leaves_text(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"# Head #1\n\ntext", "Head #1\ntext"},
        {"Head\n====\n\n> quoted\n> more", "Head\nquoted\nmore"},
        {"- one\n* two\n+ three\n12. four\n3) five", "one\ntwo\nthree\nfour\nfive"},
        {"**bold** and _em_ and `code` and ~~old~~", "bold and em and code and old"},
        {"snake_case_name 2 * 3", "snake_case_name 2 3"},
        {"[text](http://x.test/a_b) ![alt](y.png) [ref][1]", "text alt ref"},
        {"[not a link] (x)", "[not a link] (x)"},
        {"```c\nint *x; # y\n```\nafter", "int *x; # y\nafter"},
        {"| a | b |\n|---|:-:|\n| 1 | 2 |", "a b\n1 2"},
        {"1 \\* 2 \\_ <b>x</b> &copy;", "1 * 2 _ x \xC2\xA9"},
        {"-5 degrees\n#hashtag", "-5 degrees\n#hashtag"},
        {"a\n\n\n\n---\n\nb", "a\nb"},
        {"In 1999. Next", "In 1999. Next"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_cut("markdown", cases[i][0], cases[i][1]);
}

static void auto_knows_html_only(void **state)
{
    (void)state;
    assert_cut("auto", "<!doctype HTML>x<b>y</b>", "xy");
    assert_cut("auto", "\"T\"\n<p>x</p>", "\"T\"\nx");
    assert_cut("auto", "a < b, c </d> & # _x_", "a < b, c </d> & # _x_");
}

/* What goes to the end of the text is not looked for again and again. */
static void hostile_texts_take_linear_time(void **state)
{
    static const char *const parts[] = {"<a",       "<a=\"", "[x](",    "<!--",
                                        "<script>", "&#",    "[<a](b)", "<a='>"};
    static const char *const names[] = {"html", "markdown", "auto"};
    size_t n = (size_t)4 << 20;
    char *text = malloc(n);

    (void)state;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        for (size_t at = 0; at < n; at++)
            text[at] = parts[i][at % strlen(parts[i])];
        for (size_t f = 0; f < 3; f++) {
            struct sr1__buf out;

            sr1__buf_init(&out, 0);
            assert_int_equal(sr1__text_format_find(names[f], NULL)->cut(text, n, &out),
                             SR1_OK);
            assert_true(out.len <= n);
            sr1__buf_free(&out);
        }
    }
    free(text);
}

static void unknown_formats_are_null(void **state)
{
    const char *names = NULL;

    (void)state;
    assert_null(sr1__text_format_find("pdf", &names));
    assert_string_equal(names, "plain, html, markdown, auto");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(html_leaves_text),
        cmocka_unit_test(markdown_leaves_text),
        cmocka_unit_test(auto_knows_html_only),
        cmocka_unit_test(hostile_texts_take_linear_time),
        cmocka_unit_test(unknown_formats_are_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
