/* tensor/model/device_head.h - the vocabulary head of a decoder on a device.
 *
 * The decoder keeps the last hidden state of each row on the device. Logits [n,V] exist
 * only while tokens are drawn from them, and never reach the host.
 *
 * Ownership: the model is borrowed.
 * Errors:    a failed draw leaves the streams as they were.
 * Threads:   as the decoder's. */
#ifndef SR1__MODEL_DEVICE_HEAD_H
#define SR1__MODEL_DEVICE_HEAD_H

#include "tensor/model/model.h"
#include "tensor/weights/sampling.h"

struct sr1__device_head;

sr1_status sr1__device_head_new(struct sr1__device_head **out, sr1_model *m,
                                int32_t n_rows);
void sr1__device_head_free(struct sr1__device_head *h); /* NULL is fine */
/* The device's memory, [n_rows+1,E]: taken, given back. Row n_rows is nobody's. */
sr1_status sr1__device_head_reserve(struct sr1__device_head *h);
void sr1__device_head_reset(struct sr1__device_head *h);

/* hidden [n,E] becomes that of rows, i64 [n]. */
void sr1__device_head_store(sr1_scope *s, struct sr1__device_head *h, sr1_tensor *hidden,
                            sr1_tensor *rows);
sr1_status sr1__device_head_copy(struct sr1__device_head *h, int32_t from, int32_t to);
/* Draw as sr1__sample_rows does: one copy there, one back. */
sr1_status sr1__device_head_sample(struct sr1__device_head *h, const int32_t *rows,
                                   size_t n, const struct sr1__sampling *how,
                                   struct sr1__rng *const *rngs, struct sr1__sample *out);
/* logits [V] of a row */
sr1_status sr1__device_head_logits(struct sr1__device_head *h, int32_t row,
                                   float *logits);

#endif
