/* retrieval/search/bm25_index.h - reading a BM25 index: the one way callers see the file.
 * Builder and layout (bm25_index_writer.c, bm25_format.h) can change behind it.
 *
 * An open index is read-only and may be used from several threads; cursors and document
 * readers belong to one thread. Whatever the bytes of the file, calls end with a status:
 * damage found on the way is SR1_E_CORRUPT. */
#ifndef SR1__SEARCH_BM25_INDEX_H
#define SR1__SEARCH_BM25_INDEX_H

#include "base/buf.h"
#include "retrieval/search/block_codec.h"
#include "retrieval/search/stored_rows.h"

#define SR1__INDEX_BLOCK SR1__BLOCK /* postings in a full block */

extern const struct sr1__index_kind sr1__bm25_kind;

struct sr1__index;

struct sr1__index_meta {
    uint64_t documents; /* 1 to 2^31 - 1 */
    uint64_t terms;
    uint64_t total_terms;
    uint64_t postings;
    uint64_t contents_bytes;
    uint64_t file_bytes;
    uint64_t search_bytes;
    uint64_t documents_bytes;
    char analyzer[32];
};

/* Reads header and footer only. */
sr1_status sr1__index_open(struct sr1__index **out, const char *path);
/* The same over bytes that the caller keeps while the index is open. */
sr1_status sr1__index_open_memory(struct sr1__index **out, const void *bytes, size_t n);
void sr1__index_close(struct sr1__index *ix);
/* Read everything once and compare the checksums: SR1_E_CORRUPT names the section. */
sr1_status sr1__index_verify(const struct sr1__index *ix);
/* The status of a search: SR1_E_CORRUPT where the file was changed in place meanwhile
 * (sr1__map_blame). Nothing that was read counts before. */
sr1_status sr1__index_check_changed(const struct sr1__index *ix, sr1_status status);

const struct sr1__index_meta *sr1__index_meta(const struct sr1__index *ix);
/* [documents], borrowed until the index is closed. */
const uint8_t *sr1__index_length_codes(const struct sr1__index *ix);

/* Lucene's one-byte lengths (SmallFloat.intToByte4): below 40 as is, then 4 significant
 * bits of length - 24. */
uint8_t sr1__length_encode(uint32_t length);
uint32_t sr1__length_decode(uint8_t code);

/* Upper bounds by what a posting's score depends on; see bm25_format.h. */
struct sr1__impacts {
    uint8_t length1; /* shortest of those with tf 1 */
    uint8_t tf2;     /* the largest tf from 2 on; 0: none, 255: any */
    uint8_t length2; /* shortest of those */
};

/* Where a term's postings lie; df 0 when the index does not have the term. */
struct sr1__index_term {
    uint32_t df;
    const unsigned char *bytes;
    size_t size;
};
sr1_status sr1__index_find(const struct sr1__index *ix, const char *term, size_t n,
                           struct sr1__index_term *out);

/* A forward cursor over the blocks of one term. block == n_blocks at the end. */
struct sr1__postings {
    uint32_t n_blocks;
    uint32_t block; /* current */
    uint32_t count; /* of docs; 0 until the current block is decoded */
    uint32_t n_tfs; /* of tfs; 0 until they are decoded too */
    uint32_t docs[SR1__INDEX_BLOCK];
    uint32_t tfs[SR1__INDEX_BLOCK]; /* >= 1 */
    uint32_t df;
    uint32_t documents;
    uint32_t last_bytes;         /* of a document's number in dir */
    const unsigned char *groups; /* NULL for one group of blocks */
    const unsigned char *dir;    /* NULL for a single block */
    const unsigned char *data;
    size_t size;
    const unsigned char *tf_bytes; /* of the decoded block */
    size_t tf_size;
};

sr1_status sr1__postings_open(struct sr1__postings *p, const struct sr1__index *ix,
                              const struct sr1__index_term *term);
/* Bounds of the whole list; 0 when there are none stored (a single block, decoded at
 * once). */
int sr1__postings_impacts(const struct sr1__postings *p, struct sr1__impacts *out);
/* Last document and bounds of a block, from the directory. Not for a single block. */
uint32_t sr1__postings_block_last(const struct sr1__postings *p, uint32_t block);
void sr1__postings_block_impacts(const struct sr1__postings *p, uint32_t block,
                                 struct sr1__impacts *out);
/* The same of SR1__INDEX_GROUP blocks from a multiple of that on. Not for one group. */
#define SR1__INDEX_GROUP 32
uint32_t sr1__postings_group_last(const struct sr1__postings *p, uint32_t group);
void sr1__postings_group_impacts(const struct sr1__postings *p, uint32_t group,
                                 struct sr1__impacts *out);
/* Move to the first block, from the current on, whose last document is >= doc. */
void sr1__postings_seek_block(struct sr1__postings *p, uint32_t doc);
/* Fill docs (rising, < documents) of the current block, count of them, and UINT32_MAX
 * behind them. */
sr1_status sr1__postings_decode(struct sr1__postings *p);
/* The first position in the decoded block whose document is >= doc: halving without a
 * branch that could be guessed wrong. */
static inline uint32_t sr1__postings_find(const struct sr1__postings *p, uint32_t doc)
{
    const uint32_t *from = p->docs;

    for (uint32_t half = SR1__INDEX_BLOCK / 2; half > 0; half /= 2)
        from += half & (0 - (uint32_t)(from[half - 1] < doc));
    return (uint32_t)(from - p->docs) + (*from < doc);
}

/* Then its tfs; when they are there already nothing happens. */
sr1_status sr1__postings_decode_tfs(struct sr1__postings *p);

/* The stored rows, borrowed until the index is closed. */
const struct sr1__stored_rows *sr1__index_rows(const struct sr1__index *ix);

#endif
