/* environment/sandbox/process.h - one program that a local sandbox has under way. */
#ifndef SR1__SANDBOX_PROCESS_H
#define SR1__SANDBOX_PROCESS_H

#include "environment/sandbox/capture.h"
#include "environment/sandbox/launch_plan.h"
#include "environment/sandbox/sandbox_execution.h"
#include "environment/sandbox/spawn.h"
#include "environment/sandbox/verdict.h"

struct sr1__process;

/* What an event of epoll points at. */
struct sr1__event_source {
    struct sr1__process *live;
    int *fd;
};

struct sr1__process {
    struct sr1__process *next;
    struct sr1_execution *run;
    struct sr1__process_tree at;
    struct sr1__event_source out;
    struct sr1__event_source err;
    struct sr1__event_source end;
    struct sr1__capture out_text;
    struct sr1__capture err_text;
    struct sr1__buf note;
    struct sr1__ended ended;
    int has_ended;
    double begun;
    double look_at; /* next look at what it uses, or next try to kill it */
    enum sr1__stop stop;
    double stopped_at;
    int killed;
    double cpu_s;       /* as far as it was looked at */
    int64_t peak_bytes; /* as far as it was looked at; -1: never */
};

/* Start the program of the execution. On failure the outcome has the reason
 * (INFRASTRUCTURE), *out is not set, and the status only says that it failed. */
sr1_status sr1__process_start(struct sr1__process **out, struct sr1__launch_plan *place,
                              struct sr1_execution *run);
/* Read what is there on one of its streams. 0: the stream has ended. */
int sr1__process_read(struct sr1__process *l, const struct sr1__event_source *from);
/* Check the process for exit, cancellation and limits; 1 when it has exited. */
int sr1__process_check(struct sr1__process *l, const struct sr1__launch_plan *place,
                       double now);
/* It has ended: fill its run's outcome, and free it. 1 when there is a verdict, 0 for a
 * failure of the infrastructure. */
int sr1__process_finish(struct sr1__process *l, struct sr1__launch_plan *place);

#endif
