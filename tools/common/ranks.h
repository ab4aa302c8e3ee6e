/* ranks.h - a tool that a launcher started several times: the job's processes, and what a
 * process that is not the first of them says. */
#ifndef SR1_TOOLS_RANKS_H
#define SR1_TOOLS_RANKS_H

#include <searchr1/ext/ranks.h>

/* Meet the others, and put this process's share of the machine in place of *c. Warnings
 * of a process that is not the first name its rank from now on. */
sr1_status ranks_begin(sr1_ranks **out, sr1_config **c);
/* Leave the job. NULL is fine. */
void ranks_end(sr1_ranks *ranks);

/* "sr1-eval", of a process that is not the first "sr1-eval, rank 1". Static. */
const char *ranks_program(const sr1_ranks *ranks, const char *program);

/* Does this process print and write? */
int ranks_is_first(const sr1_ranks *ranks);

#endif
