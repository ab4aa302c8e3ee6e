/* sr1_search/commands.h - what the commands of sr1-search share. */
#ifndef SR1_TOOLS_SR1_SEARCH_COMMANDS_H
#define SR1_TOOLS_SR1_SEARCH_COMMANDS_H

#include "common/args.h"

#include <searchr1/search.h>

/* What the options say. */
struct request {
    /* index */
    const char *analyzer;
    const char *text_format;
    int64_t memory; /* MiB */
    int quiet;
    /* engines */
    double k1;
    double b;
    int64_t top_k;
    /* query */
    const char *remote;
    const char *web;
    const char *web_url;
    const char *google_cx;
    const char *key_env;
    double timeout;
    int json;
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

/* Explain a failing call of the library; returns the exit code. */
int search_failed(sr1_status status);
/* Open an index with k1 and b of the request. */
sr1_status open_index(sr1_search **out, const struct request *r, const char *path);

#endif
