/* rollout/asker_parts.h - what asker.c (threads, calls) and box.c (lanes) share. Guarded
 * by the asker's lock. */
#ifndef SR1__ROLLOUT_ASKER_PARTS_H
#define SR1__ROLLOUT_ASKER_PARTS_H

#include "rollout/asker.h"

#include "base/error.h"

#include <pthread.h>

enum sr1__ask_state {
    SR1__ASK_NOTHING,
    SR1__ASK_QUEUED,
    SR1__ASK_RUNNING,
    SR1__ASK_ANSWERED
};

/* The action of one row of a box. */
struct sr1__ask {
    struct sr1__ask *next; /* in the queue */
    struct sr1__box *box;
    enum sr1__ask_state state;
    struct sr1__action action; /* text is ours until the call begins */
    struct sr1__observation observation;
};

struct sr1__box {
    struct sr1__asker *asker;
    struct sr1__ask *asks; /* [rows] */
    int32_t n_rows;
    size_t waiting;
    pthread_cond_t answered;
    struct sr1__error error; /* the environment failed as a whole */
};

/* A thread that takes actions. */
struct sr1__ask_worker {
    struct sr1__asker *asker;
    pthread_t thread;
    int live;
};

/* One call of the environment. */
struct sr1__ask_call {
    struct sr1__ask_call *next; /* of those under way */
    struct sr1__ask_worker *worker;
    double began;
    int lost;
    size_t n;
    struct sr1__ask **asks; /* [n]; NULL: nobody wants it; not to be touched once lost */
    struct sr1__action *actions;
    struct sr1__observation *observations;
};

struct sr1__asker {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* something is queued, or quit */
    sr1_env *env;
    double deadline;
    int separate; /* a call may carry some of what is queued, else all of it */
    int single;   /* a call carries one */
    struct sr1__ask *first, *last; /* the queue */
    size_t n_queued;
    struct sr1__ask_call *calls;     /* under way, not lost */
    struct sr1__ask_worker *workers; /* [n_workers] */
    int32_t n_workers;
    int32_t n_live;
    int32_t n_idle; /* of the live ones */
    int32_t n_lost; /* threads in a call that was given up */
    int quit;       /* threads end when the queue is empty */
    int orphaned;   /* the last lost thread frees the asker */
};

/* Append to the queue. */
void sr1__asker_push(struct sr1__asker *a, struct sr1__ask *k);
/* Time out what is past the deadline. */
void sr1__asker_give_up_late(struct sr1__asker *a);
/* Free the text that the ask still owns. */
void sr1__ask_drop_text(struct sr1__ask *k);

#endif
