/* retrieval/search/tsv_row.h - rows of DPR's passages (psgs_w100.tsv): id, text and title
 * with tabs between, as Python's csv writes them. */
#ifndef SR1__SEARCH_TSV_ROW_H
#define SR1__SEARCH_TSV_ROW_H

#include "base/buf.h"

/* Is line[0..n) the first line of such a file, whatever follows it? */
int sr1__tsv_is_header(const char *line, size_t n);

/* Append a line as the JSON of a row, {"id", "title", "text"}. SR1_E_PARSE: it has not
 * three cells, leaves a quote open, or is not UTF-8. scratch is the caller's, for many
 * calls. */
sr1_status sr1__tsv_row_json(const char *line, size_t n, struct sr1__buf *scratch,
                             struct sr1__buf *out);

#endif
