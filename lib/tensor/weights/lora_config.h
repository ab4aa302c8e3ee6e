/* tensor/weights/lora_config.h - adapter_config.json of a LoRA adapter as peft writes it:
 * which linear layers of a decoder have an adapter, of which rank and scale. Kinds of
 * adapters that compute something else are refused by the name of their key. */
#ifndef SR1__WEIGHTS_LORA_CONFIG_H
#define SR1__WEIGHTS_LORA_CONFIG_H

#include "base/error.h"

#include <stdint.h>

#define SR1__LORA_CONFIG_FILE "adapter_config.json"
#define SR1__LORA_WEIGHTS_FILE "adapter_model.safetensors"
#define SR1__LORA_RANK_MAX 4096

/* The linear layers of a decoder layer. Those of one fused matrix are neighbours. */
enum {
    SR1__LORA_Q,
    SR1__LORA_K,
    SR1__LORA_V,
    SR1__LORA_O,
    SR1__LORA_GATE,
    SR1__LORA_UP,
    SR1__LORA_DOWN,
    SR1__LORA_MODULES
};

/* y = x W^T + s (x A^T) B^T  with A [rank, in], B [out, rank], s = alpha / rank. */
struct sr1__lora_config {
    int64_t rank;
    double alpha;
    int32_t rslora;   /* s = alpha / sqrt(rank) */
    uint32_t targets; /* bits 1 << SR1__LORA_* */
};

/* "self_attn.q_proj": its place in a decoder layer. */
const char *sr1__lora_module(int32_t module);
double sr1__lora_scale(const struct sr1__lora_config *c);

/* Names with commas between them ("q_proj, v_proj"), or "all-linear"; key is what errors
 * call the list. */
sr1_status sr1__lora_targets_parse(const char *list, const char *key, uint32_t *out);

/* Does the folder hold an adapter? */
sr1_status sr1__lora_is_folder(const char *folder, int *yes);

/* Read folder/adapter_config.json. *base is the folder of the weights under the adapter,
 * as the file names it; caller frees with sr1__free. */
sr1_status sr1__lora_config_load(struct sr1__lora_config *out, char **base,
                                 const char *folder);
/* The text of the file; name is what errors call it. */
sr1_status sr1__lora_config_parse(struct sr1__lora_config *out, char **base,
                                  const char *text, size_t n, const char *name);
/* Write folder/adapter_config.json as peft reads it; the folder exists. base may be NULL.
 */
sr1_status sr1__lora_config_save(const struct sr1__lora_config *c, const char *base,
                                 const char *folder);

#endif
