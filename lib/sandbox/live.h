/* sandbox/live.h - one program that a local sandbox has under way. */
#ifndef SR1__SANDBOX_LIVE_H
#define SR1__SANDBOX_LIVE_H

#include "sandbox/capture.h"
#include "sandbox/place.h"
#include "sandbox/run.h"
#include "sandbox/spawn.h"
#include "sandbox/verdict.h"

struct sr1__live;

/* What an event of epoll points at. */
struct sr1__source {
    struct sr1__live *live;
    int *fd;
};

struct sr1__live {
    struct sr1__live *next;
    struct sr1_run *run;
    struct sr1__launched at;
    struct sr1__source out;
    struct sr1__source err;
    struct sr1__source end;
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

/* Start the run's program. On failure the outcome says why (INFRASTRUCTURE), *out is not
 * set and the status only tells that. */
sr1_status sr1__live_start(struct sr1__live **out, struct sr1__place *place,
                           struct sr1_run *run);
/* Read what is there on one of its streams. 0: the stream has ended. */
int sr1__live_read(struct sr1__live *l, const struct sr1__source *from);
/* Something may have ended it, or its time may be over: see. 1 when it has ended. */
int sr1__live_check(struct sr1__live *l, const struct sr1__place *place, double now);
/* It has ended: fill its run's outcome, and free it. 1 when there is a verdict, 0 for a
 * failure of the infrastructure. */
int sr1__live_finish(struct sr1__live *l, struct sr1__place *place);

#endif
