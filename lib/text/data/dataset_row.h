/* text/data/dataset_row.h - how a row of a file becomes a question. */
#ifndef SR1__DATA_DATASET_ROW_H
#define SR1__DATA_DATASET_ROW_H

#include "base/json.h"

#include <searchr1/data.h>

/* If these default fields are missing, other members are tried (prompt, messages; answer,
 * answers). */
#define SR1__DEFAULT_QUESTION "question"
#define SR1__DEFAULT_ANSWERS "golden_answers"

/* Names of a row's fields; see sr1_dataset_options. */
struct sr1__fields {
    char *question;
    char *answer;
    char *id;
    char *source;
    char *history;
    int answers_optional;
};

/* The row of an object, which is taken over, also on failure. path: of its file, whose
 * name stands in for a data source. Free with sr1_row_free. */
sr1_status sr1__row_make(sr1_row **out, json_t *json, const struct sr1__fields *f,
                         const char *path);

#endif
