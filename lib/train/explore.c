/* train/explore.c - the policy's attempts at a step's questions. */
#include "train/step.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "trajectory/trajectory.h"

#include <inttypes.h>
#include <math.h>

uint64_t sr1__step_seed(const struct sr1__step *s)
{
    uint64_t at[2] = {(uint64_t)s->tr->step, s->round};

    return sr1__hash64(at, s->round ? sizeof(at) : sizeof(at[0]), s->tr->set.seed);
}

double sr1__step_drift(const struct sr1__step *s)
{
    return s->answers ? (double)s->drifted / (double)s->answers : 0.0;
}

/* Rewards that take long begin while other rows are generated. */
static sr1_status begin_rewards(void *user, size_t index, sr1_trajectory *t)
{
    struct sr1__step *s = user;

    (void)index;
    return sr1_reward_set_begin(s->tr->rewards, t);
}

static sr1_status tell(void *user, int64_t done, int64_t total, int64_t tokens)
{
    const struct sr1__step *s = user;

    (void)tokens;
    return s->tr->phase(s->tr->phase_user, "rollout", done, total);
}

static sr1_status roll_out(struct sr1__step *s)
{
    struct sr1__rollout_stats stats;
    sr1_rollout_options o = {.struct_size = sizeof(o),
                             .group_size = s->group_size,
                             .seed = sr1__step_seed(s),
                             .user = s,
                             .progress = s->tr->phase ? tell : NULL,
                             .finished = begin_rewards};
    double began;

    SR1__TRY(sr1__serving_ready(s->tr, s->report));
    began = sr1__now();
    sr1__rollout_set_version(s->tr->rollout, s->tr->step);
    SR1__TRY(sr1_rollout_generate(s->tr->rollout, s->queries, s->n_queries, &o, s->made));
    sr1__rollout_stats(s->tr->rollout, &stats);
    s->report->seconds_rollout = sr1__now() - began;
    s->report->seconds_search = stats.search_seconds;
    s->report->searches = stats.searches;
    s->report->failed_searches = stats.failed_searches;
    s->report->policy_tokens = stats.policy_tokens;
    s->answers = stats.remote.answers;
    s->drifted = stats.remote.drifted;
    s->report->text_drift = sr1__step_drift(s);
    s->report->entropy =
        stats.policy_tokens ? stats.entropy / (double)stats.policy_tokens : 0.0;
    return SR1_OK;
}

/* ---- the greedy rollout of each query, for estimators that compare with it ---- */

/* Its reward for each of the group; NaN where its search failed: nothing to compare with.
 */
static sr1_status score_greedy(struct sr1__step *s, sr1_trajectory **greedy)
{
    size_t group = (size_t)s->group_size;

    for (size_t q = 0; q < s->n_queries; q++) {
        const sr1_trajectory *t = greedy[q];
        double reward = NAN, penalty;

        if (!sr1__trajectory_excluded(t))
            SR1__TRY(sr1_reward_set_score(s->tr->rewards, &t, 1, NULL, &reward));
        SR1__TRY(sr1__overlong(&s->tr->set, t, &penalty));
        reward += penalty;
        for (size_t k = 0; k < group; k++)
            s->baselines[q * group + k] = reward;
    }
    return SR1_OK;
}

static sr1_status roll_out_greedily(struct sr1__step *s)
{
    sr1_rollout_options o = {.struct_size = sizeof(o),
                             .group_size = 1,
                             .greedy = 1,
                             .seed = sr1__step_seed(s)};
    sr1_trajectory **greedy = sr1__calloc(s->n_queries + 1, sizeof(*greedy));
    double began = sr1__now();
    sr1_status st;

    s->baselines = sr1__calloc(s->n + 1, sizeof(*s->baselines));
    st = greedy && s->baselines ? SR1_OK : sr1__fail_nomem("greedy rollouts");
    if (st == SR1_OK)
        st = sr1_rollout_generate(s->tr->rollout, s->queries, s->n_queries, &o, greedy);
    if (st == SR1_OK)
        st = score_greedy(s, greedy);
    for (size_t q = 0; greedy && q < s->n_queries; q++)
        sr1_trajectory_free(greedy[q]);
    sr1__free(greedy);
    s->report->seconds_rollout += sr1__now() - began;
    return sr1__context(st, "greedy rollouts");
}

/* ---- outages ---- */

static int is_left_out(const struct sr1__step *s, size_t k)
{
    return sr1__trajectory_excluded(s->made[k]) ||
           (s->baselines && isnan(s->baselines[k]));
}

static void keep(struct sr1__step *s)
{
    s->n_kept = 0;
    for (size_t k = 0; k < s->n; k++)
        if (!is_left_out(s, k))
            s->kept[s->n_kept++] = s->made[k];
}

void sr1__step_leave_out(struct sr1__step *s)
{
    size_t group = (size_t)s->group_size;

    s->n_kept = 0;
    for (size_t i = 0; i < s->n; i += group) {
        size_t before = s->n_kept;

        for (size_t k = i; k < i + group; k++) {
            if (is_left_out(s, k))
                continue;
            if (s->baselines)
                s->baselines[s->n_kept] = s->baselines[k];
            s->kept[s->n_kept++] = s->made[k];
        }
        s->report->excluded_groups += s->n_kept == before;
    }
    if (s->n_kept < s->n)
        sr1__log(SR1_LOG_WARN,
                 "step %" PRId64 ": %zu of %zu trajectories are left out: a search of "
                 "theirs or the server that generates them failed, or their reward could "
                 "not be had",
                 s->tr->step + 1, s->n - s->n_kept, s->n);
}

sr1_status sr1__step_explore(struct sr1__step *s)
{
    SR1__TRY(roll_out(s));
    if (s->tr->set.estimator.needs & SR1_ADVANTAGE_NEEDS_BASELINES)
        SR1__TRY(roll_out_greedily(s));
    keep(s);
    return SR1_OK;
}
