/* environment/env/document_formats.h - how the hits of a search are written into the
 * text, as a table. */
#ifndef SR1__ENV_DOCUMENT_FORMATS_H
#define SR1__ENV_DOCUMENT_FORMATS_H

#include "base/buf.h"

struct sr1__document_format {
    const char *name;
    const char *around; /* stands before and after the block */
    const char *inside; /* stands between its tags and its body */
    /* Append hit number rank (from 1); id is "" for a hit that has none. */
    void (*write)(struct sr1__buf *b, int32_t rank, const char *id, const char *contents);
};

/* Row of that name (NULL: "titled"); NULL and SR1_E_NOT_FOUND if there is none. Static.
 */
const struct sr1__document_format *sr1__document_format_find(const char *name);

#endif
