/* model/load.h - a model's weights from and to a Hugging Face folder. */
#ifndef SR1__MODEL_LOAD_H
#define SR1__MODEL_LOAD_H

#include "model/model.h"

sr1_status sr1__model_load(sr1_model **out, const char *folder, int32_t dtype,
                           sr1__device device);
sr1_status sr1__model_store(const sr1_model *m, const char *folder);

#endif
