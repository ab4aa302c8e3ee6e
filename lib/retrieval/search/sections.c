/* retrieval/search/sections.c - see sections.h. */
#include "retrieval/search/sections.h"

#include "base/mem.h"

#define COPY ((size_t)1 << 16)

uint64_t sr1__index_long_varint(struct sr1__reader *r, uint8_t first)
{
    uint64_t v = first & 0x7F;

    for (int shift = 7; shift < 63; shift += 7) {
        uint8_t byte = index_byte(r);

        v |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return v;
    }
    r->failed = 1;
    return 0;
}

uint64_t sr1__index_sum_of(const void *bytes, size_t n)
{
    struct index_sum sum = {0};

    index_sum_add(&sum, bytes, n);
    return index_sum_end(&sum);
}

sr1_status sr1__index_corrupt(const char *what)
{
    return sr1__fail(SR1_E_CORRUPT, "index is damaged: %s; build it again", what);
}

/* ---- reading ---- */

static sr1_status read_entry(struct sr1__reader *r, const unsigned char *bytes,
                             size_t end, struct sr1__section *out)
{
    uint64_t offset = sr1__read_u64(r);
    uint64_t size = sr1__read_u64(r);

    out->checksum = sr1__read_u64(r);
    if (offset < SECTIONS_HEADER_BYTES || offset > end || size > end - offset)
        return sr1__index_corrupt("a section lies outside the file");
    out->p = bytes + offset;
    out->size = (size_t)size;
    return SR1_OK;
}

sr1_status sr1__sections_open(const struct sr1__index_kind *kind,
                              const unsigned char *bytes, size_t n,
                              struct sr1__section *sections, const unsigned char **counts)
{
    size_t size = SECTIONS_FOOTER_BYTES(kind->counts_bytes, kind->n_sections);
    struct sr1__reader table;

    if (n < SECTIONS_HEADER_BYTES + size || memcmp(bytes, kind->magic, 8) != 0)
        return sr1__fail(SR1_E_CORRUPT,
                         "not a %s of this library, or cut short; sr1-search index makes "
                         "one of a corpus",
                         kind->name);
    if (index_u32(bytes + 8) != kind->version)
        return sr1__fail(SR1_E_UNSUPPORTED,
                         "index format %u, this library reads %u; build the index again",
                         index_u32(bytes + 8), kind->version);
    if (memcmp(bytes + n - 8, kind->magic, 8) != 0)
        return sr1__index_corrupt("its end is missing");
    if (sr1__index_sum_of(bytes + n - size, size - 16) != index_u64(bytes + n - 16))
        return sr1__index_corrupt("the checksum of its footer does not fit");
    *counts = bytes + n - size;
    sr1__reader_init(&table, *counts + kind->counts_bytes,
                     kind->n_sections * SECTIONS_ENTRY);
    for (size_t i = 0; i < kind->n_sections; i++)
        SR1__TRY(read_entry(&table, bytes, n - size, &sections[i]));
    return SR1_OK;
}

sr1_status sr1__sections_map(struct sr1__map *out, const struct sr1__index_kind *kind,
                             const char *path)
{
    return sr1__map_open_watched(
        out, path, SECTIONS_FOOTER_BYTES(kind->counts_bytes, kind->n_sections));
}

sr1_status sr1__sections_verify(const struct sr1__section *sections,
                                const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (sr1__index_sum_of(sections[i].p, sections[i].size) != sections[i].checksum)
            return sr1__fail(SR1_E_CORRUPT,
                             "index is damaged: the checksum of its %s does not fit; "
                             "build it again",
                             names[i]);
    }
    return SR1_OK;
}

/* ---- writing ---- */

sr1_status sr1__section_header(struct sr1__section_writer *w,
                               const struct sr1__index_kind *kind)
{
    unsigned char header[SECTIONS_HEADER_BYTES] = {0};

    memcpy(header, kind->magic, 8);
    header[8] = (unsigned char)kind->version;
    return sr1__file_writer_add(w->file, header, sizeof(header));
}

sr1_status sr1__section_begin(struct sr1__section_writer *w, size_t s, size_t align)
{
    static const char zeros[64];
    uint64_t at = sr1__file_writer_offset(w->file);

    if (at % align != 0)
        SR1__TRY(sr1__file_writer_add(w->file, zeros, align - (size_t)(at % align)));
    w->places[s].offset = sr1__file_writer_offset(w->file);
    return SR1_OK;
}

sr1_status sr1__section_put(struct sr1__section_writer *w, size_t s, const void *bytes,
                            size_t n)
{
    w->places[s].size += n;
    index_sum_add(&w->places[s].sum, bytes, n);
    return sr1__file_writer_add(w->file, bytes, n);
}

sr1_status sr1__section_put_spool(struct sr1__section_writer *w, size_t s,
                                  struct sr1__spool *spool)
{
    uint64_t size = sr1__spool_size(spool);
    char chunk[COPY];

    SR1__TRY(sr1__section_begin(w, s, 8));
    SR1__TRY(sr1__spool_finish(spool));
    for (uint64_t at = 0; at < size;) {
        size_t n = size - at < COPY ? (size_t)(size - at) : COPY;

        SR1__TRY(sr1__spool_read(spool, at, chunk, n));
        SR1__TRY(sr1__section_put(w, s, chunk, n));
        at += n;
    }
    return SR1_OK;
}

sr1_status sr1__section_footer(struct sr1__section_writer *w,
                               const struct sr1__index_kind *kind,
                               struct sr1__buf *counts)
{
    struct sr1__buf *b = counts;

    for (size_t i = 0; i < kind->n_sections; i++) {
        sr1__buf_u64(b, w->places[i].offset);
        sr1__buf_u64(b, w->places[i].size);
        sr1__buf_u64(b, index_sum_end(&w->places[i].sum));
    }
    SR1__TRY(sr1__buf_status(b, "index footer"));
    sr1__buf_u64(b, sr1__index_sum_of(b->data, b->len));
    sr1__buf_add(b, kind->magic, 8);
    SR1__TRY(sr1__buf_status(b, "index footer"));
    return sr1__file_writer_add(w->file, b->data, b->len);
}
