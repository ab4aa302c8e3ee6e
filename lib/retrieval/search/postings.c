/* retrieval/search/postings.c - the cursor over one term's postings (layout:
 * bm25_format.h). */
#include "retrieval/search/bm25_index.h"

#include "retrieval/search/bm25_format.h"

#include <string.h>

static sr1_status fail_corrupt_postings(void)
{
    return sr1__fail(SR1_E_CORRUPT, "index is damaged: postings do not decode; "
                                    "build it again");
}

static const unsigned char *dir_entry(const struct sr1__postings *p, uint32_t block)
{
    return p->dir + (size_t)block * INDEX_BLOCK_ENTRY(p->last_bytes);
}

static void read_impacts(const unsigned char *bytes, struct sr1__impacts *out)
{
    memcpy(out, bytes, INDEX_IMPACTS);
}

sr1_status sr1__postings_open(struct sr1__postings *p, const struct sr1__index *ix,
                              const struct sr1__index_term *term)
{
    uint32_t n_groups;
    size_t groups;
    size_t head;

    p->df = term->df;
    p->documents = (uint32_t)sr1__index_meta(ix)->documents;
    p->last_bytes = index_last_bytes(p->documents);
    p->n_blocks = (term->df + SR1__INDEX_BLOCK - 1) / SR1__INDEX_BLOCK;
    p->block = 0;
    p->count = 0;
    p->n_tfs = 0;
    p->groups = NULL;
    p->dir = NULL;
    p->data = term->bytes;
    p->size = term->size;
    if (p->n_blocks == 1)
        return sr1__postings_decode(p);
    n_groups = (p->n_blocks + SR1__INDEX_GROUP - 1) / SR1__INDEX_GROUP;
    groups = n_groups > 1 ? (size_t)n_groups * INDEX_GROUP_ENTRY : 0;
    head =
        INDEX_IMPACTS + groups + (size_t)p->n_blocks * INDEX_BLOCK_ENTRY(p->last_bytes);
    if (term->size < head)
        return fail_corrupt_postings();
    if (n_groups > 1)
        p->groups = term->bytes + INDEX_IMPACTS;
    p->dir = term->bytes + INDEX_IMPACTS + groups;
    p->data = term->bytes + head;
    p->size = term->size - head;
    return SR1_OK;
}

int sr1__postings_impacts(const struct sr1__postings *p, struct sr1__impacts *out)
{
    if (p->dir == NULL)
        return 0;
    read_impacts((p->groups != NULL ? p->groups : p->dir) - INDEX_IMPACTS, out);
    return 1;
}

uint32_t sr1__postings_block_last(const struct sr1__postings *p, uint32_t block)
{
    const unsigned char *e = dir_entry(p, block);

    return p->last_bytes == 3 ? index_u24(e) : index_u32(e);
}

void sr1__postings_block_impacts(const struct sr1__postings *p, uint32_t block,
                                 struct sr1__impacts *out)
{
    read_impacts(dir_entry(p, block) + p->last_bytes + 2, out);
}

uint32_t sr1__postings_group_last(const struct sr1__postings *p, uint32_t group)
{
    uint32_t after = (group + 1) * SR1__INDEX_GROUP;

    return sr1__postings_block_last(p, (after < p->n_blocks ? after : p->n_blocks) - 1);
}

void sr1__postings_group_impacts(const struct sr1__postings *p, uint32_t group,
                                 struct sr1__impacts *out)
{
    read_impacts(p->groups + (size_t)group * INDEX_GROUP_ENTRY + 4, out);
}

static uint32_t last_of(const struct sr1__postings *p, uint32_t block)
{
    return p->dir != NULL ? sr1__postings_block_last(p, block) : p->docs[p->count - 1];
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
    p->n_tfs = 0;
}

/* Where the current block lies in data: [*begin, *end), not checked yet. */
static void block_place(const struct sr1__postings *p, uint64_t *begin, uint64_t *end)
{
    uint32_t group = p->block / SR1__INDEX_GROUP;
    uint64_t base = 0;

    *begin = 0;
    *end = p->size;
    if (p->dir == NULL)
        return;
    if (p->groups != NULL)
        base = index_u32(p->groups + (size_t)group * INDEX_GROUP_ENTRY);
    *begin = base;
    if (p->block % SR1__INDEX_GROUP > 0)
        *begin += index_u16(dir_entry(p, p->block - 1) + p->last_bytes);
    *end = base + index_u16(dir_entry(p, p->block) + p->last_bytes);
}

/* Documents from gaps, one by one, for gaps that may add up to more than 32 bits. */
static int add_wide_gaps(struct sr1__postings *p, uint32_t n, uint64_t before)
{
    for (uint32_t i = 0; i < n; i++) {
        before += (uint64_t)p->docs[i] + 1;
        if (before > p->documents)
            return 0;
        p->docs[i] = (uint32_t)(before - 1);
    }
    return 1;
}

/* docs holds gaps; next is the first document that may come. */
static int add_gaps(struct sr1__postings *p, uint32_t n, uint32_t next, uint32_t all)
{
    if (all >> 23 != 0)
        return add_wide_gaps(p, n, next);
    /* 128 * 2^23 and next are below 2^31: the sums rise */
    sr1__block_sums(p->docs, n, next - 1);
    return p->docs[n - 1] < p->documents;
}

sr1_status sr1__postings_decode(struct sr1__postings *p)
{
    uint32_t left = p->df - p->block * SR1__INDEX_BLOCK;
    uint32_t n = left < SR1__INDEX_BLOCK ? left : SR1__INDEX_BLOCK;
    uint32_t next = 0;
    uint64_t begin;
    uint64_t end;
    uint32_t all;
    size_t took;

    block_place(p, &begin, &end);
    if (begin > end || end > p->size)
        return fail_corrupt_postings();
    if (p->block > 0)
        next = last_of(p, p->block - 1) + 1;
    took = sr1__block_unpack(p->data + begin, (size_t)(end - begin), n, p->docs, &all);
    if (took == 0 || next > p->documents || !add_gaps(p, n, next, all) ||
        (p->dir != NULL && p->docs[n - 1] != last_of(p, p->block)))
        return fail_corrupt_postings();
    for (uint32_t i = n; i < SR1__INDEX_BLOCK; i++)
        p->docs[i] = UINT32_MAX;
    p->count = n;
    p->n_tfs = 0;
    p->tf_bytes = p->data + begin + took;
    p->tf_size = (size_t)(end - begin) - took;
    return SR1_OK;
}

sr1_status sr1__postings_decode_tfs(struct sr1__postings *p)
{
    uint32_t all;

    if (p->n_tfs == p->count)
        return SR1_OK;
    if (p->tf_size == 0)
        memset(p->tfs, 0, sizeof(p->tfs));
    else if (sr1__block_unpack(p->tf_bytes, p->tf_size, p->count, p->tfs, &all) !=
             p->tf_size)
        return fail_corrupt_postings();
    for (uint32_t i = 0; i < SR1__INDEX_BLOCK; i++)
        p->tfs[i]++;
    p->n_tfs = p->count;
    return SR1_OK;
}
