/* retrieval/net/retry.c - exponential back-off: before retry k a wait drawn evenly from
 * the upper half of first * 2^k, so that clients that failed together do not return
 * together.
 *
 * A server's Retry-After is obeyed. If it exceeds the bound there is no retry, because an
 * earlier one would be refused again. */
#include "retrieval/net/retry.h"

#include <math.h>
#include <stddef.h>

int32_t sr1__retry_code(int32_t http_code)
{
    static const int32_t again[] = {408, 425, 429, 500, 502, 503, 504};

    for (size_t i = 0; i < sizeof(again) / sizeof(again[0]); i++)
        if (again[i] == http_code)
            return 1;
    return 0;
}

double sr1__retry_wait(const struct sr1__retry *r, int32_t k, double retry_after,
                       struct sr1__rng *rng)
{
    double most = fmin(r->max_s, ldexp(r->first_s, k < 62 ? k : 62));
    double wait = most * (0.5 + 0.5 * sr1__rng_uniform(rng));

    if (k >= r->retries || retry_after > r->max_retry_after_s)
        return -1;
    return fmax(wait, retry_after);
}
