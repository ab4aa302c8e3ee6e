/* train/updates.h - updates whose gradient can be seen, for tests. */
#ifndef SR1_TESTS_TRAIN_UPDATES_H
#define SR1_TESTS_TRAIN_UPDATES_H

#include "support/tiny.h"

/* In disguise: the step is lr * g / (|g| + 1). */
#define PLAIN_SGD                                                                        \
    "adam_epsilon=1", "adam_beta1=0", "adam_beta2=0", "weight_decay=0", "max_grad_norm=0"

/* Of one pass: weights differ by its gradient, but for the scale. */
#define GRADIENT "update_times=1", PLAIN_SGD, "learning_rate=1"

#define LEVEL_QUERIES 2

/* t[LEVEL_QUERIES * group] of the model, none better than another. */
static inline void roll_level(const char *model, int64_t group, sr1_trajectory **t)
{
    sr1_rollout_options o = {.struct_size = sizeof o, .group_size = group, .seed = 9};
    sr1_query q[LEVEL_QUERIES] = {tiny_query("one?"),
                                  tiny_query("the second, longer one?")};
    sr1_trainer *tr = tiny_trainer(tiny_config(model, NULL));

    OK(sr1_rollout_generate(sr1_trainer_rollout(tr), q, LEVEL_QUERIES, &o, t));
    for (int64_t i = 0; i < LEVEL_QUERIES * group; i++) {
        OK(sr1_trajectory_set_reward(t[i], 1));
        OK(sr1_trajectory_set_advantage(t[i], 0));
    }
    sr1_trainer_free(tr);
}

#endif
