/* reward/set.h - a set of weighted rewards. */
#ifndef SR1__REWARD_SET_H
#define SR1__REWARD_SET_H

#include "reward/context.h"

struct sr1__reward_entry {
    char *name;
    double weight;
    sr1_reward_ops ops;
    void *self;
};

struct sr1_reward_set {
    struct sr1__reward_context context;
    struct sr1__reward_entry *entries;
    size_t n;
};

#endif
