/* train/expand_levels.c - the turns of trajectories at the thinking levels that they did
 * not choose, for estimators that compare them. */
#include "train/step_batch.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#define NEEDS (SR1_ADVANTAGE_NEEDS_TURN_TAGS | SR1_ADVANTAGE_NEEDS_CONFIDENCES)

/* Do the rewards of its group differ from its own? */
static int differs_in_group(const struct sr1__batch_view *v, size_t i)
{
    uint64_t key = sr1_trajectory_group_key(v->t[i]);
    double reward = sr1_trajectory_reward(v->t[i]);

    for (size_t k = 0; k < v->n; k++)
        if (sr1_trajectory_group_key(v->t[k]) == key &&
            sr1_trajectory_reward(v->t[k]) != reward)
            return 1;
    return 0;
}

/* Whose steps are compared: all, or those of successes in groups of unequal rewards, as
 * the published code has it; none where only the levels themselves are asked for. */
static int is_wanted(const struct sr1__settings *set, const struct sr1__batch_view *v,
                     size_t i)
{
    if (!(set->estimator.needs & SR1_ADVANTAGE_NEEDS_CONFIDENCES))
        return 0;
    return !set->levels_informative ||
           (sr1_trajectory_reward(v->t[i]) > 0 && differs_in_group(v, i));
}

/* What became of steps at the other levels, and the name of its figure. */
static const struct {
    const char *figure;
    size_t outcome;
} outcomes[] = {{"levels_compared", SR1__BRANCH_COMPARED},
                {"levels_left_out", SR1__BRANCH_EXCLUDED},
                {"levels_unread", SR1__BRANCH_UNPARSED},
                {"levels_too_long", SR1__BRANCH_TRUNCATED},
                {"levels_no_action", SR1__BRANCH_NO_ACTION},
                {"levels_malformed", SR1__BRANCH_MALFORMED},
                {"levels_no_room", SR1__BRANCH_CONTEXT_FULL}};

static void add_level_metrics(const struct sr1__level_branch_stats *stats,
                              struct sr1_step_metrics *m)
{
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++)
        sr1__metrics_add(m, outcomes[i].figure,
                         (double)stats->outcomes[outcomes[i].outcome], SR1__LAST);
    sr1__metrics_add(m, "level_tokens", (double)stats->tokens_made, SR1__LAST);
}

static sr1_status expand_wanted(struct sr1__step_batch *b,
                                const struct sr1__batch_view *v, uint8_t *wanted,
                                struct sr1__level_branch_step *levels)
{
    struct sr1__level_branch_options o = b->tr->set.levels;
    struct sr1__level_branch_stats stats;
    uint64_t seed = sr1__step_seed(b->tr, 0);

    o.seed = sr1__hash64("levels", 6, seed);
    for (size_t i = 0; i < v->n; i++)
        wanted[i] = (uint8_t)is_wanted(&b->tr->set, v, i);
    SR1__TRY(sr1__rollout_level_branches(b->tr->rollout, v->t, v->n, wanted, &o, levels,
                                         &stats));
    add_level_metrics(&stats, b->metrics);
    return SR1_OK;
}

sr1_status sr1__expand_levels(struct sr1__step_batch *b, const struct sr1__batch_view *v,
                              struct sr1__level_branch_step **out)
{
    double began = sr1__now();
    size_t turns = 0;
    uint8_t *wanted;
    sr1_status st;

    if (!(b->tr->set.estimator.needs & NEEDS))
        return SR1_OK;
    for (size_t i = 0; i < v->n; i++)
        turns += (size_t)sr1_trajectory_turn_count(v->t[i]);
    wanted = sr1__calloc(v->n + 1, 1);
    *out = sr1__calloc(turns + 1, sizeof **out);
    st = wanted && *out ? expand_wanted(b, v, wanted, *out)
                        : sr1__fail_nomem("thinking levels");
    sr1__free(wanted);
    sr1__metrics_add(b->metrics, "seconds_levels", sr1__now() - began, SR1__LAST);
    return st;
}
