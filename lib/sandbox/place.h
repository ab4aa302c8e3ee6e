/* sandbox/place.h - where a local sandbox runs programs: what isolation is made of. */
#ifndef SR1__SANDBOX_PLACE_H
#define SR1__SANDBOX_PLACE_H

#include "base/buf.h"
#include "sandbox/job.h"
#include "sandbox/jail.h"
#include "sandbox/launched.h"

/* Fixed at opening, except for networks of the jail. */
struct sr1__place {
    const sr1_sandbox_options *o;
    int isolated;
    int with_proc;     /* /proc can be mounted anew here */
    const char *bwrap; /* isolated */
    const char *python;
    struct sr1__buf filter;
    struct sr1__jail jail; /* isolated: where there can be one */
};

/* Find bubblewrap and the interpreter. SR1_E_UNSUPPORTED, with the remedy. */
sr1_status sr1__place_init(struct sr1__place *p, const sr1_sandbox_options *o);
void sr1__place_free(struct sr1__place *p);

/* Have a jail for so many programs at a time: they start faster. */
sr1_status sr1__place_enclose(struct sr1__place *p, int32_t programs);

sr1_status sr1__place_launch(struct sr1__place *p, const struct sr1__job *job,
                             struct sr1__launched *out);
/* What was launched has ended, or never began: give back and free what it held. */
void sr1__place_end(struct sr1__place *p, struct sr1__launched *l);

#endif
