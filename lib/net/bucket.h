/* net/bucket.h - a token bucket that holds one token: requests leave at least 1 / rate
 * seconds apart. A provider that counts within any window then never sees more than the
 * rate. Not locked; times as in net/breaker.h. */
#ifndef SR1__NET_BUCKET_H
#define SR1__NET_BUCKET_H

struct sr1__bucket {
    double rate; /* tokens a second; 0: no limit */
    double next; /* when the next token is there */
};

void sr1__bucket_init(struct sr1__bucket *b, double rate);
/* Take a token: 0, or the seconds until there will be one. */
double sr1__bucket_take(struct sr1__bucket *b, double now);
/* Give none before `until`: a server has asked for a pause. */
void sr1__bucket_pause(struct sr1__bucket *b, double until);

#endif
