/* train/save_model.h - models as Hugging Face folders, written by all ranks at once where
 * states are sharded: each some of the files. */
#ifndef SR1__TRAIN_SAVE_MODEL_H
#define SR1__TRAIN_SAVE_MODEL_H

#include "train/internal.h"

/* This rank's share of the policy, with its tokenizer, or of another model. Where states
 * are not sharded one rank calls it and writes all. */
sr1_status sr1__save_model_together(sr1_trainer *tr, const sr1_model *m,
                                    const char *folder);
/* The weights of a folder into a model of their shape, in its type. */
sr1_status sr1__read_model_back(sr1_model *m, const char *folder);

#endif
