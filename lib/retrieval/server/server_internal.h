/* retrieval/server/server_internal.h - a server and the requests under way, for the files
 * of this module that deal with libmicrohttpd. */
#ifndef SR1__SERVER_SERVER_INTERNAL_H
#define SR1__SERVER_SERVER_INTERNAL_H

#include <searchr1/ext/server.h>

#include "retrieval/server/batcher.h"
#include "retrieval/server/deadlines.h"
#include "retrieval/server/listen.h"
#include "retrieval/server/server_metrics.h"
#include "retrieval/server/rerank_request.h"
#include "retrieval/server/wire.h"

#include <microhttpd.h>

struct sr1_server {
    sr1_search *engine;
    sr1_server_options o;
    struct sr1__wire_limits limits;
    struct sr1__listener listener;
    char *token; /* NULL: none is asked for */
    struct sr1__batcher *batcher;
    struct sr1__server_metrics metrics;
    struct MHD_Daemon *daemon; /* NULL: closed */
    struct sr1__deadlines *deadlines;
    struct sr1__pair_scorer scorer;
    int wake; /* eventfd: readable once stopping */
    atomic_int stopping;
    atomic_llong body_bytes; /* of all requests under way */
};

struct sr1__exchange;

/* A path that is answered. */
struct sr1__route {
    const char *url;
    const char *method;
    enum sr1__path path;
    int open; /* needs no token */
    /* The body is there. Sets status and answer and returns 1, or submits x->job and
     * returns 0. */
    int (*run)(struct sr1__exchange *x);
};

/* NULL: there is none. */
const struct sr1__route *sr1__route_find(const char *url);

/* One request, from its headers to the end of its answer. */
struct sr1__exchange {
    struct sr1_server *server;
    struct MHD_Connection *connection;
    const struct sr1__route *route; /* NULL: no such path */
    double began;
    struct sr1__buf body;
    size_t passed;  /* bytes of body that were not kept */
    size_t counted; /* bytes of body in server->body_bytes */
    int status;     /* HTTP; 0: not yet known */
    int last;       /* the connection ends with this answer */
    struct sr1__buf answer;
    const char *type; /* of the answer */
    struct sr1__server_job job;
    struct sr1__retrieve_request retrieve;
    struct sr1__rerank_request rerank;
};

/* Answer with an error's text. */
void sr1__exchange_refuse(struct sr1__exchange *x, int status, const char *text);

/* Callbacks for libmicrohttpd; cls is the server. */
enum MHD_Result sr1__http_handle(void *cls, struct MHD_Connection *connection,
                                 const char *url, const char *method, const char *version,
                                 const char *data, size_t *size, void **exchange);
void sr1__http_completed(void *cls, struct MHD_Connection *connection, void **exchange,
                         enum MHD_RequestTerminationCode how);
void sr1__http_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what);

#endif
