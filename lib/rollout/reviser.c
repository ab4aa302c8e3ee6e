/* rollout/reviser.c - a local model as a writer: conversations become prompts of a
 * rollout of its own, whose policy never acts, and what it says is the next message. */
#include "rollout/reviser.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "critique/writer.h"
#include "rollout/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct local {
    sr1_rollout *rollout;
    int64_t max_tokens;
    int32_t greedy;
    uint64_t seed;
};

/* ---- a batch ---- */

struct batch {
    sr1_query *queries; /* [n] those that fit */
    char (*ids)[64];    /* [n] */
    size_t *of;         /* [n] the conversation of each */
    size_t n;
    sr1_trajectory **made; /* [n] */
};

static void batch_free(struct batch *b)
{
    for (size_t i = 0; b->made && i < b->n; i++)
        sr1_trajectory_free(b->made[i]);
    sr1__free(b->queries);
    sr1__free(b->ids);
    sr1__free(b->of);
    sr1__free(b->made);
}

static sr1_status batch_init(struct batch *b, size_t n)
{
    *b = (struct batch){0};
    b->queries = sr1__calloc(n, sizeof(*b->queries));
    b->ids = sr1__calloc(n, sizeof(*b->ids));
    b->of = sr1__calloc(n, sizeof(*b->of));
    b->made = sr1__calloc(n, sizeof(*b->made));
    return b->queries && b->ids && b->of && b->made ? SR1_OK
                                                    : sr1__fail_nomem("conversations");
}

/* What is drawn depends on what is asked, and which sample it is. */
static void name(char id[64], const sr1_conversation *c)
{
    uint64_t h = 0;

    if (c->id)
        h = sr1__hash64(c->id, strlen(c->id), 1);
    for (size_t i = 0; !c->id && i < c->n; i++)
        h = sr1__hash64(c->contents[i], c->sizes[i], h);
    snprintf(id, 64, "%016" PRIx64 "-%" PRId32, h, c->sample);
}

static sr1_query ask(const sr1_conversation *c, const char *id)
{
    size_t last = c->n - 1;

    return (sr1_query){.struct_size = sizeof(sr1_query),
                       .text = c->contents[last],
                       .text_len = c->sizes[last],
                       .id = id,
                       .history_roles = c->roles,
                       .history_texts = c->contents,
                       .history_sizes = c->sizes,
                       .n_history = last};
}

/* 0 for a conversation longer than the model reads. */
static sr1_status fits(const struct local *l, const sr1_query *q, int *yes)
{
    int32_t *ids = NULL;
    size_t n;
    sr1_status st = sr1__rollout_prompt(l->rollout, q, &ids, &n);

    *yes = st == SR1_OK;
    sr1_free(ids);
    return st == SR1_E_LIMIT ? SR1_OK : st;
}

static sr1_status check_last(const sr1_conversation *c)
{
    if (strcmp(c->roles[c->n - 1], "user") == 0)
        return SR1_OK;
    return sr1__fail(
        SR1_E_INVALID,
        "conversation: its last message is the %.16s's; it must be the user's",
        c->roles[c->n - 1]);
}

/* A conversation that does not fit gets an empty text: it is not the writer's failure. */
static sr1_status gather(const struct local *l, const sr1_conversation *const *c,
                         size_t n, struct batch *b, sr1_writer_sink *sink)
{
    for (size_t i = 0; i < n; i++) {
        int yes;

        SR1__TRY(check_last(c[i]));
        name(b->ids[b->n], c[i]);
        b->queries[b->n] = ask(c[i], b->ids[b->n]);
        SR1__TRY(fits(l, &b->queries[b->n], &yes));
        if (yes)
            b->of[b->n++] = i;
        else
            SR1__TRY(sr1_writer_sink_text(sink, i, "", 0));
    }
    if (b->n < n)
        sr1__log(SR1_LOG_WARN,
                 "%zu of %zu conversations get no answer: they are longer than the "
                 "%" PRId64 " tokens that the model reads",
                 n - b->n, n, l->rollout->limits.max_context);
    return SR1_OK;
}

static sr1_status generate(const struct local *l, struct batch *b, sr1_writer_sink *sink)
{
    sr1_rollout_options o = {.struct_size = sizeof(o),
                             .group_size = 1,
                             .greedy = l->greedy,
                             .seed = l->seed,
                             .max_tokens = l->max_tokens};

    if (b->n == 0)
        return SR1_OK;
    SR1__TRY(sr1_rollout_generate(l->rollout, b->queries, b->n, &o, b->made));
    for (size_t i = 0; i < b->n; i++) {
        size_t len;
        const char *text = sr1_trajectory_generated_text(b->made[i], &len);

        SR1__TRY(sr1_writer_sink_text(sink, b->of[i], text, len));
    }
    return SR1_OK;
}

static sr1_status local_write(void *self, const sr1_conversation *const *c, size_t n,
                              sr1_writer_sink *sink)
{
    const struct local *l = self;
    struct batch b;
    sr1_status st = batch_init(&b, n);

    if (st == SR1_OK)
        st = gather(l, c, n, &b, sink);
    if (st == SR1_OK)
        st = generate(l, &b, sink);
    batch_free(&b);
    return st;
}

/* ---- making one ---- */

static void local_destroy(void *self)
{
    struct local *l = self;

    sr1_rollout_free(l->rollout);
    sr1__free(l);
}

static sr1_status set(sr1_config *c, const char *key, const char *value)
{
    return sr1_config_set(c, key, value);
}

static sr1_status set_int(sr1_config *c, const char *key, int64_t v)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, v);
    return set(c, key, text);
}

static sr1_status set_real(sr1_config *c, const char *key, double v)
{
    char text[32];

    sr1__format_real(v, text);
    return set(c, key, text);
}

/* The configuration of a policy that only talks, in the place of c's. */
static sr1_status talker(sr1_config *c, const char *folder, const sr1_writer_options *o)
{
    int same = strcmp(folder, sr1__config_str(c, "model_name_or_path")) == 0;

    SR1__TRY(set(c, "model_name_or_path", folder));
    if (!same)
        SR1__TRY(set(c, "tokenizer", ""));
    SR1__TRY(set(c, "use_openai", "false"));
    SR1__TRY(set(c, "environment", "none"));
    SR1__TRY(set(c, "protocol", "ctrl"));
    SR1__TRY(set(c, "compat", "none"));
    SR1__TRY(set(c, "prompt_template", "none"));
    SR1__TRY(set(c, "question_template", ""));
    SR1__TRY(set(c, "max_prompt_tokens", "1048576"));
    SR1__TRY(set(c, "max_tokens_per_turn", "0"));
    SR1__TRY(set_int(c, "max_tokens", o->max_tokens));
    SR1__TRY(set_real(c, "temperature", o->temperature));
    SR1__TRY(set_real(c, "top_p", o->top_p));
    return set_int(c, "top_k", o->top_k);
}

static sr1_status wrap(sr1_writer **out, sr1_rollout *r, const sr1_writer_options *o)
{
    static const sr1_writer_ops ops = {.struct_size = sizeof(ops),
                                       .name = "model",
                                       .write = local_write,
                                       .destroy = local_destroy};
    struct local *l = sr1__calloc(1, sizeof(*l));
    sr1_status st;

    if (!l)
        return sr1__fail_nomem("writer");
    *l = (struct local){.rollout = r,
                        .max_tokens = o->max_tokens,
                        .greedy = o->temperature <= 0.0,
                        .seed = o->seed};
    st = sr1_writer_new(out, &ops, l);
    if (st != SR1_OK)
        sr1__free(l);
    return st;
}

static sr1_status open_talker(sr1_writer **out, sr1_config *c, const char *folder,
                              const sr1_writer_options *o)
{
    sr1_rollout *r = NULL;
    sr1_status st;

    SR1__TRY(talker(c, folder, o));
    SR1__TRY(sr1_rollout_new(&r, c, NULL, NULL, NULL));
    st = wrap(out, r, o);
    if (st != SR1_OK)
        sr1_rollout_free(r);
    return st;
}

sr1_status sr1_writer_open_model(sr1_writer **out, const char *folder,
                                 const sr1_config *config,
                                 const sr1_writer_options *options)
{
    sr1_writer_options o;
    sr1_config *c = NULL;
    sr1_status st;

    if (!out || !folder)
        return sr1__fail(SR1_E_INVALID, "writer: out and folder are required");
    SR1__TRY(sr1__writer_options_take(&o, options));
    SR1__TRY(config ? sr1_config_copy(&c, config) : sr1_config_new(&c));
    st = open_talker(out, c, folder, &o);
    sr1_config_free(c);
    return sr1__context(st, "writer '%.256s'", folder);
}

/* In a copy of the policy's configuration: a folder of its own, */
static sr1_status open_here(sr1_writer **out, sr1_config *c, int32_t lanes,
                            const sr1_writer_options *o)
{
    const char *folder = sr1__config_str(c, "proxy_model");

    if (!*folder)
        folder = sr1__config_str(c, "model_name_or_path");
    SR1__TRY(set_int(c, "workers", lanes));
    return sr1_writer_open_model(out, folder, c, o);
}

/* or a server of its own. */
static sr1_status open_there(sr1_writer **out, sr1_config *c, const sr1_writer_options *o)
{
    const char *name = sr1__config_str(c, "proxy_model");

    SR1__TRY(set(c, "openai_base_url", sr1__config_str(c, "proxy_url")));
    if (*name)
        SR1__TRY(set(c, "openai_model", name));
    return sr1_writer_open_remote(out, c, o);
}

sr1_status sr1__reviser_open(sr1_writer **out, const sr1_config *c, int32_t lanes)
{
    sr1_writer_options o = {.struct_size = sizeof(o),
                            .max_tokens = sr1__config_int(c, "proxy_max_tokens")};
    sr1_config *own = NULL;
    sr1_status st;

    SR1__TRY(sr1_config_copy(&own, c));
    st = *sr1__config_str(c, "proxy_url") ? open_there(out, own, &o)
                                          : open_here(out, own, lanes, &o);
    sr1_config_free(own);
    return sr1__context(st, "proxy_model");
}

sr1_status sr1_writer_open_proxy(sr1_writer **out, const sr1_config *config)
{
    if (!out || !config)
        return sr1__fail(SR1_E_INVALID, "writer: out and config are required");
    return sr1__reviser_open(out, config, (int32_t)sr1__config_int(config, "workers"));
}

sr1_model *sr1__writer_model(const sr1_writer *w)
{
    const struct local *l = sr1__writer_self(w, local_write);

    return l ? l->rollout->model : NULL;
}
