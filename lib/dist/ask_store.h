/* dist/ask_store.h - what is asked of a job's store, which may never answer: its process
 * stands still, or another program has its port. Each call asks on a thread of its own,
 * and gives up after a time. */
#ifndef SR1__DIST_ASK_STORE_H
#define SR1__DIST_ASK_STORE_H

#include "dist/launch.h"
#include "tensor/torch/comm.h"

/* The store of l's job, for at most limit_ms and a moment more. SR1_E_TIMEOUT: what has
 * the port does not answer. */
sr1_status sr1__ask_for_store(struct sr1__store **out, const struct sr1__launch *l,
                              int64_t limit_ms);

#define SR1__MARK_MAX 64

/* The key of a mark that a rank leaves at the store. */
void sr1__mark_key(const char *what, int64_t meeting, int32_t rank,
                   char out[SR1__MARK_MAX]);

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
