/* common/generators.h - what tools for critiques share: their prompts, and the name of
 * what made their answers. */
#ifndef SR1_TOOLS_GENERATORS_H
#define SR1_TOOLS_GENERATORS_H

#include <searchr1/ext/critique.h>

#include <stdint.h>

/* By the keys critique_template and solve_template. */
sr1_status style_open(sr1_critique_style **out, const sr1_config *c);

/* All tests of an answer are run, unless the configuration says otherwise. */
sr1_status count_tests(sr1_config *c);

/* What answers, critiques and revisions depend on, as text: the keys of the
 * configuration that say who generates and how programs are judged, the texts of the
 * templates, and in more[n] what only the tool knows; NULL texts are fine. Caller frees
 * *out with free; NULL on failure. */
sr1_status made_by(char **out, const sr1_config *c, const char *const *more, size_t n);

/* The exit status of work that lacks so many answers: TOOL_FAILED and a message where it
 * lacks any. tree: the file that keeps the others; NULL: none does. */
int check_missing_answers(const char *tool, int64_t missing, const char *tree);

#endif
