/* retrieval/search/build_item.c - parse rows, invert their texts, pack them. */
#include "retrieval/search/build_item.h"

#include "base/mem.h"
#include "retrieval/search/row_parse.h"
#include "retrieval/search/stored_rows.h"

struct sr1__build_worker {
    const struct sr1__build_plan *plan;
    struct sr1__inverter *inverter;
    struct sr1__row_packer *packer;
    struct sr1__row_parser parser;
};

/* ---- items ---- */

void sr1__build_item_init(struct sr1__build_item *item)
{
    memset(item, 0, sizeof(*item));
    sr1__buf_init(&item->text, 0);
    sr1__inverted_batch_init(&item->batch);
}

void sr1__build_item_free(struct sr1__build_item *item)
{
    for (size_t i = 0; i < item->blocks_capacity; i++)
        sr1__doc_block_free(&item->blocks[i]);
    sr1__free(item->blocks);
    sr1__free(item->rows);
    sr1__buf_free(&item->text);
    sr1__inverted_batch_free(&item->batch);
}

void sr1__build_item_clear(struct sr1__build_item *item)
{
    sr1__buf_clear(&item->text);
    item->n_rows = 0;
    item->n_blocks = 0;
}

sr1_status sr1__build_item_add(struct sr1__build_item *item, size_t at, size_t n,
                               size_t line)
{
    SR1__RESERVE(item->rows, item->rows_capacity, item->n_rows + 1, "rows");
    item->rows[item->n_rows++] = (struct sr1__build_row){at, n, line};
    return SR1_OK;
}

/* ---- rows ---- */

static sr1_status add_item_row(struct sr1__build_worker *w, const char *text,
                               struct sr1__build_row *line)
{
    struct sr1__parsed_row row = {0};
    uint32_t length = 0;

    SR1__TRY(sr1__row_parse(&w->parser, text, line->n, &row));
    line->id_hash = row.id_hash;
    SR1__TRY(sr1__inverter_add(w->inverter, row.contents, row.size, &length));
    return sr1__row_packer_add(w->packer, row.row, row.row_size, length, row.size);
}

static sr1_status finish_block(struct sr1__build_item *item, struct sr1__build_worker *w)
{
    if (item->n_blocks == item->blocks_capacity) {
        size_t capacity = item->blocks_capacity + 8;
        struct sr1__doc_block *blocks =
            sr1__realloc(item->blocks, capacity, sizeof(*blocks));

        SR1__CHECK_ALLOC(blocks, "stored documents");
        item->blocks = blocks;
        while (item->blocks_capacity < capacity)
            sr1__doc_block_init(&blocks[item->blocks_capacity++]);
    }
    return sr1__row_packer_finish(w->packer, &item->blocks[item->n_blocks++]);
}

sr1_status sr1__build_item_work(struct sr1__build_item *item, struct sr1__build_worker *w)
{
    size_t bytes = 0;

    for (size_t i = 0; i < item->n_rows; i++) {
        struct sr1__build_row *row = &item->rows[i];

        SR1__TRY(sr1__context(add_item_row(w, item->text.data + row->at, row), "%s:%zu",
                              w->plan->corpus_path, row->line));
        bytes += row->n;
        if (bytes < ROWS_FRAME && i + 1 < item->n_rows)
            continue;
        SR1__TRY(finish_block(item, w));
        bytes = 0;
    }
    return sr1__inverter_finish(w->inverter, &item->batch);
}

/* ---- threads ---- */

sr1_status sr1__build_worker_new(struct sr1__build_worker **out,
                                 const struct sr1__build_plan *plan)
{
    struct sr1__build_worker *w = sr1__calloc(1, sizeof(*w));
    sr1_status status;

    SR1__CHECK_ALLOC(w, "index build");
    w->plan = plan;
    sr1__row_parser_init(&w->parser, plan->format);
    status = sr1__inverter_new(&w->inverter, plan->analyzer);
    if (status == SR1_OK)
        status = sr1__row_packer_new(&w->packer, plan->zstd_level);
    SR1__RETURN_NEW(out, w, status, sr1__build_worker_free);
}

void sr1__build_worker_free(struct sr1__build_worker *w)
{
    if (w == NULL)
        return;
    sr1__inverter_free(w->inverter);
    sr1__row_packer_free(w->packer);
    sr1__row_parser_free(&w->parser);
    sr1__free(w);
}
