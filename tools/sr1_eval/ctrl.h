/* ctrl.h - sr1-eval --task ctrl: answers before and after they are revised by critiques.
 */
#ifndef SR1_EVAL_CTRL_H
#define SR1_EVAL_CTRL_H

#include <searchr1/config.h>

#include <stdint.h>

struct ctrl_options {
    int64_t max_rows, seed, revisions, answers, votes;
    double solver_temperature;
    int sample, json;
    const char *widths; /* "1 5 1 1"; NULL: 1, answers, then 1 for each revision */
    const char *tree;   /* file of nodes; NULL: none */
    const char *solver; /* model folder; NULL: the problems' own answers */
};

/* Run the evaluation and print its results; returns the exit code. */
int ctrl_run(const struct ctrl_options *o, sr1_config *c, const char *problems);

#endif
