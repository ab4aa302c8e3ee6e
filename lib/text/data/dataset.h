/* text/data/dataset.h - open the data sets that a configuration names. */
#ifndef SR1__DATA_DATASET_H
#define SR1__DATA_DATASET_H

#include "text/data/row_messages.h"

#include <searchr1/config.h>
#include <searchr1/data.h>

/* The rows of part (SR1_PART_...): the file of that part (train_file, validation_file,
 * test_file) or, where only a split is configured, that part of train_file.
 * SR1_E_NOT_FOUND when the configuration names no data for the part. */
sr1_status sr1__dataset_configured(sr1_dataset **out, const sr1_config *config,
                                   int32_t part);

/* As a pass uses the rows of train_file: so often (train_weights), in this order
 * (curriculum_field). Of the training part only. */
sr1_status sr1__dataset_mix(sr1_dataset *dataset, const sr1_config *config);

/* The number of the file that row i is of. */
size_t sr1__dataset_file(const sr1_dataset *dataset, int64_t i);

/* A row whole; borrowed until it is freed. */
const json_t *sr1__dataset_row_json(const sr1_row *row);

/* Only rows[n] of it stay, in this order; one may come several times. */
sr1_status sr1__dataset_keep(sr1_dataset *dataset, const int64_t *rows, int64_t n);

/* Rows of its files that have the id of a row before them. */
struct sr1__repeats {
    int64_t n, of; /* so many of so many rows; 0 of 0 where they were not checked */
    /* the first of them */
    char id[80];      /* its beginning */
    const char *path; /* borrowed from the dataset */
    uint64_t line;
};
const struct sr1__repeats *sr1__dataset_repeats(const sr1_dataset *dataset);

/* A hash of the bytes of its rows, in order. SR1_E_IO. */
sr1_status sr1__dataset_hash(const sr1_dataset *dataset, uint64_t *out);

/* The hash goes on with the names of the fields that questions, answers and history are
 * read from, where they are not the default ones. */
uint64_t sr1__dataset_fields(const sr1_dataset *dataset, uint64_t hash);

/* SR1_E_INVALID where path leads to one of its files. */
sr1_status sr1__dataset_distinct(const sr1_dataset *dataset, const char *path);

/* Are rows without answers fine by the configuration? */
int sr1__dataset_answers_optional(const sr1_config *c);

/* Put "path:line: " of row i before the text of a failure; returns status. */
sr1_status sr1__dataset_context(const sr1_dataset *dataset, int64_t i, sr1_status status);

/* 1 for the first caller, then 0: its files have rows that are too long to travel. */
int32_t sr1__dataset_tell_long(const sr1_dataset *dataset);

/* The messages before the row's question, as sr1_query takes them; borrowed. */
const struct sr1__messages *sr1__row_history(const sr1_row *row);

#endif
