/* retrieval/net/breaker.h - a circuit breaker: after enough failures in a row a service
 * is left alone for a while, then tried with one request. Not locked. Times are seconds
 * of any clock that does not run backwards. */
#ifndef SR1__NET_BREAKER_H
#define SR1__NET_BREAKER_H

#include <stdint.h>

enum sr1__breaker_verdict {
    SR1__BREAKER_GO,    /* send it, then report how it went */
    SR1__BREAKER_PROBE, /* the same, and others wait for its report */
    SR1__BREAKER_WAIT,  /* a probe is under way: ask again after its report */
    SR1__BREAKER_REFUSE /* the service is left alone */
};

struct sr1__breaker {
    int32_t limit;    /* failures in a row that open it; 0: never */
    double rest_s;    /* how long it stays open */
    int32_t failures; /* in a row */
    int32_t probing;
    double open_until; /* while failures >= limit */
};

void sr1__breaker_init(struct sr1__breaker *b, int32_t limit, double rest_s);
enum sr1__breaker_verdict sr1__breaker_admit(struct sr1__breaker *b, double now);
/* A request that was let go ended. Only the probe's end makes room for another probe. */
void sr1__breaker_report(struct sr1__breaker *b, int32_t is_probe, int32_t failed,
                         double now);
/* The same for a request that was cancelled: it counts neither as success nor as failure.
 */
void sr1__breaker_abandon(struct sr1__breaker *b, int32_t is_probe);

#endif
