/* policy/dataset_queries.h - rows of a dataset as queries, conversation and gold answers
 * too. */
#ifndef SR1__POLICY_DATASET_QUERIES_H
#define SR1__POLICY_DATASET_QUERIES_H

#include <searchr1/rollout.h>

struct sr1__dataset_queries {
    sr1_row **rows;
    sr1_query *queries; /* of the rows, from which they borrow */
    char **texts;       /* the rows as JSON */
    size_t n;
};

/* Of the data n rows from `from` on; with rows, those that rows[from], ... name. Free
 * also a zeroed one, or after a failure. */
sr1_status sr1__dataset_queries_read(struct sr1__dataset_queries *a,
                                     const sr1_dataset *data, const int64_t *rows,
                                     int64_t from, size_t n);
/* The same without the rows as JSON: only the parts that a prompt needs. */
sr1_status sr1__dataset_queries_read_plain(struct sr1__dataset_queries *a,
                                           const sr1_dataset *data, const int64_t *rows,
                                           int64_t from, size_t n);
void sr1__dataset_queries_free(struct sr1__dataset_queries *a);

#endif
