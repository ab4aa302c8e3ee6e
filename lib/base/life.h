/* base/life.h - a handle that one of its own callbacks frees lives until the call
 * returns.
 *
 *     sr1__life_hold(&x->life);          before the callbacks
 *     ...
 *     sr1_x_free(x);                     what the call held
 *
 *     void sr1_x_free(sr1_x *x)          its owner's reference, or a call's
 *     {
 *         if (!x || !sr1__life_drop(&x->life))
 *             return;
 *
 * A zeroed struct has one holder: the owner. */
#ifndef SR1__BASE_LIFE_H
#define SR1__BASE_LIFE_H

#include <stdatomic.h>

struct sr1__life {
    atomic_int calls; /* that hold it beside its owner */
};

static inline void sr1__life_hold(struct sr1__life *life)
{
    atomic_fetch_add(&life->calls, 1);
}

/* 1: nobody holds it any more. */
static inline int sr1__life_drop(struct sr1__life *life)
{
    return atomic_fetch_sub(&life->calls, 1) == 0;
}

#endif
