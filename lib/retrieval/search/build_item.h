/* retrieval/search/build_item.h - a share of the corpus: rows in, blocks of documents and
 * postings out. */
#ifndef SR1__SEARCH_BUILD_ITEM_H
#define SR1__SEARCH_BUILD_ITEM_H

#include "retrieval/search/bm25_index_writer.h"
#include "retrieval/search/inverter.h"
#include "retrieval/search/strip_markup.h"

/* What all threads of a build share. */
struct sr1__build_plan {
    const char *corpus_path;
    const struct sr1__analyzer *analyzer;
    const struct sr1__text_format *format;
    int32_t zstd_level;
};

struct sr1__build_row {
    size_t at; /* in item.text, n bytes */
    size_t n;
    size_t line;      /* of the corpus, from 1 */
    uint64_t id_hash; /* once it is parsed */
};

struct sr1__build_item {
    struct sr1__buf text;
    struct sr1__build_row *rows;
    size_t n_rows;
    size_t rows_capacity;
    uint64_t corpus_end; /* bytes of the corpus up to here */

    struct sr1__doc_block *blocks;
    size_t n_blocks;
    size_t blocks_capacity; /* all initialised */
    struct sr1__inverted_batch batch;
};
void sr1__build_item_init(struct sr1__build_item *item);
void sr1__build_item_free(struct sr1__build_item *item);
/* Forget the rows. */
void sr1__build_item_clear(struct sr1__build_item *item);
sr1_status sr1__build_item_add(struct sr1__build_item *item, size_t at, size_t n,
                               size_t line);

/* Memory of one thread. */
struct sr1__build_worker;
sr1_status sr1__build_worker_new(struct sr1__build_worker **out,
                                 const struct sr1__build_plan *plan);
void sr1__build_worker_free(struct sr1__build_worker *w);

/* Parse, invert and compress the rows of an item. A block of documents is closed when
 * its rows take ROWS_FRAME bytes of the corpus. */
sr1_status sr1__build_item_work(struct sr1__build_item *item,
                                struct sr1__build_worker *w);

#endif
