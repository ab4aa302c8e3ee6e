/* policy/assemble/adapter_from_config.c - the LoRA adapter of a policy that is trained.
 */
#include "policy/assemble/assemble.h"

#include "tensor/model/adapter.h"

#include <stdio.h>

#define KEY_MAX 32

static const char *join_key(char key[KEY_MAX], const char *before, const char *name)
{
    snprintf(key, KEY_MAX, "%s%s", before, name);
    return key;
}

sr1_status sr1__lora_configured(struct sr1__lora_config *out, const char *before,
                                const sr1_config *c)
{
    char key[KEY_MAX];
    struct sr1__lora_config lora = {
        .rank = sr1__config_int(c, join_key(key, before, "lora_rank")),
        .alpha = sr1__config_real(c, join_key(key, before, "lora_alpha")),
        .dropout = sr1__config_real(c, "lora_dropout")};

    join_key(key, before, "lora_targets");
    SR1__TRY(sr1__lora_targets_parse(sr1__config_str(c, key), key, &lora.targets));
    *out = lora;
    return SR1_OK;
}

/* model_name_or_path is an adapter, which is trained on; its own file says what it is. Of
 * the targets that are asked for it has those that are there. */
static sr1_status check_loaded(const struct sr1__lora_config *given,
                               const struct sr1__hf_config *shape,
                               const struct sr1__lora_config *asked, const sr1_config *c)
{
    uint32_t targets = asked->targets & sr1__lora_targets_there(shape);
    const char *differs = NULL;

    if (asked->rank != given->rank)
        return sr1__fail(SR1_E_CONFIG,
                         "model_name_or_path holds an adapter of rank %lld and lora_rank "
                         "is %lld; set lora_rank: %lld to train the adapter on, or merge "
                         "it into its base first (sr1-data merge)",
                         (long long)given->rank, (long long)asked->rank,
                         (long long)given->rank);
    if (sr1__config_is_set(c, "lora_alpha") && asked->alpha != given->alpha)
        differs = "lora_alpha";
    if (sr1__config_is_set(c, "lora_targets") && targets != given->targets)
        differs = "lora_targets";
    if (!differs)
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "%s is not that of the adapter in model_name_or_path; leave it out",
                     differs);
}

sr1_status sr1__adapter_check(const struct sr1__lora_config *held,
                              const struct sr1__hf_config *shape, const sr1_config *c)
{
    struct sr1__lora_config asked;

    SR1__TRY(sr1__lora_configured(&asked, "", c));
    return check_loaded(held, shape, &asked, c);
}

sr1_status sr1__adapter_configured(sr1_model *m, const sr1_config *c)
{
    struct sr1__lora_config lora;

    SR1__TRY(sr1__lora_configured(&lora, "", c));
    if (lora.rank > 0 || m->adapter)
        SR1__TRY(sr1__lora_base_check(m->folder));
    if (m->adapter) {
        SR1__TRY(check_loaded(&m->adapter->config, &m->config, &lora, c));
        m->adapter->config.dropout = lora.dropout;
        return SR1_OK;
    }
    if (lora.rank == 0)
        return SR1_OK;
    return sr1__context(sr1__model_adapt(m, &lora, (uint64_t)sr1__config_int(c, "seed")),
                        "lora_rank");
}
