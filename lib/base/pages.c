/* base/pages.c - see pages.h. Blocks are large and so few: each is an entry of a list
 * that is searched from end to end. */
#include "base/pages.h"

#include <pthread.h>
#include <stdint.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

/* AddressSanitizer finds what is read behind or after a block of malloc. */
#if defined(__SANITIZE_ADDRESS__)
#define LEFT_TO_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEFT_TO_MALLOC 1
#endif
#endif
#if !defined(MADV_HUGEPAGE) && !defined(LEFT_TO_MALLOC)
#define LEFT_TO_MALLOC 1
#endif

#ifdef LEFT_TO_MALLOC

void *sr1__pages_alloc(size_t size)
{
    (void)size;
    return NULL;
}

int sr1__pages_free(void *p)
{
    (void)p;
    return 0;
}

struct sr1__pages_bytes sr1__pages_bytes(void)
{
    return (struct sr1__pages_bytes){0, 0, 0};
}

#else

#define HUGE_PAGE ((size_t)2 << 20)
#define STEP ((size_t)64 << 10) /* of sizes; a multiple of any system's page */
#define SPARE 16 /* a block may be larger than asked for by one part of so many */
#define BLOCKS_MOST 65536 /* the system has no more mappings for a process */

struct page_block {
    char *at;
    size_t size;
    uint64_t freed; /* the number of frees before; 0: in use */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct page_block blocks[BLOCKS_MOST];
static size_t n_blocks;
static struct sr1__pages_bytes bytes;
static uint64_t frees;

/* ---- the system's ---- */

/* Addresses behind a huge page's beginning, as many as asked for; NULL without memory. */
static char *map_pages(size_t size)
{
    char *from = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;

    if (from == MAP_FAILED)
        return NULL;
    before = (HUGE_PAGE - (uintptr_t)from % HUGE_PAGE) % HUGE_PAGE;
    if (before > 0)
        (void)munmap(from, before);
    (void)munmap(from + before + size, HUGE_PAGE - before);
    /* The system may refuse: small pages are slower, no failure. */
    (void)madvise(from + before, size, MADV_HUGEPAGE);
    return from + before;
}

static void return_block(size_t i)
{
    (void)munmap(blocks[i].at, blocks[i].size);
    bytes.kept -= blocks[i].size;
    blocks[i] = blocks[--n_blocks];
}

/* Those freed first go, until at most `most` bytes are kept. */
static void return_kept(size_t most)
{
    while (bytes.kept > most) {
        size_t first = n_blocks;

        for (size_t i = 0; i < n_blocks; i++)
            if (blocks[i].freed > 0 &&
                (first == n_blocks || blocks[i].freed < blocks[first].freed))
                first = i;
        return_block(first);
    }
}

/* ---- blocks ---- */

/* The smallest that is kept and fits; NULL: there is none. */
static struct page_block *find_kept(size_t size)
{
    struct page_block *best = NULL;

    for (struct page_block *b = blocks; b < blocks + n_blocks; b++)
        if (b->freed > 0 && b->size >= size && b->size - size <= size / SPARE &&
            (!best || b->size < best->size))
            best = b;
    return best;
}

static struct page_block *add_block(size_t size)
{
    size_t used = bytes.used + size;
    char *at;

    return_kept((bytes.most > used ? bytes.most - used : 0) + SR1__PAGES_BEYOND);
    if (n_blocks == BLOCKS_MOST)
        return NULL;
    at = map_pages(size);
    if (!at) {
        return_kept(0);
        at = map_pages(size);
    }
    if (!at)
        return NULL;
    bytes.kept += size; /* until it is handed out */
    blocks[n_blocks] = (struct page_block){at, size, 1};
    return &blocks[n_blocks++];
}

static void use_block(struct page_block *b)
{
    b->freed = 0;
    bytes.kept -= b->size;
    bytes.used += b->size;
    if (bytes.most < bytes.used)
        bytes.most = bytes.used;
}

/* ---- one thread at a time, and a child of fork none that is gone ---- */

static void lock_pages(void)
{
    (void)pthread_mutex_lock(&lock);
}

static void unlock_pages(void)
{
    (void)pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    (void)pthread_atfork(lock_pages, unlock_pages, unlock_pages);
}

void *sr1__pages_alloc(size_t size)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    struct page_block *b;
    char *at = NULL;

    if (size < SR1__PAGES_LEAST || size > SIZE_MAX / 2)
        return NULL;
    (void)pthread_once(&watched, watch_forks);
    size = (size + STEP - 1) / STEP * STEP;
    lock_pages();
    b = find_kept(size);
    b = b ? b : add_block(size);
    if (b) {
        use_block(b);
        at = b->at;
    }
    unlock_pages();
    return at;
}

int sr1__pages_free(void *p)
{
    size_t i = 0;
    int found;

    if ((uintptr_t)p % HUGE_PAGE != 0)
        return 0;
    lock_pages();
    while (i < n_blocks && (blocks[i].at != p || blocks[i].freed > 0))
        i++;
    found = i < n_blocks;
    if (found) {
        blocks[i].freed = ++frees;
        bytes.used -= blocks[i].size;
        bytes.kept += blocks[i].size;
    }
    unlock_pages();
    return found;
}

struct sr1__pages_bytes sr1__pages_bytes(void)
{
    struct sr1__pages_bytes now;

    lock_pages();
    now = bytes;
    unlock_pages();
    return now;
}

#endif
