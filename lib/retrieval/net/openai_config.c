/* retrieval/net/openai_config.c - open the client that the keys of a configuration
 * describe. */
#include <searchr1/ext/openai.h>

#include "base/buf.h"
#include "config/config.h"

#include <string.h>

/* openai_base_url, else that of vllm_server_host, else OpenAI's own. */
static sr1_status write_base_url(const sr1_config *c, struct sr1__buf *url)
{
    const char *given = sr1__config_str(c, "openai_base_url");
    const char *host = sr1__config_str(c, "vllm_server_host");

    if (*given)
        sr1__buf_str(url, given);
    else if (*host)
        sr1__buf_fmt(url, "http://%s:%d/v1", host,
                     (int)sr1__config_int(c, "vllm_server_port"));
    else
        sr1__buf_str(url, "https://api.openai.com/v1");
    return sr1__buf_status(url, "server address");
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

sr1_status sr1_openai_open(sr1_openai **out, const sr1_config *c)
{
    sr1_openai_options o;
    struct sr1__buf url;
    sr1_status st;

    if (!out || !c)
        return sr1__fail(SR1_E_INVALID, "openai: out and config are required");
    sr1_openai_options_init(&o);
    sr1__buf_init(&url, 0);
    st = write_base_url(c, &url);
    o.base_url = sr1__buf_cstr(&url);
    o.dialect = find_config_dialect(c);
    o.timeout_s = sr1__config_real(c, "openai_timeout");
    o.retries = (int32_t)sr1__config_int(c, "openai_retries");
    o.concurrency = (int32_t)sr1__config_int(c, "openai_concurrency");
    o.rate_limit = sr1__config_real(c, "openai_rate_limit");
    o.ca_file = sr1__config_str(c, "openai_ca_file");
    o.seed = (uint64_t)sr1__config_int(c, "seed");
    if (st == SR1_OK)
        st = choose_config_model(c, &o.model);
    if (st == SR1_OK)
        st = sr1_openai_new(out, &o);
    sr1__buf_free(&url);
    return st;
}
