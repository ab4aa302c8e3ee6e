/* Programs and judgements in models' texts: cases are what models write, results are read
 * off by eye; the extraction's order is SandboxFusion's. */
#include "support/torture.h"

#include <searchr1/ext/code.h>

#include <math.h>
#include <string.h>

static void code_is(const char *text, int32_t found, const char *code)
{
    char *out = NULL;
    size_t n = 0;
    int32_t where = -1;

    assert_int_equal(sr1_code_extract(text, strlen(text), &out, &n, &where), SR1_OK);
    assert_string_equal(out, code);
    assert_int_equal(n, strlen(code));
    assert_int_equal(where, found);
    sr1_free(out);
}

static void a_fenced_program_is_found(void **state)
{
    (void)state;
    code_is("Here:\n```python\nprint(1)\n```\nDone.", SR1_CODE_FENCED, "print(1)");
    code_is("```\nx = 1\n\ny = 2\n```", SR1_CODE_FENCED, "x = 1\n\ny = 2");
    code_is("```Python3 title=a\nx\n```", SR1_CODE_FENCED, "x");
    code_is("````py\n```\nx\n```\n````", SR1_CODE_FENCED, "```\nx\n```");
    code_is("```python\r\nx\r\n```\r\n", SR1_CODE_FENCED, "x\r");
    code_is("```python\n```", SR1_CODE_FENCED, "");
}

static void its_fence_may_be_indented(void **state)
{
    (void)state;
    code_is("1. So:\n   ```python\n   def f():\n       return 1\n   ```\n",
            SR1_CODE_FENCED, "def f():\n    return 1");
    code_is("  ```python\nx\n  y\n  ```", SR1_CODE_FENCED, "x\ny");
}

static void the_closing_fence_is_optional(void **state)
{
    (void)state;
    code_is("```python\nprint(1)\nprint(2)", SR1_CODE_OPEN_FENCE, "print(1)\nprint(2)");
    code_is("```python\nprint(1)\n``", SR1_CODE_OPEN_FENCE, "print(1)\n``");
    code_is("```", SR1_CODE_OPEN_FENCE, "");
    code_is("```python", SR1_CODE_OPEN_FENCE, "");
}

static void of_several_blocks_one_is_taken(void **state)
{
    (void)state;
    code_is("```\na\n```\n```python\nb\n```\n```python\nc\n```", SR1_CODE_FENCED, "b");
    code_is("```text\na\n```\n```cpp\nb\n```", SR1_CODE_FENCED, "a");
    code_is("```cpp\nb\n```\n```PY\na\n```", SR1_CODE_FENCED, "a");
    code_is("```\na\n```\n```python\nb", SR1_CODE_FENCED, "a");
    code_is("```python\na\n```python\nb\n```", SR1_CODE_FENCED, "b");
}

static void without_a_fence_it_is_the_text(void **state)
{
    (void)state;
    code_is("print(1)\n", SR1_CODE_WHOLE, "print(1)\n");
    code_is("", SR1_CODE_WHOLE, "");
    code_is("use `x` or ```x``` here", SR1_CODE_WHOLE, "use `x` or ```x``` here");
}

static void thoughts_are_not_looked_at(void **state)
{
    (void)state;
    code_is("<think>\n```python\nno\n```\n</think>\n```python\nyes\n```", SR1_CODE_FENCED,
            "yes");
    code_is("a</think>b</think>c", SR1_CODE_WHOLE, "c");
}

static void odd_bytes_become_replacement_characters(void **state)
{
    char *out = NULL;
    size_t n = 0;

    (void)state;
    code_is("```\nx = '\xff'\n```", SR1_CODE_FENCED, "x = '\xef\xbf\xbd'");
    assert_int_equal(sr1_code_extract("a\0b", 3, &out, &n, NULL), SR1_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(out, "a\0b", 4);
    sr1_free(out);
    assert_int_equal(sr1_code_extract(NULL, 3, &out, &n, NULL), SR1_E_INVALID);
}

static void a_program_has_a_bound(void **state)
{
    size_t len = ((size_t)1 << 20) + 1, n = 7;
    char *text = sr1__malloc(len), *out = NULL;

    (void)state;
    memset(text, 'x', len);
    assert_int_equal(sr1_code_extract(text, len, &out, &n, NULL), SR1_E_LIMIT);
    assert_null(out);
    assert_int_equal(n, 7);
    assert_int_equal(sr1_code_extract(text, len - 1, &out, &n, NULL), SR1_OK);
    assert_int_equal(n, len - 1);
    sr1_free(out);
    sr1__free(text);
}

static sr1_status extract(void *text)
{
    char *out = NULL;
    size_t n;
    sr1_status status = sr1_code_extract(text, strlen(text), &out, &n, NULL);

    if (status == SR1_OK)
        sr1_free(out);
    return status;
}

static void memory_may_run_out(void **state)
{
    char text[] = "```python\nx = 1\nprint(x)\n```\n";

    (void)state;
    torture(extract, text);
}

/* ---- critiques ---- */

static int32_t judged(const char *text)
{
    return sr1_critique_judgement(text, strlen(text));
}

static void the_judgement_is_a_line(void **state)
{
    (void)state;
    assert_int_equal(judged("Overall judgment: Correct"), SR1_JUDGEMENT_CORRECT);
    assert_int_equal(judged("a\nOverall judgment: Incorrect\nb"),
                     SR1_JUDGEMENT_INCORRECT);
    assert_int_equal(judged("**Overall judgment:** Incorrect."), SR1_JUDGEMENT_INCORRECT);
    assert_int_equal(judged("## Overall Judgement: **correct**\r\n"),
                     SR1_JUDGEMENT_CORRECT);
    assert_int_equal(judged("- Overall judgment: `Correct`"), SR1_JUDGEMENT_CORRECT);
}

static void anything_else_is_none(void **state)
{
    static const char *const none[] = {
        "",
        "Correct",
        "The overall judgment: Correct",
        "Overall judgment: ",
        "Overall judgment:",
        "Overall judgment Correct",
        "Overall judgment: Correct|Incorrect",
        "Overall judgment: Correct/Incorrect",
        "Overall judgment: Correct or Incorrect",
        "Overall judgment: Not correct",
        "Overall judgment: Correctly done",
        "Overall judgment: Correct, but slow",
        "Overall judgment:\nCorrect",
        "so: Overall judgment: Correct",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_int_equal(judged(none[i]), SR1_JUDGEMENT_NONE);
}

static void several_lines_must_agree(void **state)
{
    (void)state;
    assert_int_equal(judged("Overall judgment: Correct\nOverall judgment: correct."),
                     SR1_JUDGEMENT_CORRECT);
    assert_int_equal(judged("Overall judgment: Correct\nOverall judgment: Incorrect"),
                     SR1_JUDGEMENT_NONE);
    assert_int_equal(judged("Overall judgment: Correct|Incorrect\n"
                            "Overall judgment: Incorrect"),
                     SR1_JUDGEMENT_NONE);
}

static void critique_is(const char *text, const char *critique)
{
    size_t begin = 99, n = 99;

    sr1_critique_text(text, strlen(text), &begin, &n);
    assert_int_equal(n, strlen(critique));
    assert_memory_equal(text + begin, critique, n);
}

static void a_critique_is_what_its_format_holds(void **state)
{
    (void)state;
    critique_is("  all of it \n", "all of it");
    critique_is("x <format>\n a b \n</format> y", "a b");
    critique_is("x <format> a", "a");
    critique_is("<think><format>no</format></think>yes", "yes");
    critique_is("", "");
    critique_is(" \n", "");
    assert_int_equal(judged("Overall judgment: Correct\n"
                            "<format>Overall judgment: Incorrect</format>"),
                     SR1_JUDGEMENT_INCORRECT);
}

/* By hand: of 6 known, said correct 3 of which 2 are; 3 are correct in all; said
 * incorrect 2, of which 1 is wrong. */
static void accuracy_and_f1_are_as_on_paper(void **state)
{
    const int32_t said[] = {1, 1, 1, 2, 2, 0, 1};
    const int32_t is[] = {1, 1, 0, 1, 0, 0, -1};
    sr1_judgement_scores s = {sizeof(s)};

    (void)state;
    assert_int_equal(sr1_judgement_score(said, is, 7, &s), SR1_OK);
    assert_int_equal(s.n, 6);
    assert_int_equal(s.none, 1);
    assert_true(fabs(s.accuracy - (3.0 / 6)) <= 1e-15);
    assert_true(fabs(s.f1 - (2.0 * (2.0 / 3) * (2.0 / 3) / (4.0 / 3))) <= 1e-15);
    assert_true(fabs(s.f1_incorrect - (2.0 * 0.5 * (1.0 / 3) / (0.5 + 1.0 / 3))) <=
                1e-15);
    assert_int_equal(sr1_judgement_score(NULL, NULL, 0, &s), SR1_OK);
    assert_true(fabs(s.accuracy + s.f1 + s.f1_incorrect - (0)) <= 0);
    assert_int_equal(sr1_judgement_score(said, NULL, 7, &s), SR1_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fenced_program_is_found),
        cmocka_unit_test(its_fence_may_be_indented),
        cmocka_unit_test(the_closing_fence_is_optional),
        cmocka_unit_test(of_several_blocks_one_is_taken),
        cmocka_unit_test(without_a_fence_it_is_the_text),
        cmocka_unit_test(thoughts_are_not_looked_at),
        cmocka_unit_test(odd_bytes_become_replacement_characters),
        cmocka_unit_test(a_program_has_a_bound),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(the_judgement_is_a_line),
        cmocka_unit_test(anything_else_is_none),
        cmocka_unit_test(several_lines_must_agree),
        cmocka_unit_test(a_critique_is_what_its_format_holds),
        cmocka_unit_test(accuracy_and_f1_are_as_on_paper),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
