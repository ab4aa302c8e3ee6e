/* data/configured.c - which rows a configuration means by "train", "validation", "test".
 */
#include "data/dataset.h"

#include "base/error.h"
#include "config/config.h"

static const char *const file_keys[] = {"train_file", "validation_file", "test_file"};

static sr1_status open_file(sr1_dataset **out, const sr1_config *c, const char *path)
{
    sr1_dataset_options o = {0};

    o.struct_size = sizeof o;
    o.question_field = sr1__config_str(c, "question_field");
    o.answer_field = sr1__config_str(c, "answer_field");
    o.id_field = sr1__config_str(c, "id_field");
    o.answers_optional = sr1__config_is(c, "environment", "critique"); /* tests judge */
    o.history_field = sr1__config_str(c, "history_field");
    return sr1_dataset_open(out, &path, 1, &o);
}

sr1_status sr1__dataset_configured(sr1_dataset **out, const sr1_config *config,
                                   int32_t part)
{
    double validation = sr1__config_real(config, "validation_split");
    double test = sr1__config_real(config, "test_split");
    const double fraction[] = {1.0 - validation - test, validation, test};
    const char *path = sr1__config_str(config, file_keys[part]);
    const char *train = sr1__config_str(config, "train_file");
    sr1_dataset *whole = NULL;
    sr1_status status;

    if (part != SR1_PART_TRAIN && path[0])
        return open_file(out, config, path);
    if (!train[0] || fraction[part] <= 0.0)
        return sr1__fail(SR1_E_NOT_FOUND, "no data: set %s", file_keys[part]);
    if (validation + test <= 0.0)
        return open_file(out, config, train);
    SR1__TRY(open_file(&whole, config, train));
    status = sr1_dataset_split(out, whole, validation, test,
                               (uint64_t)sr1__config_int(config, "seed"), part);
    sr1_dataset_free(whole);
    return sr1__context(status, "%s", train);
}
