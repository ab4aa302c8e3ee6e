/* Environments that keep a state for each trajectory, and what their actions earn. */
#include "environment/env/env.h"

#include <searchr1/ext/episodes.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Counts the actions of each episode; the third one is its goal. */
struct counter {
    int64_t of[8]; /* by episode */
    int32_t live;
    uint64_t seed;
    char query[16], id[16];
};

static sr1_status begin(void *self, const sr1_env_episode *e)
{
    struct counter *c = self;

    if (strcmp(e->query_id, "bad") == 0)
        return sr1_set_error(SR1_E_PARSE, "no such world");
    c->of[e->episode] = 0;
    c->live++;
    c->seed = e->seed;
    memcpy(c->query, e->query, e->query_len);
    strcpy(c->id, e->query_id);
    return SR1_OK;
}

static void finish(void *self, int64_t episode)
{
    struct counter *c = self;

    assert_in_range(episode, 1, 7);
    c->live--;
}

static sr1_status act(void *self, const sr1_env_action *const *a, size_t n,
                      sr1_env_sink *sink)
{
    struct counter *c = self;

    for (size_t i = 0; i < n; i++) {
        int64_t count = ++c->of[a[i]->episode];

        assert_int_equal(sr1_env_sink_text(sink, i, &"123456789"[count - 1], 1), SR1_OK);
        assert_int_equal(sr1_env_sink_reward(sink, i, -0.25), SR1_OK);
        if (count == 3) {
            assert_int_equal(sr1_env_sink_reward(sink, i, 1.25), SR1_OK);
            assert_int_equal(sr1_env_sink_success(sink, i), SR1_OK);
        }
        assert_int_equal(sr1_env_sink_reward(sink, i, NAN), SR1_E_NUMERIC);
        assert_int_equal(sr1_env_sink_reward(sink, n, 1), SR1_E_INVALID);
        assert_int_equal(sr1_env_sink_success(sink, n), SR1_E_INVALID);
    }
    return SR1_OK;
}

static sr1_env_ops counting(void)
{
    sr1_env_ops ops = {.struct_size = sizeof ops,
                       .name = "counter",
                       .act = act,
                       .begin = begin,
                       .finish = finish};

    return ops;
}

static sr1_env_reply step(sr1_env *env, int64_t episode, const char *says)
{
    sr1_env_reply r = {.struct_size = sizeof r};
    char *text = NULL;
    size_t len = 0;

    assert_int_equal(sr1_env_step(env, episode, "x", 1, &r, &text, &len), SR1_OK);
    assert_non_null(strstr(text, says));
    assert_int_equal(len, strlen(text));
    sr1_free(text);
    return r;
}

static void states_are_apart(void **state)
{
    struct counter c = {{0}};
    sr1_env_ops ops = counting();
    sr1_env *env = NULL;
    int64_t a = 0, b = 0, bad = 5;
    sr1_env_reply r;

    (void)state;
    assert_int_equal(sr1_env_new(&env, &ops, &c, NULL), SR1_OK);
    assert_int_equal(sr1_env_begin(env, "id", "why?", 4, 77, &a), SR1_OK);
    assert_int_equal(c.seed, 77);
    assert_string_equal(c.query, "why?");
    assert_string_equal(c.id, "id");
    assert_int_equal(sr1_env_begin(env, NULL, NULL, 0, 0, &b), SR1_OK);
    assert_true(a > 0 && b > 0 && a != b);
    r = step(env, a, "1");
    assert_true(r.reward == -0.25 && !r.success && !r.done);
    (void)step(env, b, "1");
    (void)step(env, a, "2");
    r = step(env, a, "3");
    assert_true(r.reward == 1.0 && r.success == 1);
    assert_int_equal(sr1_env_begin(env, "bad", "x", 1, 0, &bad), SR1_E_PARSE);
    assert_non_null(strstr(sr1_last_error(), "environment 'counter': no such world"));
    assert_int_equal(bad, 5);
    sr1_env_finish(env, a);
    sr1_env_finish(env, b);
    sr1_env_finish(env, 0);
    sr1_env_finish(NULL, 3);
    assert_int_equal(c.live, 0);
    sr1_env_free(env);
}

static void odd_functions_are_refused(void **state)
{
    struct counter c = {{0}};
    sr1_env_ops ops = counting();
    sr1_env *env = NULL;
    int64_t e = 5;

    (void)state;
    ops.finish = NULL;
    assert_int_equal(sr1_env_new(&env, &ops, &c, NULL), SR1_E_INVALID);
    ops = counting();
    ops.flags = SR1_ENV_WAITS;
    assert_int_equal(sr1_env_new(&env, &ops, &c, NULL), SR1_E_INVALID);
    ops.flags = SR1_ENV_WAITS | SR1_ENV_CONCURRENT;
    assert_int_equal(sr1_env_new(&env, &ops, &c, NULL), SR1_OK);
    sr1_env_free(env);
    /* one from before there were episodes */
    ops = counting();
    ops.struct_size = offsetof(sr1_env_ops, begin);
    assert_int_equal(sr1_env_new(&env, &ops, &c, NULL), SR1_OK);
    assert_int_equal(sr1_env_begin(env, "bad", "x", 1, 0, &e), SR1_OK);
    assert_int_equal(e, 0);
    assert_int_equal(sr1_env_begin(env, "x", NULL, 1, 0, &e), SR1_E_INVALID);
    sr1_env_free(env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_apart),
        cmocka_unit_test(odd_functions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
