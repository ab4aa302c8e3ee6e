/* support/http_server.h - an HTTP server on loopback that misbehaves as told.
 *
 *     static void answer(void *user, int nth, const char *request, struct reply *r)
 *     {
 *         r->code = 503;
 *     }
 *     server_start(&s, answer, NULL);  ... http://127.0.0.1:{s.port}/ ...
 *     server_stop(&s);
 *
 * A thread a connection; connections are kept open between requests. The handler is
 * called one at a time, and counts requests from 0. */
#ifndef SR1_TESTS_HTTP_SERVER_H
#define SR1_TESTS_HTTP_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SERVER_CONNECTIONS 256
#define SERVER_REQUEST_MAX (1 << 20)

struct reply {
    int code;            /* 200 */
    const char *headers; /* more of them, each with \r\n */
    const char *body;    /* "" */
    size_t body_len;     /* 0: of a text */
    size_t declared;     /* Content-Length, when it is not body_len */
    double delay_s;      /* before the first byte */
    double drip_s;       /* between the bytes of the body */
    size_t huge;         /* a body of so many 'x' in place of body */
    int drop;            /* close without a word */
    atomic_int *gate;    /* NULL, or what has to be `after` first; for a minute */
    int after;
    char made[4096]; /* room for a body of the handler's own */
};

typedef void reply_fn(void *user, int nth, const char *request, struct reply *r);

struct server {
    int fd;
    int port;
    char url[64]; /* http://127.0.0.1:port */
    reply_fn *handler;
    void *user;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_t threads[SERVER_CONNECTIONS];
    int fds[SERVER_CONNECTIONS];
    atomic_int connections;
    atomic_int requests;
    atomic_int active;
    atomic_int peak; /* most requests under way at once */
    int gather;      /* replies wait until peak is so high, or for a minute */
    atomic_int stopping;
    char last[8192]; /* the last request, head and body */
};

struct server_connection {
    struct server *s;
    int fd;
};

static inline void server_sleep(struct server *s, double seconds)
{
    for (double left = seconds; left > 0 && !atomic_load(&s->stopping); left -= 0.01) {
        struct timespec t = {0, (long)(1e9 * (left < 0.01 ? left : 0.01))};

        nanosleep(&t, NULL);
    }
}

static inline int server_send(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t k = send(fd, bytes, n, MSG_NOSIGNAL);

        if (k <= 0)
            return 0;
        bytes += k;
        n -= (size_t)k;
    }
    return 1;
}

static inline int server_send_body(struct server *s, int fd, const struct reply *r,
                                   size_t n)
{
    char xs[4096];

    memset(xs, 'x', sizeof xs);
    for (size_t left = r->huge; left > 0;) {
        size_t k = left < sizeof xs ? left : sizeof xs;

        if (!server_send(fd, xs, k))
            return 0;
        left -= k;
    }
    if (r->huge)
        return 1;
    if (r->drip_s <= 0)
        return server_send(fd, r->body, n);
    for (size_t i = 0; i < n; i++) {
        server_sleep(s, r->drip_s);
        if (!server_send(fd, r->body + i, 1))
            return 0;
    }
    return 1;
}

/* 1 when the connection can go on. */
static inline int server_reply(struct server *s, int fd, const struct reply *r)
{
    char head[2048];
    size_t n = r->body_len ? r->body_len : strlen(r->body);
    size_t length = r->declared ? r->declared : r->huge ? r->huge : n;
    int k;

    server_sleep(s, r->delay_s);
    if (r->drop)
        return 0;
    k = snprintf(head, sizeof head,
                 "HTTP/1.1 %d Whatever\r\nContent-Length: %zu\r\n"
                 "Content-Type: application/json\r\n%s\r\n",
                 r->code, length, r->headers);
    if (!server_send(fd, head, (size_t)k) || !server_send_body(s, fd, r, n))
        return 0;
    return length == (r->huge ? r->huge : n);
}

/* Read one request into text; 0 at the end of the connection. */
static inline size_t server_read(int fd, char *text)
{
    size_t n = 0, need = 0;

    while (need == 0 || n < need) {
        ssize_t k = recv(fd, text + n, SERVER_REQUEST_MAX - 1 - n, 0);
        const char *end, *length;

        if (k <= 0)
            return 0;
        n += (size_t)k;
        text[n] = '\0';
        end = strstr(text, "\r\n\r\n");
        if (!end || need)
            continue;
        length = strcasestr(text, "\r\nContent-Length:");
        need = (size_t)(end + 4 - text) +
               (length && length < end ? strtoul(length + 17, NULL, 10) : 0);
    }
    return n;
}

static inline void server_gather(struct server *s)
{
    for (int i = 0; i < 6000 && atomic_load(&s->peak) < s->gather; i++)
        server_sleep(s, 0.01);
}

static inline void server_hold(struct server *s, const struct reply *r)
{
    for (int i = 0; r->gate && i < 6000 && atomic_load(r->gate) < r->after; i++)
        server_sleep(s, 0.01);
}

static inline int server_answer(struct server *s, int fd, const char *text)
{
    struct reply r = {.code = 200, .headers = "", .body = ""};
    int now = atomic_fetch_add(&s->active, 1) + 1;
    int peak = atomic_load(&s->peak);
    int more;

    while (now > peak && !atomic_compare_exchange_weak(&s->peak, &peak, now))
        ;
    pthread_mutex_lock(&s->lock);
    snprintf(s->last, sizeof s->last, "%s", text);
    s->handler(s->user, atomic_fetch_add(&s->requests, 1), text, &r);
    pthread_mutex_unlock(&s->lock);
    server_gather(s);
    server_hold(s, &r);
    more = server_reply(s, fd, &r);
    atomic_fetch_sub(&s->active, 1);
    return more;
}

static inline void *server_connection(void *arg)
{
    struct server_connection c = *(struct server_connection *)arg;
    char *text = malloc(SERVER_REQUEST_MAX);

    free(arg);
    while (text && server_read(c.fd, text) > 0)
        if (!server_answer(c.s, c.fd, text))
            break;
    shutdown(c.fd, SHUT_RDWR);
    free(text);
    return NULL;
}

static inline void *server_accept(void *arg)
{
    struct server *s = arg;
    int one = 1;

    while (atomic_load(&s->connections) < SERVER_CONNECTIONS) {
        int fd = accept(s->fd, NULL, NULL);
        struct server_connection *c;
        int i;

        if (fd < 0)
            break;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        c = malloc(sizeof *c);
        *c = (struct server_connection){s, fd};
        i = atomic_load(&s->connections);
        s->fds[i] = fd;
        pthread_create(&s->threads[i], NULL, server_connection, c);
        atomic_store(&s->connections, i + 1);
    }
    return NULL;
}

static inline void server_start(struct server *s, reply_fn *handler, void *user)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;

    memset(s, 0, sizeof *s);
    s->handler = handler;
    s->user = user;
    pthread_mutex_init(&s->lock, NULL);
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (s->fd < 0 || bind(s->fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        listen(s->fd, 128) != 0 || getsockname(s->fd, (struct sockaddr *)&a, &n) != 0)
        abort();
    s->port = ntohs(a.sin_port);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", s->port);
    pthread_create(&s->thread, NULL, server_accept, s);
}

static inline void server_stop(struct server *s)
{
    int n;

    atomic_store(&s->stopping, 1);
    shutdown(s->fd, SHUT_RDWR); /* ends accept; the number stays taken until it has */
    pthread_join(s->thread, NULL);
    close(s->fd);
    n = atomic_load(&s->connections);
    for (int i = 0; i < n; i++)
        shutdown(s->fds[i], SHUT_RDWR);
    for (int i = 0; i < n; i++) {
        pthread_join(s->threads[i], NULL);
        close(s->fds[i]);
    }
    pthread_mutex_destroy(&s->lock);
}

/* The body of a request. */
static inline const char *request_body(const char *request)
{
    const char *p = strstr(request, "\r\n\r\n");

    return p ? p + 4 : "";
}

#endif
