/* remote.h - print the statistics of a generation server (use_openai). */
#ifndef SR1_TOOLS_REMOTE_H
#define SR1_TOOLS_REMOTE_H

#include <searchr1/rollout.h>

/* A line on stderr: how many answers, and how far their tokens can be trusted. Nothing
 * where no server generated. */
void remote_note(const char *program, const sr1_rollout *rollout);

#endif
