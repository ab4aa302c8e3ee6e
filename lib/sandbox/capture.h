/* sandbox/capture.h - what a program writes on one stream: counted, and kept as far as
 * its budget goes. */
#ifndef SR1__SANDBOX_CAPTURE_H
#define SR1__SANDBOX_CAPTURE_H

#include "base/buf.h"

struct sr1__capture {
    struct sr1__buf head; /* the first bytes */
    char *tail;           /* a ring of tail_max: the last bytes after head */
    size_t tail_max;      /* 0: only the beginning is kept */
    int64_t total;        /* written in all */
};

/* Keep the first head_max bytes and, past them, the last tail_max. */
sr1_status sr1__capture_init(struct sr1__capture *c, size_t head_max, size_t tail_max);
/* Of all bytes at most about so many (at least 256), beginning and end alike, the mark of
 * what is missing included. */
sr1_status sr1__capture_init_ends(struct sr1__capture *c, size_t budget);
void sr1__capture_free(struct sr1__capture *c);
void sr1__capture_add(struct sr1__capture *c, const char *bytes, size_t n);

/* All that was kept as one text, with a line "[N bytes left out]" where some are missing.
 * Takes what it needs; c is empty afterwards. */
sr1_status sr1__capture_take(struct sr1__capture *c, struct sr1__buf *out);

/* The last line that is not blank of text[0..n), without white space at its ends. */
void sr1__last_line(const char *text, size_t n, const char **line, size_t *len);

#endif
