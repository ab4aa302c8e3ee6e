/* Every estimator that the trainer can serve with every loss: two steps each, and what is
 * refused says why. */
#include "runs.h"

#include "loss/loss.h"

/* Loss names that the key takes: all rows but imitation. */
static int is_choice(const char *loss)
{
    return strcmp(loss, "nll") != 0;
}

static void two_steps(const char *advantage, const char *loss)
{
    char a[64], l[64];
    sr1_query q = tiny_query("Where is the tower?");
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_trainer *tr = NULL;
    sr1_config *c;
    sr1_status st;

    snprintf(a, sizeof a, "advantage=%s", advantage);
    snprintf(l, sizeof l, "loss=%s", loss);
    c = tiny_config("model", train_path, knowledge_path, out_pair("pair"), a, l,
                    "group_size=4", "update_times=1", "learning_rate=1e-4", NULL);
    st = sr1_trainer_new(&tr, c, NULL);
    sr1_config_free(c);
    if (st != SR1_OK) {
        assert_int_equal(st, SR1_E_CONFIG);
        if (!strstr(sr1_last_error(), "needs"))
            fail_msg("%s with %s: %s", advantage, loss, sr1_last_error());
        return;
    }
    for (int k = 0; k < 2; k++) {
        st = sr1_trainer_train_step(tr, &q, 1, 4, &r, NULL);
        if (st != SR1_OK)
            fail_msg("%s with %s: %s", advantage, loss, sr1_last_error());
        if (r.skipped_updates || !isfinite(r.loss) || !isfinite(r.grad_norm))
            fail_msg("%s with %s: loss %g, gradient %g", advantage, loss, r.loss,
                     r.grad_norm);
    }
    sr1_trainer_free(tr);
}

static void every_estimator_goes_with_every_loss(void **state)
{
    size_t pairs = 0;

    (void)state;
    for (size_t i = 0; sr1_advantage_name(i); i++) {
        for (size_t k = 0; sr1_loss_name(k); k++) {
            if (!is_choice(sr1_loss_name(k)))
                continue;
            two_steps(sr1_advantage_name(i), sr1_loss_name(k));
            pairs++;
        }
    }
    assert_true(pairs >= 18 * 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_estimator_goes_with_every_loss),
    };

    return cmocka_run_group_tests_name("pairs", tests, runs_make, scratch_remove);
}
