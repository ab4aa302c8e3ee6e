/* PPO: a critic that learns, KL in the reward, and what must not depend on how a batch is
 * cut. */
#include "runs.h"

#define PPO(name, ...)                                                                   \
    RUN(name, "advantage=gae", "loss=ppo", "kl_in=reward", "beta=0.05",                  \
        "critic_learning_rate=1e-3", __VA_ARGS__)

/* ---- the critic learns ---- */

static void the_critic_learns_what_is_to_come(void **state)
{
    json_t *rows;
    double first, last;

    (void)state;
    run_whole(PPO("learns", "max_steps=30", "critic_warmup=30", "group_size=8",
                  "batch_size=4", "value_clip=0", "critic_learning_rate=3e-3"));
    rows = metrics("learns");
    first = metric(rows, 0, "critic/vf_loss");
    last = metric(rows, 29, "critic/vf_loss");
    if (!(last < 0.5 * first))
        fail_msg("value loss went from %g to %g", first, last);
    assert_true(metric(rows, 0, "critic/values/mean") == 0.0); /* the head was zero */
    assert_true(fabs(metric(rows, 29, "critic/values/mean") -
                     metric(rows, 29, "critic/returns/mean")) <
                0.5 * fabs(metric(rows, 0, "critic/returns/mean")));
    assert_true(metric(rows, 29, "critic/grad_norm") > 0.0);
    assert_true(metric(rows, 29, "critic/lr") > 0.0);
    json_decref(rows);
}

static void warming_up_leaves_the_policy_alone(void **state)
{
    json_t *rows;

    (void)state;
    run_whole(PPO("warm", "critic_warmup=3"));
    rows = metrics("warm");
    assert_true(metric(rows, 2, "grad_norm") == 0.0);
    assert_true(metric(rows, 2, "critic/grad_norm") > 0.0);
    assert_true(metric(rows, 3, "grad_norm") > 0.0);
    tiny_near(metric(rows, 2, "critic/kl"), 0.0, 1e-5); /* the policy is its reference */
    assert_true(fabs(metric(rows, 5, "critic/kl")) > 1e-4);
    json_decref(rows);
}

/* Of six steps the policy learns in three, the first two of them at rising rates. */
static void the_policys_rate_rises_after_it(void **state)
{
    json_t *rows;

    (void)state;
    run_whole(PPO("late", "critic_warmup=3", "warmup_steps=2", "learning_rate=3e-3",
                  "lr_schedule=linear"));
    rows = metrics("late");
    for (size_t i = 0; i < 3; i++)
        tiny_near(metric(rows, 3 + i, "actor/lr"), 1e-3 * (double)(i + 1), 1e-9);
    tiny_near(metric(rows, 0, "critic/lr"), 1e-3 / 3, 1e-9);
    tiny_near(metric(rows, 5, "critic/lr"), 0.25e-3, 1e-9); /* its own six steps */
    json_decref(rows);
}

static void nor_does_its_entropy_bonus_move(void **state)
{
    json_t *rows;

    (void)state;
    run_whole(PPO("warm-bonus", "critic_warmup=3", "entropy_controller=adaptive",
                  "entropy_coef=0.01", "entropy_coef_delta=0.25", "entropy_target=100"));
    rows = metrics("warm-bonus");
    for (size_t i = 0; i < 4; i++)
        tiny_near(metric(rows, i, "actor/entropy_coeff"), 0.01, 1e-12);
    tiny_near(metric(rows, 4, "actor/entropy_coeff"), 0.26, 1e-12);
    json_decref(rows);
}

/* Where there is no critic, there is nothing to warm up. */
static void only_a_critic_is_waited_for(void **state)
{
    json_t *rows;

    (void)state;
    run_whole(RUN("no-critic", "critic_warmup=6"));
    rows = metrics("no-critic");
    assert_true(metric(rows, 0, "grad_norm") > 0.0);
    json_decref(rows);
}

/* ---- resuming ---- */

static sr1_status plug(void *user, const sr1_step_report *report, int64_t planned)
{
    (void)planned;
    return report->step == *(int64_t *)user ? sr1_set_error(SR1_E_IO, "plug") : SR1_OK;
}

static void resuming_equals_never_stopping(void **state)
{
    int64_t at = 3;
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .user = &at, .step = plug};
    sr1_trainer *tr;

    (void)state;
    run_whole(PPO("whole", "kl_controller=adaptive", "kl_horizon=50"));
    tr = open_trainer(PPO("cut", "kl_controller=adaptive", "kl_horizon=50"));
    REFUSED(sr1_trainer_run(tr, &cb), SR1_E_IO, "plug");
    sr1_trainer_free(tr);
    tr = NULL;
    OK(sr1_trainer_resume(&tr, scratch_path("cut"), NULL));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    same_run("whole", "cut");
    same_file("whole", "cut", "checkpoints/step-6/critic/model.safetensors");
    same_file("whole", "cut", "checkpoints/step-6/critic_optimizer/model.safetensors");
}

/* The KL stays far below its target, so each step moves beta by the clip's lower bound,
 * -0.2, times its trajectories over the horizon. */
static void the_controller_moves_beta(void **state)
{
    double beta = 0.05;
    json_t *rows;

    (void)state;
    run_whole(PPO("steer", "kl_controller=adaptive", "kl_horizon=50", "kl_target=5"));
    rows = metrics("steer");
    for (size_t i = 0; i < 6; i++) {
        tiny_near(metric(rows, i, "critic/kl_coeff"), beta, 1e-12);
        beta *= 1.0 - 0.2 * metric(rows, i, "training/trajectories") / 50.0;
    }
    json_decref(rows);
}

/* ---- cutting a batch ---- */

static float *critic_after(const char *cut, size_t *n)
{
    sr1_trainer *tr = open_trainer(PPO("cutting", cut, "group_size=6"));
    sr1_query q = tiny_query("Where is the tower?");
    float *w;

    OK(sr1_trainer_train_step(tr, &q, 1, 6, NULL, NULL));
    w = tiny_weights(tr->critics[0], n);
    sr1_trainer_free(tr);
    return w;
}

static void the_critic_does_not_depend_on_the_cut(void **state)
{
    size_t n, m;
    float *whole = critic_after("micro_batch_tokens=100000", &n);
    float *cut = critic_after("micro_batch_tokens=1", &m);

    (void)state;
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
        tiny_near(whole[i], cut[i], 2e-4);
    sr1__free(whole);
    sr1__free(cut);
}

/* ---- columns ---- */

static void trajectories_hold_what_was_found(void **state)
{
    sr1_trainer *tr = open_trainer(PPO("columns", "update_times=1"));
    sr1_query q = tiny_query("Where is the tower?");
    sr1_trajectory *t[2] = {NULL};
    const float *values, *returns, *rewards;
    size_t n;

    (void)state;
    OK(sr1_trainer_train_step(tr, &q, 1, 2, NULL, t));
    n = sr1_trajectory_policy_count(t[0]);
    values = sr1_trajectory_column(t[0], SR1_COLUMN_VALUE);
    returns = sr1_trajectory_column(t[0], SR1_COLUMN_RETURN);
    rewards = sr1_trajectory_column(t[0], SR1_COLUMN_REWARD);
    assert_non_null(values);
    assert_non_null(sr1_trajectory_column(t[0], SR1_COLUMN_REFERENCE));
    for (size_t i = 0; i < n; i++) {
        assert_true(values[i] == 0.0f);   /* the head begins at zero */
        tiny_near(rewards[i], 0.0, 1e-5); /* the policy is its reference still */
        tiny_near(returns[i], sr1_trajectory_reward(t[0]), 1e-4); /* gamma, lambda 1 */
    }
    sr1_trajectory_free(t[0]);
    sr1_trajectory_free(t[1]);
    sr1_trainer_free(tr);
}

static void keys_are_checked(void **state)
{
    sr1_trainer *tr = NULL;
    sr1_config *c = RUN("bad", "kl_in=reward", "kl_reference=old");

    (void)state;
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "kl_reference frozen");
    sr1_config_free(c);
    c = RUN("bad", "advantage=rlvcr");
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "advantage rlvcr needs");
    sr1_config_free(c);
    c = RUN("bad", "loss=ppo", "kl_in=reward"); /* whose published beta is 0 */
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "set beta");
    sr1_config_free(c);
    c = RUN("bad", "advantage=gdpo", "kl_in=reward", "beta=0.05");
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG,
            "kl_in reward does not go with advantage gdpo");
    sr1_config_free(c);
    c = PPO("bad", "skip_zero_variance_groups=true");
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG,
            "skip_zero_variance_groups does not go with advantage gae");
    sr1_config_free(c);
    /* at the end of the first step 0.2 times 2 questions times 4 would be above it */
    c = PPO("bad", "kl_controller=adaptive", "kl_horizon=1.5");
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "kl_horizon");
    sr1_config_free(c);
    c = PPO("bad", "critic_model=nowhere");
    REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_NOT_FOUND, "critic: ");
    sr1_config_free(c);
    assert_null(tr);
}

/* verl's and TRL's groups: torch.std, which divides by n - 1. */
static void groups_have_the_deviation_asked_for(void **state)
{
    static const char *const kinds[] = {"advantage_std_kind=auto",
                                        "advantage_std_kind=population",
                                        "advantage_std_kind=unbiased"};
    sr1_query q = tiny_query("Where is the tower?");

    (void)state;
    for (size_t k = 0; k < 3; k++) {
        sr1_trainer *tr =
            tiny_trainer(tiny_config("model", kinds[k], "advantage_eps=1e-6", NULL));
        sr1_trajectory *t[5];
        double mean = 0, squares = 0, std;

        OK(sr1_trainer_train_step(tr, &q, 1, 5, NULL, t));
        for (size_t i = 0; i < 5; i++)
            mean += sr1_trajectory_reward(t[i]) / 5;
        for (size_t i = 0; i < 5; i++)
            squares += pow(sr1_trajectory_reward(t[i]) - mean, 2);
        std = sqrt(squares / (k == 2 ? 4 : 5));
        assert_true(std > 0.1);
        for (size_t i = 0; i < 5; i++)
            tiny_near(sr1_trajectory_advantage(t[i]),
                      (sr1_trajectory_reward(t[i]) - mean) / (std + 1e-6), 1e-9);
        tiny_free_all(t, 5);
        sr1_trainer_free(tr);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_critic_learns_what_is_to_come),
        cmocka_unit_test(warming_up_leaves_the_policy_alone),
        cmocka_unit_test(the_policys_rate_rises_after_it),
        cmocka_unit_test(nor_does_its_entropy_bonus_move),
        cmocka_unit_test(only_a_critic_is_waited_for),
        cmocka_unit_test(resuming_equals_never_stopping),
        cmocka_unit_test(the_controller_moves_beta),
        cmocka_unit_test(the_critic_does_not_depend_on_the_cut),
        cmocka_unit_test(trajectories_hold_what_was_found),
        cmocka_unit_test(groups_have_the_deviation_asked_for),
        cmocka_unit_test(keys_are_checked),
    };

    return cmocka_run_group_tests_name("ppo", tests, runs_make, scratch_remove);
}
