/* Log-probs noted while sampling against those computed from the whole sequence, over
 * more than 10,000 tokens, under each distribution that can be sampled from. */
#include "support/tiny.h"

#include "policy/rollout_internal.h"
#include "tensor/model/host_score.h"

#define GROUPS 16
#define SAMPLES 4
#define N (GROUPS * SAMPLES)

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("random", NULL, 0,
               0); /* the head says nothing: every token is as likely ... */
    tiny_model("searcher", TINY_SEARCHER, 8);
    return 0;
}

/* ... so give it one that says something everywhere, some of it with little doubt. */
static void teach_at_random(sr1_model *m)
{
    int64_t v = m->config.vocab_size;
    float *head = calloc((size_t)v * TINY_HIDDEN, sizeof *head);
    struct sr1__rng rng;

    sr1__rng_seed(&rng, 17, 0);
    for (int64_t i = 0; i < v * TINY_HIDDEN; i++)
        head[i] = (float)(0.3 * sr1__rng_normal(&rng));
    tiny_overwrite(m->head, head, v);
    sr1__model_touch(m);
    free(head);
}

static void compare(const char *model, const char *t_pair, const char *p_pair,
                    const char *k_pair, int teach, size_t at_least)
{
    static sr1_query q[GROUPS];
    static char texts[GROUPS][32];
    static sr1_trajectory *t[N];
    sr1_config *c = tiny_config(model, t_pair, p_pair, k_pair, "max_tokens=192",
                                "max_tokens_per_turn=192", "max_rows=32", NULL);
    sr1_search *e = tiny_engine();
    sr1_rollout *r = NULL;
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = SAMPLES, .seed = 3};
    size_t total = 0, at = 0;
    double worst = 0, sum = 0;
    float *again;

    OK(sr1_rollout_new(&r, c, NULL, NULL, e));
    if (teach)
        teach_at_random(sr1_rollout_model(r));
    for (size_t i = 0; i < GROUPS; i++) {
        snprintf(texts[i], sizeof texts[i], "question %zu?", i);
        q[i] = tiny_query(texts[i]);
    }
    OK(sr1_rollout_generate(r, q, GROUPS, &o, t));
    for (size_t i = 0; i < N; i++)
        total += sr1_trajectory_policy_count(t[i]);
    again = calloc(total, sizeof *again);
    REFUSED(
        sr1_rollout_log_probs(r, (const sr1_trajectory *const *)t, N, again, total + 1),
        SR1_E_INVALID, "log-probs");
    OK(sr1_rollout_log_probs(r, (const sr1_trajectory *const *)t, N, again, total));
    for (size_t i = 0; i < N; i++) {
        const float *then = sr1_trajectory_policy_log_probs(t[i]);

        for (size_t k = 0; k < sr1_trajectory_policy_count(t[i]); k++) {
            double d = fabs((double)then[k] - again[at++]);

            worst = fmax(worst, d);
            sum += d;
        }
    }
    printf("%s %s %s %s: %zu tokens, max %.2e, mean %.2e\n", model, t_pair, p_pair,
           k_pair, total, worst, sum / (double)total);
    assert_true(total >= at_least);
    if (sr1__host_scores(sr1_rollout_model(r))) /* one pass computes both */
        assert_true(worst == 0.0);
    assert_true(worst <= 1e-4);
    assert_true(sum / (double)total <= 1e-6);
    tiny_free_all(t, N);
    free(again);
    sr1_rollout_free(r);
    sr1_search_free(e);
    sr1_config_free(c);
}

static void temperature_0_7(void **state)
{
    (void)state;
    compare("random", "temperature=0.7", "top_p=1", "top_k=0", 1, 10000);
}

static void temperature_1(void **state)
{
    (void)state;
    compare("random", "temperature=1", "top_p=1", "top_k=0", 1, 10000);
}

static void top_p_0_9(void **state)
{
    (void)state;
    compare("random", "temperature=1", "top_p=0.9", "top_k=0", 1, 10000);
}

static void top_k_and_searches_between(void **state)
{
    (void)state;
    compare("searcher", "temperature=0.7", "top_p=1", "top_k=5", 0, 300);
    compare("searcher", "temperature=1", "top_p=1", "top_k=0", 0, 300);
}

static void greedy_is_scored_at_temperature_1(void **state)
{
    sr1_config *c = tiny_config("searcher", "temperature=0.7", NULL);
    sr1_search *e = tiny_engine();
    sr1_rollout *r = NULL;
    sr1_query q = tiny_query("?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_trajectory *t = NULL;
    float again[64];

    (void)state;
    OK(sr1_rollout_new(&r, c, NULL, NULL, e));
    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    assert_true(sr1_trajectory_policy_count(t) <= 64);
    OK(sr1_rollout_log_probs(r, (const sr1_trajectory *const *)&t, 1, again,
                             sr1_trajectory_policy_count(t)));
    for (size_t k = 0; k < sr1_trajectory_policy_count(t); k++)
        tiny_near(again[k], sr1_trajectory_policy_log_probs(t)[k], 1e-5);
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
    sr1_search_free(e);
    sr1_config_free(c);
}

static sr1_status fail_search(void *self, const char *const *queries, size_t n,
                              int32_t top_k, sr1_search_sink *sink)
{
    (void)self;
    (void)queries;
    (void)top_k;
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1_search_sink_status(sink, i, SR1_ACTION_ERROR, "down"));
    return SR1_OK;
}

/* A trajectory that training leaves out has log-probs as any other. */
static void failed_searches_are_scored_too(void **state)
{
    sr1_search_ops ops = {
        .struct_size = sizeof ops, .name = "down", .search = fail_search};
    sr1_search *e = NULL;
    sr1_rollout *r;
    sr1_query q = tiny_query("?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 16};
    sr1_trajectory *t[16];
    float again[16 * 24];
    size_t total = 0, failed = 0, at = 0;

    (void)state;
    OK(sr1_search_new(&e, &ops, NULL));
    r = tiny_rollout(tiny_config("searcher", NULL), e);
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    for (size_t i = 0; i < 16; i++) {
        total += sr1_trajectory_policy_count(t[i]);
        failed += sr1_trajectory_stop_reason(t[i]) == SR1_STOP_SEARCH_FAILED;
    }
    assert_true(failed > 0 && total <= 16 * 24);
    for (size_t k = 0; k < total; k++)
        again[k] = 99;
    OK(sr1_rollout_log_probs(r, (const sr1_trajectory *const *)t, 16, again, total));
    for (size_t i = 0; i < 16; i++)
        for (size_t k = 0; k < sr1_trajectory_policy_count(t[i]); k++)
            tiny_near(again[at++], sr1_trajectory_policy_log_probs(t[i])[k], 1e-4);
    tiny_free_all(t, 16);
    sr1_rollout_free(r);
}

/* An answer of one token has no row of its own where a prompt is shared: the prompt's
 * last row predicts it. Beside it the others' log-probs are what they are without it, in
 * whatever order they stand. */
static void answers_of_one_token_cost_the_others_nothing(void **state)
{
    enum { QUESTIONS = 2, LONG = 3, SHORT = 3, ALL = QUESTIONS * (LONG + SHORT) };
    sr1_search *e = tiny_engine();
    sr1_rollout *r = tiny_rollout(
        tiny_config("random", "max_tokens=20", "max_tokens_per_turn=20", NULL), e);
    sr1_query q[QUESTIONS] = {tiny_query("where?"), tiny_query("and who was it?")};
    sr1_rollout_options whole = {.struct_size = sizeof whole, .group_size = LONG};
    sr1_rollout_options one = {
        .struct_size = sizeof one, .group_size = SHORT, .max_tokens = 1, .seed = 5};
    sr1_trajectory *made[ALL];
    struct sr1__rng rng;

    (void)state;
    teach_at_random(sr1_rollout_model(r));
    OK(sr1_rollout_generate(r, q, QUESTIONS, &whole, made));
    OK(sr1_rollout_generate(r, q, QUESTIONS, &one, made + QUESTIONS * LONG));
    assert_int_equal(sr1_trajectory_policy_count(made[ALL - 1]), 1);
    sr1__rng_seed(&rng, 3, 0);
    for (int round = 0; round < 60; round++) {
        int64_t order[ALL];
        size_t n = 2 + sr1__rng_below(&rng, ALL - 1), total = 0, at = 0;
        const sr1_trajectory *t[ALL];
        float again[ALL * 20];

        for (int64_t i = 0; i < ALL; i++)
            order[i] = i;
        sr1__rng_shuffle(&rng, order, ALL);
        for (size_t i = 0; i < n; i++) {
            t[i] = made[order[i]];
            total += sr1_trajectory_policy_count(t[i]);
        }
        OK(sr1_rollout_log_probs(r, t, n, again, total));
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < sr1_trajectory_policy_count(t[i]); k++)
                tiny_near(again[at++], sr1_trajectory_policy_log_probs(t[i])[k], 1e-4);
    }
    tiny_free_all(made, ALL);
    sr1_rollout_free(r);
}

/* Ids that no vocabulary has, or more than the model can read, are refused and named. */
static void foreign_trajectories_are_refused(void **state)
{
    sr1_config *c = tiny_config("searcher", NULL);
    sr1_search *e = tiny_engine();
    sr1_rollout *r = NULL;
    sr1_query q = tiny_query("?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1};
    sr1_trajectory *t = NULL, *odd = NULL;
    char *text = NULL, *ids, *end, changed[16384];
    size_t n;
    float out[64];

    (void)state;
    OK(sr1_rollout_new(&r, c, NULL, NULL, e));
    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    OK(sr1_trajectory_to_json(t, &text, &n));
    ids = strstr(text, "\"full_input_ids\":[");
    assert_non_null(ids);
    ids += strlen("\"full_input_ids\":[");
    end = strchr(ids, ',');
    snprintf(changed, sizeof changed, "%.*s999999%s", (int)(ids - text), text, end);
    OK(sr1_trajectory_from_json(&odd, changed, strlen(changed)));
    REFUSED(sr1_rollout_log_probs(r, (const sr1_trajectory *const *)&odd, 1, out,
                                  sr1_trajectory_policy_count(odd)),
            SR1_E_INVALID, "999999");
    sr1_free(text);
    sr1_trajectory_free(odd);
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
    sr1_search_free(e);
    sr1_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature_0_7),
        cmocka_unit_test(temperature_1),
        cmocka_unit_test(top_p_0_9),
        cmocka_unit_test(top_k_and_searches_between),
        cmocka_unit_test(greedy_is_scored_at_temperature_1),
        cmocka_unit_test(failed_searches_are_scored_too),
        cmocka_unit_test(answers_of_one_token_cost_the_others_nothing),
        cmocka_unit_test(foreign_trajectories_are_refused),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
