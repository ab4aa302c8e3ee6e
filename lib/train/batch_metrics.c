/* train/batch_metrics.c - figures of a step's trajectories (verl: compute_data_metrics).
 *
 * Rewards are over trajectories (std over the population), advantages over policy tokens;
 * lengths count what the policy sampled. */
#include "train/step_batch.h"

#include "environment/env/thinking_turn.h"
#include "signal/loss/loss.h"
#include "signal/reward/format.h"
#include "policy/rollout_internal.h"
#include "environment/trajectory/trajectory.h"

#include <math.h>
#include <stdio.h>

/* ---- figures ---- */

/* Smallest, largest and sums of what has been seen so far. */
struct spread {
    double min, max, sum, squares;
    size_t n;
};

static void add_value(struct spread *s, double x)
{
    s->min = s->n && s->min < x ? s->min : x;
    s->max = s->n && s->max > x ? s->max : x;
    s->sum += x;
    s->squares += x * x;
    s->n++;
}

static double get_mean(const struct spread *s)
{
    return s->n ? s->sum / (double)s->n : 0.0;
}

static double get_deviation(const struct spread *s)
{
    double m = get_mean(s);

    return s->n ? sqrt(fmax(s->squares / (double)s->n - m * m, 0.0)) : 0.0;
}

struct figures {
    struct spread reward, net, by_token, length, prompt;
    struct spread value, worth, error; /* of tokens: the critic's, the return, how far */
    size_t formatted, answered, truncated, searched, excluded, unscored, succeeded;
    size_t messages, levels[SR1_THINKING_LEVELS]; /* of the first, those of a level */
    int64_t thoughts;
    int64_t policy, environment, tokens;
    const struct sr1__protocol *protocol;
    int closed_thoughts;
};

/* Levels and thoughts of its messages. */
static void add_thoughts(struct figures *f, const sr1_trajectory *t)
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
static void add_credit(struct figures *f, const sr1_trajectory *t)
{
    const float *taken = sr1_trajectory_column(t, SR1_COLUMN_REWARD);
    const float *by_token = sr1_trajectory_column(t, SR1_COLUMN_ADVANTAGE);
    const float *values = sr1_trajectory_column(t, SR1_COLUMN_VALUE);
    const float *returns = sr1_trajectory_column(t, SR1_COLUMN_RETURN);
    double net = sr1_trajectory_reward(t), whole = sr1_trajectory_advantage(t);

    for (size_t i = 0; i < sr1_trajectory_policy_count(t); i++) {
        net += taken ? (double)taken[i] : 0.0;
        add_value(&f->by_token, by_token ? (double)by_token[i] : whole);
        if (!values || !returns)
            continue;
        add_value(&f->value, (double)values[i]);
        add_value(&f->worth, (double)returns[i]);
        add_value(&f->error, (double)returns[i] - (double)values[i]);
    }
    add_value(&f->net, net);
}

/* counts: its reward says something of the policy. */
static void add_trajectory(struct figures *f, const sr1_trajectory *t, int counts)
{
    f->tokens += (int64_t)sr1_trajectory_token_count(t);
    f->policy += (int64_t)sr1_trajectory_policy_count(t);
    f->environment += (int64_t)sr1_trajectory_environment_count(t);
    if (!counts || sr1__trajectory_excluded(t)) {
        f->excluded++;
        f->unscored += sr1_trajectory_stop_reason(t) == SR1_STOP_UNSCORED;
        return;
    }
    f->formatted += (size_t)sr1__is_well_formed(f->protocol, t, f->closed_thoughts);
    f->answered += sr1_trajectory_stop_reason(t) == SR1_STOP_ANSWER;
    f->truncated += (size_t)sr1__is_truncated(t);
    f->searched += sr1_trajectory_search_count(t) > 0;
    f->succeeded += sr1__trajectory_succeeded(t);
    add_thoughts(f, t);
    add_credit(f, t);
    add_value(&f->reward, sr1_trajectory_reward(t));
    add_value(&f->length, (double)sr1_trajectory_policy_count(t));
    add_value(&f->prompt, (double)sr1_trajectory_prompt_count(t));
}

static double explain_variance(const struct figures *f)
{
    double error = get_deviation(&f->error), returns = get_deviation(&f->worth);
    double mean = get_mean(&f->worth);

    return sr1__explained_variance(error * error, returns * returns, mean * mean);
}

/* What the figures of a spread are called; NULL: not asked for. */
struct spread_figures {
    const char *mean, *std, *min, *max;
};

static void add_spread(struct sr1_step_metrics *m, const struct spread *s,
                       struct spread_figures names)
{
    const struct {
        const char *name;
        double value;
    } figures[] = {{names.mean, get_mean(s)},
                   {names.std, get_deviation(s)},
                   {names.min, s->min},
                   {names.max, s->max}};

    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        if (figures[i].name)
            sr1__metrics_add(m, figures[i].name, figures[i].value, SR1__LAST);
}

static void add_spreads(struct sr1_step_metrics *m, const struct figures *f)
{
    add_spread(
        m, &f->reward,
        (struct spread_figures){"avg_reward", "reward_std", "reward_min", "reward_max"});
    add_spread(m, &f->net,
               (struct spread_figures){"net_reward_mean", "net_reward_std",
                                       "net_reward_min", "net_reward_max"});
    add_spread(m, &f->by_token,
               (struct spread_figures){"token_advantage_mean", NULL,
                                       "token_advantage_min", "token_advantage_max"});
    add_spread(m, &f->length,
               (struct spread_figures){"avg_tokens", NULL, "tokens_min", "tokens_max"});
    add_spread(m, &f->prompt, (struct spread_figures){.mean = "prompt_tokens"});
    add_spread(m, &f->value, (struct spread_figures){.mean = "value_mean"});
    add_spread(m, &f->worth, (struct spread_figures){.mean = "return_mean"});
    sr1__metrics_add(m, "explained_variance", explain_variance(f), SR1__LAST);
}

static void add_counts(struct sr1_step_metrics *m, const struct figures *f)
{
    sr1__metrics_add(m, "trajectories", (double)(f->reward.n + f->excluded), SR1__LAST);
    sr1__metrics_add(m, "excluded", (double)f->excluded, SR1__LAST);
    sr1__metrics_add(m, "unscored", (double)f->unscored, SR1__LAST);
    sr1__metrics_add(m, "policy_tokens", (double)f->policy, SR1__LAST);
    sr1__metrics_add(m, "environment_tokens", (double)f->environment, SR1__LAST);
}

/* Of trajectories, and of messages. */
static void add_shares(struct sr1_step_metrics *m, const struct figures *f)
{
    static const char *const levels[] = {"level_1", "level_2", "level_3", "level_4"};
    double n = f->reward.n ? (double)f->reward.n : 1.0;
    double messages = f->messages ? (double)f->messages : 1.0;

    sr1__metrics_add(m, "search_trajectories", (double)f->searched / n, SR1__LAST);
    sr1__metrics_add(m, "cut_short", (double)f->truncated / n, SR1__LAST);
    sr1__metrics_add(m, "format_rate", (double)f->formatted / n, SR1__LAST);
    sr1__metrics_add(m, "answer_rate", (double)f->answered / n, SR1__LAST);
    sr1__metrics_add(m, "success_rate", (double)f->succeeded / n, SR1__LAST);
    sr1__metrics_add(m, "thinking_tokens", (double)f->thoughts / n, SR1__LAST);
    for (size_t i = 0; i < SR1_THINKING_LEVELS; i++)
        sr1__metrics_add(m, levels[i], (double)f->levels[i] / messages, SR1__LAST);
}

static void measure_trajectories(struct sr1__step_batch *b)
{
    const sr1_trainer *tr = b->tr;
    struct figures f = {.protocol = sr1__env_protocol(tr->rollout->env),
                        .closed_thoughts = tr->rollout->closed_thoughts};

    for (size_t i = 0; i < b->n; i++)
        add_trajectory(&f, b->t[i], sr1__counts_in_group(b, i));
    b->tokens = f.tokens;
    add_spreads(b->metrics, &f);
    add_counts(b->metrics, &f);
    add_shares(b->metrics, &f);
    sr1__metrics_add(b->metrics, "beta",
                     tr->set.kl_in_reward ? tr->kl.coef : tr->set.beta, SR1__LAST);
}

/* ---- what each reward gave ---- */

/* Before its weight: rewards/NAME/mean, TRL's name. */
static sr1_status add_components(struct sr1_step_metrics *m, const sr1_trajectory *t)
{
    for (size_t i = 0; i < sr1_trajectory_reward_component_count(t); i++) {
        const char *name = NULL;
        double value = 0.0;
        char figure[256];

        SR1__TRY(sr1_trajectory_reward_component(t, i, &name, &value, NULL));
        if (isnan(value)) /* it could not be had */
            continue;
        snprintf(figure, sizeof(figure), "rewards/%.200s/mean", name);
        sr1__metrics_add(m, figure, value, SR1__MEAN);
    }
    return SR1_OK;
}

sr1_status sr1__batch_metrics(struct sr1__step_batch *b)
{
    b->metrics->events |= SR1__COMPARED;
    measure_trajectories(b);
    for (size_t i = 0; i < b->n; i++)
        if (!sr1__trajectory_excluded(b->t[i]))
            SR1__TRY(add_components(b->metrics, b->t[i]));
    return SR1_OK;
}
