/* test_dist.c - ranks that meet, exchange, and lose one another. */
#include "dist/ranks.h"

#include "base/mem.h"
#include "tensor/ops/ops.h"
#include "tensor/torch/comm.h"

#include <math.h>

#define REOPENINGS 12

/* ---- what goes well ---- */

#define N 3000017 /* more than one range, and no multiple of any number of ranks */

/* Of very different sizes, so that the order of a sum shows. */
static float value_of(int32_t rank, int64_t i)
{
    return ldexpf((float)((i * 7919 + rank * 104729) % 1000003) - 500000.0f,
                  (int)((i + 11 * rank) % 40) - 20);
}

static sr1_tensor *make_values(int32_t rank)
{
    const int64_t shape = N;
    sr1_tensor *t = NULL;
    float *v;

    RANK_CHECK(sr1__shim_empty(&t, SR1__F32, 1, &shape, SR1__CPU) == SR1_OK);
    v = sr1__shim_data(t);
    for (int64_t i = 0; i < N; i++)
        v[i] = value_of(rank, i);
    return t;
}

static void sum_in_rank_order(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    sr1_tensor *t = make_values(ranks_self);
    const float *got = sr1__shim_data(t);

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    RANK_CHECK(sr1__dist_rank(d) == ranks_self && sr1__dist_size(d) == r->size);
    RANK_CHECK(sr1__dist_sum(d, "gradients", SR1_OK, t) == SR1_OK);
    for (int64_t i = 0; i < N; i++) {
        float want = value_of(0, i);

        for (int32_t k = 1; k < r->size; k++)
            want += value_of(k, i);
        RANK_CHECK(memcmp(&want, &got[i], sizeof want) == 0);
    }
    sr1__tensor_free(t);
    sr1__dist_free(d);
}

static void test_sum(void **state)
{
    (void)state;
    ranks_run_worlds(sum_in_rank_order);
}

static void exchange_bytes(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    struct sr1__gathered g;
    char text[16];
    size_t n;

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    snprintf(text, sizeof text, "from %d", ranks_self);
    RANK_CHECK(sr1__dist_broadcast(d, "a word", 1, text, sizeof text) == SR1_OK);
    RANK_CHECK(strcmp(text, "from 1") == 0);
    /* rank 1 has nothing to give */
    n = ranks_self == 1 ? 0 : (size_t)ranks_self + 1;
    RANK_CHECK(sr1__dist_gather(d, "words", SR1_OK, "abcdef", n, &g) == SR1_OK);
    for (int32_t k = 0; k < r->size; k++) {
        const char *of = sr1__gathered_of(&g, k, &n);

        RANK_CHECK(n == (k == 1 ? 0 : (size_t)k + 1) && memcmp(of, "abcdef", n) == 0);
    }
    sr1__gathered_free(&g);
    RANK_CHECK(sr1__dist_gather(d, "nothing", SR1_OK, NULL, 0, &g) == SR1_OK);
    (void)sr1__gathered_of(&g, 1, &n);
    RANK_CHECK(n == 0);
    sr1__gathered_free(&g);
    for (int i = 0; i < 50; i++)
        RANK_CHECK(sr1__dist_meet(d, "again") == SR1_OK);
    RANK_CHECK(sr1__dist_same(d, "the data", 5) == SR1_OK);
    RANK_CHECK(sr1__dist_same(d, "the data", ranks_self == 2 ? 9 : 5) == SR1_E_STATE);
    RANK_CHECK(strstr(sr1_last_error(), "the data on rank 2 differs from rank 0's"));
    RANK_CHECK(sr1__dist_meet(d, "after it") == SR1_OK);
    sr1__dist_free(d);
}

static void test_bytes(void **state)
{
    struct ranks r = {.size = 3, .limit = 30},
                 checked = {.size = 3, .limit = 30, .debug = 1};

    (void)state;
    ranks_run(&r, exchange_bytes, 0);
    ranks_run(&checked, exchange_bytes, 0);
}

static void open_twice(const struct ranks *r)
{
    for (int i = 0; i < 2; i++) {
        struct sr1__dist *d = NULL;

        RANK_CHECK(ranks_open(r, &d) == SR1_OK);
        RANK_CHECK(sr1__dist_meet(d, "here") == SR1_OK);
        sr1__dist_free(d);
    }
}

static void test_twice(void **state)
{
    struct ranks r = {.size = 2, .limit = 30};

    (void)state;
    ranks_run(&r, open_twice, 0);
}

/* One rank lags when it leaves, so that rank 0 keeps the old store while another comes
 * back already. */
static void open_again(const struct ranks *r)
{
    for (int i = 0; i < REOPENINGS; i++) {
        struct sr1__dist *d = NULL;

        RANK_CHECK(ranks_open(r, &d) == SR1_OK);
        RANK_CHECK(sr1__dist_meet(d, "here") == SR1_OK);
        if (ranks_self == 1 + i % (r->size - 1))
            usleep(20000);
        sr1__dist_free(d);
    }
}

static void test_again(void **state)
{
    (void)state;
    ranks_run_worlds(open_again);
}

/* Two jobs of two ranks at one port, each in processes of its own: the second begins
 * while the first one's store waits for its rank 1. */
static void follow_at_once(const struct ranks *r)
{
    struct sr1__launch l = ranks_launch(r);
    struct sr1__dist_options o = {.backend = "gloo", .limit = r->limit};
    int second = ranks_self >= 2;
    struct sr1__dist *d = NULL;

    l.world_size = l.local_world_size = 2;
    l.rank = l.local_rank = ranks_self % 2;
    while (second && !(r->shared->at[0] && r->shared->at[1]))
        usleep(1000);
    RANK_CHECK(sr1__dist_open(&d, &l, &o) == SR1_OK);
    RANK_CHECK(sr1__dist_meet(d, second ? "second" : "first") == SR1_OK);
    r->shared->at[ranks_self] = 1;
    if (ranks_self == 1)
        usleep(500000);
    sr1__dist_free(d);
}

static void test_follows_at_once(void **state)
{
    struct ranks r = {.size = 4, .limit = 20};

    (void)state;
    ranks_run(&r, follow_at_once, 0);
}

static void test_world_of_one(void **state)
{
    struct sr1__launch l = {.world_size = 1};
    struct sr1__dist_options o = {.backend = "gloo", .limit = 1};
    struct sr1__dist *d = (void *)&l;
    struct sr1__gathered g;
    char byte = 'x';
    size_t n;

    (void)state;
    OK(sr1__dist_open(&d, &l, &o));
    assert_null(d);
    assert_int_equal(sr1__dist_size(d), 1);
    OK(sr1__dist_meet(d, "here"));
    OK(sr1__dist_agree(d, "here", SR1_OK));
    REFUSED(sr1__dist_agree(d, "here", sr1__fail(SR1_E_IO, "own text")), SR1_E_IO,
            "own text");
    OK(sr1__dist_broadcast(d, "here", 0, &byte, 1));
    OK(sr1__dist_gather(d, "here", SR1_OK, &byte, 1, &g));
    assert_ptr_equal(sr1__gathered_of(&g, 0, &n), &byte);
    assert_int_equal(n, 1);
    sr1__gathered_free(&g);
    OK(sr1__dist_sum(d, "here", SR1_OK, NULL));
    OK(sr1__dist_same(d, "here", 1));
    sr1__dist_free(d);
}

/* ---- one status for all ---- */

static void agree_on_status(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    sr1_status own = SR1_OK;

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    RANK_CHECK(sr1__dist_agree(d, "all well", SR1_OK) == SR1_OK);
    if (ranks_self == 1)
        own = sr1__fail(SR1_E_IO, "the disk of rank one");
    RANK_CHECK(sr1__dist_agree(d, "a file", own) == SR1_E_IO);
    RANK_CHECK(strcmp(sr1_last_error(), "rank 1: the disk of rank one") == 0);
    /* what smaller pieces may avoid yields to what they do not */
    own = ranks_self == 0   ? sr1__fail_nomem("a tensor")
          : ranks_self == 2 ? sr1__fail(SR1_E_NUMERIC, "a loss")
                            : SR1_OK;
    RANK_CHECK(sr1__dist_agree(d, "a pass", own) == SR1_E_NUMERIC);
    RANK_CHECK(strcmp(sr1_last_error(), "rank 2: a loss") == 0);
    own = ranks_self == 2 ? sr1__fail(SR1_E_DEVICE_NOMEM, "memory") : SR1_OK;
    RANK_CHECK(sr1__dist_agree(d, "a pass", own) == SR1_E_DEVICE_NOMEM);
    RANK_CHECK(sr1__dist_meet(d, "the job goes on") == SR1_OK);
    sr1__dist_free(d);
}

static void test_agree(void **state)
{
    struct ranks r = {.size = 3, .limit = 30};

    (void)state;
    ranks_run(&r, agree_on_status, 0);
}

/* ---- ranks that are missing ---- */

static void miss_at_start(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    sr1_status st = ranks_open(r, &d);

    RANK_CHECK(st == SR1_E_TIMEOUT || (ranks_self > 0 && st == SR1_E_NETWORK));
    if (st == SR1_E_TIMEOUT)
        RANK_CHECK(strstr(sr1_last_error(), "ranks 2, 3 of a world of 4 are missing"));
}

static void test_missing_at_start(void **state)
{
    struct ranks r = {.size = 4, .started = 2, .limit = 8};

    (void)state;
    ranks_run(&r, miss_at_start, 0);
}

static void miss_meeting(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    sr1_status st;

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    RANK_CHECK(sr1__dist_meet(d, "before") == SR1_OK);
    while (ranks_self == 1 && atomic_load(&r->shared->stopped) < 2)
        usleep(10000); /* still rolls out */
    st = sr1__dist_await(d, "trajectories", SR1_OK);
    atomic_fetch_add(&r->shared->stopped, 1);
    if (ranks_self != 1) {
        RANK_CHECK(st == SR1_E_TIMEOUT);
        RANK_CHECK(strstr(sr1_last_error(),
                          "trajectories: after 8 s rank 1 of a world of 3 is missing "
                          "(rollout_timeout)"));
        RANK_CHECK(sr1__dist_meet(d, "later") == SR1_E_TIMEOUT); /* it is over */
    } else {
        if (st == SR1_OK) /* what the others sent before they gave up was there */
            st = sr1__dist_meet(d, "later");
        RANK_CHECK(st == SR1_E_NETWORK || st == SR1_E_TIMEOUT);
    }
    sr1__dist_free(d);
}

/* In debug mode the transport's limit holds, five seconds behind. */
static void miss_checked_meeting(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    sr1_status st;

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    if (ranks_self == 1)
        usleep(10000000);
    st = sr1__dist_meet(d, "late");
    if (ranks_self == 0) {
        RANK_CHECK(st == SR1_E_TIMEOUT);
        RANK_CHECK(strstr(sr1_last_error(), "late: after 2 s rank 1 of a world of 3 is "
                                            "missing (distributed_timeout)"));
    } else {
        RANK_CHECK(st == SR1_E_NETWORK || st == SR1_E_TIMEOUT);
    }
    sr1__dist_free(d);
}

static void test_missing_at_meeting(void **state)
{
    struct ranks r = {.size = 3, .limit = 30, .patience = 8};
    struct ranks checked = {.size = 3, .limit = 2, .debug = 1};

    (void)state;
    ranks_run(&r, miss_meeting, 0);
    if (getenv("SR1_DIST_ALL"))
        ranks_run(&checked, miss_checked_meeting, 0);
}

/* A rollout may take longer than an exchange, whose transport gives up five seconds
 * behind its limit. */
static void roll_out_slowly(const struct ranks *r)
{
    struct sr1__dist *d = NULL;

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    if (ranks_self == 1)
        usleep(11200000);
    RANK_CHECK(sr1__dist_await(d, "trajectories", SR1_OK) == SR1_OK);
    RANK_CHECK(sr1__dist_meet(d, "later") == SR1_OK);
    sr1__dist_free(d);
}

static void test_slow_rollout(void **state)
{
    struct ranks r = {.size = 2, .limit = 6, .patience = 60}, checked = r;

    (void)state;
    ranks_run(&r, roll_out_slowly, 0);
    checked.debug = 1;
    if (getenv("SR1_DIST_ALL"))
        ranks_run(&checked, roll_out_slowly, 0);
}

static void meet_elsewhere(const struct ranks *r)
{
    struct sr1__dist *d = NULL;

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    RANK_CHECK(sr1__dist_meet(d, ranks_self ? "here" : "there") == SR1_E_STATE);
    RANK_CHECK(strstr(sr1_last_error(), ranks_self ? "is at 'here'" : "is at 'there'"));
    sr1__dist_free(d);
}

static void disagree_on_sizes(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    char bytes[8] = "";

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    RANK_CHECK(sr1__dist_broadcast(d, "a seed", 0, bytes, ranks_self ? 4 : 8) ==
               SR1_E_STATE);
    RANK_CHECK(strstr(sr1_last_error(), "a seed: rank 1 has size 4 and rank 0 size 8"));
    sr1__dist_free(d);
}

static void test_other_programs(void **state)
{
    struct ranks r = {.size = 2, .limit = 30}, s = r;

    (void)state;
    ranks_run(&r, meet_elsewhere, 0);
    ranks_run(&s, disagree_on_sizes, 0);
}

/* c10d itself, without a meeting before: sizes that differ abort a process, unless its
 * wrapper compares them. */
static void mismatch_below(const struct ranks *r)
{
    struct sr1__store *store = NULL, *at[2] = {NULL, NULL};
    struct sr1__process_group *group = NULL, *helper = NULL, *checked = NULL;
    struct sr1__work *w = NULL;
    const int64_t shape = ranks_self ? 100 : 200;
    sr1_tensor *t = NULL;
    sr1_status st;

    sr1__comm_quiet();
    RANK_CHECK(sr1__store_tcp(&store, "127.0.0.1", r->port, ranks_self == 0, 2, 20000,
                              20000) == SR1_OK);
    RANK_CHECK(sr1__store_prefix(&at[0], store, "a/") == SR1_OK);
    RANK_CHECK(sr1__store_prefix(&at[1], store, "b/") == SR1_OK);
    RANK_CHECK(sr1__pg_gloo(&group, at[0], ranks_self, 2, NULL, 20000) == SR1_OK);
    RANK_CHECK(sr1__pg_gloo(&helper, at[1], ranks_self, 2, NULL, 20000) == SR1_OK);
    RANK_CHECK(sr1__pg_checked(&checked, group, helper) == SR1_OK);
    RANK_CHECK(sr1__shim_full(&t, 1.0, SR1__F32, 1, &shape, SR1__CPU) == SR1_OK);
    st = sr1__pg_all_reduce(&w, checked, t, 20000);
    RANK_CHECK(st == SR1_E_INVALID);
    RANK_CHECK(strstr(sr1_last_error(), "ALLREDUCE") &&
               strstr(sr1_last_error(), ranks_self ? "100" : "200"));
    usleep(300000); /* the store is rank 0's */
}

static void test_mismatch(void **state)
{
    struct ranks r = {.size = 2, .limit = 20};

    (void)state;
    ranks_run(&r, mismatch_below, 0);
}

/* ---- ranks that die ---- */

static void lose_rank(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    char named[40];
    double began;

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    RANK_CHECK(sr1__dist_meet(d, "before") == SR1_OK);
    if (ranks_self == r->chosen) {
        usleep(200000); /* the others wait already */
        kill(getpid(), SIGKILL);
    }
    began = sr1__now();
    RANK_CHECK(sr1__dist_meet(d, "after") == SR1_E_NETWORK);
    snprintf(named, sizeof named, "a rank is gone (rank %d)", (int)r->chosen);
    RANK_CHECK(sr1__now() - began < r->limit / 2 && strstr(sr1_last_error(), named));
    sr1__dist_free(d);
}

static void test_killed(void **state)
{
    static const int32_t victims[] = {1, 0};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct ranks r = {.size = 3, .limit = 20, .chosen = victims[i]};

        ranks_run(&r, lose_rank, 1u << r.chosen);
    }
}

/* A rank stands still, rank 0 with its store, until the other has given up on it. */
static void stand_still(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    char named[60];

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    r->shared->hash[ranks_self] = (uint64_t)getpid();
    for (int i = 0; i < 5; i++)
        RANK_CHECK(sr1__dist_meet(d, "before") == SR1_OK);
    if (ranks_self == r->chosen) {
        raise(SIGSTOP);
    } else {
        RANK_CHECK(sr1__dist_await(d, "after", SR1_OK) == SR1_E_TIMEOUT);
        snprintf(named, sizeof named, "rank %d of a world of 2 is missing",
                 (int)r->chosen);
        RANK_CHECK(strstr(sr1_last_error(), named));
        kill((pid_t)r->shared->hash[r->chosen], SIGCONT);
    }
    sr1__dist_free(d);
}

static void test_stopped(void **state)
{
    (void)state;
    for (int32_t still = 0; still < 2; still++) {
        struct ranks r = {.size = 2, .limit = 60, .patience = 2, .chosen = still};

        ranks_run(&r, stand_still, 0);
    }
}

/* Rank 1 fails while rank 0 stands still, with its store: its own error is told, when it
 * has waited for the meeting. */
static void fail_beside_still(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    double began;

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    r->shared->hash[ranks_self] = (uint64_t)getpid();
    RANK_CHECK(sr1__dist_meet(d, "before") == SR1_OK);
    if (ranks_self == 0) {
        raise(SIGSTOP);
    } else {
        began = sr1__now();
        RANK_CHECK(sr1__dist_await(d, "trajectories",
                                   sr1__fail(SR1_E_IO, "the disk is full")) == SR1_E_IO);
        RANK_CHECK(strcmp(sr1_last_error(), "the disk is full") == 0);
        RANK_CHECK(sr1__now() - began >= r->patience);
        RANK_CHECK(sr1__dist_meet(d, "later") == SR1_E_TIMEOUT);
        RANK_CHECK(strstr(sr1_last_error(), "rank 0 of a world of 2 is missing"));
        kill((pid_t)r->shared->hash[0], SIGCONT);
    }
    sr1__dist_free(d);
}

/* The first to leave a mark: rank 0 stands still then until the other has given up. */
static const struct ranks *stopping;

sr1_status __real_sr1__mark_leave(struct sr1__store *s, const char *what, int64_t meeting,
                                  int32_t rank, const char *text);

sr1_status __wrap_sr1__mark_leave(struct sr1__store *s, const char *what, int64_t meeting,
                                  int32_t rank, const char *text);

sr1_status __wrap_sr1__mark_leave(struct sr1__store *s, const char *what, int64_t meeting,
                                  int32_t rank, const char *text)
{
    sr1_status st = __real_sr1__mark_leave(s, what, meeting, rank, text);

    if (stopping && strcmp(what, "here") == 0)
        kill((pid_t)stopping->shared->hash[0], SIGSTOP);
    return st;
}

static void open_beside_still(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    sr1_status st;

    if (ranks_self == 0)
        r->shared->hash[0] = (uint64_t)getpid();
    else
        stopping = r;
    st = ranks_open(r, &d);
    if (ranks_self == 1) {
        RANK_CHECK(st == SR1_E_TIMEOUT);
        RANK_CHECK(strstr(sr1_last_error(), "rank 0 of a world of 2 is missing"));
        kill((pid_t)r->shared->hash[0], SIGCONT);
    } else {
        RANK_CHECK(st != SR1_OK);
    }
}

static void test_store_that_stands_still(void **state)
{
    struct ranks r = {.size = 2, .limit = 60, .patience = 3};
    struct ranks opening = {.size = 2, .limit = 5};

    (void)state;
    ranks_run(&r, fail_beside_still, 0);
    ranks_run(&opening, open_beside_still, 0);
}

/* The cause is told at its own rank too, where the others are gone already. */
static void fail_alone(const struct ranks *r)
{
    struct sr1__dist *d = NULL;

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    RANK_CHECK(sr1__dist_meet(d, "before") == SR1_OK);
    if (ranks_self == 0) {
        while (!r->shared->at[1])
            usleep(1000);
        RANK_CHECK(sr1__dist_agree(d, "write", sr1__fail(SR1_E_IO, "the disk is full")) ==
                   SR1_E_IO);
        RANK_CHECK(strstr(sr1_last_error(), "the disk is full"));
        sr1__dist_free(d);
        return;
    }
    r->shared->at[1] = 1;
    sr1__dist_free(d);
}

static void test_own_failure_is_kept(void **state)
{
    struct ranks r = {.size = 2, .limit = 5};

    (void)state;
    ranks_run(&r, fail_alone, 0);
}

/* A failure that was agreed on keeps its rank, whatever was said around it since. */
static void agree_twice(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    sr1_status st = SR1_OK;

    RANK_CHECK(ranks_open(r, &d) == SR1_OK);
    if (ranks_self == 1)
        st = sr1__fail(SR1_E_IO, "the disk is full");
    st = sr1__context(sr1__dist_agree(d, "step", st), "step %d", 5);
    RANK_CHECK(sr1__dist_agree(d, "end of the step", st) == SR1_E_IO);
    RANK_CHECK(strcmp(sr1_last_error(), "step 5: rank 1: the disk is full") == 0);
    sr1__dist_free(d);
}

static void test_agreed_twice(void **state)
{
    struct ranks r = {.size = 2, .limit = 20};

    (void)state;
    ranks_run(&r, agree_twice, 0);
}

/* ---- the store's port, and the stop flag ---- */

/* What holds the port takes connections and never says a word. */
static void take_port(const struct ranks *r)
{
    struct sr1__dist *d = NULL;
    sr1_status st = ranks_open(r, &d);

    RANK_CHECK(ranks_self > 0 || st == SR1_E_NETWORK);
    if (ranks_self == 0)
        RANK_CHECK(strstr(sr1_last_error(), "rank 0 cannot open its store at port"));
    else
        RANK_CHECK(st == SR1_E_TIMEOUT &&
                   strstr(sr1_last_error(), "does not answer as rank 0's store"));
}

static void test_port_taken(void **state)
{
    struct ranks r = {.size = 2, .limit = 2};
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    at.sin_addr.s_addr = htonl(INADDR_ANY);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    r.port = ntohs(at.sin_port);
    ranks_run(&r, take_port, 0);
    close(fd);
}

static void *set_flag(void *flag)
{
    usleep(300000);
    atomic_store((atomic_int *)flag, 1);
    return NULL;
}

static void stop_waiting(const struct ranks *r)
{
    static atomic_int flag;
    struct sr1__launch l = ranks_launch(r);
    struct sr1__dist_options o = {.backend = "gloo", .limit = 20, .stop = &flag};
    struct sr1__dist *d = NULL;
    pthread_t thread;

    RANK_CHECK(sr1__dist_open(&d, &l, &o) == SR1_OK);
    if (ranks_self == 1) {
        while (atomic_load(&r->shared->stopped) == 0)
            usleep(10000);
        usleep(1000000); /* its transport sees meanwhile that the other has gone */
        RANK_CHECK(sr1__dist_meet(d, "here") == SR1_E_NETWORK);
        sr1__dist_free(d);
        return;
    }
    RANK_CHECK(pthread_create(&thread, NULL, set_flag, &flag) == 0);
    RANK_CHECK(sr1__dist_meet(d, "here") == SR1_E_CANCELLED);
    atomic_store(&r->shared->stopped, 1); /* the other came later only */
    pthread_join(thread, NULL);
    _exit(0); /* the wait that was given up has a thread yet */
}

static void test_stop(void **state)
{
    struct ranks r = {.size = 2, .limit = 20};

    (void)state;
    ranks_run(&r, stop_waiting, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_follows_at_once),
        cmocka_unit_test(test_agree),
        cmocka_unit_test(test_missing_at_start),
        cmocka_unit_test(test_missing_at_meeting),
        cmocka_unit_test(test_slow_rollout),
        cmocka_unit_test(test_other_programs),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_store_that_stands_still),
        cmocka_unit_test(test_own_failure_is_kept),
        cmocka_unit_test(test_agreed_twice),
        cmocka_unit_test(test_port_taken),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_world_of_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
