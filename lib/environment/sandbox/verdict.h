/* environment/sandbox/verdict.h - derive the verdict from how a program ended. */
#ifndef SR1__SANDBOX_VERDICT_H
#define SR1__SANDBOX_VERDICT_H

#include "environment/sandbox/sandbox_execution.h"

/* Why the engine ended a program, the first reason counting. */
enum sr1__stop {
    SR1__STOP_NONE,
    SR1__STOP_TIME,
    SR1__STOP_OUTPUT,
    SR1__STOP_MEMORY,
    SR1__STOP_NAMES,     /* too many files and folders */
    SR1__STOP_PROCESSES, /* more than can be looked at */
    SR1__STOP_CANCEL
};

struct sr1__end {
    enum sr1__stop stop;
    int exit_code; /* -1: a signal, or not known */
    int signal;
    double cpu_s;       /* -1: not known */
    int64_t peak_bytes; /* -1: not known */
    int64_t out_total;  /* bytes written */
};

/* Fill the verdict, the exit code and the message of an outcome whose streams and times
 * are there. expected: its output, with data NULL: any. */
void sr1__verdict(struct sr1__outcome *o, const struct sr1__end *end,
                  const struct sr1__job_limits *limits,
                  const struct sr1__job_bytes *expected);

/* sr1_judge_output of texts that may hold NUL, a character like any other. */
int sr1__compare_outputs(const char *expected, size_t n_expected, const char *got,
                         size_t n_got);

#endif
