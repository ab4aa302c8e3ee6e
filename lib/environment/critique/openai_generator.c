/* environment/critique/openai_generator.c - a generator that asks a server with OpenAI's
 * API: each conversation is a chat completion. A request that fails, retries included,
 * leaves its conversation without a text. */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "config/config.h"
#include "environment/critique/generator.h"

#include <searchr1/ext/openai.h>

#include <string.h>

struct openai_generator {
    sr1_openai *client;
    sr1_generator_options o;
    int32_t no_thinking;
};

/* The seed of a request depends on seed, conversation and sample; 31 bits, never 0, with
 * which the server would choose a seed. */
static int64_t derive_request_seed(const struct openai_generator *r,
                                   const sr1_conversation *c)
{
    uint64_t h = sr1__hash64(&c->sample, sizeof(c->sample), r->o.seed);

    if (c->id)
        h = sr1__hash64(c->id, strlen(c->id), h);
    for (size_t i = 0; !c->id && i < c->n; i++)
        h = sr1__hash64(c->contents[i], c->sizes[i], h);
    return (int64_t)(h >> 33) + 1;
}

static sr1_openai_request build_completion_request(const struct openai_generator *r,
                                                   const sr1_conversation *c)
{
    return (sr1_openai_request){.struct_size = sizeof(sr1_openai_request),
                                .roles = c->roles,
                                .contents = c->contents,
                                .content_sizes = c->sizes,
                                .n_messages = c->n,
                                .max_tokens = r->o.max_tokens,
                                .temperature = r->o.temperature,
                                .top_p = r->o.top_p,
                                .top_k = r->o.top_k,
                                .seed = r->o.temperature > 0.0 ? derive_request_seed(r, c)
                                                               : 0,
                                .no_thinking = r->no_thinking};
}

static sr1_status collect_completions(const sr1_openai_results *said, size_t n,
                                      sr1_generator_sink *sink)
{
    const char *why = "";
    size_t failed = 0;

    for (size_t i = 0; i < n; i++) {
        sr1_openai_result one = {.struct_size = sizeof(one)};

        SR1__TRY(sr1_openai_results_get(said, i, &one));
        if (one.status == SR1_OK)
            SR1__TRY(sr1_generator_sink_text(sink, i, one.text, one.text_len));
        else if (failed++ == 0)
            why = one.message;
    }
    if (failed > 0)
        sr1__log(SR1_LOG_WARN, "%zu of %zu messages were not written: %.500s", failed, n,
                 why);
    return SR1_OK;
}

static sr1_status openai_generate(void *self, const sr1_conversation *const *c, size_t n,
                                  sr1_generator_sink *sink)
{
    const struct openai_generator *r = self;
    sr1_openai_request *requests = sr1__calloc(n, sizeof(*requests));
    sr1_openai_results *said = NULL;
    sr1_status st;

    SR1__CHECK_ALLOC(requests, "requests");
    for (size_t i = 0; i < n; i++)
        requests[i] = build_completion_request(r, c[i]);
    st = sr1_openai_run(r->client, requests, n, &said);
    if (st == SR1_OK)
        st = collect_completions(said, n, sink);
    sr1_openai_results_free(said);
    sr1__free(requests);
    return st;
}

static void destroy_openai_generator(void *self)
{
    struct openai_generator *r = self;

    sr1_openai_free(r->client);
    sr1__free(r);
}

sr1_status sr1_generator_open_remote(sr1_generator **out, const sr1_config *config,
                                     const sr1_generator_options *options)
{
    static const sr1_generator_ops ops = {.struct_size = sizeof(ops),
                                          .name = "remote",
                                          .write = openai_generate,
                                          .destroy = destroy_openai_generator,
                                          .flags = SR1_GENERATOR_CONCURRENT};
    struct openai_generator *r;
    sr1_status st;

    if (!out || !config)
        return sr1__fail(SR1_E_INVALID, "generator: out and config are required");
    SR1__CALLOC(r, 1, "generator");
    r->no_thinking = !sr1__config_bool(config, "enable_thinking");
    st = sr1__generator_options_read(&r->o, options);
    if (st == SR1_OK)
        st = sr1_openai_open(&r->client, config);
    if (st == SR1_OK)
        st = sr1_generator_new(out, &ops, r);
    if (st != SR1_OK)
        destroy_openai_generator(r);
    return st;
}
