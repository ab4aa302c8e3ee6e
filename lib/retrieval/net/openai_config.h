/* retrieval/net/openai_config.h - servers of OpenAI's API as the keys of a configuration
 * name them. */
#ifndef SR1__NET_OPENAI_CONFIG_H
#define SR1__NET_OPENAI_CONFIG_H

#include <searchr1/ext/openai.h>

#define SR1__SERVERS_MAX 64

/* Their addresses up to /v1, at least one: openai_base_url, else that of
 * vllm_server_host, else OpenAI's own. One block: free *urls with sr1__free. */
sr1_status sr1__openai_addresses(const sr1_config *c, char ***urls, size_t *n);
/* The options of a client of the server at url, which they borrow, like texts of c. */
sr1_status sr1__openai_configure(sr1_openai_options *o, const sr1_config *c,
                                 const char *url);

#endif
