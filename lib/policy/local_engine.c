/* policy/local_engine.c - one decoder that advances many sequences together.
 *
 * A step is one forward pass over everything that is new, prompts, inserted blocks and
 * single sampled tokens side by side, and one token for every sequence. A prompt that
 * several sequences begin with is read once and its cache copied. */
#include "policy/local_engine.h"

#include "base/mem.h"
#include "policy/rollout.h"

#include <string.h>

struct decoder_engine {
    sr1_model *model;
    int32_t decoder_rows;
    int64_t max_context;
    int eager;
    struct sr1__decoder *decoder; /* NULL until needed */
    const struct sr1__engine_task *task;
    /* scratch of one step, [n_slots] each */
    struct sr1__decode_input *feeds;
    int32_t *slots;
    struct sr1__rng **rngs;
    int32_t *ids;
    float *log_probs;
    float *entropies;
};

static sr1_status make_decoder(struct decoder_engine *e)
{
    if (e->decoder)
        return SR1_OK;
    SR1__TRY(sr1__decoder_new(&e->decoder, e->model, e->decoder_rows, e->max_context));
    sr1__decoder_eager(e->decoder, e->eager);
    return SR1_OK;
}

static sr1_status begin_local(void *self, const struct sr1__engine_task *task)
{
    struct decoder_engine *e = self;
    size_t n = (size_t)task->n_slots;

    e->task = task;
    e->feeds = sr1__calloc(n, sizeof(*e->feeds));
    e->slots = sr1__calloc(n, sizeof(*e->slots));
    e->rngs = sr1__calloc(n, sizeof(struct sr1__rng *));
    e->ids = sr1__calloc(n, sizeof(*e->ids));
    e->log_probs = sr1__calloc(n, sizeof(*e->log_probs));
    e->entropies = sr1__calloc(n, sizeof(*e->entropies));
    if (!e->feeds || !e->slots || !e->rngs || !e->ids || !e->log_probs || !e->entropies)
        return sr1__fail_nomem("rollout rows");
    return make_decoder(e);
}

/* Every copy of an input's slot, once its ids are read. */
static sr1_status copy_slot(struct decoder_engine *e, const struct sr1__engine_input *in,
                            size_t n, int32_t from)
{
    size_t n_copies = 0;

    for (size_t k = 0; k < n; k++)
        if (in[k].copy_of == from)
            e->slots[n_copies++] = in[k].slot;
    return n_copies ? sr1__decoder_fork(e->decoder, from, e->slots, n_copies) : SR1_OK;
}

static sr1_status copy_slots(struct decoder_engine *e, const struct sr1__engine_input *in,
                             size_t n)
{
    size_t n_copies = 0;

    for (size_t k = 0; k < n; k++)
        n_copies += in[k].copy_of >= 0;
    for (size_t k = 0; k < n && n_copies; k++)
        if (in[k].copy_of < 0)
            SR1__TRY(copy_slot(e, in, n, in[k].slot));
    return SR1_OK;
}

/* One forward pass over all that is new. */
static sr1_status read_inputs(struct decoder_engine *e,
                              const struct sr1__engine_input *in, size_t n)
{
    size_t n_feeds = 0;

    for (size_t k = 0; k < n; k++)
        if (in[k].copy_of < 0)
            e->feeds[n_feeds++] =
                (struct sr1__decode_input){in[k].slot, in[k].ids, in[k].n_ids};
    if (n_feeds == 0)
        return SR1_OK;
    SR1__TRY(sr1__decoder_decode(e->decoder, e->feeds, n_feeds));
    pthread_mutex_lock(e->task->lock);
    e->task->stats->decode_steps++;
    pthread_mutex_unlock(e->task->lock);
    return copy_slots(e, in, n);
}

/* A token for every input that wants one. */
static sr1_status sample_tokens(struct decoder_engine *e,
                                const struct sr1__engine_input *in, size_t n,
                                struct sr1__engine_output *out, size_t *n_out)
{
    size_t m = 0;

    for (size_t k = 0; k < n; k++) {
        if (in[k].max_tokens == 0)
            continue;
        e->slots[m] = in[k].slot;
        e->rngs[m] = in[k].rng;
        out[m] = (struct sr1__engine_output){.slot = in[k].slot,
                                             .ids = &e->ids[m],
                                             .log_probs = &e->log_probs[m],
                                             .entropies = &e->entropies[m],
                                             .n = 1};
        m++;
    }
    *n_out = m;
    return sr1__decoder_sample(e->decoder, e->slots, m, e->task->sampling, e->rngs,
                               e->ids, e->log_probs, e->entropies);
}

static sr1_status step_local(void *self, const struct sr1__engine_input *in, size_t n,
                             struct sr1__engine_output *out, size_t *n_out)
{
    struct decoder_engine *e = self;

    SR1__TRY(read_inputs(e, in, n));
    return sample_tokens(e, in, n, out, n_out);
}

static sr1_status copy_local(void *self, int32_t from, int32_t to, size_t n)
{
    return sr1__decoder_fork_part(((struct decoder_engine *)self)->decoder, from, to,
                                  (int64_t)n);
}

static sr1_status score_local(void *self, const struct sr1__engine_input *in,
                              const size_t *asked, size_t n, double temperature,
                              float *log_probs, float *entropies)
{
    struct decoder_engine *e = self;

    for (size_t k = 0; k < n; k++)
        e->feeds[k] = (struct sr1__decode_input){in[k].slot, in[k].ids, in[k].n_ids};
    return sr1__decoder_score(e->decoder, e->feeds, asked, n, temperature, log_probs,
                              entropies);
}

static void close_local(void *self, int32_t slot)
{
    sr1__decoder_clear(((struct decoder_engine *)self)->decoder, slot);
}

/* The cache goes too: the update that follows has the room. */
static void end_local(void *self)
{
    struct decoder_engine *e = self;

    if (e->decoder)
        sr1__decoder_reset(e->decoder);
    sr1__free(e->feeds);
    sr1__free(e->slots);
    sr1__free(e->rngs);
    sr1__free(e->ids);
    sr1__free(e->log_probs);
    sr1__free(e->entropies);
    e->feeds = NULL;
    e->slots = NULL;
    e->rngs = NULL;
    e->ids = NULL;
    e->log_probs = e->entropies = NULL;
}

static void destroy_local(void *self)
{
    struct decoder_engine *e = self;

    sr1__decoder_free(e->decoder);
    sr1__free(e);
}

static const struct sr1__generation_ops local_ops = {
    .name = "local",
    .flags = SR1__ENGINE_SYNCHRONOUS | SR1__ENGINE_COPIES,
    .begin = begin_local,
    .step = step_local,
    .copy = copy_local,
    .score = score_local,
    .close = close_local,
    .end = end_local,
    .destroy = destroy_local,
};

sr1_status sr1__local_engine_new(struct sr1__engine *out, sr1_model *m, int32_t n_slots,
                                 int32_t decoder_rows, int64_t max_context, int eager)
{
    struct decoder_engine *e = sr1__calloc(1, sizeof(*e));

    if (!e)
        return sr1__fail_nomem("generation engine");
    *e = (struct decoder_engine){.model = m,
                                 .decoder_rows = decoder_rows,
                                 .max_context = max_context,
                                 .eager = eager};
    *out = (struct sr1__engine){.ops = &local_ops, .self = e, .n_slots = n_slots};
    return SR1_OK;
}

sr1_status sr1__local_engine_decoder(struct sr1__engine *engine,
                                     struct sr1__decoder **out)
{
    struct decoder_engine *e = engine->self;

    SR1__TRY(make_decoder(e));
    *out = e->decoder;
    return SR1_OK;
}
