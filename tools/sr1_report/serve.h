/* serve.h - the page of runs that are under way, over HTTP on this machine. */
#ifndef SR1_TOOLS_SR1_REPORT_SERVE_H
#define SR1_TOOLS_SR1_REPORT_SERVE_H

#include "sr1_report/text.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct serve_options {
    const char *host;           /* "127.0.0.1" */
    int32_t port;               /* 0: any that is free */
    int exposed;                /* 1: host may be one that others reach */
    const char *const *folders; /* [n] of the runs */
    size_t n;
    /* Append the page, as the runs are now, by that time. 0, or an exit code after a
     * message. */
    int (*make)(void *user, time_t made, struct text *out);
    void *user;
};

/* Serve until a signal asks for the end. Returns the exit code. */
int serve_page(const struct serve_options *o);

#endif
