/* train/checkpoint.h - folders that appear whole or not at all.
 *
 * RUN/checkpoints/step-N holds what the caller writes plus state.json: the caller's state
 * and a manifest with the size and hash of every other file. It is written under another
 * name, flushed, and renamed; a folder that does not match its manifest is never used. */
#ifndef SR1__TRAIN_CHECKPOINT_H
#define SR1__TRAIN_CHECKPOINT_H

#include "base/json.h"
#include "dist/dist.h"

/* Write files into an empty folder. */
typedef sr1_status (*sr1__checkpoint_fill)(void *self, const char *folder);

/* A checkpoint to write. All borrowed. */
struct sr1__checkpoint {
    struct sr1__dist *dist; /* ranks that write it together; NULL: this process alone */
    const char *run;
    int64_t step;
    const json_t *state; /* the first rank's counts */
    int64_t keep;
    int64_t best; /* of this step one stays, however old; 0: none */
    sr1__checkpoint_fill fill;
    void (*written)(void *self); /* NULL: nothing; called by the first rank when it is
                                    whole, before older ones are removed */
    void *self;
};

/* Make step-N of the run (an older one of that number is replaced at once), then remove
 * all but the newest `keep` up to it (0: keep all) and the best, and those of later
 * steps. One that cannot be removed is told to the log.
 *
 * Every rank of dist calls it. All fill at once: rank r writes, and hashes, the files
 * whose name ends in "-0000K-of-0000N.SUFFIX" with K = r + 1, and the first rank all
 * others. Only after all are whole it writes the manifest and renames the folder. */
sr1_status sr1__checkpoint_write(const struct sr1__checkpoint *c);

/* The newest checkpoint that matches its manifest: its folder (caller frees with
 * sr1__free), step and state (new reference). Torn ones are passed over, told to the log
 * and counted in *torn (may be NULL). SR1_E_NOT_FOUND when there is none; one that cannot
 * be read (SR1_E_IO, SR1_E_NOMEM) is not passed over. */
sr1_status sr1__checkpoint_newest(const char *run, char **folder, int64_t *step,
                                  json_t **state, int64_t *torn);

/* Is that of this step there as it was written? Else the log says what is wrong. */
sr1_status sr1__checkpoint_is_whole(const char *run, int64_t step, int32_t *yes);

/* How many the run has, torn ones too. */
sr1_status sr1__checkpoint_count(const char *run, int64_t *n);

#endif
