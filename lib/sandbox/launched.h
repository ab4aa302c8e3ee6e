/* sandbox/launched.h - a program under way, from outside. */
#ifndef SR1__SANDBOX_LAUNCHED_H
#define SR1__SANDBOX_LAUNCHED_H

#include <sys/types.h>

/* One process tree, from the host's side. */
struct sr1__launched {
    pid_t pid; /* bubblewrap's, or the program's own */
    int pidfd;
    int out; /* what it writes; -1: not open */
    int err;
    int note; /* isolated: what bubblewrap and the shell have to say */
    int info; /* isolated: the pid of the namespace's first process, and more that is not
                 read */
    int init; /* its pidfd, once asked for */
    pid_t init_pid;
    int forced;   /* killed, although its namespace may have stayed */
    int net;      /* in a jail: its network namespace */
    char *folder; /* not isolated: the program's own, to be removed */
};

/* Nothing. */
void sr1__launched_init(struct sr1__launched *l);
/* Learn the first process of the namespace, if it is there by now. */
void sr1__launched_find_init(struct sr1__launched *l);
/* Kill all of it; its end is seen at pidfd. 0: bubblewrap is still at work and could
 * leave its child behind, so ask again shortly, or (force) kill it all the same. */
int sr1__launched_kill(struct sr1__launched *l, int force);
/* After it has ended (what was left of its group goes too): close and remove. */
void sr1__launched_free(struct sr1__launched *l);

#endif
