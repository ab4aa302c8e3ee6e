/* retrieval/net/openai_client.h - declarations shared by opening (openai.c) and requests
 * (openai_call.c). */
#ifndef SR1__NET_OPENAI_CLIENT_H
#define SR1__NET_OPENAI_CLIENT_H

#include "retrieval/net/http_client.h"
#include "retrieval/net/openai_wire.h"

#include <stdatomic.h>

struct sr1_openai {
    struct sr1__http *http;
    char *key;                         /* NULL: none */
    char *authorization;               /* header with the key; NULL: none */
    char *completions, *chat, *models; /* URLs */
    char origin[SR1__ORIGIN_MAX];
    char *model;
    int64_t context;
    struct sr1__openai_style style;
    struct sr1__retry retry; /* of what cannot be read; the HTTP client has it too */
    uint64_t seed;
    atomic_llong calls; /* begun; each draws its waits from a stream of its own */
    atomic_llong failures, prompt_tokens, completion_tokens;
};

/* sr1__http_run with the headers of the client. */
sr1_status sr1__openai_send(const sr1_openai *c, struct sr1__http_request *requests,
                            size_t n, struct sr1__http_response *responses);

/* Ask for this model from now on. Not while requests run. */
sr1_status sr1__openai_set_model(sr1_openai *c, const char *name);

#endif
