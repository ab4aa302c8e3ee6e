/* critique/remote_writer.c - a model behind a server that speaks OpenAI's API, as a
 * writer: each conversation is a chat completion. A request that fails, retries included,
 * leaves its conversation without a text. */
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "config/config.h"
#include "critique/writer.h"

#include <searchr1/openai.h>

#include <string.h>

struct remote {
    sr1_openai *client;
    sr1_writer_options o;
    int32_t no_thinking;
};

/* What is drawn depends on seed, conversation and sample; 31 bits, never 0, which would
 * be the server's choice. */
static int64_t seed_of(const struct remote *r, const sr1_conversation *c)
{
    uint64_t h = r->o.seed + (uint64_t)c->sample;

    if (c->id)
        h = sr1__hash64(c->id, strlen(c->id), h);
    for (size_t i = 0; !c->id && i < c->n; i++)
        h = sr1__hash64(c->contents[i], c->sizes[i], h);
    return (int64_t)(h >> 33) + 1;
}

static sr1_openai_request request(const struct remote *r, const sr1_conversation *c)
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
                                .seed = r->o.temperature > 0.0 ? seed_of(r, c) : 0,
                                .no_thinking = r->no_thinking};
}

static sr1_status hand_over(const sr1_openai_results *said, size_t n,
                            sr1_writer_sink *sink)
{
    const char *why = "";
    size_t failed = 0;

    for (size_t i = 0; i < n; i++) {
        sr1_openai_result one = {.struct_size = sizeof(one)};

        SR1__TRY(sr1_openai_results_get(said, i, &one));
        if (one.status == SR1_OK)
            SR1__TRY(sr1_writer_sink_text(sink, i, one.text, one.text_len));
        else if (failed++ == 0)
            why = one.message;
    }
    if (failed > 0)
        sr1__log(SR1_LOG_WARN, "%zu of %zu messages were not written: %.500s", failed, n,
                 why);
    return SR1_OK;
}

static sr1_status remote_write(void *self, const sr1_conversation *const *c, size_t n,
                               sr1_writer_sink *sink)
{
    const struct remote *r = self;
    sr1_openai_request *requests = sr1__calloc(n, sizeof(*requests));
    sr1_openai_results *said = NULL;
    sr1_status st;

    if (!requests)
        return sr1__fail_nomem("requests");
    for (size_t i = 0; i < n; i++)
        requests[i] = request(r, c[i]);
    st = sr1_openai_run(r->client, requests, n, &said);
    if (st == SR1_OK)
        st = hand_over(said, n, sink);
    sr1_openai_results_free(said);
    sr1__free(requests);
    return st;
}

static void remote_destroy(void *self)
{
    struct remote *r = self;

    sr1_openai_free(r->client);
    sr1__free(r);
}

sr1_status sr1_writer_open_remote(sr1_writer **out, const sr1_config *config,
                                  const sr1_writer_options *options)
{
    static const sr1_writer_ops ops = {.struct_size = sizeof(ops),
                                       .name = "remote",
                                       .write = remote_write,
                                       .destroy = remote_destroy,
                                       .flags = SR1_WRITER_CONCURRENT};
    struct remote *r;
    sr1_status st;

    if (!out || !config)
        return sr1__fail(SR1_E_INVALID, "writer: out and config are required");
    r = sr1__calloc(1, sizeof(*r));
    if (!r)
        return sr1__fail_nomem("writer");
    r->no_thinking = !sr1__config_bool(config, "enable_thinking");
    st = sr1__writer_options_take(&r->o, options);
    if (st == SR1_OK)
        st = sr1_openai_open(&r->client, config);
    if (st == SR1_OK)
        st = sr1_writer_new(out, &ops, r);
    if (st != SR1_OK)
        remote_destroy(r);
    return st;
}
