/* support/nccl_stub.h - NCCL's functions as far as dist/nccl_library.h takes them, over
 * sockets of this machine, and the other ranks of its communicators. No NCCL runs.
 *
 * The program that includes it exports them, so the library takes these. As NCCL's they
 * return at once where the configuration says so, and ncclCommGetAsyncError goes on with
 * what is under way. Another rank joins by the unique id (stub_join), then reads each
 * collective and says whether it is the one that it waits for. */
#ifndef SR1_TESTS_NCCL_STUB_H
#define SR1_TESTS_NCCL_STUB_H

#include "tensor/torch/nccl_calls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STUB_RANKS 8
#define STUB_EXPORT __attribute__((visibility("default")))

enum { STUB_ALL_REDUCE = 1, STUB_BROADCAST = 2 };

/* What goes before the bytes of a collective. */
struct stub_head {
    uint32_t operation, data_type;
    uint64_t n;
};

/* Counts of this process. */
static atomic_int stub_joined, stub_broadcasts, stub_aborts;
static atomic_int stub_fails; /* the next calls of ncclBroadcast */

STUB_EXPORT const int sr1__nccl_on_host = 1;

/* ---- rank 0 ---- */

struct stub_comm {
    int listener, n_peers, n_here;
    int peers[STUB_RANKS];
    struct stub_head head;
    const char *bytes; /* of the collective under way; NULL: none */
    size_t n_bytes;
    size_t sent[STUB_RANKS];
    int done[STUB_RANKS];
    int error;
};

static pthread_mutex_t stub_lock = PTHREAD_MUTEX_INITIALIZER;
static int stub_listeners[64]; /* of ids that nobody has joined yet */

static inline size_t stub_size_of(uint32_t data_type)
{
    return data_type == SR1__NCCL_FLOAT32 ? 4 : 2;
}

static inline uint16_t stub_port(int fd)
{
    struct sockaddr_in at;
    socklen_t n = sizeof at;

    return getsockname(fd, (struct sockaddr *)&at, &n) == 0 ? ntohs(at.sin_port) : 0;
}

STUB_EXPORT int ncclGetVersion(int *version);
STUB_EXPORT int ncclGetVersion(int *version)
{
    *version = 22809;
    return SR1__NCCL_SUCCESS;
}

STUB_EXPORT const char *ncclGetErrorString(int result);
STUB_EXPORT const char *ncclGetErrorString(int result)
{
    return result == SR1__NCCL_REMOTE_ERROR
               ? "remote process exited or there was a network error"
               : "invalid usage";
}

STUB_EXPORT const char *ncclGetLastError(void *comm);
STUB_EXPORT const char *ncclGetLastError(void *comm)
{
    (void)comm;
    return "stub";
}

STUB_EXPORT int ncclGetUniqueId(struct sr1__nccl_id *id);
STUB_EXPORT int ncclGetUniqueId(struct sr1__nccl_id *id)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int result = SR1__NCCL_SYSTEM_ERROR;

    if (bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, STUB_RANKS) != 0)
        return result;
    for (size_t i = 0; i < sizeof id->bytes; i++) /* all bytes have to arrive */
        id->bytes[i] = (char)(i * 31);
    snprintf(id->bytes, sizeof id->bytes, "%d", stub_port(fd));
    pthread_mutex_lock(&stub_lock);
    for (size_t i = 0; i < 64 && result; i++)
        if (stub_listeners[i] == 0) {
            stub_listeners[i] = fd;
            result = SR1__NCCL_SUCCESS;
        }
    pthread_mutex_unlock(&stub_lock);
    return result;
}

static inline int stub_take_listener(int port)
{
    int fd = -1;

    pthread_mutex_lock(&stub_lock);
    for (size_t i = 0; i < 64 && fd < 0; i++)
        if (stub_listeners[i] && stub_port(stub_listeners[i]) == port) {
            fd = stub_listeners[i];
            stub_listeners[i] = 0;
        }
    pthread_mutex_unlock(&stub_lock);
    return fd;
}

STUB_EXPORT int ncclCommInitRankConfig(void **comm, int n_ranks, struct sr1__nccl_id id,
                                       int rank, struct sr1__nccl_config *config);
STUB_EXPORT int ncclCommInitRankConfig(void **comm, int n_ranks, struct sr1__nccl_id id,
                                       int rank, struct sr1__nccl_config *config)
{
    struct stub_comm *c = calloc(1, sizeof *c);

    if (!c || rank != 0 || n_ranks < 2 || n_ranks > STUB_RANKS + 1 ||
        config->magic != SR1__NCCL_CONFIG_MAGIC || config->size != 20 ||
        config->blocking != 0)
        abort();
    c->listener = stub_take_listener(atoi(id.bytes));
    if (c->listener < 0)
        abort();
    c->n_peers = n_ranks - 1;
    *comm = c;
    return SR1__NCCL_IN_PROGRESS;
}

/* A rank that counts others is none of this communicator's. */
static inline void stub_accept(struct stub_comm *c)
{
    int fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC);
    int32_t n_ranks = 0;

    if (fd < 0)
        return;
    if (recv(fd, &n_ranks, sizeof n_ranks, MSG_WAITALL) != sizeof n_ranks ||
        n_ranks != c->n_peers + 1) {
        close(fd);
        c->error = 5; /* ncclInvalidUsage */
        return;
    }
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    c->peers[c->n_here++] = fd;
    if (c->n_here == c->n_peers)
        stub_joined++;
}

static inline void stub_push(struct stub_comm *c, int k)
{
    size_t whole = sizeof c->head + c->n_bytes;
    ssize_t n;
    char word;

    while (c->sent[k] < whole) {
        size_t at = c->sent[k];
        const char *from = at < sizeof c->head ? (const char *)&c->head + at
                                               : c->bytes + (at - sizeof c->head);
        size_t left = at < sizeof c->head ? sizeof c->head - at : whole - at;

        n = send(c->peers[k], from, left, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            c->error = SR1__NCCL_REMOTE_ERROR;
            return;
        }
        c->sent[k] += (size_t)n;
    }
    n = recv(c->peers[k], &word, 1, 0);
    if (n == 1)
        c->done[k] = 1;
    else if (n == 0 || errno != EAGAIN)
        c->error = SR1__NCCL_REMOTE_ERROR;
}

STUB_EXPORT int ncclCommGetAsyncError(void *comm, int *result);
STUB_EXPORT int ncclCommGetAsyncError(void *comm, int *result)
{
    struct stub_comm *c = comm;
    int left = 0;

    *result = c->error;
    if (!c->error && c->n_here < c->n_peers)
        stub_accept(c);
    for (int k = 0; !c->error && c->bytes && k < c->n_peers; k++) {
        if (!c->done[k])
            stub_push(c, k);
        left += !c->done[k];
    }
    if (c->n_here == c->n_peers && left == 0)
        c->bytes = NULL;
    *result = c->error                             ? c->error
              : c->n_here < c->n_peers || c->bytes ? SR1__NCCL_IN_PROGRESS
                                                   : SR1__NCCL_SUCCESS;
    return SR1__NCCL_SUCCESS;
}

STUB_EXPORT int ncclCommAbort(void *comm);
STUB_EXPORT int ncclCommAbort(void *comm)
{
    struct stub_comm *c = comm;

    for (int k = 0; k < c->n_here; k++)
        close(c->peers[k]);
    close(c->listener);
    free(c);
    stub_aborts++;
    return SR1__NCCL_SUCCESS;
}

static inline int stub_begin(struct stub_comm *c, uint32_t operation, const void *bytes,
                             size_t n, int data_type)
{
    if (c->bytes) /* one at a time */
        abort();
    c->head = (struct stub_head){operation, (uint32_t)data_type, n};
    c->bytes = bytes;
    c->n_bytes = n * stub_size_of((uint32_t)data_type);
    memset(c->sent, 0, sizeof c->sent);
    memset(c->done, 0, sizeof c->done);
    return SR1__NCCL_IN_PROGRESS;
}

STUB_EXPORT int ncclAllReduce(const void *send, void *receive, size_t n, int data_type,
                              int operation, void *comm, void *stream);
STUB_EXPORT int ncclAllReduce(const void *send, void *receive, size_t n, int data_type,
                              int operation, void *comm, void *stream)
{
    if (send != receive || operation != SR1__NCCL_SUM || stream)
        abort();
    return stub_begin(comm, STUB_ALL_REDUCE, send, n, data_type);
}

STUB_EXPORT int ncclBroadcast(const void *send, void *receive, size_t n, int data_type,
                              int root, void *comm, void *stream);
STUB_EXPORT int ncclBroadcast(const void *send, void *receive, size_t n, int data_type,
                              int root, void *comm, void *stream)
{
    if (send != receive || root != 0 || stream)
        abort();
    if (stub_fails > 0) {
        stub_fails--;
        return 5;
    }
    stub_broadcasts++;
    return stub_begin(comm, STUB_BROADCAST, send, n, data_type);
}

/* ---- another rank ---- */

static inline int stub_base64_value(char c)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;

    return at ? (int)(at - digits) : -1;
}

/* The 128 bytes of a unique id; 0: it is none. */
static inline int stub_decode_id(const char *text, struct sr1__nccl_id *id)
{
    size_t n = 0;
    uint32_t bits = 0, held = 0;

    if (strlen(text) != 172 || text[171] != '=')
        return 0;
    for (; stub_base64_value(*text) >= 0; text++) {
        bits = bits << 6 | (uint32_t)stub_base64_value(*text);
        held += 6;
        if (held >= 8 && n < sizeof id->bytes)
            id->bytes[n++] = (char)(bits >> (held -= 8));
    }
    for (size_t i = 8; i < n; i++)
        if (id->bytes[i] != (char)(i * 31))
            return 0;
    return n == sizeof id->bytes && strcmp(text, "=") == 0;
}

/* Read the head and the bytes of a collective, which has to be this one. */
static inline int stub_receive(int fd, uint32_t operation, uint32_t data_type, size_t n,
                               void *bytes)
{
    struct stub_head h;
    size_t size = n * stub_size_of(data_type);

    if (recv(fd, &h, sizeof h, MSG_WAITALL) != sizeof h || h.operation != operation ||
        h.data_type != data_type || h.n != n ||
        recv(fd, bytes, size, MSG_WAITALL) != (ssize_t)size)
        return 0;
    return send(fd, "", 1, MSG_NOSIGNAL) == 1;
}

/* Join as one of n_ranks, and take part in the sum that begins; -1: that failed. */
static inline int stub_join(const struct sr1__nccl_id *id, int32_t n_ranks)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons((uint16_t)atoi(id->bytes))};
    struct timeval most = {.tv_sec = 60};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
        send(fd, &n_ranks, sizeof n_ranks, MSG_NOSIGNAL) == sizeof n_ranks)
        return fd;
    close(fd);
    return -1;
}

#endif
