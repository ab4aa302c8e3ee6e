/* train/generate_round.c - the policy's attempts at the questions of one round, and the
 * greedy one of each question for estimators that compare with it. */
#include "train/ranks.h"
#include "train/rollout_queue.h"
#include "train/step_batch.h"

#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/trajectory_details.h>

#include "base/clock.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Rewards that take long begin while other rows are generated. */
static sr1_status begin_rewards(void *user, size_t index, sr1_trajectory *t)
{
    struct sr1__step_batch *b = user;

    (void)index;
    return sr1_reward_set_begin(b->tr->rewards, t);
}

static void forget_rewards(void *user)
{
    const struct sr1__step_batch *b = user;

    sr1_reward_set_forget(b->tr->rewards);
}

static sr1_status report_progress(void *user, int64_t done, int64_t total, int64_t tokens)
{
    const struct sr1__step_batch *b = user;

    (void)tokens;
    return b->tr->phase(b->tr->phase_user, "rollout", done, total);
}

/* ---- metrics of all rounds ---- */

static double join_means(double a, double n_a, double b, double n_b)
{
    if (n_a == 0.0)
        return b;
    return n_b == 0.0 ? a : (a * n_a + b * n_b) / (n_a + n_b);
}

static double divide_sum(double sum, int64_t n)
{
    return n ? sum / (double)n : 0.0;
}

/* Means over all rounds, weighed by what they are of. */
static void join_rounds(struct sr1__step_batch *b, const struct sr1__rollout_stats *stats)
{
    b->searches_per_call =
        join_means(b->searches_per_call, (double)b->search_calls,
                   divide_sum((double)stats->engine_queries, stats->engine_calls),
                   (double)stats->engine_calls);
    b->search_calls += stats->engine_calls;
    b->entropy = join_means(b->entropy, (double)b->sampled,
                            divide_sum(stats->entropy, stats->policy_tokens),
                            (double)stats->policy_tokens);
    b->sampled += stats->policy_tokens;
    b->answers += stats->remote.answers;
    b->drifted += stats->remote.drifted;
    b->actions += stats->searches;
    b->refused += stats->refused_actions;
}

/* Each server by its place in openai_base_url. */
static void add_server_metrics(struct sr1_step_metrics *m,
                               const struct sr1__remote_stats *remote)
{
    char name[64];

    if (remote->n_servers == 0)
        return;
    sr1__metrics_add(m, "rollout/servers/live", (double)remote->live, SR1__LAST);
    for (int64_t i = 0; i < remote->n_servers; i++) {
        snprintf(name, sizeof(name), "rollout/servers/%" PRId64 "/requests", i);
        sr1__metrics_add(m, name, (double)remote->servers[i].requests, SR1__SUM);
        snprintf(name, sizeof(name), "rollout/servers/%" PRId64 "/failures", i);
        sr1__metrics_add(m, name, (double)remote->servers[i].failures, SR1__SUM);
    }
}

static void add_round_metrics(struct sr1__step_batch *b,
                              const struct sr1__rollout_stats *stats, double seconds)
{
    struct sr1_step_metrics *m = b->metrics;

    m->events |= SR1__ROLLED_OUT;
    m->searches_made += stats->searches - stats->refused_actions;
    join_rounds(b, stats);
    sr1__metrics_add(m, "seconds_rollout", seconds, SR1__SUM);
    sr1__metrics_add(m, "seconds_search", stats->search_seconds, SR1__SUM);
    sr1__metrics_add(m, "searches", (double)stats->searches, SR1__SUM);
    sr1__metrics_add(m, "failed_searches", (double)stats->failed_searches, SR1__SUM);
    sr1__metrics_add(m, "refused_rate", divide_sum((double)b->refused, b->actions),
                     SR1__LAST);
    sr1__metrics_add(m, "searches_per_call", b->searches_per_call, SR1__LAST);
    sr1__metrics_add(m, "entropy", b->entropy, SR1__LAST);
    sr1__metrics_add(m, "text_drift", divide_sum((double)b->drifted, b->answers),
                     SR1__LAST);
    add_server_metrics(m, &stats->remote);
}

/* ---- rollouts ---- */

static sr1_status generate_groups(struct sr1__step_batch *b)
{
    const struct sr1__round *round = &b->round;
    struct sr1__rollout_stats stats;
    sr1_rollout_options o = {.struct_size = sizeof(o),
                             .group_size = b->group_size,
                             .seed = sr1__step_seed(b->tr, round->number),
                             .user = b,
                             .progress = b->tr->phase ? report_progress : NULL,
                             .finished = begin_rewards,
                             .dropped = forget_rewards};
    double began = sr1__now();

    sr1__rollout_set_version(b->tr->rollout, b->tr->step);
    SR1__TRY(sr1__generate_shared(b->tr->dist, b->tr->rollout, round->queries,
                                  round->n_queries, &o, b->t + round->begin));
    sr1__rollout_stats(b->tr->rollout, &stats);
    add_round_metrics(b, &stats, sr1__now() - began);
    return SR1_OK;
}

/* ---- a rollout that began before ---- */

static sr1_status report_waiting(void *user, int64_t done, int64_t total)
{
    struct sr1__step_batch *b = user;

    return b->tr->phase ? report_progress(b, done, total, 0) : SR1_OK;
}

/* Each rank begins the rewards of what it rolled out. */
static sr1_status begin_own_rewards(struct sr1__step_batch *b)
{
    int32_t rank = sr1__dist_rank(b->tr->dist);
    size_t begin = b->round.begin, group = (size_t)b->group_size;

    for (size_t i = begin; i < b->n; i++)
        if (sr1__rank_of_question(b->tr->dist, (i - begin) / group) == rank)
            SR1__TRY(begin_rewards(b, i - begin, b->t[i]));
    return SR1_OK;
}

/* By the oldest token of each trajectory. */
static void add_ages(struct sr1__step_batch *b)
{
    size_t n = b->n - b->round.begin;
    double sum = 0, most = 0;

    for (size_t i = b->round.begin; i < b->n; i++) {
        double age = (double)(b->tr->step - sr1_trajectory_weights_version(b->t[i]));

        sum += age;
        most = age > most ? age : most;
    }
    sr1__metrics_add(b->metrics, "staleness", n ? sum / (double)n : 0.0, SR1__LAST);
    sr1__metrics_add(b->metrics, "staleness_max", most, SR1__LAST);
}

sr1_status sr1__take_queued(struct sr1__step_batch *b, struct sr1__queued_rollout *q)
{
    struct sr1__round *round = &b->round;
    size_t n = round->n_queries * (size_t)b->group_size;
    double began = sr1__now();

    round->begin = b->n;
    SR1__TRY(sr1__rollout_queue_wait(b->tr, q, report_waiting, b));
    sr1__metrics_add(b->metrics, "seconds_waited", sr1__now() - began, SR1__LAST);
    SR1__TRY(sr1__step_batch_extend(b, n));
    memcpy(b->t + round->begin, q->t, n * sizeof(sr1_trajectory *));
    memset(q->t, 0, n * sizeof(sr1_trajectory *));
    sr1__rollout_set_stats(b->tr->rollout, &q->stats);
    add_round_metrics(b, &q->stats, q->seconds);
    add_ages(b);
    return begin_own_rewards(b);
}

/* ---- greedy rollouts ---- */

static sr1_status generate_greedy(struct sr1__step_batch *b)
{
    struct sr1__round *round = &b->round;
    sr1_rollout_options o = {.struct_size = sizeof(o),
                             .group_size = 1,
                             .greedy = 1,
                             .seed = sr1__step_seed(b->tr, round->number),
                             .user = b,
                             .finished = begin_rewards,
                             .dropped = forget_rewards};
    double began = sr1__now();

    if (!(b->tr->set.estimator.needs & SR1_ADVANTAGE_NEEDS_BASELINES))
        return SR1_OK;
    round->greedy = sr1__calloc(round->n_queries + 1, sizeof(sr1_trajectory *));
    if (!round->greedy)
        return sr1__fail_nomem("greedy rollouts");
    SR1__TRY(
        sr1__context(sr1__generate_shared(b->tr->dist, b->tr->rollout, round->queries,
                                          round->n_queries, &o, round->greedy),
                     "greedy rollouts"));
    sr1__metrics_add(b->metrics, "seconds_rollout", sr1__now() - began, SR1__SUM);
    return SR1_OK;
}

sr1_status sr1__generate_round(struct sr1__step_batch *b)
{
    struct sr1__round *round = &b->round;

    round->begin = b->n;
    SR1__TRY(sr1__step_batch_extend(b, round->n_queries * (size_t)b->group_size));
    SR1__TRY(generate_groups(b));
    return generate_greedy(b);
}
