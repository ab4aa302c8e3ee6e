/* sandbox/place.h - where a local sandbox runs programs: what isolation is made of. */
#ifndef SR1__SANDBOX_PLACE_H
#define SR1__SANDBOX_PLACE_H

#include "base/buf.h"
#include "sandbox/job.h"
#include "sandbox/spawn.h"

/* Fixed at opening, except with_proc. */
struct sr1__place {
    const sr1_sandbox_options *o;
    int isolated;
    int with_proc;     /* /proc can be mounted anew here */
    const char *bwrap; /* isolated */
    const char *python;
    struct sr1__buf filter;
};

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
    char *folder; /* not isolated: the program's own, to be removed */
};

/* Find bubblewrap and the interpreter. SR1_E_UNSUPPORTED, with the remedy. */
sr1_status sr1__place_init(struct sr1__place *p, const sr1_sandbox_options *o);
void sr1__place_free(struct sr1__place *p);

sr1_status sr1__place_launch(const struct sr1__place *p, const struct sr1__job *job,
                             struct sr1__launched *out);
/* Learn the first process of the namespace, if it is there by now. */
void sr1__launched_find_init(struct sr1__launched *l);
/* Kill all of it; its end is seen at pidfd. 0: bubblewrap is still at work and could
 * leave its child behind, so ask again shortly, or (force) kill it all the same. */
int sr1__launched_kill(struct sr1__launched *l, int force);
/* After it has ended (what was left of its group goes too): close and remove. */
void sr1__launched_free(struct sr1__launched *l);

#endif
