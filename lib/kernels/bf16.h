/* kernels/bf16.h - between fp32 and bf16, compiled for several vector units and chosen at
 * run time. */
#ifndef SR1__KERNELS_BF16_H
#define SR1__KERNELS_BF16_H

#include <stddef.h>
#include <stdint.h>

/* n values; to bf16 to nearest, ties to even; NaN stays NaN. */
void sr1__bf16_to_f32(const uint16_t *in, float *out, size_t n);
void sr1__f32_to_bf16(const float *in, uint16_t *out, size_t n);

#endif
