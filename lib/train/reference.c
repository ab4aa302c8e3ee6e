/* train/reference.c - the frozen reference: the policy that training began with. It may
 * lie on the host, and is on the device for its own passes only; its matrices may be
 * int8. With the key reference_sync_steps it moves towards the policy each so many steps
 * (Gorbatovski et al. 2024, Learn Your Reference Model for Real Good Alignment; TRL's
 * SyncRefModelCallback):
 *
 *     reference <- alpha * policy + (1 - alpha) * reference */
#include "train/save_model.h"

#include "policy/rollout_internal.h"

#include <string.h>

/* The weights as loaded, where the reviser of critiques holds them already in this type
 * and they need not move; else NULL. They are its own: no update reaches them. */
static sr1_model *find_loaded(const sr1_trainer *tr, int32_t dtype)
{
    const char *proxy = sr1__config_str(tr->config, "proxy_model");
    sr1_model *m = sr1__rollout_reviser(tr->rollout);
    int same =
        !*proxy || strcmp(proxy, sr1__config_str(tr->config, "model_name_or_path")) == 0;

    if (!m || !same || tr->set.reference_sync_steps > 0 ||
        m->dtype != (dtype < 0 ? tr->model->dtype : dtype))
        return NULL;
    return m;
}

/* Does it have weights of its own, which can lie on the host? */
static int is_own(const sr1_trainer *tr, const sr1_model *loaded, int32_t dtype)
{
    int same = dtype < 0 || dtype == tr->model->dtype;

    return !loaded && !(tr->model->adapter && same) && tr->model->device != SR1__CPU;
}

/* A copy of its own, int8 in part. */
static sr1_status open_quantized(sr1_trainer *tr, const sr1_model *loaded, int32_t dtype)
{
    int offload = sr1__config_bool(tr->config, "reference_offload") &&
                  tr->model->device != SR1__CPU;
    sr1_model *frozen = NULL;

    if (loaded || tr->model->adapter)
        return sr1__fail(
            SR1_E_CONFIG,
            "reference_quantization %s: the reference takes no memory of its "
            "own, as %s; set reference_quantization to none",
            sr1__config_str(tr->config, "reference_quantization"),
            loaded ? "it is the proxy_model, which is loaded anyway"
                   : "it is the model without its adapter");
    SR1__TRY(sr1__context(sr1__model_quantize(&frozen, tr->model, dtype,
                                              offload ? SR1__CPU : tr->model->device),
                          "reference"));
    if (!offload)
        return sr1__replicas_new(&tr->references, frozen, tr->n_workers);
    tr->host_reference = frozen;
    return SR1_OK;
}

sr1_status sr1__reference_open(sr1_trainer *tr)
{
    const char *name = sr1__config_str(tr->config, "reference_dtype");
    sr1_model *frozen = NULL, *loaded;
    int32_t dtype = -1;

    if (!tr->set.frozen_reference)
        return SR1_OK;
    if (strcmp(name, "auto") != 0)
        SR1__TRY(sr1__torch_dtype_parse(name, &dtype));
    if (tr->set.reference_sync_steps > 0 && tr->model->adapter)
        return sr1__fail(SR1_E_CONFIG,
                         "reference_sync_steps: the model has an adapter, without which "
                         "it is the reference, and that does not move; set "
                         "reference_sync_steps to 0, or merge the adapter first");
    loaded = find_loaded(tr, dtype);
    if (!sr1__config_is(tr->config, "reference_quantization", "none"))
        return open_quantized(tr, loaded, dtype);
    if (sr1__config_bool(tr->config, "reference_offload") && is_own(tr, loaded, dtype))
        return sr1__model_clone_to(&tr->host_reference, tr->model, dtype, SR1__CPU);
    SR1__TRY(loaded ? sr1__model_replica(&frozen, loaded)
                    : sr1__model_freeze(&frozen, tr->model, dtype));
    return sr1__replicas_new(&tr->references, frozen, tr->n_workers);
}

sr1_model *sr1__reference_weights(const sr1_trainer *tr)
{
    if (tr->host_reference)
        return tr->host_reference;
    return tr->references ? tr->references[0] : NULL;
}

/* What was made of its weights is old. */
static void touch_reference(sr1_trainer *tr)
{
    tr->reference_moved = 1;
    for (int32_t i = 0; tr->references && i < tr->n_workers; i++)
        sr1__model_touch(tr->references[i]);
}

sr1_status sr1__reference_move(sr1_trainer *tr, int64_t step)
{
    sr1_model *reference = sr1__reference_weights(tr);
    int64_t every = tr->set.reference_sync_steps;
    sr1_status st;

    if (!reference || every == 0 || step % every != 0)
        return SR1_OK;
    tr->in_update = 1;
    st = sr1__model_mix_weights(reference, tr->model, tr->set.reference_mixup_alpha);
    touch_reference(tr);
    return sr1__context(st, "reference");
}

sr1_status sr1__reference_restore(sr1_trainer *tr, const char *folder)
{
    SR1__TRY(sr1__read_model_back(sr1__reference_weights(tr), folder));
    touch_reference(tr);
    return SR1_OK;
}

sr1_status sr1__reference_raise(sr1_trainer *tr)
{
    sr1_model *there = NULL;

    if (!tr->host_reference)
        return SR1_OK;
    SR1__TRY(sr1__context(
        sr1__model_clone_to(&there, tr->host_reference, -1, tr->model->device),
        "reference"));
    return sr1__replicas_new(&tr->references, there, tr->n_workers);
}

void sr1__reference_lower(sr1_trainer *tr)
{
    if (!tr->host_reference)
        return;
    sr1__replicas_free(tr->references, tr->n_workers);
    tr->references = NULL;
}

void sr1__reference_close(sr1_trainer *tr)
{
    sr1__replicas_free(tr->references, tr->n_workers);
    sr1_model_free(tr->host_reference);
}
