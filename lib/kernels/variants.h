/* kernels/variants.h - the choice among the variants that a kernel is compiled in. */
#ifndef SR1__KERNELS_VARIANTS_H
#define SR1__KERNELS_VARIANTS_H

#if defined(__x86_64__)

int sr1__has_avx2(void);   /* with FMA */
int sr1__has_avx512(void); /* F, BW, DQ and VL, and the above */

/* The address of name_avx512, name_avx2 or name_portable: the widest that may run. */
#define SR1__PICK(name)                                                                  \
    (sr1__has_avx512() ? &name##_avx512                                                  \
     : sr1__has_avx2() ? &name##_avx2                                                    \
                       : &name##_portable)

#else
#define SR1__PICK(name) (&name##_portable)
#endif

#endif
