/* Every reward is computed once for every trajectory of a step: of the outcome, of turns,
 * of greedy rollouts, and of further rounds of questions. */
#include "runs.h"

struct counter {
    size_t scored, turns; /* trajectories */
    size_t calls;         /* of score */
};

static sr1_status count_scored(void *self, const sr1_trajectory *const *t, size_t n,
                               double *out)
{
    struct counter *c = self;

    for (size_t i = 0; i < n; i++)
        out[i] = (double)(sr1_trajectory_policy_count(t[i]) % 3);
    c->scored += n;
    c->calls++;
    return SR1_OK;
}

static sr1_status count_turns(void *self, const sr1_trajectory *t, double *out)
{
    struct counter *c = self;

    for (int32_t i = 0; i < sr1_trajectory_turn_count(t); i++)
        out[i] = (double)i;
    c->turns++;
    return SR1_OK;
}

static void add_counter(sr1_trainer *tr, const char *name, int32_t level,
                        struct counter *c)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops,
        .name = name,
        .score = count_scored,
        .level = level,
        .score_turns = level == SR1_REWARD_TURN ? count_turns : NULL,
    };

    OK(sr1_trainer_add_reward(tr, &ops, c, 0.5));
}

/* A run of the estimator; how often either reward was computed, and of how many. */
static size_t run_counted(const char *name, const char *advantage, const char *more,
                          struct counter *outcome, struct counter *turn)
{
    sr1_trainer *tr = open_trainer(RUN(name, advantage, more, "rewards=exact_match"));
    json_t *rows;
    size_t n = 0;

    *outcome = *turn = (struct counter){0};
    add_counter(tr, "outcome", SR1_REWARD_OUTCOME, outcome);
    add_counter(tr, "turn", SR1_REWARD_TURN, turn);
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    rows = metrics(name);
    for (size_t i = 0; i < json_array_size(rows); i++)
        n += (size_t)metric(rows, i, "training/trajectories");
    json_decref(rows);
    assert_true(n > 0);
    return n;
}

static void outcomes_and_turns_are_scored_once(void **state)
{
    struct counter outcome, turn;
    size_t n = run_counted("turns", "advantage=mt_grpo", "beta=0", &outcome, &turn);

    (void)state;
    assert_int_equal(outcome.scored, n);
    assert_int_equal(turn.scored, n);
    assert_int_equal(turn.turns, n);
}

static void further_rounds_are_scored_once(void **state)
{
    struct counter outcome, turn;
    size_t n =
        run_counted("rounds", "group_size=2", "dynamic_sampling=3", &outcome, &turn);

    (void)state;
    assert_true(n > 22); /* there were some: an epoch of 7 rows is 4 steps */
    assert_int_equal(outcome.scored, n);
    assert_int_equal(turn.scored, n);
    assert_int_equal(turn.turns, n);
}

/* Of each question's greedy rollout the whole, and nothing turn by turn; those of a step
 * together, so that a reward that asks a server does so once. */
static void greedy_rollouts_are_scored_once(void **state)
{
    struct counter outcome, turn;
    size_t n = run_counted("greedy", "advantage=remax", "group_size=4", &outcome, &turn);

    (void)state;
    assert_int_equal(outcome.scored, n + n / 4);
    assert_int_equal(turn.scored, n + n / 4);
    assert_int_equal(turn.turns, n);
    assert_int_equal(outcome.calls, 2 * ((n / 4 + 1) / 2)); /* two a step of two rows */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outcomes_and_turns_are_scored_once),
        cmocka_unit_test(further_rounds_are_scored_once),
        cmocka_unit_test(greedy_rollouts_are_scored_once),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests_name("rewards once", tests, runs_make, scratch_remove);
}
