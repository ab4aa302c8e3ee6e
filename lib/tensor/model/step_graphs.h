/* tensor/model/step_graphs.h - the kernels of decode steps, captured as graphs and
 * replayed (CUDA graphs).
 *
 * Steps of equal keys launch the same kernels on the same addresses, and may be run twice
 * in a row with the results of once. Such a step is launched kernel by kernel the first
 * time, which makes what is made once, captured the second time, and replayed from then
 * on. Where graphs cannot be had, or one fails, all steps are launched kernel by kernel,
 * and one warning says why. A step in which the host looks at the device's numbers has no
 * key: no graph can hold it.
 *
 * Errors:    those of a step launched kernel by kernel.
 * Threads:   as the decoder's. */
#ifndef SR1__MODEL_STEP_GRAPHS_H
#define SR1__MODEL_STEP_GRAPHS_H

#include "tensor/ops/scope.h"

#define SR1__STEP_GRAPHS_MOST 64 /* kept; the least recently used goes first */

struct sr1__step_graphs;

/* Which step, and its sizes. */
struct sr1__step_key {
    int64_t part[6];
};

/* What decides over the addresses of all steps, and over what their kernels read. */
struct sr1__step_state {
    uint64_t version; /* of the weights */
    int64_t rope;     /* positions in the rotary tables */
    int64_t cache;    /* moves of the key-value cache */
};

struct sr1__step_graph_stats {
    int64_t captures;
    int64_t replays;
};

sr1_status sr1__step_graphs_new(struct sr1__step_graphs **out, sr1__device device);
void sr1__step_graphs_free(struct sr1__step_graphs *g); /* NULL is fine */
/* 1: every step kernel by kernel. */
void sr1__step_graphs_eager(struct sr1__step_graphs *g, int on);

/* Drop graphs of another state. */
void sr1__step_graphs_keep(struct sr1__step_graphs *g,
                           const struct sr1__step_state *state);
/* Drop all. */
void sr1__step_graphs_drop(struct sr1__step_graphs *g);

/* Launch the kernels that fn(s, arg) launches; key NULL: always one by one. */
sr1_status sr1__step_graphs_run(struct sr1__step_graphs *g, const char *label,
                                const struct sr1__step_key *key,
                                void (*fn)(sr1_scope *s, void *arg), void *arg);
void sr1__step_graphs_stats(const struct sr1__step_graphs *g,
                            struct sr1__step_graph_stats *out);

#endif
