/* retrieval/net/breaker.c - closed while failures < limit; then open until open_until;
 * then half open, when one probe decides. */
#include "retrieval/net/breaker.h"

void sr1__breaker_init(struct sr1__breaker *b, int32_t limit, double rest_s)
{
    *b = (struct sr1__breaker){.limit = limit, .rest_s = rest_s};
}

static int is_closed(const struct sr1__breaker *b)
{
    return b->limit <= 0 || b->failures < b->limit;
}

enum sr1__breaker_verdict sr1__breaker_admit(struct sr1__breaker *b, double now)
{
    if (is_closed(b))
        return SR1__BREAKER_GO;
    if (b->probing)
        return SR1__BREAKER_WAIT;
    if (now < b->open_until)
        return SR1__BREAKER_REFUSE;
    b->probing = 1;
    return SR1__BREAKER_PROBE;
}

void sr1__breaker_report(struct sr1__breaker *b, int32_t is_probe, int32_t failed,
                         double now)
{
    sr1__breaker_abandon(b, is_probe);
    if (!failed) {
        b->failures = 0;
        return;
    }
    if (b->failures < INT32_MAX)
        b->failures++;
    if (!is_closed(b))
        b->open_until = now + b->rest_s;
}

void sr1__breaker_abandon(struct sr1__breaker *b, int32_t is_probe)
{
    if (is_probe)
        b->probing = 0;
}
