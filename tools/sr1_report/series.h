/* sr1_report/series.h - the numbers of a run by step, in bounded memory.
 *
 * Beyond SERIES_POINTS rows, neighbours are merged: each point then represents `merge`
 * rows and holds the mean of the numbers they have (the least for names that end in /min,
 * the greatest for /max and for counts of alarms). The final figures of a column stay
 * exact. */
#ifndef SR1_TOOLS_SR1_REPORT_SERIES_H
#define SR1_TOOLS_SR1_REPORT_SERIES_H

#include <jansson.h>

#include <stddef.h>
#include <stdint.h>

#define SERIES_POINTS 1024
#define SERIES_COLUMNS 1024
#define SERIES_NAME_BYTES 200

enum merge_kind { MERGE_MEAN, MERGE_LEAST, MERGE_GREATEST };

struct column {
    char *name;
    double *values;  /* [SERIES_POINTS], NaN where there is none */
    int64_t *counts; /* [SERIES_POINTS] finite numbers in each */
    enum merge_kind kind;
    int64_t n; /* finite numbers seen */
    double first, last, least, greatest, sum;
    int64_t above_zero; /* rows with a number above 0 ... */
    double last_above;  /* ... and the step of the last of them */
};

struct series {
    struct column columns[SERIES_COLUMNS];
    size_t n_columns;
    double steps[SERIES_POINTS]; /* last step of each point */
    int64_t rows[SERIES_POINTS]; /* rows in each point */
    size_t n;
    int64_t merge;
    int64_t n_rows;
    int64_t names_left_out; /* rows with a name beyond SERIES_COLUMNS */
    double last_step;
};

void series_free(struct series *s);
/* Take a row with its step, which must be above the last one's. -1: no memory. */
int series_add(struct series *s, double step, const json_t *row);
/* NULL when the name did not occur. */
const struct column *series_find(const struct series *s, const char *name);
/* Mean of the first or last fifth of the points, at least one; NaN without numbers.
 * *error (may be NULL) is the standard error of that mean. */
double series_edge(const struct series *s, const struct column *c, int last,
                   double *error);

#endif
