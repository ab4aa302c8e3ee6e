/* train/update_policy.c - the policy's objective and its update: the configured loss over
 * the log-probs of its tokens, and a bonus for the entropies of their distributions:
 *
 *     loss - coef * sum_t w_t H_t + aux_coef * aux,  w: as in the loss, or 1 / tokens
 *
 * aux is that of a mixture's routers (tensor/model/expert_balance.h): of a micro-batch,
 * and over several the mean by their sequences, as gradient accumulation has it. */
#include "train/objective.h"

#include "base/clock.h"
#include "base/mem.h"
#include "policy/rollout.h"
#include "environment/trajectory/trajectory.h"

#include <math.h>

#define GIB 1073741824.0 /* verl's GB */

/* The log-probs, and with a bonus the entropies. */
static size_t count_outputs(const sr1_trainer *tr)
{
    return tr->entropy.now != 0.0 ? 2 : 1;
}

static sr1_tensor *forward_policy(sr1_scope *s, const sr1_trainer *tr, sr1_model *m,
                                  const struct sr1__microbatch *mb,
                                  struct sr1__loss_arrays *a)
{
    sr1_tensor *outputs[2];
    struct sr1__log_prob_options o = {
        .temperature = tr->set.temperature,
        .logit_chunk = tr->set.logit_chunk,
        .checkpoint = tr->set.checkpointing,
        .entropy = count_outputs(tr) == 2 ? &outputs[1] : NULL,
        .dropout = sr1__update_dropout(tr),
        .router = tr->set.router_aux_loss_coef != 0.0 ? &a->router : NULL,
        .routes = tr->routes};

    outputs[0] = sr1__forward_log_probs(s, m, mb, &o);
    return o.entropy ? t_cat(s, outputs, 2, 0) : outputs[0];
}

/* now: of the weights before the update, without dropout, where they were recomputed;
 * else of this pass. */
static void add_differences(struct sr1__loss_sums *sums, const struct sr1__microbatch *mb,
                            const float *now)
{
    for (size_t i = 0; i < mb->n_targets; i++) {
        double d = fabs((double)now[i] - mb->rollout_log_probs[i]);
        double p = fabs(exp((double)now[i]) - exp((double)mb->rollout_log_probs[i]));

        sums->diff_sum += d;
        sums->diff_max = fmax(sums->diff_max, d);
        sums->probs_sum += p;
        sums->probs_max = fmax(sums->probs_max, p);
    }
}

/* Token i's share in the bonus, of those that have a policy loss. */
static double entropy_weight(const sr1_trainer *tr, const struct sr1__microbatch *mb,
                             const struct sr1__loss_arrays *a, size_t i)
{
    const float *before = mb->columns[SR1_COLUMN_ENTROPY];

    if (before && before[i] < tr->choice.threshold)
        return 0.0;
    if (!tr->entropy.by_token)
        return a->weights[i];
    return before ? 1.0 / (double)tr->choice.kept : a->mean_weight;
}

/* The bonus: off the loss in *part, its gradient behind that of the log-probs. */
static sr1_status add_entropy(const sr1_trainer *tr, const struct sr1__microbatch *mb,
                              const struct sr1__loss_arrays *a, sr1_loss_report *part,
                              double *sum)
{
    size_t n = mb->n_targets;
    double coef = tr->entropy.now;
    const float *entropies = a->outputs + n;

    SR1__TRY(sr1__loss_check_finite("entropies", entropies, n));
    for (size_t i = 0; i < n; i++) {
        double w = entropy_weight(tr, mb, a, i);

        a->gradient[n + i] = (float)(-coef * w);
        part->loss -= coef * w * entropies[i];
        *sum += entropies[i];
    }
    return SR1_OK;
}

/* Its gradient is the forward pass's. */
static void add_router_loss(const sr1_trainer *tr, const struct sr1__loss_arrays *a,
                            sr1_loss_report *part, double *mean)
{
    part->loss += tr->set.router_aux_loss_coef * a->share * a->router.value;
    *mean += a->share * a->router.value;
}

static sr1_status compute_policy_loss(const sr1_trainer *tr,
                                      const struct sr1__microbatch *mb,
                                      const struct sr1__loss_arrays *a,
                                      struct sr1__loss_sums *sums)
{
    const struct sr1__settings *set = &tr->set;
    const float *reference = mb->columns[SR1_COLUMN_REFERENCE];
    const float *recomputed = mb->columns[SR1_COLUMN_OLD];
    const float *old = recomputed ? recomputed : mb->rollout_log_probs;
    sr1_loss_report part = {.struct_size = sizeof(part)};
    sr1_loss_options o = set->loss_options;
    uint8_t *chosen = NULL;
    sr1_status st;
    sr1_loss_batch b = {.struct_size = sizeof(b),
                        .n = mb->n_targets,
                        .new_log_probs = a->outputs,
                        .old_log_probs = old,
                        .ref_log_probs = reference           ? reference
                                         : tr->choice.at_old ? a->outputs
                                                             : old,
                        .advantages = mb->columns[SR1_COLUMN_ADVANTAGE],
                        .weights = a->weights,
                        .rollout_log_probs = mb->rollout_log_probs,
                        .entropies = mb->columns[SR1_COLUMN_ENTROPY],
                        .n_seqs = mb->n_seqs,
                        .seq_begin = a->seq_begin};

    o.entropy_threshold = tr->choice.threshold;
    add_differences(sums, mb, recomputed ? recomputed : a->outputs);
    SR1__TRY(sr1__chosen_of(tr, mb, a->seq_begin, &chosen));
    b.chosen = chosen;
    st = sr1__loss_run(set->loss, &b, &o, a->gradient, NULL, &part);
    sr1__free(chosen);
    SR1__TRY(st);
    if (count_outputs(tr) == 2)
        SR1__TRY(add_entropy(tr, mb, a, &part, &sums->entropy_sum));
    add_router_loss(tr, a, &part, &sums->aux_loss);
    sr1__loss_report_add(&sums->loss, &part);
    return SR1_OK;
}

static const struct sr1__aggregation *choose_aggregation(const sr1_trainer *tr)
{
    return tr->set.aggregation;
}

static int32_t has_gradient(const struct sr1__trajectory_store *from)
{
    size_t n = sr1__trajectory_store_count(from), i = 0;

    while (i < n && sr1__trajectory_store_zero_advantage(from, i))
        i++;
    return i < n;
}

/* Can trajectories without advantage skip the forward pass, because neither the loss, an
 * entropy bonus, routers nor a KL term has a gradient there? On policy the KL to the
 * policy that sampled has none until an update moves the weights, or dropout makes it
 * another. */
static int32_t can_skip_without_advantage(const struct sr1__step_batch *b)
{
    const sr1_trainer *tr = b->tr;
    struct sr1__kl kl;

    if (tr->stage->loss || tr->entropy.now != 0.0 ||
        tr->set.router_aux_loss_coef != 0.0 ||
        !sr1__loss_is_zero_without_advantage(tr->set.loss))
        return 0;
    if (tr->set.loss_options.beta == 0.0)
        return 1;
    return b->on_policy && !tr->set.frozen_reference && tr->set.lora.dropout == 0.0 &&
           !sr1__rollout_is_remote(tr->rollout) && !has_gradient(b->selected) &&
           sr1__kl_find(tr->set.kl_kind, &kl) == SR1_OK && !kl.slopes_at_0;
}

static uint32_t list_columns(const sr1_trainer *tr)
{
    return tr->set.policy_columns;
}

/* Those that are rejected are not among these: reject_tokens.c reports all. */
static void report_rollout(const sr1_trainer *tr, const struct sr1__loss_sums *sums,
                           int64_t policy_tokens, struct sr1_step_metrics *m)
{
    double n = (double)policy_tokens;

    if (tr->set.rejection.n > 0)
        return;
    sr1__metrics_add(m, "rollout_diff_max", sums->diff_max, SR1__LAST);
    sr1__metrics_add(m, "rollout_diff_mean", sums->diff_sum / n, SR1__LAST);
    sr1__metrics_add(m, "probs_diff_max", sums->probs_max, SR1__LAST);
    sr1__metrics_add(m, "probs_diff_mean", sums->probs_sum / n, SR1__LAST);
}

/* What figures by token are divided by: weights of a mean sum to 1 but for rounding,
 * those of a sum to something else. */
static double sum_weights(const struct sr1__loss_sums *sums)
{
    return fabs(sums->loss.weight - 1.0) < 1e-3 ? 1.0 : sums->loss.weight;
}

static void report_bounds(const sr1_loss_report *r, double whole,
                          struct sr1_step_metrics *m)
{
    double square = r->importance_square / whole, mean = r->importance_mean / whole;

    sr1__metrics_add(m, "clip_low_fraction", r->clip_low_fraction / whole, SR1__LAST);
    sr1__metrics_add(m, "clip_high_fraction", r->clip_high_fraction / whole, SR1__LAST);
    sr1__metrics_add(m, "dual_clip_fraction", r->dual_clip_fraction / whole, SR1__LAST);
    sr1__metrics_add(m, "ratio_max", r->ratio_max, SR1__LAST);
    sr1__metrics_add(m, "importance_mean", mean, SR1__LAST);
    sr1__metrics_add(m, "importance_max", r->importance_max, SR1__LAST);
    sr1__metrics_add(m, "importance_ess", square > 0.0 ? mean * mean / square : 0.0,
                     SR1__LAST);
    sr1__metrics_add(m, "importance_cut", r->importance_cut / whole, SR1__LAST);
    sr1__metrics_add(m, "off_policy_cut", r->off_policy_cut / whole, SR1__LAST);
}

static void report_epoch(const struct sr1__loss_sums *sums, double grad_norm, double rate,
                         struct sr1_step_metrics *m)
{
    const sr1_loss_report *r = &sums->loss;
    double whole = sum_weights(sums);

    m->events |= SR1__POLICY_UPDATED;
    sr1__metrics_add(m, "grad_norm", grad_norm, SR1__LAST);
    sr1__metrics_add(m, "learning_rate", rate, SR1__LAST);
    sr1__metrics_add(m, "loss", r->loss, SR1__LAST);
    sr1__metrics_add(m, "policy_loss", r->policy_loss, SR1__LAST);
    sr1__metrics_add(m, "kl_div", r->kl / whole, SR1__LAST);
    sr1__metrics_add(m, "clip_fraction", r->clip_fraction / whole, SR1__LAST);
    sr1__metrics_add(m, "approx_kl", r->approx_kl / whole, SR1__LAST);
    sr1__metrics_add(m, "trained_entropy",
                     r->tokens ? sums->entropy_sum / (double)r->tokens : 0.0, SR1__LAST);
    sr1__metrics_add(m, "aux_loss", sums->aux_loss, SR1__LAST);
    report_bounds(r, whole, m);
}

static const struct sr1__objective policy_objective = {
    .name = "policy",
    .replays_routers = 1,
    .width = count_outputs,
    .forward = forward_policy,
    .loss = compute_policy_loss,
    .survey = sr1__choose_tokens,
    .aggregation = choose_aggregation,
    .can_skip_without_advantage = can_skip_without_advantage,
    .columns = list_columns,
    .report_rollout = report_rollout,
    .report_epoch = report_epoch,
};

/* Not before the critic's warm-up is over. */
static sr1_status run_epochs(struct sr1__step_batch *b)
{
    sr1_status st;

    if (sr1__in_critic_warmup(b->tr))
        return SR1_OK;
    st = sr1__optimise(b, &b->tr->policy, &policy_objective, b->epochs);
    sr1__token_choice_free(&b->tr->choice);
    return st;
}

sr1_status sr1__update_policy(struct sr1__step_batch *b)
{
    double began = sr1__now();
    int64_t now, peak = 0;

    sr1__entropy_choose(b);
    SR1__TRY(run_epochs(b));
    sr1__metrics_add(b->metrics, "seconds_update", sr1__now() - began, SR1__LAST);
    SR1__TRY(sr1__device_memory(b->tr->model->device, &now, &peak));
    sr1__metrics_add(b->metrics, "device_gib", (double)peak / GIB, SR1__MAX);
    return sr1__device_release(b->tr->model->device); /* room for the next rollout */
}
