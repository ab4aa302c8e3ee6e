/* The reward "embedding": cosines of answers and gold answers by an embedder of the
 * test's, one call a batch. */
#include "responses.h"

#include "support/torture.h"

#include <searchr1/reward.h>
#include <searchr1/ext/embed.h>
#include <searchr1/ext/reward_set.h>

#include <math.h>

/* A text's counts of a, b and c, negative where it begins with -. */
struct letters {
    int calls;
    size_t texts;
    sr1_status fails;
};

static sr1_status embed(void *self, const char *const *texts, size_t n, int32_t kind,
                        float *out)
{
    struct letters *l = self;

    assert_int_equal(kind, SR1_EMBED_QUERY);
    l->calls++;
    l->texts += n;
    if (l->fails != SR1_OK)
        return sr1_set_error(l->fails, "no letters today");
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) {
            float count = 0;

            for (const char *s = texts[i]; *s; s++)
                count += *s == 'a' + k;
            out[3 * i + (size_t)k] = texts[i][0] == '-' ? -count : count;
        }
    return SR1_OK;
}

static sr1_status open_set(sr1_reward_set **out, struct letters *l)
{
    const sr1_embedder_ops ops = {sizeof(ops), "letters", embed, NULL, 3, 0};
    sr1_reward_options o = {sizeof o, "embedding,exact_match", "2,1", NULL, NULL, NULL};
    sr1_status st = sr1_embedder_new(&o.embedder, &ops, l);

    if (st == SR1_OK)
        st = sr1_reward_set_new(out, &o);
    sr1_embedder_free(o.embedder);
    return st;
}

static const struct response responses[] = {
    {{"<answer>aab</answer>"}, "aab", {"c", "ab", "aab c"}}, /* (2,1,0) */
    {{"<answer>ab</answer>"}, "ab", {"ab"}},
    {{"<answer>ab</answer>"}, "ab", {"-ab", "c"}}, /* the other way, and across */
    {{"<answer>ab</answer>"}, "ab", {"", "?"}},    /* nothing to be compared with */
    {{"<answer></answer>"}, "", {"ab"}},
    {{"<answer>ab"}, "ab", {"ab"}}, /* cut short */
    {{"<think>no idea"}, "", {"ab"}},
};

#define N (sizeof responses / sizeof responses[0])

static sr1_status make_all(sr1_trajectory **t)
{
    for (size_t i = 0; i < N; i++)
        SR1__TRY(make_trajectory(&responses[i], &t[i]));
    return SR1_OK;
}

static void free_all(sr1_trajectory **t)
{
    for (size_t i = 0; i < N; i++)
        sr1_trajectory_free(t[i]);
}

static void answers_are_compared_by_angle(void **state)
{
    /* aab with ab: 3 / sqrt(5 * 2); with aab c: 5 / sqrt(5 * 6) */
    const double want[N] = {3.0 / sqrt(10.0), 1.0, 0, 0, 0, 0, 0};
    struct letters l = {0};
    sr1_trajectory *t[N];
    sr1_reward_set *set = NULL;
    double parts[N][2], totals[N];

    (void)state;
    assert_int_equal(make_all(t), SR1_OK);
    assert_int_equal(open_set(&set, &l), SR1_OK);
    assert_int_equal(sr1_reward_set_score(set, (const sr1_trajectory *const *)t, N,
                                          &parts[0][0], totals),
                     SR1_OK);
    for (size_t i = 0; i < N; i++) {
        assert_float_equal(parts[i][0], want[i], 1e-6);
        assert_float_equal(totals[i], 2 * want[i] + parts[i][1], 1e-6);
    }
    assert_int_equal(l.calls, 1);
    assert_int_equal(l.texts, 6); /* aab, c, ab, aab c, -ab, ? */
    l.fails = SR1_E_IO;
    assert_int_equal(sr1_reward_set_apply(set, t, N), SR1_E_CALLBACK);
    assert_non_null(strstr(sr1_last_error(), "no letters today"));
    sr1_reward_set_free(set);
    free_all(t);
}

static void without_an_embedder_there_is_no_such_reward(void **state)
{
    sr1_reward_options o = {sizeof o, "format,embedding", NULL, NULL, NULL, NULL};
    sr1_reward_set *set = NULL;

    (void)state;
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_E_CONFIG);
    assert_non_null(strstr(sr1_last_error(), "reward_embedder"));
    o.struct_size = offsetof(sr1_reward_options, embedder); /* an older caller */
    assert_int_equal(sr1_reward_set_new(&set, &o), SR1_E_CONFIG);
    assert_null(set);
}

static sr1_status score_it(void *arg)
{
    struct letters l = {0};
    sr1_trajectory **t = arg;
    sr1_reward_set *set = NULL;
    double totals[N];
    sr1_status st = open_set(&set, &l);

    if (st == SR1_OK)
        st = sr1_reward_set_score(set, (const sr1_trajectory *const *)t, N, NULL, totals);
    sr1_reward_set_free(set);
    return st;
}

static void any_allocation_may_fail(void **state)
{
    sr1_trajectory *t[N];

    (void)state;
    assert_int_equal(make_all(t), SR1_OK);
    assert_true(torture(score_it, t) > 15);
    free_all(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_compared_by_angle),
        cmocka_unit_test(without_an_embedder_there_is_no_such_reward),
        cmocka_unit_test(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
