/* retrieval/search/dense_build.c - a corpus and an embedder to a dense index, in bounded
 * memory.
 *
 * One pass over the corpus: rows go to the new file; texts gather in a batch, are
 * embedded, and their vectors go to INDEX.part (dense_part.h). At the end the vectors are
 * copied behind the rows. A build that goes on stores rows as ever but leaves out the
 * texts whose vectors are there, checking at each record that the rows up to it are those
 * that it was made of. */
#include "retrieval/search/dense_writer.h"

#include "base/file.h"
#include "base/mem.h"
#include "retrieval/search/dense_part.h"
#include "retrieval/search/encoding.h"
#include "retrieval/search/index_kind.h"

#include <searchr1/ext/embed.h>

#define TEXTS_MOST ((size_t)8 << 20) /* bytes of a batch, then it is full */

struct dense_build {
    struct sr1__dense_plan plan;
    sr1_embedder *embedder;
    struct sr1__dense_writer writer;
    struct sr1__dense_part *part;
    uint64_t resumed;     /* documents with vectors from before */
    size_t record;        /* of these, to be checked next */
    int stale;            /* they are of another corpus */
    struct index_sum sum; /* of the rows so far */

    struct sr1__buf texts; /* NUL behind each */
    size_t *at;            /* [batch] where they begin */
    const char **pointers; /* [batch] */
    float *vectors;        /* [batch, dim] */
    size_t n;
};

/* Append contents as a C string; U+0000 becomes U+FFFD. */
static sr1_status add_batch_text(struct dense_build *b, const struct sr1__parsed_row *row)
{
    const char *s = row->contents;
    const char *end = s + row->size;

    b->at[b->n++] = b->texts.len;
    while (s < end) {
        size_t n = strnlen(s, (size_t)(end - s));

        sr1__buf_add(&b->texts, s, n);
        s += n;
        if (s < end) {
            sr1__buf_str(&b->texts, "\xEF\xBF\xBD");
            s++;
        }
    }
    sr1__buf_char(&b->texts, '\0');
    return sr1__buf_status(&b->texts, "texts");
}

static sr1_status embed_batch(struct dense_build *b)
{
    if (b->n == 0)
        return SR1_OK;
    for (size_t i = 0; i < b->n; i++)
        b->pointers[i] = b->texts.data + b->at[i];
    SR1__TRY(sr1_embedder_embed(b->embedder, b->pointers, b->n, SR1_EMBED_DOCUMENT,
                                b->vectors));
    SR1__TRY(sr1__dense_part_add(b->part, b->vectors, b->n, index_sum_end(&b->sum)));
    b->n = 0;
    sr1__buf_clear(&b->texts);
    return sr1__dense_writer_report(&b->writer, b->resumed);
}

/* The vector of this row is already in INDEX.part: check the hash of the corpus up to
 * here. */
static sr1_status pass_row(struct dense_build *b)
{
    uint64_t hash;

    if (b->writer.documents < sr1__dense_part_end(b->part, b->record, &hash))
        return SR1_OK;
    if (hash != index_sum_end(&b->sum)) {
        b->stale = 1;
        return sr1__fail(SR1_E_STATE, "the corpus has changed");
    }
    b->record++;
    return sr1__dense_writer_report(&b->writer, b->resumed);
}

/* sr1__dense_row_fn */
static sr1_status take_corpus_row(void *self, const char *line, size_t n,
                                  const struct sr1__parsed_row *row)
{
    struct dense_build *b = self;

    index_sum_add(&b->sum, line, n);
    index_sum_add(&b->sum, "\n", 1);
    if (b->writer.documents <= b->resumed)
        return pass_row(b);
    SR1__TRY(add_batch_text(b, row));
    if (b->n < b->plan.batch && b->texts.len < TEXTS_MOST)
        return SR1_OK;
    return embed_batch(b);
}

/* ---- the whole ---- */

/* What the vectors depend on besides the rows. */
static sr1_status open_part(struct dense_build *b)
{
    struct sr1__buf key;
    uint64_t hash;
    sr1_status status;
    size_t n;

    sr1__buf_init(&key, 0);
    sr1__buf_fmt(
        &key, "dtype %s, dim %zu, text_format %s, corpus of %llu bytes, embedder %s ",
        b->plan.type->name, b->plan.dim, b->plan.format->name,
        (unsigned long long)sr1__corpus_reader_total(b->writer.reader), b->plan.embedder);
    status = sr1__encoding_of_documents(b->plan.encoding, &key);
    if (status == SR1_OK)
        status = sr1__buf_status(&key, "key of a build");
    if (status == SR1_OK)
        status = sr1__dense_part_open(&b->part, b->plan.index_path, key.data,
                                      b->plan.type, b->plan.dim);
    sr1__buf_free(&key);
    SR1__TRY(status);
    n = sr1__dense_part_records(b->part);
    b->resumed = n > 0 ? sr1__dense_part_end(b->part, n - 1, &hash) : 0;
    return SR1_OK;
}

static sr1_status run_dense_build(struct dense_build *b)
{
    SR1__TRY(sr1__dense_writer_rows(&b->writer, take_corpus_row, b));
    SR1__TRY(embed_batch(b));
    if (b->writer.documents < b->resumed) {
        b->stale = 1;
        return sr1__fail(SR1_E_STATE, "the corpus has changed");
    }
    b->writer.corpus_done = sr1__corpus_reader_total(b->writer.reader);
    SR1__TRY(sr1__dense_part_copy(b->part, &b->writer.out));
    SR1__TRY(sr1__dense_writer_report(&b->writer, b->resumed));
    return sr1__dense_writer_commit(&b->writer);
}

/* The stored vectors belong to another corpus: discard them and build from the start. */
static sr1_status restart_dense_build(struct dense_build *b)
{
    b->stale = 0;
    b->resumed = 0;
    b->record = 0;
    b->n = 0;
    sr1__buf_clear(&b->texts);
    memset(&b->sum, 0, sizeof(b->sum));
    SR1__TRY(sr1__dense_part_reset(b->part));
    sr1__dense_writer_close(&b->writer);
    SR1__TRY(sr1__dense_writer_open(&b->writer, &b->plan));
    return run_dense_build(b);
}

static sr1_status build_dense_file(struct dense_build *b)
{
    size_t batch = b->plan.batch;
    sr1_status status;

    b->at = sr1__calloc(batch, sizeof(*b->at));
    b->pointers = sr1__calloc(batch, sizeof(*b->pointers));
    b->vectors = sr1__calloc(batch, b->plan.dim * sizeof(*b->vectors));
    if (b->at == NULL || b->pointers == NULL || b->vectors == NULL)
        return sr1__fail_nomem("dense build");
    SR1__TRY(sr1__dense_writer_open(&b->writer, &b->plan));
    status = open_part(b);
    if (status == SR1_OK)
        status = run_dense_build(b);
    if (b->stale)
        status = restart_dense_build(b);
    if (status == SR1_OK) {
        sr1__dense_part_remove(b->part);
        b->part = NULL;
    }
    return status;
}

sr1_status sr1_dense_build(const char *corpus_path, const char *index_path,
                           sr1_embedder *embedder, const sr1_dense_build_options *options,
                           sr1_dense_progress_fn progress, void *user)
{
    struct dense_build b = {.embedder = embedder};
    sr1_status status;

    if (corpus_path == NULL || index_path == NULL || embedder == NULL)
        return sr1__fail(
            SR1_E_INVALID,
            "dense build: corpus_path, index_path and embedder are required");
    SR1__TRY(sr1__path_distinct(corpus_path, index_path));
    SR1__TRY(sr1__dense_plan_read(&b.plan, options, embedder, "dense build"));
    b.plan.corpus_path = corpus_path;
    b.plan.index_path = index_path;
    SR1__TRY(sr1__index_place_check(index_path, "dense", b.plan.force));
    b.plan.dim = (size_t)sr1_embedder_dim(embedder);
    b.plan.progress = progress;
    b.plan.user = user;
    sr1__buf_init(&b.texts, 0);
    status = build_dense_file(&b);
    sr1__dense_writer_close(&b.writer);
    sr1__dense_part_close(b.part);
    sr1__buf_free(&b.texts);
    sr1__free(b.at);
    sr1__free((void *)b.pointers);
    sr1__free(b.vectors);
    return status;
}
