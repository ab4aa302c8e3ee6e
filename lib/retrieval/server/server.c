/* retrieval/server/server.c - options, opening, waiting and stopping. libmicrohttpd's
 * threads read requests and send answers; the batcher's threads search in between. */
#include "retrieval/server/server_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/struct.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTION_MEMORY (16 * 1024) /* headers and pieces of the body of one */
#define SETTLE_MS 20 /* without a request in flight for so long, the server is idle */

static const sr1_server_options defaults = {.struct_size = sizeof(defaults),
                                            .address = "127.0.0.1",
                                            .top_k = 3,
                                            .max_top_k = 100,
                                            .max_queries = 8192,
                                            .max_connections = 1024,
                                            .idle_seconds = 60,
                                            .body_seconds = 60,
                                            .stop_seconds = 10,
                                            .batch_queries = 64,
                                            .max_body = (int64_t)16 << 20,
                                            .max_answer = (int64_t)256 << 20};

void sr1_server_options_init(sr1_server_options *options)
{
    sr1__struct_init(options, &defaults, sizeof(defaults));
}

/* ---- options ---- */

struct option_bound {
    const char *name;
    int64_t value;
    int64_t min;
    int64_t max;
};

static sr1_status check_server_bounds(const sr1_server_options *o)
{
    const struct option_bound bounds[] = {
        {"port", o->port, 0, 65535},
        {"max_top_k", o->max_top_k, 1, SR1_SEARCH_TOP_K_MAX},
        {"top_k", o->top_k, 1, o->max_top_k},
        {"max_queries", o->max_queries, 1, 1 << 20},
        {"threads", o->threads, 0, 1024},
        {"max_connections", o->max_connections, 1, 1 << 16},
        {"idle_seconds", o->idle_seconds, 1, 86400},
        {"body_seconds", o->body_seconds, 1, 86400},
        {"stop_seconds", o->stop_seconds, 0, 86400},
        {"batch_queries", o->batch_queries, 1, 1 << 16},
        {"batch_wait_us", o->batch_wait_us, 0, 1000000},
        {"max_body", o->max_body, 2, (int64_t)1 << 30},
        {"max_answer", o->max_answer, 2, (int64_t)1 << 30}};

    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        const struct option_bound *b = &bounds[i];

        if (b->value < b->min || b->value > b->max)
            return sr1__fail(SR1_E_INVALID, "server: %s %lld is not in %lld..%lld",
                             b->name, (long long)b->value, (long long)b->min,
                             (long long)b->max);
    }
    return SR1_OK;
}

static sr1_status read_server_options(sr1_server_options *o,
                                      const sr1_server_options *given)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    *o = defaults;
    SR1__TRY(sr1__struct_take(o, sizeof(*o), given,
                              SR1__STRUCT_END(sr1_server_options, address),
                              "server options"));
    if (o->address == NULL)
        o->address = defaults.address;
    SR1__TRY(check_server_bounds(o));
    if (o->threads == 0)
        o->threads = processors > 0 && processors < 1024 ? (int32_t)processors : 1;
    return SR1_OK;
}

static sr1_status read_server_token(const char *name, char **out)
{
    const char *token;

    if (name == NULL)
        return SR1_OK;
    token = getenv(name);
    if (token == NULL || token[0] == '\0')
        return sr1__fail(SR1_E_INVALID,
                         "server: the environment variable '%.100s' is not set; it has "
                         "to hold the token that clients send",
                         name);
    for (const char *p = token; *p != '\0'; p++) {
        if (*p <= ' ' || *p > '~')
            return sr1__fail(SR1_E_INVALID,
                             "server: the token in '%.100s' has characters other than "
                             "visible ASCII",
                             name);
    }
    *out = sr1__strdup(token);
    return *out != NULL ? SR1_OK : sr1__fail_nomem("server token");
}

/* ---- opening ---- */

static sr1_status start_daemon(struct sr1_server *sv)
{
    /* Not epoll: libmicrohttpd 0.9.75 watches edges there, and misses the end of a
     * connection that comes together with its last bytes until the time-out. */
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME;
    unsigned threads = (unsigned)(sv->o.threads < 4 ? sv->o.threads : 4);
    struct MHD_OptionItem pool[] = {
        {MHD_OPTION_THREAD_POOL_SIZE, (intptr_t)threads, NULL},
        {MHD_OPTION_END, 0, NULL}};

    if (threads < 2) /* libmicrohttpd has no pool of one */
        pool[0].option = MHD_OPTION_END;
    if (threads > (unsigned)sv->o.max_connections)
        pool[0].value = sv->o.max_connections;
    sv->daemon = MHD_start_daemon(
        flags, (uint16_t)sv->listener.port, NULL, NULL, sr1__http_handle, sv,
        MHD_OPTION_LISTEN_SOCKET, sv->listener.fd, MHD_OPTION_NOTIFY_COMPLETED,
        sr1__http_completed, sv, MHD_OPTION_NOTIFY_CONNECTION, sr1__http_connection, sv,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)sv->o.max_connections,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)sv->o.idle_seconds, MHD_OPTION_ARRAY,
        pool, MHD_OPTION_END);
    if (sv->daemon == NULL)
        return sr1__fail(SR1_E_IO, "server: the HTTP server did not start (threads, "
                                   "files or memory of this process are used up)");
    sv->listener.fd = -1; /* the daemon's now */
    return SR1_OK;
}

static sr1_status open_server_parts(struct sr1_server *sv)
{
    struct sr1__batcher_options batch = {sv->engine,          &sv->metrics,
                                         sv->o.threads,       sv->o.batch_queries,
                                         sv->o.batch_wait_us, (size_t)sv->o.max_answer};

    SR1__TRY(read_server_token(sv->o.token_env, &sv->token));
    SR1__TRY(sr1__listen(&sv->listener, sv->o.address, sv->o.port, sv->token != NULL));
    sv->o.address = NULL; /* the caller's */
    sv->o.token_env = NULL;
    sv->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (sv->wake < 0)
        return sr1__fail_errno("make", "an eventfd");
    SR1__TRY(sr1__batcher_open(&sv->batcher, &batch));
    SR1__TRY(sr1__deadlines_open(&sv->deadlines));
    return start_daemon(sv);
}

sr1_status sr1_server_open(sr1_server **out, sr1_search *engine,
                           const sr1_server_options *options)
{
    sr1_server_options o;
    struct sr1_server *sv;
    sr1_status status;

    if (out == NULL || engine == NULL)
        return sr1__fail(SR1_E_INVALID, "server: out or engine is NULL");
    SR1__TRY(read_server_options(&o, options));
    sv = sr1__calloc(1, sizeof(*sv));
    if (sv == NULL)
        return sr1__fail_nomem("server");
    sv->engine = sr1_search_retain(engine);
    sv->o = o;
    sv->limits = (struct sr1__wire_limits){o.top_k, o.max_top_k, o.max_queries};
    sr1_reranker_retain(o.reranker);
    sv->scorer =
        o.reranker != NULL ? sr1__pair_scorer_model(o.reranker) : sr1__pair_scorer_bm25;
    sv->listener.fd = -1;
    sv->wake = -1;
    status = open_server_parts(sv);
    if (status != SR1_OK) {
        sr1_server_free(sv);
        return status;
    }
    *out = sv;
    return SR1_OK;
}

int32_t sr1_server_port(const sr1_server *server)
{
    return server != NULL ? server->listener.port : 0;
}

const char *sr1_server_url(const sr1_server *server)
{
    return server != NULL ? server->listener.url : "";
}

/* ---- stopping ---- */

/* Connections that the system has accepted but the daemon has not. */
static void take_last_connections(struct sr1_server *sv, int listener)
{
    for (;;) {
        struct sockaddr_storage from;
        socklen_t size = sizeof(from);
        int fd = accept4(listener, (struct sockaddr *)&from, &size,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
            continue;
        if (fd < 0)
            return;
        if (MHD_add_connection(sv->daemon, fd, (struct sockaddr *)&from, size) != MHD_YES)
            return; /* it has closed fd */
    }
}

/* 1: nothing was under way for SETTLE_MS; 0: something is, and the time is up. */
static int wait_until_idle(struct sr1_server *sv)
{
    const struct timespec ms = {0, 1000000};
    double until = sr1__now() + sv->o.stop_seconds;
    int quiet = 0;

    while (quiet < SETTLE_MS) {
        nanosleep(&ms, NULL);
        if (atomic_load(&sv->metrics.in_flight) == 0)
            quiet++;
        else if (sr1__now() < until)
            quiet = 0;
        else
            return 0;
    }
    return 1;
}

static sr1_status finish_server(struct sr1_server *sv)
{
    int listener;
    int quiet;

    if (sv->daemon == NULL)
        return SR1_OK;
    listener = MHD_quiesce_daemon(sv->daemon);
    if (listener >= 0) {
        take_last_connections(sv, listener);
        shutdown(listener, SHUT_RDWR);
    }
    quiet = wait_until_idle(sv);
    sr1__batcher_close(sv->batcher);
    MHD_stop_daemon(sv->daemon);
    sv->daemon = NULL;
    if (listener >= 0)
        close(listener); /* the daemon's threads knew it */
    if (!quiet)
        return sr1__fail(SR1_E_TIMEOUT,
                         "server: clients that did not read their answers within %d "
                         "seconds were cut off",
                         (int)sv->o.stop_seconds);
    return SR1_OK;
}

void sr1_server_stop(sr1_server *server)
{
    int number = errno;
    const uint64_t one = 1;

    if (server == NULL)
        return;
    if (write(server->wake, &one, sizeof(one)) < 0) {
        /* full: it is readable already */
    }
    atomic_store(&server->stopping, 1); /* from here on another thread may free it */
    errno = number;
}

/* A worker thread cannot stop the server and wait: it would wait for its own job. */
static sr1_status check_thread(const sr1_server *server)
{
    return sr1__batcher_is_here(server->batcher)
               ? sr1__fail(SR1_E_STATE,
                           "server: a search of this server cannot wait for its end; "
                           "call sr1_server_stop there, and sr1_server_run or "
                           "sr1_server_free on another thread")
               : SR1_OK;
}

sr1_status sr1_server_run(sr1_server *server)
{
    struct pollfd p;

    if (server == NULL)
        return sr1__fail(SR1_E_INVALID, "server: NULL");
    SR1__TRY(check_thread(server));
    p = (struct pollfd){.fd = server->wake, .events = POLLIN};
    while (!atomic_load(&server->stopping))
        poll(&p, 1, -1);
    return finish_server(server);
}

void sr1_server_free(sr1_server *server)
{
    if (server == NULL)
        return;
    if (check_thread(server) != SR1_OK) {
        sr1_server_stop(server);
        return;
    }
    atomic_store(&server->stopping, 1);
    (void)finish_server(server);
    sr1__batcher_free(server->batcher);
    sr1__deadlines_close(server->deadlines);
    if (server->listener.fd >= 0)
        close(server->listener.fd);
    if (server->wake >= 0)
        close(server->wake);
    sr1_search_free(server->engine);
    sr1_reranker_free(server->o.reranker);
    sr1__free(server->token);
    sr1__free(server);
}

/* ---- counts ---- */

static int64_t sum_histogram(const struct sr1__histogram *h)
{
    int64_t n = 0;

    for (size_t i = 0; i <= SR1__METRICS_BOUNDS; i++)
        n += atomic_load(&h->counts[i]);
    return n;
}

sr1_status sr1_server_stats_get(const sr1_server *server, sr1_server_stats *out)
{
    sr1_server_stats s = {sizeof(s)};
    const struct sr1__server_metrics *m;

    if (server == NULL)
        return sr1__fail(SR1_E_INVALID, "server: NULL");
    m = &server->metrics;
    s.answered = atomic_load(&m->answered);
    s.dropped = atomic_load(&m->dropped);
    s.in_flight = atomic_load(&m->in_flight);
    s.accepted = atomic_load(&m->accepted);
    s.refused = atomic_load(&m->refused);
    s.failed = atomic_load(&m->failed);
    s.batches = sum_histogram(&m->batches);
    s.queries = atomic_load(&m->batches.sum);
    s.waiting = atomic_load(&m->waiting);
    s.connections = atomic_load(&m->connections);
    return sr1__struct_give(out, &s, sizeof(s), "server stats");
}
