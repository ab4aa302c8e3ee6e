/* environment/sandbox/child.h - run a function in a child process that shares this
 * process's memory; the calling thread waits until the child ends or executes another
 * program. */
#ifndef SR1__SANDBOX_CHILD_H
#define SR1__SANDBOX_CHILD_H

#include <stdint.h>
#include <sys/types.h>

/* Base struct of the argument of a child process; the work function's own fields follow
 * it. */
struct sr1__child {
    /* The function may only make system calls. It returns the name of the step that
     * failed, with the reason in errno, or NULL. */
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
