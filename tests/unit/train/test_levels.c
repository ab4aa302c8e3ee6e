/* The estimator rlvcr in training: what steps said at their four levels becomes the
 * advantages of their tokens, and what could not be compared is counted. */
#include "leveller.h"
#include "step_metric.h"

#include "environment/env/thinking_turn.h"
#include "train/step_batch.h"

#define GROUP 6
#define LEVELS SR1_THINKING_LEVELS

/* Rewards that differ: the answers of the environment that were read. */
static sr1_status count_actions(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        out[i] = (double)(sr1_trajectory_policy_count(t[i]) % 5) - 1.0;
    return SR1_OK;
}

static sr1_status all_alike(void *self, const sr1_trajectory *const *t, size_t n,
                            double *out)
{
    (void)self;
    (void)t;
    for (size_t i = 0; i < n; i++)
        out[i] = 1.0;
    return SR1_OK;
}

typedef sr1_status (*score_fn)(void *self, const sr1_trajectory *const *t, size_t n,
                               double *out);

/* learning_rate 0: the weights stay as they are, so that all can be computed again. */
static sr1_trainer *open_levels(score_fn score, const char *a, const char *b)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops, .name = "counted", .score = score};
    sr1_config *c = tiny_config(
        "leveller", train_path, knowledge_path, out_pair("levels"), "protocol=rlvcr",
        "advantage=rlvcr", "group_size=6", "rewards=environment", "reward_weights=0",
        "update_times=1", "learning_rate=0", "max_tokens=60", "max_turns=4",
        "level_max_tokens=20", "thinking_cost_w=0.5", "thinking_cost_max=3",
        "thinking_diversity_w=0.25", "step_advantage_w=2", a, b, NULL);
    sr1_trainer *tr = open_trainer(c);

    OK(sr1_trainer_add_reward(tr, &ops, NULL, 1.0));
    return tr;
}

static void step(sr1_trainer *tr, sr1_trajectory **t, sr1_step_report *r)
{
    sr1_query q = tiny_query("Where is the tower?");

    *r = (sr1_step_report){.struct_size = sizeof *r};
    OK(sr1_trainer_train_step(tr, &q, 1, GROUP, r, t));
}

/* ---- by the formula ---- */

static double mean_of(const double *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return sum / (double)n;
}

/* (r - mean) / (std + 1e-6), std divided by n - 1. */
static void normalised(sr1_trajectory **t, double *out)
{
    double r[GROUP], mean, squares = 0;

    for (size_t i = 0; i < GROUP; i++)
        r[i] = sr1_trajectory_reward(t[i]);
    mean = mean_of(r, GROUP);
    for (size_t i = 0; i < GROUP; i++)
        squares += (r[i] - mean) * (r[i] - mean);
    for (size_t i = 0; i < GROUP; i++)
        out[i] = squares == 0 ? 0 : (r[i] - mean) / (sqrt(squares / (GROUP - 1)) + 1e-6);
}

/* (c - mean of the four) (1 + d (1 - F/G)), c with its cost. */
static double thinking_advantage(const struct sr1__level_branch_step *s, double share)
{
    double c[LEVELS];

    if (s->outcome != SR1__BRANCH_COMPARED)
        return 0;
    for (int k = 0; k < LEVELS; k++)
        c[k] = s->confidences[k] + 0.5 * (0.5 - s->costs[k] / 3);
    return (c[s->level] - mean_of(c, LEVELS)) * (1 + 0.25 * (1 - share));
}

/* The steps of the trajectories, compared once more. */
static void compare_again(sr1_trainer *tr, sr1_trajectory **t,
                          struct sr1__level_branch_step *out)
{
    struct sr1__level_branch_options o = tr->set.levels;
    int64_t now = tr->step;

    tr->step = 0; /* as it was */
    o.seed = sr1__hash64("levels", 6, sr1__step_seed(tr, 0));
    tr->step = now;
    OK(sr1__rollout_level_branches(tr->rollout, t, GROUP, NULL, &o, out, NULL));
}

/* mark[k]: is the k-th policy token of the level's tag of its turn? */
static void mark_tags(const sr1_trajectory *t, uint8_t *mark)
{
    struct sr1__thinking_turn turn = {0};

    while (sr1__thinking_turn_next(t, &turn))
        for (size_t at = turn.message.begin; at < turn.message.end; at++)
            *mark++ = at >= turn.level.begin && at < turn.level.end;
}

/* One step, and every token's advantage by the formula: that of its trajectory alone
 * where a level could not be made. Returns the steps that were compared. */
static size_t by_the_formula(const char *a_key, const char *b_key, sr1_step_report *r)
{
    sr1_trainer *tr = open_levels(count_actions, a_key, b_key);
    struct sr1__level_branch_step steps[GROUP * 8];
    sr1_trajectory *t[GROUP];
    double norm[GROUP], used[LEVELS] = {0}, total = 0;
    int on_tags = strcmp(b_key, "step_advantage_tokens=level") == 0;
    size_t compared = 0, turns = 0;

    step(tr, t, r);
    compare_again(tr, t, steps);
    normalised(t, norm);
    assert_true(norm[0] != norm[1] || norm[1] != norm[2]);
    for (size_t i = 0; i < GROUP; i++)
        turns += (size_t)sr1_trajectory_turn_count(t[i]);
    for (size_t u = 0; u < turns; u++) {
        compared += steps[u].outcome == SR1__BRANCH_COMPARED;
        used[steps[u].level >= 0 ? steps[u].level : 0] += steps[u].level >= 0;
        total += steps[u].level >= 0;
    }
    assert_int_equal(step_metric(r, "thinking/steps_compared"), compared);
    for (size_t i = 0, at = 0; i < GROUP; i++) {
        const float *a = sr1_trajectory_column(t[i], SR1_COLUMN_ADVANTAGE);
        const int32_t *turn = sr1_trajectory_turns(t[i]);
        const int32_t *places = sr1_trajectory_policy_positions(t[i]);
        uint8_t mark[256];

        assert_true(sr1_trajectory_policy_count(t[i]) <= sizeof mark);
        mark_tags(t[i], mark);
        assert_non_null(sr1_trajectory_column(t[i], SR1_COLUMN_LEVEL_ENTROPY));
        for (size_t k = 0; k < sr1_trajectory_policy_count(t[i]); k++) {
            const struct sr1__level_branch_step *s = &steps[at + (size_t)turn[places[k]]];
            double share = s->level >= 0 ? used[s->level] / total : 0;

            double part = mark[k] || !on_tags ? 2 * thinking_advantage(s, share) : 0;

            tiny_near(a[k], norm[i] + part, 1e-4);
        }
        at += (size_t)sr1_trajectory_turn_count(t[i]);
    }
    tiny_free_all(t, GROUP);
    keep_metrics(r);
    sr1_trainer_free(tr);
    return compared;
}

static void steps_feed_the_estimator(void **state)
{
    sr1_step_report r;

    (void)state;
    assert_true(by_the_formula("level_expand=all", "advantage_std=true", &r) >= 6);
    assert_true(by_the_formula("level_expand=all", "step_advantage_tokens=level", &r) >=
                6);
}

/* ---- what is not compared ---- */

/* Only the group's part is left. */
static void check_plain(sr1_trajectory **t)
{
    double norm[GROUP];

    normalised(t, norm);
    for (size_t i = 0; i < GROUP; i++) {
        const float *a = sr1_trajectory_column(t[i], SR1_COLUMN_ADVANTAGE);

        for (size_t k = 0; k < sr1_trajectory_policy_count(t[i]); k++)
            tiny_near(a[k], norm[i], 1e-5);
    }
}

static void what_cannot_be_made_counts_nothing(void **state)
{
    sr1_step_report r;

    (void)state;
    (void)by_the_formula("level_expand=all", "level_max_tokens=1", &r);
    assert_true(step_metric(&r, "thinking/steps_too_long") >= 4);
}

/* Successes (reward above 0) in groups whose rewards differ, as the published code. */
static void informative_steps_only(void **state)
{
    sr1_trainer *tr = open_levels(all_alike, "level_expand=informative", "level_top_p=1");
    sr1_trajectory *t[GROUP];
    sr1_step_report r;
    int64_t turns = 0;

    (void)state;
    step(tr, t, &r);
    for (size_t i = 0; i < GROUP; i++)
        turns += sr1_trajectory_turn_count(t[i]);
    assert_int_equal(step_metric(&r, "thinking/steps_left_out"), turns);
    check_plain(t);
    tiny_free_all(t, GROUP);
    sr1_trainer_free(tr);
    tr = open_levels(count_actions, "level_expand=informative", "level_top_p=1");
    step(tr, t, &r);
    turns = 0;
    for (size_t i = 0; i < GROUP; i++) {
        int wanted = sr1_trajectory_reward(t[i]) > 0;

        turns += wanted ? 0 : sr1_trajectory_turn_count(t[i]);
        assert_true(wanted ==
                    (sr1_trajectory_column(t[i], SR1_COLUMN_LEVEL_ENTROPY) != NULL));
    }
    assert_true(turns > 0 && step_metric(&r, "thinking/steps_compared") > 0);
    assert_int_equal(step_metric(&r, "thinking/steps_left_out"), turns);
    tiny_free_all(t, GROUP);
    sr1_trainer_free(tr);
}

/* ---- figures, and runs that go on ---- */

static void figures_tell_what_was_thought(void **state)
{
    sr1_trainer *tr = open_levels(count_actions, "level_expand=all", "seed=3");
    sr1_trajectory *t[GROUP];
    sr1_step_report r;
    double thoughts = 0, levels[LEVELS] = {0}, messages = 0;

    (void)state;
    step(tr, t, &r);
    for (size_t i = 0; i < GROUP; i++) {
        const float *cost = sr1_trajectory_column(t[i], SR1_COLUMN_THINKING_COST);
        const char *text = sr1_trajectory_generated_text(t[i], NULL), *at;

        for (size_t k = 0; k < sr1_trajectory_policy_count(t[i]); k++)
            thoughts += (double)cost[k];
        for (at = text; (at = strstr(at, "<level>")) != NULL; at++)
            levels[at[7] >= '1' && at[7] <= '4' ? at[7] - '1' : 0]++;
        messages += sr1_trajectory_turn_count(t[i]);
    }
    tiny_near(step_metric(&r, "thinking/tokens"), thoughts / GROUP, 1e-12);
    assert_true(thoughts > 0);
    tiny_near(step_metric(&r, "thinking/level_1"), levels[0] / messages,
              0.2); /* a message may have no text yet */
    tiny_near(step_metric(&r, "thinking/level_3"), levels[2] / messages, 0.2);
    assert_true(step_metric(&r, "thinking/level_1") > 0 &&
                step_metric(&r, "thinking/level_3") > 0 &&
                step_metric(&r, "env/success_rate") == 0);
    tiny_free_all(t, GROUP);
    sr1_trainer_free(tr);
}

/* Does each message of the policy close an action? */
static int acts_throughout(const sr1_trajectory *t)
{
    const char *text = sr1_trajectory_generated_text(t, NULL);

    for (size_t i = 0; i < sr1_trajectory_segment_count(t); i++) {
        sr1_text_segment s = {.struct_size = sizeof s};
        char message[512], *open;

        OK(sr1_trajectory_segment(t, i, &s));
        if (s.source != SR1_SOURCE_POLICY)
            continue;
        assert_true(s.text_len < sizeof message);
        memcpy(message, text + s.text_begin, s.text_len);
        message[s.text_len] = '\0';
        open = strstr(message, "<action>");
        if (!open || !strstr(open, "</action>"))
            return 0;
    }
    return 1;
}

/* Nobody answers here, so an alarm that asked for answers would ring for ever. */
static void messages_that_act_are_well_formed(void **state)
{
    sr1_trainer *tr = open_levels(count_actions, "level_expand=all", "max_turns=1");
    sr1_trajectory *t[GROUP];
    sr1_step_report r;
    double formed = 0;

    (void)state;
    step(tr, t, &r);
    for (size_t i = 0; i < GROUP; i++)
        formed += acts_throughout(t[i]);
    assert_true(formed > 1);
    tiny_near(step_metric(&r, "health/format_rate"), formed / GROUP, 1e-12);
    tiny_free_all(t, GROUP);
    sr1_trainer_free(tr);
}

#define LEVEL_RUN(name)                                                                  \
    tiny_config("leveller", train_path, knowledge_path, out_pair(name), "max_steps=6",   \
                "save_interval=2", "kl_reference=frozen", "protocol=rlvcr",              \
                "advantage=rlvcr", "max_tokens=40", "level_max_tokens=20",               \
                "thinking_cost_w=1", NULL)

static void resuming_equals_never_stopping(void **state)
{
    sr1_trainer *tr;
    json_t *rows;

    (void)state;
    run_whole(LEVEL_RUN("whole"));
    tr = open_trainer(LEVEL_RUN("stopped"));
    run_until(tr, 3);
    sr1_trainer_free(tr);
    OK(sr1_trainer_resume(&tr, scratch_path("stopped"), NULL));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    same_run("whole", "stopped");
    rows = metrics("whole");
    assert_true(metric(rows, 5, "thinking/steps_compared") > 0);
    assert_true(metric(rows, 5, "thinking/tokens") > 0);
    json_decref(rows);
}

static void numbers_of_levels_are_checked(void **state)
{
    static const char *const bad[] = {"level_max_tokens=1,2", "level_max_tokens=1,2,3,4",
                                      "level_max_tokens=a", "level_max_tokens=0",
                                      "level_max_tokens=5,"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sr1_trainer *tr = NULL;
        sr1_config *c = tiny_config("leveller", train_path, "protocol=rlvcr",
                                    "advantage=rlvcr", bad[i], NULL);

        REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "level_max_tokens");
        sr1_config_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_feed_the_estimator),
        cmocka_unit_test(what_cannot_be_made_counts_nothing),
        cmocka_unit_test(informative_steps_only),
        cmocka_unit_test(figures_tell_what_was_thought),
        cmocka_unit_test(messages_that_act_are_well_formed),
        cmocka_unit_test(resuming_equals_never_stopping),
        cmocka_unit_test(numbers_of_levels_are_checked),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("levels in training", tests, leveller_make,
                                       scratch_remove);
}
