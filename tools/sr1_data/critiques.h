/* critiques.h - sr1-data critiques: demonstrations of critiques from execution. */
#ifndef SR1_DATA_CRITIQUES_H
#define SR1_DATA_CRITIQUES_H

#include <stddef.h>
#include <stdint.h>

struct critique_options {
    const char *model;   /* folder; NULL: remote */
    const char *critic;  /* folder of another critic; NULL: model */
    const char *reviser; /* likewise */
    const char *remote;  /* address of a server in OpenAI's API; NULL: none */
    const char *tree, *rows;
    int64_t solutions, max_problems, seed;
    double temperature;
    int own, one, passing, judged, truthful, balance;
    int force; /* replace out and rows that are there */
};

/* problems, out, then key=value words; the exit code. */
int make_critiques(const struct critique_options *o, const char *problems,
                   const char *out, const char *const *pairs, size_t n_pairs);

#endif
