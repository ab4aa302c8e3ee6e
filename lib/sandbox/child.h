/* sandbox/child.h - code of ours in a process of its own, on this process's memory: the
 * calling thread waits until it has ended or has become another program. */
#ifndef SR1__SANDBOX_CHILD_H
#define SR1__SANDBOX_CHILD_H

#include <stdint.h>
#include <sys/types.h>

/* The head of what goes over to the child; what its work needs lies behind it. */
struct sr1__child {
    /* It may only make system calls. Returns what could not be done, errno being the
     * reason, or NULL. */
    const char *(*work)(struct sr1__child *c);
    int has_ended;      /* 0: it is another program now */
    const char *failed; /* what work returned */
    int error;
};

/* Run c->work. flags: of clone, beside those that make it such a child. Returns its
 * number, and in *pidfd a descriptor (close-on-exec), where it has become a program; else
 * it has ended and been waited for, and both are -1. */
pid_t sr1__child_run(struct sr1__child *c, int flags, int *pidfd);

/* For work: become a user and group without others; 0: stay. -1 on failure. */
int sr1__child_become(uint32_t id);

#endif
