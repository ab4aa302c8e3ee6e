/* Prompts, writers, and the environment in which a critique is answered by a revision. */
#include "critique_test.h"
#include "support/files.h"

#include <searchr1/search.h>
#include <searchr1/ext/episodes.h>

/* ---- prompts ---- */

static void an_answer_is_shown_as_one_block(void **state)
{
    static const struct {
        const char *answer, *want;
    } cases[] = {
        {"So:\n```\nx = 1\n```\nDone.", "```python\nx = 1\n```"},
        {"```python\nx = 1", "```python\nx = 1\n```"},
        {"  x = 1\n", "x = 1"},
        {"", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *out = NULL;

        OK(sr1_critique_sanitize(cases[i].answer, strlen(cases[i].answer), &out));
        assert_string_equal(out, cases[i].want);
        sr1_free(out);
    }
}

static int order(const char *text, const char *const *parts)
{
    for (; *parts; parts++) {
        text = strstr(text, *parts);
        if (!text)
            return 0;
        text += strlen(*parts);
    }
    return 1;
}

static void a_critic_is_asked(void **state)
{
    static const char *const shape[] = {
        "<problem>\nAdd two numbers with add(a, b).\n</problem>",
        "<answer>\n```python\ndef add(a, b):\n    return a - "
        "b\n```\n</answer>",
        "Analysis:",
        "Improvement suggestions:",
        "Overall judgment: {Correct/Incorrect}",
        NULL};
    sr1_problems *p = three_problems();
    const sr1_problem *add = sr1_problems_find(p, "add");
    char *plain = NULL, *hinted = NULL;

    (void)state;
    OK(sr1_critique_prompt(NULL, add, NULL, 0, NULL, &plain));
    assert_true(order(plain, shape));
    assert_null(strstr(plain, "hint"));
    OK(sr1_critique_prompt(NULL, add, NULL, 0, "It is wrong.\n", &hinted));
    assert_non_null(strstr(hinted, "<hint>\nIt is wrong.\n</hint>"));
    assert_true(order(hinted, shape));
    sr1_free(plain);
    sr1_free(hinted);
    OK(sr1_critique_prompt(NULL, add, "pass", 4, NULL, &plain));
    assert_non_null(strstr(plain, "<answer>\npass\n</answer>"));
    sr1_free(plain);
    REFUSED(
        sr1_critique_prompt(NULL, sr1_problems_find(p, "bare"), NULL, 0, NULL, &plain),
        SR1_E_INVALID, "problem 'bare' has no \"solution\"");
    sr1_problems_free(p);
}

static void a_revision_is_asked_for(void **state)
{
    static const char critique[] = " It subtracts.\nOverall judgment: Incorrect ";
    sr1_problems *p = three_problems();
    const sr1_problem *add = sr1_problems_find(p, "add");
    char *contents[SR1_REVISION_MESSAGES], *prompt = NULL;

    (void)state;
    OK(sr1_problem_prompt(add, &prompt));
    OK(sr1_critique_revision(NULL, add, NULL, 0, critique, strlen(critique), contents));
    assert_string_equal(contents[0], prompt);
    assert_string_equal(contents[1], "```python\ndef add(a, b):\n    return a - b\n```");
    assert_string_equal(
        contents[2], "It subtracts.\nOverall judgment: Incorrect\n\nPlease finalize your "
                     "answer accordingly using the same format.");
    for (size_t i = 0; i < SR1_REVISION_MESSAGES; i++)
        sr1_free(contents[i]);
    sr1_free(prompt);
    sr1_problems_free(p);
}

static void prompts_can_be_ones_own(void **state)
{
    const char *critique = scratch_file("c.txt", "P {{problem}} A {{answer}}", 0);
    const char *hinted = scratch_file("h.txt", "[{{  hint  }}] {{answer}}", 0);
    const char *solve = scratch_file("s.txt", "Do: {{problem}}", 0);
    sr1_problems *p = three_problems();
    const sr1_problem *neg = sr1_problems_find(p, "neg");
    sr1_critique_style *s = NULL;
    char *text = NULL;

    (void)state;
    OK(sr1_critique_style_open(&s, critique, solve));
    OK(sr1_critique_prompt(s, neg, "x", 1, NULL, &text));
    assert_string_equal(text, "P Negate a number with neg(a). A x");
    sr1_free(text);
    OK(sr1_critique_prompt(s, neg, "x", 1, "Good.", &text));
    assert_non_null(strstr(text, "neg(a). A x\n\nWhat is known")); /* at the end */
    sr1_free(text);
    OK(sr1_critique_solve_prompt(s, neg, &text));
    assert_string_equal(text, "Do: Negate a number with neg(a).");
    sr1_free(text);
    sr1_critique_style_free(s);

    OK(sr1_critique_style_open(&s, hinted, NULL));
    OK(sr1_critique_prompt(s, neg, "x", 1, NULL, &text));
    assert_string_equal(text, "[] x");
    sr1_free(text);
    OK(sr1_critique_prompt(s, neg, "x", 1, "Good.", &text));
    assert_non_null(strstr(text, "<hint>\nGood.\n</hint>] x"));
    sr1_free(text);
    sr1_critique_style_free(s);
    REFUSED(sr1_critique_style_open(&s, scratch_file("bad.txt", "{{other}}", 0), NULL),
            SR1_E_PARSE, "other");
    REFUSED(sr1_critique_style_open(&s, NULL, scratch_file("bad.txt", "{{answer}}", 0)),
            SR1_E_PARSE, "answer");
    sr1_problems_free(p);
}

static sr1_status prompts_once(void *arg)
{
    const sr1_problem *add = sr1_problems_find(arg, "add");
    char *contents[SR1_REVISION_MESSAGES] = {NULL}, *text = NULL;
    sr1_status st = sr1_critique_revision(NULL, add, NULL, 0, "c", 1, contents);

    if (st == SR1_OK)
        st = sr1_critique_prompt(NULL, add, NULL, 0, "h", &text);
    for (size_t i = 0; i < SR1_REVISION_MESSAGES; i++)
        sr1_free(contents[i]);
    sr1_free(text);
    return st;
}

static void prompts_survive_want_of_memory(void **state)
{
    sr1_problems *p = three_problems();

    (void)state;
    assert_true(torture(prompts_once, p) > 3);
    sr1_problems_free(p);
}

/* ---- writers ---- */

/* Quotes the last message, but has nothing to say to "quiet". */
static const char *quote(const sr1_conversation *c, char *room, size_t size)
{
    const char *last = c->contents[c->n - 1];

    if (strcmp(last, "quiet") == 0)
        return NULL;
    snprintf(room, size, "%zu:%s:%d", c->n, last, (int)c->sample);
    return room;
}

static sr1_conversation say(const char *const *text, const size_t *size)
{
    static const char *const roles[] = {"user"};

    return (sr1_conversation){.struct_size = sizeof(sr1_conversation),
                              .roles = roles,
                              .contents = text,
                              .sizes = size,
                              .n = 1,
                              .sample = 7};
}

static sr1_status write_once(void *arg)
{
    static const char *const texts[] = {"hello", "quiet"};
    static const size_t sizes[] = {5, 5};
    struct script s = {.say = quote};
    sr1_conversation c[2] = {say(&texts[0], &sizes[0]), say(&texts[1], &sizes[1])};
    sr1_generator *w = NULL;
    char *said[2] = {NULL, NULL};
    size_t lens[2];
    sr1_status st = script_open(&w, &s);

    if (st == SR1_OK)
        st = sr1_generator_generate(w, c, 2, said, lens);
    if (st == SR1_OK && arg) {
        assert_string_equal(said[0], "1:hello:7");
        assert_int_equal(lens[0], 9);
        assert_null(said[1]);
    }
    sr1_free(said[0]);
    sr1_generator_free(w);
    return st;
}

static void a_writer_writes(void **state)
{
    struct script s = {.say = quote};
    sr1_conversation bad = {.struct_size = sizeof bad};
    sr1_generator *w = NULL;
    char *said;

    OK(write_once(state));
    torture(write_once, NULL);
    OK(script_open(&w, &s));
    assert_string_equal(sr1_generator_name(w), "script");
    REFUSED(sr1_generator_generate(w, &bad, 1, &said, NULL), SR1_E_INVALID,
            "no messages");
    bad.struct_size = 3;
    REFUSED(sr1_generator_generate(w, &bad, 1, &said, NULL), SR1_E_INVALID,
            "struct_size");
    OK(sr1_generator_generate(w, NULL, 0, NULL, NULL));
    assert_ptr_equal(sr1_generator_retain(w), w);
    sr1_generator_free(w);
    assert_int_equal(s.destroyed, 0);
    sr1_generator_free(w);
    assert_int_equal(s.destroyed, 1);
}

static sr1_status broken(void *self, const sr1_conversation *const *c, size_t n,
                         sr1_generator_sink *sink)
{
    (void)self, (void)c;
    REFUSED(sr1_generator_sink_text(sink, n, "x", 1), SR1_E_INVALID, "no conversation");
    return sr1_set_error(SR1_E_NETWORK, "the line is dead");
}

static void a_writer_that_breaks_is_named(void **state)
{
    static const char *const text = "x";
    static const size_t size = 1;
    sr1_generator_ops ops = {.struct_size = sizeof ops, .name = "far", .write = broken};
    sr1_conversation c = say(&text, &size);
    sr1_generator *w = NULL;
    char *said = NULL;

    (void)state;
    OK(sr1_generator_new(&w, &ops, NULL));
    REFUSED(sr1_generator_generate(w, &c, 1, &said, NULL), SR1_E_NETWORK,
            "generator 'far': the line is dead");
    sr1_generator_free(w);
    ops.write = NULL;
    REFUSED(sr1_generator_new(&w, &ops, NULL), SR1_E_INVALID, "write");
}

/* ---- the environment ---- */

/* Revises what is said to be incorrect, keeps what is said to be right, and fails for
 * what does not judge. */
static const char *revise(const sr1_conversation *c, char *room, size_t size)
{
    const char *critique = c->contents[2];

    if (strstr(critique, "Overall judgment: Incorrect"))
        return "```python\ndef add(a, b):\n    return a + b\n```";
    if (!strstr(critique, "Overall judgment: Correct"))
        return NULL;
    snprintf(room, size, "%s", c->contents[1]);
    return room;
}

static void a_critique_is_answered_by_a_revision(void **state)
{
    static const struct {
        const char *critique, *revision;
        int32_t status;
    } cases[] = {
        {"Overall judgment: Incorrect", "return a + b", SR1_ACTION_OK},
        {"Overall judgment: Correct", "return a - b", SR1_ACTION_OK},
        {"Hm.", "", SR1_ACTION_ERROR},
    };
    struct script s = {.say = revise};
    sr1_problems *p = three_problems();
    sr1_generator *w = NULL;
    sr1_env *env = NULL;

    (void)state;
    OK(script_open(&w, &s));
    OK(sr1_critique_env_open(&env, p, w, NULL, NULL));
    sr1_generator_free(w);
    sr1_problems_free(p);
    assert_string_equal(sr1_env_name(env), "critique");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sr1_env_reply r = {.struct_size = sizeof r};
        int64_t episode = 0;
        char *text = NULL;
        size_t len;

        OK(sr1_env_begin(env, "add", NULL, 0, 0, &episode));
        OK(sr1_env_step(env, episode, cases[i].critique, strlen(cases[i].critique), &r,
                        &text, &len));
        assert_int_equal(r.status, cases[i].status);
        assert_int_equal(r.done, cases[i].status == SR1_ACTION_OK);
        if (*cases[i].revision)
            assert_non_null(strstr(text, cases[i].revision));
        else
            assert_int_equal(len, 0);
        assert_null(strstr(text, "<revision>")); /* the protocol has no tags */
        sr1_free(text);
        sr1_env_finish(env, episode);
        REFUSED(sr1_env_step(env, episode, "x", 1, &r, &text, &len), SR1_E_STATE,
                "no episode");
    }
    sr1_env_free(env);
    assert_int_equal(s.destroyed, 1);
}

static void questions_must_be_problems_with_a_solution(void **state)
{
    sr1_env_options o = {.struct_size = sizeof o, .protocol = "search-r1"};
    struct script s = {.say = revise};
    sr1_problems *p = three_problems();
    sr1_generator *w = NULL;
    sr1_env *env = NULL;
    int64_t episode;

    (void)state;
    OK(script_open(&w, &s));
    REFUSED(sr1_critique_env_open(&env, p, w, NULL, &o), SR1_E_INVALID, "use ctrl");
    OK(sr1_critique_env_open(&env, p, w, NULL, NULL));
    REFUSED(sr1_env_begin(env, "other", NULL, 0, 0, &episode), SR1_E_NOT_FOUND,
            "question 'other' is none of the problems");
    REFUSED(sr1_env_begin(env, "bare", NULL, 0, 0, &episode), SR1_E_INVALID,
            "problem 'bare' has no \"solution\"");
    sr1_env_free(env);
    sr1_generator_free(w);
    sr1_problems_free(p);
}

static sr1_status env_once(void *arg)
{
    struct script s = {.say = revise};
    sr1_generator *w = NULL;
    sr1_env *env = NULL;
    int64_t episode = 0;
    char *text = NULL;
    size_t len;
    sr1_status st = script_open(&w, &s);

    if (st == SR1_OK)
        st = sr1_critique_env_open(&env, arg, w, NULL, NULL);
    if (st == SR1_OK)
        st = sr1_env_begin(env, "add", NULL, 0, 0, &episode);
    if (st == SR1_OK)
        st = sr1_env_step(env, episode, "Overall judgment: Correct", 25, NULL, &text,
                          &len);
    sr1_free(text);
    sr1_env_finish(env, episode);
    sr1_env_free(env);
    sr1_generator_free(w);
    return st;
}

static void the_environment_survives_want_of_memory(void **state)
{
    sr1_problems *p = three_problems();

    (void)state;
    assert_true(torture(env_once, p) > 5);
    sr1_problems_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_shown_as_one_block),
        cmocka_unit_test(a_critic_is_asked),
        cmocka_unit_test(a_revision_is_asked_for),
        cmocka_unit_test(prompts_can_be_ones_own),
        cmocka_unit_test(prompts_survive_want_of_memory),
        cmocka_unit_test(a_writer_writes),
        cmocka_unit_test(a_writer_that_breaks_is_named),
        cmocka_unit_test(a_critique_is_answered_by_a_revision),
        cmocka_unit_test(questions_must_be_problems_with_a_solution),
        cmocka_unit_test(the_environment_survives_want_of_memory),
    };

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
