/* environment/critique/revision_trees.h - the inside of sr1_revision_trees, shared by
 * revision_trees.c (nodes and their file), expand_trees.c (growing) and
 * revision_tree_scores.c. */
#ifndef SR1__CRITIQUE_REVISION_TREES_H
#define SR1__CRITIQUE_REVISION_TREES_H

#include "base/error.h"
#include "base/hash_index.h"
#include "base/life.h"
#include "text/data/jsonl.h"

#include <searchr1/ext/critique.h>

#define SR1__REVISION_NODE_HASH 40

struct sr1__revision_node {
    const sr1_problem *problem;
    char hash[SR1__REVISION_NODE_HASH + 1];
    size_t parent;  /* its index; of a root its own */
    size_t answer;  /* the first answer above it, or itself; of a root its own */
    char *solution; /* NULL at a root */
    char *critique; /* NULL but at a revision */
    int32_t kind, depth, judgement, verdict;
    int32_t children;
    size_t first_child; /* where there are any */
    double pass_rate;
};

struct sr1_revision_trees {
    sr1_revision_tree_options o; /* without path and made_by */
    char *path;                  /* of the file of nodes; NULL: none */
    uint64_t made_by;            /* a digest of that; 0: none is kept */
    struct sr1__revision_node *nodes;
    size_t n, cap;
    struct sr1__hash_index by_hash; /* of the nodes */
    struct sr1__jsonl *file;        /* NULL: none */
    struct sr1__life life;
};

/* Add a child of *n's parent: hash and depth are set here, texts taken over on success;
 * it is written to the file. */
sr1_status sr1__revision_trees_add(struct sr1_revision_trees *f,
                                   const struct sr1__revision_node *n);

/* Take the node of a line of the file, which is not open for writing yet. */
sr1_status sr1__revision_trees_read(struct sr1_revision_trees *f, const json_t *line);

#endif
