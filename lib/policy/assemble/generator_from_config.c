/* policy/assemble/generator_from_config.c - models that talk: a rollout whose policy
 * never acts, in a copy of the policy's configuration, or a server. */
#include "policy/assemble/assemble.h"

#include "base/num.h"
#include "config/run_config.h"
#include "environment/critique/generator.h"
#include "policy/local_generator.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static sr1_status set_config_text(sr1_config *c, const char *key, const char *value)
{
    return sr1_config_set(c, key, value);
}

static sr1_status set_config_int(sr1_config *c, const char *key, int64_t v)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, v);
    return set_config_text(c, key, text);
}

static sr1_status set_config_real(sr1_config *c, const char *key, double v)
{
    char text[32];

    sr1__format_real(v, text);
    return set_config_text(c, key, text);
}

/* chat_template is for the policy: another model follows its own template if that is
 * known. */
static sr1_status choose_own_template(sr1_config *c, const char *folder)
{
    sr1_tokenizer *t = NULL;
    int known;

    if (sr1__config_is(c, "chat_template", "auto"))
        return SR1_OK;
    SR1__TRY(sr1_tokenizer_open(&t, folder));
    known = strcmp(sr1_tokenizer_chat_family(t), "unknown") != 0;
    sr1_tokenizer_free(t);
    return known ? set_config_text(c, "chat_template", "auto") : SR1_OK;
}

/* The configuration of a policy that only talks, in the place of c's. */
static sr1_status configure_chat_model(sr1_config *c, const char *folder,
                                       const sr1_generator_options *o)
{
    int same = strcmp(folder, sr1__config_str(c, "model_name_or_path")) == 0;

    SR1__TRY(set_config_text(c, "model_name_or_path", folder));
    if (!same) {
        SR1__TRY(set_config_text(c, "tokenizer", ""));
        SR1__TRY(set_config_text(c, "base_model_name_or_path", ""));
        SR1__TRY(set_config_text(c, "chat_template_name", ""));
        SR1__TRY(choose_own_template(c, folder));
    }
    SR1__TRY(sr1__config_generate_here(c));
    SR1__TRY(set_config_text(c, "environment", "none"));
    SR1__TRY(set_config_text(c, "tools", ""));
    SR1__TRY(set_config_text(c, "protocol", "ctrl"));
    SR1__TRY(set_config_text(c, "compat", "none"));
    SR1__TRY(set_config_text(c, "prompt_template", "none"));
    SR1__TRY(set_config_text(c, "question_template", ""));
    SR1__TRY(set_config_text(c, "max_prompt_tokens", "1048576"));
    SR1__TRY(set_config_text(c, "max_tokens_per_turn", "0"));
    SR1__TRY(set_config_int(c, "max_tokens", o->max_tokens));
    SR1__TRY(set_config_real(c, "temperature", o->temperature));
    SR1__TRY(set_config_real(c, "top_p", o->top_p));
    return set_config_int(c, "top_k", o->top_k);
}

/* Nothing answers: the environment "none", however the configuration came by its keys. */
static sr1_status complete_silent_rollout(sr1_rollout *r, const sr1_config *c)
{
    sr1_env_options o = {.struct_size = sizeof(o),
                         .protocol = sr1__config_str(c, "protocol"),
                         .document_format = sr1__config_str(c, "document_format")};
    struct sr1__env_parts parts = {0};
    sr1_status st = sr1_env_open(&parts.env, "none", NULL, &o);

    if (st == SR1_OK) {
        parts.no_search_env = sr1__env_retain(parts.env);
        st = sr1__rollout_complete(r, c, &parts);
    }
    sr1_env_free(parts.no_search_env);
    sr1_env_free(parts.env);
    return st;
}

static sr1_status open_chat_model(sr1_generator **out, sr1_config *c, const char *folder,
                                  const sr1_generator_options *o)
{
    sr1_rollout *r = NULL;
    sr1_status st;

    SR1__TRY(configure_chat_model(c, folder, o));
    SR1__TRY(sr1__rollout_begin(&r, c, &(struct sr1__rollout_given){0}));
    st = complete_silent_rollout(r, c);
    if (st == SR1_OK)
        st = sr1__local_generator_new(out, r, o);
    if (st != SR1_OK)
        sr1_rollout_free(r);
    return st;
}

sr1_status sr1_generator_open_model(sr1_generator **out, const char *folder,
                                    const sr1_config *config,
                                    const sr1_generator_options *options)
{
    sr1_generator_options o;
    sr1_config *c = NULL;
    sr1_status st;

    if (!out || !folder)
        return sr1__fail(SR1_E_INVALID, "generator: out and folder are required");
    SR1__TRY(sr1__generator_options_read(&o, options));
    SR1__TRY(config ? sr1_config_copy(&c, config) : sr1_config_new(&c));
    st = open_chat_model(out, c, folder, &o);
    sr1_config_free(c);
    return sr1__context(st, "generator '%.256s'", folder);
}

/* In a copy of the policy's configuration: a folder of its own, */
static sr1_status open_local_reviser(sr1_generator **out, sr1_config *c, int32_t engines,
                                     const sr1_generator_options *o)
{
    const char *folder = sr1__config_str(c, "proxy_model");

    if (!*folder)
        folder = sr1__config_str(c, "model_name_or_path");
    SR1__TRY(set_config_int(c, "workers", engines));
    SR1__TRY(set_config_text(c, "quantization", "none")); /* these are of the policy */
    SR1__TRY(set_config_text(c, "kv_cache_dtype", "auto"));
    return sr1_generator_open_model(out, folder, c, o);
}

/* or a server of its own. */
static sr1_status open_server_reviser(sr1_generator **out, sr1_config *c,
                                      const sr1_generator_options *o)
{
    const char *name = sr1__config_str(c, "proxy_model");

    SR1__TRY(set_config_text(c, "openai_base_url", sr1__config_str(c, "proxy_url")));
    if (*name)
        SR1__TRY(set_config_text(c, "openai_model", name));
    return sr1_generator_open_remote(out, c, o);
}

sr1_status sr1__reviser_open(sr1_generator **out, const sr1_config *c, int32_t engines)
{
    sr1_generator_options o = {.struct_size = sizeof(o),
                               .max_tokens = sr1__config_int(c, "proxy_max_tokens")};
    sr1_config *own = NULL;
    sr1_status st;

    SR1__TRY(sr1_config_copy(&own, c));
    st = *sr1__config_str(c, "proxy_url") ? open_server_reviser(out, own, &o)
                                          : open_local_reviser(out, own, engines, &o);
    sr1_config_free(own);
    return sr1__context(st, "proxy_model");
}

sr1_status sr1_generator_open_reviser(sr1_generator **out, const sr1_config *config)
{
    if (!out || !config)
        return sr1__fail(SR1_E_INVALID, "generator: out and config are required");
    return sr1__reviser_open(out, config, (int32_t)sr1__config_int(config, "workers"));
}
