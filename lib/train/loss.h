/* train/loss.h - the table of losses the trainer chooses from. */
#ifndef SR1__TRAIN_LOSS_H
#define SR1__TRAIN_LOSS_H

#include <searchr1/loss.h>

typedef sr1_status (*sr1__loss_fn)(const sr1_loss_batch *, const sr1_loss_options *,
                                   float *, sr1_loss_report *);

/* The loss of that name, or NULL. */
sr1__loss_fn sr1__loss_find(const char *name);

/* Add the report of one part of a batch to the running total. */
void sr1__loss_report_add(sr1_loss_report *total, const sr1_loss_report *part);

#endif
