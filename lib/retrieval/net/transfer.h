/* retrieval/net/transfer.h - one attempt at one request, as a curl handle. */
#ifndef SR1__NET_TRANSFER_H
#define SR1__NET_TRANSFER_H

#include "retrieval/net/http_client.h"

#include <curl/curl.h>

struct sr1__transfer;

/* Make it ready to be added to a multi handle, with *tag as CURLINFO_PRIVATE. All three
 * pointers are borrowed until it is freed. Clears the response. */
sr1_status sr1__transfer_new(struct sr1__transfer **out,
                             const struct sr1__http_options *options,
                             const struct sr1__http_request *request,
                             struct sr1__http_response *response, void *tag);
void sr1__transfer_free(struct sr1__transfer *t);
CURL *sr1__transfer_handle(const struct sr1__transfer *t);

/* It ended with this curl code: settle the response, body apart. */
void sr1__transfer_end(struct sr1__transfer *t, CURLcode code);

/* Connections it opened. */
int64_t sr1__transfer_connections(const struct sr1__transfer *t);

#endif
