/* retrieval/search/row_scan.h - a row of a corpus read without a JSON parser, where it is
 * as simple as most are. */
#ifndef SR1__SEARCH_ROW_SCAN_H
#define SR1__SEARCH_ROW_SCAN_H

#include "base/buf.h"

struct sr1__scanned_row {
    const char *id; /* as it stands in the text: digits, or a string without escapes */
    size_t id_size;
    const char *contents; /* in the text, or in scratch where escapes were replaced */
    size_t size;
};

/* Is text[0..n) an object of strings and whole numbers, with a string or whole number
 * "id" and a string "contents", each once, with no \u escape and no escape in the id?
 * Then *known is 1 and *out is the row, borrowed from text and scratch. 0: ask the
 * parser; nothing is known. Never 1 for what the parser would refuse. */
sr1_status sr1__row_scan(const char *text, size_t n, struct sr1__buf *scratch, int *known,
                         struct sr1__scanned_row *out);

#endif
