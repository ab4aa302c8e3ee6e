/* train/state_size.c - compute the size of a checkpoint. */
#include "train/internal.h"

#include <searchr1/ext/model_details.h>

int64_t sr1__state_model_bytes(const sr1_model *m)
{
    return sr1_model_info(m, SR1_MODEL_TRAINED) *
           (int64_t)sr1__torch_dtype_size(t_dtype(m->params[0].tensor));
}

static int64_t learner_bytes(const struct sr1__learner *l)
{
    return l->optimizer ? sr1__state_model_bytes(l->replicas[0]) +
                              sr1__optimizer_whole_bytes(l->optimizer)
                        : 0;
}

int64_t sr1__served_bytes(const sr1_trainer *tr)
{
    const sr1_model *m = tr->model;

    switch (sr1__weight_sync_form(tr)) {
    case SR1__SYNC_MODELS:
        return sr1_model_info(m, SR1_MODEL_PARAMETERS) *
               (int64_t)sr1__torch_dtype_size(m->dtype);
    case SR1__SYNC_ADAPTERS:
        return sr1__state_model_bytes(m);
    default:
        return 0;
    }
}

/* Weights that are renewed at every step are old when the step is over. */
int64_t sr1__served_kept_bytes(const sr1_trainer *tr)
{
    return sr1__config_int(tr->config, "openai_sync_interval") > 1 ? sr1__served_bytes(tr)
                                                                   : 0;
}

/* Of a reference that moves. */
static int64_t reference_bytes(const sr1_trainer *tr)
{
    const sr1_model *m = sr1__reference_weights(tr);

    return m && tr->set.reference_sync_steps > 0 ? sr1__state_model_bytes(m) : 0;
}

int64_t sr1__state_bytes(const sr1_trainer *tr)
{
    return learner_bytes(&tr->policy) + learner_bytes(&tr->critic) + reference_bytes(tr) +
           sr1__served_kept_bytes(tr);
}
