/* environment/trajectory/row_text.h - a row of a data set as JSON text, which the
 * trajectories of its group share. */
#ifndef SR1__TRAJECTORY_ROW_TEXT_H
#define SR1__TRAJECTORY_ROW_TEXT_H

#include "base/error.h"

#include <searchr1/trajectory.h>

struct sr1__row_text;

/* Copied. *out has one reference; without text (len 0) it is NULL. SR1_E_LIMIT: longer
 * than SR1_TRAJECTORY_MAX_ROW. SR1_E_PARSE: not a JSON object. */
sr1_status sr1__row_text_new(struct sr1__row_text **out, const char *json, size_t len);

/* NULL gives NULL. */
struct sr1__row_text *sr1__row_text_retain(struct sr1__row_text *row);
void sr1__row_text_free(struct sr1__row_text *row); /* NULL is fine */

/* NUL-terminated and *len bytes long (len may be NULL); "" for NULL. Borrowed. */
const char *sr1__row_text_view(const struct sr1__row_text *row, size_t *len);

#endif
