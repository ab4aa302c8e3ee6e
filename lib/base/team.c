/* base/team.c - a loop is one word of its number and the next index, which a thread moves
 * on to claim that index.
 *
 * The loop's function, argument and size are read before a claim. They belong to the loop
 * of the word read before them if the claim succeeds, because the caller writes them only
 * while the index is CLOSED, and that is after every index has been claimed. */
#include "base/team.h"

#include "base/mem.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#define MAX_THREADS 1024
#define CLOSED 0xffffffffu
#define SPIN_MOST 4096 /* looks at a word before sleeping: 50 to 200 microseconds */
#define SPIN_LEAST 64

struct team_member {
    struct sr1__team *team;
    pthread_t thread;
    int32_t index;
};

struct sr1__team {
    _Alignas(64) atomic_uint_fast64_t word; /* number of the loop << 32 | next index */
    _Alignas(64) atomic_uint_fast32_t done; /* iterations that have returned */
    _Alignas(64) _Atomic(sr1__team_fn) fn;
    _Atomic(void *) arg;
    atomic_uint_fast32_t n;
    atomic_int sleepers; /* members asleep */
    atomic_int waits;    /* the caller is asleep */
    atomic_int quit;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* a loop has begun, or quit */
    pthread_cond_t rest; /* done has reached n */
    struct team_member *members;
    int32_t n_threads; /* the caller included */
    uint32_t number;   /* of the last loop */
    uint32_t spin;     /* the caller's */
};

static void pause_thread(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static uint32_t adapt_spin(uint32_t spin, int in_vain)
{
    if (in_vain)
        return spin / 2 > SPIN_LEAST ? spin / 2 : SPIN_LEAST;
    return spin * 2 < SPIN_MOST ? spin * 2 : SPIN_MOST;
}

/* Take part in loop `number` until nothing of it is left to claim. */
static void run_claimed(struct sr1__team *t, uint32_t number, int32_t thread)
{
    uint_fast64_t word = atomic_load(&t->word);

    while ((uint32_t)(word >> 32) == number) {
        sr1__team_fn fn = atomic_load_explicit(&t->fn, memory_order_relaxed);
        void *arg = atomic_load_explicit(&t->arg, memory_order_relaxed);
        uint32_t n = (uint32_t)atomic_load_explicit(&t->n, memory_order_relaxed);
        uint32_t i = (uint32_t)word;

        if (i >= n)
            return;
        if (!atomic_compare_exchange_weak(&t->word, &word, word + 1))
            continue;
        fn(arg, i, thread);
        if (atomic_fetch_add(&t->done, 1) + 1 == n && atomic_load(&t->waits)) {
            pthread_mutex_lock(&t->lock);
            pthread_cond_signal(&t->rest);
            pthread_mutex_unlock(&t->lock);
        }
        word = atomic_load(&t->word);
    }
}

/* ---- members ---- */

static int has_team_work(struct sr1__team *t, uint32_t seen)
{
    return (uint32_t)(atomic_load(&t->word) >> 32) != seen || atomic_load(&t->quit);
}

static void sleep_until_work(struct sr1__team *t, uint32_t seen)
{
    pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->sleepers, 1);
    while (!has_team_work(t, seen))
        pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->sleepers, 1);
    pthread_mutex_unlock(&t->lock);
}

static uint32_t await_work(struct sr1__team *t, uint32_t seen, uint32_t spin)
{
    for (uint32_t i = 0; i < spin; i++) {
        if (has_team_work(t, seen))
            return adapt_spin(spin, 0);
        pause_thread();
    }
    sleep_until_work(t, seen);
    return adapt_spin(spin, 1);
}

static void *run_team_member(void *arg)
{
    const struct team_member *m = arg;
    struct sr1__team *t = m->team;
    uint32_t spin = SPIN_MOST;
    uint32_t seen = 0;

    while (!atomic_load(&t->quit)) {
        spin = await_work(t, seen, spin);
        seen = (uint32_t)(atomic_load(&t->word) >> 32);
        run_claimed(t, seen, m->index);
    }
    return NULL;
}

/* ---- the caller ---- */

static void wake_sleepers(struct sr1__team *t)
{
    if (atomic_load(&t->sleepers) == 0)
        return;
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

static void begin_loop(struct sr1__team *t, size_t n, sr1__team_fn fn, void *arg)
{
    atomic_store_explicit(&t->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&t->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&t->n, (uint32_t)n, memory_order_relaxed);
    atomic_store(&t->done, 0);
    t->number++;
    atomic_store(&t->word, (uint_fast64_t)t->number << 32);
    wake_sleepers(t);
}

static void await_done(struct sr1__team *t, uint32_t n)
{
    for (uint32_t i = 0; i < t->spin; i++) {
        if (atomic_load(&t->done) == n) {
            t->spin = adapt_spin(t->spin, 0);
            return;
        }
        pause_thread();
    }
    t->spin = adapt_spin(t->spin, 1);
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->waits, 1);
    while (atomic_load(&t->done) != n)
        pthread_cond_wait(&t->rest, &t->lock);
    atomic_store(&t->waits, 0);
    pthread_mutex_unlock(&t->lock);
}

void sr1__team_run(struct sr1__team *t, size_t n, sr1__team_fn fn, void *arg)
{
    if (!t || t->n_threads == 1 || n <= 1) {
        for (size_t i = 0; i < n; i++)
            fn(arg, i, 0);
        return;
    }
    begin_loop(t, n, fn, arg);
    run_claimed(t, t->number, 0);
    await_done(t, (uint32_t)n);
    atomic_store(&t->word, (uint_fast64_t)t->number << 32 | CLOSED);
}

/* ---- making ---- */

/* Stop and join the first `started` members. */
static void join_members(struct sr1__team *t, int32_t started)
{
    pthread_mutex_lock(&t->lock);
    atomic_store(&t->quit, 1);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
    for (int32_t i = 0; i < started; i++)
        pthread_join(t->members[i].thread, NULL);
    pthread_cond_destroy(&t->rest);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    sr1__free(t->members);
    sr1__free(t);
}

static int32_t count_team_threads(int32_t n_threads)
{
    long n = n_threads ? n_threads : sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int32_t)n;
}

static sr1_status start_members(struct sr1__team *t)
{
    for (int32_t i = 0; i < t->n_threads - 1; i++) {
        struct team_member *m = &t->members[i];

        *m = (struct team_member){.team = t, .index = i + 1};
        if (sr1__thread_start(&m->thread, run_team_member, m) != 0) {
            int32_t n = t->n_threads;

            join_members(t, i);
            return sr1__fail(SR1_E_LIMIT,
                             "team of threads: the system refused thread %d of %d; set "
                             "fewer threads",
                             (int)i + 1, (int)n);
        }
    }
    return SR1_OK;
}

sr1_status sr1__team_new(struct sr1__team **out, int32_t n_threads)
{
    struct sr1__team *t;

    if (n_threads < 0 || n_threads > MAX_THREADS)
        return sr1__fail(SR1_E_INVALID, "threads: %d is not in 0..%d", (int)n_threads,
                         MAX_THREADS);
    t = sr1__malloc_aligned(sizeof *t);
    SR1__CHECK_ALLOC(t, "team of threads");
    *t = (struct sr1__team){.word = CLOSED, .spin = SPIN_MOST};
    t->n_threads = count_team_threads(n_threads);
    t->members = sr1__calloc((size_t)t->n_threads, sizeof *t->members);
    if (!t->members) {
        sr1__free(t);
        return sr1__fail_nomem("team of threads");
    }
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    pthread_cond_init(&t->rest, NULL);
    SR1__TRY(start_members(t));
    *out = t;
    return SR1_OK;
}

void sr1__team_free(struct sr1__team *t)
{
    if (t)
        join_members(t, t->n_threads - 1);
}

int32_t sr1__team_threads(const struct sr1__team *t)
{
    return t ? t->n_threads : 1;
}
