/* Which responses are well-formed, as plain text and as trajectories, and where their
 * answer is. */
#include "responses.h"
#include "signal/reward/format.h"

#include <searchr1/reward.h>
#include <searchr1/ext/seed_rewards.h>
#include <searchr1/ext/text_metrics.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SEARCH "<search>q</search>"
#define FOUND "<information>doc</information>"

struct text_case {
    const char *text;
    double format; /* when thoughts must be closed */
    const char *answer;
    double seed; /* when they need not be, if that is another; 0: the same */
};

static const struct text_case text_cases[] = {
    {"", -1, ""},
    {"Paris", -1, ""},
    {"<answer>Paris</answer>", 0.5, "Paris"},
    {"<answer></answer>", 0.5, ""},
    {"Well, <answer> Paris </answer>\n \t", 0.5, "Paris"},
    {"<think>x</think><answer>Paris</answer>", 0.5, "Paris"},
    {SEARCH FOUND "<answer>a</answer>", 0.5, "a"},
    {"<think>x</think>" SEARCH "\n\n" FOUND "\n\n<think>y</think>" SEARCH FOUND
     "so <answer>a</answer>",
     0.5, "a"},
    /* 1: exactly one answer */
    {"<answer>a</answer><answer>b</answer>", -1, "b"},
    {"<answer>a", -1, "a"},
    {"a</answer>", -1, ""},
    {"<answer>a</answer></answer>", -1, "a"},
    {"<answer><answer>a</answer>", -1, "<answer>a"},
    /* 2: at the end */
    {"<answer>a</answer>.", -1, "a"},
    {"<answer>a</answer>" SEARCH FOUND, -1, "a"},
    /* 3 and 4: searches and results in pairs */
    {SEARCH "<answer>a</answer>", -1, "a"},
    {"<search>q<answer>a</answer>", -1, "a"},
    {"q</search>" FOUND "<answer>a</answer>", -1, "a"},
    {SEARCH "<information>doc<answer>a</answer>", -1, "a"},
    {FOUND "<answer>a</answer>", -1, "a"},
    {FOUND SEARCH "<answer>a</answer>", -1, "a"},
    {SEARCH FOUND FOUND "<answer>a</answer>", -1, "a"},
    {"<search>q<search>q</search>" FOUND "<answer>a</answer>", -1, "a"},
    {"<answer>" SEARCH FOUND "a</answer>", -1, SEARCH FOUND "a"},
    /* 5: think blocks are removed with their content */
    {"<think>" SEARCH "</think><answer>a</answer>", 0.5, "a"},
    {"<think><answer>x</answer></think><answer>a</answer>", 0.5, "a"},
    {"<answer>a</answer><think>x</think>", 0.5, "a"},
    {"<search><think>x</think>q</search>" FOUND "<answer>a</answer>", 0.5, "a"},
    {"<think>x<answer>a</answer>", -1, "a", 0.5},
    {"x</think><answer>a</answer>", -1, "a", 0.5},
    {"<think><think>x</think></think><answer>a</answer>", -1, "a", 0.5},
    {"<answer>a</answer></think>", -1, "a"},
    {"<answer>a</answer><think>", -1, "a"},
    {"<think>x</think><think><answer>a</answer>", -1, "a", 0.5},
    {"<think>x<search>q</think>q</search>" FOUND "<answer>a</answer>", -1, "a"},
    /* what was retrieved is inert */
    {SEARCH "<information><answer>x</answer></search><think></information>"
            "<answer>a</answer>",
     0.5, "a"},
    /* a response cut short keeps what it had begun */
    {"<think>x</think><answer> New York</ans", -1, "New York"},
    {"<think><answer>no</think> then <answer>yes", -1, "yes"},
    {"<answer>a</answer> <answer>b", -1, "a"},
};

static void plain_text(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof text_cases / sizeof text_cases[0]; i++) {
        const struct text_case *c = &text_cases[i];
        size_t len = strlen(c->text), begin, n;
        sr1_reward_scales scales = {.struct_size = sizeof scales};
        double got;

        assert_int_equal(sr1_reward_check_format(c->text, len, NULL, &got), SR1_OK);
        if (got != (c->seed != 0 ? c->seed : c->format))
            fail_msg("format of '%s' is %g", c->text, got);
        sr1_reward_scales_init(&scales);
        scales.closed_thoughts = 1;
        assert_int_equal(sr1_reward_check_format(c->text, len, &scales, &got), SR1_OK);
        if (got != c->format)
            fail_msg("format of '%s', thoughts closed, is %g", c->text, got);
        assert_int_equal(sr1_reward_find_answer(c->text, len, &begin, &n, NULL), SR1_OK);
        if (n != strlen(c->answer) || memcmp(c->text + begin, c->answer, n) != 0)
            fail_msg("answer of '%s' is '%.*s'", c->text, (int)n, c->text + begin);
    }
}

static void answers_say_whether_they_were_closed(void **state)
{
    size_t begin, n;
    int32_t closed;

    (void)state;
    assert_int_equal(
        sr1_reward_find_answer("<answer>a</answer>", 18, &begin, &n, &closed), SR1_OK);
    assert_int_equal(closed, 1);
    assert_int_equal(sr1_reward_find_answer("<answer>a", 9, &begin, &n, &closed), SR1_OK);
    assert_int_equal(closed, 0);
    assert_int_equal(begin, 8);
    assert_int_equal(sr1_reward_find_answer(NULL, 0, &begin, &n, &closed), SR1_OK);
    assert_int_equal(n, 0);
    assert_int_equal(sr1_reward_find_answer(NULL, 1, &begin, &n, NULL), SR1_E_INVALID);
}

struct trajectory_case {
    struct response response;
    int well_formed;
    const char *closed; /* NULL: no answer was closed */
    int in_thought;     /* the prompt opened one */
    int seed;           /* well-formed only when thoughts need not be closed */
};

static const struct trajectory_case trajectory_cases[] = {
    {{{"<answer>a</answer>"}}, 1, "a"},
    {{{"<think>x</think><search>q</search>", "doc", "<answer>a</answer>"}}, 1, "a"},
    {{{"<search>q</search>", "", "<search>r</search>", "doc", "<answer> </answer>"}},
     1,
     ""},
    /* tags inside what was retrieved never count */
    {{{"<search>q</search>", "</information><answer>x</answer>", "<answer>a</answer>"}},
     1,
     "a"},
    {{{"<search>q</search>", "<think></answer></think><search>", "<answer>a</answer>"}},
     1,
     "a"},
    {{{"<search>q</search>", "<answer>x</answer>"}}, 0, NULL},
    {{{"<search>q</search>", "</think>", "<think>y</think><answer>a</answer>"}}, 1, "a"},
    /* a think block may reach over a search */
    {{{"<think>x <search>q</search>", "</think>", "y</think><answer>a</answer>"}},
     1,
     "a"},
    /* results that the policy wrote itself */
    {{{"<search>q</search><information>d</information><answer>a</answer>"}}, 0, "a"},
    {{{"<search>q</search>", "doc", "<information><answer>a</answer>"}}, 0, "a"},
    {{{"<think><information>d</information></think><answer>a</answer>"}}, 0, "a"},
    {{{"</information><answer>a</answer>"}}, 0, "a"},
    /* a search that was not answered, a result that was not asked for */
    {{{"<search>q</search><answer>a</answer>"}}, 0, "a"},
    {{{"well ", "doc", "<answer>a</answer>"}}, 0, "a"},
    /* an answer over two turns is none */
    {{{"<answer>a<search>q</search>", "doc", "b</answer>"}}, 0, NULL},
    {{{"<answer>cut short"}}, 0, NULL},
    {{{"nothing"}}, 0, NULL},
    {{{NULL}}, 0, NULL},
    /* a closing tag in what was retrieved closes no thought */
    {{{"<think>x <search>q</search>", "</think>", "<answer>a</answer>"}}, 0, "a", 0, 1},
    /* the prompt ended in <think> */
    {{{"x</think><answer>a</answer>"}}, 1, "a", 1},
    {{{"x</think><answer>a</answer>"}}, 0, "a", 0, 1},
    {{{"x</think><search>q</search>", "doc", "<think>y</think><answer>a</answer>"}},
     1,
     "a",
     1},
    {{{"x <search>q</search>", "</think>", "y</think><answer>a</answer>"}}, 1, "a", 1},
    {{{"<answer>x</answer></think><answer>a</answer>"}}, 1, "a", 1},
    {{{"<answer>a</answer>"}}, 0, "a", 1, 1},
    {{{"x</think></think><answer>a</answer>"}}, 0, "a", 1, 1},
};

static void trajectories(void **state)
{
    const struct sr1__protocol *p = sr1__protocol_find(NULL);
    size_t i;

    (void)state;
    for (i = 0; i < sizeof trajectory_cases / sizeof trajectory_cases[0]; i++) {
        const struct trajectory_case *c = &trajectory_cases[i];
        struct sr1__str answer;
        sr1_trajectory *t = NULL;

        assert_int_equal(make_opened(&c->response, c->in_thought, &t), SR1_OK);
        if (sr1__format_of_trajectory(p, t, 1) != c->well_formed)
            fail_msg("case %zu is not expected to be %d", i, !c->well_formed);
        if (sr1__format_of_trajectory(p, t, 0) != (c->well_formed || c->seed))
            fail_msg("case %zu is not expected to be so, open thoughts allowed", i);
        answer = sr1__closed_answer(p, t);
        if (c->closed == NULL) {
            assert_null(answer.s);
        } else {
            assert_int_equal(answer.n, strlen(c->closed));
            assert_memory_equal(answer.s, c->closed, answer.n);
        }
        sr1_trajectory_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text),
        cmocka_unit_test(answers_say_whether_they_were_closed),
        cmocka_unit_test(trajectories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
