/* sr1_report/scan.h - numbers out of a line of JSON without building a tree: an index of
 * a large file is made in one quick pass and no memory. */
#ifndef SR1_TOOLS_SR1_REPORT_SCAN_H
#define SR1_TOOLS_SR1_REPORT_SCAN_H

#include <stddef.h>

struct scan_number {
    const char *name;
    double value; /* NaN while it was not found, or is no number */
};

/* Read s[0..n) as one JSON object (RFC 8259; the bytes of strings are not checked) and
 * find its members wanted[0..n_wanted). -1: not a whole object, or nested deeper than 64.
 */
int scan_object(const char *s, size_t n, struct scan_number *wanted, size_t n_wanted);

#endif
