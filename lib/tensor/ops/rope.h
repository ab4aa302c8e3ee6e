/* tensor/ops/rope.h - tables of rotary positions (RoPE). */
#ifndef SR1__OPS_ROPE_H
#define SR1__OPS_ROPE_H

#include "tensor/ops/ops.h"
#include "tensor/weights/rope_config.h"

/* Tables for positions 0..n-1: cos and sin of position * frequency[i], both [n,D], the
 * D/2 angles twice (the half-split form of Qwen and Llama). Frequencies are
 * theta^(-2i/D), scaled as the configuration says. */
struct sr1__rope {
    sr1_tensor *cos; /* fp32, on the device */
    sr1_tensor *sin;
    int64_t n;
    int32_t dim;
    struct sr1__rope_config config;
    sr1__device device;
};

/* config is copied; it has passed sr1__rope_config_check. dim, D, is even. */
void sr1__rope_init(struct sr1__rope *r, const struct sr1__rope_config *config,
                    int32_t dim, sr1__device device);
/* Make the tables cover positions below n (grows by doubling; older tensors stay valid).
 */
sr1_status sr1__rope_reserve(struct sr1__rope *r, int64_t n);
void sr1__rope_free(struct sr1__rope *r);

#endif
