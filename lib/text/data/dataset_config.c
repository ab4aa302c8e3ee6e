/* text/data/dataset_config.c - which rows a configuration means by "train", "validation",
 * "test".
 */
#include "text/data/dataset.h"

#include "base/error.h"
#include "base/mem.h"
#include "config/choices.h"
#include "config/config.h"

static const char *const file_keys[] = {"train_file", "validation_file", "test_file"};

int sr1__dataset_answers_optional(const sr1_config *c)
{
    const struct sr1__environment_choice *e = sr1__environment_choice(c);

    return sr1__config_bool(c, "answers_optional") || (e && e->judged_by_tests);
}

/* The files of a key as one data set. */
static sr1_status open_files(sr1_dataset **out, const sr1_config *c, const char *key)
{
    sr1_dataset_options o = {0};
    char **paths = NULL;
    size_t n = 0;
    sr1_status status;

    o.struct_size = sizeof o;
    o.question_field = sr1__config_str(c, "question_field");
    o.answer_field = sr1__config_str(c, "answer_field");
    o.id_field = sr1__config_str(c, "id_field");
    o.answers_optional = sr1__dataset_answers_optional(c);
    o.history_field = sr1__config_str(c, "history_field");
    SR1__TRY(sr1__config_list(c, key, &paths, &n));
    status = sr1_dataset_open(out, (const char *const *)paths, n, &o);
    sr1__free(paths);
    return status;
}

sr1_status sr1__dataset_configured(sr1_dataset **out, const sr1_config *config,
                                   int32_t part)
{
    double validation = sr1__config_real(config, "validation_split");
    double test = sr1__config_real(config, "test_split");
    const double fraction[] = {1.0 - validation - test, validation, test};
    const char *key = file_keys[part], *train_key = file_keys[SR1_PART_TRAIN];
    const char *train = sr1__config_str(config, train_key);
    sr1_dataset *whole = NULL;
    sr1_status status;

    if (part != SR1_PART_TRAIN && sr1__config_str(config, key)[0])
        return open_files(out, config, key);
    if (!train[0] || fraction[part] <= 0.0)
        return sr1__fail(SR1_E_NOT_FOUND, "no data: set %s", key);
    if (validation + test <= 0.0)
        return open_files(out, config, train_key);
    SR1__TRY(open_files(&whole, config, train_key));
    status = sr1_dataset_split(out, whole, validation, test,
                               (uint64_t)sr1__config_int(config, "seed"), part);
    sr1_dataset_free(whole);
    return sr1__context(status, "%s", train);
}
