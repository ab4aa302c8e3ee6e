/* base/mem.c - malloc with overflow checks, a count of live blocks and a way to make the
 * n-th allocation fail. The counters are relaxed atomics: they order nothing. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#define LEAST_ROOM 8 /* elements of an array that grows */
#define LINE ((size_t)64)
#define HUGE_PAGE ((size_t)2 << 20)
#define LEAST_HUGE (4 * HUGE_PAGE) /* below, rounding up would waste too much */

static atomic_int_fast64_t made;    /* since the last sr1__mem_fail_at */
static atomic_int_fast64_t fail_at; /* 0: never */
static atomic_int_fast64_t live;

static int must_fail(void)
{
    int64_t n = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) + 1;

    return n == atomic_load_explicit(&fail_at, memory_order_relaxed);
}

static void *count_block(void *p)
{
    if (p)
        atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return p;
}

void *sr1__malloc(size_t size)
{
    return must_fail() ? NULL : count_block(malloc(size ? size : 1));
}

void *sr1__calloc(size_t count, size_t size)
{
    if (count == 0 || size == 0)
        count = size = 1;
    return must_fail() ? NULL : count_block(calloc(count, size));
}

/* The system may refuse: small pages are slower, no failure. */
static void ask_for_huge_pages(void *p, size_t size)
{
#if defined(MADV_HUGEPAGE)
    if (p && size >= LEAST_HUGE)
        (void)madvise(p, size, MADV_HUGEPAGE);
#else
    (void)p;
    (void)size;
#endif
}

void *sr1__malloc_aligned(size_t size)
{
    size_t step = size >= LEAST_HUGE ? HUGE_PAGE : LINE;
    void *p;

    if (must_fail() || size > SIZE_MAX - step)
        return NULL;
    size = size ? (size + step - 1) / step * step : step;
    p = aligned_alloc(step, size);
    ask_for_huge_pages(p, size);
    return count_block(p);
}

void *sr1__realloc(void *p, size_t count, size_t size)
{
    size_t bytes;
    void *q;

    if (must_fail() || __builtin_mul_overflow(count, size, &bytes))
        return NULL;
    q = realloc(p, bytes ? bytes : 1);
    return p ? q : count_block(q);
}

void *sr1__grow(void *v, size_t *cap, size_t n, size_t size)
{
    size_t more = *cap < SIZE_MAX / 2 ? 2 * *cap : SIZE_MAX;

    more = more < n ? n : more;
    more = more < LEAST_ROOM ? LEAST_ROOM : more;
    v = sr1__realloc(v, more, size);
    if (v)
        *cap = more;
    return v;
}

char *sr1__strdup(const char *s)
{
    return sr1__strndup(s, strlen(s));
}

char *sr1__strndup(const char *s, size_t n)
{
    char *copy = n < SIZE_MAX ? sr1__malloc(n + 1) : NULL;

    if (!copy)
        return NULL;
    if (n)
        memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

void *sr1__memdup(const void *p, size_t n)
{
    void *copy = sr1__malloc(n);

    if (copy && n)
        memcpy(copy, p, n);
    return copy;
}

void sr1__free(void *p)
{
    if (!p)
        return;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    free(p);
}

void sr1__mem_trim(void)
{
#if defined(__GLIBC__)
    (void)malloc_trim(0);
#endif
}

void sr1__mem_fail_at(int64_t n)
{
    atomic_store_explicit(&made, 0, memory_order_relaxed);
    atomic_store_explicit(&fail_at, n, memory_order_relaxed);
}

int64_t sr1__mem_count(void)
{
    return atomic_load_explicit(&made, memory_order_relaxed);
}

int64_t sr1__mem_live(void)
{
    return atomic_load_explicit(&live, memory_order_relaxed);
}
