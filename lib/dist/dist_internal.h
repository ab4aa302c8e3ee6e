/* dist/dist_internal.h - what dist.c (meetings and exchanges) and rendezvous.c (how the
 * processes find each other) share. */
#ifndef SR1__DIST_DIST_INTERNAL_H
#define SR1__DIST_DIST_INTERNAL_H

#include "dist/dist.h"
#include "tensor/torch/comm.h"

#include "base/error.h"

/* How long is waited, and the key that says so. */
struct sr1__wait_limit {
    double seconds;
    const char *key;
};

struct sr1__dist {
    int32_t rank, size;
    int32_t first, stride; /* rank r is number first + r stride of the whole job */
    struct sr1__wait_limit limit, patience;
    int debug;
    char address[SR1__HOST_MAX]; /* by which the others reach this process */
    int agent_store;             /* the store is the launcher's; 0: rank 0's */
    const atomic_int *stop;
    struct sr1__dist *whole;                           /* NULL: of no group */
    struct sr1__store *root, *store;                   /* store: with the job's prefix */
    struct sr1__process_group *group, *plain, *helper; /* the latter two for debug */
    struct sr1__process_group *bulk, *plain_bulk; /* for tensors; NULL: that is group */
    sr1__device device;                           /* of such tensors */
    int by_nccl, reduces;
    int64_t meetings;
    int32_t under_way;         /* works that are begun and not finished */
    sr1_tensor *said, *heard;  /* [size, words] of a meeting: sr1__dist_make_words */
    struct sr1__error failure; /* the first; code 0: none */
};

/* Room for what is said in a meeting. */
sr1_status sr1__dist_make_words(struct sr1__dist *d);

/* Between two looks at what is waited for; short at first: most waits are. */
void sr1__dist_pause(double began);
int sr1__dist_is_stopped(const struct sr1__dist *d);
sr1_status sr1__dist_fail_stopped(const char *place);
/* A mark at the store, "" where it is not there. SR1_E_TIMEOUT: the store did not answer
 * by `until`, nor in two seconds, and is given up; so it is by the stop flag. */
sr1_status sr1__dist_read_mark(struct sr1__dist *d, const char *what, int64_t meeting,
                               int32_t rank, double until, char *text, size_t size);
/* Names the ranks that have left no mark `what` of this meeting at the store. */
sr1_status sr1__dist_fail_missing(struct sr1__dist *d, const char *what, int64_t meeting,
                                  const char *place, struct sr1__wait_limit limit);

int64_t sr1__to_ms(double seconds);
/* The transport's own limit lies behind ours, which names who is missing. */
int64_t sr1__behind_limit(struct sr1__wait_limit limit);
/* The wrapper of the debug mode waits by the limit of its helper alone, in the call that
 * begins a collective. */
struct sr1__wait_limit sr1__limit_of_wrapper(const struct sr1__dist *d);

/* abandon: of works that are not done. */
void sr1__dist_free_groups(struct sr1__dist *d, int abandon);

#endif
