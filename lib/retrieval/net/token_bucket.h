/* retrieval/net/token_bucket.h - a token bucket that holds one token: requests leave at
 * least 1 / rate seconds apart. A provider that counts within any window then never sees
 * more than the rate. Not locked; times as in retrieval/net/breaker.h. */
#ifndef SR1__NET_TOKEN_BUCKET_H
#define SR1__NET_TOKEN_BUCKET_H

struct sr1__token_bucket {
    double rate; /* tokens a second; 0: no limit */
    double next; /* when the next token is there */
};

void sr1__token_bucket_init(struct sr1__token_bucket *b, double rate);
/* Take a token: 0, or the seconds until there will be one. */
double sr1__token_bucket_take(struct sr1__token_bucket *b, double now);
/* Issue no token before `until`, because a server has asked for a pause. */
void sr1__token_bucket_pause(struct sr1__token_bucket *b, double until);

#endif
