/* retrieval/search/faiss_build.c - vectors in a file become a FAISS index in a file. */
#include <searchr1/ext/faiss.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/struct.h"
#include "retrieval/search/faiss_bridge.h"
#include "retrieval/search/faiss_vectors.h"
#include "retrieval/search/index_kind.h"

#include <string.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 14) /* vectors added between two reports */
#define TRAIN_SAMPLE ((uint64_t)1 << 18)
#define THREADS_MAX 1024

struct faiss_build {
    const struct sr1__faiss_table *table;
    sr1__faiss_index *index;
    struct sr1__faiss_vectors vectors;
    sr1_faiss_build_options o;
    int32_t metric;
    sr1_faiss_progress_fn progress;
    void *user;
};

static const sr1_faiss_build_options defaults = {sizeof(defaults), 0, 0, NULL,
                                                 TRAIN_SAMPLE,     0, 0};

void sr1_faiss_build_options_init(sr1_faiss_build_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

static const char *const metrics[] = {"inner_product", "l2"};

static sr1_status read_faiss_build_options(struct faiss_build *b,
                                           const sr1_faiss_build_options *options)
{
    const char *name;

    b->o = defaults;
    SR1__TRY(sr1__struct_take(&b->o, sizeof(b->o), options,
                              SR1__STRUCT_END(sr1_faiss_build_options, dim),
                              "faiss build options"));
    name = b->o.metric != NULL ? b->o.metric : metrics[0];
    while (b->metric < 2 && strcmp(name, metrics[b->metric]) != 0)
        b->metric++;
    if (b->metric == 2)
        return sr1__fail(SR1_E_INVALID,
                         "faiss build: metric '%.32s' is neither inner_product nor l2",
                         name);
    if (b->o.threads < 0 || b->o.threads > THREADS_MAX)
        return sr1__fail(SR1_E_INVALID, "faiss build: %d threads; 0 to %d",
                         (int)b->o.threads, THREADS_MAX);
    return SR1_OK;
}

/* ---- building ---- */

/* Sample n rows evenly: row i * vectors.n / n. */
static sr1_status read_sample(struct faiss_build *b, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        SR1__TRY(sr1__faiss_vectors_read(&b->vectors, i * b->vectors.n / n, 1,
                                         out + i * (size_t)b->vectors.dim));
    return SR1_OK;
}

static sr1_status train_faiss_index(struct faiss_build *b)
{
    uint64_t most = b->o.train_sample;
    size_t n = most == 0 || most > b->vectors.n ? b->vectors.n : (size_t)most;
    float *sample = sr1__calloc(n, (size_t)b->vectors.dim * sizeof(*sample));
    struct sr1__faiss_error error = {""};
    sr1_status status;

    if (sample == NULL)
        return sr1__fail_nomem("vectors to train on");
    status = read_sample(b, n, sample);
    if (status == SR1_OK)
        status = sr1__faiss_status(b->table->train(b->index, sample, (int64_t)n, &error),
                                   &error, "train");
    sr1__free(sample);
    return status;
}

static sr1_status report_faiss_progress(const struct faiss_build *b, size_t done)
{
    if (b->progress != NULL && b->progress(b->user, done, b->vectors.n) != 0)
        return sr1__fail(SR1_E_CANCELLED, "faiss build: stopped on request");
    return SR1_OK;
}

static sr1_status add_chunk(struct faiss_build *b, size_t at, float *chunk)
{
    size_t n = b->vectors.n - at < CHUNK ? b->vectors.n - at : CHUNK;
    struct sr1__faiss_error error = {""};

    SR1__TRY(report_faiss_progress(b, at));
    SR1__TRY(sr1__faiss_vectors_read(&b->vectors, at, n, chunk));
    return sr1__faiss_status(b->table->add(b->index, chunk, (int64_t)n, &error), &error,
                             "add");
}

static sr1_status add_faiss_vectors(struct faiss_build *b)
{
    size_t room = b->vectors.n < CHUNK ? b->vectors.n : CHUNK;
    float *chunk = sr1__calloc(room, (size_t)b->vectors.dim * sizeof(*chunk));
    sr1_status status = chunk != NULL ? SR1_OK : sr1__fail_nomem("vectors to add");

    for (size_t at = 0; status == SR1_OK && at < b->vectors.n; at += CHUNK)
        status = add_chunk(b, at, chunk);
    sr1__free(chunk);
    return status == SR1_OK ? report_faiss_progress(b, b->vectors.n) : status;
}

/* What FAISS's writer calls; the error travels beside it. */
struct put_target {
    struct sr1__file_writer *writer;
    sr1_status status;
};

static int32_t write_index_bytes(void *arg, const void *bytes, size_t n)
{
    struct put_target *p = arg;

    if (p->status == SR1_OK)
        p->status = sr1__file_writer_add(p->writer, bytes, n);
    return p->status != SR1_OK;
}

static sr1_status write_faiss_index(struct faiss_build *b, const char *path)
{
    struct put_target p = {NULL, SR1_OK};
    struct sr1__faiss_error error = {""};
    sr1_status status;

    SR1__TRY(sr1__file_clean(path));
    SR1__TRY(sr1__file_writer_open(&p.writer, path));
    status = b->table->write(b->index, write_index_bytes, &p, &error);
    if (status == SR1_OK)
        return sr1__file_writer_commit(p.writer);
    status = p.status != SR1_OK ? p.status : sr1__faiss_status(status, &error, "write");
    sr1__file_writer_abort(p.writer);
    return status;
}

static sr1_status build_on_threads(struct faiss_build *b, const char *factory,
                                   const char *path)
{
    struct sr1__faiss_error error = {""};

    SR1__TRY(sr1__faiss_status(
        b->table->make(&b->index, b->vectors.dim, factory, b->metric, &error), &error,
        factory));
    if (!b->table->trained(b->index))
        SR1__TRY(train_faiss_index(b));
    SR1__TRY(add_faiss_vectors(b));
    return write_faiss_index(b, path);
}

static int32_t threads_of(const struct faiss_build *b)
{
    long n = b->o.threads > 0 ? b->o.threads : sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (int32_t)n;
}

sr1_status sr1_faiss_build(const char *vectors, const char *faiss_path,
                           const char *factory, const sr1_faiss_build_options *options,
                           sr1_faiss_progress_fn progress, void *user)
{
    struct faiss_build b = {.progress = progress, .user = user};
    int32_t threads;
    sr1_status status;

    if (vectors == NULL || faiss_path == NULL || factory == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "faiss build: vectors, path and factory are needed");
    SR1__TRY(sr1__path_distinct(vectors, faiss_path));
    SR1__TRY(read_faiss_build_options(&b, options));
    SR1__TRY(sr1__index_place_check(faiss_path, "FAISS", b.o.force));
    SR1__TRY(sr1__faiss_bridge(&b.table));
    status = sr1__faiss_vectors_open(&b.vectors, vectors, b.o.dim);
    if (status == SR1_OK) {
        threads = b.table->threads(threads_of(&b));
        status =
            sr1__context(build_on_threads(&b, factory, faiss_path), "%s", faiss_path);
        (void)b.table->threads(threads);
    }
    if (b.index != NULL)
        b.table->release(b.index);
    sr1__faiss_vectors_close(&b.vectors);
    return status;
}
