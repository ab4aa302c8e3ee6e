/* environment/sandbox/capture.h - capture the output of a program on one stream: all
 * bytes are counted, and stored up to a budget. */
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
/* Keep at most about so many bytes (at least 256), half of them from the beginning and
 * half from the end, the mark of the omitted part included. */
sr1_status sr1__capture_init_ends(struct sr1__capture *c, size_t budget);
void sr1__capture_free(struct sr1__capture *c);
void sr1__capture_add(struct sr1__capture *c, const char *bytes, size_t n);

/* The stored output as one text, with a line "[N bytes left out]" at the gap. The memory
 * moves to the result; c is empty afterwards. */
sr1_status sr1__capture_take(struct sr1__capture *c, struct sr1__buf *out);

/* The last line that is not blank of text[0..n), without white space at its ends. */
void sr1__last_line(const char *text, size_t n, const char **line, size_t *len);

#endif
