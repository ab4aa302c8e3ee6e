/* config/run_steps.h - the checkpoints of a run by their steps: RUN/checkpoints/step-N.
 */
#ifndef SR1__CONFIG_RUN_STEPS_H
#define SR1__CONFIG_RUN_STEPS_H

#include "base/json.h"

#define SR1__STATE_FILE "state.json"
#define SR1__STATE_MAX ((size_t)16 << 20)
#define SR1__STATE_FILES "files" /* member: {"path": [bytes, "hash"]} */

/* What a write that was killed left is step-N with this behind it. */
#define SR1__STEP_TEMPORARY ".tmp"

/* Steps whose folders are named step-N and then suffix, in rising order; other names are
 * ignored. Caller frees *steps with sr1__free. */
sr1_status sr1__run_steps(const char *run, const char *suffix, int64_t **steps,
                          size_t *n);

/* RUN/checkpoints/step-N and then suffix; caller frees with sr1__free. NULL: no memory.
 */
char *sr1__run_step_folder(const char *run, int64_t step, const char *suffix);

/* 1 where nothing has this name; a name that cannot be looked up is not missing. */
int sr1__run_is_missing(const char *path);

/* Are the files of folder/model there, each as long as state.json says? SR1_E_IO and
 * SR1_E_NOMEM where that cannot be found out. */
sr1_status sr1__run_step_has_model(const char *folder, int *yes);

#endif
