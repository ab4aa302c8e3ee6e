/* train/lesson_policy.c - the policy's lesson: the configured loss over the log-probs of
 * its tokens, and a bonus for the entropies of their distributions:
 *
 *     loss - coef * sum_t w_t H_t,  w: as in the loss, or 1 / tokens */
#include "train/lesson.h"

#include <math.h>

/* The log-probs, and with a bonus the entropies. */
static size_t width(const sr1_trainer *tr)
{
    return tr->entropy.now != 0.0 ? 2 : 1;
}

static sr1_tensor *ask(sr1_scope *s, const sr1_trainer *tr, sr1_model *m,
                       const struct sr1__microbatch *mb)
{
    sr1_tensor *said[2];
    struct sr1__score_options o = {.temperature = tr->set.temperature,
                                   .logit_chunk = tr->set.logit_chunk,
                                   .checkpoint = tr->set.checkpointing,
                                   .entropy = width(tr) == 2 ? &said[1] : NULL};

    said[0] = sr1__score(s, m, mb, &o);
    return o.entropy ? t_cat(s, said, 2, 0) : said[0];
}

static void measure_diff(struct sr1__tally *t, const struct sr1__microbatch *mb,
                         const float *now)
{
    for (size_t i = 0; i < mb->n_targets; i++) {
        double d = fabs((double)now[i] - mb->old_log_probs[i]);
        double p = fabs(exp((double)now[i]) - exp((double)mb->old_log_probs[i]));

        t->diff_sum += d;
        t->diff_max = fmax(t->diff_max, d);
        t->probs_sum += p;
        t->probs_max = fmax(t->probs_max, p);
    }
}

/* The bonus: off the loss in *part, its gradient behind that of the log-probs. */
static sr1_status add_entropy(const sr1_trainer *tr, size_t n,
                              const struct sr1__grading *g, sr1_loss_report *part,
                              double *sum)
{
    double coef = tr->entropy.now;
    const float *entropies = g->said + n;

    SR1__TRY(sr1__loss_finite("entropies", entropies, n));
    for (size_t i = 0; i < n; i++) {
        double w = tr->entropy.by_token ? g->mean_weight : (double)g->weights[i];

        g->gradient[n + i] = (float)(-coef * w);
        part->loss -= coef * w * entropies[i];
        *sum += entropies[i];
    }
    return SR1_OK;
}

static sr1_status grade(const sr1_trainer *tr, const struct sr1__microbatch *mb,
                        const struct sr1__grading *g, struct sr1__tally *t)
{
    const struct sr1__settings *set = &tr->set;
    const float *reference = mb->columns[SR1_COLUMN_REFERENCE];
    const float *anew = mb->columns[SR1_COLUMN_OLD];
    const float *old = anew ? anew : mb->old_log_probs;
    sr1_loss_report part = {.struct_size = sizeof(part)};
    sr1_loss_batch b = {.struct_size = sizeof(b),
                        .n = mb->n_targets,
                        .new_log_probs = g->said,
                        .old_log_probs = old,
                        .ref_log_probs = reference ? reference : old,
                        .advantages = mb->columns[SR1_COLUMN_ADVANTAGE],
                        .weights = g->weights,
                        .rollout_log_probs = mb->old_log_probs,
                        .n_seqs = mb->n_seqs,
                        .seq_begin = g->seq_begin};

    measure_diff(t, mb, g->said);
    SR1__TRY(
        sr1__loss_run(set->loss, &b, &set->loss_options, g->gradient, NULL, &part));
    if (width(tr) == 2)
        SR1__TRY(add_entropy(tr, mb->n_targets, g, &part, &t->entropy_sum));
    sr1__loss_report_add(&t->loss, &part);
    return SR1_OK;
}

static const struct sr1__aggregation *aggregation(const sr1_trainer *tr)
{
    return tr->set.aggregation;
}

static uint32_t columns(const sr1_trainer *tr)
{
    return tr->set.policy_columns;
}

static void first_pass(const struct sr1__tally *t, int64_t policy_tokens,
                       sr1_step_report *report)
{
    report->rollout_diff_max = t->diff_max;
    report->rollout_diff_mean = t->diff_sum / (double)policy_tokens;
    report->probs_diff_max = t->probs_max;
    report->probs_diff_mean = t->probs_sum / (double)policy_tokens;
}

/* What figures by token are divided by: weights of a mean sum to 1 but for rounding,
 * those of a sum to something else. */
static double whole(const struct sr1__tally *t)
{
    return fabs(t->loss.weight - 1.0) < 1e-3 ? 1.0 : t->loss.weight;
}

static void give_bounds(const sr1_loss_report *r, double whole, sr1_step_report *report)
{
    double square = r->importance_square / whole;

    report->clip_low_fraction = r->clip_low_fraction / whole;
    report->clip_high_fraction = r->clip_high_fraction / whole;
    report->dual_clip_fraction = r->dual_clip_fraction / whole;
    report->ratio_max = r->ratio_max;
    report->importance_mean = r->importance_mean / whole;
    report->importance_max = r->importance_max;
    report->importance_ess =
        square > 0.0 ? report->importance_mean * report->importance_mean / square : 0.0;
    report->importance_cut = r->importance_cut / whole;
    report->off_policy_cut = r->off_policy_cut / whole;
}

static void give(const struct sr1__tally *t, double grad_norm, double rate,
                 sr1_step_report *report)
{
    report->grad_norm = grad_norm;
    report->learning_rate = rate;
    report->loss = t->loss.loss;
    report->policy_loss = t->loss.policy_loss;
    report->kl_div = t->loss.kl / whole(t);
    report->clip_fraction = t->loss.clip_fraction / whole(t);
    report->approx_kl = t->loss.approx_kl / whole(t);
    report->trained_entropy =
        t->loss.tokens ? t->entropy_sum / (double)t->loss.tokens : 0.0;
    give_bounds(&t->loss, whole(t), report);
}

const struct sr1__lesson sr1__lesson_policy = {
    "policy", width, ask, grade, aggregation, columns, first_pass, give};

void sr1__tally_add(struct sr1__tally *total, const struct sr1__tally *part)
{
    sr1__loss_report_add(&total->loss, &part->loss);
    sr1__value_report_add(&total->value, &part->value);
    total->diff_sum += part->diff_sum;
    total->entropy_sum += part->entropy_sum;
    total->diff_max = fmax(total->diff_max, part->diff_max);
    total->probs_sum += part->probs_sum;
    total->probs_max = fmax(total->probs_max, part->probs_max);
}

void sr1__tally_scale(struct sr1__tally *t, double v)
{
    sr1__loss_report_scale(&t->loss, v);
    sr1__value_report_scale(&t->value, v);
}
