/* retrieval/net/token_bucket.c - a token bucket whose only state is the time of the next
 * token. */
#include "retrieval/net/token_bucket.h"

void sr1__token_bucket_init(struct sr1__token_bucket *b, double rate)
{
    b->rate = rate;
    b->next = -1e300; /* before any clock: the first token is there */
}

double sr1__token_bucket_take(struct sr1__token_bucket *b, double now)
{
    if (now < b->next)
        return b->next - now;
    if (b->rate > 0)
        b->next = now + 1.0 / b->rate;
    return 0;
}

void sr1__token_bucket_pause(struct sr1__token_bucket *b, double until)
{
    if (until > b->next)
        b->next = until;
}
