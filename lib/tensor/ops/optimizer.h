/* tensor/ops/optimizer.h - AdamW with decoupled decay and a bound on the global gradient
 * norm.
 *
 *     m = b1 m + (1-b1) g          v = b2 v + (1-b2) g^2
 *     w = w - lr (wd w + (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps))
 *
 * Weights in bf16 or fp16 are updated in an fp32 master copy. Schedules are the caller's.
 *
 * Moments and masters may lie on the host: an update then takes them through the device
 * in pieces of at most SR1__OFFLOAD_PIECE numbers, so that it is the same to the bit.
 * Gradients in bf16 or fp16 become fp32 in such pieces too.
 *
 * An optimizer may hold the state of a part of the weights only, a range of each leaf's
 * numbers; others hold the rest. The norm is added up by chunks of
 * SR1__NORM_CHUNK numbers of a leaf (in fp32 in a chunk, in double over chunks), and a
 * part begins and ends where a chunk does, so that parts together give the bits of the
 * whole.
 */
#ifndef SR1__OPS_OPTIMIZER_H
#define SR1__OPS_OPTIMIZER_H

#include "tensor/ops/ops.h"

/* A tensor with a name; both borrowed from their owner. */
struct sr1__named {
    const char *name;
    sr1_tensor *tensor;
};

#define SR1__OFFLOAD_PIECE ((int64_t)1 << 24)
#define SR1__NORM_CHUNK ((int64_t)1 << 16)

struct sr1__adamw {
    double beta1; /* 0.9 */
    double beta2; /* 0.999 */
    double eps;   /* 1e-8 */
    double
        weight_decay; /* 0; never applied to tensors of one dimension (norms, biases) */
    int32_t offload;  /* moments and masters on the host; on the CPU they are anyway */
};

struct sr1__optim_report {
    double grad_norm; /* global L2 norm after division by loss_scale, before clipping */
    int skipped;      /* a gradient was not finite: nothing has changed */
};

struct sr1__optimizer;

/* Holds references to the n leaves; their names are copied. */
sr1_status sr1__optimizer_new(struct sr1__optimizer **out,
                              const struct sr1__named *params, size_t n,
                              const struct sr1__adamw *cfg, sr1__device device);
void sr1__optimizer_free(struct sr1__optimizer *o);
/* Of a leaf's numbers n, from the one numbered `from` on. Each bound is a multiple of
 * SR1__NORM_CHUNK, or the leaf's end. */
struct sr1__leaf_part {
    int64_t from, n;
};
/* The same with the state of these parts[n] of the leaves alone. */
sr1_status sr1__optimizer_new_part(struct sr1__optimizer **out,
                                   const struct sr1__named *params, size_t n,
                                   const struct sr1__adamw *cfg, sr1__device device,
                                   const struct sr1__leaf_part *parts);
/* The parts' weights lie in weights[n], flat, of the leaves' type (NULL: the part is
 * empty), and the leaves have no memory; weights NULL: they lie in the leaves again. */
void sr1__optimizer_move_weights(struct sr1__optimizer *o, sr1_tensor *const *weights);

/* Gradients are the accumulated .grad of every leaf (a leaf without one is left alone),
 * or gathered elsewhere, sums[leaves] in their order, NULL for a leaf to be left alone;
 * they are changed. Of a leaf whose state is here in part, sums has that part, flat. */

/* The sums of squares of the gradients' chunks that are here, in order:
 * squares[sr1__optimizer_chunks]. */
size_t sr1__optimizer_chunks(const struct sr1__optimizer *o);
sr1_status sr1__optimizer_squares(const struct sr1__optimizer *o, sr1_tensor *const *sums,
                                  double *squares);
/* How to take a step. */
struct sr1__optim_step {
    double lr, max_norm, loss_scale; /* max_norm <= 0: gradients are not clipped */
    const double *squares;           /* of all chunks, those of other parts too */
    size_t n_squares;
};
/* Update the part that is here. Gradients are divided by loss_scale (1: none) and clipped
 * to max_norm. Clears .grad whether or not it skipped. sums and report may be NULL. */
sr1_status sr1__optimizer_update(struct sr1__optimizer *o, sr1_tensor *const *sums,
                                 const struct sr1__optim_step *how,
                                 struct sr1__optim_report *report);
/* Both, of an optimizer that holds the whole. */
sr1_status sr1__optimizer_step(struct sr1__optimizer *o, sr1_tensor *const *sums,
                               double lr, double max_norm, double loss_scale,
                               struct sr1__optim_report *report);
/* Forget accumulated gradients. */
void sr1__optimizer_clear_grad(struct sr1__optimizer *o);

/* Everything a checkpoint must keep besides the weights: tensors "NAME.exp_avg",
 * "NAME.exp_avg_sq", for low-precision weights "NAME.master", and the number of steps
 * taken. Restore by copying into the tensors (t_copy_) and setting the count. Borrowed
 * until freed. */
size_t sr1__optimizer_state_count(const struct sr1__optimizer *o);
struct sr1__named sr1__optimizer_state(const struct sr1__optimizer *o, size_t i);
/* Of a tensor whose leaf's state is here in part: its first number in the leaf; -1: it is
 * whole. And that leaf, borrowed. */
int64_t sr1__optimizer_state_from(const struct sr1__optimizer *o, size_t i);
const sr1_tensor *sr1__optimizer_state_leaf(const struct sr1__optimizer *o, size_t i);
/* Of the state that is here, and of that of all parts together. */
int64_t sr1__optimizer_bytes(const struct sr1__optimizer *o);
int64_t sr1__optimizer_whole_bytes(const struct sr1__optimizer *o);
int64_t sr1__optimizer_steps(const struct sr1__optimizer *o);
void sr1__optimizer_set_steps(struct sr1__optimizer *o, int64_t steps);

#endif
