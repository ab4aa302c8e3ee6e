/* train/update_critic.c - the critic's objective, to predict the returns that the
 * estimator computed (searchr1/ext/loss.h: sr1_value_loss), and its update. */
#include "train/objective.h"

#include "base/clock.h"

static sr1_tensor *forward_values(sr1_scope *s, const sr1_trainer *tr, sr1_model *m,
                                  const struct sr1__microbatch *mb,
                                  struct sr1__loss_arrays *a)
{
    (void)a;
    return sr1__forward_values(s, m, mb, tr->set.checkpointing, sr1__update_dropout(tr));
}

static sr1_status compute_value_loss(const sr1_trainer *tr,
                                     const struct sr1__microbatch *mb,
                                     const struct sr1__loss_arrays *a,
                                     struct sr1__loss_sums *sums)
{
    sr1_value_report part = {.struct_size = sizeof(part)};
    sr1_value_batch b = {.struct_size = sizeof(b),
                         .n = mb->n_targets,
                         .values = a->outputs,
                         .returns = mb->columns[SR1_COLUMN_RETURN],
                         .old_values = mb->columns[SR1_COLUMN_VALUE],
                         .weights = a->weights};

    SR1__TRY(sr1_value_loss(&b, &tr->set.value_options, a->gradient, &part));
    sr1__value_report_add(&sums->value, &part);
    return SR1_OK;
}

/* Each token counts the same. */
static const struct sr1__aggregation *choose_token_mean(const sr1_trainer *tr)
{
    const struct sr1__aggregation *mean = NULL;

    (void)tr;
    (void)sr1__aggregation_find("token-mean", &mean);
    return mean;
}

static uint32_t list_columns(const sr1_trainer *tr)
{
    (void)tr;
    return 1u << SR1_COLUMN_RETURN | 1u << SR1_COLUMN_VALUE;
}

static void report_epoch(const struct sr1__loss_sums *sums, double grad_norm, double rate,
                         struct sr1_step_metrics *m)
{
    m->events |= SR1__CRITIC_UPDATED;
    sr1__metrics_add(m, "value_loss", sums->value.loss, SR1__LAST);
    sr1__metrics_add(m, "value_clip_fraction", sums->value.clip_fraction, SR1__LAST);
    sr1__metrics_add(m, "critic_grad_norm", grad_norm, SR1__LAST);
    sr1__metrics_add(m, "critic_learning_rate", rate, SR1__LAST);
}

static const struct sr1__objective value_objective = {.name = "critic",
                                                      .forward = forward_values,
                                                      .loss = compute_value_loss,
                                                      .aggregation = choose_token_mean,
                                                      .columns = list_columns,
                                                      .report_epoch = report_epoch};

sr1_status sr1__update_critic(struct sr1__step_batch *b)
{
    sr1_trainer *tr = b->tr;
    double began = sr1__now();

    if (!tr->critics)
        return SR1_OK;
    SR1__TRY(
        sr1__optimise(b, &tr->critic, &value_objective, tr->set.critic_update_times));
    sr1__metrics_add(b->metrics, "seconds_critic", sr1__now() - began, SR1__LAST);
    return SR1_OK;
}
