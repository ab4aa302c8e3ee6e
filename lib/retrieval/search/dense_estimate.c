/* retrieval/search/dense_estimate.c - what a dense index will take, from the first rows
 * of the corpus: their number by the bytes of a row, the time by embedding some of them.
 */
#include "retrieval/search/dense_writer.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/struct.h"

#include <searchr1/ext/embed.h>

#define SAMPLE 32        /* rows that are embedded, at most */
#define STORED_SHARE 0.4 /* of the corpus, stored rows: about what zstd leaves */
#define TEXTS_MOST 8.0e6 /* of a batch */
#define BUILD_FIXED 2.0e6

struct sample {
    struct sr1__corpus_reader *reader;
    struct sr1__build_item item; /* the first rows */
    struct sr1__row_parser parser;
    char *texts[SAMPLE];
    size_t n;
};

static sr1_status take_texts(struct sample *s, const char *corpus_path)
{
    int ended = 0;

    SR1__TRY(sr1__corpus_reader_open(&s->reader, corpus_path));
    SR1__TRY(sr1__corpus_reader_next(s->reader, &s->item, &ended));
    if (s->item.n_rows == 0)
        return sr1__fail(SR1_E_PARSE, "%s: no documents", corpus_path);
    for (size_t i = 0; i < s->item.n_rows && i < SAMPLE; i++) {
        const struct sr1__build_row *row = &s->item.rows[i];
        struct sr1__parsed_row parsed = {0};

        SR1__TRY(sr1__context(
            sr1__row_parse(&s->parser, s->item.text.data + row->at, row->n, &parsed),
            "%s:%zu", corpus_path, row->line));
        s->texts[i] = sr1__strndup(parsed.contents, parsed.size);
        if (s->texts[i] == NULL)
            return sr1__fail_nomem("texts");
        s->n++;
    }
    return SR1_OK;
}

/* Seconds of one text, the first call left out, which may be slow. */
static sr1_status time_embedder(const struct sample *s, sr1_embedder *e, double *out)
{
    const char *const *texts = (const char *const *)s->texts;
    size_t first = s->n / 2;
    float *v = sr1__calloc(s->n, (size_t)sr1_embedder_dim(e) * sizeof(*v));
    sr1_status status = SR1_OK;
    double begun;

    if (v == NULL)
        return sr1__fail_nomem("vectors");
    if (first > 0)
        status = sr1_embedder_embed(e, texts, first, SR1_EMBED_DOCUMENT, v);
    begun = sr1__now();
    if (status == SR1_OK)
        status =
            sr1_embedder_embed(e, texts + first, s->n - first, SR1_EMBED_DOCUMENT, v);
    *out = (sr1__now() - begun) / (double)(s->n - first);
    sr1__free(v);
    return status;
}

static sr1_status estimate_dense_build(struct sample *s,
                                       const struct sr1__dense_plan *plan,
                                       sr1_embedder *embedder, sr1_dense_estimate *e)
{
    double total;
    double text_bytes; /* of a row in the corpus, unpacked */
    double row_bytes = (double)sr1__dense_stride(plan->dim) * (double)plan->type->size +
                       (plan->type->scaled ? sizeof(float) : 0);
    double seconds = 0;

    SR1__TRY(take_texts(s, plan->corpus_path));
    total = (double)sr1__corpus_reader_total(s->reader);
    e->documents =
        (uint64_t)(total / (double)s->item.corpus_end * (double)s->item.n_rows + 0.5);
    e->search_bytes = (uint64_t)((double)e->documents * row_bytes);
    text_bytes = (double)s->item.text.len / (double)s->item.n_rows;
    e->index_bytes =
        e->search_bytes + (uint64_t)(STORED_SHARE * text_bytes * (double)e->documents);
    e->build_bytes =
        (uint64_t)(BUILD_FIXED + TEXTS_MOST +
                   (double)plan->batch *
                       (2.0 * (double)plan->dim * sizeof(float) + row_bytes));
    if (embedder != NULL)
        SR1__TRY(time_embedder(s, embedder, &seconds));
    e->embed_seconds = seconds * (double)e->documents;
    return SR1_OK;
}

sr1_status sr1_dense_estimate_get(const char *corpus_path, sr1_embedder *embedder,
                                  int32_t dim, const sr1_dense_build_options *options,
                                  sr1_dense_estimate *out)
{
    sr1_dense_estimate e = {.struct_size = sizeof(e)};
    struct sr1__dense_plan plan = {0};
    struct sample s = {0};
    sr1_status status;

    if (corpus_path == NULL)
        return sr1__fail(SR1_E_INVALID, "dense estimate: corpus_path is NULL");
    if (embedder != NULL)
        dim = sr1_embedder_dim(embedder);
    if (dim < 1 || dim > SR1_EMBED_DIM_MAX)
        return sr1__fail(SR1_E_INVALID, "dense estimate: dim %d is not in 1..%d",
                         (int)dim, SR1_EMBED_DIM_MAX);
    SR1__TRY(sr1__dense_plan_read(&plan, options, NULL, "dense estimate"));
    plan.corpus_path = corpus_path;
    plan.dim = (size_t)dim;
    sr1__build_item_init(&s.item);
    sr1__row_parser_init(&s.parser, plan.format);
    status = estimate_dense_build(&s, &plan, embedder, &e);
    for (size_t i = 0; i < s.n; i++)
        sr1__free(s.texts[i]);
    sr1__row_parser_free(&s.parser);
    sr1__build_item_free(&s.item);
    sr1__corpus_reader_free(s.reader);
    return status == SR1_OK ? sr1__struct_give(out, &e, sizeof(e), "dense estimate")
                            : status;
}
