/* search/build_item.c - parse rows, invert their texts, pack them. */
#include "search/build_item.h"

#include "base/json.h"
#include "base/mem.h"
#include "search/index_format.h"
#include "search/row_scan.h"

struct sr1__build_worker {
    const struct sr1__build_plan *plan;
    struct sr1__inverter *inverter;
    struct sr1__row_packer *packer;
    struct sr1__buf cut; /* contents without markup, or without escapes */
    struct sr1__buf row; /* the row with those */
};

/* ---- items ---- */

void sr1__build_item_init(struct sr1__build_item *item)
{
    memset(item, 0, sizeof(*item));
    sr1__buf_init(&item->text, 0);
    sr1__batch_init(&item->batch);
}

void sr1__build_item_free(struct sr1__build_item *item)
{
    for (size_t i = 0; i < item->blocks_capacity; i++)
        sr1__doc_block_free(&item->blocks[i]);
    sr1__free(item->blocks);
    sr1__free(item->rows);
    sr1__buf_free(&item->text);
    sr1__batch_free(&item->batch);
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
    if (item->n_rows == item->rows_capacity) {
        size_t capacity = item->rows_capacity == 0 ? 1024 : item->rows_capacity * 2;
        struct sr1__build_row *rows = sr1__realloc(item->rows, capacity, sizeof(*rows));

        if (rows == NULL)
            return sr1__fail_nomem("rows");
        item->rows = rows;
        item->rows_capacity = capacity;
    }
    item->rows[item->n_rows++] = (struct sr1__build_row){at, n, line};
    return SR1_OK;
}

/* ---- rows ---- */

static sr1_status check_row(const json_t *row, const json_t **contents)
{
    const json_t *id = json_object_get(row, "id");

    *contents = json_object_get(row, "contents");
    if (!json_is_object(row))
        return sr1__fail(SR1_E_PARSE, "not a JSON object");
    if (!json_is_string(id) && !json_is_integer(id))
        return sr1__fail(SR1_E_PARSE, "'id' is missing or neither string nor integer");
    if (!json_is_string(*contents))
        return sr1__fail(SR1_E_PARSE, "'contents' is missing or not a string");
    return SR1_OK;
}

static sr1_status store(struct sr1__build_worker *w, const char *row, size_t row_bytes,
                        const char *contents, size_t n)
{
    uint32_t length = 0;

    SR1__TRY(sr1__inverter_add(w->inverter, contents, n, &length));
    return sr1__row_packer_add(w->packer, row, row_bytes, length, n);
}

/* Put the text of the contents in their place, and the row anew into w->row. */
static sr1_status cut(struct sr1__build_worker *w, json_t *row, const json_t *contents)
{
    sr1__buf_clear(&w->cut);
    sr1__buf_clear(&w->row);
    SR1__TRY(w->plan->format->cut(json_string_value(contents),
                                  json_string_length(contents), &w->cut));
    if (json_object_set_new(row, "contents",
                            json_stringn(sr1__buf_cstr(&w->cut), w->cut.len)) != 0)
        return sr1__fail_nomem("row");
    return sr1__json_dump(row, 0, &w->row);
}

static sr1_status add_row(struct sr1__build_worker *w, const char *text, size_t n)
{
    json_t *row = NULL;
    const json_t *contents = NULL;
    sr1_status status;

    if (w->plan->format->cut == NULL) {
        const char *found = NULL;
        size_t size = 0;
        int known = 0;

        SR1__TRY(sr1__row_scan(text, n, &w->cut, &known, &found, &size));
        if (known)
            return store(w, text, n, found, size);
    }
    SR1__TRY(sr1__json_parse(&row, text, n, "row"));
    status = check_row(row, &contents);
    if (status == SR1_OK && w->plan->format->cut == NULL) {
        status =
            store(w, text, n, json_string_value(contents), json_string_length(contents));
    } else if (status == SR1_OK) {
        status = cut(w, row, contents);
        if (status == SR1_OK)
            status =
                store(w, w->row.data, w->row.len, sr1__buf_cstr(&w->cut), w->cut.len);
    }
    json_decref(row);
    return status;
}

static sr1_status finish_block(struct sr1__build_item *item, struct sr1__build_worker *w)
{
    if (item->n_blocks == item->blocks_capacity) {
        size_t capacity = item->blocks_capacity + 8;
        struct sr1__doc_block *blocks =
            sr1__realloc(item->blocks, capacity, sizeof(*blocks));

        if (blocks == NULL)
            return sr1__fail_nomem("stored documents");
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
        const struct sr1__build_row *row = &item->rows[i];

        SR1__TRY(sr1__context(add_row(w, item->text.data + row->at, row->n), "%s:%zu",
                              w->plan->corpus_path, row->line));
        bytes += row->n;
        if (bytes < INDEX_DOC_BLOCK && i + 1 < item->n_rows)
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

    if (w == NULL)
        return sr1__fail_nomem("index build");
    w->plan = plan;
    sr1__buf_init(&w->cut, 0);
    sr1__buf_init(&w->row, 0);
    status = sr1__inverter_new(&w->inverter, plan->analyzer);
    if (status == SR1_OK)
        status = sr1__row_packer_new(&w->packer, plan->zstd_level);
    if (status != SR1_OK) {
        sr1__build_worker_free(w);
        return status;
    }
    *out = w;
    return SR1_OK;
}

void sr1__build_worker_free(struct sr1__build_worker *w)
{
    if (w == NULL)
        return;
    sr1__inverter_free(w->inverter);
    sr1__row_packer_free(w->packer);
    sr1__buf_free(&w->cut);
    sr1__buf_free(&w->row);
    sr1__free(w);
}
