/* rollout/asked.h - rows of a dataset as queries, conversation and gold answers too. */
#ifndef SR1__ROLLOUT_ASKED_H
#define SR1__ROLLOUT_ASKED_H

#include <searchr1/rollout.h>

struct sr1__asked {
    sr1_row **rows;
    sr1_query *queries; /* of the rows, from which they borrow */
    size_t n;
};

/* Rows rows[n] of the data; NULL: n rows from `from` on. Free also a zeroed one, or after
 * a failure. */
sr1_status sr1__asked_read(struct sr1__asked *a, const sr1_dataset *data,
                           const int64_t *rows, int64_t from, size_t n);
void sr1__asked_free(struct sr1__asked *a);

#endif
