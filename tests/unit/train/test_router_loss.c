/* The routers' auxiliary loss in training; that it is transformers' is shown by
 * tests/unit/model/test_forward.c. */
#include "runs.h"
#include "step_metric.h"
#include "updates.h"

#include <searchr1/ext/model_details.h>

#define GROUP 3
#define N (GROUP * LEVEL_QUERIES)

/* Nothing but this loss has a gradient. */
#define ALONE PLAIN_SGD, "beta=0", "learning_rate=0.01"

static sr1_trajectory *rolled[N];

static int make_mixture(void **state)
{
    if (runs_make(state) != 0)
        return -1;
    tiny_mixture("mixture");
    roll_level("mixture", GROUP, rolled);
    return 0;
}

static void nothing_leaks(void **state)
{
    tiny_free_all(rolled, N);
    tiny_nothing_leaks(state);
}

/* An update on trajectories [at, at + n). */
static sr1_step_report update_by(size_t at, size_t n, sr1_config *c)
{
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_trainer *tr = tiny_trainer(c);

    OK(sr1_trainer_update(tr, rolled + at, n, &r));
    keep_metrics(&r);
    sr1_trainer_free(tr);
    return r;
}

#define UPDATE(at, n, ...)                                                               \
    update_by(at, n, tiny_config("mixture", ALONE, __VA_ARGS__, NULL))

/* One small step down the slope g lowers the loss by rate |g|^2. */
static void the_loss_falls_as_its_gradient_says(void **state)
{
    sr1_step_report a = UPDATE(0, N, "router_aux_loss_coef=0.5", "update_times=1");
    sr1_step_report b = UPDATE(0, N, "router_aux_loss_coef=0.5", "update_times=2");
    double expected = -0.01 * a.grad_norm * a.grad_norm;

    (void)state;
    assert_true(a.grad_norm > 0.01);
    assert_true(step_metric(&a, "aux_loss") > 2.0); /* that of perfect balance */
    tiny_near(a.loss, 0.5 * step_metric(&a, "aux_loss"), 1e-6);
    tiny_near(b.loss - a.loss, expected, 0.15 * fabs(expected));
}

static void without_it_nothing_is_computed(void **state)
{
    sr1_step_report r = UPDATE(0, N, "router_aux_loss_coef=0", "update_times=1");

    (void)state;
    assert_true(step_metric(&r, "aux_loss") == 0 && r.loss == 0 && r.grad_norm == 0);
}

/* As gradient accumulation has it: each micro-batch's own, a mean by sequences. */
static void micro_batches_are_averaged(void **state)
{
    static const char *const cuts[] = {"workers=1", "workers=2"};
    double mean = 0;

    (void)state;
    for (size_t i = 0; i < N; i++) {
        sr1_step_report one = UPDATE(i, 1, "router_aux_loss_coef=0.5", "update_times=1");

        mean += step_metric(&one, "aux_loss") / N;
    }
    for (size_t k = 0; k < 2; k++) {
        sr1_step_report all =
            UPDATE(0, N, "router_aux_loss_coef=0.5", "update_times=1",
                   "share_prompts=false", "micro_batch_tokens=1", cuts[k]);

        assert_true(step_metric(&all, "training/micro_batches") == N);
        tiny_near(step_metric(&all, "aux_loss"), mean, 1e-5);
        tiny_near(all.loss, 0.5 * mean, 1e-5);
    }
}

/* A prompt that is computed once counts for each sample of its group. */
static void sharing_prompts_changes_nothing(void **state)
{
    sr1_step_report plain =
        UPDATE(0, N, "router_aux_loss_coef=0.5", "update_times=1", "share_prompts=false");
    sr1_step_report shared =
        UPDATE(0, N, "router_aux_loss_coef=0.5", "update_times=1", "share_prompts=true");

    (void)state;
    assert_true(step_metric(&shared, "global_seqlen/max") <
                step_metric(&plain, "global_seqlen/max"));
    tiny_near(step_metric(&shared, "aux_loss"), step_metric(&plain, "aux_loss"), 1e-5);
    tiny_near(shared.grad_norm, plain.grad_norm, 1e-5);
}

/* Routers stay as they are under an adapter; what they read is trained. */
static void adapters_learn_by_it(void **state)
{
    sr1_step_report a =
        UPDATE(0, N, "router_aux_loss_coef=0.5", "update_times=1", "lora_rank=4");
    sr1_step_report b = UPDATE(0, N, "router_aux_loss_coef=0.5", "update_times=1",
                               "lora_rank=4", "gradient_checkpointing=true");

    (void)state;
    assert_true(a.grad_norm > 1e-4);
    tiny_near(b.grad_norm, a.grad_norm, 1e-5);
    tiny_near(step_metric(&b, "aux_loss"), step_metric(&a, "aux_loss"), 1e-6);
}

static void dense_models_have_none(void **state)
{
    static const char *const pairs[] = {"router_aux_loss_coef=0.001", "router_replay=r2"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        sr1_config *c = tiny_config("model", pairs[i], NULL);
        sr1_trainer *tr = NULL;

        REFUSED(sr1_trainer_new(&tr, c, NULL), SR1_E_CONFIG, "no routed experts");
        sr1_config_free(c);
    }
}

/* ---- router replay ---- */

/* Steps so large that routers choose others. The loss is the bonus for entropy, which
 * does not depend on how a batch is cut. */
#define FAR PLAIN_SGD, "beta=0", "learning_rate=1", "entropy_coef=-1"

static sr1_step_report update_far(const char *replay, const char *a, const char *b)
{
    return update_by(0, N, tiny_config("mixture", FAR, replay, a, b, NULL));
}

/* Without a second optimizer step there is nothing to replay. */
static void one_step_is_the_same(void **state)
{
    sr1_step_report plain = update_far("router_replay=none", "update_times=1", "seed=1");
    sr1_step_report replayed = update_far("router_replay=r2", "update_times=1", "seed=1");

    (void)state;
    assert_true(plain.loss == replayed.loss && plain.grad_norm == replayed.grad_norm);
}

/* However the update is cut, over workers too. */
static void later_passes_go_by_the_first(void **state)
{
    sr1_step_report plain = update_far("router_replay=none", "update_times=3", "seed=1");
    sr1_step_report r = update_far("router_replay=r2", "update_times=3", "seed=1");

    (void)state;
    assert_true(fabs(plain.loss - r.loss) > 1e-3);
    for (size_t i = 0; i < 3; i++) {
        static const char *const cuts[] = {"share_prompts=false", "workers=2",
                                           "gradient_checkpointing=true"};
        sr1_step_report cut = update_far("router_replay=r2", "update_times=3", cuts[i]);

        tiny_near(cut.loss, r.loss, 1e-4 * fabs(r.loss));
        tiny_near(cut.grad_norm, r.grad_norm, 1e-3 * r.grad_norm);
    }
}

/* What is kept before the update is of all mini-batches. */
static void mini_batches_go_by_it_too(void **state)
{
    sr1_step_report plain =
        update_far("router_replay=none", "update_times=1", "mini_batch_size=3");
    sr1_step_report r =
        update_far("router_replay=r2", "update_times=1", "mini_batch_size=3");

    (void)state;
    assert_true(fabs(plain.loss - r.loss) > 1e-3);
}

/* Memory may run out at any place, while experts are kept too: the update either does
 * without it, in smaller micro-batches and by the same experts, or fails. */
static void so_they_do_when_they_are_cut_finer(void **state)
{
    sr1_step_report r =
        update_far("router_replay=r2", "update_times=1", "mini_batch_size=3");
    int cut = 0;

    (void)state;
    for (int64_t at = 1; at < 4000; at = at * 5 / 4 + 1) {
        sr1_step_report again = {.struct_size = sizeof again};
        sr1_trainer *tr =
            tiny_trainer(tiny_config("mixture", FAR, "router_replay=r2", "update_times=1",
                                     "mini_batch_size=3", NULL));
        sr1_status st;

        sr1__mem_fail_at(at);
        st = sr1_trainer_update(tr, rolled, N, &again);
        sr1__mem_fail_at(0);
        sr1_trainer_free(tr);
        if (st != SR1_OK) {
            assert_int_equal(st, SR1_E_NOMEM);
            continue;
        }
        tiny_near(again.loss, r.loss, 1e-4 * fabs(r.loss));
        tiny_near(again.grad_norm, r.grad_norm, 1e-3 * r.grad_norm);
        cut += again.loss != r.loss || again.grad_norm != r.grad_norm;
    }
    printf("%d updates were cut finer\n", cut);
    assert_true(cut > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_falls_as_its_gradient_says),
        cmocka_unit_test(without_it_nothing_is_computed),
        cmocka_unit_test(micro_batches_are_averaged),
        cmocka_unit_test(sharing_prompts_changes_nothing),
        cmocka_unit_test(adapters_learn_by_it),
        cmocka_unit_test(dense_models_have_none),
        cmocka_unit_test(one_step_is_the_same),
        cmocka_unit_test(later_passes_go_by_the_first),
        cmocka_unit_test(mini_batches_go_by_it_too),
        cmocka_unit_test(so_they_do_when_they_are_cut_finer),
        cmocka_unit_test(nothing_leaks),
    };

    return cmocka_run_group_tests_name("router loss", tests, make_mixture,
                                       scratch_remove);
}
