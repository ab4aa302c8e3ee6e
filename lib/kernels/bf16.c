/* kernels/bf16.c - see bf16.h. Plain loops, which compilers turn into vectors. */
#include "kernels/bf16.h"

#include "kernels/exp.h"
#include "kernels/variants.h"

#include <string.h>

SR1__INLINE void widen_body(const uint16_t *restrict in, float *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)in[i] << 16;

        memcpy(&out[i], &bits, sizeof bits);
    }
}

SR1__INLINE void narrow_body(const float *restrict in, uint16_t *restrict out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        uint32_t rounded;

        memcpy(&bits, &in[i], sizeof bits);
        rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        out[i] = (uint16_t)(in[i] == in[i] ? rounded : (bits >> 16 | 0x40));
    }
}

struct bf16_kernels {
    void (*widen)(const uint16_t *in, float *out, size_t n);
    void (*narrow)(const float *in, uint16_t *out, size_t n);
};

#define VARIANT(name, attribute)                                                         \
    attribute static void widen_##name(const uint16_t *in, float *out, size_t n)         \
    {                                                                                    \
        widen_body(in, out, n);                                                          \
    }                                                                                    \
    attribute static void narrow_##name(const float *in, uint16_t *out, size_t n)        \
    {                                                                                    \
        narrow_body(in, out, n);                                                         \
    }                                                                                    \
    static const struct bf16_kernels kernels_##name = {widen_##name, narrow_##name};

VARIANT(portable, )
#if defined(__x86_64__)
VARIANT(avx2, __attribute__((target("avx2"))))
VARIANT(avx512, __attribute__((target("avx512f,avx512bw,avx512vl"))))
#endif

void sr1__bf16_to_f32(const uint16_t *in, float *out, size_t n)
{
    SR1__PICK(kernels)->widen(in, out, n);
}

void sr1__f32_to_bf16(const float *in, uint16_t *out, size_t n)
{
    SR1__PICK(kernels)->narrow(in, out, n);
}
