/* base/rng.c - xoshiro256** and splitmix64 (Blackman and Vigna, "Scrambled linear
 * pseudorandom number generators", 2018); FNV-1a for hashing. */
#include "base/rng.h"

#include <math.h>

#define GOLDEN 0x9e3779b97f4a7c15u
#define TWO_PI 6.283185307179586476925286766559

static uint64_t finalise_splitmix64(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

/* Both words pass through the mixer before they meet, so that neighbouring seeds with
 * neighbouring streams do not meet in one state. */
void sr1__rng_seed(struct sr1__rng *r, uint64_t seed, uint64_t stream)
{
    uint64_t x = finalise_splitmix64(seed + GOLDEN) ^
                 rotate_left(finalise_splitmix64(stream + 2 * GOLDEN), 32);

    for (int i = 0; i < 4; i++) {
        x += GOLDEN;
        r->s[i] = finalise_splitmix64(x);
    }
}

uint64_t sr1__rng_u64(struct sr1__rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double sr1__rng_uniform(struct sr1__rng *r)
{
    return (double)(sr1__rng_u64(r) >> 11) * 0x1.0p-53;
}

/* The first 2^64 mod n values are refused: what is left divides evenly. */
uint64_t sr1__rng_below(struct sr1__rng *r, uint64_t n)
{
    uint64_t refused = (0 - n) % n;
    uint64_t x;

    do
        x = sr1__rng_u64(r);
    while (x < refused);
    return x % n;
}

double sr1__rng_normal(struct sr1__rng *r)
{
    double u = 1.0 - sr1__rng_uniform(r); /* (0, 1]: its logarithm is finite */
    double v = sr1__rng_uniform(r);

    return sqrt(-2.0 * log(u)) * cos(TWO_PI * v);
}

void sr1__rng_shuffle(struct sr1__rng *r, int64_t *v, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)sr1__rng_below(r, i);
        int64_t t = v[i - 1];

        v[i - 1] = v[j];
        v[j] = t;
    }
}

uint64_t sr1__hash64(const void *bytes, size_t n, uint64_t seed)
{
    const unsigned char *p = bytes;
    uint64_t h = 0xcbf29ce484222325u ^ finalise_splitmix64(seed);

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return finalise_splitmix64(h + GOLDEN);
}
