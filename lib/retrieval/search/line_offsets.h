/* retrieval/search/line_offsets.h - where the rows of a file of JSON lines begin. */
#ifndef SR1__SEARCH_LINE_OFFSETS_H
#define SR1__SEARCH_LINE_OFFSETS_H

#include "base/error.h"

struct sr1__line_offsets;

/* From PATH.offsets, which is written first where it is missing, damaged or of another
 * state of the file. */
sr1_status sr1__line_offsets_open(struct sr1__line_offsets **out, const char *path);
void sr1__line_offsets_close(struct sr1__line_offsets *o); /* NULL is fine */
/* The status of work on it: SR1_E_CORRUPT where one of the files was changed in place. */
sr1_status sr1__line_offsets_check_changed(const struct sr1__line_offsets *o,
                                           sr1_status status);
uint64_t sr1__line_offsets_count(const struct sr1__line_offsets *o);
/* The text of row i < count without blanks around it, borrowed until closed.
 * SR1_E_CORRUPT where the offsets do not fit the file. */
sr1_status sr1__line_offsets_row(const struct sr1__line_offsets *o, uint64_t i,
                                 const char **row, size_t *n);

#endif
