/* dist/ask_store.h - what is asked of a job's store, which may never answer: its process
 * stands still, or another program has its port. What it has to answer is asked for on a
 * thread of its own, and given up after a time. */
#ifndef SR1__DIST_ASK_STORE_H
#define SR1__DIST_ASK_STORE_H

#include "dist/launch.h"
#include "tensor/torch/comm.h"

#include <stdatomic.h>

/* The store of l's job, for at most connect_ms and a moment more; then its keys are
 * waited for up to limit_ms. SR1_E_TIMEOUT: what has the port does not answer. */
sr1_status sr1__ask_for_store(struct sr1__store **out, const struct sr1__launch *l,
                              int64_t connect_ms, int64_t limit_ms);

/* Leave a mark of a rank at the store, a text. The store's answer is not waited for.
 * s NULL: it was given up. */
sr1_status sr1__mark_leave(struct sr1__store *s, const char *what, int64_t meeting,
                           int32_t rank, const char *text);

/* A mark that is looked for. */
struct sr1__mark {
    struct sr1__store *store, *root; /* the reading's own once it is given up */
    const char *what;                /* static */
    int64_t meeting;
    int32_t rank;
    char text[SR1__ERROR_MAX]; /* "": it is not there */
    struct sr1__error error;   /* the store's; code 0: none */
};

/* 1: m has the answer; 0: it is given up, at `until` (as sr1__now() counts) or once *stop
 * is set (NULL: never), but not in its first two seconds; -1: it could not begin. */
int sr1__mark_read(struct sr1__mark *m, double until, const atomic_int *stop);

/* Who has not come to meeting `meeting`, by the marks at the store. */
struct sr1__roll_call {
    struct sr1__store *store, *root; /* the call's own once it is given up */
    const char *what;                /* static */
    int64_t meeting;
    int32_t size, first, stride; /* rank r is named first + r stride */
    int32_t missing;             /* how many; 0: not known */
    char names[256];             /* "2", "1, 3" */
    int failed;                  /* the store did */
};

/* 1: c has the answer; 0: it is given up; -1: it could not begin. */
int sr1__call_roll(struct sr1__roll_call *c);

#endif
