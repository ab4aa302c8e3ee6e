/* Entropy in training: the bonus, its slope, means and weight; tokens of high entropy. */
#include "runs.h"
#include "step_metric.h"
#include "updates.h"

#include "environment/trajectory/trajectory.h"

#define GROUP 4
#define N (GROUP * LEVEL_QUERIES)

/* Nothing but the bonus has a gradient. */
#define BONUS PLAIN_SGD, "beta=0", "learning_rate=0.02"

static sr1_trajectory *rolled[N];

static int make(void **state)
{
    if (runs_make(state) != 0)
        return -1;
    roll_level("model", GROUP, rolled);
    return 0;
}

static int clean(void **state)
{
    tiny_free_all(rolled, N);
    return scratch_remove(state);
}

/* Report of an update by t[count], and the weights after it (may be NULL, else free
 * them). */
static sr1_step_report updated_by(sr1_trajectory **t, size_t count, sr1_config *c,
                                  float **weights, size_t *n)
{
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_trainer *tr = tiny_trainer(c);

    OK(sr1_trainer_update(tr, t, count, &r));
    keep_metrics(&r);
    if (weights)
        *weights = tiny_weights(tr->model, n);
    sr1_trainer_free(tr);
    return r;
}

static sr1_step_report updated(sr1_config *c, float **weights, size_t *n)
{
    return updated_by(rolled, N, c, weights, n);
}

/* One small step down the slope g lowers the loss by rate |g|^2. */
static void the_loss_falls_as_its_gradient_says(void **state)
{
    static const char *const coefs[] = {"entropy_coef=0.5", "entropy_coef=-0.5"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        sr1_step_report a = updated(
            tiny_config("model", BONUS, coefs[i], "update_times=1", NULL), NULL, NULL);
        sr1_step_report b = updated(
            tiny_config("model", BONUS, coefs[i], "update_times=2", NULL), NULL, NULL);
        double expected = -0.02 * a.grad_norm * a.grad_norm;

        assert_true(a.grad_norm > 0.01 && step_metric(&a, "actor/entropy_loss") > 0);
        assert_true(step_metric(&a, "actor/entropy_coeff") == (i ? -0.5 : 0.5));
        tiny_near(a.loss,
                  -step_metric(&a, "actor/entropy_coeff") *
                      step_metric(&a, "actor/entropy_loss"),
                  1e-6);
        tiny_near(b.loss - a.loss, expected, 0.15 * fabs(expected));
        assert_true((step_metric(&b, "actor/entropy_loss") >
                     step_metric(&a, "actor/entropy_loss")) == (i == 0));
    }
}

static void without_it_nothing_changes(void **state)
{
    size_t n, m;
    float *none, *zero;
    sr1_step_report r = updated(tiny_config("model", "update_times=2", NULL), &none, &n);

    (void)state;
    assert_true(step_metric(&r, "actor/entropy_coeff") == 0 &&
                step_metric(&r, "actor/entropy_loss") == 0);
    (void)updated(tiny_config("model", "update_times=2", "entropy_coef=0",
                              "entropy_aggregation=token-mean", NULL),
                  &zero, &m);
    assert_int_equal(n, m);
    assert_memory_equal(none, zero, n * sizeof *none);
    free(none);
    free(zero);
}

/* Of a summed loss the bonus is a sum too, or a mean all the same. */
static void means_are_as_asked(void **state)
{
    double tokens = 0;
    sr1_step_report sum =
        updated(tiny_config("model", BONUS, "update_times=1", "entropy_coef=0.5",
                            "loss_aggregation=token-sum", NULL),
                NULL, NULL);
    sr1_step_report mean = updated(
        tiny_config("model", BONUS, "update_times=1", "entropy_coef=0.5",
                    "loss_aggregation=token-sum", "entropy_aggregation=token-mean", NULL),
        NULL, NULL);

    (void)state;
    for (size_t i = 0; i < N; i++)
        tokens += (double)sr1_trajectory_policy_count(rolled[i]);
    tiny_near(step_metric(&sum, "actor/entropy_loss"),
              step_metric(&mean, "actor/entropy_loss"), 1e-9);
    tiny_near(mean.loss, -0.5 * step_metric(&mean, "actor/entropy_loss"), 1e-6);
    tiny_near(sum.loss, -0.5 * step_metric(&sum, "actor/entropy_loss") * tokens,
              1e-4 * tokens);
    tiny_near(sum.grad_norm / mean.grad_norm, tokens, 1e-3 * tokens);
}

static void the_cut_does_not_matter(void **state)
{
    static const char *const cuts[] = {"micro_batch_tokens=1", "workers=2"};
    static const char *const means[] = {"entropy_aggregation=loss",
                                        "entropy_aggregation=token-mean"};

    (void)state;
    for (int m = 0; m < 2; m++) {
        sr1_step_report whole =
            updated(tiny_config("model", BONUS, "update_times=1", "entropy_coef=0.5",
                                "loss_aggregation=seq-mean-token-mean", means[m], NULL),
                    NULL, NULL);

        for (int k = 0; k < 2; k++) {
            sr1_step_report part =
                updated(tiny_config("model", BONUS, "update_times=1", "entropy_coef=0.5",
                                    "loss_aggregation=seq-mean-token-mean", means[m],
                                    cuts[k], NULL),
                        NULL, NULL);

            tiny_near(part.loss, whole.loss, 1e-5);
            tiny_near(step_metric(&part, "actor/entropy_loss"),
                      step_metric(&whole, "actor/entropy_loss"), 1e-5);
            tiny_near(part.grad_norm, whole.grad_norm, 1e-4 * whole.grad_norm);
        }
    }
}

/* ---- tokens of high entropy ---- */

/* Advantages that differ, so that a choice of tokens shows. */
static void give_advantages(void)
{
    for (size_t i = 0; i < N; i++)
        OK(sr1_trajectory_set_advantage(rolled[i], (double)i - 2.5));
}

static void take_advantages(void)
{
    for (size_t i = 0; i < N; i++)
        OK(sr1_trajectory_set_advantage(rolled[i], 0));
}

#define CHOICE PLAIN_SGD, "beta=0", "learning_rate=0.02", "update_times=1"

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* As TRL's get_high_entropy_mask has it: torch.quantile(entropies, 1 - q), which lies on
 * the line between its neighbours. */
static double expected_threshold(const float *entropies, size_t n, double q)
{
    float sorted[4096];
    double at = (1 - q) * (double)(n - 1);
    size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;

    memcpy(sorted, entropies, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_size);
    return sorted[low] + (at - (double)low) * ((double)sorted[high] - sorted[low]);
}

/* Of trajectories [begin, end) after an update: minus the sum of the advantages of the
 * tokens that have a loss; the number of all is added to *tokens. */
static double expected_loss(size_t begin, size_t end, double quantile, double *tokens)
{
    float entropies[4096] = {0};
    size_t n = 0, k = 0;
    double sum = 0, threshold;

    for (size_t i = begin; i < end; i++)
        for (size_t t = 0; t < sr1_trajectory_policy_count(rolled[i]); t++)
            entropies[n++] = sr1_trajectory_column(rolled[i], SR1_COLUMN_ENTROPY)[t];
    threshold = expected_threshold(entropies, n, quantile);
    for (size_t i = begin; i < end; i++)
        for (size_t t = 0; t < sr1_trajectory_policy_count(rolled[i]); t++, k++)
            sum -= entropies[k] >= threshold ? sr1_trajectory_advantage(rolled[i]) : 0;
    *tokens += (double)n;
    return sum;
}

static void tokens_of_low_entropy_have_no_loss(void **state)
{
    static const struct {
        const char *key;
        double quantile;
    } shares[] = {{"top_entropy_quantile=0.2", 0.2}, {"top_entropy_quantile=0", 0}};

    (void)state;
    give_advantages();
    for (int i = 0; i < 2; i++) {
        sr1_step_report r =
            updated(tiny_config("model", CHOICE, shares[i].key, NULL), NULL, NULL);
        double tokens = 0, want = expected_loss(0, N, shares[i].quantile, &tokens);

        assert_true(fabs(want) > 0.1);
        tiny_near(r.loss, want / tokens, 1e-5);
        assert_true(step_metric(&r, "actor/entropy_threshold") > 0);
        r = updated(tiny_config("model", CHOICE, shares[i].key, "learning_rate=0",
                                "mini_batch_size=4", NULL),
                    NULL, NULL);
        tokens = 0; /* each half has a threshold of its own */
        want = expected_loss(0, 4, shares[i].quantile, &tokens);
        want += expected_loss(4, N, shares[i].quantile, &tokens);
        tiny_near(r.loss, want / tokens, 1e-5);
    }
    take_advantages();
}

/* The bonus is the mean over the tokens that are left, as TRL's. */
static void the_bonus_is_that_of_those_tokens(void **state)
{
    double sum = 0, kept = 0, threshold;
    sr1_step_report r = updated(tiny_config("model", CHOICE, "entropy_coef=0.5",
                                            "entropy_aggregation=token-mean",
                                            "top_entropy_quantile=0.3", NULL),
                                NULL, NULL);

    (void)state;
    threshold = step_metric(&r, "actor/entropy_threshold");
    for (size_t i = 0; i < N; i++)
        for (size_t t = 0; t < sr1_trajectory_policy_count(rolled[i]); t++) {
            double h = sr1_trajectory_column(rolled[i], SR1_COLUMN_ENTROPY)[t];

            sum += h >= threshold ? h : 0;
            kept += h >= threshold;
        }
    assert_true(kept > 1);
    tiny_near(r.loss, -0.5 * sum / kept, 1e-5);
}

static void the_choice_does_not_depend_on_the_cut(void **state)
{
    static const char *const cuts[] = {"micro_batch_tokens=1", "workers=2"};
    sr1_step_report whole;

    (void)state;
    give_advantages();
    whole = updated(tiny_config("model", CHOICE, "top_entropy_quantile=0.3", NULL), NULL,
                    NULL);
    for (int k = 0; k < 2; k++) {
        sr1_step_report part = updated(
            tiny_config("model", CHOICE, "top_entropy_quantile=0.3", cuts[k], NULL), NULL,
            NULL);

        tiny_near(part.loss, whole.loss, 1e-5);
        tiny_near(part.grad_norm, whole.grad_norm, 1e-4 * whole.grad_norm);
    }
    take_advantages();
}

/* Of t, which may be changed. */
static sr1_trajectory *copy_of(const sr1_trajectory *t)
{
    sr1_trajectory *out = NULL;
    void *bytes = NULL;
    size_t n;

    OK(sr1_trajectory_encode(t, &bytes, &n));
    OK(sr1_trajectory_decode(&out, bytes, n));
    sr1_free(bytes);
    return out;
}

/* A trajectory that is skipped has no tokens to choose from. */
static void a_skipped_trajectory_changes_no_choice(void **state)
{
    static const char *const choices[][3] = {
        {"top_entropy_quantile=0.3", "loss=grpo", "beta=0"},
        {"clip_cov_ratio=0.3", "loss=clip_cov", "clip_cov_lb=-100"},
        {"kl_cov_ratio=0.3", "loss=kl_cov", "ppo_kl_coef=50"}};

    (void)state;
    give_advantages();
    for (int i = 0; i < 3; i++) {
        const char *const *k = choices[i];
        sr1_trajectory *mixed[N];
        sr1_step_report a, b;

        memcpy(mixed, rolled, sizeof mixed);
        mixed[0] = copy_of(rolled[0]);
        sr1__trajectory_mark_unscored(mixed[0]);
        a = updated_by(rolled + 1, N - 1,
                       tiny_config("model", CHOICE, k[0], k[1], k[2], NULL), NULL, NULL);
        b = updated_by(mixed, N, tiny_config("model", CHOICE, k[0], k[1], k[2], NULL),
                       NULL, NULL);
        tiny_near(b.loss, a.loss, 1e-6);
        tiny_near(b.grad_norm, a.grad_norm, 1e-4 * a.grad_norm);
        tiny_near(step_metric(&b, "actor/entropy_threshold"),
                  step_metric(&a, "actor/entropy_threshold"), 1e-5);
        sr1_trajectory_free(mixed[0]);
    }
    take_advantages();
}

static void all_tokens_are_no_choice(void **state)
{
    size_t n, m;
    float *none, *all;

    (void)state;
    give_advantages();
    (void)updated(tiny_config("model", "update_times=2", NULL), &none, &n);
    (void)updated(tiny_config("model", "update_times=2", "top_entropy_quantile=1", NULL),
                  &all, &m);
    assert_int_equal(n, m);
    assert_memory_equal(none, all, n * sizeof *none);
    free(none);
    free(all);
    take_advantages();
}

static void the_choice_is_resumed(void **state)
{
    sr1_trainer *tr;

    (void)state;
    run_whole(RUN("chosen", "top_entropy_quantile=0.3"));
    tr = open_trainer(RUN("chosen-stopped", "top_entropy_quantile=0.3"));
    run_until(tr, 4);
    sr1_trainer_free(tr);
    tr = NULL;
    OK(sr1_trainer_resume(&tr, scratch_path("chosen-stopped"), NULL));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    same_run("chosen", "chosen-stopped");
}

/* ---- the controller ---- */

/* By hand: up while below the target, down and unused while above, within bounds. */
static void the_controller_holds_its_target(void **state)
{
    struct sr1__entropy e = {
        .adaptive = 1, .target = 0.5, .delta = 0.25, .most = 0.6, .coef = 0.1};
    static const struct {
        double entropy, used, left;
    } steps[] = {{0.2, 0.1, 0.35}, {0.4, 0.35, 0.6}, {0.3, 0.6, 0.6}, {0.9, 0.0, 0.35},
                 {0.8, 0.0, 0.1},  {0.7, 0.0, 0.0},  {0.5, 0.0, 0.0}, {0.1, 0.0, 0.25}};

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        sr1__entropy_begin(&e, steps[i].entropy);
        tiny_near(e.now, steps[i].used, 1e-15);
        sr1__entropy_end(&e, steps[i].entropy);
        tiny_near(e.coef, steps[i].left, 1e-15);
    }
    e.adaptive = 0;
    sr1__entropy_begin(&e, 9);
    sr1__entropy_end(&e, 9);
    tiny_near(e.now, 0.25, 0);
    tiny_near(e.coef, 0.25, 0);
}

/* A step of no questions samples nothing, so nothing is known of the entropy. */
static void without_a_sampled_token_the_coefficient_stays(void **state)
{
    sr1_trainer *tr = tiny_trainer(
        tiny_config("model", "entropy_coef=0.1", "entropy_controller=adaptive",
                    "entropy_target=0.5", "entropy_coef_delta=0.25", NULL));
    sr1_step_report r = {.struct_size = sizeof r};

    (void)state;
    OK(sr1_trainer_train_step(tr, NULL, 0, 4, &r, NULL));
    tiny_near(tr->entropy.coef, 0.1, 1e-15);
    sr1_trainer_free(tr);
}

#define MOVED                                                                            \
    "entropy_coef=0.01", "entropy_controller=adaptive", "entropy_target=100",            \
        "entropy_coef_delta=0.25"

static void the_controller_is_resumed(void **state)
{
    sr1_trainer *tr;
    json_t *rows;

    (void)state;
    run_whole(RUN("whole", MOVED));
    tr = open_trainer(RUN("stopped", MOVED));
    run_until(tr, 4);
    sr1_trainer_free(tr);
    tr = NULL;
    OK(sr1_trainer_resume(&tr, scratch_path("stopped"), NULL));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    same_run("whole", "stopped");
    rows = metrics("stopped");
    for (size_t i = 0; i < 6; i++) {
        double coef = 0.01 + 0.25 * (double)i;

        tiny_near(metric(rows, i, "actor/entropy_coeff"), coef > 1 ? 1 : coef, 1e-12);
        assert_true(metric(rows, i, "actor/entropy_loss") > 0);
    }
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_falls_as_its_gradient_says),
        cmocka_unit_test(without_it_nothing_changes),
        cmocka_unit_test(means_are_as_asked),
        cmocka_unit_test(the_cut_does_not_matter),
        cmocka_unit_test(tokens_of_low_entropy_have_no_loss),
        cmocka_unit_test(the_bonus_is_that_of_those_tokens),
        cmocka_unit_test(the_choice_does_not_depend_on_the_cut),
        cmocka_unit_test(a_skipped_trajectory_changes_no_choice),
        cmocka_unit_test(all_tokens_are_no_choice),
        cmocka_unit_test(the_choice_is_resumed),
        cmocka_unit_test(the_controller_holds_its_target),
        cmocka_unit_test(without_a_sampled_token_the_coefficient_stays),
        cmocka_unit_test(the_controller_is_resumed),
    };

    return cmocka_run_group_tests(tests, make, clean);
}
