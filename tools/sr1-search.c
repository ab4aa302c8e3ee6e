/* sr1-search - index a corpus for BM25 and ask it, or a service. */
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
    "  sr1-search query --remote URL TEXT...    ask a retrieval server (POST /retrieve)\n"
    "  sr1-search query --web PROVIDER TEXT...  ask a web search service: serper, "
    "serpapi,\n"
    "                                           brave, google, searxng, tavily\n"
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
    "A web search service needs a key in the environment: SERPER_API_KEY, "
    "SERPAPI_API_KEY,\n"
    "BRAVE_API_KEY, GOOGLE_API_KEY (and --google-cx), TAVILY_API_KEY; searxng needs "
    "--web-url.\n"
    "\n"
    "Exit codes: 0 done (also when nothing is found), 1 failed, 2 wrong usage.\n";

struct request {
    int64_t top_k;
    const char *analyzer;
    double k1;
    double b;
    const char *remote;
    const char *web;
    const char *web_url;
    const char *google_cx;
    const char *key_env;
    double timeout;
    int json;
    int quiet;
    int http_given; /* any of the six above */
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
    if (r->top_k_given || r->k1_given || r->b_given || r->json_given || r->http_given)
        return args_wrong(a, "options other than --analyzer and --quiet belong to "
                             "'query'");
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
        int32_t how = sr1_search_results_status(found, 0);

        fprintf(stderr, "%s\n", sr1_search_results_message(found, 0));
        code = how == SR1_SEARCH_EMPTY ? TOOL_OK : TOOL_FAILED;
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

static sr1_status open_engine(sr1_search **engine, const struct request *r,
                              const char *index)
{
    sr1_search_http_options h;
    sr1_bm25_options o;

    sr1_search_http_options_init(&h);
    h.struct_size = sizeof(h);
    h.timeout_s = r->timeout;
    h.key_env = r->key_env;
    h.url = r->web_url;
    h.engine_id = r->google_cx;
    h.probe = 0; /* the query itself tells */
    if (r->remote != NULL)
        return sr1_search_open_remote(engine, r->remote, &h);
    if (r->web != NULL)
        return sr1_search_open_web(engine, r->web, &h);
    sr1_bm25_options_init(&o);
    o.k1 = r->k1;
    o.b = r->b;
    return sr1_search_open_bm25(engine, index, &o);
}

static int run_query(const struct args *a, const struct request *r,
                     const char *const *rest, size_t n)
{
    sr1_search *engine = NULL;
    size_t first = r->remote == NULL && r->web == NULL; /* word of the query */
    sr1_status status;
    char *text;
    int code;

    if (r->remote != NULL && r->web != NULL)
        return args_wrong(a, "--remote and --web: give one of them");
    if (n < first + 1)
        return args_wrong(a, "query needs %s: sr1-search query %s TEXT...",
                          first ? "an index and words" : "words",
                          first             ? "INDEX"
                          : r->remote != NULL ? "--remote URL"
                                              : "--web PROVIDER");
    if (r->analyzer_given || r->quiet_given)
        return args_wrong(a,
                          "--analyzer and --quiet belong to 'index'; an index keeps the "
                          "analyzer it was made with");
    status = open_engine(&engine, r, rest[0]);
    if (status != SR1_OK)
        return status == SR1_E_CONFIG || status == SR1_E_NOT_FOUND
                   ? tool_failed("sr1-search", status)
                   : failed(status);
    text = join(rest + first, n - first);
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
    return args_wrong(a, "'serve' is not in this version; 'index' and 'query' are");
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
        .top_k = 3, .analyzer = "english", .k1 = 0.9, .b = 0.4, .timeout = 30};
    const struct args_option options[] = {
        {"--top-k", ARGS_INT, &r.top_k, "N", "query: hits to show (3)", 1,
         SR1_SEARCH_TOP_K_MAX, &r.top_k_given},
        {"--json", ARGS_FLAG, &r.json, NULL,
         "query: one JSON object a hit, with full text", 0, 0, &r.json_given},
        {"--k1", ARGS_REAL, &r.k1, "X", "query: BM25's k1 (0.9)", 0, 1000, &r.k1_given},
        {"--b", ARGS_REAL, &r.b, "X", "query: BM25's b, from 0 to 1 (0.4)", 0, 1,
         &r.b_given},
        {"--remote", ARGS_STRING, &r.remote, "URL",
         "query: ask the retrieval server there", 0, 0, &r.http_given},
        {"--web", ARGS_STRING, &r.web, "PROVIDER", "query: ask this web search service",
         0, 0, &r.http_given},
        {"--web-url", ARGS_STRING, &r.web_url, "URL",
         "query: address to ask in place of the provider's own", 0, 0, &r.http_given},
        {"--google-cx", ARGS_STRING, &r.google_cx, "ID",
         "query: Google's search engine id", 0, 0, &r.http_given},
        {"--key-env", ARGS_STRING, &r.key_env, "NAME",
         "query: environment variable that holds the key", 0, 0, &r.http_given},
        {"--timeout", ARGS_REAL, &r.timeout, "S",
         "query: seconds one attempt may take (30)", 0.001, 86400, &r.http_given},
        {"--analyzer", ARGS_STRING, &r.analyzer, "NAME",
         "index: english (stems, stop words; default) or plain", 0, 0, &r.analyzer_given},
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
        code = args_wrong(&a, "which command: index or query?");
    for (size_t i = 0; code < 0 && i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(rest[0], commands[i].name) == 0)
            code = commands[i].run(&a, &r, rest + 1, n - 1);
    }
    if (code < 0)
        code = args_wrong(&a, "there is no command '%s'; there are index and query",
                          rest[0]);
    free((void *)rest);
    return code;
}
