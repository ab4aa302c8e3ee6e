/* An update on the device waits for it once for each micro-batch, whose log-probs the
 * loss reads, and once for each optimizer step, which must know the gradient's norm; in a
 * mixture also in each pass through a layer with experts. */
#include "accelerator/accelerator.h"
#include "support/tiny.h"

#include "train/internal.h"

#define GROUP 4
#define QUERIES 3
#define N (GROUP * QUERIES)

static int make(void **state)
{
    if (scratch_make(state) != 0)
        return -1;
    tiny_model("model", TINY_SEARCHER, 9);
    tiny_mixture("mixture");
    return 0;
}

static const char *model = "model";

static void roll(sr1_trainer *tr, sr1_trajectory *t[N])
{
    static const char *const questions[QUERIES] = {"one?", "the second one?", "3?"};
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = GROUP, .seed = 9};
    sr1_query q[QUERIES];

    for (size_t i = 0; i < QUERIES; i++)
        q[i] = tiny_query(questions[i]);
    OK(sr1_rollout_generate(sr1_trainer_rollout(tr), q, QUERIES, &o, t));
    for (size_t i = 0; i < N; i++) {
        OK(sr1_trajectory_set_reward(t[i], (double)(i % 3)));
        OK(sr1_trajectory_set_advantage(t[i], (double)(i % 5) - 2.0));
    }
}

/* What one update waits for. */
struct waits {
    int64_t all, largest; /* their number, and the bytes of the largest copy */
    double micro_batches;
};

/* Of an update, or of a whole step, which makes what a critic needs. */
static struct waits count_waits(const char *tokens, const char *const keys[3], int whole)
{
    sr1_trainer *tr = tiny_trainer(tiny_config(model, "update_times=1", tokens, keys[0],
                                               keys[1], keys[1] ? keys[2] : NULL, NULL));
    sr1_query q[QUERIES] = {tiny_query("one?"), tiny_query("two?"), tiny_query("3?")};
    sr1_step_report r = {.struct_size = sizeof r};
    struct accelerator_counts c;
    sr1_trajectory *t[N];
    struct waits w;

    if (!whole)
        roll(tr, t);
    accelerator_reset();
    OK(whole ? sr1_trainer_train_step(tr, q, QUERIES, GROUP, &r, t)
             : sr1_trainer_update(tr, t, N, &r));
    accelerator_read(&c);
    w.all = c.waits;
    w.largest = c.to_host_largest;
    OK(sr1_step_metric(&r, "training/micro_batches", &w.micro_batches));
    tiny_free_all(t, N);
    sr1_trainer_free(tr);
    return w;
}

static const char *const budgets[] = {"micro_batch_tokens=16384",
                                      "micro_batch_tokens=128"};

/* Once for each micro-batch, whose log-probs the loss reads, and `fixed` times besides.
 */
static void updates_wait(const char *const keys[3], int64_t each, int64_t fixed)
{
    struct waits w[2];

    for (int i = 0; i < 2; i++) {
        w[i] = count_waits(budgets[i], keys, 0);
        assert_int_equal(w[i].all, each * (int64_t)w[i].micro_batches + fixed);
    }
    assert_true(w[1].micro_batches >= w[0].micro_batches + 2);
}

static void an_update_waits_once_a_microbatch(void **state)
{
    static const char *const kinds[][3] = {{"beta=0"},
                                           {"beta=0", "lora_rank=4"},
                                           {"beta=0", "gradient_checkpointing=true"},
                                           {"beta=0.01", "kl_reference=old"}};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        updates_wait(kinds[i], 1, 1);
    /* log-probs, never logits or gradients */
    assert_true(count_waits(budgets[0], kinds[0], 0).largest <= N * 64 * 4);
}

/* Two layers, whose experts the host chooses; with checkpoints both are passed twice. */
static void a_mixture_waits_in_each_layer(void **state)
{
    static const char *const kinds[][3] = {{"beta=0"},
                                           {"beta=0", "gradient_checkpointing=true"}};

    (void)state;
    model = "mixture";
    updates_wait(kinds[0], 1 + 2, 1);
    updates_wait(kinds[1], 1 + 2 * 2, 1);
    model = "model";
}

/* Two mini-batches of as many micro-batches, which are counted of the last. */
static void each_optimizer_step_waits_once(void **state)
{
    static const char *const keys[3] = {"beta=0", "mini_batch_size=6"};

    struct waits w[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        w[i] = count_waits(budgets[i], keys, 0);
        assert_int_equal(w[i].all, 2 * (int64_t)w[i].micro_batches + 2);
    }
    assert_true(w[1].micro_batches > w[0].micro_batches);
}

/* Its log-probs are read in as many pieces. */
static void a_frozen_reference_is_another_pass(void **state)
{
    static const char *const keys[3] = {"beta=0.01", "kl_reference=frozen"};

    (void)state;
    updates_wait(keys, 2, 1);
}

/* States come and go in pieces, in each optimizer step alike. */
static void offloading_costs_waits_of_the_step_only(void **state)
{
    static const char *const keys[3] = {"beta=0", "optimizer_offload=true"};
    struct waits w = count_waits(budgets[0], keys, 0);

    (void)state;
    assert_true(w.micro_batches == 1);
    updates_wait(keys, 1, w.all - 1);
}

/* Values before, the critic's update and the policy's: three passes, each of which waits
 * once for a piece. */
static void ppo_waits_three_times_a_microbatch(void **state)
{
    static const char *const keys[3] = {"beta=0", "advantage=gae"};
    struct waits w[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        w[i] = count_waits(budgets[i], keys, 1);
    assert_int_equal(w[1].all - w[0].all,
                     3 * (int64_t)(w[1].micro_batches - w[0].micro_batches));
    assert_true(w[1].micro_batches >= w[0].micro_batches + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_waits_once_a_microbatch),
        cmocka_unit_test(a_mixture_waits_in_each_layer),
        cmocka_unit_test(each_optimizer_step_waits_once),
        cmocka_unit_test(a_frozen_reference_is_another_pass),
        cmocka_unit_test(offloading_costs_waits_of_the_step_only),
        cmocka_unit_test(ppo_waits_three_times_a_microbatch),
    };

    return cmocka_run_group_tests_name("update_syncs", tests, make, scratch_remove);
}
