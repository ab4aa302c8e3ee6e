/* environment/code/report.h - the input and the report of the scripts that run tests
 * (driver.py, judge.py). */
#ifndef SR1__CODE_REPORT_H
#define SR1__CODE_REPORT_H

#include "environment/code/code_check.h"

#define SR1__NONCE 32
#define SR1__REPORT_TEXTS                                                                \
    ((int64_t)1 << 14)         /* most bytes besides its words on each test */
#define SR1__REPORT_ENDED 'E'  /* the answer's process has ended */
#define SR1__REPORT_INSIDE 'I' /* only that process can decide this test */
#define SR1__REPORT_DIED 'D'   /* the process of the tests ended without a report */
#define SR1__REPORT_NO_FORK 'F'

struct sr1__report {
    const char
        *letters; /* [n] places of SR1__NONCE + 1 bytes, a letter at the end of each */
    size_t n;
    char last; /* of the first failure, P: none; 0: it did not get so far */
    const char *got;
    size_t n_got;
    const char *error;
    size_t n_error;
};

sr1_status sr1__make_nonce(char out[SR1__NONCE + 1]);

/* The problem's tests and the answer, as the scripts read them. */
sr1_status sr1__write_tests(struct sr1__buf *b, const struct sr1_check *c,
                            const struct sr1__check_limits *l, const char *nonce);

/* The output of a script so far; it points into s. */
struct sr1__report sr1__read_report(const char *s, size_t n, const char *nonce,
                                    size_t tests);

/* How the process of the tests was lost, by the last bytes of its output:
 * SR1__REPORT_DIED and *cause is its signal (0: none), SR1__REPORT_NO_FORK and *cause an
 * error number, or 0: the output does not say. */
char sr1__read_loss(const char *s, size_t n, const char *nonce, int *cause);

/* The verdicts of a report, and of how the answer's program ended where it did not get to
 * its end. */
void sr1__take_report(struct sr1__check_outcome *o, const struct sr1__report *r,
                      int32_t all_or_nothing, const sr1_execution_result *result);

#endif
