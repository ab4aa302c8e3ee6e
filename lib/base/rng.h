/* base/rng.h - xoshiro256** seeded through splitmix64; the state is plain data, so saving
 * it is copying it. Streams with different (seed, stream) pairs are independent. */
#ifndef SR1__BASE_RNG_H
#define SR1__BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct sr1__rng {
    uint64_t s[4];
};

void sr1__rng_seed(struct sr1__rng *r, uint64_t seed, uint64_t stream);
uint64_t sr1__rng_u64(struct sr1__rng *r);
double sr1__rng_uniform(struct sr1__rng *r);             /* [0, 1), 53 bits */
uint64_t sr1__rng_below(struct sr1__rng *r, uint64_t n); /* [0, n), unbiased; n > 0 */
double sr1__rng_normal(struct sr1__rng *r);              /* Box-Muller, no hidden state */
void sr1__rng_shuffle(struct sr1__rng *r, int64_t *v, size_t n);
/* Mix bytes into a 64-bit value (FNV-1a then splitmix finaliser): stable across
 * platforms. */
uint64_t sr1__hash64(const void *bytes, size_t n, uint64_t seed);

#endif
