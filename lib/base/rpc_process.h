/* base/rpc_process.h - requests to a program by JSON-RPC 2.0, a line each, over its
 * standard streams (line_process.h).
 *
 * Any number of threads may have a request under way; answers may come in any order. A
 * program that ends, writes what is no JSON-RPC, or a line that is too long, fails the
 * requests under way and is started anew by the next one; so is one that has written no
 * line at all during the whole time of a request (one that answers others meanwhile is
 * only busy: that request alone is late). After some failures in a row it is left alone
 * for a while. */
#ifndef SR1__BASE_RPC_PROCESS_H
#define SR1__BASE_RPC_PROCESS_H

#include "base/json.h"
#include "base/line_process.h"

#include <stdatomic.h>

struct sr1__rpc_process;

struct sr1__rpc_options {
    struct sr1__line_process_options program; /* copied */
    double start_s;                           /* for `begin` once it was started */
    /* Shake hands with a program that has just been started, by sr1__rpc_exchange; NULL:
     * nothing is said. */
    sr1_status (*begin)(void *self, struct sr1__rpc_process *r, double until);
    void *self;
    const atomic_int *stop; /* NULL, or as sr1__rpc_watch sets it */
};

/* Starts nothing yet. */
sr1_status sr1__rpc_new(struct sr1__rpc_process **out, const struct sr1__rpc_options *o);
/* Not while a call on it runs. NULL is fine. */
void sr1__rpc_free(struct sr1__rpc_process *r);

/* What a request came to. */
struct sr1__rpc_reply {
    json_t *result; /* NULL: an error */
    int32_t code;   /* of the program's error */
    char message[512];
    int64_t incarnation; /* which start of the program answered, from 1 */
};
void sr1__rpc_reply_free(struct sr1__rpc_reply *reply);

/* Send a request and wait for its answer until then, starting the program if it does not
 * run. params is borrowed; NULL: none. SR1_OK: there is a result or the program's own
 * error. SR1_E_TIMEOUT; SR1_E_NETWORK: the program has gone or cannot be started;
 * SR1_E_PARSE, SR1_E_LIMIT: it wrote nonsense; SR1_E_CANCELLED: see sr1__rpc_watch. */
sr1_status sr1__rpc_call(struct sr1__rpc_process *r, const char *method, json_t *params,
                         double until, struct sr1__rpc_reply *reply);
/* A message without an answer. SR1_OK: it is written, or will be before what comes next,
 * should the program live so long. *incarnation (may be NULL): which start of it is told,
 * where that does not run any more nobody is; 0: any, and becomes the one that was, since
 * another one knows nothing of it; untouched on failure. */
sr1_status sr1__rpc_notify(struct sr1__rpc_process *r, const char *method, json_t *params,
                           double until, int64_t *incarnation);
/* Either of the two within `begin`. reply NULL: a message without an answer. */
sr1_status sr1__rpc_exchange(struct sr1__rpc_process *r, const char *method,
                             json_t *params, double until, struct sr1__rpc_reply *reply);

/* Start it, if it does not run. *incarnation: which start of it runs. */
sr1_status sr1__rpc_start(struct sr1__rpc_process *r, double until, int64_t *incarnation);

/* Once *stop is not 0, a request has a few seconds more for its answer, then ends with
 * SR1_E_CANCELLED. NULL: no longer. */
void sr1__rpc_watch(struct sr1__rpc_process *r, const atomic_int *stop);

/* What errors call it. Borrowed. */
const char *sr1__rpc_name(const struct sr1__rpc_process *r);

/* ---- messages, for other transports ---- */

/* A line that asks; takes params. id 0: a notification. */
sr1_status sr1__rpc_write_request(struct sr1__buf *out, int64_t id, const char *method,
                                  json_t *params);

enum sr1__rpc_kind {
    SR1__RPC_ANSWER,       /* to the request *id */
    SR1__RPC_REQUEST,      /* of the other side, to be answered */
    SR1__RPC_NOTIFICATION, /* not to be answered */
};
/* Read one message: of an answer *id and *reply, which the caller frees; of a request its
 * text is answered into *answer (ping by an empty result, all else is not known).
 * SR1_E_PARSE: it is no message. */
sr1_status sr1__rpc_read(const char *text, size_t n, enum sr1__rpc_kind *kind,
                         int64_t *id, struct sr1__rpc_reply *reply,
                         struct sr1__buf *answer);

#endif
