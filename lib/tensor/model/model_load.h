/* tensor/model/model_load.h - load a model's weights from and save them to a Hugging Face
 * folder. */
#ifndef SR1__MODEL_MODEL_LOAD_H
#define SR1__MODEL_MODEL_LOAD_H

#include "tensor/model/model.h"

/* A model, or the base of an adapter's folder with the adapter on it. base: that base's
 * folder, NULL or "" for the one that the adapter names (config/model_folder.h); of no
 * meaning to whole models. dtype -1: that of the stored weights. */
sr1_status sr1__model_load(sr1_model **out, const char *folder, const char *base,
                           int32_t dtype, sr1__device device);
/* Copy a stored tensor into one of its shape, converting its type; a tensor with values
 * that are not finite is refused by name (SR1_E_NUMERIC). */
sr1_status sr1__weight_load(const struct sr1__weight *w, sr1_tensor *to,
                            sr1__device device);
/* The place and type of a model's weights: the fields device, dtype and threads of
 * sr1_model_options. */
struct sr1__model_place {
    int32_t dtype;
    sr1__device device;
};
sr1_status sr1__model_place(struct sr1__model_place *out, const char *device,
                            const char *dtype, int32_t threads);
/* SR1_OK for a folder that exists, else SR1_E_NOT_FOUND with the command that would
 * download it; kind is "model", "encoder". */
sr1_status sr1__model_folder_check(const char *kind, const char *folder);
/* The whole model; an adapter is merged into it. */
sr1_status sr1__model_store(const sr1_model *m, const char *folder);
/* The same by several processes at once (sr1__weights_save_part). An adapter is one
 * file, of part 0. */
sr1_status sr1__model_store_part(const sr1_model *m, const char *folder,
                                 struct sr1__weight_part part);

#endif
