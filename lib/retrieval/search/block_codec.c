/* retrieval/search/block_codec.c - frame of reference with patched exceptions, as in
 * Zukowski, Heman, Nes and Boncz, "Super-scalar RAM-CPU cache compression", 2006, and the
 * lane layout of Lemire and Boytsov, "Decoding billions of integers per second through
 * vectorization", 2015. */
#include "retrieval/search/block_codec.h"

#include <string.h>

#define LANES 4
#define ROWS (SR1__BLOCK / LANES)
#define WIDTH_MAX 31
#define WIDTH_BITS 5
#define COUNT_APART 7 /* exceptions whose count has a byte of its own */
#define REST_IS_1 128

#define INLINE static inline __attribute__((always_inline))

typedef uint32_t v4u __attribute__((vector_size(16)));

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WITH_VECTORS 1
#else
#define WITH_VECTORS 0
#endif

/* ---- packing ---- */

static unsigned compute_bit_width(uint32_t v)
{
    return v == 0 ? 0 : 32 - (unsigned)__builtin_clz(v);
}

static size_t packed_size(uint32_t n, unsigned width)
{
    return ((size_t)n * width + 7) / 8;
}

/* What width costs, exceptions included. counts[w]: numbers of w bits; those of width + 1
 * bits are the ones whose rest is 1. */
static size_t compute_width_cost(const uint32_t counts[WIDTH_MAX + 1], uint32_t n,
                                 unsigned width)
{
    size_t size = 1 + packed_size(n, width);
    uint32_t exceptions = 0;

    for (unsigned w = width + 1; w <= WIDTH_MAX; w++) {
        exceptions += counts[w];
        size += counts[w] * (w == width + 1 ? 1 : 1 + (size_t)(w - width + 6) / 7);
    }
    return exceptions >= COUNT_APART ? size + 1 : size;
}

static unsigned best_width(const uint32_t *v, uint32_t n)
{
    uint32_t counts[WIDTH_MAX + 1] = {0};
    unsigned most = 0;
    unsigned best = 0;
    size_t least = SIZE_MAX;

    for (uint32_t i = 0; i < n; i++)
        counts[compute_bit_width(v[i])]++;
    for (unsigned w = 0; w <= WIDTH_MAX; w++)
        most = counts[w] > 0 ? w : most;
    for (unsigned w = 0; w <= most; w++) {
        size_t c = compute_width_cost(counts, n, w);

        if (c < least) {
            least = c;
            best = w;
        }
    }
    return best;
}

static void pack_lanes(const uint32_t *v, unsigned width, unsigned char *out)
{
    uint32_t words[WIDTH_MAX + 1][LANES] = {{0}};
    uint32_t mask = ((uint32_t)1 << width) - 1;

    for (unsigned i = 0; i < SR1__BLOCK; i++) {
        unsigned bit = i / LANES * width;
        uint64_t bits = (uint64_t)(v[i] & mask) << (bit % 32);

        words[bit / 32][i % LANES] |= (uint32_t)bits;
        words[bit / 32 + 1][i % LANES] |= (uint32_t)(bits >> 32);
    }
    for (unsigned i = 0; i < width * LANES; i++) {
        for (unsigned byte = 0; byte < 4; byte++)
            *out++ = (unsigned char)(words[i / LANES][i % LANES] >> (8 * byte));
    }
}

static void pack_stream(const uint32_t *v, uint32_t n, unsigned width, unsigned char *out)
{
    uint32_t mask = ((uint32_t)1 << width) - 1;
    uint64_t pending = 0;
    unsigned filled = 0;

    for (uint32_t i = 0; i < n; i++) {
        pending |= (uint64_t)(v[i] & mask) << filled;
        for (filled += width; filled >= 8; filled -= 8, pending >>= 8)
            *out++ = (unsigned char)pending;
    }
    if (filled > 0)
        *out = (unsigned char)pending;
}

static size_t pack_exceptions(const uint32_t *v, uint32_t n, unsigned width,
                              unsigned char *out)
{
    unsigned char *p = out;

    for (uint32_t i = 0; i < n; i++) {
        if (v[i] >> width != 0)
            *p++ = (unsigned char)(i | (v[i] >> width == 1 ? REST_IS_1 : 0));
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rest = v[i] >> width;

        if (rest <= 1)
            continue;
        for (; rest >= 0x80; rest >>= 7)
            *p++ = (unsigned char)(rest | 0x80);
        *p++ = (unsigned char)rest;
    }
    return (size_t)(p - out);
}

size_t sr1__block_pack(const uint32_t *v, uint32_t n, unsigned char out[SR1__BLOCK_BYTES])
{
    unsigned width = best_width(v, n);
    uint32_t exceptions = 0;
    unsigned char *p = out;

    for (uint32_t i = 0; i < n; i++)
        exceptions += v[i] >> width != 0;
    *p++ = (unsigned char)(width | (exceptions < COUNT_APART ? exceptions : COUNT_APART)
                                       << WIDTH_BITS);
    if (exceptions >= COUNT_APART)
        *p++ = (unsigned char)exceptions;
    if (n == SR1__BLOCK)
        pack_lanes(v, width, p);
    else
        pack_stream(v, n, width, p);
    p += packed_size(n, width);
    p += pack_exceptions(v, n, width, p);
    return (size_t)(p - out);
}

/* ---- unpacking ---- */

static uint32_t word_at(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static void unpack_stream(const unsigned char *p, uint32_t n, unsigned width, uint32_t *v)
{
    uint64_t mask = ((uint64_t)1 << width) - 1;

    for (uint32_t i = 0; i < n; i++) {
        unsigned bit = i * width;
        const unsigned char *at = p + bit / 8;
        uint64_t bits = word_at(at) | (uint64_t)word_at(at + 4) << 32;

        v[i] = (uint32_t)(bits >> bit % 8 & mask);
    }
}

static void unpack_lanes_plain(const unsigned char *p, unsigned width, uint32_t *v)
{
    uint32_t mask = ((uint32_t)1 << width) - 1;

    for (unsigned i = 0; i < SR1__BLOCK && width > 0; i++) {
        unsigned bit = i / LANES * width;
        const unsigned char *at = p + (size_t)(bit / 32 * LANES + i % LANES) * 4;
        uint64_t bits = word_at(at);

        if (bit % 32 + width > 32)
            bits |= (uint64_t)word_at(at + LANES * 4) << 32;
        v[i] = (uint32_t)(bits >> bit % 32) & mask;
    }
    if (width == 0)
        memset(v, 0, SR1__BLOCK * sizeof(*v));
}

INLINE v4u load_vector(const unsigned char *p)
{
    v4u x;

    memcpy(&x, p, sizeof(x));
    return x;
}

/* width is a constant where it is used, and so are all shifts. */
INLINE void unpack_rows(const unsigned char *p, unsigned width, uint32_t *v)
{
    uint32_t mask = ((uint32_t)1 << width) - 1;

#pragma GCC unroll 32
    for (unsigned row = 0; row < ROWS; row++) {
        unsigned bit = row * width;
        v4u x = load_vector(p + bit / 32 * 16) >> bit % 32;

        if (bit % 32 + width > 32)
            x |= load_vector(p + (bit / 32 + 1) * 16) << (32 - bit % 32) % 32;
        x &= mask;
        memcpy(v + row * LANES, &x, sizeof(x));
    }
}

#define WIDTHS(X)                                                                        \
    X(1)                                                                                 \
    X(2)                                                                                 \
    X(3)                                                                                 \
    X(4)                                                                                 \
    X(5)                                                                                 \
    X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20)
#define WIDTH_CASE(w)                                                                    \
    case w:                                                                              \
        unpack_rows(p, w, v);                                                            \
        break;

static void unpack_lanes(const unsigned char *p, unsigned width, uint32_t *v)
{
    switch (width) {
    case 0:
        memset(v, 0, SR1__BLOCK * sizeof(*v));
        break;
        WIDTHS(WIDTH_CASE)
    default: /* gaps of more than a million documents: lists too short to matter */
        unpack_lanes_plain(p, width, v);
    }
}

/* A varint of up to 5 bytes at *p; 0 when it does not end before `end`. */
static uint64_t read_rest(const unsigned char **p, const unsigned char *end)
{
    uint64_t rest = 0;

    for (unsigned shift = 0; shift <= 28 && *p < end; shift += 7) {
        unsigned char byte = *(*p)++;

        rest |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return rest;
    }
    return 0;
}

/* Exceptions lie at p[0..size). Returns the bytes they took, 0 for nonsense. */
static size_t apply_exceptions(const unsigned char *p, size_t size, uint32_t n,
                               uint32_t count, unsigned width, uint32_t *v, uint32_t *all)
{
    const unsigned char *end = p + size;
    const unsigned char *rests = p + count;

    if (count > size)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = p[i] & (REST_IS_1 - 1);
        uint64_t rest = p[i] & REST_IS_1 ? 1 : read_rest(&rests, end);

        if (at >= n || rest == 0 || rest >> (WIDTH_MAX - width) != 0)
            return 0;
        v[at] |= (uint32_t)rest << width;
        *all |= (uint32_t)rest << width;
    }
    return (size_t)(rests - p);
}

typedef void (*lanes_fn)(const unsigned char *p, unsigned width, uint32_t *v);

INLINE size_t unpack_block(const unsigned char *p, size_t size, uint32_t n, uint32_t *v,
                           uint32_t *all, lanes_fn lanes)
{
    unsigned width;
    uint32_t count;
    size_t head = 1;
    size_t took;

    if (size == 0)
        return 0;
    width = p[0] & (((unsigned)1 << WIDTH_BITS) - 1);
    count = p[0] >> WIDTH_BITS;
    if (count == COUNT_APART)
        count = p[head++];
    took = head + packed_size(n, width);
    if (took > size)
        return 0;
    *all = ((uint32_t)1 << width) - 1;
    if (n == SR1__BLOCK)
        lanes(p + head, width, v);
    else
        unpack_stream(p + head, n, width, v);
    if (count > 0) {
        size_t more = apply_exceptions(p + took, size - took, n, count, width, v, all);

        return more > 0 ? took + more : 0;
    }
    return took;
}

size_t sr1__block_unpack(const unsigned char *p, size_t size, uint32_t n, uint32_t *v,
                         uint32_t *all)
{
    return unpack_block(p, size, n, v, all,
                        WITH_VECTORS ? unpack_lanes : unpack_lanes_plain);
}

size_t sr1__block_unpack_plain(const unsigned char *p, size_t size, uint32_t n,
                               uint32_t *v, uint32_t *all)
{
    return unpack_block(p, size, n, v, all, unpack_lanes_plain);
}

/* ---- sums ---- */

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define WITH_SHUFFLES 1
#endif
#endif

#ifdef WITH_SHUFFLES
void sr1__block_sums(uint32_t *v, uint32_t n, uint32_t before)
{
    const v4u zero = {0, 0, 0, 0};
    v4u carry = {before, before, before, before};
    uint32_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        v4u x;

        memcpy(&x, v + i, sizeof(x));
        x += 1;
        x += __builtin_shufflevector(zero, x, 0, 4, 5, 6);
        x += __builtin_shufflevector(zero, x, 0, 1, 4, 5);
        x += carry;
        carry = __builtin_shufflevector(x, x, 3, 3, 3, 3);
        memcpy(v + i, &x, sizeof(x));
    }
    before = i > 0 ? v[i - 1] : before;
    for (; i < n; i++)
        v[i] = before += v[i] + 1;
}
#else
void sr1__block_sums(uint32_t *v, uint32_t n, uint32_t before)
{
    for (uint32_t i = 0; i < n; i++)
        v[i] = before += v[i] + 1;
}
#endif
