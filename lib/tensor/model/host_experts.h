/* tensor/model/host_experts.h - the MLP of routed experts (experts.h) in the CPU's decode
 * path. A token's numbers do not depend on the others', to the bit. */
#ifndef SR1__MODEL_HOST_EXPERTS_H
#define SR1__MODEL_HOST_EXPERTS_H

#include "tensor/model/host_weights.h"

/* What passes through them work with. */
struct sr1__host_experts;

/* Of a model that has some; m and team are borrowed. int8: their matrices are. */
sr1_status sr1__host_experts_new(struct sr1__host_experts **out, const sr1_model *m,
                                 struct sr1__team *team, int int8);
void sr1__host_experts_free(struct sr1__host_experts *e); /* NULL is fine, for all */
/* Give the memory of a pass back. */
void sr1__host_experts_reset(struct sr1__host_experts *e);
/* Room for a pass over so many tokens; its bytes with what so many threads have. */
sr1_status sr1__host_experts_reserve(struct sr1__host_experts *e, size_t tokens);
double sr1__host_experts_bytes(const struct sr1__hf_config *c, double tokens,
                               double threads, int bf16, int int8);

/* What experts give for rows of h [n, E], x normalised, of the weights' type with zeros
 * behind E, is added to x [n, E]; both in rows of `width` elements. */
struct sr1__expert_rows {
    const unsigned char *h;
    float *x;
    size_t width;
    size_t n;
};
void sr1__host_experts_run(struct sr1__host_experts *e, const struct sr1__host_weights *w,
                           const struct sr1__host_layer *l,
                           const struct sr1__expert_rows *rows);

#endif
