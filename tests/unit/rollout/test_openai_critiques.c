/* Critiques written by a server, revised here or by a second one: the same trajectories
 * as without servers, and what becomes of a reviser that fails. */
#include "support/openai_server.h"

#include "policy/rollout_internal.h"

static struct openai_server policy, proxy;

static int make(void **state)
{
    static const struct tiny_rule critic[] = {
        {"", " well"}, {" well", " so"}, {" so", "<|im_end|>"}};
    static const struct tiny_rule endless[] = {{"", " well"}, {" well", " well"}};
    static const struct tiny_rule reviser[] = {
        {"", " Rome"}, {" Rome", " Paris"}, {" Paris", "<|im_end|>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("critic", critic, 3, 30);
    tiny_model("endless", endless, 2, 30);
    tiny_model("proxy", reviser, 3, 30);
    (void)scratch_file(
        "problems.jsonl",
        "{\"id\": \"p0\", \"problem\": \"Where?\", \"solution\": \"x = 1\", "
        "\"tests\": [\"assert x\"]}\n",
        0);
    return 0;
}

/* What differs between the ways to the same trajectory. */
struct way {
    const char *model;
    int plain;  /* the policy's server: no ids, messages */
    int remote; /* the reviser is a server too */
    const char *word;
};

static sr1_config *configure(const struct way *w, int served)
{
    sr1_config *c = tiny_config(w->model, "environment=critique", "protocol=ctrl",
                                "prompt_template=", "proxy_max_tokens=8", w->word, NULL);
    char url[96];

    OK(sr1_config_set(c, "code_problems", scratch_path("problems.jsonl")));
    if (served)
        openai_use(&policy, c);
    if (served && w->remote) {
        snprintf(url, sizeof url, "%s/v1", proxy.http.url);
        OK(sr1_config_set(c, "proxy_url", url));
    } else {
        OK(sr1_config_set(c, "proxy_model", scratch_path("proxy")));
    }
    return c;
}

static void start(const struct way *w)
{
    openai_start(&policy, scratch_path(w->model));
    policy.plain = w->plain;
    policy.no_ids = policy.no_log_probs = w->plain;
    openai_start(&proxy, scratch_path("proxy"));
}

static void stop(void)
{
    openai_stop(&policy);
    openai_stop(&proxy);
}

static sr1_status generate(sr1_rollout *r, size_t n, sr1_trajectory **t)
{
    sr1_query q = tiny_query("Is x = 1 right?");
    sr1_rollout_options o = {
        .struct_size = sizeof o, .group_size = (int32_t)n, .greedy = 1, .seed = 5};

    q.id = "p0";
    return sr1_rollout_generate(r, &q, 1, &o, t);
}

static void same(const sr1_trajectory *a, const sr1_trajectory *b)
{
    size_t n = sr1_trajectory_token_count(a);

    assert_string_equal(sr1_trajectory_generated_text(a, NULL),
                        sr1_trajectory_generated_text(b, NULL));
    assert_int_equal(sr1_trajectory_token_count(b), n);
    assert_memory_equal(sr1_trajectory_ids(a), sr1_trajectory_ids(b),
                        n * sizeof(int32_t));
    assert_memory_equal(sr1_trajectory_sources(a), sr1_trajectory_sources(b), n);
    assert_int_equal(sr1_trajectory_stop_reason(a), sr1_trajectory_stop_reason(b));
    assert_int_equal(sr1_trajectory_search_count(a), sr1_trajectory_search_count(b));
}

static void servers_change_nothing(void **state)
{
    static const struct way ways[] = {
        {"critic", 0, 0, NULL},
        {"critic", 0, 1, NULL},
        {"critic", 1, 0, NULL},
        {"critic", 1, 1, NULL},
        {"critic", 0, 1, "max_observation_tokens=1"},
        {"endless", 0, 1, "max_tokens=4"},
        {"endless", 1, 1, "max_tokens=4"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        sr1_trajectory *here, *there[3];
        sr1_rollout *r;

        start(&ways[i]);
        r = tiny_rollout(configure(&ways[i], 1), NULL);
        assert_null(sr1_rollout_model(r));
        OK(generate(r, 3, there));
        sr1_rollout_free(r);
        assert_int_equal(proxy.completions, ways[i].remote ? 3 : 0);
        stop();
        r = tiny_rollout(configure(&ways[i], 0), NULL);
        OK(generate(r, 1, &here));
        assert_non_null(strstr(sr1_trajectory_generated_text(here, NULL), "Rome Paris"));
        for (size_t k = 0; k < 3; k++)
            same(here, there[k]);
        tiny_free_all(there, 3);
        sr1_trajectory_free(here);
        sr1_rollout_free(r);
    }
}

/* A message that the server ends before it was asked to cannot be gone on with: it is
 * revised as one that ends at our own limit. */
static void what_the_server_cuts_short_is_revised(void **state)
{
    static const struct way asked = {"endless", 1, 1, "max_tokens=24"},
                            most = {"endless", 1, 1, "max_tokens=2"};
    sr1_trajectory *here, *there[3];
    sr1_rollout *r;

    (void)state;
    start(&asked);
    policy.most = 2;
    r = tiny_rollout(configure(&asked, 1), NULL);
    OK(generate(r, 3, there));
    sr1_rollout_free(r);
    assert_int_equal(policy.completions, 3);
    assert_int_equal(proxy.completions, 3);
    stop();
    r = tiny_rollout(configure(&most, 0), NULL);
    OK(generate(r, 1, &here));
    assert_int_equal(sr1_trajectory_stop_reason(here), SR1_STOP_TOKEN_LIMIT);
    for (size_t k = 0; k < 3; k++) {
        assert_non_null(
            strstr(sr1_trajectory_generated_text(there[k], NULL), "Rome Paris"));
        same(here, there[k]);
    }
    tiny_free_all(there, 3);
    sr1_trajectory_free(here);
    sr1_rollout_free(r);
}

/* Nothing is known of a critique whose reviser is out of order: it is left out, also
 * where searches that fail are gone on with. */
static void without_its_revision_a_critique_is_left_out(void **state)
{
    static const struct way ways[] = {{"critic", 0, 1, NULL},
                                      {"critic", 0, 1, "search_failure=continue"}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sr1_trajectory *t[2];
        sr1_rollout *r;

        start(&ways[i]);
        proxy.fail_code = 503;
        proxy.fail_first = 1000;
        r = tiny_rollout(configure(&ways[i], 1), NULL);
        OK(generate(r, 2, t));
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(sr1_trajectory_stop_reason(t[k]), SR1_STOP_SEARCH_FAILED);
            assert_string_equal(sr1_trajectory_generated_text(t[k], NULL), " well so");
        }
        tiny_free_all(t, 2);
        sr1_rollout_free(r);
        stop();
    }
}

/* Where the context has no room for it the revision is not cut. */
static void a_context_that_is_too_short_takes_no_part(void **state)
{
    static const struct way way = {"critic", 0, 1, "openai_max_context=%d"};
    struct way w = way;
    sr1_trajectory *t;
    sr1_rollout *r;
    char word[64];
    size_t whole;

    (void)state;
    start(&way);
    w.word = NULL;
    r = tiny_rollout(configure(&w, 1), NULL);
    OK(generate(r, 1, &t));
    whole = sr1_trajectory_token_count(t);
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
    for (int less = 0; less < 4; less++) {
        int fits;

        snprintf(word, sizeof word, way.word, (int)whole + 1 - less);
        w.word = word;
        r = tiny_rollout(configure(&w, 1), NULL);
        OK(generate(r, 1, &t));
        fits = strstr(sr1_trajectory_generated_text(t, NULL), "Rome Paris") != NULL;
        assert_int_equal(fits, less == 0);
        if (!fits)
            assert_string_equal(sr1_trajectory_generated_text(t, NULL), " well so");
        assert_int_equal(sr1_trajectory_stop_reason(t),
                         fits ? SR1_STOP_EOS : SR1_STOP_CONTEXT_LIMIT);
        sr1_trajectory_free(t);
        sr1_rollout_free(r);
    }
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_change_nothing),
        cmocka_unit_test(what_the_server_cuts_short_is_revised),
        cmocka_unit_test(without_its_revision_a_critique_is_left_out),
        cmocka_unit_test(a_context_that_is_too_short_takes_no_part),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
