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

/* One update from the accumulated .grad of every leaf (a leaf without one is left alone),
 * or from gradients gathered elsewhere, sums[leaves] in their order, which are changed;
 * divided by loss_scale (1: none) and clipped to max_norm (<= 0: not). Clears .grad
 * whether or not it skipped. sums and report may be NULL. */
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
int64_t sr1__optimizer_steps(const struct sr1__optimizer *o);
void sr1__optimizer_set_steps(struct sr1__optimizer *o, int64_t steps);

#endif
