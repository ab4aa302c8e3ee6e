/* train/save_model.c - the policy as a Hugging Face folder. */
#include "train/internal.h"

#include <searchr1/ext/tokenizer.h>

sr1_status sr1_trainer_save_model(sr1_trainer *tr, const char *folder)
{
    SR1__REQUIRE(tr && folder, "save: trainer and folder");
    SR1__TRY(sr1_model_save(tr->model, folder));
    return sr1_tokenizer_save(sr1_rollout_tokenizer(tr->rollout), folder);
}
