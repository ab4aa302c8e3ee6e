/* environment/sandbox/memory_monitor.h - the memory of a process tree, which no limit of
 * a single process bounds; read from /proc, from outside. */
#ifndef SR1__SANDBOX_MEMORY_MONITOR_H
#define SR1__SANDBOX_MEMORY_MONITOR_H

#include <stdint.h>
#include <sys/types.h>

struct sr1__usage {
    int64_t bytes;      /* memory of all; what they share counts once above `limit` */
    int64_t peak_bytes; /* largest resident set that one of them ever had */
    double cpu_s;       /* of all that live, and of what those waited for */
    int64_t names;      /* files and folders in its /tmp and /dev/shm */
    int32_t processes;
    int32_t is_partial; /* more processes than can be looked at, or no memory for them */
};

/* More than a run is allowed. */
#define SR1__WATCH_PROCESSES ((int32_t)1 << 17)

/* Measure the tree of root now, root included. Unreadable entries count 0. Beyond `limit`
 * bytes a second, slower measurement divides shared pages among the processes that share
 * them. Names are counted where the tree is isolated: its /tmp is its own. */
void sr1__memory_monitor_read(pid_t root, int isolated, int64_t limit,
                              struct sr1__usage *out);

#endif
