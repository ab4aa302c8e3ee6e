/* signal/reward/reward_set.h - a set of weighted rewards. */
#ifndef SR1__REWARD_REWARD_SET_H
#define SR1__REWARD_REWARD_SET_H

#include "base/life.h"
#include "signal/reward/reward_context.h"

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
    uint64_t keys; /* hash of what a configuration says of them; 0: nothing */
    struct sr1__life life;
};

/* The name of a reward of the set that compares with gold answers; NULL: none does. */
const char *sr1__reward_set_comparing(const sr1_reward_set *set);

#endif
