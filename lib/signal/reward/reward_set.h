/* signal/reward/reward_set.h - a set of weighted rewards. */
#ifndef SR1__REWARD_REWARD_SET_H
#define SR1__REWARD_REWARD_SET_H

#include "base/buf.h"
#include "base/life.h"
#include "signal/reward/reward_context.h"
#include "signal/reward/source_rewards.h"

/* Bytes of a reward's name, which metrics and messages hold whole. */
#define SR1__REWARD_NAME_MAX 200

struct sr1__reward_entry {
    char *name;
    double weight;
    sr1_reward_ops ops;
    void *self;
};

/* Is there a built-in reward of that name? */
int sr1__reward_is_builtin(const char *name);

struct sr1_reward_set {
    struct sr1__reward_context context;
    struct sr1__reward_entry *entries;
    size_t n;
    struct sr1__source_rewards sources;
    uint64_t keys; /* hash of what a configuration says of them; 0: nothing */
    struct sr1__life life;
};

int sr1__reward_set_has(const sr1_reward_set *set, struct sr1__str name);

/* *name: a reward of the set that compares with gold answers and scores the rows of a
 * data source; NULL: none does. SR1_E_CONFIG: no rewards are named for that source. */
sr1_status sr1__reward_set_comparing(const sr1_reward_set *set, const char *source,
                                     const char **name);

/* Append the answer in a worked solution, as the first reward of the set that reads
 * solutions and scores the trajectory's row compares it; nothing where the solution has
 * none. *found 0: no reward reads it. */
sr1_status sr1__reward_set_extract(const sr1_reward_set *set, const sr1_trajectory *t,
                                   struct sr1__buf *out, int *found);

/* SR1_E_CONFIG: a data source is to be scored by a reward that is not in the set. */
sr1_status sr1__reward_set_check_sources(const sr1_reward_set *set);

#endif
