/* train/health.c - figures of a step's trajectories, and the signs that a run is going
 * wrong.
 *
 * Rewards and advantages are over trajectories (std over the population); lengths count
 * what the policy sampled. */
#include "train/step.h"

#include "env/thinking_turn.h"
#include "reward/format.h"
#include "rollout/internal.h"
#include "trajectory/trajectory.h"

#include <math.h>

/* ---- figures ---- */

/* Smallest, largest and sums of what has been seen so far. */
struct spread {
    double min, max, sum, squares;
    size_t n;
};

static void see(struct spread *s, double x)
{
    s->min = s->n && s->min < x ? s->min : x;
    s->max = s->n && s->max > x ? s->max : x;
    s->sum += x;
    s->squares += x * x;
    s->n++;
}

static double mean(const struct spread *s)
{
    return s->n ? s->sum / (double)s->n : 0.0;
}

static double deviation(const struct spread *s)
{
    double m = mean(s);

    return s->n ? sqrt(fmax(s->squares / (double)s->n - m * m, 0.0)) : 0.0;
}

struct figures {
    struct spread reward, net, advantage, by_token, length, prompt;
    struct spread value, worth, error; /* of tokens: the critic's, the return, how far */
    size_t formatted, answered, cut, searched, excluded, unscored, succeeded;
    size_t messages, levels[SR1_THINKING_LEVELS]; /* of the first, those of a level */
    int64_t thoughts;
    int64_t policy, environment, tokens;
    const struct sr1__protocol *protocol;
};

/* Levels and thoughts of its messages. */
static void look_at_thoughts(struct figures *f, const sr1_trajectory *t)
{
    struct sr1__thinking_turn turn = {0};

    while (sr1__thinking_turn_next(t, &turn)) {
        f->messages++;
        f->thoughts += (int64_t)(turn.thoughts.end - turn.thoughts.begin);
        if (turn.step.level_len > 0 && turn.step.level > 0)
            f->levels[turn.step.level - 1]++;
    }
}

/* What is taught: its reward with the KL taken off, advantages, returns. */
static void look_at_credit(struct figures *f, const sr1_trajectory *t)
{
    const float *taken = sr1_trajectory_column(t, SR1_COLUMN_REWARD);
    const float *by_token = sr1_trajectory_column(t, SR1_COLUMN_ADVANTAGE);
    const float *values = sr1_trajectory_column(t, SR1_COLUMN_VALUE);
    const float *returns = sr1_trajectory_column(t, SR1_COLUMN_RETURN);
    double net = sr1_trajectory_reward(t), whole = sr1_trajectory_advantage(t);

    for (size_t i = 0; i < sr1_trajectory_policy_count(t); i++) {
        net += taken ? (double)taken[i] : 0.0;
        see(&f->by_token, by_token ? (double)by_token[i] : whole);
        if (!values || !returns)
            continue;
        see(&f->value, (double)values[i]);
        see(&f->worth, (double)returns[i]);
        see(&f->error, (double)returns[i] - (double)values[i]);
    }
    see(&f->net, net);
}

static void look(struct figures *f, const sr1_trajectory *t)
{
    f->tokens += (int64_t)sr1_trajectory_token_count(t);
    f->policy += (int64_t)sr1_trajectory_policy_count(t);
    f->environment += (int64_t)sr1_trajectory_environment_count(t);
    if (sr1__trajectory_excluded(t)) {
        f->excluded++;
        f->unscored += sr1_trajectory_stop_reason(t) == SR1_STOP_UNSCORED;
        return;
    }
    f->formatted += (size_t)sr1__is_well_formed(f->protocol, t);
    f->answered += sr1_trajectory_stop_reason(t) == SR1_STOP_ANSWER;
    f->cut += (size_t)sr1__was_cut(t);
    f->searched += sr1_trajectory_search_count(t) > 0;
    f->succeeded += sr1__trajectory_succeeded(t);
    look_at_thoughts(f, t);
    look_at_credit(f, t);
    see(&f->reward, sr1_trajectory_reward(t));
    see(&f->advantage, sr1_trajectory_advantage(t));
    see(&f->length, (double)sr1_trajectory_policy_count(t));
    see(&f->prompt, (double)sr1_trajectory_prompt_count(t));
}

/* 1 - var(error) / var(returns); what rounding leaves of equal returns is no variance. */
static double explained(const struct figures *f)
{
    double d = deviation(&f->worth), e = deviation(&f->error);

    return d > 1e-6 * fabs(mean(&f->worth)) ? 1.0 - e * e / (d * d) : 0.0;
}

static void give_credit(const struct figures *f, sr1_step_report *r)
{
    r->avg_reward = mean(&f->reward);
    r->reward_std = deviation(&f->reward);
    r->reward_min = f->reward.min;
    r->reward_max = f->reward.max;
    r->net_reward_mean = mean(&f->net);
    r->net_reward_std = deviation(&f->net);
    r->net_reward_min = f->net.min;
    r->net_reward_max = f->net.max;
    r->advantage_mean = mean(&f->advantage);
    r->advantage_min = f->advantage.min;
    r->advantage_max = f->advantage.max;
    r->token_advantage_mean = mean(&f->by_token);
    r->token_advantage_min = f->by_token.min;
    r->token_advantage_max = f->by_token.max;
    r->value_mean = mean(&f->value);
    r->return_mean = mean(&f->worth);
    r->explained_variance = explained(f);
}

static void give(const struct figures *f, sr1_step_report *r)
{
    double n = f->reward.n ? (double)f->reward.n : 1.0;
    double messages = f->messages ? (double)f->messages : 1.0;

    r->trajectories = (int64_t)(f->reward.n + f->excluded);
    r->excluded = (int64_t)f->excluded;
    r->unscored = (int64_t)f->unscored;
    r->policy_tokens = f->policy;
    r->environment_tokens = f->environment;
    r->tokens = f->tokens;
    give_credit(f, r);
    r->avg_tokens = mean(&f->length);
    r->search_trajectories = (double)f->searched / n;
    r->tokens_min = f->length.min;
    r->tokens_max = f->length.max;
    r->prompt_tokens = mean(&f->prompt);
    r->cut_short = (double)f->cut / n;
    r->format_rate = (double)f->formatted / n;
    r->answer_rate = (double)f->answered / n;
    r->success_rate = (double)f->succeeded / n;
    r->thinking_tokens = (double)f->thoughts / n;
    r->level_1 = (double)f->levels[0] / messages;
    r->level_2 = (double)f->levels[1] / messages;
    r->level_3 = (double)f->levels[2] / messages;
    r->level_4 = (double)f->levels[3] / messages;
}

void sr1__describe_trajectories(const sr1_trainer *tr, sr1_trajectory *const *t, size_t n,
                                sr1_step_report *report)
{
    struct figures f = {.protocol = sr1__env_protocol(tr->rollout->env)};

    for (size_t i = 0; i < n; i++)
        look(&f, t[i]);
    give(&f, report);
    report->beta = tr->set.kl_in_reward ? tr->kl.coef : tr->set.beta;
}

/* ---- alarms ---- */

static int entropy_gone(const sr1_step_report *r)
{
    return r->policy_tokens > 0 && r->entropy < 0.005;
}

static int tags_broken(const sr1_step_report *r)
{
    return r->trajectories > r->excluded && r->format_rate < 0.1;
}

static int length_at_limit(const sr1_step_report *r)
{
    return r->cut_short > 0.5;
}

static int kl_large(const sr1_step_report *r)
{
    return r->kl_div > 1.0;
}

static int log_probs_apart(const sr1_step_report *r)
{
    return r->rollout_diff_mean > 0.05;
}

static int searches_fail(const sr1_step_report *r)
{
    return r->searches > 0 && 2 * r->failed_searches > r->searches;
}

static const struct {
    int (*rings)(const sr1_step_report *r);
    const char *name; /* in metrics: health/alarm_NAME */
    const char *text;
} alarms[] = {
    {entropy_gone, "entropy",
     "entropy is below 0.005 nats a token: the policy no longer explores"},
    {tags_broken, "format", "fewer than one in ten responses are well formed"},
    {length_at_limit, "length",
     "more than half of the responses were cut short by a token limit"},
    {kl_large, "kl", "the policy is more than 1 nat a token away from its reference"},
    {log_probs_apart, "log_probs",
     "sampled and recomputed log-probs differ by more than 0.05"},
    {searches_fail, "searches", "more than half of the searches failed"},
};

uint32_t sr1__health_alarms(const sr1_step_report *r)
{
    uint32_t ringing = 0;

    for (size_t i = 0; r->seconds_rollout > 0 && i < sizeof(alarms) / sizeof(alarms[0]);
         i++)
        if (alarms[i].rings(r))
            ringing |= 1u << i;
    return ringing;
}

const char *sr1__health_alarm_name(size_t i)
{
    return i < sizeof(alarms) / sizeof(alarms[0]) ? alarms[i].name : NULL;
}

const char *sr1__health_alarm_text(size_t i)
{
    return i < sizeof(alarms) / sizeof(alarms[0]) ? alarms[i].text : NULL;
}
