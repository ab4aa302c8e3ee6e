/* retrieval/search/dense_writer.c - see dense_writer.h. */
#include "retrieval/search/dense_writer.h"

#include "base/mem.h"
#include "base/struct.h"
#include "retrieval/search/embed.h"

#define BATCH_MOST 65536

/* ---- options ---- */

static const sr1_dense_build_options defaults = {
    .struct_size = sizeof(defaults), .zstd_level = 3, .batch = 256};

void sr1_dense_build_options_init(sr1_dense_build_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static sr1_status check_name(const char *name, const char *what)
{
    if (strlen(name) > DENSE_NAME_MAX)
        return sr1__fail(SR1_E_INVALID,
                         "%s: the embedder's name is longer than %zu bytes", what,
                         DENSE_NAME_MAX);
    return SR1_OK;
}

sr1_status sr1__dense_plan_read(struct sr1__dense_plan *plan,
                                const sr1_dense_build_options *options,
                                const sr1_embedder *embedder, const char *what)
{
    sr1_dense_build_options o = defaults;
    const char *names;

    SR1__TRY(sr1__struct_take(&o, sizeof(o), options,
                              SR1__STRUCT_END(sr1_dense_build_options, dtype),
                              "dense build options"));
    if (o.zstd_level < 1 || o.zstd_level > 19)
        return sr1__fail(SR1_E_INVALID, "%s: zstd_level %d is not in 1..19", what,
                         (int)o.zstd_level);
    if (o.batch < 1 || o.batch > BATCH_MOST)
        return sr1__fail(SR1_E_INVALID, "%s: batch %d is not in 1..%d", what,
                         (int)o.batch, BATCH_MOST);
    plan->zstd_level = o.zstd_level;
    plan->batch = (size_t)o.batch;
    plan->force = o.force;
    plan->type = sr1__dense_type_find(o.dtype != NULL ? o.dtype : "fp32", &names);
    if (plan->type == NULL)
        return sr1__fail(SR1_E_INVALID, "%s: no dtype '%.100s'; there are: %s", what,
                         o.dtype, names);
    plan->format =
        sr1__text_format_find(o.text_format != NULL ? o.text_format : "plain", &names);
    if (plan->format == NULL)
        return sr1__fail(SR1_E_INVALID, "%s: no text_format '%.100s'; there are: %s",
                         what, o.text_format, names);
    plan->embedder = embedder != NULL          ? sr1_embedder_name(embedder)
                     : o.embedder_name != NULL ? o.embedder_name
                                               : "";
    plan->encoding = embedder != NULL ? sr1__embedder_encoding(embedder) : "";
    return check_name(plan->embedder, what);
}

/* ---- open and close ---- */

static sr1_status open_files(struct sr1__dense_writer *w)
{
    const char *index_path = w->plan->index_path;

    SR1__TRY(sr1__corpus_reader_open(&w->reader, w->plan->corpus_path));
    SR1__TRY(sr1__row_packer_new(&w->packer, w->plan->zstd_level));
    SR1__TRY(sr1__file_clean(index_path));
    SR1__TRY(sr1__file_writer_open(&w->out.file, index_path));
    SR1__TRY(sr1__spool_open(&w->dir, index_path));
    SR1__TRY(sr1__section_header(&w->out, &sr1__dense_kind));
    return sr1__section_begin(&w->out, DENSE_DOCUMENTS, 8);
}

sr1_status sr1__dense_writer_open(struct sr1__dense_writer *w,
                                  const struct sr1__dense_plan *plan)
{
    sr1_status status;

    memset(w, 0, sizeof(*w));
    w->plan = plan;
    sr1__build_item_init(&w->item);
    sr1__row_parser_init(&w->parser, plan->format);
    status = open_files(w);
    if (status != SR1_OK)
        sr1__dense_writer_close(w);
    return status;
}

void sr1__dense_writer_close(struct sr1__dense_writer *w)
{
    sr1__file_writer_abort(w->out.file);
    sr1__spool_close(w->dir);
    sr1__corpus_reader_free(w->reader);
    sr1__row_packer_free(w->packer);
    sr1__row_parser_free(&w->parser);
    sr1__build_item_free(&w->item);
    sr1__id_check_free(&w->ids);
    memset(w, 0, sizeof(*w));
}

/* ---- rows ---- */

static sr1_status put_frame(struct sr1__dense_writer *w)
{
    struct sr1__doc_block block;
    sr1_status status;

    sr1__doc_block_init(&block);
    status = sr1__row_packer_finish(w->packer, &block);
    if (status == SR1_OK)
        status =
            sr1__stored_rows_put(&w->out, DENSE_DOCUMENTS, w->dir, &block, &w->stored);
    sr1__doc_block_free(&block);
    return status;
}

static sr1_status store_corpus_row(struct sr1__dense_writer *w, const char *line,
                                   size_t n, sr1__dense_row_fn *fn, void *self)
{
    struct sr1__parsed_row row = {0};

    SR1__TRY(sr1__row_parse(&w->parser, line, n, &row));
    SR1__TRY(sr1__row_packer_add(w->packer, row.row, row.row_size, 0, row.size));
    w->documents++;
    SR1__TRY(sr1__id_check_add(&w->ids, row.id_hash));
    w->contents_bytes += row.size;
    return fn(self, line, n, &row);
}

static sr1_status store_corpus_item(struct sr1__dense_writer *w, sr1__dense_row_fn *fn,
                                    void *self)
{
    uint64_t begin = w->corpus_done;
    size_t bytes = 0;

    for (size_t i = 0; i < w->item.n_rows; i++) {
        const struct sr1__build_row *row = &w->item.rows[i];

        /* by its share of the text: the corpus may be compressed, and have blank lines */
        w->corpus_done =
            begin + (w->item.corpus_end - begin) * (row->at + row->n) / w->item.text.len;
        SR1__TRY(sr1__context(
            store_corpus_row(w, w->item.text.data + row->at, row->n, fn, self), "%s:%zu",
            w->plan->corpus_path, row->line));
        bytes += row->n;
        if (bytes < ROWS_FRAME && i + 1 < w->item.n_rows)
            continue;
        SR1__TRY(put_frame(w));
        bytes = 0;
    }
    w->corpus_done = w->item.corpus_end;
    return SR1_OK;
}

sr1_status sr1__dense_writer_rows(struct sr1__dense_writer *w, sr1__dense_row_fn *fn,
                                  void *self)
{
    int ended = 0;

    while (!ended) {
        SR1__TRY(sr1__corpus_reader_next(w->reader, &w->item, &ended));
        SR1__TRY(store_corpus_item(w, fn, self));
    }
    if (w->documents == 0)
        return sr1__fail(SR1_E_PARSE,
                         "%s: no documents; expected lines such as "
                         "{\"id\": \"1\", \"contents\": \"...\"}",
                         w->plan->corpus_path);
    return SR1_OK;
}

sr1_status sr1__dense_writer_report(struct sr1__dense_writer *w, uint64_t resumed)
{
    const struct sr1__dense_plan *plan = w->plan;

    if (plan->progress != NULL &&
        plan->progress(plan->user, w->corpus_done, sr1__corpus_reader_total(w->reader),
                       w->documents, resumed) != 0)
        return sr1__fail(SR1_E_CANCELLED, "indexing %s: stopped on request",
                         plan->corpus_path);
    return SR1_OK;
}

/* ---- the end ---- */

static sr1_status put_footer(struct sr1__dense_writer *w)
{
    const struct sr1__dense_plan *plan = w->plan;
    struct sr1__buf b;
    sr1_status status;

    sr1__buf_init(&b, 0);
    sr1__buf_u64(&b, w->documents);
    sr1__buf_u64(&b, w->contents_bytes);
    sr1__buf_u32(&b, (uint32_t)plan->dim);
    sr1__buf_u32(&b, (uint32_t)sr1__dense_stride(plan->dim));
    sr1__buf_u32(&b, (uint32_t)plan->type->dot);
    sr1__buf_u32(&b, 0);
    status = sr1__section_footer(&w->out, &sr1__dense_kind, &b);
    sr1__buf_free(&b);
    return status;
}

sr1_status sr1__dense_writer_commit(struct sr1__dense_writer *w)
{
    struct sr1__file_writer *file = w->out.file;

    SR1__TRY(sr1__section_put_spool(&w->out, DENSE_DOC_DIR, w->dir));
    SR1__TRY(sr1__section_begin(&w->out, DENSE_EMBEDDER, 8));
    SR1__TRY(sr1__section_put(&w->out, DENSE_EMBEDDER, w->plan->embedder,
                              strlen(w->plan->embedder)));
    SR1__TRY(sr1__section_begin(&w->out, DENSE_ENCODING, 8));
    SR1__TRY(sr1__section_put(&w->out, DENSE_ENCODING, w->plan->encoding,
                              strlen(w->plan->encoding)));
    SR1__TRY(put_footer(w));
    w->out.file = NULL;
    SR1__TRY(sr1__file_writer_commit(file));
    (void)sr1__id_check_end(&w->ids, w->plan->corpus_path);
    return SR1_OK;
}
