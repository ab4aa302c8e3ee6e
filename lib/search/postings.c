/* search/postings.c - the cursor over one term's postings (layout: index_format.h). */
#include "search/index.h"

#include "search/index_format.h"

static sr1_status corrupt(void)
{
    return sr1__fail(SR1_E_CORRUPT, "index is damaged: postings do not decode; "
                                    "build it again");
}

static const unsigned char *dir_entry(const struct sr1__postings *p, uint32_t block)
{
    return p->dir + (size_t)block * INDEX_DIR_ENTRY;
}

static void read_impacts(const unsigned char *bytes, struct sr1__impacts *out)
{
    for (int i = 0; i < 4; i++) {
        out->tf[i] = bytes[2 * i];
        out->length_code[i] = bytes[2 * i + 1];
    }
}

sr1_status sr1__postings_open(struct sr1__postings *p, const struct sr1__index *ix,
                              const struct sr1__index_term *term)
{
    size_t head;

    p->df = term->df;
    p->documents = (uint32_t)sr1__index_meta(ix)->documents;
    p->n_blocks = (term->df + SR1__INDEX_BLOCK - 1) / SR1__INDEX_BLOCK;
    p->block = 0;
    p->count = 0;
    p->dir = NULL;
    p->data = term->bytes;
    p->size = term->size;
    if (p->n_blocks == 1)
        return sr1__postings_decode(p);
    head = sizeof(struct sr1__impacts) + (size_t)p->n_blocks * INDEX_DIR_ENTRY;
    if (term->size < head)
        return corrupt();
    p->dir = term->bytes + sizeof(struct sr1__impacts);
    p->data = term->bytes + head;
    p->size = term->size - head;
    return SR1_OK;
}

int sr1__postings_impacts(const struct sr1__postings *p, struct sr1__impacts *out)
{
    if (p->dir == NULL)
        return 0;
    read_impacts(p->dir - sizeof(struct sr1__impacts), out);
    return 1;
}

uint32_t sr1__postings_block_last(const struct sr1__postings *p, uint32_t block)
{
    return index_u32(dir_entry(p, block));
}

void sr1__postings_block_impacts(const struct sr1__postings *p, uint32_t block,
                                 struct sr1__impacts *out)
{
    read_impacts(dir_entry(p, block) + 8, out);
}

static uint32_t last_of(const struct sr1__postings *p, uint32_t block)
{
    return p->dir != NULL ? index_u32(dir_entry(p, block)) : p->docs[p->count - 1];
}

void sr1__postings_seek_block(struct sr1__postings *p, uint32_t doc)
{
    uint32_t low = p->block;
    uint32_t step = 1;
    uint32_t high;

    if (low >= p->n_blocks || last_of(p, low) >= doc)
        return;
    while (low + step < p->n_blocks && last_of(p, low + step) < doc) {
        low += step;
        step *= 2;
    }
    high = low + step < p->n_blocks ? low + step : p->n_blocks;
    while (high - low > 1) { /* last(low) < doc <= last(high) */
        uint32_t mid = low + (high - low) / 2;

        if (last_of(p, mid) < doc)
            low = mid;
        else
            high = mid;
    }
    p->block = high;
    p->count = 0;
}

/* 128 values of `bits` bits; reads up to 8 bytes past them (the section's padding). */
static void unpack(const unsigned char *bytes, unsigned bits, uint32_t *out)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1;

    for (unsigned i = 0; i < SR1__INDEX_BLOCK; i++) {
        unsigned bit = i * bits;

        out[i] = (uint32_t)(index_u64(bytes + (bit >> 3)) >> (bit & 7) & mask);
    }
}

static sr1_status decode_full(struct sr1__postings *p, const unsigned char *bytes,
                              size_t size, uint64_t next)
{
    unsigned gap_bits;
    unsigned tf_bits;

    if (size < 2)
        return corrupt();
    gap_bits = bytes[0];
    tf_bits = bytes[1];
    if (gap_bits > 31 || tf_bits > 31 ||
        size != 2 + (size_t)(gap_bits + tf_bits) * SR1__INDEX_BLOCK / 8)
        return corrupt();
    unpack(bytes + 2, gap_bits, p->docs);
    unpack(bytes + 2 + (size_t)gap_bits * SR1__INDEX_BLOCK / 8, tf_bits, p->tfs);
    for (unsigned i = 0; i < SR1__INDEX_BLOCK; i++) {
        next += p->docs[i];
        p->docs[i] = (uint32_t)next;
        p->tfs[i]++;
        next++;
    }
    p->count = SR1__INDEX_BLOCK;
    return next <= p->documents ? SR1_OK : corrupt();
}

/* Values of more than 32 bits are damage. */
static int varint(const unsigned char **bytes, const unsigned char *end, uint32_t *out)
{
    uint64_t v = 0;

    for (int shift = 0; shift < 35; shift += 7) {
        unsigned char byte;

        if (*bytes == end)
            return 0;
        byte = *(*bytes)++;
        v |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = (uint32_t)v;
            return v <= UINT32_MAX;
        }
    }
    return 0;
}

static sr1_status decode_short(struct sr1__postings *p, const unsigned char *bytes,
                               size_t size, uint32_t count, uint64_t next)
{
    const unsigned char *end = bytes + size;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t gap;
        uint32_t more = 0;

        if (!varint(&bytes, end, &gap) || (!(gap & 1) && !varint(&bytes, end, &more)) ||
            more > INT32_MAX)
            return corrupt();
        next += gap >> 1;
        if (next >= p->documents)
            return corrupt();
        p->docs[i] = (uint32_t)next++;
        p->tfs[i] = gap & 1 ? 1 : more + 2;
    }
    p->count = count;
    return bytes == end ? SR1_OK : corrupt();
}

sr1_status sr1__postings_decode(struct sr1__postings *p)
{
    uint64_t begin = 0;
    uint64_t end = p->size;
    uint64_t next = 0;
    uint32_t count = p->df - p->block * SR1__INDEX_BLOCK;
    sr1_status status;

    if (p->dir != NULL) {
        end = index_u32(dir_entry(p, p->block) + 4);
        if (p->block > 0) {
            begin = index_u32(dir_entry(p, p->block - 1) + 4);
            next = (uint64_t)last_of(p, p->block - 1) + 1;
        }
    }
    if (begin > end || end > p->size)
        return corrupt();
    if (count >= SR1__INDEX_BLOCK)
        status = decode_full(p, p->data + begin, (size_t)(end - begin), next);
    else
        status = decode_short(p, p->data + begin, (size_t)(end - begin), count, next);
    if (status == SR1_OK && p->dir != NULL &&
        p->docs[p->count - 1] != last_of(p, p->block))
        status = corrupt();
    if (status != SR1_OK)
        p->count = 0;
    return status;
}
