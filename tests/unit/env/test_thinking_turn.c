/* Which tokens of a message are its level's tag, its thoughts and its action, however the
 * text is cut into tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "environment/env/thinking_turn.h"
#include "environment/trajectory/builder.h"

#define OK(expr)                                                                         \
    do {                                                                                 \
        if ((expr) != SR1_OK)                                                            \
            fail_msg("%s: %s", #expr, sr1_last_error());                                 \
    } while (0)

/* A trajectory of one message, its tokens' pieces given up to NULL, behind two of a
 * prompt. */
static sr1_trajectory *of_pieces(const char *const *pieces)
{
    static const int32_t prompt[] = {1, 2};
    struct sr1__trajectory_builder *b = NULL;
    sr1_trajectory *t = NULL;

    OK(sr1__trajectory_builder_new(&b, "q", 1, "q", 0));
    OK(sr1__trajectory_builder_prompt(b, prompt, 2));
    for (; *pieces; pieces++)
        OK(sr1__trajectory_builder_policy(b, 7, -1.0F, 0, *pieces, strlen(*pieces)));
    OK(sr1__trajectory_builder_finish(b, SR1_STOP_EOS, NULL, 0, &t));
    return t;
}

/* marks, a token each: l tag of the level, t thoughts, a action, . none of them. */
static void check(const char *marks, size_t behind, const char *const *pieces)
{
    sr1_trajectory *t = of_pieces(pieces);
    struct sr1__thinking_turn turn = {0};
    int64_t thoughts = 0;

    assert_int_equal(sr1__thinking_turn_next(t, &turn), 1);
    assert_int_equal(turn.message.begin, 2);
    assert_int_equal(turn.message.end, 2 + strlen(marks));
    for (size_t i = 0; marks[i]; i++) {
        size_t at = 2 + i;
        int thought = at >= turn.thoughts.begin && at < turn.thoughts.end;
        int action = at >= turn.action.begin && at < turn.action.end;
        int level = at >= turn.level.begin && at < turn.level.end;

        if (thought != (marks[i] == 't') || action != (marks[i] == 'a') ||
            level != (marks[i] == 'l'))
            fail_msg("'%s': token %zu is%s of the thoughts,%s of the action,%s of the "
                     "level",
                     marks, i, thought ? "" : " not", action ? "" : " not",
                     level ? "" : " not");
        thoughts += thought;
    }
    assert_int_equal(turn.behind, 2 + behind);
    assert_int_equal(sr1__thinking_tokens(t), thoughts);
    assert_int_equal(sr1__thinking_turn_next(t, &turn), 0);
    sr1_trajectory_free(t);
}

#define PIECES(...)                                                                      \
    (const char *const[])                                                                \
    {                                                                                    \
        __VA_ARGS__, NULL                                                                \
    }

static void tokens_are_found(void **state)
{
    (void)state;
    check("lll.tt..aa.", 8,
          PIECES("<level>", "3", "</level>", "<think>", " I", " see", "</think>",
                 "<action>", " go", " on", "</action>"));
    check("l.a.", 2, PIECES("<level>1</level>", "<action>", "go", "</action>"));
    /* white space of its own is neither; it stands behind the tag */
    check("l.t...aa", 5,
          PIECES("<level>2</level>", "<think>", "so", "</think>", "<action>", " ", "go",
                 " up</action>"));
}

/* What came with the tag is context. */
static void cut_anywhere(void **state)
{
    (void)state;
    check("lltt.a.", 5,
          PIECES("<lev", "el>2</level><thi", "nk>we", "ll</think><act", "ion>go", " up",
                 "</action>"));
    /* a character of two tokens belongs to where it is */
    check("l.aa.", 2,
          PIECES("<level>1</level>", "<action>", "", "\xc3\xa9", "</action>"));
    /* no closed action: none is its own */
    check("l..", 2, PIECES("<level>1</level>", "<action>", "go"));
    check("l.", 2, PIECES("<level>1</level>", "and so on"));
    check("..a.", 2, PIECES("so", "<action>", "go", "</action>"));
    check("l.t", 3, PIECES("<level>2</level>", "<think>", "no end"));
}

/* Whatever is said in whatever pieces, the places lie in order within the message. */
static void places_are_in_order(void **state)
{
    static const char *const bits[] = {
        "<level>",   "2",   "</level>", "<think>",  "</think>", "<action>",
        "</action>", " so", "",         "<act",     "ion>",     "\xe2\x82\xac",
        "</lev",     "el>", " ",        "1</level>"};
    struct sr1__rng rng;

    (void)state;
    sr1__rng_seed(&rng, 4, 0);
    for (int k = 0; k < 20000; k++) {
        const char *pieces[16];
        size_t n = 1 + sr1__rng_below(&rng, 14);
        struct sr1__thinking_turn u = {0};
        sr1_trajectory *t;

        for (size_t i = 0; i < n; i++)
            pieces[i] = bits[sr1__rng_below(&rng, sizeof bits / sizeof *bits)];
        pieces[n] = NULL;
        t = of_pieces(pieces);
        while (sr1__thinking_turn_next(t, &u)) {
            assert_true(u.message.begin <= u.thoughts.begin);
            assert_true(u.thoughts.begin <= u.thoughts.end);
            assert_true(u.message.begin <= u.level.begin && u.level.begin <= u.level.end);
            assert_true(u.level.end <= u.message.end);
            assert_true(u.thoughts.end <= u.message.end);
            assert_true(u.behind <= u.action.begin && u.behind <= u.message.end);
            assert_true(u.action.begin <= u.action.end && u.action.end <= u.message.end);
            assert_true(u.behind_at <= u.said_len);
            if (u.action.begin < u.action.end)
                assert_true(u.behind_at >= u.step.prefix_len);
            if (u.step.think_len > 0 && u.action.begin < u.action.end)
                assert_true(u.thoughts.begin < u.action.end);
        }
        sr1_trajectory_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_found),
        cmocka_unit_test(cut_anywhere),
        cmocka_unit_test(places_are_in_order),
    };

    return cmocka_run_group_tests_name("thinking turns", tests, NULL, NULL);
}
