/* environment/sandbox/filter.h - the filter of system calls for isolated programs. */
#ifndef SR1__SANDBOX_FILTER_H
#define SR1__SANDBOX_FILTER_H

#include "base/buf.h"

/* The filter as bubblewrap's --seccomp reads it: an array of struct sock_filter. Empty on
 * processors whose numbers of calls are not known here. */
sr1_status sr1__filter_make(struct sr1__buf *out);

#endif
