/* sr1-search - index a corpus for BM25 and ask it, from the command line. */
#include <searchr1/search.h>

#include "common/args.h"
#include "common/progress.h"
#include "common/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "sr1-search - search engine for training and asking, in one file\n"
    "\n"
    "  sr1-search index CORPUS.jsonl INDEX      make an index of a corpus\n"
    "  sr1-search query INDEX TEXT...           search it; the words of TEXT are one "
    "query\n"
    "  sr1-search verify INDEX                  read all of it and compare its "
    "checksums\n"
    "\n"
    "The corpus has one JSON object a line: {\"id\": \"1\", \"contents\": "
    "\"Title\\nText...\"}.\n"
    "\n"
    "Example:\n"
    "  printf '%s\\n' '{\"id\":\"1\",\"contents\":\"Paris\\nThe Eiffel Tower is in "
    "Paris.\"}' \\\n"
    "                '{\"id\":\"2\",\"contents\":\"Rome\\nThe Colosseum is in Rome.\"}' "
    "> c.jsonl\n"
    "  sr1-search index c.jsonl c.idx\n"
    "  sr1-search query c.idx where is the eiffel tower\n"
    "\n"
    "Exit codes: 0 done (also when nothing is found), 1 failed, 2 wrong usage.\n";

struct request {
    int64_t top_k;
    const char *analyzer;
    const char *text_format;
    int64_t threads;
    int64_t memory;
    double k1;
    double b;
    int json;
    int quiet;
    int top_k_given;
    int analyzer_given;
    int text_format_given;
    int threads_given;
    int memory_given;
    int k1_given;
    int b_given;
    int json_given;
    int quiet_given;
};

/* Explain a failing call of the library; returns the exit code. */
static int failed(sr1_status status)
{
    fprintf(stderr, "sr1-search: %s\n", sr1_last_error());
    return status == SR1_E_INVALID ? TOOL_USAGE : TOOL_FAILED;
}

/* ---- index ---- */

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
        return failed(status);
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

static int run_index(const struct args *a, const struct request *r,
                     const char *const *rest, size_t n)
{
    sr1_bm25_build_options o;
    struct progress p;
    sr1_status status;

    if (n != 2)
        return args_wrong(a, "index needs a corpus and an index file: "
                             "sr1-search index CORPUS.jsonl INDEX");
    if (r->top_k_given || r->k1_given || r->b_given || r->json_given)
        return args_wrong(a, "--top-k, --k1, --b and --json belong to 'query'");
    sr1_bm25_build_options_init(&o);
    o.struct_size = sizeof(o);
    o.analyzer = r->analyzer;
    o.memory_bytes = (uint64_t)r->memory << 20;
    o.text_format = r->text_format;
    o.threads = (int32_t)r->threads;
    progress_begin(&p, "indexing", "MB", 1e-6);
    status = sr1_bm25_build(rest[0], rest[1], &o, r->quiet ? NULL : show_progress, &p);
    progress_clear(&p);
    if (status != SR1_OK)
        return failed(status);
    return describe(rest[1], r->quiet ? NULL : &p);
}

static const char of_index[] =
    "--analyzer, --text-format, --threads, --memory and --quiet belong to 'index'; an "
    "index keeps the analyzer it was made with";

static int index_options_given(const struct request *r)
{
    return r->analyzer_given || r->text_format_given || r->threads_given ||
           r->memory_given || r->quiet_given;
}

/* ---- verify ---- */

static int run_verify(const struct args *a, const struct request *r,
                      const char *const *rest, size_t n)
{
    sr1_status status;

    if (n != 1)
        return args_wrong(a, "verify needs an index: sr1-search verify INDEX");
    if (index_options_given(r))
        return args_wrong(a, "%s", of_index);
    if (r->top_k_given || r->k1_given || r->b_given || r->json_given)
        return args_wrong(a, "--top-k, --k1, --b and --json belong to 'query'");
    status = sr1_bm25_verify(rest[0]);
    if (status != SR1_OK)
        return failed(status);
    printf("%s: whole\n", rest[0]);
    return TOOL_OK;
}

/* ---- query ---- */

/* The arguments with single spaces between; free it. */
static char *join(const char *const *words, size_t n)
{
    size_t size = 1;
    char *text;

    for (size_t i = 0; i < n; i++)
        size += strlen(words[i]) + 1;
    text = malloc(size);
    if (text == NULL)
        return NULL;
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            strcat(text, " ");
        strcat(text, words[i]);
    }
    return text;
}

/* The first line of contents without its quotes, and what follows; a single line has no
 * title. Free the title. */
static char *split_title(const char *contents, const char **rest)
{
    size_t n = strcspn(contents, "\n");
    char *title;

    if (contents[n] == '\0')
        n = 0;
    *rest = contents + n + (contents[n] == '\n');
    if (n >= 2 && contents[0] == '"' && contents[n - 1] == '"') {
        contents++;
        n -= 2;
    }
    title = malloc(n + 1);
    if (title == NULL)
        return NULL;
    memcpy(title, contents, n);
    title[n] = '\0';
    return title;
}

static int print_table(const sr1_search_results *found)
{
    static const struct table_column columns[] = {
        {"score", TABLE_RIGHT, 0},
        {"id", TABLE_LEFT, 24},
        {"title", TABLE_LEFT, 32},
        {"text", TABLE_LEFT, 80},
    };
    sr1_search_hit hit = {sizeof(hit)};
    struct table t;

    table_begin(&t, columns, 4);
    for (int32_t k = 0; sr1_search_results_hit(found, 0, k, &hit) == SR1_OK; k++) {
        const char *text;
        char *title = split_title(hit.contents, &text);
        char score[32];
        const char *cells[] = {score, hit.id, title, text};

        snprintf(score, sizeof(score), "%.4f", hit.score);
        table_row(&t, cells);
        t.failed |= title == NULL;
        free(title);
    }
    if (table_end(&t, stdout) == 0)
        return TOOL_OK;
    fprintf(stderr, "sr1-search: out of memory\n");
    return TOOL_FAILED;
}

static void print_json_string(const char *s)
{
    putchar('"');
    for (; *s != '\0'; s++) {
        if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            printf("\\u%04x", (unsigned)*s);
        else
            putchar(*s);
    }
    putchar('"');
}

/* One object a line, best first. */
static int print_json(const sr1_search_results *found)
{
    sr1_search_hit hit = {sizeof(hit)};

    for (int32_t k = 0; sr1_search_results_hit(found, 0, k, &hit) == SR1_OK; k++) {
        printf("{\"rank\": %d, \"score\": %.6f, \"id\": ", (int)k + 1, hit.score);
        print_json_string(hit.id);
        printf(", \"contents\": ");
        print_json_string(hit.contents);
        printf("}\n");
    }
    return TOOL_OK;
}

static int ask(sr1_search *engine, const struct request *r, const char *text)
{
    sr1_search_results *found = NULL;
    sr1_status status = sr1_search_run(engine, &text, 1, (int32_t)r->top_k, &found);
    int code;

    if (status != SR1_OK)
        return failed(status);
    if (sr1_search_results_hit_count(found, 0) == 0) {
        fprintf(stderr, "%s\n", sr1_search_results_message(found, 0));
        code = TOOL_OK;
    } else {
        code = r->json ? print_json(found) : print_table(found);
    }
    sr1_search_results_free(found);
    if (fflush(stdout) != 0) {
        perror("sr1-search: standard output");
        code = TOOL_FAILED;
    }
    return code;
}

static int run_query(const struct args *a, const struct request *r,
                     const char *const *rest, size_t n)
{
    sr1_search *engine = NULL;
    sr1_bm25_options o;
    sr1_status status;
    char *text;
    int code;

    if (n < 2)
        return args_wrong(
            a, "query needs an index and words: sr1-search query INDEX TEXT...");
    if (index_options_given(r))
        return args_wrong(a, "%s", of_index);
    sr1_bm25_options_init(&o);
    o.k1 = r->k1;
    o.b = r->b;
    status = sr1_search_open_bm25(&engine, rest[0], &o);
    if (status != SR1_OK)
        return failed(status);
    text = join(rest + 1, n - 1);
    if (text == NULL) {
        fprintf(stderr, "sr1-search: out of memory\n");
        code = TOOL_FAILED;
    } else {
        code = ask(engine, r, text);
    }
    free(text);
    sr1_search_free(engine);
    return code;
}

static int run_serve(const struct args *a, const struct request *r,
                     const char *const *rest, size_t n)
{
    (void)r;
    (void)rest;
    (void)n;
    return args_wrong(
        a, "'serve' is not in this version; 'index', 'query' and 'verify' are");
}

static const struct {
    const char *name;
    int (*run)(const struct args *a, const struct request *r, const char *const *rest,
               size_t n);
} commands[] = {
    {"index", run_index},
    {"query", run_query},
    {"verify", run_verify},
    {"serve", run_serve},
};

int main(int argc, char **argv)
{
    struct request r = {.top_k = 3,
                        .analyzer = "english",
                        .text_format = "plain",
                        .memory = 512,
                        .k1 = 0.9,
                        .b = 0.4};
    const struct args_option options[] = {
        {"--top-k", ARGS_INT, &r.top_k, "N", "query: hits to show (3)", 1,
         SR1_SEARCH_TOP_K_MAX, &r.top_k_given},
        {"--json", ARGS_FLAG, &r.json, NULL,
         "query: one JSON object a hit, with full text", 0, 0, &r.json_given},
        {"--k1", ARGS_REAL, &r.k1, "X", "query: BM25's k1 (0.9)", 0, 1000, &r.k1_given},
        {"--b", ARGS_REAL, &r.b, "X", "query: BM25's b, from 0 to 1 (0.4)", 0, 1,
         &r.b_given},
        {"--analyzer", ARGS_STRING, &r.analyzer, "NAME",
         "index: english (stems, stop words; default), plain or cjk", 0, 0,
         &r.analyzer_given},
        {"--text-format", ARGS_STRING, &r.text_format, "NAME",
         "index: contents are plain (default), html, markdown, or auto", 0, 0,
         &r.text_format_given},
        {"--threads", ARGS_INT, &r.threads, "N", "index: threads (0: one a processor)", 0,
         1024, &r.threads_given},
        {"--memory", ARGS_INT, &r.memory, "MIB",
         "index: for postings, before they go to disk (512)", 1, 3072, &r.memory_given},
        {"--quiet", ARGS_FLAG, &r.quiet, NULL, "index: print errors only", 0, 0,
         &r.quiet_given},
    };
    const struct args a = {"sr1-search", help, options,
                           sizeof(options) / sizeof(options[0])};
    const char **rest = malloc((size_t)(argc + 1) * sizeof(*rest));
    size_t n = 0;
    int code;

    if (rest == NULL)
        return TOOL_FAILED;
    code = args_read(&a, argc, argv, rest, (size_t)argc, &n);
    if (code < 0 && n == 0)
        code = args_wrong(&a, "which command: index, query or verify?");
    for (size_t i = 0; code < 0 && i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(rest[0], commands[i].name) == 0)
            code = commands[i].run(&a, &r, rest + 1, n - 1);
    }
    if (code < 0)
        code = args_wrong(
            &a, "there is no command '%s'; there are index, query and verify", rest[0]);
    free((void *)rest);
    return code;
}
