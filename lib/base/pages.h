/* base/pages.h - large blocks of memory, in huge pages of the system where it has them.
 *
 * A block that is freed is kept for a later one of its size: the system would clear it
 * anew. What is kept hardly raises the peak: with the blocks in use it has at most
 * SR1__PAGES_BEYOND bytes more than were in use at once before, and the blocks freed
 * first go back to the system. */
#ifndef SR1__BASE_PAGES_H
#define SR1__BASE_PAGES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SR1__PAGES_LEAST ((size_t)1 << 20) /* bytes of a block */
#define SR1__PAGES_BEYOND ((size_t)64 << 20)

/* At a huge page; its bytes are of any value. NULL: there is no memory, fewer than
 * SR1__PAGES_LEAST were asked for, or this build leaves all blocks to malloc. */
void *sr1__pages_alloc(size_t size);
/* 0: p is no such block, and stays as it is. */
int sr1__pages_free(void *p);

/* Bytes of blocks. */
struct sr1__pages_bytes {
    size_t used; /* now */
    size_t kept; /* free, to be used again */
    size_t most; /* that were used at once */
};
struct sr1__pages_bytes sr1__pages_bytes(void);

#ifdef __cplusplus
}
#endif

#endif
