/* tensor/ops/fused.h - the operations between the matrices of a decoder layer: one pass
 * over memory each if kernels/layer.h supports it (fp32 and bf16 on the CPU, computed
 * in fp32), else by tensor operations. */
#ifndef SR1__OPS_FUSED_H
#define SR1__OPS_FUSED_H

#include "tensor/ops/ops.h"

/* w x / sqrt(mean(x^2) + eps) over the last dimension, computed in fp32 where w is fp32
 * and x is not. */
sr1_tensor *sr1__fused_rms_norm(sr1_scope *s, sr1_tensor *x, sr1_tensor *w, double eps);

/* silu(gate) * up for gate_up [N,2F] = [gate | up] -> [N,F] */
sr1_tensor *sr1__fused_swiglu(sr1_scope *s, sr1_tensor *gate_up);

struct sr1__heads_op {
    int64_t n_q;
    int64_t n_kv;
    int64_t dim;
    sr1_tensor *q_norm; /* [D], or both NULL */
    sr1_tensor *k_norm;
    double eps;
    sr1_tensor *cos; /* [N,D], by token */
    sr1_tensor *sin;
    /* For few tokens without gradients, in few operations; NULL: not so. */
    sr1_tensor *turn;    /* [N,D,D]: x turn is x turned to its position */
    sr1_tensor *qk_norm; /* [H+Hkv,D]: q_norm and k_norm by head */
};
/* Split qkv [N,(H+2Hkv)*D] into out[0] = q [N,H,D], out[1] = k and out[2] = v [N,Hkv,D];
 * heads of q and k normalised and turned to their positions. With turn, qkv is changed,
 * and where there are norms out[1] is k and v as one [N,2Hkv,D], out[2] NULL. */
void sr1__fused_heads(sr1_scope *s, const struct sr1__heads_op *op, sr1_tensor *qkv,
                      sr1_tensor *out[3]);

/* Do kernels take this tensor? One that is dense, of this type and on the CPU. */
int sr1__fused_takes(const sr1_tensor *t, int32_t dtype);
/* Tests: 0 uses operations everywhere. */
void sr1__fused_enable(int on);

#endif
