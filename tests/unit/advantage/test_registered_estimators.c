/* Estimators of the program's own, by name beside the built-in ones. */
#include <searchr1/config.h>
#include <searchr1/ext/estimators.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define OK(call) assert_int_equal(call, SR1_OK)
#define REFUSED(call, status, part)                                                      \
    do {                                                                                 \
        assert_int_equal(call, status);                                                  \
        if (!strstr(sr1_last_error(), part))                                             \
            fail_msg("'%s' is not in: %s", part, sr1_last_error());                      \
    } while (0)

static double rewards[] = {1, 3, 5};
static uint64_t groups[] = {7, 7, 7};
static int64_t token_begin[] = {0, 2, 3, 5};
static const sr1_advantage_batch batch = {.struct_size = sizeof batch,
                                          .n = 3,
                                          .rewards = rewards,
                                          .groups = groups,
                                          .token_begin = token_begin};

/* The reward itself, times eps; self: the value of its first token. */
static sr1_status by_token(void *self, const sr1_advantage_batch *b,
                           const sr1_advantage_options *o,
                           const sr1_advantage_outputs *out)
{
    if (!self)
        return SR1_E_INVALID; /* without a word */
    assert_null(out->advantages);
    assert_true(out->token_advantages[0] == 0);
    for (size_t i = 0; i < b->n; i++)
        for (int64_t t = b->token_begin[i]; t < b->token_begin[i + 1]; t++) {
            out->token_advantages[t] = (float)(b->rewards[i] * o->eps);
            out->returns[t] = 2;
        }
    out->token_advantages[0] = *(const float *)self;
    return SR1_OK;
}

static void it_is_one_of_the_table(void **state)
{
    static float first = 9;
    const sr1_advantage_options numbers = {.struct_size = sizeof numbers, .eps = 0.5};
    sr1_advantage_ops ops = {.struct_size = sizeof ops,
                             .name = "by_token",
                             .estimate = by_token,
                             .gives =
                                 SR1_ADVANTAGE_GIVES_TOKENS | SR1_ADVANTAGE_GIVES_RETURNS,
                             .options = "eps",
                             .defaults = &numbers,
                             .formula = "A = s eps"};
    double advantages[3];
    float tokens[5], returns[5];
    sr1_advantage_outputs out = {sizeof out, advantages, tokens, returns, NULL};
    sr1_advantage_info info = {.struct_size = sizeof info};
    sr1_advantage_batch bare = batch;
    size_t n = 0;

    (void)state;
    while (sr1_advantage_name(n))
        n++;
    OK(sr1_advantage_register(&ops, &first));
    assert_string_equal(sr1_advantage_name(n), "by_token");
    assert_null(sr1_advantage_name(n + 1));
    OK(sr1_advantage_describe(n, &info));
    assert_string_equal(info.formula, "A = s eps");
    assert_string_equal(info.options, "eps");
    assert_int_equal(info.needs, SR1_ADVANTAGE_NEEDS_TOKENS); /* it writes to them */
    OK(sr1_advantage_estimate("by_token", &batch, NULL, &out, NULL));
    assert_true(tokens[0] == 9 && tokens[1] == 0.5F && tokens[2] == 1.5F);
    assert_true(advantages[0] == 4.75 && advantages[2] == 2.5 && returns[4] == 2);
    bare.token_begin = NULL;
    REFUSED(sr1_advantage_estimate("by_token", &bare, NULL, &out, NULL), SR1_E_INVALID,
            "lacks token_begin");
    first = NAN;
    REFUSED(sr1_advantage_estimate("by_token", &batch, NULL, &out, NULL), SR1_E_NUMERIC,
            "by_token");
    assert_true(advantages[0] == 4.75);
    ops.name = "mute";
    OK(sr1_advantage_register(&ops, NULL));
    REFUSED(sr1_advantage_estimate("mute", &batch, NULL, &out, NULL), SR1_E_INVALID,
            "advantage 'mute': its function failed");
}

static void it_is_a_choice_of_the_key(void **state)
{
    const sr1_advantage_ops ops = {
        .struct_size = sizeof ops, .name = "later", .estimate = by_token};
    sr1_config *c = NULL;

    (void)state;
    OK(sr1_config_new(&c));
    REFUSED(sr1_config_set(c, "advantage", "later"), SR1_E_CONFIG,
            "'later' is not allowed");
    assert_non_null(strstr(sr1_last_error(), "baseline|gae, or one that the program"));
    assert_non_null(strstr(sr1_last_error(), "sr1_advantage_register"));
    OK(sr1_advantage_register(&ops, NULL));
    OK(sr1_config_set(c, "advantage", "later"));
    assert_int_equal(sr1_config_set(c, "loss", "later"), SR1_E_CONFIG);
    sr1_config_free(c);
}

static void what_contradicts_is_refused(void **state)
{
    const sr1_advantage_options short_one = {.struct_size = 3};
    sr1_advantage_ops ops = {
        .struct_size = sizeof ops, .name = "grpo", .estimate = by_token};
    static const char *const bad[] = {"", "9lives", "a b", "comma,", "\xC3\xA9"};

    (void)state;
    REFUSED(sr1_advantage_register(&ops, NULL), SR1_E_INVALID,
            "'grpo' is taken; choose another name");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ops.name = bad[i];
        REFUSED(sr1_advantage_register(&ops, NULL), SR1_E_INVALID,
                "begins with a letter");
    }
    ops.name = "twice";
    OK(sr1_advantage_register(&ops, NULL));
    REFUSED(sr1_advantage_register(&ops, NULL), SR1_E_INVALID, "'twice' is taken");
    ops.name = "other";
    ops.needs = 2048;
    REFUSED(sr1_advantage_register(&ops, NULL), SR1_E_INVALID, "0x800");
    ops.needs = 0;
    ops.gives = 16;
    REFUSED(sr1_advantage_register(&ops, NULL), SR1_E_INVALID, "0x10");
    ops.gives = 0;
    ops.defaults = &short_one;
    REFUSED(sr1_advantage_register(&ops, NULL), SR1_E_INVALID, "advantage options");
    ops.defaults = NULL;
    ops.estimate = NULL;
    REFUSED(sr1_advantage_register(&ops, NULL), SR1_E_INVALID, "estimate");
    REFUSED(sr1_advantage_register(NULL, NULL), SR1_E_INVALID, "NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_one_of_the_table),
        cmocka_unit_test(it_is_a_choice_of_the_key),
        cmocka_unit_test(what_contradicts_is_refused),
    };

    return cmocka_run_group_tests_name("registered estimators", tests, NULL, NULL);
}
