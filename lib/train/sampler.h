/* train/sampler.h - choose the rows of the data for a step, and keep statistics of each
 * row. */
#ifndef SR1__TRAIN_SAMPLER_H
#define SR1__TRAIN_SAMPLER_H

#include "train/internal.h"

sr1_status sr1__sampler_open(sr1_trainer *tr, int64_t rows);
void sr1__sampler_close(sr1_trainer *tr);
/* The rows of step `step` (whole steps before it): rows[batch_size], at least 1. A rule
 * knows nothing yet of asked[n_asked], rows that are asked and not scored: it takes them
 * where no others are left. */
sr1_status sr1__sampler_next(sr1_trainer *tr, int64_t step, const int64_t *asked,
                             size_t n_asked, int64_t *rows, size_t *n);
/* At most `most` further rows for round `round` (from 1) of the step under way, none of
 * asked[n_asked]; *n 0: there are none. */
sr1_status sr1__sampler_more(sr1_trainer *tr, const int64_t *asked, size_t n_asked,
                             size_t most, uint64_t round, int64_t *rows, size_t *n);
/* Have the passes over the data (num_epochs) asked every question? Rounds of dynamic
 * sampling ask further questions, so that it may be so before the steps planned. */
int sr1__sampler_is_over(const sr1_trainer *tr);
/* Keep the statistics of the rows[n_rows] whose groups these are, once what could be
 * scored is; rows NULL: they are not of the data. */
sr1_status sr1__sampler_learn(sr1_trainer *tr, const int64_t *rows, size_t n_rows,
                              sr1_trajectory *const *t, int32_t group_size);
/* The statistics, where a rule chooses by them, as a folder. */
sr1_status sr1__sampler_save(const sr1_trainer *tr, const char *folder);
sr1_status sr1__sampler_restore(sr1_trainer *tr, const char *folder);

#endif
