/* 10_own_estimator_and_loss.c - an advantage estimator, a policy loss and a metric sink
 * of your own.
 *
 *     10_own_estimator_and_loss CONFIG QUESTION ANSWER
 *
 * The names are then choices of the keys `advantage` and `loss`, as those built in. */
#include <searchr1/searchr1.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rank within the group, from -1 for the worst to 1 for the best. */
static sr1_status estimate_ranks(void *self, const sr1_advantage_batch *b,
                                 const sr1_advantage_options *options,
                                 const sr1_advantage_outputs *out)
{
    (void)self;
    (void)options;
    for (size_t i = 0; i < b->n; i++) {
        double below = 0, others = 0;

        for (size_t k = 0; k < b->n; k++) {
            if (k == i || b->groups[k] != b->groups[i])
                continue;
            others++;
            below += (b->rewards[k] < b->rewards[i]) - (b->rewards[k] > b->rewards[i]);
        }
        out->advantages[i] = others > 0 ? below / others : 0;
    }
    return SR1_OK;
}

/* -A r, without a clip: the value of each token, and its derivative by the new log-prob.
 */
static sr1_status compute_ratio_loss(void *self, const sr1_loss_batch *b,
                                     const sr1_loss_options *options,
                                     const sr1_loss_terms *out)
{
    (void)self;
    (void)options;
    for (size_t i = 0; i < b->n; i++) {
        double ratio = exp((double)b->new_log_probs[i] - (double)b->old_log_probs[i]);

        out->values[i] = out->slopes[i] = -ratio * (double)b->advantages[i];
    }
    return SR1_OK;
}

static sr1_status print_metrics(void *user, int64_t step, const char *const *names,
                                const double *values, size_t n)
{
    const char *prefix = user;

    for (size_t i = 0; i < n; i++)
        if (strncmp(names[i], prefix, strlen(prefix)) == 0)
            printf("step %lld: %s %.3g\n", (long long)step, names[i], values[i]);
    return SR1_OK;
}

static sr1_status register_all(void)
{
    const sr1_advantage_ops ranks = {
        .struct_size = sizeof(ranks), .name = "ranks", .estimate = estimate_ranks};
    const sr1_loss_ops ratio = {.struct_size = sizeof(ratio),
                                .name = "ratio",
                                .compute = compute_ratio_loss,
                                .zero_without_advantage = 1};
    sr1_status status = sr1_advantage_register(&ranks, NULL);

    return status == SR1_OK ? sr1_loss_register(&ratio, NULL) : status;
}

int main(int argc, char **argv)
{
    static char prefix[] = "critic/advantages/";
    sr1_query query = {.struct_size = sizeof(query), .n_answers = 1};
    const char *answers[1];
    sr1_config *config = NULL;
    sr1_trainer *trainer = NULL;
    sr1_status status;

    if (argc != 4)
        return fprintf(stderr,
                       "usage: 10_own_estimator_and_loss CONFIG QUESTION ANSWER\n"),
               2;
    query.text = argv[2];
    query.text_len = strlen(argv[2]);
    answers[0] = argv[3];
    query.answers = answers;
    status = register_all();
    if (status == SR1_OK)
        status = sr1_config_new(&config);
    if (status == SR1_OK)
        status = sr1_config_load(config, argv[1]);
    if (status == SR1_OK)
        status = sr1_config_set(config, "advantage", "ranks");
    if (status == SR1_OK)
        status = sr1_config_set(config, "loss", "ratio");
    if (status == SR1_OK)
        status = sr1_trainer_new(&trainer, config, NULL);
    if (status == SR1_OK)
        status = sr1_trainer_set_metric_sink(trainer, print_metrics, prefix);
    if (status == SR1_OK)
        status = sr1_trainer_train_step(trainer, &query, 1, 4, NULL, NULL);
    if (status != SR1_OK)
        fprintf(stderr, "%s\n", sr1_last_error());
    sr1_trainer_free(trainer);
    sr1_config_free(config);
    return status == SR1_OK ? 0 : 1;
}
