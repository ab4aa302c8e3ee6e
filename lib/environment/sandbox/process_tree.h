/* environment/sandbox/process_tree.h - the processes of a running program, seen from
 * outside. */
#ifndef SR1__SANDBOX_PROCESS_TREE_H
#define SR1__SANDBOX_PROCESS_TREE_H

#include <sys/types.h>

/* One process tree, from the host's side. */
struct sr1__process_tree {
    pid_t pid; /* bubblewrap's, or the program's own */
    int pidfd;
    int out; /* what it writes; -1: not open */
    int err;
    int note; /* isolated: what bubblewrap and init have to say */
    int info; /* isolated: the pid of the namespace's first process, and more that is not
                 read */
    int init; /* its pidfd, once asked for */
    pid_t init_pid;
    int forced;   /* killed, although its namespace may have stayed */
    int net;      /* in a jail: its network namespace */
    char *folder; /* not isolated: the program's own, to be removed */
};

/* Nothing. */
void sr1__process_tree_init(struct sr1__process_tree *l);
/* Learn the first process of the namespace, if it is there by now. */
void sr1__process_tree_find_init(struct sr1__process_tree *l);
/* Kill the whole tree; pidfd signals its end. 0: bubblewrap is still starting and could
 * leave its child behind, so call again shortly, or kill it anyway (force). */
int sr1__process_tree_kill(struct sr1__process_tree *l, int force);
/* Clean up after the tree has ended: kill the rest of its group, close and remove. */
void sr1__process_tree_free(struct sr1__process_tree *l);

#endif
