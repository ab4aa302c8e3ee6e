/* A device that is gone in the midst of a run: the error says what is lost, the
 * checkpoint that there was is whole, and the run goes on from it to the bits of one that
 * lost nothing. */
#include "accelerator/accelerator.h"
#include "unit/train/runs.h"

/* The run's device is gone some kernels after the place that it comes to in a step. */
struct loss {
    const char *place; /* a phase; "reward": the update comes next; "save" */
    int64_t step;
    int64_t kernels;
    void (*happen)(int64_t n); /* accelerator_lose or accelerator_fail_kernel */
    sr1_trainer *tr;
};

static void reach_place(struct loss *l, const char *place, int64_t step)
{
    if (l->happen && strcmp(place, l->place) == 0 && step == l->step) {
        l->happen(l->kernels);
        l->happen = NULL;
    }
}

static sr1_status on_phase(void *user, const char *phase, int64_t done, int64_t total)
{
    (void)done;
    (void)total;
    reach_place(user, phase, sr1_trainer_steps_done(((struct loss *)user)->tr) + 1);
    return SR1_OK;
}

/* Behind a step, before its checkpoint. */
static sr1_status on_step(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)planned;
    reach_place(user, "save", r->step);
    return SR1_OK;
}

static sr1_status score_shortness(void *self, const sr1_trajectory *const *t, size_t n,
                                  double *out)
{
    reach_place(self, "reward", sr1_trainer_steps_done(((struct loss *)self)->tr) + 1);
    for (size_t i = 0; i < n; i++)
        out[i] = 1.0 / (double)(1 + sr1_trajectory_policy_count(t[i]));
    return SR1_OK;
}

static sr1_status run_with(sr1_trainer *tr, struct loss *l)
{
    sr1_reward_ops ops = {
        .struct_size = sizeof ops, .name = "short", .score = score_shortness};
    sr1_run_callbacks cb = {
        .struct_size = sizeof cb, .user = l, .phase = on_phase, .step = on_step};
    sr1_status st;

    l->tr = tr;
    OK(sr1_trainer_add_reward(tr, &ops, l, 1.0));
    st = sr1_trainer_run(tr, &cb);
    accelerator_lose(0);
    accelerator_fail_kernel(0);
    sr1_trainer_free(tr);
    return st;
}

#define MODEL "model/model.safetensors"
#define STEPS(name, ...)                                                                 \
    RUN(name, "update_times=1", "save_interval_minutes=0", __VA_ARGS__)

static void go_on(const char *run, const char *whole, const char *weights)
{
    sr1_trainer *tr = NULL;
    struct loss none = {0};

    OK(sr1_trainer_resume(&tr, scratch_path(run), NULL));
    OK(run_with(tr, &none));
    same_journals(whole, run);
    same_file(whole, run, weights);
}

static int has_checkpoint(const char *run, int step)
{
    char path[128];

    snprintf(path, sizeof path, "%s/checkpoints/step-%d", run, step);
    return sr1__path_is_dir(scratch_path(path));
}

/* Step 3 was whole, and stood on the device alone. */
static void lose_in(const char *run, const char *place, int64_t kernels)
{
    struct loss l = {place, 4, kernels, accelerator_lose, NULL};

    REFUSED(run_with(open_trainer(STEPS(run, "beta=0.01")), &l), SR1_E_DEVICE,
            "the device is lost; step 3 is lost: the run, resumed (--resume), goes on "
            "from the checkpoint of step 2");
    assert_true(has_checkpoint(run, 2));
    assert_false(has_checkpoint(run, 3));
    go_on(run, "whole", MODEL);
}

static void a_device_lost_in_a_rollout(void **state)
{
    (void)state;
    lose_in("lost-rollout", "rollout", 30);
}

static void a_device_lost_in_an_update(void **state)
{
    (void)state;
    lose_in("lost-update", "reward", 200);
}

/* A copy to the host is no kernel: the first one of these is ours. */
static void lose_now(int64_t kernels)
{
    sr1_scope *s = sr1__scope_open(SR1__NAMED, "lost");

    (void)kernels;
    accelerator_lose(1);
    (void)t_full(s, 1.0, SR1__F32, T_SHAPE(1));
    assert_int_equal(sr1__scope_close(s), SR1_E_DEVICE);
}

/* No part of the checkpoint that was to be is left. */
static void a_device_lost_in_a_save(void **state)
{
    struct loss l = {"save", 4, 0, lose_now, NULL};

    (void)state;
    REFUSED(run_with(open_trainer(STEPS("lost-save", "beta=0.01")), &l), SR1_E_DEVICE,
            "the device is lost; steps 3 to 4 are lost: the run, resumed (--resume), "
            "goes on from the checkpoint of step 2");
    assert_true(has_checkpoint("lost-save", 2));
    assert_false(has_checkpoint("lost-save", 4));
    go_on("lost-save", "whole", MODEL);
}

/* With an adapter, the optimizer's states on the host, and a validation. */
static void other_runs_go_on_likewise(void **state)
{
    static const struct {
        const char *name, *key, *place, *weights;
    } runs[] = {{"lora", "lora_rank=4", "reward", "model/adapter_model.safetensors"},
                {"offload", "optimizer_offload=true", "reward", MODEL},
                {"validated", "validate_interval=1", "validation", MODEL}};
    char validation[600];

    (void)state;
    snprintf(validation, sizeof validation, "validation_file=%s",
             strchr(train_path, '=') + 1);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const char *whole = join_run_name(runs[i].name, "whole");
        const char *lost = join_run_name(runs[i].name, "lost");
        struct loss none = {0}, l = {runs[i].place, 4, 60, accelerator_lose, NULL};

        OK(run_with(open_trainer(STEPS(whole, "beta=0.01", runs[i].key, validation)),
                    &none));
        REFUSED(
            run_with(open_trainer(STEPS(lost, "beta=0.01", runs[i].key, validation)), &l),
            SR1_E_DEVICE, "goes on from the checkpoint of step 2");
        go_on(lost, whole, runs[i].weights);
    }
}

/* Before there was a checkpoint. */
static void a_device_lost_early(void **state)
{
    struct loss l = {"rollout", 3, 10, accelerator_lose, NULL};

    (void)state;
    REFUSED(
        run_with(open_trainer(STEPS("lost-early", "beta=0.01", "save_interval=0")), &l),
        SR1_E_DEVICE,
        "steps 1 to 2 are lost: the run, resumed (--resume), begins again, since there "
        "is no checkpoint yet");
    assert_false(sr1__path_exists(scratch_path("lost-early/checkpoints/step-2")));
}

/* The device is there: whole steps are saved, since the update had changed no weight. */
static void a_kernel_that_fails_in_an_update_costs_its_step(void **state)
{
    struct loss l = {"reward", 4, 100, accelerator_fail_kernel, NULL};

    (void)state;
    REFUSED(run_with(open_trainer(STEPS("failed", "beta=0.01")), &l), SR1_E_DEVICE,
            "was let fail");
    assert_null(strstr(sr1_last_error(), "lost"));
    assert_true(has_checkpoint("failed", 3));
    go_on("failed", "whole", MODEL);
}

static int make_whole(void **state)
{
    struct loss none = {0};

    if (runs_make(state) != 0)
        return -1;
    return run_with(open_trainer(STEPS("whole", "beta=0.01")), &none) == SR1_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_lost_in_a_rollout),
        cmocka_unit_test(a_device_lost_in_an_update),
        cmocka_unit_test(a_device_lost_in_a_save),
        cmocka_unit_test(a_device_lost_early),
        cmocka_unit_test(other_runs_go_on_likewise),
        cmocka_unit_test(a_kernel_that_fails_in_an_update_costs_its_step),
    };

    return cmocka_run_group_tests(tests, make_whole, scratch_remove);
}
