/* tensor/model/adapter.h - a LoRA adapter on the linear layers of a decoder:
 *
 *     y = x W^T + s (x A^T) B^T      A [rank, in], B [out, rank], fp32
 *
 * Passes of tensors compute it by sr1__lora_add, the C pass of a CPU by host_pass.c. */
#ifndef SR1__MODEL_ADAPTER_H
#define SR1__MODEL_ADAPTER_H

#include "tensor/model/model.h"

struct sr1__adapter {
    struct sr1__lora_config config;
    struct sr1__named *params; /* peft's names: A, B of each layer in turn, then a
                                  critic's value head; owns both */
    size_t n_params;
    size_t n_lora; /* without the head */
    const struct sr1__lora *
        *by_view; /* [n_views] of the model; NULL: that view has none */
};

/* The targets that some layer of a model has, as bits 1 << SR1__LORA_*: experts have no
 * adapters. An adapter's own are of these. */
uint32_t sr1__lora_targets_there(const struct sr1__hf_config *c);
/* Give m an adapter that is yet to be filled, or, where shares is a model with one, that
 * shares its tensors. A critic's trains its value head too. The configuration is copied.
 */
sr1_status sr1__adapter_attach(sr1_model *m, const struct sr1__lora_config *config,
                               const sr1_model *shares);
void sr1__adapter_free(struct sr1__adapter *a); /* NULL is fine */

/* A fresh one, which changes nothing yet: B is zero, A uniform in 1 / sqrt(in) as peft's
 * (Kaiming with a = sqrt 5), a function of the seed. */
sr1_status sr1__model_adapt(sr1_model *m, const struct sr1__lora_config *config,
                            uint64_t seed);

/* Is every B zero, so that the adapter changes nothing? */
sr1_status sr1__adapter_is_zero(const sr1_model *m, int *yes);

/* n linear layers one above the other in one matrix. */
struct sr1__lora_span {
    int32_t layer, module, n;
};
/* y, the product of x [N,in] with such a matrix, with what their adapters add to it; y
 * itself where none has one. linear as in struct sr1__attention; dropout may be NULL. */
sr1_tensor *sr1__lora_add(sr1_scope *s, const sr1_model *m,
                          const struct sr1__attention *by,
                          const struct sr1__lora_dropout *dropout, sr1_tensor *x,
                          sr1_tensor *y, struct sr1__lora_span span);

/* View i of the model with its adapter in it: W + s B A, in the model's type. */
sr1_tensor *sr1__adapter_merged(sr1_scope *s, const sr1_model *m, size_t i);

/* Read the tensors of folder/adapter_model.safetensors into the model's adapter: exactly
 * those, each finite and of its shape. */
sr1_status sr1__adapter_read(sr1_model *m, const char *folder);
/* Give m the adapter of a folder. The shapes in the file are checked before there is room
 * for them. */
sr1_status sr1__adapter_open(sr1_model *m, const struct sr1__lora_config *config,
                             const char *folder);
/* SR1_E_INVALID: a merged model in the folder would replace the base or an adapter. */
sr1_status sr1__adapter_check_merged(const sr1_model *m, const char *folder);
/* Write the adapter as peft does. SR1_E_INVALID: the folder is the base's own. */
sr1_status sr1__adapter_store(const sr1_model *m, const char *folder);

#endif
