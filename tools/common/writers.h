/* writers.h - what tools for critiques share: their prompts. */
#ifndef SR1_TOOLS_WRITERS_H
#define SR1_TOOLS_WRITERS_H

#include <searchr1/critique.h>

/* By the keys critique_template and solve_template. */
sr1_status style_open(sr1_critique_style **out, const sr1_config *c);

/* All tests of an answer are run, unless the configuration says otherwise. */
sr1_status count_tests(sr1_config *c);

/* What answers, critiques and revisions depend on, as text: the keys of the
 * configuration that say who writes and how programs are judged, and in more[n] what only
 * the tool knows; NULL texts are fine. Caller frees with free; NULL without memory. */
char *made_by(const sr1_config *c, const char *const *more, size_t n);

#endif
