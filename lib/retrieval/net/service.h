/* retrieval/net/service.h - shared by clients of a service behind HTTP: its API key, and
 * the reason of a failure. The key goes into a request and nowhere else. */
#ifndef SR1__NET_SERVICE_H
#define SR1__NET_SERVICE_H

#include "retrieval/net/http_client.h"

/* The key in the environment variable key_env; *out NULL for key_env NULL or "".
 * SR1_E_CONFIG: the variable is not set, or holds a line break. */
sr1_status sr1__service_key(char **out, const char *key_env);
/* A header with a key: what comes before it, and the key. Free with sr1__service_wipe. */
sr1_status sr1__service_header(char **out, const char *before, const char *key);
/* "Authorization: Bearer KEY". */
sr1_status sr1__service_bearer(char **out, const char *key);
/* "Authorization: Basic BASE64" of "user:password". */
sr1_status sr1__service_basic(char **out, const char *login);
/* Free a text with a key in it and leave no trace. NULL is fine. */
void sr1__service_wipe(char *secret);

/* Append to text why a response is not an answer: its message and the server's text, with
 * the key (NULL: none) replaced by stars. */
void sr1__service_explain(const char *key, const struct sr1__http_response *r,
                          struct sr1__buf *text);
/* That as this thread's error, with the response's status. */
sr1_status sr1__service_fail(const char *key, const struct sr1__http_response *r);

#endif
