/* support/http.h - a client as bare as can be: what is sent and read is up to the test.
 */
#ifndef SR1_TESTS_HTTP_H
#define SR1_TESTS_HTTP_H

#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

struct http_answer {
    int status; /* 0: the connection ended before an answer */
    char head[2048];
    char *body; /* free it */
    size_t n;
};

static inline int http_connect(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {20, 0};

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
        connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

static inline int http_send(int fd, const void *bytes, size_t n)
{
    for (const char *p = bytes; n > 0;) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);

        if (k <= 0)
            return -1;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

static inline int http_say(int fd, const char *text)
{
    return http_send(fd, text, strlen(text));
}

/* "POST path" with a body; more: further header lines, each with its \r\n. */
static inline int http_post(int fd, const char *path, const char *more, const char *body)
{
    size_t size = strlen(body) + strlen(path) + strlen(more) + 128;
    char *text = malloc(size);
    int n, failed;

    n = snprintf(text, size,
                 "POST %s HTTP/1.1\r\nHost: x\r\n%sContent-Length: %zu\r\n\r\n%s", path,
                 more, strlen(body), body);
    failed = http_send(fd, text, (size_t)n);
    free(text);
    return failed;
}

/* The value of a header, or NULL. */
static inline const char *http_header(struct http_answer *a, const char *name)
{
    size_t n = strlen(name);

    for (char *p = strchr(a->head, '\n'); p != NULL; p = strchr(p, '\n')) {
        p++;
        if (strncasecmp(p, name, n) == 0 && p[n] == ':')
            return p + n + 1 + strspn(p + n + 1, " ");
    }
    return NULL;
}

/* One byte a call: what follows the answer stays for the next. */
static inline int http_head(int fd, struct http_answer *a)
{
    size_t n = 0;

    while (n + 1 < sizeof a->head &&
           (n < 4 || memcmp(a->head + n - 4, "\r\n\r\n", 4) != 0)) {
        if (recv(fd, a->head + n, 1, 0) != 1)
            return -1;
        n++;
    }
    a->head[n] = '\0';
    return sscanf(a->head, "HTTP/1.%*d %d", &a->status) == 1 ? 0 : -1;
}

static inline struct http_answer http_read(int fd)
{
    struct http_answer a = {0};
    const char *length;

    if (http_head(fd, &a) != 0) {
        a.status = 0;
        return a;
    }
    length = http_header(&a, "Content-Length");
    a.n = length != NULL ? strtoull(length, NULL, 10) : 0;
    a.body = calloc(a.n + 1, 1);
    if (recv(fd, a.body, a.n, MSG_WAITALL) != (ssize_t)a.n)
        a.status = a.n > 0 ? 0 : a.status;
    return a;
}

/* A request and its answer on a connection of its own. */
static inline struct http_answer http_ask(int port, const char *path, const char *more,
                                          const char *body)
{
    struct http_answer a = {0};
    int fd = http_connect(port);

    if (fd < 0)
        return a;
    if (http_post(fd, path, more, body) == 0)
        a = http_read(fd);
    close(fd);
    return a;
}

static inline struct http_answer http_get(int port, const char *path, const char *more)
{
    struct http_answer a = {0};
    char text[1024];
    int fd = http_connect(port);

    if (fd < 0)
        return a;
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", path, more);
    if (http_say(fd, text) == 0)
        a = http_read(fd);
    close(fd);
    return a;
}

/* Has the other side closed? Waits at most so many milliseconds. */
static inline int http_closed(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char c;

    return poll(&p, 1, ms) == 1 && recv(fd, &c, 1, MSG_PEEK) <= 0;
}

#endif
