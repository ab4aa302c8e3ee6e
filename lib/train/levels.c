/* train/levels.c - the steps of trajectories at the thinking levels that they did not
 * choose, for estimators that compare them. */
#include "train/step.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#define NEEDS (SR1_ADVANTAGE_NEEDS_TURN_TAGS | SR1_ADVANTAGE_NEEDS_CONFIDENCES)

/* Do the rewards of its group differ from its own? */
static int differs(const struct sr1__step *s, size_t i)
{
    uint64_t key = sr1_trajectory_group_key(s->kept[i]);
    double reward = sr1_trajectory_reward(s->kept[i]);

    for (size_t k = 0; k < s->n_kept; k++)
        if (sr1_trajectory_group_key(s->kept[k]) == key &&
            sr1_trajectory_reward(s->kept[k]) != reward)
            return 1;
    return 0;
}

/* Whose steps are compared: all, or those of successes in groups of unequal rewards, as
 * the published code has it; none where only the levels themselves are asked for. */
static int is_wanted(const struct sr1__step *s, size_t i)
{
    const struct sr1__settings *set = &s->tr->set;

    if (!(set->estimator.needs & SR1_ADVANTAGE_NEEDS_CONFIDENCES))
        return 0;
    return !set->levels_informative ||
           (sr1_trajectory_reward(s->kept[i]) > 0 && differs(s, i));
}

static void give(const struct sr1__level_stats *stats, sr1_step_report *r)
{
    r->levels_compared = stats->fates[SR1__LEVELS_COMPARED];
    r->levels_left_out = stats->fates[SR1__LEVELS_LEFT_OUT];
    r->levels_unread = stats->fates[SR1__LEVELS_UNREAD];
    r->levels_too_long = stats->fates[SR1__LEVELS_TOO_LONG];
    r->levels_no_action = stats->fates[SR1__LEVELS_NO_ACTION];
    r->levels_malformed = stats->fates[SR1__LEVELS_MALFORMED];
    r->levels_no_room = stats->fates[SR1__LEVELS_NO_ROOM];
    r->level_tokens = stats->tokens_made;
}

static sr1_status compare(struct sr1__step *s, uint8_t *wanted)
{
    struct sr1__level_options o = s->tr->set.levels;
    struct sr1__level_stats stats;
    uint64_t seed = sr1__step_seed(s);

    o.seed = sr1__hash64("levels", 6, seed);
    for (size_t i = 0; i < s->n_kept; i++)
        wanted[i] = (uint8_t)is_wanted(s, i);
    SR1__TRY(sr1__rollout_levels(s->tr->rollout, s->kept, s->n_kept, wanted, &o,
                                 s->levels, &stats));
    give(&stats, s->report);
    return SR1_OK;
}

sr1_status sr1__step_levels(struct sr1__step *s)
{
    double began = sr1__now();
    size_t turns = 0;
    uint8_t *wanted;
    sr1_status st;

    if (!(s->tr->set.estimator.needs & NEEDS))
        return SR1_OK;
    for (size_t i = 0; i < s->n_kept; i++)
        turns += (size_t)sr1_trajectory_turn_count(s->kept[i]);
    wanted = sr1__calloc(s->n_kept + 1, 1);
    s->levels = sr1__calloc(turns + 1, sizeof *s->levels);
    st = wanted && s->levels ? compare(s, wanted) : sr1__fail_nomem("thinking levels");
    sr1__free(wanted);
    s->report->seconds_levels = sr1__now() - began;
    return st;
}
