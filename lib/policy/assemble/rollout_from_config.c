/* policy/assemble/rollout_from_config.c - a rollout of a configuration. */
#include "policy/assemble/assemble.h"

static sr1_status complete_rollout(sr1_rollout *r, const sr1_config *c)
{
    struct sr1__env_parts parts = {0};
    sr1_status st = sr1__env_parts_open(&parts, r, c);

    if (st == SR1_OK)
        st = sr1__rollout_complete(r, c, &parts);
    sr1__env_parts_free(&parts);
    return st;
}

static sr1_status open_rollout(sr1_rollout **out, const sr1_config *config,
                               const struct sr1__rollout_given *given)
{
    sr1_rollout *r = NULL;
    sr1_status st;

    if (!out || !config)
        return sr1__fail(SR1_E_INVALID, "rollout: out and config are required");
    SR1__TRY(sr1__rollout_begin(&r, config, given));
    st = complete_rollout(r, config);
    if (st != SR1_OK) {
        sr1_rollout_free(r);
        return st;
    }
    *out = r;
    return SR1_OK;
}

sr1_status sr1_rollout_new(sr1_rollout **out, const sr1_config *config, sr1_model *model,
                           sr1_tokenizer *tokenizer, sr1_search *search)
{
    struct sr1__rollout_given given = {
        .model = model, .tokenizer = tokenizer, .search = search};

    return open_rollout(out, config, &given);
}

sr1_status sr1__rollout_new_trained(sr1_rollout **out, const sr1_config *config,
                                    sr1_search *search)
{
    struct sr1__rollout_given given = {.search = search, .trained = 1};

    return open_rollout(out, config, &given);
}
