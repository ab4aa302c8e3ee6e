/* data/dataset.h - datasets as a configuration names them. */
#ifndef SR1__DATA_DATASET_H
#define SR1__DATA_DATASET_H

#include "data/messages.h"

#include <searchr1/config.h>
#include <searchr1/data.h>

/* The rows of part (SR1_PART_...): the file of that part (train_file, validation_file,
 * test_file) or, where only a split is configured, that part of train_file.
 * SR1_E_NOT_FOUND when the configuration names no data for the part. */
sr1_status sr1__dataset_configured(sr1_dataset **out, const sr1_config *config,
                                   int32_t part);

/* Only rows[n] of it stay, in this order. */
sr1_status sr1__dataset_keep(sr1_dataset *dataset, const int64_t *rows, int64_t n);

/* The messages before the row's question, as sr1_query takes them; borrowed. */
const struct sr1__messages *sr1__row_history(const sr1_row *row);

#endif
