/* environment/code/tester.h - the process that runs tests and never an answer (judge.py).
 */
#ifndef SR1__CODE_TESTER_H
#define SR1__CODE_TESTER_H

#include <searchr1/ext/sandbox.h>

/* It starts with the first tests, in a sandbox of its own beside that of answers, and
 * again when it was lost. Any number of threads. */
struct sr1__tester;

sr1_status sr1__tester_new(struct sr1__tester **out, sr1_sandbox *box);
void sr1__tester_free(struct sr1__tester *t); /* NULL is fine */

/* Have tests (a file) run against the answer at the other end of a socket; the report is
 * written to a pipe. The three stay the caller's. */
sr1_status sr1__tester_give(struct sr1__tester *t, int socket, int tests, int report);

/* Does it run? SR1_E_IO: it has ended, and why. */
sr1_status sr1__tester_lives(struct sr1__tester *t);

#endif
