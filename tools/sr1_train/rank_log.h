/* sr1_train/rank_log.h - the output of a process that is not the first of its job: a line
 * a step in logs/rank-R.log of the run's folder, and warnings to stderr too, with the
 * rank in front. */
#ifndef SR1_TOOLS_SR1_TRAIN_RANK_LOG_H
#define SR1_TOOLS_SR1_TRAIN_RANK_LOG_H

#include <searchr1/trainer.h>

#include <stdio.h>

struct rank_log {
    const sr1_trainer *trainer;
    char program[48]; /* "sr1-train, rank 1", for errors */
    FILE *file;       /* once the first rank has made the folder */
};

/* From now on the library's warnings go to l; it is the user of the callbacks. */
void rank_log_begin(struct rank_log *l, const sr1_trainer *trainer,
                    sr1_run_callbacks *cb);
void rank_log_end(struct rank_log *l);

#endif
