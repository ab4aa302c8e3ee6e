/* train/critic.c - open the critic, whose weights begin with the policy's or those of a
 * folder and which predicts the value of a state. */
#include "train/internal.h"

#include "tensor/model/adapter.h"
#include "tensor/model/model_load.h"

/* A critic as stored, or a language model whose value head is yet to learn. */
static sr1_status load_critic(sr1_trainer *tr, const char *folder, sr1_model **out)
{
    sr1_model *stored = NULL;
    sr1_status st;

    SR1__TRY(sr1__model_load(&stored, folder, NULL, tr->model->dtype, tr->model->device));
    st = sr1__model_critic(out, stored, -1);
    if (st == SR1_OK && stored->config.vocab_size != tr->model->config.vocab_size) {
        st = sr1__fail(SR1_E_CONFIG,
                       "critic_model '%s' has a vocabulary of %lld, the policy one of "
                       "%lld; they must read the same ids",
                       folder, (long long)stored->config.vocab_size,
                       (long long)tr->model->config.vocab_size);
        sr1_model_free(*out);
        *out = NULL;
    }
    sr1_model_free(stored);
    return st;
}

/* From the policy as it is now. Where both are trained by adapters and that of the policy
 * changes nothing yet, they have one base. */
static sr1_status derive_critic(sr1_trainer *tr, sr1_model **out)
{
    int zero = 0;

    if (tr->model->adapter)
        SR1__TRY(sr1__adapter_is_zero(tr->model, &zero));
    return zero && tr->set.critic_lora.rank > 0
               ? sr1__model_critic_sharing(out, tr->model)
               : sr1__model_critic(out, tr->model, -1);
}

static sr1_status open_model(sr1_trainer *tr)
{
    const char *folder = sr1__config_str(tr->config, "critic_model");
    sr1_model *critic = NULL;

    SR1__TRY(*folder ? load_critic(tr, folder, &critic) : derive_critic(tr, &critic));
    if (tr->set.critic_lora.rank > 0) {
        sr1_status st = sr1__model_adapt(critic, &tr->set.critic_lora, ~tr->set.seed);

        if (st != SR1_OK) {
            sr1_model_free(critic);
            return st;
        }
    }
    return sr1__replicas_new(&tr->critics, critic, tr->n_workers);
}

sr1_status sr1__critic_open(sr1_trainer *tr)
{
    struct sr1__adamw how = sr1__adamw_configured(tr->config);

    if (!(tr->set.estimator.needs & SR1_ADVANTAGE_NEEDS_VALUES))
        return SR1_OK;
    SR1__TRY(sr1__context(open_model(tr), "critic"));
    tr->critic = (struct sr1__learner){
        .name = "critic",
        .mesh = tr->mesh,
        .sharded = tr->sharded,
        .sums_by_rank = tr->sums_by_rank,
        .reshards = tr->reshards,
        .prefetches = tr->prefetches,
        .replicas = tr->critics,
        .n = tr->n_workers,
        .schedule = tr->set.schedule,
        .max_grad_norm = sr1__config_real(tr->config, "critic_max_grad_norm")};
    tr->critic.schedule.rate = sr1__config_real(tr->config, "critic_learning_rate");
    return sr1__learner_open(&tr->critic, &how,
                             sr1__config_real(tr->config, "initial_loss_scale"));
}

void sr1__critic_close(sr1_trainer *tr)
{
    sr1__learner_close(&tr->critic);
    sr1__replicas_free(tr->critics, tr->n_workers);
}
