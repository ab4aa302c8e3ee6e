/* searchr1/ext/server.h - serve a search engine over HTTP, as Search-R1's retrieval
 * servers do, for trainers that ask over the network (Search-R1, SkyRL, verl, TRL).
 *
 *     sr1_server *server = NULL;
 *     sr1_server_options o;
 *
 *     sr1_server_options_init(&o);
 *     o.port = 8000;
 *     if (sr1_server_open(&server, engine, &o) == SR1_OK)
 *         sr1_server_run(server);    (until sr1_server_stop)
 *     sr1_server_free(server);
 *
 * POST /retrieve takes {"queries": [text, ...], "topk": n, "return_scores": bool} or
 * {"query": text, ...} and answers {"result": [[row, ...], ...]}, with scores
 * {"result": [[{"document": row, "score": s}, ...], ...]}; a row is the document's stored
 * JSON. The clients of rLLM and FlashRAG are answered in their dialects (docs/search.md:
 * POST /search, /batch_search). POST /rerank orders documents that the request brings.
 * GET /health, GET /metrics. An engine that fails gives 503 or 504, never an empty
 * result.
 *
 * Ownership: a server takes its own reference to the engine.
 * Errors:    a status other than SR1_OK leaves outputs as they were.
 * Threads:   a server answers on threads of its own from sr1_server_open on. stop,
 *            stats_get, port and url may be called from any thread.
 *
 * An extension: usable and tested, but its names may still change before 1.0
 * (docs/api.md). */
#ifndef SEARCHR1_EXT_SERVER_H
#define SEARCHR1_EXT_SERVER_H

#include <searchr1/base.h>
#include <searchr1/ext/embed.h>
#include <searchr1/search.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sr1_server sr1_server;

typedef struct sr1_server_options {
    size_t struct_size;    /* set by sr1_server_options_init */
    const char *address;   /* to listen on; default "127.0.0.1". Others than the machine's
                              own need a token */
    const char *token_env; /* environment variable with a token that clients must send
                              ("Authorization: Bearer TOKEN"); NULL, the default: none */
    int32_t port;          /* 0, the default: any that is free */
    int32_t top_k;         /* hits where a request asks for none; default 3 */
    int32_t max_top_k;     /* of one request; default 100 */
    int32_t max_queries;   /* of one request; default 8192 */
    int32_t threads;       /* that search; 0, the default: one a processor */
    int32_t max_connections; /* further ones wait; default 1024 */
    int32_t idle_seconds;    /* a connection that is silent for so long is closed; 60 */
    int32_t body_seconds;    /* a request has to arrive within this; default 60 */
    int32_t stop_seconds;    /* stopping waits so long for clients that do not read; 10 */
    int32_t batch_queries;   /* most queries of one call of the engine; default 64 */
    int32_t batch_wait_us;   /* microseconds that a call waits for more queries; default
                                0: waiting queries gather while the engine is busy */
    int64_t max_body;        /* bytes of one request; default 16 MiB */
    int64_t max_answer;      /* bytes of its answer; default 256 MiB */
    sr1_reranker *reranker;  /* scores what POST /rerank brings; retained; NULL, the
                                default: BM25 over those documents */
} sr1_server_options;

/* Set struct_size, and every other field to its default. NULL is fine. */
SR1_API void sr1_server_options_init(sr1_server_options *options);

/* Listen on options->address and answer requests by an engine, which is retained. options
 * may be NULL. SR1_E_INVALID: an option is out of range, the address can be reached from
 * other machines and no token is set, or token_env is not set. SR1_E_IO: the address
 * cannot be listened on. Caller frees with sr1_server_free. */
SR1_API sr1_status sr1_server_open(sr1_server **out, sr1_search *engine,
                                   const sr1_server_options *options);

/* Return the port that the server listens on; 0 for NULL. */
SR1_API int32_t sr1_server_port(const sr1_server *server);

/* Return the server's URL, such as "http://127.0.0.1:8000". Borrowed until the server is
 * freed. */
SR1_API const char *sr1_server_url(const sr1_server *server);

/* Wait for sr1_server_stop, then accept no more connections, answer every accepted
 * request, and close. One thread at a time. Searches under way are always waited for.
 * SR1_E_TIMEOUT: a client did not read its answer within stop_seconds. */
SR1_API sr1_status sr1_server_run(sr1_server *server);

/* Make sr1_server_run return. May be called from any thread and from a signal handler.
 * NULL is fine. */
SR1_API void sr1_server_stop(sr1_server *server);

/* Counts since the server was opened. accepted = answered + dropped + in_flight, once
 * nothing changes. */
typedef struct sr1_server_stats {
    size_t struct_size;  /* set by the caller */
    int64_t accepted;    /* requests whose headers were read */
    int64_t answered;    /* of them: the answer was sent whole */
    int64_t dropped;     /* of them: the client went before that, or was too slow */
    int64_t in_flight;   /* of them: under way */
    int64_t refused;     /* of the answered: with a 4xx status */
    int64_t failed;      /* of the answered: with a 5xx status */
    int64_t batches;     /* calls of the engine */
    int64_t queries;     /* in them */
    int64_t waiting;     /* queries that no thread has taken yet */
    int64_t connections; /* open now */
} sr1_server_stats;

/* Fill *out (struct_size set) with the counts of the server. */
SR1_API sr1_status sr1_server_stats_get(const sr1_server *server, sr1_server_stats *out);

/* Stop the server as sr1_server_run does, if it still runs, and free it. NULL is fine.
 * When the server's own engine calls this in a search, the server is only stopped; free
 * it elsewhere. */
SR1_API void sr1_server_free(sr1_server *server);

#ifdef __cplusplus
}
#endif
#endif
