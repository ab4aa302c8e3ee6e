/* sr1_search/faiss.c - `sr1-search index --factory`: a FAISS index of vectors. */
#include "sr1_search/commands.h"

#include "common/progress.h"
#include "common/stop.h"

#include <searchr1/ext/faiss.h>

#include <stdio.h>

struct faiss_progress {
    struct progress bar;
    uint64_t done;
};

/* sr1_faiss_progress_fn; user: struct faiss_progress, or NULL to say nothing */
static int32_t show_faiss_progress(void *user, uint64_t done, uint64_t total)
{
    struct faiss_progress *p = user;

    if (p == NULL)
        return stop_asked();
    p->done = done;
    progress_show(&p->bar, (double)done, (double)total, NULL);
    return stop_asked();
}

int run_index_faiss(const struct args *a, const struct request *r,
                    const char *const *rest)
{
    sr1_faiss_build_options o;
    struct faiss_progress p = {.done = 0};
    sr1_status status;

    if (!is_dense(rest[0]) && r->dim == 0)
        return args_wrong(a, "--factory needs a dense index, or raw vectors and --dim N");
    sr1_faiss_build_options_init(&o);
    o.dim = (int32_t)r->dim;
    o.threads = (int32_t)r->threads;
    o.force = r->force;
    o.metric = r->metric;
    stop_note();
    progress_begin(&p.bar, "indexing", "vectors", 1.0);
    status = sr1_faiss_build(rest[0], rest[1], r->factory, &o, show_faiss_progress,
                             r->quiet ? NULL : &p);
    progress_clear(&p.bar);
    if (status != SR1_OK)
        return search_failed(status);
    if (!r->quiet)
        progress_end(&p.bar, (double)p.done, NULL);
    return TOOL_OK;
}
