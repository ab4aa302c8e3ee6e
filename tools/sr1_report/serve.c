/* serve.c - see serve.h. libmicrohttpd serves two resources: "/", the page, and "/made",
 * when it was made, which the page asks for and reloads itself by. The page is made anew
 * when a file of a run has changed, at most once in two seconds, for whoever asks. */
#include "sr1_report/serve.h"

#include "common/args.h"
#include "common/stop.h"
#include "sr1_report/report.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS 16
#define IDLE_S 30
#define REST_S 2 /* between two pages */
#define FILES 4

/* What a page was made from. */
struct mark {
    long long size, seconds, nanoseconds;
};

struct page_server {
    const struct serve_options *o;
    int port;             /* as bound */
    pthread_mutex_t lock; /* of what follows */
    struct text page;
    time_t made;    /* its name: of two pages the later one has the greater */
    double made_at; /* on a clock that nobody sets */
    struct mark marks[REPORT_RUNS][FILES];
};

static void look_at_run(const char *folder, struct mark marks[FILES])
{
    static const char *const names[FILES] = {"metrics.jsonl", "trajectories.jsonl.zst",
                                             "validation-trajectories.jsonl.zst",
                                             "run.json"};

    for (size_t i = 0; i < FILES; i++) {
        char path[4200];
        struct stat st = {0};

        snprintf(path, sizeof(path), "%.4096s/%s", folder, names[i]);
        (void)stat(path, &st);
        marks[i] = (struct mark){(long long)st.st_size, (long long)st.st_mtim.tv_sec,
                                 (long long)st.st_mtim.tv_nsec};
    }
}

static double read_clock(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Make the page anew where a run has changed. 0, or an exit code. */
static int refresh_page(struct page_server *s)
{
    struct mark now[REPORT_RUNS][FILES];
    struct text page = {0};
    time_t at = time(NULL);
    double began = read_clock();
    int code;

    memset(now, 0, sizeof(now));
    for (size_t i = 0; i < s->o->n; i++)
        look_at_run(s->o->folders[i], now[i]);
    if (s->made &&
        (began < s->made_at + REST_S || memcmp(now, s->marks, sizeof(now)) == 0))
        return TOOL_OK;
    if (at <= s->made)
        at = s->made + 1;
    code = s->o->make(s->o->user, at, &page);
    if (code == TOOL_OK && page.failed)
        code = TOOL_FAILED;
    if (code != TOOL_OK) {
        text_free(&page);
        return code;
    }
    text_free(&s->page);
    s->page = page;
    s->made = at;
    s->made_at = began;
    memcpy(s->marks, now, sizeof(now));
    return TOOL_OK;
}

/* ---- answers ---- */

static enum MHD_Result send_answer(struct MHD_Connection *c, unsigned code,
                                   const char *type, const void *bytes, size_t n)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(n, (void *)(uintptr_t)bytes,
                                                             MHD_RESPMEM_MUST_COPY);
    enum MHD_Result done;

    if (!r)
        return MHD_NO;
    (void)MHD_add_response_header(r, "Content-Type", type);
    (void)MHD_add_response_header(r, "Cache-Control", "no-store");
    (void)MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    done = MHD_queue_response(c, code, r);
    MHD_destroy_response(r);
    return done;
}

static enum MHD_Result refuse_request(struct MHD_Connection *c, unsigned code,
                                      const char *text)
{
    return send_answer(c, code, "text/plain; charset=utf-8", text, strlen(text));
}

#define HTTP_PORT 80 /* which browsers leave out */

/* A name of another site that leads here (DNS rebinding) is none of ours; where others
 * may come, names are theirs to choose. */
static int is_our_name(const struct page_server *s, struct MHD_Connection *c)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host");
    char port[16];

    if (s->o->exposed)
        return 1;
    snprintf(port, sizeof(port), ":%d", s->port);
    for (size_t i = 0; host && i < sizeof(names) / sizeof(names[0]); i++) {
        size_t n = strlen(names[i]);

        if (strncmp(host, names[i], n) == 0 &&
            (strcmp(host + n, port) == 0 || (s->port == HTTP_PORT && !host[n])))
            return 1;
    }
    return 0;
}

/* Why a name is refused. A tunnel keeps the name and changes the port. */
static enum MHD_Result refuse_name(const struct page_server *s, struct MHD_Connection *c)
{
    char text[160];

    snprintf(text, sizeof(text),
             "this is not the name of this server, which is localhost:%d; a tunnel to it "
             "has to begin at the same port\n",
             s->port);
    return refuse_request(c, MHD_HTTP_FORBIDDEN, text);
}

static enum MHD_Result answer_page(struct page_server *s, struct MHD_Connection *c,
                                   int whole)
{
    enum MHD_Result done;
    char made[32];
    int code;

    pthread_mutex_lock(&s->lock);
    code = refresh_page(s);
    snprintf(made, sizeof(made), "%lld\n", (long long)s->made);
    if (code != TOOL_OK && !s->made)
        done = refuse_request(c, MHD_HTTP_INTERNAL_SERVER_ERROR,
                              "the page cannot be made\n");
    else if (whole)
        done = send_answer(c, MHD_HTTP_OK, "text/html; charset=utf-8", s->page.data,
                           s->page.len);
    else
        done = send_answer(c, MHD_HTTP_OK, "text/plain", made, strlen(made));
    pthread_mutex_unlock(&s->lock);
    return done;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version,
                                  const char *body, size_t *size, void **state)
{
    struct page_server *s = user;

    (void)version, (void)body, (void)size, (void)state;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return refuse_request(c, MHD_HTTP_METHOD_NOT_ALLOWED,
                              "this server shows a page\n");
    if (!is_our_name(s, c))
        return refuse_name(s, c);
    if (strcmp(url, "/") == 0)
        return answer_page(s, c, 1);
    if (strcmp(url, "/made") == 0)
        return answer_page(s, c, 0);
    return refuse_request(c, MHD_HTTP_NOT_FOUND, "there is / alone\n");
}

/* ---- the server ---- */

static void wait_for_stop(void)
{
    struct timespec t = {0, 100 * 1000 * 1000};

    while (!stop_asked())
        nanosleep(&t, NULL);
}

/* A server at one address of the host; NULL where there is none. */
static struct MHD_Daemon *start_at(struct page_server *s, const struct addrinfo *at)
{
    unsigned flags = MHD_USE_POLL_INTERNAL_THREAD; /* see retrieval/server/server.c */

    if (at->ai_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_SOCK_ADDR,
                            at->ai_addr, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS,
                            MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_END);
}

static struct MHD_Daemon *start_server(struct page_server *s)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    const union MHD_DaemonInfo *info;
    struct MHD_Daemon *daemon = NULL;
    struct addrinfo *list = NULL;
    char port[16];

    snprintf(port, sizeof(port), "%d", (int)s->o->port);
    if (getaddrinfo(s->o->host, port, &hints, &list) != 0)
        return NULL;
    for (struct addrinfo *at = list; at && !daemon; at = at->ai_next)
        daemon = start_at(s, at);
    freeaddrinfo(list);
    info = daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    s->port = info ? info->port : s->o->port;
    return daemon;
}

int serve_page(const struct serve_options *o)
{
    struct page_server s = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER};
    int is_v6 = strchr(o->host, ':') != NULL;
    struct MHD_Daemon *daemon;
    int code = refresh_page(&s); /* what is wrong with a run is said before */

    if (code != TOOL_OK)
        return code;
    stop_note();
    daemon = start_server(&s);
    if (!daemon) {
        fprintf(stderr,
                "sr1-report: cannot listen on port %d of %s; is it taken? --port 0 takes "
                "one that is free\n",
                (int)o->port, o->host);
        text_free(&s.page);
        return TOOL_FAILED;
    }
    printf("http://%s%s%s:%d shows the run%s; Ctrl-C ends it\n", is_v6 ? "[" : "",
           o->host, is_v6 ? "]" : "", s.port, plural_ending((int64_t)o->n, "s"));
    fflush(stdout);
    wait_for_stop();
    MHD_stop_daemon(daemon);
    text_free(&s.page);
    return stop_asked() == SIGINT ? TOOL_INTERRUPTED : TOOL_OK;
}
