/* writers.h - what tools for critiques share: prompts, and where answers run. */
#ifndef SR1_TOOLS_WRITERS_H
#define SR1_TOOLS_WRITERS_H

#include <searchr1/critique.h>

/* By the keys critique_template and solve_template. */
sr1_status style_open(sr1_critique_style **out, const sr1_config *c);

/* Answers run in the sandbox that the configuration describes. */
sr1_status checker_open(sr1_checker **out, const sr1_config *c);

#endif
