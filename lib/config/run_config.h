/* config/run_config.h - the configuration that a run folder records. */
#ifndef SR1__CONFIG_RUN_CONFIG_H
#define SR1__CONFIG_RUN_CONFIG_H

#include "base/json.h"
#include "config/config.h"

/* One object a line: {"step", "time", "key", "from", "to", "by"}; the values as text. */
#define SR1__CHANGES_FILE "config-changes.jsonl"
#define SR1__CHANGED_BY_RESUME "resume"    /* given when the run was resumed */
#define SR1__CHANGED_BY_FILE "config.json" /* seen there; it holds the value itself */

/* {"starts": [...]}: each time that the run was started. A start that wrote RUN/model has
 * the step of its weights as member SR1__MODEL_STEP, and wrote it at its own last step,
 * "to_step". */
#define SR1__RECORD_FILE "run.json"
#define SR1__RECORD_MAX ((size_t)16 << 20)
#define SR1__MODEL_STEP "model_step"
/* What the run's program gave it beside the configuration: {"engine", "environment",
 * "tools", "rewards"}; the same in the state of a checkpoint. */
#define SR1__GIVEN "given"

/* All values as sr1_config_to_json writes them; caller: json_decref. */
sr1_status sr1__config_to_object(const sr1_config *c, json_t **out);

/* run.json of a run; NULL where it is missing or damaged: it is for reading only. Caller:
 * json_decref. */
json_t *sr1__config_run_record(const char *run);

/* The rows of SR1__CHANGES_FILE as an array, empty if there is no file; caller:
 * json_decref. */
sr1_status sr1__config_changes(json_t **out, const char *run);

/* What the program of the run's last start gave it, NULL where that is not known. Caller:
 * json_decref. */
json_t *sr1__config_given(const char *run);

/* config.json of a run and the changes since, as they were written: paths of a run that
 * was moved are its old ones, and names of its program need not be registered here
 * (sr1__config_check_names). */
sr1_status sr1__config_load_recorded(sr1_config *c, const char *run);

/* The run in which a folder is the model, RUN/model or RUN/checkpoints/step-N/model;
 * NULL: none, or its config.json is not there. Caller frees with sr1__free. */
sr1_status sr1__config_run_above(const char *folder, char **run);

/* Set the keys of generation so that this process generates, by model_name_or_path, and
 * no server does. */
sr1_status sr1__config_generate_here(sr1_config *c);

#endif
