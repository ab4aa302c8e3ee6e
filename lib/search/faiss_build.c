/* search/faiss_build.c - vectors in a file become a FAISS index in a file. */
#include <searchr1/search.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/struct.h"
#include "search/faiss_bridge.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 14) /* vectors added between two reports */
#define TRAIN_SAMPLE ((uint64_t)1 << 18)
#define THREADS_MAX 1024

struct build {
    const struct sr1__faiss_table *table;
    sr1__faiss_index *index;
    struct sr1__map map;
    const float *vectors; /* [n, dim] */
    size_t n;
    sr1_faiss_build_options o;
    int32_t metric;
    sr1_faiss_progress_fn progress;
    void *user;
};

static const sr1_faiss_build_options defaults = {sizeof(defaults), 0, 0, NULL,
                                                 TRAIN_SAMPLE};

void sr1_faiss_build_options_init(sr1_faiss_build_options *options)
{
    sr1__struct_init(options, &defaults,
                     SR1__STRUCT_END(sr1_faiss_build_options, train_sample));
}

static const char *const metrics[] = {"inner_product", "l2"};

static sr1_status read_options(struct build *b, const sr1_faiss_build_options *options)
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

/* ---- vectors ---- */

static sr1_status check_finite(const float *v, size_t n, size_t dim, const char *path)
{
    for (size_t i = 0; i < n * dim; i++)
        if (!isfinite(v[i]))
            return sr1__fail(SR1_E_NUMERIC, "%s: vector %zu is not finite", path,
                             i / dim);
    return SR1_OK;
}

static sr1_status open_vectors(struct build *b, const char *path)
{
    size_t row = (size_t)b->o.dim * sizeof(float);

    if (b->o.dim < 1 || b->o.dim > SR1_EMBED_DIM_MAX)
        return sr1__fail(SR1_E_INVALID, "faiss build: dim %d is not in 1..%d",
                         (int)b->o.dim, SR1_EMBED_DIM_MAX);
    SR1__TRY(sr1__map_open(&b->map, path));
    b->n = b->map.size / row;
    if (b->n == 0 || b->map.size % row != 0 || b->n > INT32_MAX)
        return sr1__fail(SR1_E_INVALID, "%s: %zu bytes are not fp32 vectors of %d", path,
                         b->map.size, (int)b->o.dim);
    b->vectors = (const float *)(const void *)b->map.data;
    return check_finite(b->vectors, b->n, (size_t)b->o.dim, path);
}

/* ---- building ---- */

/* Rows i * n / sample. */
static sr1_status train(struct build *b)
{
    size_t dim = (size_t)b->o.dim;
    size_t n = b->o.train_sample == 0 || b->o.train_sample > b->n
                   ? b->n
                   : (size_t)b->o.train_sample;
    struct sr1__faiss_error error = {""};
    float *sample = NULL;
    sr1_status status;

    if (n < b->n) {
        sample = sr1__calloc(n, dim * sizeof(*sample));
        if (sample == NULL)
            return sr1__fail_nomem("vectors to train on");
        for (size_t i = 0; i < n; i++)
            memcpy(sample + i * dim, b->vectors + i * b->n / n * dim,
                   dim * sizeof(*sample));
    }
    status = b->table->train(b->index, sample != NULL ? sample : b->vectors, (int64_t)n,
                             &error);
    sr1__free(sample);
    return sr1__faiss_status(status, &error, "train");
}

static sr1_status tell(const struct build *b, size_t done)
{
    if (b->progress != NULL && b->progress(b->user, done, b->n) != 0)
        return sr1__fail(SR1_E_CANCELLED, "faiss build: stopped on request");
    return SR1_OK;
}

static sr1_status add(struct build *b)
{
    struct sr1__faiss_error error = {""};

    for (size_t at = 0; at < b->n; at += CHUNK) {
        size_t n = b->n - at < CHUNK ? b->n - at : CHUNK;
        sr1_status status;

        SR1__TRY(tell(b, at));
        status = b->table->add(b->index, b->vectors + at * (size_t)b->o.dim, (int64_t)n,
                               &error);
        SR1__TRY(sr1__faiss_status(status, &error, "add"));
    }
    return tell(b, b->n);
}

/* What FAISS's writer calls; the error travels beside it. */
struct put {
    struct sr1__file_writer *writer;
    sr1_status status;
};

static int32_t put_bytes(void *arg, const void *bytes, size_t n)
{
    struct put *p = arg;

    if (p->status == SR1_OK)
        p->status = sr1__file_writer_add(p->writer, bytes, n);
    return p->status != SR1_OK;
}

static sr1_status write_index(struct build *b, const char *path)
{
    struct put p = {NULL, SR1_OK};
    struct sr1__faiss_error error = {""};
    sr1_status status;

    SR1__TRY(sr1__file_clean(path));
    SR1__TRY(sr1__file_writer_open(&p.writer, path));
    status = b->table->write(b->index, put_bytes, &p, &error);
    if (status == SR1_OK)
        return sr1__file_writer_commit(p.writer);
    status = p.status != SR1_OK ? p.status : sr1__faiss_status(status, &error, "write");
    sr1__file_writer_abort(p.writer);
    return status;
}

static sr1_status build_on_threads(struct build *b, const char *factory, const char *path)
{
    struct sr1__faiss_error error = {""};

    SR1__TRY(
        sr1__faiss_status(b->table->make(&b->index, b->o.dim, factory, b->metric, &error),
                          &error, factory));
    SR1__TRY(train(b));
    SR1__TRY(add(b));
    return write_index(b, path);
}

static int32_t threads_of(const struct build *b)
{
    long n = b->o.threads > 0 ? b->o.threads : sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (int32_t)n;
}

sr1_status sr1_faiss_build(const char *vectors, const char *faiss_path,
                           const char *factory, const sr1_faiss_build_options *options,
                           sr1_faiss_progress_fn progress, void *user)
{
    struct build b = {.progress = progress, .user = user};
    int32_t threads;
    sr1_status status;

    if (vectors == NULL || faiss_path == NULL || factory == NULL)
        return sr1__fail(SR1_E_INVALID,
                         "faiss build: vectors, path and factory are needed");
    SR1__TRY(read_options(&b, options));
    SR1__TRY(sr1__faiss_bridge(&b.table));
    status = open_vectors(&b, vectors);
    if (status == SR1_OK) {
        threads = b.table->threads(threads_of(&b));
        status =
            sr1__context(build_on_threads(&b, factory, faiss_path), "%s", faiss_path);
        (void)b.table->threads(threads);
    }
    if (b.index != NULL)
        b.table->release(b.index);
    sr1__map_close(&b.map);
    return status;
}
