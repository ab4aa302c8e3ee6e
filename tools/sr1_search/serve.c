/* sr1_search/serve.c - `sr1-search serve`: one line when requests are answered, one when
 * the last has been. */
#include "sr1_search/commands.h"

#include "common/stop.h"

#include <searchr1/ext/bm25.h>
#include <searchr1/ext/dense.h>
#include <searchr1/ext/server.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

static sr1_server *volatile running;
static volatile sig_atomic_t stopped_by;

static void stop_running_server(int number)
{
    if (stopped_by == 0)
        stopped_by = number;
    sr1_server_stop(running);
}

static void print_serving(sr1_search *engine, const char *path)
{
    sr1_bm25_info info = {sizeof(info)};
    sr1_dense_info dense = {sizeof(dense)};

    printf("serving %s", path);
    if (sr1_bm25_info_get(engine, &info) == SR1_OK)
        printf(" (%llu document%s)", (unsigned long long)info.documents,
               plural_ending((int64_t)info.documents, "s"));
    else if (sr1_dense_info_get(engine, &dense) == SR1_OK)
        printf(" (%llu documents, vectors of %.1f MB%s%s)",
               (unsigned long long)dense.documents, 1e-6 * (double)dense.search_bytes,
               strcmp(dense.device, "cpu") != 0 ? " on " : "",
               strcmp(dense.device, "cpu") != 0 ? dense.device : "");
    printf(" at %s/retrieve; Ctrl-C stops\n", sr1_server_url(running));
    fflush(stdout);
}

static void print_served_counts(void)
{
    sr1_server_stats s = {sizeof(s)};

    if (sr1_server_stats_get(running, &s) == SR1_OK)
        printf(
            "stopped: %lld requests answered (%lld refused, %lld failed), %lld dropped "
            "by their clients\n",
            (long long)s.answered, (long long)s.refused, (long long)s.failed,
            (long long)s.dropped);
    fflush(stdout);
}

static int serve_engine(sr1_search *engine, const char *path,
                        const sr1_server_options *options)
{
    sr1_server *server = NULL;
    sr1_status status = sr1_server_open(&server, engine, options);
    int code;

    if (status == SR1_OK) {
        running = server;
        stop_catch(stop_running_server, 1);
        print_serving(engine, path);
        status = sr1_server_run(running);
        print_served_counts();
    }
    code = status != SR1_OK       ? search_failed(status)
           : stopped_by == SIGINT ? TOOL_INTERRUPTED
                                  : TOOL_OK;
    running = NULL; /* a signal from here on stops nothing */
    sr1_server_free(server);
    return code;
}

/* Open what the request names, and serve it. */
static int serve_request(const struct request *r, const char *index)
{
    sr1_search *engine = NULL;
    sr1_reranker *reranker = NULL;
    sr1_server_options o;
    sr1_status status = open_reranker(&reranker, r);
    int code;

    if (status == SR1_OK)
        status = open_engine(&engine, r, reranker, index);
    if (status != SR1_OK) {
        sr1_reranker_free(reranker);
        return tool_refused("sr1-search", status);
    }
    sr1_server_options_init(&o);
    o.reranker = reranker;
    o.address = r->host;
    o.token_env = r->token_env;
    o.port = (int32_t)r->port;
    o.threads = (int32_t)r->threads;
    o.top_k = (int32_t)r->top_k;
    o.max_top_k = o.top_k > o.max_top_k ? o.top_k : o.max_top_k;
    code = serve_engine(engine, index ? index : sr1_search_name(engine), &o);
    sr1_search_free(engine);
    sr1_reranker_free(reranker);
    return code;
}

int run_serve(const struct args *a, const struct request *r, const char *const *rest,
              size_t n)
{
    struct request asked = *r;
    size_t pairs = count_pairs(r, rest, n);
    sr1_config *config = NULL;
    sr1_status status;
    int code;

    asked.probe = 1;
    code = check_engine_options(a, r);
    if (code >= 0)
        return code;
    if (has_index(r) && n != 1)
        return args_wrong(a, "serve needs an index: sr1-search serve INDEX");
    if (!has_index(r) && n != pairs)
        return args_wrong(a, "serve: '%s' beside %s: give one of them", rest[pairs],
                          service_option(r));
    status = load_request_config(&config, &asked, a, rest, pairs);
    code = status == SR1_OK ? serve_request(&asked, has_index(r) ? rest[0] : NULL)
                            : tool_refused("sr1-search", status);
    sr1_config_free(config);
    return code;
}
