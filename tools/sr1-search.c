/* sr1-search - index a corpus for BM25 or by vectors, ask it or a service, serve it over
 * HTTP. */
#include "sr1_search/commands.h"

#include "common/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "sr1-search - search engine for training and asking, in one file\n"
    "\n"
    "  sr1-search index CORPUS.jsonl INDEX      make a BM25 index of a corpus\n"
    "  sr1-search index --dense MODEL CORPUS.jsonl INDEX\n"
    "                                           make a dense index: each text as a "
    "vector of\n"
    "                                           an encoder (a Hugging Face folder: E5, "
    "BGE,\n"
    "                                           MiniLM, Contriever, DPR, ...)\n"
    "  sr1-search index --vectors FILE --dim N CORPUS.jsonl INDEX\n"
    "                                           the same from vectors made elsewhere: "
    "raw\n"
    "                                           fp32 rows, as Search-R1's emb_*.memmap\n"
    "  sr1-search index --factory KIND VECTORS INDEX\n"
    "                                           a FAISS index (IVF256,Flat, HNSW32, ...) "
    "of a\n"
    "                                           dense index's vectors, or of raw ones "
    "(--dim)\n"
    "  sr1-search query INDEX TEXT...           search it; the words of TEXT are one "
    "query\n"
    "  sr1-search query --remote URL TEXT...    ask a retrieval server (POST /retrieve)\n"
    "  sr1-search query --web PROVIDER TEXT...  ask a web search service: serper, "
    "serpapi,\n"
    "                                           brave, google, searxng, tavily\n"
    "  sr1-search query CORPUS.jsonl --faiss FILE --encoder MODEL TEXT...\n"
    "                                           search a FAISS index, as Search-R1's "
    "builder\n"
    "                                           writes it; serve the same way\n"
    "  sr1-search verify INDEX                  read all of it and compare its "
    "checksums\n"
    "  sr1-search serve INDEX                   answer POST /retrieve over HTTP, as "
    "Search-R1's\n"
    "                                           servers do, until Ctrl-C\n"
    "  sr1-search serve --web PROVIDER          the same with a web search service (or "
    "--remote\n"
    "                                           URL) behind it\n"
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
    "Vectors find what is meant, words what is said; both together find most:\n"
    "  sr1-search index --dense models/e5-base-v2 --dtype fp16 c.jsonl c.dense\n"
    "  sr1-search query c.dense which landmark is in france\n"
    "  sr1-search query c.idx --dense-index c.dense --reranker models/ms-marco-MiniLM "
    "\\\n"
    "                   which landmark is in france\n"
    "\n"
    "A web search service needs a key in the environment: SERPER_API_KEY, "
    "SERPAPI_API_KEY,\n"
    "BRAVE_API_KEY, GOOGLE_API_KEY (and --google-cx), TAVILY_API_KEY; searxng needs "
    "--web-url.\n"
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

int search_failed(sr1_status status)
{
    fprintf(stderr, "sr1-search: %s\n", sr1_last_error());
    return status == SR1_E_INVALID ? TOOL_USAGE : TOOL_FAILED;
}

/* ---- commands and their options ---- */

enum { INDEX = 1, VERIFY = 2, QUERY = 4, SERVE = 8 };

static const struct {
    const char *name;
    int bit;
    int (*run)(const struct args *a, const struct request *r, const char *const *rest,
               size_t n);
} commands[] = {
    {"index", INDEX, run_index},
    {"verify", VERIFY, run_verify},
    {"query", QUERY, run_query},
    {"serve", SERVE, run_serve},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static struct request request = {.top_k = 3,
                                 .analyzer = "english",
                                 .text_format = "plain",
                                 .memory = 512,
                                 .k1 = 0.9,
                                 .b = 0.4,
                                 .dense_weight = 1,
                                 .rrf_k = 60,
                                 .rerank_depth = 50,
                                 .batch = 256,
                                 .device = "cpu",
                                 .timeout = 30,
                                 .port = 8000};

/* X(commands, name, kind, field, value, help, min, max) */
#define OPTIONS(X)                                                                       \
    X(QUERY | SERVE, "--top-k", ARGS_INT, top_k, "N",                                    \
      "query, serve: hits of a query (3)", 1, SR1_SEARCH_TOP_K_MAX)                      \
    X(QUERY, "--json", ARGS_FLAG, json, NULL,                                            \
      "query: one JSON object a hit, with full text", 0, 0)                              \
    X(QUERY | SERVE, "--k1", ARGS_REAL, k1, "X", "query, serve: BM25's k1 (0.9)", 0,     \
      1000)                                                                              \
    X(QUERY | SERVE, "--b", ARGS_REAL, b, "X",                                           \
      "query, serve: BM25's b, from 0 to 1 (0.4)", 0, 1)                                 \
    X(QUERY | SERVE, "--dense-index", ARGS_STRING, dense_index, "FILE",                  \
      "query, serve: ask this index too, and fuse the ranks", 0, 0)                      \
    X(QUERY | SERVE, "--dense-weight", ARGS_REAL, dense_weight, "X",                     \
      "query, serve: weight of that index's ranks, the other's have 1 (1)", 0, 1000000)  \
    X(QUERY | SERVE, "--faiss", ARGS_STRING, faiss, "FILE",                              \
      "query, serve: search this FAISS index; INDEX or a corpus has its texts", 0, 0)    \
    X(QUERY | SERVE, "--nprobe", ARGS_INT, nprobe, "N",                                  \
      "query, serve --faiss: lists visited of an IVF index", 1, 1000000000)              \
    X(QUERY | SERVE, "--ef", ARGS_INT, ef, "N",                                          \
      "query, serve --faiss: candidates kept in a HNSW index", 1, 1048576)               \
    X(QUERY | SERVE, "--rrf-k", ARGS_REAL, rrf_k, "X",                                   \
      "query, serve: a rank r is worth 1 / (X + r) then (60)", 0, 1000000)               \
    X(QUERY | SERVE, "--reranker", ARGS_STRING, reranker, "MODEL",                       \
      "query, serve: a cross-encoder that orders the hits", 0, 0)                        \
    X(QUERY | SERVE, "--rerank-depth", ARGS_INT, rerank_depth, "N",                      \
      "query, serve: hits it reads for a query (50)", 1, SR1_SEARCH_TOP_K_MAX)           \
    X(INDEX | QUERY | SERVE, "--encoder", ARGS_STRING, encoder, "MODEL",                 \
      "query, serve: the model for queries; index --vectors: whose they are", 0, 0)      \
    X(INDEX | QUERY | SERVE, "--device", ARGS_STRING, device, "NAME",                    \
      "where models run and vectors are searched: cpu (default), cuda or auto", 0, 0)    \
    X(QUERY | SERVE, "--index-device", ARGS_STRING, index_device, "NAME",                \
      "query, serve: where vectors are searched, if elsewhere", 0, 0)                    \
    X(QUERY | SERVE, "--remote", ARGS_STRING, remote, "URL",                             \
      "query, serve: ask the retrieval server there", 0, 0)                              \
    X(QUERY | SERVE, "--web", ARGS_STRING, web, "PROVIDER",                              \
      "query, serve: ask this web search service", 0, 0)                                 \
    X(QUERY | SERVE, "--web-url", ARGS_STRING, web_url, "URL",                           \
      "query, serve: address to ask in place of the provider's own", 0, 0)               \
    X(QUERY | SERVE, "--google-cx", ARGS_STRING, google_cx, "ID",                        \
      "query, serve: Google's search engine id", 0, 0)                                   \
    X(QUERY | SERVE, "--key-env", ARGS_STRING, key_env, "NAME",                          \
      "query, serve: environment variable that holds the service's key", 0, 0)           \
    X(QUERY | SERVE, "--timeout", ARGS_REAL, timeout, "S",                               \
      "query, serve: seconds one attempt at a service may take (30)", 0.001, 86400)      \
    X(INDEX, "--dense", ARGS_STRING, dense, "MODEL",                                     \
      "index: vectors, by this encoder, in place of BM25", 0, 0)                         \
    X(INDEX, "--vectors", ARGS_STRING, vectors, "FILE",                                  \
      "index: vectors from this file, in the order of the corpus", 0, 0)                 \
    X(INDEX, "--dim", ARGS_INT, dim, "N",                                                \
      "index --vectors, --factory: numbers of one vector", 1, SR1_EMBED_DIM_MAX)         \
    X(INDEX, "--dtype", ARGS_STRING, dtype, "NAME",                                      \
      "index: keep vectors as fp32 (default), fp16 or int8", 0, 0)                       \
    X(INDEX, "--batch", ARGS_INT, batch, "N",                                            \
      "index --dense: texts embedded at a time (256)", 1, 65536)                         \
    X(INDEX, "--factory", ARGS_STRING, factory, "KIND",                                  \
      "index: a FAISS index of this kind, from vectors", 0, 0)                           \
    X(INDEX, "--metric", ARGS_STRING, metric, "NAME",                                    \
      "index --factory: inner_product (default) or l2", 0, 0)                            \
    X(INDEX, "--analyzer", ARGS_STRING, analyzer, "NAME",                                \
      "index: english (stems, stop words; default), plain or cjk", 0, 0)                 \
    X(INDEX, "--text-format", ARGS_STRING, text_format, "NAME",                          \
      "index: contents are plain (default), html, markdown, or auto", 0, 0)              \
    X(INDEX, "--memory", ARGS_INT, memory, "MIB",                                        \
      "index: for postings, before they go to disk (512)", 1, 3072)                      \
    X(SERVE, "--host", ARGS_STRING, host, "ADDRESS",                                     \
      "serve: address to listen on (127.0.0.1)", 0, 0)                                   \
    X(SERVE, "--port", ARGS_INT, port, "N",                                              \
      "serve: port, 0 for any that is free (8000)", 0, 65535)                            \
    X(INDEX | SERVE, "--threads", ARGS_INT, threads, "N",                                \
      "index, serve: threads, 0 for one a processor (0)", 0, 1024)                       \
    X(SERVE, "--token-env", ARGS_STRING, token_env, "NAME",                              \
      "serve: environment variable with the token that clients send", 0, 0)              \
    X(INDEX, "--quiet", ARGS_FLAG, quiet, NULL, "index: print errors only", 0, 0)

#define OPTION_COMMANDS(bits, ...) bits,
static const int belongs[] = {OPTIONS(OPTION_COMMANDS)};
#define N_OPTIONS (sizeof(belongs) / sizeof(belongs[0]))

/* Names of the commands in bits, with `between` between them. */
static const char *names_of(int bits, const char *between)
{
    static char text[64];

    text[0] = '\0';
    for (size_t i = 0; i < COMMANDS; i++)
        if (commands[i].bit & bits)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
                     text[0] ? between : "", commands[i].name);
    return text;
}

/* -1 when all options given belong to the command. */
static int check_options(const struct args *a, const int *given, int bit)
{
    for (size_t i = 0; i < N_OPTIONS; i++)
        if (given[i] && !(belongs[i] & bit))
            return args_wrong(a, "%s belongs to '%s'", a->options[i].name,
                              names_of(belongs[i], "' and '"));
    return -1;
}

static int run_command(const struct args *a, const int *given, const char *const *rest,
                       size_t n)
{
    int code;

    if (n == 0)
        return args_wrong(a, "which command: %s?", names_of(~0, ", "));
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(rest[0], commands[i].name) != 0)
            continue;
        code = check_options(a, given, commands[i].bit);
        return code < 0 ? commands[i].run(a, &request, rest + 1, n - 1) : code;
    }
    return args_wrong(a, "there is no command '%s'; there are %s", rest[0],
                      names_of(~0, ", "));
}

#define OPTION_ROW(bits, name, kind, field, value, text, min, max)                       \
    {name, kind, &request.field, value, text, min, max, NULL},

int main(int argc, char **argv)
{
    int given[N_OPTIONS] = {0};
    struct args_option options[N_OPTIONS] = {OPTIONS(OPTION_ROW)};
    size_t n = 0;
    const struct args a = {"sr1-search", help, options, N_OPTIONS};
    const char **rest = malloc((size_t)(argc + 1) * sizeof(*rest));
    int code;

    if (rest == NULL)
        return TOOL_FAILED;
    request.argv = argv;
    for (size_t i = 0; i < N_OPTIONS; i++)
        options[i].given = &given[i];
    progress_warnings();
    code = args_read(&a, argc, argv, rest, (size_t)argc, &n);
    if (code < 0)
        code = run_command(&a, given, rest, n);
    free((void *)rest);
    return code;
}
