/* retrieval/net/server_pool.h - several generation servers of one model.
 *
 * A request goes to the server of its question, by rendezvous hashing: each pair of a
 * question and a server has a hash, and the live server with the highest one is asked. A
 * group of trajectories so shares one server's prefix cache, and a server that leaves
 * moves its own questions only.
 *
 * A server that fails a request, retries included, leaves: its requests are asked of the
 * next one in the order of hashes. It is probed again after a rest
 * (openai_probe_interval) and returns; one whose weights the trainer sends does not,
 * because it may have been restarted with others, until it has taken the present ones.
 *
 * Any number of threads may run requests at a time. */
#ifndef SR1__NET_SERVER_POOL_H
#define SR1__NET_SERVER_POOL_H

#include "retrieval/net/openai_config.h"

struct sr1__server_pool;

/* Requests asked of a server, and those of them that it failed. */
struct sr1__server_counts {
    int64_t requests;
    int64_t failures;
};

/* As the configuration names them. A server that does not answer is left out if another
 * one does. SR1_E_CONFIG: they serve models of different names, or speak different
 * dialects. */
sr1_status sr1__server_pool_open(struct sr1__server_pool **out, const sr1_config *c);
/* NULL is fine. */
void sr1__server_pool_free(struct sr1__server_pool *p);

size_t sr1__server_pool_size(const struct sr1__server_pool *p);
/* Address of server i up to /v1, as configured; and its scheme, host and port. */
const char *sr1__server_pool_url(const struct sr1__server_pool *p, size_t i);
const char *sr1__server_pool_origin(const struct sr1__server_pool *p, size_t i);
/* What all servers have in common: name of the model, SR1_OPENAI_DIALECT_*, and the
 * smallest context in tokens (0: none says). */
const char *sr1__server_pool_model(const struct sr1__server_pool *p);
int32_t sr1__server_pool_dialect(const struct sr1__server_pool *p);
int64_t sr1__server_pool_context(const struct sr1__server_pool *p);

/* Ask one request of the server of its question (a hash), or where that one fails, of the
 * next. Free *out with sr1_openai_results_free; a failure of all that were asked is the
 * last one's result. SR1_E_NETWORK: no server is left to ask. What was asked is added to
 * counts[size], which calls of any number of threads may share. */
sr1_status sr1__server_pool_run(struct sr1__server_pool *p, uint64_t question,
                                const sr1_openai_request *request,
                                sr1_openai_results **out,
                                struct sr1__server_counts *counts);
/* End all running requests with SR1_E_CANCELLED. */
void sr1__server_pool_cancel(struct sr1__server_pool *p);

/* ---- weights ---- */

/* From now on a server that leaves may have other weights when it answers again: it
 * returns by sr1__server_pool_admit alone. */
void sr1__server_pool_hold(struct sr1__server_pool *p);
/* Server i has the present weights and generates. model: the name that requests ask for
 * from now on, NULL: as before. Not while requests run. */
sr1_status sr1__server_pool_admit(struct sr1__server_pool *p, size_t i,
                                  const char *model);
/* Server i does not have them, why: it is left out. */
void sr1__server_pool_exclude(struct sr1__server_pool *p, size_t i, const char *why);
/* The client of server i; NULL if it never answered. */
sr1_openai *sr1__server_pool_client(const struct sr1__server_pool *p, size_t i);

size_t sr1__server_pool_live(struct sr1__server_pool *p);

#endif
