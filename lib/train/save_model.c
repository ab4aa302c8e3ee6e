/* train/save_model.c - models as Hugging Face folders, and back. */
#include "train/save_model.h"

#include "tensor/model/model_load.h"

#include <searchr1/ext/tokenizer.h>

sr1_status sr1_trainer_save_model(sr1_trainer *tr, const char *folder)
{
    SR1__REQUIRE(tr && folder, "save: trainer and folder");
    SR1__TRY(sr1_model_save(tr->model, folder));
    return sr1_tokenizer_save(sr1_rollout_tokenizer(tr->rollout), folder);
}

sr1_status sr1__save_model_together(sr1_trainer *tr, const sr1_model *m,
                                    const char *folder)
{
    struct sr1__weight_part part = {0, 0};

    if (tr->sharded) {
        part.part = (size_t)sr1__dist_rank(tr->dist);
        part.parts = (size_t)sr1__dist_size(tr->dist);
    }
    SR1__TRY(sr1__model_store_part(m, folder, part));
    return part.part == 0 && m == tr->model
               ? sr1_tokenizer_save(sr1_rollout_tokenizer(tr->rollout), folder)
               : SR1_OK;
}

sr1_status sr1__read_model_back(sr1_model *m, const char *folder)
{
    sr1_model_options o = {.struct_size = sizeof(o),
                           .device = sr1_model_device(m),
                           .dtype = sr1_model_dtype(m)};
    sr1_model *loaded = NULL;
    sr1_status st;

    SR1__TRY(sr1_model_open(&loaded, folder, &o));
    st = sr1__model_copy_weights(m, loaded);
    sr1_model_free(loaded);
    return st;
}
