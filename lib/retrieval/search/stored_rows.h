/* retrieval/search/stored_rows.h - the stored rows of an index: two sections that every
 * kind of index has.
 *
 *   documents  zstd frames, each of whole rows up to about 64 KiB: for its documents the
 *              varint length of each row, then the rows
 *   directory  a frame: end:u64 in documents, docs_end:u32 (document after), raw:u32
 *
 * Rows are found and unpacked one frame at a time (stored_rows.c); row_packer.c makes
 * frames. */
#ifndef SR1__SEARCH_STORED_ROWS_H
#define SR1__SEARCH_STORED_ROWS_H

#include "retrieval/search/doc_cache.h"
#include "retrieval/search/sections.h"

#define ROWS_DIR_ENTRY 16
#define ROWS_FRAME ((size_t)64 << 10)                    /* about so much in one */
#define ROWS_ROW_MAX ((size_t)16 << 20)                  /* bytes of one row */
#define ROWS_RAW_MAX (4 * ROWS_FRAME + 2 * ROWS_ROW_MAX) /* of an unpacked frame */

/* Sections of an open index, borrowed from it. */
struct sr1__stored_rows {
    const unsigned char *frames;
    size_t frames_size;
    const unsigned char *dir;
    size_t n; /* frames */
};

/* Checks sizes only: entries are checked where they are used. */
sr1_status sr1__stored_rows_init(struct sr1__stored_rows *rows,
                                 const struct sr1__section *documents,
                                 const struct sr1__section *directory);

/* Memory to read rows with, of one thread. */
struct sr1__row_reader;
/* rows is borrowed. */
sr1_status sr1__row_reader_new(struct sr1__row_reader **out,
                               const struct sr1__stored_rows *rows);
void sr1__row_reader_free(struct sr1__row_reader *r); /* NULL is fine */
/* A row as it was in the corpus, borrowed until the reader's next call. */
sr1_status sr1__row_read(struct sr1__row_reader *r, uint32_t doc, const char **row,
                         size_t *n);
/* The row taken apart, from the cache where it is there, and kept in it: *out is a
 * reference of the caller's. */
sr1_status sr1__row_fetch(struct sr1__row_reader *r, struct sr1__doc_cache *cache,
                          uint32_t doc, struct sr1__doc **out);

struct sr1__doc_block;
/* The next frame to section `documents`, its entry to the directory that waits in `dir`.
 * *n: documents so far, added to. */
sr1_status sr1__stored_rows_put(struct sr1__section_writer *w, size_t documents,
                                struct sr1__spool *dir, const struct sr1__doc_block *b,
                                uint64_t *n);

#endif
