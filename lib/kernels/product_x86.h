/* kernels/product_x86.h - the products of x86 processors, as rows of the table in
 * product.c. */
#ifndef SR1__KERNELS_PRODUCT_X86_H
#define SR1__KERNELS_PRODUCT_X86_H

#include "kernels/product.h"
#include "kernels/variants.h"

#if defined(__x86_64__)

int sr1__has_avx512bf16(void);
int sr1__has_amx(void); /* asks the system for leave, and multiplies once to see */

void sr1__product_f32_avx2(const struct sr1__product_work *w);
void sr1__product_f32_avx512(const struct sr1__product_work *w);
void sr1__product_bf16_avx2(const struct sr1__product_work *w);
void sr1__product_bf16_avx512(const struct sr1__product_work *w);
void sr1__product_bf16_avx512bf16(const struct sr1__product_work *w);
void sr1__product_bf16_amx(const struct sr1__product_work *w);

#define SR1__PRODUCT_X86                                                                 \
    {"amx", sr1__has_amx, NULL, sr1__product_bf16_amx},                                  \
        {"avx512bf16", sr1__has_avx512bf16, NULL, sr1__product_bf16_avx512bf16},         \
        {"avx512", sr1__has_avx512, sr1__product_f32_avx512, sr1__product_bf16_avx512},  \
        {"avx2", sr1__has_avx2, sr1__product_f32_avx2, sr1__product_bf16_avx2},
#else
#define SR1__PRODUCT_X86
#endif

#endif
