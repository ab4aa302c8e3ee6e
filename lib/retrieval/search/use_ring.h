/* retrieval/search/use_ring.h - an LRU list of cache entries. The link is the first
 * member of an entry, so a pointer to it is a pointer to the entry. */
#ifndef SR1__SEARCH_USE_RING_H
#define SR1__SEARCH_USE_RING_H

#include <stddef.h>

struct sr1__use {
    struct sr1__use *newer;
    struct sr1__use *older;
};

struct sr1__use_ring {
    struct sr1__use *newest;
    struct sr1__use *oldest;
};

static inline void sr1__use_unlink(struct sr1__use_ring *r, struct sr1__use *u)
{
    *(u->newer != NULL ? &u->newer->older : &r->newest) = u->older;
    *(u->older != NULL ? &u->older->newer : &r->oldest) = u->newer;
}

static inline void sr1__use_link(struct sr1__use_ring *r, struct sr1__use *u)
{
    u->newer = NULL;
    u->older = r->newest;
    *(r->newest != NULL ? &r->newest->newer : &r->oldest) = u;
    r->newest = u;
}

#endif
