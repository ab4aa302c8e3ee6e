/* train/alarms.c - raise alarms: signs in a step's metrics that a run goes wrong. */
#include "train/internal.h"

static int32_t is_alarm_entropy(const struct sr1_step_metrics *m)
{
    return (m->events & SR1__ROLLED_OUT) && sr1__metrics_get(m, "policy_tokens") > 0 &&
           sr1__metrics_get(m, "entropy") < 0.005;
}

static int32_t is_alarm_format(const struct sr1_step_metrics *m)
{
    return (m->events & SR1__COMPARED) &&
           sr1__metrics_get(m, "trajectories") > sr1__metrics_get(m, "excluded") &&
           sr1__metrics_get(m, "format_rate") < 0.1;
}

static int32_t is_alarm_length(const struct sr1_step_metrics *m)
{
    return sr1__metrics_get(m, "cut_short") > 0.5;
}

static int32_t is_alarm_kl(const struct sr1_step_metrics *m)
{
    return sr1__metrics_get(m, "kl_div") > 1.0;
}

static int32_t is_alarm_log_probs(const struct sr1_step_metrics *m)
{
    return sr1__metrics_get(m, "rollout_diff_mean") > 0.05;
}

static int32_t is_alarm_searches(const struct sr1_step_metrics *m)
{
    return 2 * sr1__metrics_get(m, "failed_searches") > (double)m->searches_made;
}

static int32_t has_no_advantage(const struct sr1_step_metrics *m)
{
    return (m->events & SR1__COMPARED) &&
           sr1__metrics_get(m, "trajectories") > sr1__metrics_get(m, "excluded") &&
           sr1__metrics_get(m, "token_advantage_min") == 0.0 &&
           sr1__metrics_get(m, "token_advantage_max") == 0.0;
}

int32_t sr1__learned_nothing(const struct sr1_step_metrics *m)
{
    if (m->events & SR1__CRITIC_UPDATED)
        return 0;
    return !(m->events & SR1__POLICY_UPDATED) ||
           (has_no_advantage(m) && sr1__metrics_get(m, "entropy_coef") == 0.0);
}

int32_t sr1__scored_nothing(const struct sr1_step_metrics *m)
{
    return sr1__metrics_get(m, "unscored") > 0 &&
           sr1__metrics_get(m, "excluded") == sr1__metrics_get(m, "trajectories");
}

static int32_t is_alarm_zero_advantage(const struct sr1_step_metrics *m)
{
    return has_no_advantage(m);
}

static int32_t is_alarm_loss(const struct sr1_step_metrics *m)
{
    return (m->events & SR1__WORSE_THAN_GUESSING) != 0;
}

static int32_t is_alarm_rewards(const struct sr1_step_metrics *m)
{
    return (m->events & SR1__UNSCORED_FOR_LONG) != 0;
}

/* In the order of sr1_alarm_name. */
static int32_t (*const alarms[])(const struct sr1_step_metrics *m) = {
#define ALARM(name, text) is_alarm_##name,
#include "config/alarms.def"
#undef ALARM
};

uint32_t sr1__find_alarms(const struct sr1_step_metrics *m)
{
    uint32_t ringing = 0;

    for (size_t i = 0; i < sizeof(alarms) / sizeof(alarms[0]); i++)
        if (alarms[i](m))
            ringing |= 1u << i;
    return ringing;
}
