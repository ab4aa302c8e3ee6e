/* sr1_search/index.c - `sr1-search index`: a corpus becomes an index file; `verify` reads
 * one again. */
#include "sr1_search/commands.h"

#include "common/output.h"
#include "common/progress.h"
#include "common/stop.h"

#include <searchr1/ext/bm25.h>
#include <searchr1/ext/dense.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE_TOLD 100000 /* bytes: less would be 0.0 MB */

/* sr1_bm25_progress_fn; user: struct progress, or NULL to say nothing */
static int32_t show_bm25_progress(void *user, uint64_t done, uint64_t total,
                                  uint64_t documents)
{
    char note[64];

    if (user == NULL)
        return stop_asked();
    snprintf(note, sizeof(note), "%llu document%s", (unsigned long long)documents,
             plural_ending((int64_t)documents, "s"));
    progress_show(user, (double)done, (double)total, note);
    return stop_asked();
}

static int print_bm25_info(const char *path, struct progress *p)
{
    sr1_search *engine = NULL;
    sr1_bm25_info info = {sizeof(info)};
    char note[160];
    int n;
    sr1_status status = sr1_search_open_bm25(&engine, path, NULL);

    if (status == SR1_OK)
        status = sr1_bm25_info_get(engine, &info);
    if (status != SR1_OK) {
        sr1_search_free(engine);
        return search_failed(status);
    }
    n = snprintf(note, sizeof(note), "%llu document%s, %llu term%s",
                 (unsigned long long)info.documents,
                 plural_ending((int64_t)info.documents, "s"),
                 (unsigned long long)info.terms, plural_ending((int64_t)info.terms, "s"));
    if (info.search_bytes + info.documents_bytes >= SIZE_TOLD)
        snprintf(note + n, sizeof(note) - (size_t)n,
                 "; index %.1f MB + documents %.1f MB", 1e-6 * (double)info.search_bytes,
                 1e-6 * (double)info.documents_bytes);
    if (p != NULL)
        progress_end(p, (double)info.contents_bytes, note);
    if (info.terms == 0)
        fputs(
            "warning: no document has a word in its \"contents\": nothing can be found\n",
            stderr);
    sr1_search_free(engine);
    return TOOL_OK;
}

/* Ways to make an index. */
enum { BM25 = 1, DENSE = 2, VECTORS = 4, FACTORY = 8 };

/* Options that only some ways know, and what names these. */
static const struct {
    const char *option;
    int ways;
    const char *names;
} limited[] = {
    {"--dim", VECTORS | FACTORY, "--vectors FILE and --factory KIND"},
    {"--dtype", DENSE | VECTORS, "--dense MODEL and --vectors FILE"},
    {"--batch", DENSE, "--dense MODEL"},
    {"--device", DENSE, "--dense MODEL"},
    {"--encoder", VECTORS, "--vectors FILE"},
    {"--metric", FACTORY, "--factory KIND"},
    {"--text-format", BM25 | DENSE | VECTORS, "an index of texts"},
    {"--analyzer", BM25, "a BM25 index"},
    {"--memory", BM25, "a BM25 index"},
};

static int check_index_options(const struct args *a, const struct request *r)
{
    const char *first = r->dense != NULL ? "--dense" : "--vectors";
    const char *second = r->factory != NULL ? "--factory" : "--vectors";
    int way = r->dense != NULL     ? DENSE
              : r->vectors != NULL ? VECTORS
              : r->factory != NULL ? FACTORY
                                   : BM25;

    if ((r->dense != NULL) + (r->vectors != NULL) + (r->factory != NULL) > 1)
        return args_wrong(a, "%s and %s: give one of them", first, second);
    for (size_t i = 0; i < sizeof(limited) / sizeof(limited[0]); i++)
        if (!(limited[i].ways & way) && args_is_given(a, limited[i].option))
            return args_wrong(a, "%s belongs to %s", limited[i].option, limited[i].names);
    return -1;
}

/* What an index at path may replace. */
static sr1_status check_index_output(const struct request *r, const char *const *rest)
{
    struct output o = {.path = rest[1], .kind = "a BM25 index", .is_ours = is_bm25};
    const char *inputs[] = {rest[0], r->vectors};

    if (r->dense != NULL || r->vectors != NULL) {
        o.kind = "a dense index";
        o.is_ours = is_dense;
    } else if (r->factory != NULL) {
        o.kind = "a FAISS index";
        o.is_ours = is_faiss;
    }
    return output_check(&o, inputs, 2, r->force);
}

/* Nothing is begun without a corpus. */
static sr1_status check_corpus(const char *path)
{
    char text[4200];
    struct stat st;
    int is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);

    if (!is_folder && access(path, R_OK) == 0)
        return SR1_OK;
    snprintf(text, sizeof(text), "cannot open %.4000s: %s", path,
             is_folder ? "it is a folder, not a file" : strerror(errno));
    return sr1_set_error(SR1_E_IO, text);
}

static int make_index(const struct args *a, const struct request *r,
                      const char *const *rest)
{
    sr1_bm25_build_options o;
    struct progress p;
    sr1_status status;

    if (r->dense != NULL || r->vectors != NULL)
        return run_index_dense(a, r, rest);
    if (r->factory != NULL)
        return run_index_faiss(a, r, rest);
    sr1_bm25_build_options_init(&o);
    o.analyzer = r->analyzer;
    o.text_format = r->text_format;
    o.memory_bytes = (uint64_t)r->memory << 20;
    o.threads = (int32_t)r->threads;
    o.force = r->force;
    stop_note();
    progress_begin(&p, "indexing", "MB", 1e-6);
    status =
        sr1_bm25_build(rest[0], rest[1], &o, show_bm25_progress, r->quiet ? NULL : &p);
    progress_clear(&p);
    if (status != SR1_OK)
        return search_failed(status);
    return print_bm25_info(rest[1], r->quiet ? NULL : &p);
}

int run_index(const struct args *a, const struct request *r, const char *const *rest,
              size_t n)
{
    sr1_status status;
    int code;

    if (n != 2)
        return args_wrong(a, "index needs a corpus and an index file: "
                             "sr1-search index CORPUS.jsonl INDEX");
    code = check_index_options(a, r);
    if (code >= 0)
        return code;
    status = check_corpus(rest[0]);
    if (status == SR1_OK)
        status = check_index_output(r, rest);
    return status == SR1_OK ? make_index(a, r, rest) : tool_refused("sr1-search", status);
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
