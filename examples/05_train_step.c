/* 05_train_step.c - one GRPO step on a question of your own, with a reward of your own.
 *
 *     05_train_step CONFIG QUESTION ANSWER
 *
 * A step rolls out a group of trajectories, rewards them, compares them with each other
 * and updates the weights. The reward added here favours short responses. */
#include <searchr1/searchr1.h>

#include <stdio.h>
#include <string.h>

/* 1 for an empty response, towards 0 for a long one. */
static sr1_status score_brevity(void *self, const sr1_trajectory *const *t, size_t n,
                                double *out)
{
    (void)self;
    for (size_t i = 0; i < n; i++)
        out[i] = 1.0 / (1.0 + (double)sr1_trajectory_policy_count(t[i]) / 100.0);
    return SR1_OK;
}

static void print_report(const sr1_step_report *r)
{
    double searches = 0;

    (void)sr1_step_metric(r, "env/number_of_searches", &searches);
    printf("step %lld: reward %.3f, loss %.4f, kl %.2g, %lld of %lld trajectories "
           "trained, %.0f searches, %.1f s\n",
           (long long)r->step, r->avg_reward, r->loss, r->kl_div, (long long)r->trained,
           (long long)r->trajectories, searches, r->seconds);
}

int main(int argc, char **argv)
{
    const sr1_reward_ops brevity = {
        .struct_size = sizeof(brevity), .name = "brevity", .score = score_brevity};
    sr1_step_report report = {.struct_size = sizeof(report)};
    sr1_query query = {.struct_size = sizeof(query), .n_answers = 1};
    const char *answers[1];
    sr1_config *config = NULL;
    sr1_trainer *trainer = NULL;
    sr1_status status;

    if (argc != 4)
        return fprintf(stderr, "usage: 05_train_step CONFIG QUESTION ANSWER\n"), 2;
    query.text = argv[2];
    query.text_len = strlen(argv[2]);
    answers[0] = argv[3];
    query.answers = answers;
    status = sr1_config_new(&config);
    if (status == SR1_OK)
        status = sr1_config_load(config, argv[1]);
    if (status == SR1_OK)
        status = sr1_trainer_new(&trainer, config, NULL);
    if (status == SR1_OK)
        status = sr1_trainer_add_reward(trainer, &brevity, NULL, 0.1);
    if (status == SR1_OK)
        status = sr1_trainer_train_step(trainer, &query, 1, 4, &report, NULL);
    if (status == SR1_OK)
        print_report(&report);
    else
        fprintf(stderr, "%s\n", sr1_last_error());
    sr1_trainer_free(trainer);
    sr1_config_free(config);
    return status == SR1_OK ? 0 : 1;
}
