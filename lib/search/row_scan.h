/* search/row_scan.h - a row of a corpus read without a JSON parser, where it is as simple
 * as most are. */
#ifndef SR1__SEARCH_ROW_SCAN_H
#define SR1__SEARCH_ROW_SCAN_H

#include "base/buf.h"

/* Is text[0..n) an object of strings and whole numbers, with a string or whole number
 * "id" and a string "contents", each once, and no \u escape? Then *known is 1, and the
 * contents are *contents[0..*size): in text, or, where escapes had to be replaced, in
 * scratch. 0: ask the parser; nothing is known. Never 1 for what the parser would refuse.
 */
sr1_status sr1__row_scan(const char *text, size_t n, struct sr1__buf *scratch, int *known,
                         const char **contents, size_t *size);

#endif
