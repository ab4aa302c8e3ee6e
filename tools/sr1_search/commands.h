/* sr1_search/commands.h - what the commands of sr1-search share. */
#ifndef SR1_TOOLS_SR1_SEARCH_COMMANDS_H
#define SR1_TOOLS_SR1_SEARCH_COMMANDS_H

#include "common/args.h"

#include <searchr1/config.h>
#include <searchr1/ext/embed.h>
#include <searchr1/search.h>

/* What the options say. */
struct request {
    /* index */
    const char *analyzer;
    const char *text_format;
    int64_t memory; /* MiB */
    int quiet;
    int force;           /* replace what is there */
    const char *dense;   /* an encoder's folder */
    const char *vectors; /* a file of them */
    const char *dtype;
    int64_t dim;
    int64_t batch;
    const char *factory; /* FAISS's description of an index */
    const char *metric;
    /* engines */
    double k1;
    double b;
    int64_t top_k;
    const char *dense_index;
    double dense_weight; /* of its ranks, the other's have 1 */
    const char *faiss;   /* index file */
    int64_t nprobe;
    int64_t ef;
    double rrf_k;
    const char *reranker;
    int64_t rerank_depth;
    /* models */
    const char *encoder;
    const char *device;
    const char *index_device; /* NULL: the same */
    char **argv;              /* of the program */
    int other_weights;
    /* query */
    const char *remote;
    const char *opensearch;
    const char *qdrant;
    const char *web;
    const char *fields;
    const char *vector;
    const char *id_field;
    const char *web_url;
    const char *google_cx;
    const char *key_env;
    double timeout;
    int probe; /* ask a retrieval server once, to know that it is there */
    int json;
    /* query, serve, eval */
    const char *config;       /* a file */
    const sr1_config *loaded; /* the same with the words KEY=VALUE; NULL: none */
    /* eval */
    const char *qrels; /* a file */
    /* serve */
    const char *host;
    const char *token_env;
    int64_t port;
    /* index, serve */
    int64_t threads;
};

/* A command: rest[n] are the words behind its name. Returns the exit code. */
int run_index(const struct args *a, const struct request *r, const char *const *rest,
              size_t n);
int run_verify(const struct args *a, const struct request *r, const char *const *rest,
               size_t n);
int run_query(const struct args *a, const struct request *r, const char *const *rest,
              size_t n);
int run_serve(const struct args *a, const struct request *r, const char *const *rest,
              size_t n);
int run_eval(const struct args *a, const struct request *r, const char *const *rest,
             size_t n);

/* Explain a failing call of the library; returns the exit code. */
int search_failed(sr1_status status);

/* `index` with --dense or --vectors; rest[2]. */
int run_index_dense(const struct args *a, const struct request *r,
                    const char *const *rest);

/* `index` with --factory; rest[2]. */
int run_index_faiss(const struct args *a, const struct request *r,
                    const char *const *rest);

/* ---- engines ---- */

/* By its first bytes. */
int is_dense(const char *path);
int is_bm25(const char *path);
int is_faiss(const char *path);
/* Whether an index is asked; else a service is. */
int has_index(const struct request *r);
/* The option that names the service (--remote, --opensearch, ...); NULL: an index is
 * asked. Its value: "URL". */
const char *service_option(const struct request *r);
const char *service_value(const struct request *r);
/* -1 when the options about engines go together, else the exit code. */
int check_engine_options(const struct args *a, const struct request *r);
/* Open the service of the request, or the index at path, of either kind, or its FAISS
 * index over the documents there; its dense index beside it, the reranker (may be NULL)
 * behind. */
sr1_status open_engine(sr1_search **out, const struct request *r, sr1_reranker *reranker,
                       const char *path);
sr1_status open_request_encoder(sr1_embedder **out, const struct request *r,
                                const char *folder);
/* NULL when the request names none. */
sr1_status open_reranker(sr1_reranker **out, const struct request *r);

/* ---- a configuration ---- */

/* Is the word KEY=VALUE? */
int is_pair(const char *word);
/* Words of rest [n] at its beginning that are KEY=VALUE; 0 without --config. */
size_t count_pairs(const struct request *r, const char *const *rest, size_t n);
/* Read --config, if it was given, and set pairs [n] in it; then r->loaded is it, and
 * r->top_k its own unless --top-k was given. Free *out with sr1_config_free. */
sr1_status load_request_config(sr1_config **out, struct request *r, const struct args *a,
                               const char *const *pairs, size_t n);
/* The engine of r->loaded. */
sr1_status open_config_engine(sr1_search **out, const struct request *r);

/* Before the first model: may start another program, or this one again. */
void before_models(char **argv);

#endif
