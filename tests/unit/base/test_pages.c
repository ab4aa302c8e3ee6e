/* Large blocks: a freed one serves again, what is kept hardly raises the peak, and
 * nothing in use is handed out twice, whatever threads ask for it. */
#include "../../support/torture.h"

#include "base/clock.h"
#include "base/pages.h"
#include "base/pool.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define PLACES 24
#define STEPS 400
#define THREADS 4

static int are_blocks_malloced(void)
{
    void *p = sr1__pages_alloc(SR1__PAGES_LEAST);
    int malloced = p == NULL;

    sr1__pages_free(p);
    return malloced;
}

static void needs_blocks(void)
{
    if (are_blocks_malloced())
        skip();
}

static void a_freed_block_is_the_next_of_its_size(void **state)
{
    char *a, *b, *c;

    (void)state;
    needs_blocks();
    a = sr1__pages_alloc(8 * MIB);
    b = sr1__pages_alloc(8 * MIB);
    memset(a, 1, 8 * MIB);
    memset(b, 2, 8 * MIB);
    assert_int_equal(sr1__pages_free(a), 1);
    assert_int_equal(sr1__pages_free(a), 0); /* it is no block in use */
    c = sr1__pages_alloc(8 * MIB - MIB / 4); /* nearly its size */
    assert_ptr_equal(c, a);
    a = sr1__pages_alloc(3 * MIB); /* far from the size of any */
    assert_ptr_not_equal(a, b);
    assert_int_equal(b[8 * MIB - 1], 2);
    assert_int_equal(sr1__pages_free(a) + sr1__pages_free(b) + sr1__pages_free(c), 3);
}

static void what_is_no_block_is_left_alone(void **state)
{
    char *p = sr1__malloc(MIB), *aligned = aligned_alloc(2 * MIB, 2 * MIB);

    (void)state;
    assert_null(sr1__pages_alloc(SR1__PAGES_LEAST - 1));
    assert_null(sr1__pages_alloc(SIZE_MAX));
    assert_null(sr1__pages_alloc(SIZE_MAX / 2)); /* nobody has that much */
    assert_int_equal(sr1__pages_free(p), 0);
    assert_int_equal(sr1__pages_free(aligned), 0);
    assert_int_equal(sr1__pages_free(NULL), 0);
    sr1__free(p);
    free(aligned);
}

/* Blocks that come and go, and how many bytes they have together. */
struct blocks {
    unsigned char *at[PLACES];
    size_t size[PLACES];
    size_t used, most;
};

static void change_place(struct blocks *b, size_t i, size_t size)
{
    if (b->at[i]) {
        for (size_t k = 0; k < b->size[i]; k += 4096)
            assert_int_equal(b->at[i][k], i + 1);
        assert_int_equal(sr1__pages_free(b->at[i]), 1);
        b->used -= b->size[i];
        b->at[i] = NULL;
        return;
    }
    b->at[i] = sr1__pages_alloc(size);
    assert_non_null(b->at[i]);
    memset(b->at[i], (int)i + 1, size);
    b->size[i] = size;
    b->used += size;
    b->most = b->used > b->most ? b->used : b->most;
}

static void free_places(struct blocks *b)
{
    for (size_t i = 0; i < PLACES; i++)
        if (b->at[i])
            change_place(b, i, 0);
}

static void what_is_kept_hardly_raises_the_peak(void **state)
{
    struct blocks b = {.used = 0};
    size_t before = (size_t)sr1__rss_bytes();
    struct sr1__rng rng;

    (void)state;
    needs_blocks();
    sr1__rng_seed(&rng, 5, 0);
    for (int i = 0; i < STEPS; i++) {
        struct sr1__pages_bytes now;
        size_t size = MIB + sr1__rng_u64(&rng) % (16 * MIB);

        change_place(&b, sr1__rng_u64(&rng) % PLACES, size);
        now = sr1__pages_bytes();
        assert_true(now.used >= b.used);
        assert_true(now.used <= b.used + b.used / 16 + PLACES * MIB);
        assert_true(now.used + now.kept <= now.most + SR1__PAGES_BEYOND);
        assert_true((size_t)sr1__rss_bytes() <
                    before + now.most + SR1__PAGES_BEYOND + 4 * MIB);
    }
    assert_true(sr1__pages_bytes().most <= b.most + b.most / 16 + PLACES * MIB);
    free_places(&b);
    assert_int_equal(sr1__pages_bytes().used, 0);
}

static sr1_status come_and_go(void *arg, size_t thread)
{
    struct blocks b = {.used = 0};
    struct sr1__rng rng;

    (void)arg;
    sr1__rng_seed(&rng, 7, thread);
    for (int i = 0; i < STEPS / THREADS; i++)
        change_place(&b, sr1__rng_u64(&rng) % PLACES, MIB * (1 + sr1__rng_u64(&rng) % 4));
    free_places(&b);
    return SR1_OK;
}

static void threads_share_them(void **state)
{
    struct sr1__pool *pool = NULL;

    (void)state;
    needs_blocks();
    assert_int_equal(sr1__pool_new(&pool, THREADS), SR1_OK);
    assert_int_equal(sr1__pool_run(pool, THREADS, come_and_go, NULL), SR1_OK);
    sr1__pool_free(pool);
    assert_int_equal(sr1__pages_bytes().used, 0);
}

/* As a child of a process whose threads go on. */
static void a_child_of_fork_has_its_own(void **state)
{
    char *mine = sr1__pages_alloc(2 * MIB);
    int how = -1;
    pid_t child;

    (void)state;
    needs_blocks();
    memset(mine, 1, 2 * MIB);
    child = fork();
    if (child == 0) {
        char *p = sr1__pages_alloc(2 * MIB);

        if (p)
            memset(p, 2, 2 * MIB);
        _exit(!(p && p != mine && sr1__pages_free(p) && mine[MIB] == 1));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    sr1__pages_free(mine);
}

/* Through base/mem.h they are as other blocks are. */
static void an_aligned_block_is_one(void **state)
{
    int64_t live = sr1__mem_live();
    size_t used = sr1__pages_bytes().used;
    char *p = sr1__malloc_aligned(4 * MIB), *small = sr1__malloc_aligned(1);

    (void)state;
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal((uintptr_t)small % 64, 0);
    assert_int_equal(sr1__mem_live(), live + 2);
    assert_int_equal(sr1__pages_bytes().used, are_blocks_malloced() ? 0 : used + 4 * MIB);
    sr1__free(p);
    sr1__free(small);
    assert_int_equal(sr1__mem_live(), live);
    assert_int_equal(sr1__pages_bytes().used, used);
    sr1__mem_fail_at(1);
    assert_null(sr1__malloc_aligned(4 * MIB));
    sr1__mem_fail_at(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_freed_block_is_the_next_of_its_size),
        cmocka_unit_test(what_is_no_block_is_left_alone),
        cmocka_unit_test(what_is_kept_hardly_raises_the_peak),
        cmocka_unit_test(threads_share_them),
        cmocka_unit_test(a_child_of_fork_has_its_own),
        cmocka_unit_test(an_aligned_block_is_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
