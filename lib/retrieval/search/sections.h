/* retrieval/search/sections.h - what the index files of this library have in common.
 *
 *     header    magic[8] version:u32 0:u32
 *     sections  each begins at a multiple of 8, or of what it asks for
 *     footer    counts, a table of the sections, checksum, magic[8]; fixed size
 *
 * All integers are little-endian. An entry of the table is offset:u64 size:u64
 * checksum:u64; the footer's checksum is of all that stands before it in the footer. */
#ifndef SR1__SEARCH_SECTIONS_H
#define SR1__SEARCH_SECTIONS_H

#include "base/buf.h"
#include "base/map_watch.h"
#include "retrieval/search/spool.h"

#include <string.h>

#define SECTIONS_MOST 8
#define SECTIONS_HEADER_BYTES 16
#define SECTIONS_ENTRY 24
/* With `counts` bytes before the table of n sections. */
#define SECTIONS_FOOTER_BYTES(counts, n) ((counts) + (n)*SECTIONS_ENTRY + 8 + 8)

static inline uint32_t index_u16(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t index_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static inline uint32_t index_u24(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

static inline uint64_t index_u64(const unsigned char *p)
{
    return (uint64_t)index_u32(p) | (uint64_t)index_u32(p + 4) << 32;
}

/* Bounded reading, where it takes much of the time: sr1__read_u8. */
static inline uint8_t index_byte(struct sr1__reader *r)
{
    if (r->left == 0) {
        r->failed = 1;
        return 0;
    }
    r->left--;
    return *r->p++;
}

/* Of varints; a bad one sets failed and gives 0. */
uint64_t sr1__index_long_varint(struct sr1__reader *r, uint8_t first);
static inline uint64_t sr1__index_varint(struct sr1__reader *r)
{
    uint8_t first = index_byte(r);

    return first < 0x80 ? first : sr1__index_long_varint(r, first);
}

/* A checksum taken in pieces. Eight bytes a step: a mixing of FNV's kind. */
struct index_sum {
    uint64_t h;
    uint64_t n;
    unsigned char rest[8]; /* [n % 8] */
};

static inline void index_sum_add(struct index_sum *s, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t have = (size_t)(s->n % 8);

    if (n == 0)
        return;
    s->n += n;
    if (have > 0) {
        size_t take = n < 8 - have ? n : 8 - have;

        memcpy(s->rest + have, p, take);
        p += take;
        n -= take;
        if (have + take < 8)
            return;
        s->h = (s->h ^ index_u64(s->rest)) * 0xFF51AFD7ED558CCDu;
        s->h ^= s->h >> 32;
    }
    for (; n >= 8; n -= 8, p += 8) {
        s->h = (s->h ^ index_u64(p)) * 0xFF51AFD7ED558CCDu;
        s->h ^= s->h >> 32;
    }
    if (n > 0)
        memcpy(s->rest, p, n);
}

static inline uint64_t index_sum_end(const struct index_sum *s)
{
    uint64_t h = s->h ^ 0x9E3779B97F4A7C15u ^ s->n;

    for (size_t i = 0; i < s->n % 8; i++)
        h = (h ^ s->rest[i]) * 0x100000001B3u;
    h = (h ^ h >> 29) * 0xFF51AFD7ED558CCDu;
    return h ^ h >> 32;
}

uint64_t sr1__index_sum_of(const void *bytes, size_t n);

/* SR1_E_CORRUPT: "index is damaged: what; build it again". */
sr1_status sr1__index_corrupt(const char *what);

/* ---- reading ---- */

struct sr1__section {
    const unsigned char *p;
    size_t size;
    uint64_t checksum;
};

/* What a kind of index file is, for opening one. */
struct sr1__index_kind {
    const char *magic; /* 8 bytes */
    const char *name;  /* "BM25 index" */
    uint32_t version;
    size_t counts_bytes; /* of the footer, before the table */
    size_t n_sections;
};

/* Check header and footer of bytes[0..n), set sections[n_sections] and *counts to the
 * footer's first bytes. */
sr1_status sr1__sections_open(const struct sr1__index_kind *kind,
                              const unsigned char *bytes, size_t n,
                              struct sr1__section *sections,
                              const unsigned char **counts);
/* sr1__map_open_watched of an index: its footer has the checksums of all sections. */
sr1_status sr1__sections_map(struct sr1__map *out, const struct sr1__index_kind *kind,
                             const char *path);
/* Compare the checksums: SR1_E_CORRUPT names the section. */
sr1_status sr1__sections_verify(const struct sr1__section *sections,
                                const char *const *names, size_t n);

/* ---- writing ---- */

struct sr1__section_writer {
    struct sr1__file_writer *file;
    struct {
        uint64_t offset;
        uint64_t size;
        struct index_sum sum;
    } places[SECTIONS_MOST];
};

/* Write the header; the file is open. */
sr1_status sr1__section_header(struct sr1__section_writer *w,
                               const struct sr1__index_kind *kind);
/* Section s begins here, at a multiple of align. */
sr1_status sr1__section_begin(struct sr1__section_writer *w, size_t s, size_t align);
sr1_status sr1__section_put(struct sr1__section_writer *w, size_t s, const void *bytes,
                            size_t n);
/* A whole section from a spool. */
sr1_status sr1__section_put_spool(struct sr1__section_writer *w, size_t s,
                                  struct sr1__spool *spool);
/* The footer, behind counts (counts_bytes of them). */
sr1_status sr1__section_footer(struct sr1__section_writer *w,
                               const struct sr1__index_kind *kind,
                               struct sr1__buf *counts);

#endif
