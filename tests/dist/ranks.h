/* dist/ranks.h - a test's ranks: processes on this machine that meet at a free port. */
#ifndef SR1_TESTS_DIST_RANKS_H
#define SR1_TESTS_DIST_RANKS_H

#include "support/tiny.h"

#include "base/clock.h"
#include "dist/dist.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS_MAX 4
#define RANKS_SECONDS 200.0 /* then all are killed and the test fails */

/* In a rank: a failed condition ends it, and its test. */
#define RANK_CHECK(condition)                                                            \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "rank %d: %s:%d: %s (%s)\n", (int)ranks_self, __FILE__,      \
                    __LINE__, #condition, sr1_last_error());                             \
            _exit(1);                                                                    \
        }                                                                                \
    } while (0)

static int32_t ranks_self;

static inline uint16_t ranks_free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    close(fd);
    return ntohs(at.sin_port);
}

/* What the ranks of a test share. */
struct ranks_shared {
    double at[RANKS_MAX]; /* sr1__now() of something */
    sr1_status status[RANKS_MAX];
    uint64_t hash[RANKS_MAX];
    atomic_int stopped;
};

struct ranks {
    int32_t size;    /* of the world */
    int32_t started; /* of them */
    uint16_t port;
    double limit, patience;
    int32_t debug;
    int32_t chosen; /* a rank that a test does something to */
    struct ranks_shared *shared;
};

static inline struct sr1__launch ranks_launch(const struct ranks *r)
{
    struct sr1__launch l = {.rank = ranks_self,
                            .world_size = r->size,
                            .local_rank = ranks_self,
                            .local_world_size = r->size,
                            .master_port = r->port,
                            .launcher = "test"};

    snprintf(l.master_addr, sizeof l.master_addr, "127.0.0.1");
    return l;
}

static inline sr1_status ranks_open(const struct ranks *r, struct sr1__dist **out)
{
    struct sr1__launch l = ranks_launch(r);
    struct sr1__dist_options o = {
        .backend = "gloo", .limit = r->limit, .patience = r->patience, .debug = r->debug};

    return sr1__dist_open(out, &l, &o);
}

/* The launcher's variables for what this process opens next. */
static inline void ranks_set_variables(const struct ranks *r)
{
    char text[16];

    snprintf(text, sizeof text, "%d", ranks_self);
    setenv("RANK", text, 1);
    setenv("LOCAL_RANK", text, 1);
    snprintf(text, sizeof text, "%d", r->size);
    setenv("WORLD_SIZE", text, 1);
    snprintf(text, sizeof text, "%d", r->port);
    setenv("MASTER_PORT", text, 1);
}

/* Run `body` in every rank. Ranks whose bit is in `may_die` may end in any way; the
 * others have to end with 0. */
static inline void ranks_run(struct ranks *r, void (*body)(const struct ranks *r),
                             unsigned may_die)
{
    pid_t pids[RANKS_MAX];
    int32_t running = r->started ? r->started : r->size, failed = 0;
    double began = sr1__now();

    r->started = running;
    r->port = r->port ? r->port : ranks_free_port();
    r->shared = mmap(NULL, sizeof *r->shared, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(NULL);
    for (int32_t i = 0; i < r->started; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            ranks_self = i;
            setenv("CMOCKA_TEST_ABORT", "1", 1); /* it runs no other test */
            body(r);
            exit(0);
        }
    }
    while (running > 0 && sr1__now() - began < RANKS_SECONDS) {
        for (int32_t i = 0; i < r->started; i++) {
            int how = 0;

            if (pids[i] <= 0 || waitpid(pids[i], &how, WNOHANG) != pids[i])
                continue;
            pids[i] = 0;
            running--;
            failed += how != 0 && !(may_die >> i & 1);
        }
        usleep(2000);
    }
    for (int32_t i = 0; i < r->started; i++)
        if (pids[i] > 0) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
    assert_int_equal(running, 0);
    assert_int_equal(failed, 0);
}

/* In worlds of two ranks and of more. */
static inline void ranks_run_worlds(void (*body)(const struct ranks *r))
{
    for (int32_t n = 2; n <= RANKS_MAX; n++) {
        struct ranks r = {.size = n, .limit = 30};

        ranks_run(&r, body, 0);
    }
}

/* A folder of a test's, with the files that `make` makes in a process of its own: the
 * test forks, and libtorch's threads, which tensors of some size start, would be missing.
 */
static inline int ranks_make_files(void **state, void (*make)(const struct ranks *r))
{
    struct ranks r = {.size = 1};

    if (scratch_make(state) != 0)
        return -1;
    ranks_run(&r, make, 0);
    return 0;
}

#endif
