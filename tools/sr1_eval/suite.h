/* suite.h - sr1-eval --suite: one table over the question sets of a folder. */
#ifndef SR1_EVAL_SUITE_H
#define SR1_EVAL_SUITE_H

#include <searchr1/config.h>
#include <searchr1/ext/ranks.h>

struct suite_tool_options {
    const char *folder;  /* of question sets */
    const char *results; /* folder of results; NULL: none */
    int64_t samples, max_rows, seed;
    int sample, no_search, json, markdown;
    sr1_ranks *ranks; /* of the job that a launcher started */
};

/* Returns the exit code. */
int suite_run(const struct suite_tool_options *o, const sr1_config *c);

#endif
