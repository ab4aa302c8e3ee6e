/* train/metrics.c - a step's report under the names people already plot: the seed
 * document's, verl's and TRL's. One table row a name. */
#include "train/internal.h"

#include "base/clock.h"
#include "trajectory/trajectory.h"

#include <stddef.h>
#include <stdio.h>

#define GIB 1073741824.0 /* verl's GB */

enum { REAL, COUNT };

static const struct {
    const char *name;
    size_t offset;
    int kind;
} columns[] = {
#define ROW(name, field, kind) {name, offsetof(sr1_step_report, field), kind}
    ROW("step", step, COUNT),
    ROW("loss", loss, REAL),
    ROW("kl_div", kl_div, REAL),
    ROW("avg_reward", avg_reward, REAL),
    ROW("beta", beta, REAL),
    ROW("avg_tokens", avg_tokens, REAL),
    ROW("search_trajectories", search_trajectories, REAL),
    ROW("reward", avg_reward, REAL),
    ROW("kl", kl_div, REAL),
    ROW("entropy", entropy, REAL),
    ROW("grad_norm", grad_norm, REAL),
    ROW("learning_rate", learning_rate, REAL),
    ROW("actor/pg_loss", policy_loss, REAL),
    ROW("actor/kl_loss", kl_div, REAL),
    ROW("actor/pg_clipfrac", clip_fraction, REAL),
    ROW("actor/pg_clipfrac_lower", dual_clip_fraction, REAL),
    ROW("actor/ratio_max", ratio_max, REAL),
    ROW("actor/ppo_kl", approx_kl, REAL),
    ROW("clip_ratio/low_mean", clip_low_fraction, REAL),
    ROW("clip_ratio/high_mean", clip_high_fraction, REAL),
    ROW("actor/entropy", entropy, REAL),
    ROW("actor/entropy_loss", trained_entropy, REAL),
    ROW("actor/entropy_coeff", entropy_coef, REAL),
    ROW("actor/grad_norm", grad_norm, REAL),
    ROW("actor/lr", learning_rate, REAL),
    ROW("critic/score/mean", avg_reward, REAL),
    ROW("critic/score/std", reward_std, REAL),
    ROW("critic/score/min", reward_min, REAL),
    ROW("critic/score/max", reward_max, REAL),
    ROW("critic/rewards/mean", net_reward_mean, REAL),
    ROW("critic/rewards/std", net_reward_std, REAL),
    ROW("critic/rewards/min", net_reward_min, REAL),
    ROW("critic/rewards/max", net_reward_max, REAL),
    ROW("critic/advantages/mean", token_advantage_mean, REAL),
    ROW("critic/advantages/min", token_advantage_min, REAL),
    ROW("critic/advantages/max", token_advantage_max, REAL),
    ROW("response_length/mean", avg_tokens, REAL),
    ROW("response_length/min", tokens_min, REAL),
    ROW("response_length/max", tokens_max, REAL),
    ROW("response_length/clip_ratio", cut_short, REAL),
    ROW("prompt_length/mean", prompt_tokens, REAL),
    ROW("health/format_rate", format_rate, REAL),
    ROW("health/answer_rate", answer_rate, REAL),
    ROW("env/number_of_searches", searches, COUNT),
    ROW("env/number_of_failed_searches", failed_searches, COUNT),
    ROW("env/tokens", environment_tokens, COUNT),
    ROW("training/rollout_probs_diff_max", probs_diff_max, REAL),
    ROW("training/rollout_probs_diff_mean", probs_diff_mean, REAL),
    ROW("sampling/sampling_logp_difference/max", rollout_diff_max, REAL),
    ROW("sampling/sampling_logp_difference/mean", rollout_diff_mean, REAL),
    ROW("rollout_corr/rollout_is_mean", importance_mean, REAL),
    ROW("rollout_corr/rollout_is_max", importance_max, REAL),
    ROW("rollout_corr/rollout_is_eff_sample_size", importance_ess, REAL),
    ROW("rollout_corr/rollout_is_cut", importance_cut, REAL),
    ROW("rollout_corr/off_policy_cut", off_policy_cut, REAL),
    ROW("rollout/staleness", staleness, COUNT),
    ROW("rollout/text_drift", text_drift, REAL),
    ROW("training/trajectories", trajectories, COUNT),
    ROW("training/trained_trajectories", trained, COUNT),
    ROW("training/dead_groups", dead_groups, COUNT),
    ROW("training/excluded_trajectories", excluded, COUNT),
    ROW("training/excluded_groups", excluded_groups, COUNT),
    ROW("training/unscored_trajectories", unscored, COUNT),
    ROW("training/micro_batches", micro_batches, COUNT),
    ROW("global_seqlen/min", unbalanced_min, COUNT),
    ROW("global_seqlen/max", unbalanced_max, COUNT),
    ROW("global_seqlen/balanced_min", batch_tokens_min, COUNT),
    ROW("global_seqlen/balanced_max", batch_tokens_max, COUNT),
    ROW("training/sampling_rounds", sampling_rounds, COUNT),
    ROW("training/masked_trajectories", masked, COUNT),
    ROW("training/skipped_updates", skipped_updates, COUNT),
    ROW("training/policy_tokens", policy_tokens, COUNT),
    ROW("critic/kl", reward_kl, REAL),
    ROW("critic/kl_coeff", beta, REAL),
    ROW("critic/vf_loss", value_loss, REAL),
    ROW("critic/vf_clipfrac", value_clip_fraction, REAL),
    ROW("critic/vf_explained_var", explained_variance, REAL),
    ROW("critic/values/mean", value_mean, REAL),
    ROW("critic/returns/mean", return_mean, REAL),
    ROW("critic/grad_norm", critic_grad_norm, REAL),
    ROW("critic/lr", critic_learning_rate, REAL),
    ROW("env/success_rate", success_rate, REAL),
    ROW("thinking/tokens", thinking_tokens, REAL),
    ROW("thinking/level_1", level_1, REAL),
    ROW("thinking/level_2", level_2, REAL),
    ROW("thinking/level_3", level_3, REAL),
    ROW("thinking/level_4", level_4, REAL),
    ROW("thinking/steps_compared", levels_compared, COUNT),
    ROW("thinking/steps_left_out", levels_left_out, COUNT),
    ROW("thinking/steps_unread", levels_unread, COUNT),
    ROW("thinking/steps_too_long", levels_too_long, COUNT),
    ROW("thinking/steps_no_action", levels_no_action, COUNT),
    ROW("thinking/steps_malformed", levels_malformed, COUNT),
    ROW("thinking/steps_no_room", levels_no_room, COUNT),
    ROW("thinking/tokens_drawn", level_tokens, COUNT),
    ROW("timing_s/step", seconds, REAL),
    ROW("timing_s/gen", seconds_rollout, REAL),
    ROW("timing_s/search", seconds_search, REAL),
    ROW("timing_s/levels", seconds_levels, REAL),
    ROW("timing_s/ref", seconds_reference, REAL),
    ROW("timing_s/reward", seconds_reward, REAL),
    ROW("timing_s/update_critic", seconds_critic, REAL),
    ROW("timing_s/update_actor", seconds_update, REAL),
#undef ROW
};

/* ---- what each reward gave ---- */

static sr1_status add_part(json_t *sums, const sr1_trajectory *t, size_t i)
{
    const char *name = NULL;
    double value = 0.0;
    char key[256];

    SR1__TRY(sr1_trajectory_reward_part(t, i, &name, &value, NULL));
    snprintf(key, sizeof(key), "rewards/%.200s/mean", name);
    value += json_real_value(json_object_get(sums, key));
    return json_object_set_new(sums, key, json_real(value)) == 0
               ? SR1_OK
               : sr1__fail_nomem("metrics");
}

sr1_status sr1__metrics_rewards(sr1_trainer *tr, sr1_trajectory *const *t, size_t n)
{
    json_t *means = json_object(), *sum;
    double scored = 0.0;
    const char *name;
    sr1_status st = means ? SR1_OK : sr1__fail_nomem("metrics");

    for (size_t i = 0; i < n; i++) {
        if (sr1__trajectory_excluded(t[i]))
            continue;
        scored++;
        for (size_t k = 0; st == SR1_OK && k < sr1_trajectory_reward_part_count(t[i]);
             k++)
            st = add_part(means, t[i], k);
    }
    json_object_foreach(means, name, sum)
        json_real_set(sum, json_real_value(sum) / scored);
    json_decref(tr->reward_means);
    tr->reward_means = means;
    return st;
}

/* ---- a row ---- */

/* How many ring, and for each 1 or 0. */
static int add_alarms(json_t *row, const sr1_step_report *r)
{
    uint32_t ringing = sr1__health_alarms(r);
    const char *name;
    int n = 0, failed = 0;

    for (size_t i = 0; (name = sr1__health_alarm_name(i)) && !failed; i++) {
        char key[64];
        int rings = (ringing >> i) & 1;

        snprintf(key, sizeof(key), "health/alarm_%s", name);
        failed = json_object_set_new(row, key, json_integer(rings));
        n += rings;
    }
    return failed || json_object_set_new(row, "health/alarms", json_integer(n));
}

json_t *sr1__metrics_row(const sr1_trainer *tr, const sr1_step_report *r)
{
    json_t *row = json_object();
    int failed = row == NULL;

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]) && !failed; i++) {
        const char *at = (const char *)r + columns[i].offset;

        failed = json_object_set_new(
            row, columns[i].name,
            columns[i].kind == COUNT
                ? json_integer(*(const int64_t *)(const void *)at)
                : sr1__json_number(*(const double *)(const void *)at));
    }
    if (!failed && r->seconds > 0)
        failed = json_object_set_new(
            row, "perf/throughput",
            sr1__json_number((double)r->tokens / r->seconds));
    if (!failed)
        failed =
            json_object_set_new(row, "perf/rss_bytes", json_integer(sr1__rss_bytes())) ||
            json_object_set_new(row, "perf/max_memory_allocated_gb",
                                sr1__json_number((double)r->device_bytes / GIB)) ||
            json_object_set_new(row, "training/skipped_updates_total",
                                json_integer(tr->skipped));
    if (!failed && tr->reward_means)
        failed = json_object_update(row, tr->reward_means);
    if (!failed)
        failed = add_alarms(row, r);
    if (failed) {
        json_decref(row);
        return NULL;
    }
    return row;
}
