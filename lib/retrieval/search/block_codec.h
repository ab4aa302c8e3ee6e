/* retrieval/search/block_codec.h - up to 128 numbers below 2^31 as bits, most of them in
 * one width.
 *
 *     head:u8      width b in its low 5 bits, above them the count of exceptions
 *     count:u8     that count where it is 7 or more (head has 7)
 *     numbers      the low b bits of each
 *     exceptions   position:u8 of each, 128 added where the rest of the number (number >>
 *                  b) is 1; then the other rests as varints
 *
 * The width is the one that needs least bytes; b = 0 with few exceptions is what counts
 * of words mostly are. 128 numbers lie in 4 lanes of 32-bit words, number i in lane i %
 * 4, so that four are unpacked at a time; fewer lie one after the other, low bits first.
 */
#ifndef SR1__SEARCH_BLOCK_CODEC_H
#define SR1__SEARCH_BLOCK_CODEC_H

#include <stddef.h>
#include <stdint.h>

#define SR1__BLOCK 128
/* Most bytes that packing can take: the plain width of 31 bits. */
#define SR1__BLOCK_BYTES (1 + SR1__BLOCK * 31 / 8)
/* Reading may touch so many bytes behind the last one. */
#define SR1__BLOCK_OVERREAD 8

/* Pack v[0..n), 1 <= n <= 128. Returns the bytes written. */
size_t sr1__block_pack(const uint32_t *v, uint32_t n,
                       unsigned char out[SR1__BLOCK_BYTES]);

/* Unpack n numbers from p[0..size); SR1__BLOCK_OVERREAD readable bytes follow them.
 * Returns the bytes they took, or 0 when that is more than size or makes no sense; *all
 * is a number with every bit that one of them has. */
size_t sr1__block_unpack(const unsigned char *p, size_t size, uint32_t n, uint32_t *v,
                         uint32_t *all);
/* The same bytes and numbers without vectors: what the above is tested against. */
size_t sr1__block_unpack_plain(const unsigned char *p, size_t size, uint32_t n,
                               uint32_t *v, uint32_t *all);

/* v[i] = before + (v[0] + 1) + ... + (v[i] + 1), modulo 2^32. */
void sr1__block_sums(uint32_t *v, uint32_t n, uint32_t before);

#endif
