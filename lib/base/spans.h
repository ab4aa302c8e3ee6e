/* base/spans.h - a list of spans of a text, in ascending order; spans that touch are
 * joined. */
#ifndef SR1__BASE_SPANS_H
#define SR1__BASE_SPANS_H

#include "base/error.h"

#include <stddef.h>

struct sr1__spans {
    size_t *v; /* [2 n]: begin, end */
    size_t n;
    size_t cap;
};

void sr1__spans_free(struct sr1__spans *s); /* leaves it empty, reusable */

/* Append [begin, end), which begins at or behind the last end; an empty one is nothing.
 */
sr1_status sr1__spans_add(struct sr1__spans *s, size_t begin, size_t end);

#endif
