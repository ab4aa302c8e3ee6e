/* policy/engine_loop.c - rounds over a generation engine. */
#include "policy/engine_loop.h"

#include "base/mem.h"

struct engine_loop {
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

static sr1_status run_rounds(struct engine_loop *l)
{
    for (;;) {
        int over = 0;

        SR1__TRY(l->client->begin_round(l->self, &over));
        if (over)
            return SR1_OK;
        SR1__TRY(step_engine(l));
        SR1__TRY(l->client->end_round(l->self));
    }
}

sr1_status sr1__engine_loop_run(struct sr1__engine *e,
                                const struct sr1__engine_task *task,
                                const struct sr1__engine_client *client, void *self)
{
    struct engine_loop l = {
        .engine = e, .client = client, .self = self, .n_slots = task->n_slots};
    sr1_status st = e->ops->begin(e->self, task);

    if (st == SR1_OK)
        st = allocate_round(&l);
    if (st == SR1_OK)
        st = run_rounds(&l);
    e->ops->end(e->self);
    sr1__free(l.running);
    sr1__free(l.inputs);
    sr1__free(l.outputs);
    return st;
}
