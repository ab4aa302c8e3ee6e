/* tensor/torch/comm.h - the C face of torch's c10d: a store, process groups over it, and
 * works, which are collectives under way. One entry, one call of c10d.
 *
 * Errors as in shim.h: SR1_E_TIMEOUT where c10d says that a limit passed, SR1_E_NETWORK
 * where a peer or the store cannot be reached, SR1_E_INVALID for collectives that do not
 * fit together. Limits are in milliseconds. Policy lives in lib/dist. */
#ifndef SR1__TORCH_COMM_H
#define SR1__TORCH_COMM_H

#include "tensor/torch/shim.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sr1__store;         /* c10d::Store */
struct sr1__process_group; /* c10d::Backend */
struct sr1__work;          /* c10d::Work */

/* c10d writes nothing to stderr from now on, unless TORCH_CPP_LOG_LEVEL is set. */
void sr1__comm_quiet(void);

/* ---- store ---- */

/* A TCPStore: its server (hosts != 0) or a client, which tries to connect up to
 * connect_ms. A key that is not there is waited for up to limit_ms. */
sr1_status sr1__store_tcp(struct sr1__store **out, const char *host, uint16_t port,
                          int hosts, int32_t world_size, int64_t connect_ms,
                          int64_t limit_ms);
/* The same store with prefix before every key. */
sr1_status sr1__store_prefix(struct sr1__store **out, struct sr1__store *of,
                             const char *prefix);
void sr1__store_free(struct sr1__store *s); /* NULL is fine */
sr1_status sr1__store_set(struct sr1__store *s, const char *key, const void *bytes,
                          size_t n);
/* The bytes of a key that is there, at most size of them; *n is their true number. */
sr1_status sr1__store_get(struct sr1__store *s, const char *key, void *out, size_t size,
                          size_t *n);
/* *yes: 1 if all keys[n] are there. Does not wait. */
sr1_status sr1__store_has(struct sr1__store *s, const char *const *keys, size_t n,
                          int *yes);
sr1_status sr1__store_delete(struct sr1__store *s, const char *key);

/* ---- process groups ---- */

/* Gloo over TCP, on the interface of `address`; NULL: that of GLOO_SOCKET_IFNAME, else of
 * the host's name. Every rank calls it; it returns once all are connected. */
sr1_status sr1__pg_gloo(struct sr1__process_group **out, struct sr1__store *store,
                        int32_t rank, int32_t size, const char *address,
                        int64_t limit_ms);
/* group, whose collectives are first compared over `helper`, another group of the same
 * ranks. Frees neither. */
sr1_status sr1__pg_checked(struct sr1__process_group **out,
                           struct sr1__process_group *group,
                           struct sr1__process_group *helper);
void sr1__pg_free(struct sr1__process_group *g); /* waits for its works; NULL is fine */
/* Give a group up whose works may never end: its memory and threads stay. */
void sr1__pg_abandon(struct sr1__process_group *g);

/* Begin a collective. Tensors are dense; the work holds them until it is done. */
sr1_status sr1__pg_all_reduce(struct sr1__work **out, struct sr1__process_group *g,
                              sr1_tensor *data, int64_t limit_ms); /* sum, in place */
sr1_status sr1__pg_broadcast(struct sr1__work **out, struct sr1__process_group *g,
                             sr1_tensor *data, int32_t root, int64_t limit_ms);
/* to: the from of all ranks, one after the other. */
sr1_status sr1__pg_all_gather(struct sr1__work **out, struct sr1__process_group *g,
                              sr1_tensor *to, sr1_tensor *from, int64_t limit_ms);
/* to: part r of the sum of all ranks' `from`, added in an order of the backend's. */
sr1_status sr1__pg_reduce_scatter(struct sr1__work **out, struct sr1__process_group *g,
                                  sr1_tensor *to, sr1_tensor *from, int64_t limit_ms);
/* Part r of `from` goes to rank r; part r of `to` came from there. */
sr1_status sr1__pg_all_to_all(struct sr1__work **out, struct sr1__process_group *g,
                              sr1_tensor *to, sr1_tensor *from, int64_t limit_ms);

int sr1__work_is_done(struct sr1__work *w);
/* Once it is done: its status. Frees w. */
sr1_status sr1__work_finish(struct sr1__work *w);
/* Let a work go that is not done; it ends when it ends. */
void sr1__work_abandon(struct sr1__work *w);

#ifdef __cplusplus
}
#endif
#endif
