/* sr1_search/dense.c - `sr1-search index --dense` and `--vectors`: what it will take is
 * said before it begins. */
#include "sr1_search/commands.h"

#include "common/progress.h"
#include "common/stop.h"

#include <searchr1/ext/dense.h>
#include <searchr1/ext/embed.h>

#include <stdio.h>
#include <stdlib.h>

struct dense_progress {
    struct progress bar;
    int resumed; /* said so */
};

/* sr1_dense_progress_fn; user: struct dense_progress, or NULL to say nothing */
static int32_t show_dense_progress(void *user, uint64_t done, uint64_t total,
                                   uint64_t documents, uint64_t resumed)
{
    struct dense_progress *p = user;
    char note[64];

    if (p == NULL)
        return stop_asked();
    if (resumed > 0 && !p->resumed) {
        p->resumed = 1;
        fprintf(stderr, "going on: %llu documents are done\n",
                (unsigned long long)resumed);
    }
    if (documents <= resumed)
        progress_resume(&p->bar, (double)done);
    snprintf(note, sizeof(note), "%llu document%s", (unsigned long long)documents,
             plural_ending((int64_t)documents, "s"));
    progress_show(&p->bar, (double)done, (double)total, note);
    return stop_asked();
}

static void format_byte_count(uint64_t bytes, char out[32])
{
    static const struct {
        uint64_t bytes;
        const char *unit;
    } units[] = {{1000000000, "GB"}, {1000000, "MB"}, {1000, "kB"}, {1, "bytes"}};
    size_t i = 0;

    while (bytes < units[i].bytes && i < 3)
        i++;
    snprintf(out, 32, i < 3 ? "%.1f %s" : "%.0f %s",
             (double)bytes / (double)units[i].bytes, units[i].unit);
}

static sr1_status print_build_estimate(const struct request *r, const char *corpus,
                                       sr1_embedder *encoder,
                                       const sr1_dense_build_options *o)
{
    sr1_dense_estimate e = {sizeof(e)};
    char index[32];
    char search[32];
    char build[32];
    char time[24];
    sr1_status status = sr1_dense_estimate_get(corpus, encoder, (int32_t)r->dim, o, &e);

    if (status != SR1_OK)
        return status;
    format_byte_count(e.index_bytes, index);
    format_byte_count(e.search_bytes, search);
    format_byte_count(e.build_bytes, build);
    fprintf(stderr,
            "about %llu documents: an index of about %s; every search goes through %s of "
            "it,\nwhich should fit in memory\n",
            (unsigned long long)e.documents, index, search);
    if (encoder != NULL) {
        progress_time(e.embed_seconds, time);
        fprintf(stderr,
                "embedding takes about %s here; memory: the model and at most %s. "
                "Stopped, the same\ncommand goes on where it was\n",
                time, build);
    }
    return SR1_OK;
}

static int print_dense_info(const char *path, struct progress *p)
{
    sr1_dense_info info = {sizeof(info)};
    char vectors[32];
    char documents[32];
    char note[160];
    sr1_status status = sr1_dense_info_read(path, &info);

    if (status != SR1_OK)
        return search_failed(status);
    format_byte_count(info.search_bytes, vectors);
    format_byte_count(info.documents_bytes, documents);
    snprintf(note, sizeof(note),
             "%llu document%s, %d numbers each as %s; vectors %s + documents %s",
             (unsigned long long)info.documents,
             plural_ending((int64_t)info.documents, "s"), (int)info.dim, info.dtype,
             vectors, documents);
    if (p != NULL)
        progress_end(p, (double)info.contents_bytes, note);
    return TOOL_OK;
}

static sr1_status build_dense_index(const struct request *r, const char *const *rest,
                                    sr1_embedder *encoder,
                                    const sr1_dense_build_options *o,
                                    struct dense_progress *p)
{
    p = r->quiet ? NULL : p;
    stop_note();
    if (encoder != NULL)
        return sr1_dense_build(rest[0], rest[1], encoder, o, show_dense_progress, p);
    return sr1_dense_import(rest[0], r->vectors, (int32_t)r->dim, rest[1], o,
                            show_dense_progress, p);
}

/* The encoder by its full path, so that the index can be asked from any folder. */
static sr1_status open_index_encoder(sr1_embedder **out, const struct request *r)
{
    char *full = realpath(r->dense, NULL);
    sr1_status status = open_request_encoder(out, r, full != NULL ? full : r->dense);

    free(full);
    return status;
}

int run_index_dense(const struct args *a, const struct request *r,
                    const char *const *rest)
{
    sr1_embedder *encoder = NULL;
    sr1_dense_build_options o;
    struct dense_progress p = {0};
    sr1_status status = SR1_OK;

    if (r->vectors != NULL && r->dim == 0)
        return args_wrong(a, "--vectors needs --dim N, the numbers of one vector");
    sr1_dense_build_options_init(&o);
    o.dtype = r->dtype;
    o.text_format = r->text_format;
    o.batch = (int32_t)r->batch;
    o.embedder_name = r->encoder;
    o.force = r->force;
    if (r->dense != NULL)
        status = open_index_encoder(&encoder, r);
    if (status != SR1_OK)
        return tool_refused("sr1-search", status);
    if (!r->quiet)
        status = print_build_estimate(r, rest[0], encoder, &o);
    if (status == SR1_OK) {
        progress_begin(&p.bar, r->dense != NULL ? "embedding" : "indexing", "MB", 1e-6);
        status = build_dense_index(r, rest, encoder, &o, &p);
        progress_clear(&p.bar);
    }
    sr1_embedder_free(encoder);
    if (status != SR1_OK)
        return search_failed(status);
    return print_dense_info(rest[1], r->quiet ? NULL : &p.bar);
}
