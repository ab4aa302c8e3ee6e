/* retrieval/net/openai_config.c - open the client that the keys of a configuration
 * describe. */
#include "retrieval/net/openai_config.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/mem.h"
#include "config/config.h"

#include <stdio.h>
#include <string.h>

/* One address: that of vllm_server_host, else OpenAI's own. */
static sr1_status make_default_address(const sr1_config *c, char ***urls)
{
    const char *host = sr1__config_str(c, "vllm_server_host");
    const char *official = "https://api.openai.com/v1";
    size_t size = strlen(host) + 64;
    char **block = sr1__malloc(sizeof(char *) + size);

    if (!block)
        return sr1__fail_nomem("server address");
    block[0] = (char *)(block + 1);
    if (*host)
        snprintf(block[0], size, "http://%s:%d/v1", host,
                 (int)sr1__config_int(c, "vllm_server_port"));
    else
        snprintf(block[0], size, "%s", official);
    *urls = block;
    return SR1_OK;
}

sr1_status sr1__openai_addresses(const sr1_config *c, char ***urls, size_t *n)
{
    SR1__TRY(sr1__config_list(c, "openai_base_url", urls, n));
    if (*n > SR1__SERVERS_MAX) {
        sr1__free(*urls);
        return sr1__fail(SR1_E_CONFIG, "openai_base_url names %zu servers; at most %d",
                         *n, SR1__SERVERS_MAX);
    }
    if (*n > 0)
        return SR1_OK;
    sr1__free(*urls);
    *n = 1;
    return make_default_address(c, urls);
}

/* The default is a model of OpenAI's own server; of another it is the one that it has. */
static sr1_status choose_config_model(const sr1_config *c, const char **out)
{
    int elsewhere =
        *sr1__config_str(c, "openai_base_url") || *sr1__config_str(c, "vllm_server_host");
    int32_t set = 0;

    SR1__TRY(sr1_config_is_set(c, "openai_model", &set));
    *out = elsewhere && !set ? "" : sr1__config_str(c, "openai_model");
    return SR1_OK;
}

static int32_t find_config_dialect(const sr1_config *c)
{
    static const char *const names[] = {"auto", "openai", "vllm"};
    const char *name = sr1__config_str(c, "openai_dialect");
    int32_t i = SR1_OPENAI_DIALECT_VLLM;

    while (i > 0 && strcmp(names[i], name) != 0)
        i--;
    return i;
}

sr1_status sr1__openai_configure(sr1_openai_options *o, const sr1_config *c,
                                 const char *url)
{
    sr1_openai_options_init(o);
    o->base_url = url;
    o->dialect = find_config_dialect(c);
    o->timeout_s = sr1__config_real(c, "openai_timeout");
    o->retries = (int32_t)sr1__config_int(c, "openai_retries");
    o->concurrency = (int32_t)sr1__config_int(c, "openai_concurrency");
    o->rate_limit = sr1__config_real(c, "openai_rate_limit");
    o->ca_file = sr1__config_str(c, "openai_ca_file");
    o->seed = (uint64_t)sr1__config_int(c, "seed");
    return choose_config_model(c, &o->model);
}

static sr1_status open_only_address(sr1_openai **out, const sr1_config *c,
                                    char *const *urls, size_t n)
{
    sr1_openai_options o;

    if (n > 1)
        return sr1__fail(SR1_E_CONFIG,
                         "openai_base_url names %zu servers, and this client asks one; "
                         "name one (rollouts take all of them)",
                         n);
    SR1__TRY(sr1__openai_configure(&o, c, urls[0]));
    return sr1_openai_new(out, &o);
}

sr1_status sr1_openai_open(sr1_openai **out, const sr1_config *c)
{
    char **urls = NULL;
    size_t n = 0;
    sr1_status st;

    if (!out || !c)
        return sr1__fail(SR1_E_INVALID, "openai: out and config are required");
    SR1__TRY(sr1__openai_addresses(c, &urls, &n));
    st = open_only_address(out, c, urls, n);
    sr1__free(urls);
    return st;
}
