/* sandbox/watch.h - what a process tree uses together, which no limit of a single process
 * bounds. Read from /proc, from outside. */
#ifndef SR1__SANDBOX_WATCH_H
#define SR1__SANDBOX_WATCH_H

#include <stdint.h>
#include <sys/types.h>

struct sr1__usage {
    int64_t bytes;      /* memory of all; what they share counts once above `limit` */
    int64_t peak_bytes; /* largest resident set that one of them ever had */
    double cpu_s;       /* of all that live, and of what those waited for */
    int64_t names;      /* files and folders in its /tmp and /dev/shm */
};

/* The tree below (and with) root as it is now. What cannot be read counts 0. Beyond
 * `limit` bytes a second, slower look divides shared pages among who shares them. Names
 * are counted where the tree is isolated: its /tmp is its own. */
void sr1__watch(pid_t root, int isolated, int64_t limit, struct sr1__usage *out);

#endif
