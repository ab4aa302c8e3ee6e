/* policy/local_engine.c - one decoder that advances many sequences together.
 *
 * A step is one forward pass over everything that is new, prompts, inserted blocks and
 * single sampled tokens side by side, and one token for every sequence that samples.
 * What several sequences begin with is read once, and they share it in the cache. Ids are
 * scored by a pass of their own. */
#include "policy/local_engine.h"

#include "base/mem.h"
#include "policy/rollout.h"

#include <string.h>

/* Scratch of one step, [n_slots] each. */
struct step_arrays {
    struct sr1__decode_input *feeds;
    int32_t *slots;
    size_t *asked;
    struct sr1__rng **rngs;
    int32_t *ids;
    float *log_probs;
    float *entropies;
    float *scores; /* [cap_scores] log-probs, then entropies */
    size_t cap_scores;
};

struct decoder_engine {
    sr1_model *model;
    struct sr1__local_options options;
    struct sr1__decoder *decoder; /* NULL until needed */
    const struct sr1__engine_task *task;
    struct step_arrays a;
};

static sr1_status apply_options(struct sr1__decoder *d,
                                const struct sr1__local_options *o)
{
    sr1__decoder_eager(d, o->eager);
    if (o->int8)
        SR1__TRY(sr1__decoder_quantize(d));
    return o->narrow_cache ? sr1__decoder_narrow_cache(d) : SR1_OK;
}

static sr1_status make_decoder(struct decoder_engine *e)
{
    const struct sr1__local_options *o = &e->options;
    struct sr1__decoder *d;

    if (e->decoder)
        return SR1_OK;
    SR1__TRY(sr1__decoder_new(&d, e->model, o->decoder_rows, o->max_context));
    SR1__RETURN_NEW(&e->decoder, d, apply_options(d, o), sr1__decoder_free);
}

static sr1_status begin_local(void *self, const struct sr1__engine_task *task)
{
    struct decoder_engine *e = self;
    size_t n = (size_t)task->n_slots;

    e->task = task;
    SR1__CALLOC(e->a.feeds, n, "rollout rows");
    SR1__CALLOC(e->a.slots, n, "rollout rows");
    SR1__CALLOC(e->a.asked, n, "rollout rows");
    SR1__CALLOC(e->a.rngs, n, "rollout rows");
    SR1__CALLOC(e->a.ids, n, "rollout rows");
    SR1__CALLOC(e->a.log_probs, n, "rollout rows");
    SR1__CALLOC(e->a.entropies, n, "rollout rows");
    return make_decoder(e);
}

/* ---- reading ---- */

/* The slot keeps its first n tokens. They go to a row that the task has no slot for, and
 * come back. */
static sr1_status truncate_slot(struct decoder_engine *e, int32_t slot, size_t n)
{
    int32_t spare = e->task->n_slots;

    SR1__TRY(sr1__decoder_fork_part(e->decoder, slot, spare, (int64_t)n));
    SR1__TRY(sr1__decoder_fork_part(e->decoder, spare, slot, (int64_t)n));
    sr1__decoder_clear(e->decoder, spare);
    return SR1_OK;
}

/* The slot holds what its input begins with, and nothing else. */
static sr1_status place_input(struct decoder_engine *e,
                              const struct sr1__engine_input *in)
{
    if (in->held_by != in->slot)
        return sr1__decoder_fork_part(e->decoder, in->held_by, in->slot,
                                      (int64_t)in->n_held);
    return sr1__decoder_length(e->decoder, in->slot) == (int64_t)in->n_held
               ? SR1_OK
               : truncate_slot(e, in->slot, in->n_held);
}

static struct sr1__decode_input unread_ids(const struct sr1__engine_input *in)
{
    return (struct sr1__decode_input){in->slot, in->ids + in->n_held,
                                      in->n_ids - in->n_held};
}

/* One forward pass over all that is new, of the inputs that begin with a copy or of the
 * others; what is scored is read by its own pass. */
static sr1_status read_inputs(struct decoder_engine *e,
                              const struct sr1__engine_input *in, size_t n, int copied)
{
    size_t n_feeds = 0;

    for (size_t k = 0; k < n; k++) {
        if ((in[k].held_by != in[k].slot) != copied)
            continue;
        SR1__TRY(place_input(e, &in[k]));
        if (in[k].n_scored == 0 && in[k].n_ids > in[k].n_held)
            e->a.feeds[n_feeds++] = unread_ids(&in[k]);
    }
    if (n_feeds == 0)
        return SR1_OK;
    SR1__TRY(sr1__decoder_decode(e->decoder, e->a.feeds, n_feeds));
    pthread_mutex_lock(e->task->lock);
    e->task->stats->decode_steps++;
    pthread_mutex_unlock(e->task->lock);
    return SR1_OK;
}

/* ---- sampling and scoring ---- */

/* A token for every input that wants some. */
static sr1_status sample_tokens(struct decoder_engine *e,
                                const struct sr1__engine_input *in, size_t n,
                                struct sr1__engine_output *out, size_t *n_out)
{
    size_t m = 0;

    for (size_t k = 0; k < n; k++) {
        if (in[k].max_tokens == 0)
            continue;
        e->a.slots[m] = in[k].slot;
        e->a.rngs[m] = in[k].rng;
        out[m] = (struct sr1__engine_output){.slot = in[k].slot,
                                             .ids = &e->a.ids[m],
                                             .log_probs = &e->a.log_probs[m],
                                             .entropies = &e->a.entropies[m],
                                             .n = 1};
        m++;
    }
    *n_out = m;
    return sr1__decoder_sample(e->decoder, e->a.slots, m, e->task->sampling, e->a.rngs,
                               e->a.ids, e->a.log_probs, e->a.entropies);
}

/* The scores of every input that wants some, behind the outputs that there are. */
static sr1_status score_ids(struct decoder_engine *e, const struct sr1__engine_input *in,
                            size_t n, struct sr1__engine_output *out, size_t *n_out)
{
    size_t m = 0, total = 0;

    for (size_t k = 0; k < n; k++)
        total += in[k].n_scored;
    if (total == 0)
        return SR1_OK;
    SR1__RESERVE(e->a.scores, e->a.cap_scores, 2 * total, "scores");
    for (size_t k = 0, at = 0; k < n; at += in[k++].n_scored) {
        if (in[k].n_scored == 0)
            continue;
        e->a.feeds[m] = unread_ids(&in[k]);
        e->a.asked[m++] = in[k].n_scored;
        out[(*n_out)++] =
            (struct sr1__engine_output){.slot = in[k].slot,
                                        .log_probs = e->a.scores + at,
                                        .entropies = e->a.scores + total + at,
                                        .n = in[k].n_scored};
    }
    return sr1__decoder_score(e->decoder, e->a.feeds, e->a.asked, m,
                              e->task->score_temperature, e->a.scores,
                              e->a.scores + total);
}

static sr1_status step_local(void *self, const struct sr1__engine_input *in, size_t n,
                             struct sr1__engine_output *out, size_t *n_out)
{
    struct decoder_engine *e = self;

    SR1__TRY(read_inputs(e, in, n, 0));
    SR1__TRY(read_inputs(e, in, n, 1));
    SR1__TRY(sample_tokens(e, in, n, out, n_out));
    return score_ids(e, in, n, out, n_out);
}

static void close_local_slot(void *self, int32_t slot)
{
    sr1__decoder_clear(((struct decoder_engine *)self)->decoder, slot);
}

/* The cache goes too: the update that follows has the room. */
static void end_local(void *self)
{
    struct decoder_engine *e = self;

    if (e->decoder)
        sr1__decoder_reset(e->decoder);
    sr1__free(e->a.feeds);
    sr1__free(e->a.slots);
    sr1__free(e->a.asked);
    sr1__free(e->a.rngs);
    sr1__free(e->a.ids);
    sr1__free(e->a.log_probs);
    sr1__free(e->a.entropies);
    sr1__free(e->a.scores);
    e->a = (struct step_arrays){0};
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
    .close = close_local_slot,
    .end = end_local,
    .destroy = destroy_local,
};

sr1_status sr1__local_engine_new(struct sr1__engine *out, sr1_model *m,
                                 const struct sr1__local_options *o)
{
    struct decoder_engine *e = sr1__calloc(1, sizeof(*e));

    if (!e)
        return sr1__fail_nomem("generation engine");
    *e = (struct decoder_engine){.model = m, .options = *o};
    *out = (struct sr1__engine){.ops = &local_ops, .self = e, .n_slots = o->n_slots};
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
