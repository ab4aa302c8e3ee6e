/* tensor/model/device_head.h - the vocabulary head of a decoder on a device.
 *
 * The decoder keeps the last hidden state of each row on the device. Logits [n,V] exist
 * only while tokens are drawn from them, and never reach the host. A row has two places
 * for its state, so that the next one can be computed before the present one is done
 * with.
 *
 * Ownership: model and graphs are borrowed.
 * Errors:    a failed draw leaves the streams as they were.
 * Threads:   as the decoder's. */
#ifndef SR1__MODEL_DEVICE_HEAD_H
#define SR1__MODEL_DEVICE_HEAD_H

#include "tensor/model/model.h"
#include "tensor/model/step_graphs.h"
#include "tensor/weights/sampling.h"

struct sr1__device_head;

sr1_status sr1__device_head_new(struct sr1__device_head **out, sr1_model *m,
                                int32_t n_rows, struct sr1__step_graphs *graphs);
void sr1__device_head_free(struct sr1__device_head *h); /* NULL is fine */
/* The device's memory, [2 n_rows + 1, E] and less: taken, given back. */
sr1_status sr1__device_head_reserve(struct sr1__device_head *h);
void sr1__device_head_reset(struct sr1__device_head *h);

/* Where the next hidden state of a row goes; that of row n_rows is nobody's. */
int64_t sr1__device_head_next(const struct sr1__device_head *h, int32_t row);
/* hidden [n,E] goes to places, i64 [n]. */
void sr1__device_head_store(sr1_scope *s, struct sr1__device_head *h, sr1_tensor *hidden,
                            sr1_tensor *places);
/* The row's next hidden state is now its present one. */
void sr1__device_head_advance(struct sr1__device_head *h, int32_t row);
sr1_status sr1__device_head_copy(struct sr1__device_head *h, int32_t from, int32_t to);

/* Tokens to draw as sr1__sample_rows does. */
struct sr1__device_draw {
    const int32_t *rows; /* [n] */
    size_t n;
    const struct sr1__sampling *how;
    struct sr1__rng *const *rngs; /* [n]; greedy: not looked at */
    sr1_tensor *ids;              /* i64 [any]: the ids go there too, */
    const int64_t *lanes;         /* [n] at these indices; */
    int64_t nobody;               /* this one is read by nobody */
};
/* Launch the draw: one copy there, one back that is not waited for. */
sr1_status sr1__device_head_draw(struct sr1__device_head *h,
                                 const struct sr1__device_draw *draw);
/* Give its uniforms back instead of reading it. */
void sr1__device_head_undo(struct sr1__device_head *h,
                           const struct sr1__device_draw *draw);
/* Wait for it. */
sr1_status sr1__device_head_read(struct sr1__device_head *h,
                                 const struct sr1__device_draw *draw,
                                 struct sr1__sample *out);
/* logits [V] of a row */
sr1_status sr1__device_head_logits(struct sr1__device_head *h, int32_t row,
                                   float *logits);

#endif
