/* train/checkpoint.h - folders that appear whole or not at all.
 *
 * RUN/checkpoints/step-N holds what the caller writes plus state.json: the caller's state
 * and a manifest with the size and hash of every other file. It is written under another
 * name, flushed, and renamed; a folder that does not match its manifest is never used. */
#ifndef SR1__TRAIN_CHECKPOINT_H
#define SR1__TRAIN_CHECKPOINT_H

#include "base/json.h"

/* Write files into an empty folder. */
typedef sr1_status (*sr1__checkpoint_fill)(void *self, const char *folder);

/* Make step-N of the run (an older one of that number is replaced), then remove all but
 * the newest `keep` up to it (0: keep all), and those of later steps. One that cannot be
 * removed is told to the log. state is borrowed. */
sr1_status sr1__checkpoint_write(const char *run, int64_t step, const json_t *state,
                                 int64_t keep, sr1__checkpoint_fill fill, void *self);

/* The newest checkpoint that matches its manifest: its folder (caller frees with
 * sr1__free), step and state (new reference). Torn ones are passed over, told to the log
 * and counted in *torn (may be NULL). SR1_E_NOT_FOUND when there is none; one that cannot
 * be read (SR1_E_IO, SR1_E_NOMEM) is not passed over. */
sr1_status sr1__checkpoint_newest(const char *run, char **folder, int64_t *step,
                                  json_t **state, int64_t *torn);

/* How many the run has, torn ones too. */
sr1_status sr1__checkpoint_count(const char *run, int64_t *n);

#endif
