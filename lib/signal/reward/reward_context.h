/* signal/reward/reward_context.h - what built-in rewards are computed by: their self. */
#ifndef SR1__REWARD_REWARD_CONTEXT_H
#define SR1__REWARD_REWARD_CONTEXT_H

#include "environment/env/protocol.h"
#include "signal/reward/execution_score.h"

#include <searchr1/ext/embed.h>
#include <searchr1/ext/judge.h>
#include <searchr1/ext/seed_rewards.h>
#include <searchr1/reward.h>

#include <stdatomic.h>

struct sr1__reward_context {
    const struct sr1__protocol *protocol;
    sr1_reward_scales scales;
    char *no_content_text;
    char *gold_ids_field;
    sr1_embedder *embedder; /* NULL: none */
    sr1_judge *judge;       /* NULL: none */
    struct sr1__execution execution;
    /* Once it is not 0, programs are not waited for; NULL: none. */
    const atomic_int *stop;
};

#endif
