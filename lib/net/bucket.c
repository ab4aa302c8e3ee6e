/* net/bucket.c - the time of the next token is the whole state. */
#include "net/bucket.h"

void sr1__bucket_init(struct sr1__bucket *b, double rate)
{
    b->rate = rate;
    b->next = -1e300; /* before any clock: the first token is there */
}

double sr1__bucket_take(struct sr1__bucket *b, double now)
{
    if (now < b->next)
        return b->next - now;
    if (b->rate > 0)
        b->next = now + 1.0 / b->rate;
    return 0;
}

void sr1__bucket_pause(struct sr1__bucket *b, double until)
{
    if (until > b->next)
        b->next = until;
}
