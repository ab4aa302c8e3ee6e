/* train/lesson_critic.c - the critic's lesson: to foresee the returns that the estimator
 * found (searchr1/loss.h: sr1_value_loss). */
#include "train/lesson.h"

static sr1_tensor *ask(sr1_scope *s, const sr1_trainer *tr, sr1_model *m,
                       const struct sr1__microbatch *mb)
{
    return sr1__score_values(s, m, mb, tr->set.checkpointing);
}

static sr1_status grade(const sr1_trainer *tr, const struct sr1__microbatch *mb,
                        const struct sr1__grading *g, struct sr1__tally *t)
{
    sr1_value_report part = {.struct_size = sizeof(part)};
    sr1_value_batch b = {.struct_size = sizeof(b),
                         .n = mb->n_targets,
                         .values = g->said,
                         .returns = mb->columns[SR1_COLUMN_RETURN],
                         .old_values = mb->columns[SR1_COLUMN_VALUE],
                         .weights = g->weights};

    SR1__TRY(sr1_value_loss(&b, &tr->set.value_options, g->gradient, &part));
    sr1__value_report_add(&t->value, &part);
    return SR1_OK;
}

/* Each token counts the same. */
static const struct sr1__aggregation *aggregation(const sr1_trainer *tr)
{
    const struct sr1__aggregation *mean = NULL;

    (void)tr;
    (void)sr1__aggregation_find("token-mean", &mean);
    return mean;
}

static uint32_t columns(const sr1_trainer *tr)
{
    (void)tr;
    return 1u << SR1_COLUMN_RETURN | 1u << SR1_COLUMN_VALUE;
}

static void give(const struct sr1__tally *t, double grad_norm, double rate,
                 sr1_step_report *report)
{
    report->value_loss = t->value.loss;
    report->value_clip_fraction = t->value.clip_fraction;
    report->critic_grad_norm = grad_norm;
    report->critic_learning_rate = rate;
}

const struct sr1__lesson sr1__lesson_critic = {
    "critic", NULL, ask, grade, aggregation, columns, NULL, give};
