/* sr1_search/index.c - `sr1-search index`: a corpus becomes an index file; `verify` reads
 * one again. */
#include "sr1_search/commands.h"

#include "common/progress.h"

#include <stdio.h>

/* sr1_bm25_progress_fn */
static int32_t show_progress(void *user, uint64_t done, uint64_t total,
                             uint64_t documents)
{
    char note[64];

    snprintf(note, sizeof(note), "%llu documents", (unsigned long long)documents);
    progress_show(user, (double)done, (double)total, note);
    return 0;
}

static int describe(const char *path, struct progress *p)
{
    sr1_search *engine = NULL;
    sr1_bm25_info info = {sizeof(info)};
    char note[160];
    sr1_status status = sr1_search_open_bm25(&engine, path, NULL);

    if (status == SR1_OK)
        status = sr1_bm25_info_get(engine, &info);
    if (status != SR1_OK) {
        sr1_search_free(engine);
        return search_failed(status);
    }
    snprintf(note, sizeof(note),
             "%llu documents, %llu terms; index %.1f MB + documents %.1f MB",
             (unsigned long long)info.documents, (unsigned long long)info.terms,
             1e-6 * (double)info.search_bytes, 1e-6 * (double)info.documents_bytes);
    if (p != NULL)
        progress_end(p, (double)info.contents_bytes, note);
    sr1_search_free(engine);
    return TOOL_OK;
}

int run_index(const struct args *a, const struct request *r, const char *const *rest,
              size_t n)
{
    sr1_bm25_build_options o;
    struct progress p;
    sr1_status status;

    if (n != 2)
        return args_wrong(a, "index needs a corpus and an index file: "
                             "sr1-search index CORPUS.jsonl INDEX");
    if (r->dense != NULL || r->vectors != NULL)
        return run_index_dense(a, r, rest);
    if (r->factory != NULL)
        return run_index_faiss(a, r, rest);
    if (r->dtype != NULL || r->dim > 0)
        return args_wrong(a,
                          "--dtype and --dim belong to --dense MODEL, --vectors FILE or "
                          "--factory KIND");
    sr1_bm25_build_options_init(&o);
    o.struct_size = sizeof(o);
    o.analyzer = r->analyzer;
    o.text_format = r->text_format;
    o.memory_bytes = (uint64_t)r->memory << 20;
    o.threads = (int32_t)r->threads;
    progress_begin(&p, "indexing", "MB", 1e-6);
    status = sr1_bm25_build(rest[0], rest[1], &o, r->quiet ? NULL : show_progress, &p);
    progress_clear(&p);
    if (status != SR1_OK)
        return search_failed(status);
    return describe(rest[1], r->quiet ? NULL : &p);
}

int run_verify(const struct args *a, const struct request *r, const char *const *rest,
               size_t n)
{
    sr1_status status;

    (void)r;
    if (n != 1)
        return args_wrong(a, "verify needs an index: sr1-search verify INDEX");
    status = is_dense(rest[0]) ? sr1_dense_verify(rest[0]) : sr1_bm25_verify(rest[0]);
    if (status != SR1_OK)
        return search_failed(status);
    printf("%s: whole\n", rest[0]);
    return TOOL_OK;
}
