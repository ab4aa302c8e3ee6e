/* base/line_process.h - a program that exchanges lines over its standard streams.
 *
 * It leads a session of its own, inherits the standard streams alone, and is ended when
 * its owner frees it: its input ends first, then it is told to, then it is killed. Should
 * this process die, its input ends too. The end of what it writes to standard error is
 * kept for the text of errors; the rest is dropped. */
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

/* Write text[0..n) and a line end by `until` (sr1__now()). SR1_E_TIMEOUT: it did not read
 * in time, and part of the line may be written. SR1_E_NETWORK: it has gone. alone: no
 * thread reads meanwhile, and what the program writes until it reads is taken. One thread
 * at a time. */
sr1_status sr1__line_process_write(struct sr1__line_process *p, const char *text,
                                   size_t n, int alone, double until);
/* The next line that it writes, without its end; *line is replaced. SR1_E_TIMEOUT: none
 * came, and reading can go on. SR1_E_NETWORK: it has gone; SR1_E_LIMIT: a line was longer
 * than max_line: nothing can be read any more. One thread at a time, which may be another
 * than the one that writes. */
sr1_status sr1__line_process_read(struct sr1__line_process *p, struct sr1__buf *line,
                                  double until);

/* Kill it at once: who reads or writes notices. From any thread. */
void sr1__line_process_kill(struct sr1__line_process *p);

/* The number of the process, for tests. */
long sr1__line_process_id(const struct sr1__line_process *p);

#endif
