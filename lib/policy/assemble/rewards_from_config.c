/* policy/assemble/rewards_from_config.c - the rewards that a configuration names. */
#include "config/config.h"

#include "base/error.h"
#include "environment/critique/problems_from_config.h"

#include <searchr1/ext/code.h>
#include <searchr1/ext/embed.h>
#include <searchr1/rollout.h>
#include <searchr1/ext/reward_set.h>
#include <searchr1/ext/seed_rewards.h>

#include <string.h>

/* NULL where the configuration names none. */
static sr1_status open_configured_reward_embedder(sr1_embedder **out, const sr1_config *c)
{
    const char *folder = sr1__config_str(c, "reward_embedder");
    sr1_encoder_options o;

    *out = NULL;
    if (!*folder)
        return SR1_OK;
    sr1_encoder_options_init(&o);
    o.device = sr1__config_str(c, "device");
    return sr1__context(sr1_embedder_open(out, folder, &o), "reward_embedder");
}

/* Is a name in a list joined by commas? */
static int is_reward_listed(const char *list, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = list; (at = strstr(at, name)) != NULL; at += n)
        if ((at == list || strchr(", ", at[-1])) && strchr(", ", at[n]))
            return 1;
    return 0;
}

/* Problems and what runs programs, for the rewards that need them. */
static sr1_status open_reward_checker(sr1_reward_options *o, const sr1_config *c)
{
    const char *rewards = sr1__config_str(c, "rewards");

    if (!is_reward_listed(rewards, "execution") &&
        !is_reward_listed(rewards, "judgement"))
        return SR1_OK;
    SR1__TRY(sr1__problems_from_config(&o->problems, c));
    return sr1_checker_open(&o->checker, c);
}

sr1_status sr1_reward_set_open(sr1_reward_set **out, const sr1_config *c)
{
    sr1_status st;
    sr1_reward_scales scales = {.struct_size = sizeof(scales)};
    sr1_reward_options o = {.struct_size = sizeof(o), .scales = &scales};

    if (!out || !c)
        return sr1__fail(SR1_E_INVALID, "rewards: out and config are required");
    sr1_reward_scales_init(&scales);
    scales.format_reward = sr1__config_real(c, "format_reward");
    scales.format_penalty = sr1__config_real(c, "format_penalty");
    scales.answer_reward = sr1__config_real(c, "answer_reward");
    scales.exact_match_bonus = sr1__config_real(c, "exact_match_bonus");
    scales.no_content_reward = sr1__config_real(c, "no_content_reward");
    scales.similarity_threshold = sr1__config_real(c, "similarity_threshold");
    scales.structure_format_score = sr1__config_real(c, "structure_format_score");
    scales.final_format_score = sr1__config_real(c, "final_format_score");
    scales.retrieval_score = sr1__config_real(c, "retrieval_score");
    scales.closed_thoughts = sr1__config_bool(c, "closed_thoughts");
    scales.no_content_text = sr1__config_str(c, "no_content_text");
    o.rewards = sr1__config_is(c, "rewards", "none") ? "" : sr1__config_str(c, "rewards");
    o.weights = sr1__config_str(c, "reward_weights");
    o.protocol = sr1__config_protocol(c);
    o.judgement_required = sr1__config_bool(c, "judgement_required");
    st = open_configured_reward_embedder(&o.embedder, c);
    if (st == SR1_OK)
        st = open_reward_checker(&o, c);
    if (st == SR1_OK)
        st = sr1_reward_set_new(out, &o);
    sr1_embedder_free(o.embedder);
    sr1_checker_free(o.checker);
    sr1_problems_free(o.problems);
    return st;
}
