/* base/call_mark.c - the caller's mark of the call that a thread works for. Pools and
 * executors hand it to their threads (pool.c, executor.c). */
#include <searchr1/base.h>

static _Thread_local uint64_t call_mark;

uint64_t sr1_set_call_mark(uint64_t mark)
{
    uint64_t before = call_mark;

    call_mark = mark;
    return before;
}

uint64_t sr1_call_mark(void)
{
    return call_mark;
}
