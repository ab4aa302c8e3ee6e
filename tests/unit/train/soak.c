/* A thousand steps of 8 completions of 32 tokens, with metrics, trajectories and
 * checkpoints: resident memory at the end is within 2% and 16 MiB of what it was after 50
 * steps. Run by name (tests/soak/run); SR1_SOAK_STEPS for another number of steps. */
#include "step_metric.h"
#include "support/tiny.h"

#include "base/clock.h"

static int64_t early, late, tokens;

static sr1_status on_step(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)user;
    tokens += (int64_t)step_metric(r, "training/policy_tokens");
    if (r->step == 50)
        early = sr1__rss_bytes();
    if (r->step == planned)
        late = sr1__rss_bytes();
    if (r->step % 100 == 0)
        fprintf(stderr, "step %d: %.1f MiB, %.0f ms a step, %lld blocks\n", (int)r->step,
                (double)sr1__rss_bytes() / 1048576, 1000 * r->seconds,
                (long long)sr1__mem_live());
    return SR1_OK;
}

static void memory_stays(void **state)
{
    const char *wanted = getenv("SR1_SOAK_STEPS");
    char steps[64], train[600], out[600];
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .step = on_step};
    int64_t n = wanted ? atoi(wanted) : 1000;
    sr1_trainer *tr = NULL;
    sr1_config *c;

    (void)state;
    snprintf(steps, sizeof steps, "max_steps=%d", (int)n);
    snprintf(train, sizeof train, "train_file=%s", tiny_questions("train.jsonl", 100));
    snprintf(out, sizeof out, "out=%s", scratch_path("run"));
    tiny_model("model", NULL, 0, 0);
    c = tiny_config("model", train, out, steps, "batch_size=2", "group_size=4",
                    "max_tokens=32", "kl_reference=frozen", "save_interval=100",
                    "rewards=f1", "learning_rate=1e-5", NULL);
    OK(sr1_trainer_new(&tr, c, NULL));
    OK(sr1_trainer_run(tr, &cb));
    sr1_trainer_free(tr);
    sr1_config_free(c);
    printf("%d steps, %d tokens a step: %.1f MiB at step 50, %.1f MiB at the end\n",
           (int)n, (int)(tokens / n), (double)early / 1048576, (double)late / 1048576);
    assert_true(tokens / n >= 8 * 28);
    assert_true((double)late <= 1.02 * (double)early);
    assert_true(late <= early + 16 * 1048576);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_stays)};

    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
