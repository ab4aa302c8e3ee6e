/* text/data/cursor.h - the order in which rows are used, epoch after epoch.
 *
 * The order of an epoch depends on (seed, epoch) alone, so a position is two numbers and
 * a resumed run continues exactly. */
#ifndef SR1__DATA_CURSOR_H
#define SR1__DATA_CURSOR_H

#include "base/error.h"

struct sr1__cursor;

/* n_rows > 0. shuffle 0: file order in every epoch. */
sr1_status sr1__cursor_new(struct sr1__cursor **out, int64_t n_rows, uint64_t seed,
                           int shuffle);
void sr1__cursor_free(struct sr1__cursor *c);

/* The next rows, at most max, at least 1: a batch ends with its epoch. */
sr1_status sr1__cursor_next(struct sr1__cursor *c, size_t max, int64_t *rows,
                            size_t *count);

/* Epochs begun before the next row (0 at first) and rows used of the present one. */
int64_t sr1__cursor_epoch(const struct sr1__cursor *c);
int64_t sr1__cursor_position(const struct sr1__cursor *c);
/* Continue as if epoch and position had been reached by sr1__cursor_next. */
sr1_status sr1__cursor_seek(struct sr1__cursor *c, int64_t epoch, int64_t position);

#endif
