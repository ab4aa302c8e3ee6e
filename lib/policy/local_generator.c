/* policy/local_generator.c - a local model as a generator: conversations become prompts
 * of a rollout of its own, whose policy never acts and generates the next message. */
#include "policy/local_generator.h"

#include "base/log.h"
#include "base/mem.h"
#include "environment/critique/generator.h"
#include "policy/rollout_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct local_generator {
    sr1_rollout *rollout;
    int64_t max_tokens;
    int32_t greedy;
    uint64_t seed;
};

/* ---- a batch ---- */

struct generator_batch {
    sr1_query *queries; /* [n] those that fit */
    char (*ids)[64];    /* [n] */
    size_t *of;         /* [n] the conversation of each */
    size_t n;
    sr1_trajectory **made; /* [n] */
};

static void generator_batch_free(struct generator_batch *b)
{
    for (size_t i = 0; b->made && i < b->n; i++)
        sr1_trajectory_free(b->made[i]);
    sr1__free(b->queries);
    sr1__free(b->ids);
    sr1__free(b->of);
    sr1__free(b->made);
}

static sr1_status generator_batch_init(struct generator_batch *b, size_t n)
{
    *b = (struct generator_batch){0};
    b->queries = sr1__calloc(n, sizeof(*b->queries));
    b->ids = sr1__calloc(n, sizeof(*b->ids));
    b->of = sr1__calloc(n, sizeof(*b->of));
    b->made = sr1__calloc(n, sizeof(*b->made));
    return b->queries && b->ids && b->of && b->made ? SR1_OK
                                                    : sr1__fail_nomem("conversations");
}

/* What is drawn depends on what is asked, and which sample it is. */
static void make_query_id(char id[64], const sr1_conversation *c)
{
    uint64_t h = 0;

    if (c->id)
        h = sr1__hash64(c->id, strlen(c->id), 1);
    for (size_t i = 0; !c->id && i < c->n; i++)
        h = sr1__hash64(c->contents[i], c->sizes[i], h);
    snprintf(id, 64, "%016" PRIx64 "-%" PRId32, h, c->sample);
}

static sr1_query make_query(const sr1_conversation *c, const char *id)
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
static sr1_status check_conversation_fits(const struct local_generator *l,
                                          const sr1_query *q, int *yes)
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

/* A conversation that does not fit gets no text: what its answer would be is not known.
 */
static sr1_status collect_fitting_conversations(const struct local_generator *l,
                                                const sr1_conversation *const *c,
                                                size_t n, struct generator_batch *b)
{
    for (size_t i = 0; i < n; i++) {
        int yes;

        SR1__TRY(check_last(c[i]));
        make_query_id(b->ids[b->n], c[i]);
        b->queries[b->n] = make_query(c[i], b->ids[b->n]);
        SR1__TRY(check_conversation_fits(l, &b->queries[b->n], &yes));
        if (yes)
            b->of[b->n++] = i;
    }
    if (b->n < n)
        sr1__log(SR1_LOG_WARN,
                 "%zu of %zu conversations get no answer: they are longer than the "
                 "%" PRId64 " tokens that the model reads",
                 n - b->n, n, l->rollout->limits.max_context);
    return SR1_OK;
}

static sr1_status generate_replies(const struct local_generator *l,
                                   struct generator_batch *b, sr1_generator_sink *sink)
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

        SR1__TRY(sr1_generator_sink_text(sink, b->of[i], text, len));
    }
    return SR1_OK;
}

static sr1_status local_generate(void *self, const sr1_conversation *const *c, size_t n,
                                 sr1_generator_sink *sink)
{
    const struct local_generator *l = self;
    struct generator_batch b;
    sr1_status st = generator_batch_init(&b, n);

    if (st == SR1_OK)
        st = collect_fitting_conversations(l, c, n, &b);
    if (st == SR1_OK)
        st = generate_replies(l, &b, sink);
    generator_batch_free(&b);
    return st;
}

/* ---- making one ---- */

static void destroy_local_generator(void *self)
{
    struct local_generator *l = self;

    sr1_rollout_free(l->rollout);
    sr1__free(l);
}

sr1_status sr1__local_generator_new(sr1_generator **out, sr1_rollout *r,
                                    const sr1_generator_options *o)
{
    static const sr1_generator_ops ops = {.struct_size = sizeof(ops),
                                          .name = "model",
                                          .write = local_generate,
                                          .destroy = destroy_local_generator};
    struct local_generator *l = sr1__calloc(1, sizeof(*l));
    sr1_status st;

    if (!l)
        return sr1__fail_nomem("generator");
    *l = (struct local_generator){.rollout = r,
                                  .max_tokens = o->max_tokens,
                                  .greedy = o->temperature <= 0.0,
                                  .seed = o->seed};
    st = sr1_generator_new(out, &ops, l);
    if (st != SR1_OK)
        sr1__free(l);
    return st;
}

sr1_model *sr1__generator_model(const sr1_generator *w)
{
    const struct local_generator *l = sr1__generator_self(w, local_generate);

    return l ? l->rollout->model : NULL;
}
