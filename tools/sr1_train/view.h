/* sr1_train/view.h - the output of sr1-train: a banner, a line a step, a bar below them
 * on a terminal, and a summary. Lines go to stdout, the bar and warnings to stderr. */
#ifndef SR1_TOOLS_SR1_TRAIN_VIEW_H
#define SR1_TOOLS_SR1_TRAIN_VIEW_H

#include "common/progress.h"

#include <searchr1/trainer.h>

/* Number of steps in the two means of the last line: the first and the last steps. */
#define VIEW_ENDS 256

struct view {
    sr1_trainer *trainer;
    struct progress bar;
    struct progress part; /* of a step, or a validation */
    const char *phase;
    char title[64];
    int64_t interval;         /* steps between lines */
    int64_t begun_at;         /* steps done before */
    int64_t seen;             /* steps since */
    int acts;                 /* there is something to act on */
    int searches;             /* its actions are searches, and no others */
    int is_sft;               /* the loss is its measure, not a reward */
    double first[VIEW_ENDS];  /* that of the first steps, */
    double recent[VIEW_ENDS]; /* and of the last ones, at seen % VIEW_ENDS */
    double began;             /* seconds */
    int unread;               /* it was said that the reader of stdout is gone */
};

/* 1 when standard output is a pipe whose reader is gone. */
int view_reader_left(void);

/* The banner; then the bar begins. */
void view_begin(struct view *v, sr1_trainer *trainer);
/* v is the user of these. */
void view_callbacks(struct view *v, sr1_run_callbacks *cb);
/* Nothing of the bar is left. */
void view_end(struct view *v);
/* The summary of a whole run. */
void view_result(const struct view *v);

#endif
