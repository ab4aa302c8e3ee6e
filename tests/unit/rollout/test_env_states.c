/* Environments with a state for each trajectory: states stay apart however rows share
 * their places, what actions earn is recorded, and every state is given back. */
#include "support/count_text.h"
#include "support/tiny.h"

#include "policy/rollout.h"

#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/trajectory_details.h>
#include <searchr1/ext/world.h>

#include <pthread.h>

static int make(void **state)
{
    static const struct tiny_rule again[] = {{"", "<search>"},
                                             {"<search>", " tower"},
                                             {" tower", "</search>"},
                                             {"</information>", "<search>"}};
    static const struct tiny_rule either[] = {{"", "<search>"},
                                              {"<search>", " tower"},
                                              {" tower", "</search>"},
                                              {"</information>", "<search>"},
                                              {"</information>", "<answer>"},
                                              {"<answer>", " Paris"},
                                              {" Paris", "</answer>"}};

    if (scratch_make(state) != 0)
        return -1;
    tiny_model("again", again, 4, 30);
    tiny_model("either", either, 7, 16);
    return 0;
}

/* ---- counts the actions of each trajectory; the fifth is its goal ---- */

#define EPISODES 256
#define GOAL 5

struct counter {
    pthread_mutex_t lock;
    int32_t count[EPISODES]; /* -1: not under way */
    int32_t live, begun, most;
};

static sr1_status begin(void *self, const sr1_env_episode *e)
{
    struct counter *c = self;

    if (strcmp(e->query_id, "bad") == 0)
        return sr1_set_error(SR1_E_PARSE, "no such world");
    pthread_mutex_lock(&c->lock);
    c->count[e->episode % EPISODES] = 0;
    c->begun++;
    c->live++;
    c->most = c->live > c->most ? c->live : c->most;
    pthread_mutex_unlock(&c->lock);
    return SR1_OK;
}

static void finish(void *self, int64_t episode)
{
    struct counter *c = self;

    pthread_mutex_lock(&c->lock);
    c->live -= c->count[episode % EPISODES] >= 0;
    c->count[episode % EPISODES] = -1;
    pthread_mutex_unlock(&c->lock);
}

static sr1_status act_one(struct counter *c, const sr1_env_action *a, size_t i,
                          sr1_env_sink *sink)
{
    int32_t count = c->count[a->episode % EPISODES];
    char text[16];

    if (a->episode == 0 || count < 0 || count != a->turn)
        return sr1_set_error(SR1_E_STATE, "another trajectory's state");
    c->count[a->episode % EPISODES] = ++count;
    snprintf(text, sizeof text, "so %d", (int)count);
    SR1__TRY(sr1_env_sink_text(sink, i, text, strlen(text)));
    SR1__TRY(sr1_env_sink_reward(sink, i, count));
    if (count < GOAL)
        return SR1_OK;
    SR1__TRY(sr1_env_sink_success(sink, i));
    return sr1_env_sink_done(sink, i);
}

static sr1_status act(void *self, const sr1_env_action *const *a, size_t n,
                      sr1_env_sink *sink)
{
    struct counter *c = self;
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < n && st == SR1_OK; i++)
        st = act_one(c, a[i], i, sink);
    pthread_mutex_unlock(&c->lock);
    return st;
}

static sr1_rollout *counting(struct counter *c, const char *model, int32_t flags)
{
    sr1_env_ops ops = {.struct_size = sizeof ops,
                       .name = "counter",
                       .act = act,
                       .flags = flags,
                       .begin = begin,
                       .finish = finish};
    sr1_env_options o = {.struct_size = sizeof o, .document_format = "plain"};
    sr1_rollout *r = tiny_rollout(tiny_config(model, "max_turns=8", "max_tokens=80",
                                              "max_rows=6", "workers=2", NULL),
                                  tiny_engine());
    sr1_env *env = NULL;

    *c = (struct counter){.live = 0};
    pthread_mutex_init(&c->lock, NULL);
    OK(sr1_env_new(&env, &ops, c, &o));
    OK(sr1_rollout_set_env(r, env));
    sr1_env_free(env);
    return r;
}

/* ---- tests ---- */

#define GROUP 8

/* Each trajectory counts from 1, whatever goes on beside it. */
static int32_t check(const sr1_trajectory *t)
{
    const char *text = sr1_trajectory_generated_text(t, NULL);
    size_t n = sr1_trajectory_search_count(t);
    sr1_action_event e = {sizeof e};

    assert_in_range(n, 1, GOAL);
    for (size_t i = 0; i < n; i++) {
        char want[64];

        snprintf(want, sizeof want, "<information> so %d </information>", (int)i + 1);
        text = strstr(text, want);
        assert_non_null(text);
        OK(sr1_trajectory_search(t, i, &e));
        assert_true(e.reward == (double)(i + 1));
        assert_int_equal(e.success, i + 1 == GOAL);
    }
    return e.success;
}

static void check_states(int32_t flags)
{
    struct counter c;
    sr1_rollout *r = counting(&c, "either", flags);
    sr1_query q[3] = {tiny_query("Where?"), tiny_query(""), tiny_query("When?")};
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = GROUP, .seed = 4};
    sr1_trajectory *t[3 * GROUP];
    int32_t won = 0, lost = 0;

    OK(sr1_rollout_generate(r, q, 3, &o, t));
    for (size_t i = 0; i < 3 * GROUP; i++) {
        if (i / GROUP == 1) {
            assert_int_equal(sr1_trajectory_search_count(t[i]), 0);
            continue;
        }
        won += check(t[i]);
        lost += sr1_trajectory_search_count(t[i]) < GOAL;
    }
    assert_true(lost > 0 && lost + won == 2 * GROUP);
    assert_int_equal(c.begun, 2 * GROUP);
    assert_true(c.most > 1 && c.most <= 6);
    assert_int_equal(c.live, 0);
    tiny_free_all(t, 3 * GROUP);
    sr1_rollout_free(r);
}

static void states_stay_apart(void **state)
{
    (void)state;
    check_states(0);
    check_states(SR1_ENV_WAITS | SR1_ENV_CONCURRENT);
    check_states(SR1_ENV_WAITS | SR1_ENV_CONCURRENT | SR1_ENV_SEPARATE | SR1_ENV_SINGLE);
}

/* The goal ends a trajectory; the reward "environment" is what its actions earned. */
static void a_goal_ends_and_is_rewarded(void **state)
{
    struct counter c;
    sr1_rollout *r = counting(&c, "again", 0);
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1, .greedy = 1};
    sr1_trajectory *t = NULL, *back = NULL;
    sr1_reward_options how = {.struct_size = sizeof how, .rewards = "environment"};
    sr1_reward_set *rewards = NULL;
    void *bytes = NULL;
    size_t n = 0;

    (void)state;
    OK(sr1_rollout_generate(r, &q, 1, &o, &t));
    assert_int_equal(check(t), 1);
    assert_int_equal(sr1_trajectory_stop_reason(t), SR1_STOP_EOS);
    OK(sr1_trajectory_encode(t, &bytes, &n));
    OK(sr1_trajectory_decode(&back, bytes, n));
    OK(sr1_reward_set_new(&rewards, &how));
    OK(sr1_reward_set_apply(rewards, &back, 1));
    assert_true(sr1_trajectory_reward(back) == 1 + 2 + 3 + 4 + 5);
    sr1_reward_set_free(rewards);
    sr1_free(bytes);
    sr1_trajectory_free(back);
    sr1_trajectory_free(t);
    sr1_rollout_free(r);
}

static sr1_status stop_soon(void *user, int64_t finished, int64_t total, int64_t tokens)
{
    (void)user, (void)finished, (void)total;
    return tokens > 40 ? sr1_set_error(SR1_E_CANCELLED, "enough") : SR1_OK;
}

static void every_state_is_given_back(void **state)
{
    static const int32_t flags[] = {0, SR1_ENV_WAITS | SR1_ENV_CONCURRENT};
    sr1_query q[2] = {tiny_query("Where?"), tiny_query("When?")};
    sr1_rollout_options o = {
        .struct_size = sizeof o, .group_size = 6, .progress = stop_soon};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct counter c;
        sr1_rollout *r = counting(&c, "again", flags[i]);
        sr1_trajectory *t[12];

        o.progress = stop_soon;
        REFUSED(sr1_rollout_generate(r, q, 2, &o, t), SR1_E_CANCELLED, "enough");
        assert_true(c.begun > 0);
        assert_int_equal(c.live, 0);
        o.progress = NULL;
        q[1].id = "bad";
        REFUSED(sr1_rollout_generate(r, q, 2, &o, t), SR1_E_PARSE,
                "environment 'counter': no such world");
        assert_int_equal(c.live, 0);
        q[1].id = NULL;
        sr1_rollout_free(r);
    }
}

static size_t count_refusals(const sr1_trajectory *t)
{
    return count_text(sr1_trajectory_generated_text(t, NULL), "Nothing happens.");
}

static void rooms_by_configuration(void **state)
{
    sr1_query q = tiny_query("Where?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 2};
    sr1_rollout *r = tiny_rollout(tiny_config("again", "environment=rooms",
                                              "search_engine=none", "max_turns=3", NULL),
                                  NULL);
    struct sr1__rollout_stats stats;
    sr1_trajectory *t[2];
    sr1_action_event e = {sizeof e};

    (void)state;
    REFUSED(sr1_rollout_generate(r, &q, 1, &o, t), SR1_E_INVALID, "names no world");
    q.id = "rooms-train-3";
    OK(sr1_rollout_generate(r, &q, 1, &o, t));
    assert_non_null(
        strstr(sr1_trajectory_generated_text(t[1], NULL), "Nothing happens."));
    OK(sr1_trajectory_search(t[1], 0, &e));
    assert_true(e.reward == 0 && e.success == 0);
    assert_int_equal(sr1_trajectory_search_count(t[1]), 3);
    sr1__rollout_stats(r, &stats);
    assert_int_equal(stats.searches, 6);
    assert_int_equal(stats.refused_actions, count_refusals(t[0]) + count_refusals(t[1]));
    assert_true(stats.refused_actions > 0);
    tiny_free_all(t, 2);
    sr1_rollout_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_stay_apart),
        cmocka_unit_test(a_goal_ends_and_is_rewarded),
        cmocka_unit_test(every_state_is_given_back),
        cmocka_unit_test(rooms_by_configuration),
    };

    return cmocka_run_group_tests(tests, make, scratch_remove);
}
