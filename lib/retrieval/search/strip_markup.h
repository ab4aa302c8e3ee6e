/* retrieval/search/strip_markup.h - HTML and Markdown cut to the text that a reader would
 * see. */
#ifndef SR1__SEARCH_STRIP_MARKUP_H
#define SR1__SEARCH_STRIP_MARKUP_H

#include "base/buf.h"

/* Append the text of s[0..n), valid UTF-8, to out. Returns out's status. */
typedef sr1_status (*sr1__strip_fn)(const char *s, size_t n, struct sr1__buf *out);

struct sr1__text_format {
    const char *name;
    sr1__strip_fn cut; /* NULL: text is as it is */
};

/* NULL if there is none of that name; then *names (when asked for) lists them. */
const struct sr1__text_format *sr1__text_format_find(const char *name,
                                                     const char **names);

#endif
