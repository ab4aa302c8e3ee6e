/* Freeing a trainer or rollout from one of its own callbacks, and leaving the process
 * while a thread trains. */
#include "runs.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- freed inside ---- */

static sr1_trainer *trainer;
static int rewards_given, destroyed;

static sr1_status free_in_reward(void *self, const sr1_trajectory *const *trajectories,
                                 size_t n, double *out)
{
    (void)self;
    (void)trajectories;
    if (rewards_given++ == 0)
        sr1_trainer_free(trainer);
    assert_int_equal(destroyed, 0);
    for (size_t i = 0; i < n; i++)
        out[i] = (double)i;
    return SR1_OK;
}

static void on_destroy(void *self)
{
    (void)self;
    destroyed++;
}

static void add_freeing_reward(void)
{
    sr1_reward_ops ops = {.struct_size = sizeof ops,
                          .name = "freeing",
                          .score = free_in_reward,
                          .destroy = on_destroy};

    rewards_given = destroyed = 0;
    OK(sr1_trainer_add_reward(trainer, &ops, NULL, 1));
}

static void a_trainer_freed_in_its_reward_ends_its_run_first(void **state)
{
    (void)state;
    trainer = open_trainer(RUN("freed-in-reward", "save_interval=0"));
    add_freeing_reward();
    REFUSED(sr1_trainer_run(trainer, NULL), SR1_E_CANCELLED, "stopped after step 1");
    assert_int_equal(destroyed, 1);
    OK(sr1_trainer_resume(&trainer, scratch_path("freed-in-reward"), NULL));
    assert_int_equal(sr1_trainer_steps_done(trainer), 1);
    sr1_trainer_free(trainer);
}

static void or_its_train_step(void **state)
{
    sr1_query q = tiny_query("Where is the tower?");
    sr1_step_report r = {.struct_size = sizeof r};

    (void)state;
    trainer = open_trainer(RUN("freed-in-step", "beta=0.1"));
    add_freeing_reward();
    OK(sr1_trainer_train_step(trainer, &q, 1, 4, &r, NULL));
    assert_int_equal(destroyed, 1);
    assert_int_equal(r.step, 1);
}

static sr1_status free_in_sink(void *user, int64_t step, const char *const *names,
                               const double *values, size_t n)
{
    (void)user;
    (void)step;
    (void)names;
    (void)values;
    (void)n;
    sr1_trainer_free(trainer);
    return SR1_OK;
}

static void or_its_update(void **state)
{
    sr1_query q = tiny_query("Where is the tower?");
    sr1_step_report r = {.struct_size = sizeof r};
    sr1_trajectory *t[4];

    (void)state;
    trainer = open_trainer(RUN("freed-in-update", "beta=0.1"));
    OK(sr1_trainer_train_step(trainer, &q, 1, 4, &r, t));
    OK(sr1_trainer_set_metric_sink(trainer, free_in_sink, NULL));
    OK(sr1_trainer_update(trainer, t, 4, &r));
    assert_int_equal(r.step, 2);
    tiny_free_all(t, 4);
}

static sr1_status free_in_step(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)user;
    (void)r;
    (void)planned;
    sr1_trainer_free(trainer);
    return SR1_OK;
}

static void a_trainer_freed_between_steps(void **state)
{
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .step = free_in_step};

    (void)state;
    trainer = open_trainer(RUN("freed-between", "beta=0.1"));
    REFUSED(sr1_trainer_run(trainer, &cb), SR1_E_CANCELLED, "stopped after step 1");
}

struct nested {
    sr1_rollout *rollout;
    int calls;
    sr1_status inner;
};

static sr1_status free_in_progress(void *user, int64_t finished, int64_t total,
                                   int64_t tokens)
{
    struct nested *n = user;
    sr1_query q = tiny_query("Where is the tower?");
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = 1};
    sr1_trajectory *t = NULL;

    (void)finished;
    (void)total;
    (void)tokens;
    if (n->calls++ > 0)
        return SR1_OK;
    n->inner = sr1_rollout_generate(n->rollout, &q, 1, &o, &t);
    sr1_rollout_free(n->rollout);
    return SR1_OK;
}

static void a_rollout_freed_in_its_progress(void **state)
{
    struct nested n = {.inner = SR1_OK};
    sr1_rollout_options o = {.struct_size = sizeof o,
                             .group_size = 2,
                             .progress = free_in_progress,
                             .user = &n};
    sr1_query q = tiny_query("Where is the tower?");
    sr1_trajectory *t[2] = {NULL, NULL};

    (void)state;
    n.rollout = tiny_rollout(tiny_config("model", NULL), tiny_engine());
    OK(sr1_rollout_generate(n.rollout, &q, 1, &o, t));
    assert_true(n.calls > 0);
    assert_int_equal(n.inner, SR1_E_STATE);
    tiny_free_all(t, 2);
}

/* ---- leaving ---- */

static sem_t trained;

static sr1_status tell(void *user, const sr1_step_report *r, int64_t planned)
{
    (void)user;
    (void)planned;
    if (r->step == 2)
        sem_post(&trained);
    return SR1_OK;
}

static void *train(void *tr)
{
    sr1_run_callbacks cb = {.struct_size = sizeof cb, .step = tell};

    (void)sr1_trainer_run(tr, &cb);
    return NULL;
}

/* In a child that has run no model: exit as main would return, in the midst of it. */
static void leave_in_the_midst(const char *name, unsigned microseconds)
{
    pthread_t thread;

    signal(SIGSEGV, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
    sem_init(&trained, 0, 0);
    trainer = open_trainer(RUN(name, "max_steps=100000", "num_epochs=100000"));
    if (pthread_create(&thread, NULL, train, trainer) != 0)
        _exit(9);
    sem_wait(&trained);
    usleep(microseconds);
    exit(0);
}

static void a_process_may_exit_while_a_thread_trains(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        char name[32];
        int status = -1;
        pid_t child;

        snprintf(name, sizeof name, "left-%u", i);
        child = fork();
        assert_true(child >= 0);
        if (child == 0)
            leave_in_the_midst(name, 700 * i);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_may_exit_while_a_thread_trains),
        cmocka_unit_test(a_trainer_freed_in_its_reward_ends_its_run_first),
        cmocka_unit_test(or_its_train_step),
        cmocka_unit_test(or_its_update),
        cmocka_unit_test(a_trainer_freed_between_steps),
        cmocka_unit_test(a_rollout_freed_in_its_progress),
        cmocka_unit_test(tiny_nothing_leaks),
    };

    return cmocka_run_group_tests(tests, runs_make, scratch_remove);
}
