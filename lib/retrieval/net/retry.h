/* retrieval/net/retry.h - decide whether to retry a request, and after how long. */
#ifndef SR1__NET_RETRY_H
#define SR1__NET_RETRY_H

#include "base/rng.h"

struct sr1__retry {
    int32_t retries;          /* after the first attempt */
    double first_s;           /* wait before the first of them, then doubled each time */
    double max_s;             /* longest wait of our own choice */
    double max_retry_after_s; /* longest wait a server can ask for */
};

/* 1 for an HTTP code that a later attempt may not meet: 408, 425, 429, 500, 502, 503,
 * 504. */
int32_t sr1__retry_code(int32_t http_code);

/* Seconds to wait before retry k (0, 1, ...), after a server asked for retry_after
 * seconds (0: it did not); -1: give up. */
double sr1__retry_wait(const struct sr1__retry *r, int32_t k, double retry_after,
                       struct sr1__rng *rng);

#endif
