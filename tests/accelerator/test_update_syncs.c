/* An update on the device waits for it once for each micro-batch, whose log-probs the
 * loss reads, and once for each optimizer step, which must know the gradient's norm. */
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
    return 0;
}

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

/* Copies that the host waits for in one update in micro-batches of so many tokens, and
 * their number.
 */
static int64_t count_syncs(const char *tokens, int64_t *largest, double *batches)
{
    sr1_trainer *tr =
        tiny_trainer(tiny_config("model", tokens, "update_times=1", "beta=0", NULL));
    sr1_step_report r = {.struct_size = sizeof r};
    struct accelerator_counts c;
    sr1_trajectory *t[N];

    roll(tr, t);
    accelerator_reset();
    OK(sr1_trainer_update(tr, t, N, &r));
    accelerator_read(&c);
    OK(sr1_step_metric(&r, "training/micro_batches", batches));
    *largest = c.to_host_largest;
    tiny_free_all(t, N);
    sr1_trainer_free(tr);
    return c.waits;
}

static void an_update_waits_once_a_microbatch(void **state)
{
    static const char *const tokens[] = {"micro_batch_tokens=16384",
                                         "micro_batch_tokens=128"};
    double batches[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        int64_t largest, syncs = count_syncs(tokens[i], &largest, &batches[i]);

        assert_int_equal(syncs, (int64_t)batches[i] + 1);
        assert_true(largest <= N * 64 * 4); /* log-probs, never logits or gradients */
    }
    assert_true(batches[1] >= batches[0] + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_update_waits_once_a_microbatch),
    };

    return cmocka_run_group_tests_name("update_syncs", tests, make, scratch_remove);
}
