/* dist/own_address.c - see own_address.h. */
#include "dist/own_address.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* 1 with the local address of a datagram socket that is connected to `to`. */
static int find_local_name(const struct addrinfo *to, char out[SR1__HOST_MAX])
{
    struct sockaddr_storage own = {0};
    socklen_t n = sizeof(own);
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int found = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                getsockname(fd, (struct sockaddr *)&own, &n) == 0 &&
                getnameinfo((struct sockaddr *)&own, n, out, SR1__HOST_MAX, NULL, 0,
                            NI_NUMERICHOST) == 0;

    int error = errno;

    if (fd >= 0)
        close(fd);
    errno = error;
    return found;
}

sr1_status sr1__own_address(const char *host, uint16_t port, char out[SR1__HOST_MAX])
{
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM}, *list = NULL;
    char service[8];
    int failed, found = 0, error;

    snprintf(service, sizeof(service), "%" PRIu16, port);
    failed = getaddrinfo(host, service, &hints, &list);
    if (failed)
        return sr1__fail(SR1_E_NETWORK,
                         "the store's host %s (MASTER_ADDR) has no address: %s", host,
                         gai_strerror(failed));
    for (const struct addrinfo *a = list; a && !found; a = a->ai_next)
        found = find_local_name(a, out);
    error = errno;
    freeaddrinfo(list);
    errno = error;
    if (!found)
        return sr1__fail_errno("cannot find the way to", host);
    return SR1_OK;
}
