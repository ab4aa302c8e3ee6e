/* sr1-search - index a corpus for BM25 or by vectors, ask it or a service, serve it over
 * HTTP. */
#include "sr1_search/commands.h"

#include "common/progress.h"

#include <searchr1/ext/embed.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "A corpus has one JSON object a line: {\"id\": \"1\", \"contents\": "
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
    "How good is it? Of BEIR's queries and judgements, or of questions with answers:\n"
    "  sr1-search eval c.idx queries.jsonl --qrels qrels/test.tsv --top-k 10\n"
    "  sr1-search eval c.idx nq.jsonl\n"
    "\n"
    "Exit codes: 0 done (also when nothing is found, or SIGTERM stopped a server), 1 "
    "failed,\n"
    "2 wrong usage, 130 after Ctrl-C, or when SIGTERM, SIGHUP or SIGUSR1 stopped an "
    "index.\n";

int search_failed(sr1_status status)
{
    fprintf(stderr, "sr1-search: %s\n", sr1_last_error());
    return status == SR1_E_INVALID || status == SR1_E_UNSUPPORTED ? TOOL_USAGE
           : status == SR1_E_CANCELLED                            ? TOOL_INTERRUPTED
                                                                  : TOOL_FAILED;
}

/* ---- commands and their options ---- */

static const struct args_command commands[] = {
    {"index",
     "sr1-search index CORPUS.jsonl INDEX\n"
     "sr1-search index --dense MODEL CORPUS.jsonl INDEX\n"
     "sr1-search index --vectors FILE --dim N CORPUS.jsonl INDEX\n"
     "sr1-search index --factory KIND VECTORS INDEX\n",
     "index   make an index of a corpus: BM25; with --dense a vector of each text by an "
     "encoder\n"
     "        (a Hugging Face folder: E5, BGE, MiniLM, Contriever, DPR, ...); with "
     "--vectors the\n"
     "        same from vectors made elsewhere (raw fp32 rows, as Search-R1's "
     "emb_*.memmap); with\n"
     "        --factory a FAISS index (IVF256,Flat, HNSW32, ...) of a dense index's "
     "vectors, or of\n"
     "        raw ones (--dim). An index of the same kind is replaced; anything else "
     "only with\n"
     "        --force\n"},
    {"query",
     "sr1-search query INDEX TEXT...\n"
     "sr1-search query --remote URL TEXT...\n"
     "sr1-search query --opensearch URL [--fields title,text] TEXT...\n"
     "sr1-search query --qdrant URL --encoder MODEL TEXT...\n"
     "sr1-search query --web PROVIDER TEXT...\n"
     "sr1-search query CORPUS.jsonl --faiss FILE --encoder MODEL TEXT...\n"
     "sr1-search query --config FILE [key=value ...] TEXT...\n",
     "query   search it; the words of TEXT are one query. --remote asks a retrieval "
     "server (POST\n"
     "        /retrieve), --opensearch an index of OpenSearch or Elasticsearch\n"
     "        (http://HOST:9200/INDEX), --qdrant a collection of Qdrant\n"
     "        (http://HOST:6333/collections/NAME), --web a web search service: serper, "
     "serpapi,\n"
     "        brave, google, searxng or tavily, with a key in the environment:\n"
     "        SERPER_API_KEY, SERPAPI_API_KEY, BRAVE_API_KEY, GOOGLE_API_KEY (and "
     "--google-cx),\n"
     "        TAVILY_API_KEY; searxng needs --web-url. --faiss searches a FAISS index, "
     "as\n"
     "        Search-R1's builder writes it.\n"
     "        --config asks the engine that a configuration names, as sr1-train does\n"},
    {"eval",
     "sr1-search eval INDEX QUESTIONS [--qrels FILE] [--top-k N] [key=value ...]\n"
     "sr1-search eval --remote URL | --config FILE | ... QUESTIONS\n",
     "eval    measure it on questions: recall, success, MRR and nDCG by judgements "
     "(--qrels, of\n"
     "        TREC's or BEIR's form, else the gold_ids of the rows), and the hit rate, "
     "the share\n"
     "        of questions with an answer in a passage. Engines are named as for query; "
     "keys such\n"
     "        as answer_field=... name columns of the questions\n"},
    {"verify", "sr1-search verify INDEX\n",
     "verify  read all of an index and compare its checksums\n"},
    {"serve",
     "sr1-search serve INDEX\n"
     "sr1-search serve --remote URL | --opensearch URL | --qdrant URL | --web PROVIDER\n"
     "sr1-search serve --config FILE [key=value ...]\n",
     "serve   answer over HTTP until Ctrl-C: POST /retrieve as the servers of Search-R1, "
     "verl,\n"
     "        SkyRL and rLLM do, /search and /batch_search as FlashRAG's does, /rerank "
     "by "
     "the\n"
     "        reranker (BM25 without --reranker), GET /health and /metrics (Prometheus). "
     "Engines\n"
     "        are named as for query. Other machines reach it only with --host 0.0.0.0 "
     "and\n"
     "        --token-env NAME; clients then send the value of that variable as "
     "'Authorization:\n"
     "        Bearer VALUE'\n"},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* In the order of the commands. */
static int (*const runs[COMMANDS])(const struct args *a, const struct request *r,
                                   const char *const *rest, size_t n) = {
    run_index, run_query, run_eval, run_verify, run_serve};

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

static const struct args_option options[] = {
    {"--top-k", ARGS_INT, &request.top_k, "N",
     "query, serve, eval: hits of a query (3; eval 10; --config: search_top_k)", 1,
     SR1_SEARCH_TOP_K_MAX},
    {"--config", ARGS_STRING, &request.config, "FILE",
     "query, serve, eval: ask the engine that this configuration names", 0, 0},
    {"--qrels", ARGS_STRING, &request.qrels, "FILE",
     "eval: which documents are relevant, in TREC's or BEIR's form", 0, 0},
    {"--json", ARGS_FLAG, &request.json, NULL,
     "query, eval: JSON; of query one object a hit, with full text", 0, 0},
    {"--k1", ARGS_REAL, &request.k1, "X", "query, serve, eval: BM25's k1 (0.9)", 0, 1000},
    {"--b", ARGS_REAL, &request.b, "X", "query, serve, eval: BM25's b, from 0 to 1 (0.4)",
     0, 1},
    {"--dense-index", ARGS_STRING, &request.dense_index, "FILE",
     "query, serve, eval: ask this index too, and fuse the ranks", 0, 0},
    {"--dense-weight", ARGS_REAL, &request.dense_weight, "X",
     "query, serve, eval: weight of that index's ranks, the other's have 1 (1)", 0,
     1000000},
    {"--faiss", ARGS_STRING, &request.faiss, "FILE",
     "query, serve, eval: search this FAISS index; INDEX or a corpus has its texts", 0,
     0},
    {"--nprobe", ARGS_INT, &request.nprobe, "N",
     "query, serve, eval --faiss: lists visited of an IVF index", 1, 1000000000},
    {"--ef", ARGS_INT, &request.ef, "N",
     "query, serve, eval --faiss: candidates kept in a HNSW index", 1, 1048576},
    {"--rrf-k", ARGS_REAL, &request.rrf_k, "X",
     "query, serve, eval: where ranks are fused, rank r is worth 1 / (X + r) (60)", 0,
     1000000},
    {"--reranker", ARGS_STRING, &request.reranker, "MODEL",
     "query, serve, eval: a cross-encoder that orders the hits", 0, 0},
    {"--rerank-depth", ARGS_INT, &request.rerank_depth, "N",
     "query, serve, eval: hits it reads for a query (50)", 1, SR1_SEARCH_TOP_K_MAX},
    {"--encoder", ARGS_STRING, &request.encoder, "MODEL",
     "query, serve, eval, index --vectors: the model that made the vectors", 0, 0},
    {"--device", ARGS_STRING, &request.device, "NAME",
     "index, query, serve, eval: where models run and vectors are searched: cpu "
     "(default), "
     "cuda, cuda:N or auto",
     0, 0},
    {"--index-device", ARGS_STRING, &request.index_device, "NAME",
     "query, serve, eval: where vectors are searched, if not on --device", 0, 0},
    {"--other-weights", ARGS_FLAG, &request.other_weights, NULL,
     "query, serve, eval: --encoder may have other weights than the index was made with",
     0, 0},
    {"--remote", ARGS_STRING, &request.remote, "URL",
     "query, serve, eval: ask the retrieval server there", 0, 0},
    {"--opensearch", ARGS_STRING, &request.opensearch, "URL",
     "query, serve, eval: ask this index of OpenSearch or Elasticsearch", 0, 0},
    {"--qdrant", ARGS_STRING, &request.qdrant, "URL",
     "query, serve, eval: ask this collection of Qdrant", 0, 0},
    {"--fields", ARGS_STRING, &request.fields, "NAMES",
     "query, serve, eval --opensearch, --qdrant: fields with the text, commas between "
     "(contents)",
     0, 0},
    {"--vector", ARGS_STRING, &request.vector, "NAME",
     "query, serve, eval --qdrant: which vector of the collection", 0, 0},
    {"--id-field", ARGS_STRING, &request.id_field, "NAME",
     "query, serve, eval --qdrant: field with the document's id", 0, 0},
    {"--web", ARGS_STRING, &request.web, "PROVIDER",
     "query, serve, eval: ask this web search service", 0, 0},
    {"--web-url", ARGS_STRING, &request.web_url, "URL",
     "query, serve, eval: address to ask in place of the provider's own", 0, 0},
    {"--google-cx", ARGS_STRING, &request.google_cx, "ID",
     "query, serve, eval: Google's search engine id", 0, 0},
    {"--key-env", ARGS_STRING, &request.key_env, "NAME",
     "query, serve, eval: name of the environment variable that holds the service's key",
     0, 0},
    {"--timeout", ARGS_REAL, &request.timeout, "S",
     "query, serve, eval: seconds one attempt at a service may take (30)", 0.001, 86400},
    {"--dense", ARGS_STRING, &request.dense, "MODEL",
     "index: vectors, by this encoder, in place of BM25", 0, 0},
    {"--vectors", ARGS_STRING, &request.vectors, "FILE",
     "index: vectors from this file, in the order of the corpus", 0, 0},
    {"--dim", ARGS_INT, &request.dim, "N",
     "index --vectors, --factory: numbers of one vector", 1, SR1_EMBED_DIM_MAX},
    {"--dtype", ARGS_STRING, &request.dtype, "NAME",
     "index: keep vectors as fp32 (default), fp16 or int8", 0, 0},
    {"--batch", ARGS_INT, &request.batch, "N",
     "index --dense: texts embedded at a time (256)", 1, 65536},
    {"--factory", ARGS_STRING, &request.factory, "KIND",
     "index: a FAISS index of this kind, from vectors", 0, 0},
    {"--metric", ARGS_STRING, &request.metric, "NAME",
     "index --factory: inner_product (default) or l2", 0, 0},
    {"--analyzer", ARGS_STRING, &request.analyzer, "NAME",
     "index: english (stems, stop words; default), plain or cjk", 0, 0},
    {"--text-format", ARGS_STRING, &request.text_format, "NAME",
     "index: contents are plain (default), html, markdown, or auto", 0, 0},
    {"--memory", ARGS_INT, &request.memory, "MIB",
     "index: for postings, before they go to disk (512)", 1, 3072},
    {"--host", ARGS_STRING, &request.host, "ADDRESS",
     "serve: address to listen on (127.0.0.1)", 0, 0},
    {"--port", ARGS_INT, &request.port, "N", "serve: port, 0 for any that is free (8000)",
     0, 65535},
    {"--threads", ARGS_INT, &request.threads, "N",
     "index, serve, eval: threads, 0 for one a processor (0)", 0, 1024},
    {"--token-env", ARGS_STRING, &request.token_env, "NAME",
     "serve: name of the environment variable that holds the token which clients send", 0,
     0},
    {"--quiet", ARGS_FLAG, &request.quiet, NULL, "index: print errors only", 0, 0},
    {"--force", ARGS_FLAG, &request.force, NULL,
     "index: replace a file that is no index of this kind", 0, 0},
};
#define N_OPTIONS (sizeof(options) / sizeof(options[0]))

/* Names of the commands, with commas between them. */
static const char *list_commands(void)
{
    static char text[80];

    text[0] = '\0';
    for (size_t i = 0; i < COMMANDS; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
                 text[0] ? ", " : "", commands[i].name);
    return text;
}

static int dispatch_command(const struct args *a, const char *const *rest, size_t n)
{
    int code;

    if (n == 0)
        return args_wrong(a, "which command: %s?", list_commands());
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(rest[0], commands[i].name) != 0)
            continue;
        code = args_check_command(a, rest[0]);
        return code < 0 ? runs[i](a, &request, rest + 1, n - 1) : code;
    }
    return args_wrong(a, "there is no command '%s'; there are %s", rest[0],
                      list_commands());
}

int main(int argc, char **argv)
{
    int given[N_OPTIONS] = {0};
    const struct args a = {"sr1-search", help,     options, N_OPTIONS,
                           commands,     COMMANDS, given};
    const char **rest = malloc((size_t)(argc + 1) * sizeof(*rest));
    size_t n = 0;
    int code;

    if (rest == NULL)
        return TOOL_FAILED;
    request.argv = argv;
    progress_warnings();
    code = args_read(&a, argc, argv, rest, (size_t)argc, &n);
    if (code < 0)
        code = tool_printed("sr1-search", dispatch_command(&a, rest, n));
    free((void *)rest);
    return code;
}
