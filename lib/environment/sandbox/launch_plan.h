/* environment/sandbox/launch_plan.h - the launch plan of a local sandbox: bubblewrap,
 * interpreter, filter and jail. */
#ifndef SR1__SANDBOX_LAUNCH_PLAN_H
#define SR1__SANDBOX_LAUNCH_PLAN_H

#include "base/buf.h"
#include "environment/sandbox/job.h"
#include "environment/sandbox/jail.h"
#include "environment/sandbox/process_tree.h"

/* Constant after the probe, except for the jail's pool of network namespaces. */
struct sr1__launch_plan {
    const sr1_sandbox_options *o;
    int isolated;
    int with_proc;     /* /proc can be mounted anew here */
    const char *bwrap; /* isolated */
    const char *python;
    struct sr1__buf filter;
    struct sr1__jail jail; /* isolated: where there can be one */
};

/* Find bubblewrap and the interpreter. SR1_E_UNSUPPORTED, with the remedy. */
sr1_status sr1__launch_plan_init(struct sr1__launch_plan *p,
                                 const sr1_sandbox_options *o);
void sr1__launch_plan_free(struct sr1__launch_plan *p);

/* Have a jail for so many programs at a time: they start faster. */
sr1_status sr1__launch_plan_enclose(struct sr1__launch_plan *p, int32_t programs);

sr1_status sr1__launch_plan_launch(struct sr1__launch_plan *p,
                                   const struct sr1__sandbox_job *job,
                                   struct sr1__process_tree *out);
/* Release the resources of a launch that has ended or never began. */
void sr1__launch_plan_end(struct sr1__launch_plan *p, struct sr1__process_tree *l);

#endif
