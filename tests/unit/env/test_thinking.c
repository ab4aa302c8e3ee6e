/* Steps that say how much they think: as they should be and as policies write them. */
#include "environment/env/protocol.h"

#include <searchr1/ext/thinking.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *text;
    int32_t level, fallbacks;
    const char *tag, *think, *action;
    const char *rest; /* of the text, from where the prefix ends */
} cases[] = {
    /* the document's examples */
    {"<level>1</level><action>look around</action>", 1, 0, "<level>1</level>", "",
     "look around", "look around</action>"},
    {"<level>2</level><think>Check state</think><action>look around</action>", 2, 0,
     "<level>2</level>", "Check state", "look around", "look around</action>"},
    {"<level>4</level><think>Analyze goal...</think><action>go</action>", 4, 0,
     "<level>4</level>", "Analyze goal...", "go", "go</action>"},
    /* space, an empty think, text around */
    {"\n <level> 3 </level>\n<think>\n a b \n</think>\n<action> go </action>\n", 3, 0,
     "<level> 3 </level>", "a b", "go", " go </action>\n"},
    {"<level>1</level><think></think><action>go</action>", 1, 0, "<level>1</level>", "",
     "go", "go</action>"},
    /* levels gone wrong */
    {"<level>2<think>x</think><action>go</action>", 2, SR1_THINKING_LEVEL_OPEN,
     "<level>2", "x", "go", "go</action>"},
    {"<level>12<action>go</action>", 0, SR1_THINKING_LEVEL_UNKNOWN, "<level>", "", "go",
     "go</action>"},
    {"<level>5</level><think>x</think><action>go</action>", 0, SR1_THINKING_LEVEL_UNKNOWN,
     "<level>5</level>", "x", "go", "go</action>"},
    {"<level>0</level><action>go</action>", 0, SR1_THINKING_LEVEL_UNKNOWN,
     "<level>0</level>", "", "go", "go</action>"},
    {"<level>two</level><action>go</action>", 0, SR1_THINKING_LEVEL_UNKNOWN,
     "<level>two</level>", "", "go", "go</action>"},
    {"<level></level><action>go</action>", 0, SR1_THINKING_LEVEL_UNKNOWN,
     "<level></level>", "", "go", "go</action>"},
    {"<action>go</action>", 1, SR1_THINKING_LEVEL_GUESSED, "", "", "go", "go</action>"},
    {"<think>x</think><action>go</action>", 0, SR1_THINKING_LEVEL_UNKNOWN, "", "x", "go",
     "go</action>"},
    {"<action>go</action><level>2</level>", 1, SR1_THINKING_LEVEL_GUESSED, "", "", "go",
     "go</action><level>2</level>"}, /* too late */
    {"<level>3</level><level>1</level><action>go</action>", 3, 0, "<level>3</level>", "",
     "go", "go</action>"},
    /* thoughts and actions gone wrong */
    {"<level>2</level><think>x <action>go</action>", 2, SR1_THINKING_THINK_OPEN,
     "<level>2</level>", "x", "go", "go</action>"},
    {"<level>2</level><think>x</think><action> go on", 2, SR1_THINKING_ACTION_OPEN,
     "<level>2</level>", "x", "go on", " go on"},
    {"<level>2</level><think>x</think>go", 2, SR1_THINKING_NO_ACTION, "<level>2</level>",
     "x", "", ""},
    {"<level>2</level><think>x</think></action>", 2, SR1_THINKING_NO_ACTION,
     "<level>2</level>", "x", "", ""},
    {"<level>1</level><answer>no</answer><action>go</action>", 1, SR1_THINKING_NO_ACTION,
     "<level>1</level>", "", "", ""},
    {"<level>1</level><action>a</action><action>b</action>", 1, 0, "<level>1</level>", "",
     "a", "a</action><action>b</action>"},
    {"<level>1</level><action><action>b</action>", 1, 0, "<level>1</level>", "",
     "<action>b", "<action>b</action>"},
    {"<level>1</level><action> </action>", 1, 0, "<level>1</level>", "", "",
     " </action>"},
    {"<LEVEL>1</LEVEL><Action>go</Action>", 0,
     SR1_THINKING_LEVEL_UNKNOWN | SR1_THINKING_NO_ACTION, "", "", "", ""},
    {"", 0, SR1_THINKING_LEVEL_UNKNOWN | SR1_THINKING_NO_ACTION, "", "", "", ""},
};

static void same(const char *text, size_t begin, size_t len, const char *want)
{
    assert_int_equal(len, strlen(want));
    assert_memory_equal(text + begin, want, len);
}

static void steps_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr1_thinking_step s = {.struct_size = sizeof s};
        const char *text = cases[i].text;

        assert_int_equal(sr1_thinking_parse(text, strlen(text), &s), SR1_OK);
        assert_int_equal(s.level, cases[i].level);
        assert_int_equal(s.fallbacks, cases[i].fallbacks);
        same(text, s.level_begin, s.level_len, cases[i].tag);
        same(text, s.think_begin, s.think_len, cases[i].think);
        same(text, s.action_begin, s.action_len, cases[i].action);
        assert_string_equal(text + s.prefix_len, cases[i].rest);
    }
}

/* Of an action that is too long the beginning is read, here as in rollouts. */
static void an_endless_action_has_a_beginning(void **state)
{
    enum { LONG = SR1__ACTION_MAX + 50 };
    static const char before[] = "<level>1</level><action>";
    char text[LONG + 100];
    sr1_thinking_step s = {.struct_size = sizeof s};
    size_t n = (size_t)snprintf(text, sizeof text, "%s%0*d</action><action>go</action>",
                                before, LONG, 1);

    (void)state;
    assert_int_equal(sr1_thinking_parse(text, n, &s), SR1_OK);
    assert_int_equal(s.action_begin, strlen(before));
    assert_int_equal(s.action_len, SR1__ACTION_MAX);
    assert_int_equal(s.prefix_len, strlen(before));
    assert_int_equal(s.level, 1);
    assert_int_equal(s.fallbacks, 0);
}

static void levels_have_names(void **state)
{
    const char *name = NULL, *text = NULL;

    (void)state;
    for (int32_t i = 1; i <= SR1_THINKING_LEVELS; i++) {
        assert_int_equal(sr1_thinking_level(i, &name, &text), SR1_OK);
        assert_true(strlen(name) > 0 && strlen(text) > 0);
    }
    assert_string_equal(name, "strategic");
    assert_int_equal(sr1_thinking_level(0, &name, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_thinking_level(5, &name, NULL), SR1_E_INVALID);
    assert_int_equal(sr1_thinking_level(1, NULL, NULL), SR1_OK);
}

static void wrong_calls_are_refused(void **state)
{
    sr1_thinking_step s = {.struct_size = sizeof s, .level = 9};

    (void)state;
    assert_int_equal(sr1_thinking_parse(NULL, 1, &s), SR1_E_INVALID);
    assert_int_equal(sr1_thinking_parse("x", 1, NULL), SR1_E_INVALID);
    assert_int_equal(s.level, 9);
    assert_int_equal(sr1_thinking_parse(NULL, 0, &s), SR1_OK);
    s.struct_size = 0;
    assert_int_equal(sr1_thinking_parse("x", 1, &s), SR1_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_read),
        cmocka_unit_test(an_endless_action_has_a_beginning),
        cmocka_unit_test(levels_have_names),
        cmocka_unit_test(wrong_calls_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
