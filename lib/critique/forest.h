/* critique/forest.h - the inside of sr1_forest, shared by forest.c (nodes and their
 * file), expand.c (growing) and forest_scores.c. */
#ifndef SR1__CRITIQUE_FOREST_H
#define SR1__CRITIQUE_FOREST_H

#include "base/error.h"
#include "data/jsonl.h"

#include <searchr1/critique.h>

#define SR1__NODE_HASH 40

struct sr1__node {
    const sr1_problem *problem;
    char hash[SR1__NODE_HASH + 1];
    size_t parent;  /* its index; of a root its own */
    size_t answer;  /* the first answer above it, or itself; of a root its own */
    char *solution; /* NULL at a root */
    char *critique; /* NULL but at a revision */
    int32_t kind, depth, judgement, verdict;
    int32_t children;
    double pass_rate;
};

struct sr1_forest {
    sr1_forest_options o; /* path and made_by are of no use after opening */
    uint64_t made_by;     /* a digest of that; 0: none is kept */
    struct sr1__node *nodes;
    size_t n, cap;
    struct sr1__jsonl *file; /* NULL: none */
};

/* The hash of the k-th child of a node. */
void sr1__node_hash(const struct sr1__node *parent, int32_t k,
                    char out[SR1__NODE_HASH + 1]);

/* Add a child of *n's parent: hash and depth are set here, texts taken over on success;
 * it is written to the file. */
sr1_status sr1__forest_grow(struct sr1_forest *f, const struct sr1__node *n);

/* Take the node of a line of the file, which is not open for writing yet. */
sr1_status sr1__forest_read(struct sr1_forest *f, const json_t *line);

#endif
