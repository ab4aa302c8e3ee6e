/* base/line_process.h - a program that exchanges lines over its standard streams.
 *
 * It leads a session of its own, inherits the standard streams alone, and is ended when
 * its owner frees it: its input ends first, then it and the programs that it has started
 * in its group are told to end, then they are killed. Should this process die, however it
 * does, a guardian (a shell that waits for that) does the same. The end of what the
 * program writes to standard error is kept for the text of errors; the rest is
 * dropped. */
#ifndef SR1__BASE_LINE_PROCESS_H
#define SR1__BASE_LINE_PROCESS_H

#include "base/buf.h"

struct sr1__line_process;

struct sr1__line_process_options {
    const char *name; /* what errors call it; copied */
    const char *const
        *argv; /* NULL-terminated; argv[0] without '/' is looked for in PATH */
    const char *const *extra; /* "NAME=value", NULL-terminated, beside our environment */
    const char *folder;       /* to start in; NULL: ours */
    size_t max_line;          /* bytes of one line that it writes */
};

/* SR1_E_IO: it could not be started. */
sr1_status sr1__line_process_start(struct sr1__line_process **out,
                                   const struct sr1__line_process_options *options);
/* NULL is fine. */
void sr1__line_process_free(struct sr1__line_process *p);

/* What is written and read at once. */
struct sr1__line_exchange {
    const char *text; /* [n] bytes to write, with the line's end; n 0: none */
    size_t n, written;
    struct sr1__buf *line; /* replaced by the next line that it writes, without its end */
    int came;              /* one did */
};

/* Write and read side by side, so that neither waits for the other, until a line came,
 * all of text is written, or `wake` can be read (-1: nothing wakes it): SR1_OK.
 * SR1_E_TIMEOUT: none of these by `until` (sr1__now()). In every case x->written bytes
 * are written, and the next exchange goes on with the rest. SR1_E_NETWORK: it has gone,
 * or reads no more; SR1_E_LIMIT: a line was longer than max_line: nothing can be read any
 * more. One thread at a time. */
sr1_status sr1__line_process_exchange(struct sr1__line_process *p,
                                      struct sr1__line_exchange *x, int wake,
                                      double until);

/* The number of the process, for tests. */
long sr1__line_process_id(const struct sr1__line_process *p);

#endif
