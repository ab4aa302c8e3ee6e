/* Estimators and losses of the program's own: a copy of grpo's is grpo to the last bit,
 * in a run by its name, and a run goes on where they are known. */
#include "runs.h"
#include "step_metric.h"

#define OWN "advantage=own_grpo", "loss=own_grpo"

/* ---- grpo once more, by its formulas ---- */

struct calls {
    atomic_int estimates, losses;
    int32_t fails; /* the loss fails */
};
static struct calls calls;

/* Shao et al. 2024, section 4.1, group by group. */
static sr1_status estimate_own(void *self, const sr1_advantage_batch *b,
                               const sr1_advantage_options *o,
                               const sr1_advantage_outputs *out)
{
    atomic_fetch_add(&((struct calls *)self)->estimates, 1);
    assert_null(out->token_advantages);
    assert_null(out->returns);
    for (size_t i = 0; i < b->n; i++) {
        double rewards[64];
        size_t n = 0, at = 0;

        for (size_t k = 0; k < b->n; k++) {
            if (b->groups[k] != b->groups[i])
                continue;
            at = k == i ? n : at;
            rewards[n++] = b->rewards[k];
        }
        SR1__TRY(sr1_advantage_group(rewards, n, o->eps, rewards));
        out->advantages[i] = rewards[at];
    }
    return SR1_OK;
}

/* Eq. 3 without its KL term. */
static sr1_status compute_own(void *self, const sr1_loss_batch *b,
                              const sr1_loss_options *o, const sr1_loss_terms *out)
{
    struct calls *c = self;

    atomic_fetch_add(&c->losses, 1);
    if (c->fails)
        return sr1_set_error(SR1_E_CALLBACK, "no loss today");
    for (size_t i = 0; i < b->n; i++) {
        double a = b->advantages[i];
        double r = exp((double)b->new_log_probs[i] - b->old_log_probs[i]);
        double bounded = r < 1 - o->clip_low    ? 1 - o->clip_low
                         : r > 1 + o->clip_high ? 1 + o->clip_high
                                                : r;

        if (bounded * a < r * a) {
            out->values[i] = -bounded * a;
            out->bounds[i] = a < 0 ? SR1_LOSS_BOUND_LOW : SR1_LOSS_BOUND_HIGH;
        } else {
            out->values[i] = -r * a;
            out->slopes[i] = -r * a;
        }
    }
    return SR1_OK;
}

static const sr1_advantage_ops own_estimator = {.struct_size = sizeof(own_estimator),
                                                .name = "own_grpo",
                                                .estimate = estimate_own,
                                                .options = "eps, divide_by_std"};
static const sr1_loss_ops own_loss = {.struct_size = sizeof(own_loss),
                                      .name = "own_grpo",
                                      .compute = compute_own,
                                      .options = "clip_low, clip_high",
                                      .zero_without_advantage = 1};

static int64_t registered; /* blocks of memory that stay as long as the process */

static int register_own(void **state)
{
    int64_t before = sr1__mem_live();

    OK(sr1_advantage_register(&own_estimator, &calls));
    OK(sr1_loss_register(&own_loss, &calls));
    registered = sr1__mem_live() - before;
    return runs_make(state);
}

/* ---- runs ---- */

/* The loss clips in the second pass. */
#define TWO_PASSES                                                                       \
    "max_steps=2", "update_times=2", "learning_rate=3e-2", "clip_epsilon=0.01", "beta=0.1"

static void compare_runs(const char *a, const char *b)
{
    json_t *x = metrics(a), *y = metrics(b);
    double clipped = 0;

    assert_int_equal(json_array_size(x), 2);
    for (size_t i = 0; i < 2; i++) {
        clipped += metric(x, i, "actor/pg_clipfrac");
        drop_timing(json_array_get(x, i));
        drop_timing(json_array_get(y, i));
    }
    assert_true(clipped > 0);
    assert_true(json_equal(x, y));
    json_decref(x);
    json_decref(y);
    same_file(a, b, "trajectories.jsonl.zst");
    same_file(a, b, "model/model.safetensors");
    same_file(a, b, "checkpoints/step-2/optimizer/model.safetensors");
}

static void a_copy_of_grpo_is_grpo(void **state)
{
    (void)state;
    run_whole(RUN("builtin", TWO_PASSES));
    assert_int_equal(atomic_load(&calls.estimates) + atomic_load(&calls.losses), 0);
    run_whole(RUN("own", OWN, TWO_PASSES));
    assert_int_equal(atomic_load(&calls.estimates), 2);
    assert_true(atomic_load(&calls.losses) >= 4);
    compare_runs("builtin", "own");
    run_whole(RUN("builtin2", TWO_PASSES, "workers=2"));
    run_whole(RUN("own2", OWN, TWO_PASSES, "workers=2"));
    compare_runs("builtin2", "own2");
}

static sr1_status stop_at_three(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)planned;
    if (r->step == 3)
        sr1_trainer_stop(user);
    return SR1_OK;
}

static void resuming_equals_never_stopping(void **state)
{
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .step = stop_at_three};
    sr1_trainer *tr;

    (void)state;
    run_whole(RUN("whole", OWN));
    tr = open_trainer(RUN("halves", OWN));
    cb.user = tr;
    assert_int_equal(sr1_trainer_run(tr, &cb), SR1_E_CANCELLED);
    sr1_trainer_free(tr);
    OK(sr1_trainer_resume(&tr, scratch_path("halves"), NULL));
    OK(sr1_trainer_run(tr, NULL));
    sr1_trainer_free(tr);
    same_run("whole", "halves");
}

/* As a process that has not registered it: its config.json has a name nobody knows. */
static void a_run_of_an_unknown_loss_is_refused_with_the_remedy(void **state)
{
    const char *path = "halves/config.json";
    sr1_trainer *tr = NULL;
    size_t n;
    char *text = slurp("halves", "config.json", &n), *at;

    (void)state;
    while ((at = strstr(text, "own_grpo")))
        memcpy(at, "not_grpo", 8);
    (void)scratch_file(path, text, n);
    sr1_free(text);
    REFUSED(sr1_trainer_resume(&tr, scratch_path("halves"), NULL), SR1_E_CONFIG,
            "sr1_advantage_register");
    REFUSED(sr1_trainer_resume(&tr, scratch_path("halves"), NULL), SR1_E_CONFIG,
            "'not_grpo'");
    assert_null(tr);
}

static void a_loss_that_fails_fails_the_step(void **state)
{
    sr1_trainer *tr = open_trainer(RUN("failing", OWN));

    (void)state;
    calls.fails = 1;
    REFUSED(sr1_trainer_run(tr, NULL), SR1_E_CALLBACK, "loss 'own_grpo': no loss today");
    calls.fails = 0;
    sr1_trainer_free(tr);
}

static void nothing_else_leaks(void **state)
{
    (void)state;
    assert_int_equal(sr1__mem_live(), registered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_of_grpo_is_grpo),
        cmocka_unit_test(resuming_equals_never_stopping),
        cmocka_unit_test(a_run_of_an_unknown_loss_is_refused_with_the_remedy),
        cmocka_unit_test(a_loss_that_fails_fails_the_step),
        cmocka_unit_test(nothing_else_leaks),
    };

    return cmocka_run_group_tests_name("registered", tests, register_own, scratch_remove);
}
