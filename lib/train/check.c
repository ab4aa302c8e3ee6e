/* train/check.c - find the settings that sr1_trainer_run would refuse, before anything is
 * opened. */
#include "train/internal.h"

#include "base/mem.h"
#include "config/choices.h"
#include "train/mlflow.h"

static sr1_status check_run_settings(sr1_config *c)
{
    struct sr1__settings set;

    SR1__TRY(sr1__settings_resolve(c));
    SR1__TRY(sr1_config_validate(c));
    SR1__TRY(sr1__settings_read(&set, c));
    if (!sr1__config_is(c, "mlflow_tracking_uri", "env")) /* the first rank's alone */
        SR1__TRY(sr1__mlflow_check(c));
    return sr1__config_imitates(c) ? SR1_OK : sr1__engine_check(c);
}

static sr1_status check_data(const sr1_config *c)
{
    if (sr1__config_imitates(c) || *sr1__config_str(c, "train_file"))
        return SR1_OK;
    return sr1__fail(SR1_E_CONFIG,
                     "train_file is not set; name the file of questions to train on");
}

static sr1_status check_folder(const sr1_config *c)
{
    char *folder = sr1__folder_name(c);
    sr1_status st = folder ? sr1__folder_check_free(folder) : sr1__fail_nomem("path");

    sr1__free(folder);
    return st;
}

sr1_status sr1_trainer_check(const sr1_config *config)
{
    sr1_config *c = NULL;
    sr1_status st;

    SR1__REQUIRE(config, "trainer: config");
    SR1__TRY(sr1_config_copy(&c, config));
    st = check_run_settings(c);
    if (st == SR1_OK)
        st = check_data(c);
    if (st == SR1_OK)
        st = check_folder(c);
    sr1_config_free(c);
    return st;
}
