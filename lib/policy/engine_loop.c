/* policy/engine_loop.c - rounds over generation engines, side by side. */
#include "policy/engine_loop.h"

#include "base/log.h"
#include "base/mem.h"

struct engine_loop {
    const struct sr1__engine_set *set;
    struct sr1__engine *engine;
    const struct sr1__engine_client *client;
    void *self; /* of the client */
    int32_t n_slots;
    /* [n_slots] each */
    uint8_t *running; /* the slot owes an output */
    struct sr1__engine_input *inputs;
    struct sr1__engine_output *outputs;
};

static sr1_status allocate_round(struct engine_loop *l)
{
    size_t n = (size_t)l->n_slots;

    SR1__CALLOC(l->running, n, "engine loop");
    SR1__CALLOC(l->inputs, n, "engine loop");
    SR1__CALLOC(l->outputs, n, "engine loop");
    return SR1_OK;
}

static size_t collect_inputs(struct engine_loop *l)
{
    size_t n = 0;

    for (int32_t i = 0; i < l->n_slots; i++) {
        struct sr1__engine_input *in = &l->inputs[n];

        *in = (struct sr1__engine_input){.slot = i, .held_by = i};
        if (l->running[i] || !l->client->next_input(l->self, in))
            continue;
        l->running[i] = in->max_tokens > 0 || in->n_scored > 0;
        n++;
    }
    return n;
}

static sr1_status step_engine(struct engine_loop *l)
{
    size_t n = collect_inputs(l), n_out = 0;

    SR1__TRY(l->engine->ops->step(l->engine->self, l->inputs, n, l->outputs, &n_out));
    for (size_t k = 0; k < n_out; k++) {
        l->running[l->outputs[k].slot] = 0;
        SR1__TRY(l->client->take_output(l->self, &l->outputs[k]));
    }
    return SR1_OK;
}

static sr1_status run_engine_rounds(struct engine_loop *l)
{
    for (;;) {
        int over = 0;

        if (atomic_load(&l->set->stopped))
            return sr1__fail(SR1_E_CANCELLED, "%s was stopped", l->set->name);
        SR1__TRY(l->client->begin_round(l->self, &over));
        if (over)
            return SR1_OK;
        SR1__TRY(step_engine(l));
        SR1__TRY(l->client->end_round(l->self));
    }
}

sr1_status sr1__engine_loop_run(const struct sr1__engine_set *set, size_t engine,
                                const struct sr1__engine_task *task,
                                const struct sr1__engine_client *client, void *self)
{
    struct sr1__engine *e = &set->engines[engine];
    struct engine_loop l = {.set = set,
                            .engine = e,
                            .client = client,
                            .self = self,
                            .n_slots = task->n_slots};
    sr1_status st = e->ops->begin(e->self, task);

    if (st == SR1_OK)
        st = allocate_round(&l);
    if (st == SR1_OK)
        st = run_engine_rounds(&l);
    e->ops->end(e->self);
    sr1__free(l.running);
    sr1__free(l.inputs);
    sr1__free(l.outputs);
    return st;
}

/* ---- several engines ---- */

static sr1_status run_share(void *set, size_t engine)
{
    struct sr1__engine_set *s = set;
    sr1_status st = s->run(s->arg, engine);

    if (st != SR1_OK && !atomic_exchange(&s->stopped, 1))
        sr1__error_save(&s->failure, st);
    return st;
}

sr1_status sr1__engine_set_run(struct sr1__engine_set *s)
{
    for (;;) {
        atomic_store(&s->stopped, 0);
        if (sr1__pool_run(s->pool, (size_t)s->n_engines, run_share, s) == SR1_OK)
            return SR1_OK;
        if (!sr1__is_memory(s->failure.code) || s->n_slots / 2 < s->least_slots ||
            !sr1__engine_is(s->engines, SR1__ENGINE_SYNCHRONOUS))
            return sr1__error_raise(&s->failure);
        s->n_slots /= 2;
        sr1__log(SR1_LOG_WARN, "out of memory in %s; trying %d rows at once", s->name,
                 (int)(s->n_slots * s->n_engines));
        s->forget(s->arg);
    }
}
