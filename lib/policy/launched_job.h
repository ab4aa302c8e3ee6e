/* policy/launched_job.h - the processes of one job, as a launcher's variables and the
 * keys distributed_* say. */
#ifndef SR1__POLICY_LAUNCHED_JOB_H
#define SR1__POLICY_LAUNCHED_JOB_H

#include "dist/dist.h"

#include <searchr1/config.h>
#include <searchr1/ext/ranks.h>

struct sr1_ranks {
    struct sr1__launch launch;
    struct sr1__dist *dist; /* NULL: one process */
    sr1_config *config;     /* as given */
};

/* Which process this is; a world of one where the key distributed_backend is none. */
sr1_status sr1__job_read(struct sr1__launch *out, const sr1_config *c);
/* Meet the others of a world of several. SR1_E_STATE names ranks with another
 * configuration or version of the library. Those that train exchange tensors by the key
 * distributed_backend; others exchange bytes, by gloo. */
sr1_status sr1__job_meet(struct sr1__dist **out, const struct sr1__launch *l,
                         const sr1_config *c, int trains);
/* With the status st of making this rank's: have all ranks the same object, as JSON?
 * SR1_E_STATE names the members that differ, behind what it is ("the policy"). */
sr1_status sr1__job_compare(struct sr1__dist *d, const char *what, sr1_status st,
                            const char *json);
/* The configuration as this process computes by it, with its share of the machine: its
 * part of the threads, its GPU. Caller frees with sr1_config_free. */
sr1_status sr1__job_config(const struct sr1__launch *l, const sr1_config *c,
                           sr1_config **out);

/* NULL where r is NULL. */
static inline struct sr1__dist *sr1__ranks_dist(const sr1_ranks *r)
{
    return r ? r->dist : NULL;
}

#endif
