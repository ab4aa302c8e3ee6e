/* retrieval/server/listen.h - a listening TCP socket. */
#ifndef SR1__SERVER_LISTEN_H
#define SR1__SERVER_LISTEN_H

#include "base/error.h"

struct sr1__listener {
    int fd;
    int32_t port;
    int loopback;  /* only this machine can reach it */
    char url[128]; /* "http://127.0.0.1:8000" */
};

/* address: a name or number; port 0: any that is free. Other machines may reach it only
 * where `exposed` is not 0. */
sr1_status sr1__listen(struct sr1__listener *out, const char *address, int32_t port,
                       int exposed);

#endif
