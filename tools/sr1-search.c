/* sr1-search - index a corpus for BM25 and ask it, from the command line or over HTTP. */
#include <searchr1/search.h>

#include "common/args.h"
#include "common/progress.h"
#include "common/table.h"
#include "search_serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "sr1-search - search engine for training and asking, in one file\n"
    "\n"
    "  sr1-search index CORPUS.jsonl INDEX      make an index of a corpus\n"
    "  sr1-search query INDEX TEXT...           search it; the words of TEXT are one "
    "query\n"
    "  sr1-search serve INDEX                   answer POST /retrieve over HTTP, as "
    "Search-R1's\n"
    "                                           servers do, until Ctrl-C\n"
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
    "  sr1-search serve c.idx --port 8000 &\n"
    "  curl -s http://127.0.0.1:8000/retrieve \\\n"
    "       -d '{\"queries\": [\"eiffel tower\"], \"topk\": 1, \"return_scores\": "
    "true}'\n"
    "\n"
    "Other machines reach a server only with --host 0.0.0.0 and --token-env NAME; "
    "clients "
    "then\n"
    "send the value of that variable as 'Authorization: Bearer VALUE'. GET /health and "
    "GET\n"
    "/metrics (Prometheus) say how it is.\n"
    "\n"
    "Exit codes: 0 done (also when nothing is found, or SIGTERM stopped a server), 1 "
    "failed,\n"
    "2 wrong usage, 130 after Ctrl-C.\n";

struct request {
    int64_t top_k;
    const char *analyzer;
    double k1;
    double b;
    const char *host;
    const char *token_env;
    int64_t port;
    int64_t threads;
    int json;
    int quiet;
    int serve_given;
    int top_k_given;
    int analyzer_given;
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
    if (r->serve_given)
        return args_wrong(a, "--host, --port, --threads and --token-env belong to "
                             "'serve'");
    sr1_bm25_build_options_init(&o);
    o.analyzer = r->analyzer;
    progress_begin(&p, "indexing", "MB", 1e-6);
    status = sr1_bm25_build(rest[0], rest[1], &o, r->quiet ? NULL : show_progress, &p);
    progress_clear(&p);
    if (status != SR1_OK)
        return failed(status);
    return describe(rest[1], r->quiet ? NULL : &p);
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

/* Free *out; the exit code, or -1 to go on. */
static int open_engine(const struct args *a, const struct request *r, const char *path,
                       sr1_search **out)
{
    sr1_bm25_options o;
    sr1_status status;

    if (r->analyzer_given || r->quiet_given)
        return args_wrong(a,
                          "--analyzer and --quiet belong to 'index'; an index keeps the "
                          "analyzer it was made with");
    sr1_bm25_options_init(&o);
    o.k1 = r->k1;
    o.b = r->b;
    status = sr1_search_open_bm25(out, path, &o);
    return status == SR1_OK ? -1 : failed(status);
}

static int run_query(const struct args *a, const struct request *r,
                     const char *const *rest, size_t n)
{
    sr1_search *engine = NULL;
    char *text;
    int code;

    if (n < 2)
        return args_wrong(
            a, "query needs an index and words: sr1-search query INDEX TEXT...");
    if (r->serve_given)
        return args_wrong(a, "--host, --port, --threads and --token-env belong to "
                             "'serve'");
    code = open_engine(a, r, rest[0], &engine);
    if (code >= 0)
        return code;
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

/* ---- serve ---- */

static int run_serve(const struct args *a, const struct request *r,
                     const char *const *rest, size_t n)
{
    sr1_search *engine = NULL;
    sr1_server_options o;
    int code;

    if (n != 1)
        return args_wrong(a, "serve needs an index: sr1-search serve INDEX");
    if (r->json_given)
        return args_wrong(a, "--json belongs to 'query'");
    code = open_engine(a, r, rest[0], &engine);
    if (code >= 0)
        return code;
    sr1_server_options_init(&o);
    o.address = r->host;
    o.token_env = r->token_env;
    o.port = (int32_t)r->port;
    o.threads = (int32_t)r->threads;
    o.top_k = (int32_t)r->top_k;
    o.max_top_k = o.top_k > o.max_top_k ? o.top_k : o.max_top_k;
    code = serve_engine(engine, rest[0], &o);
    sr1_search_free(engine);
    return code;
}

static const struct {
    const char *name;
    int (*run)(const struct args *a, const struct request *r, const char *const *rest,
               size_t n);
} commands[] = {
    {"index", run_index},
    {"query", run_query},
    {"serve", run_serve},
};

int main(int argc, char **argv)
{
    struct request r = {
        .top_k = 3, .analyzer = "english", .k1 = 0.9, .b = 0.4, .port = 8000};
    const struct args_option options[] = {
        {"--top-k", ARGS_INT, &r.top_k, "N", "query, serve: hits of a query (3)", 1,
         SR1_SEARCH_TOP_K_MAX, &r.top_k_given},
        {"--json", ARGS_FLAG, &r.json, NULL,
         "query: one JSON object a hit, with full text", 0, 0, &r.json_given},
        {"--k1", ARGS_REAL, &r.k1, "X", "query, serve: BM25's k1 (0.9)", 0, 1000,
         &r.k1_given},
        {"--b", ARGS_REAL, &r.b, "X", "query, serve: BM25's b, from 0 to 1 (0.4)", 0, 1,
         &r.b_given},
        {"--analyzer", ARGS_STRING, &r.analyzer, "NAME",
         "index: english (stems, stop words; default) or plain", 0, 0, &r.analyzer_given},
        {"--host", ARGS_STRING, &r.host, "ADDRESS",
         "serve: address to listen on (127.0.0.1)", 0, 0, &r.serve_given},
        {"--port", ARGS_INT, &r.port, "N", "serve: port, 0 for any that is free (8000)",
         0, 65535, &r.serve_given},
        {"--threads", ARGS_INT, &r.threads, "N",
         "serve: threads that search, 0 for one a processor (0)", 0, 1024,
         &r.serve_given},
        {"--token-env", ARGS_STRING, &r.token_env, "NAME",
         "serve: environment variable with the token that clients send", 0, 0,
         &r.serve_given},
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
        code = args_wrong(&a, "which command: index, query or serve?");
    for (size_t i = 0; code < 0 && i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(rest[0], commands[i].name) == 0)
            code = commands[i].run(&a, &r, rest + 1, n - 1);
    }
    if (code < 0)
        code = args_wrong(
            &a, "there is no command '%s'; there are index, query and serve", rest[0]);
    free((void *)rest);
    return code;
}
