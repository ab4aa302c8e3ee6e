/* retrieval/server/listen.c - open a non-blocking socket for an address and a port; other
 * machines can reach it only if the caller asked for that. */
#include "retrieval/server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

static int is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)a;

        return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
    }
    if (a->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)a;

        return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
    }
    return 0;
}

static sr1_status resolve_address(const char *address, int32_t port,
                                  struct addrinfo **out)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM};
    char service[16];
    int code;

    snprintf(service, sizeof(service), "%d", (int)port);
    code = getaddrinfo(address, service, &hints, out);
    if (code != 0)
        return sr1__fail(SR1_E_INVALID, "server: address '%.100s': %s", address,
                         gai_strerror(code));
    return SR1_OK;
}

/* errno stays as it was. */
static sr1_status fail_listen(const char *doing, const char *address, int32_t port,
                              int fd)
{
    int number = errno;
    char text[128];

    if (fd >= 0)
        close(fd);
    sr1__fail(SR1_E_IO, "server: cannot %s %.100s, port %d: %s%s", doing, address,
              (int)port, strerror_r(number, text, sizeof(text)),
              number == EADDRINUSE ? "; name another port" : "");
    errno = number;
    return SR1_E_IO;
}

static sr1_status describe_listener(struct sr1__listener *l, const char *address)
{
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    char host[64];
    char service[16];

    if (getsockname(l->fd, (struct sockaddr *)&bound, &size) != 0 ||
        getnameinfo((struct sockaddr *)&bound, size, host, sizeof(host), service,
                    sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return fail_listen("find the port of", address, 0, l->fd);
    l->port = ntohs(bound.ss_family == AF_INET6
                        ? ((struct sockaddr_in6 *)(void *)&bound)->sin6_port
                        : ((struct sockaddr_in *)(void *)&bound)->sin_port);
    snprintf(l->url, sizeof(l->url),
             strchr(host, ':') != NULL ? "http://[%s]:%s" : "http://%s:%s", host,
             service);
    return SR1_OK;
}

static sr1_status open_socket(struct sr1__listener *l, const struct addrinfo *a,
                              const char *address, int32_t port)
{
    int on = 1;

    l->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return fail_listen("make a socket for", address, port, -1);
    if (setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(l->fd, a->ai_addr, a->ai_addrlen) != 0 || listen(l->fd, BACKLOG) != 0)
        return fail_listen("listen on", address, port, l->fd);
    return describe_listener(l, address);
}

static sr1_status check_exposure(const struct addrinfo *list, const char *address,
                                 int exposed)
{
    for (const struct addrinfo *a = list; a != NULL && !exposed; a = a->ai_next)
        if (!is_loopback(a->ai_addr))
            return sr1__fail(SR1_E_INVALID,
                             "server: other machines can reach address '%.100s': name an "
                             "environment variable that holds a token for clients "
                             "(token_env; sr1-search serve --token-env NAME), or "
                             "listen on 127.0.0.1",
                             address);
    return SR1_OK;
}

/* The first address of the list that this machine has: a name may stand for one of IPv6
 * where there is none. A port that is taken is taken: another address would not be what
 * was asked for. */
static sr1_status open_first_socket(struct sr1__listener *l, const struct addrinfo *list,
                                    const char *address, int32_t port)
{
    sr1_status status = SR1_E_IO;

    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        status = open_socket(l, a, address, port);
        l->loopback = is_loopback(a->ai_addr);
        if (status == SR1_OK || (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT))
            break;
    }
    return status;
}

sr1_status sr1__listen(struct sr1__listener *out, const char *address, int32_t port,
                       int exposed)
{
    struct sr1__listener l = {.fd = -1};
    struct addrinfo *list = NULL;
    sr1_status status;

    SR1__TRY(resolve_address(address, port, &list));
    status = check_exposure(list, address, exposed);
    if (status == SR1_OK)
        status = open_first_socket(&l, list, address, port);
    freeaddrinfo(list);
    if (status == SR1_OK)
        *out = l;
    return status;
}
