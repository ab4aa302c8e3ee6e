/* tensor/model/step_graphs.c - graphs by their keys, and the way back to single kernels.
 */
#include "tensor/model/step_graphs.h"

#include "base/log.h"
#include "base/mem.h"
#include "tensor/model/capture_bridge.h"

#include <string.h>

struct step_graph {
    struct sr1__step_key key;
    sr1__graph *graph; /* NULL: the step has been launched once */
    int64_t used;      /* the last time, in runs */
};

struct sr1__step_graphs {
    sr1__device device;
    int eager;                              /* on request */
    int failed;                             /* for good */
    const struct sr1__capture_table *table; /* NULL: not looked for yet */
    struct sr1__step_state state;
    struct step_graph kept[SR1__STEP_GRAPHS_MOST];
    size_t n;
    int64_t runs;
    struct sr1__step_graph_stats stats;
};

sr1_status sr1__step_graphs_new(struct sr1__step_graphs **out, sr1__device device)
{
    struct sr1__step_graphs *g;

    SR1__CALLOC(g, 1, "step graphs");
    g->device = device;
    *out = g;
    return SR1_OK;
}

void sr1__step_graphs_free(struct sr1__step_graphs *g)
{
    if (!g)
        return;
    sr1__step_graphs_drop(g);
    sr1__free(g);
}

void sr1__step_graphs_eager(struct sr1__step_graphs *g, int on)
{
    g->eager = on;
}

void sr1__step_graphs_stats(const struct sr1__step_graphs *g,
                            struct sr1__step_graph_stats *out)
{
    *out = g->stats;
}

/* ---- what is kept ---- */

static void free_graph(struct sr1__step_graphs *g, struct step_graph *kept)
{
    if (kept->graph)
        g->table->free(kept->graph);
    kept->graph = NULL;
}

void sr1__step_graphs_drop(struct sr1__step_graphs *g)
{
    while (g->n > 0)
        free_graph(g, &g->kept[--g->n]);
}

void sr1__step_graphs_keep(struct sr1__step_graphs *g,
                           const struct sr1__step_state *state)
{
    const struct sr1__step_state *now = &g->state;

    if (now->version == state->version && now->rope == state->rope &&
        now->cache == state->cache)
        return;
    sr1__step_graphs_drop(g);
    g->state = *state;
}

static struct step_graph *find_step(struct sr1__step_graphs *g,
                                    const struct sr1__step_key *key)
{
    for (size_t i = 0; i < g->n; i++)
        if (memcmp(&g->kept[i].key, key, sizeof *key) == 0)
            return &g->kept[i];
    return NULL;
}

/* In the place of the least recently used one where there is none left. */
static struct step_graph *add_step(struct sr1__step_graphs *g,
                                   const struct sr1__step_key *key)
{
    struct step_graph *at = &g->kept[0];

    if (g->n < SR1__STEP_GRAPHS_MOST)
        at = &g->kept[g->n++];
    else
        for (size_t i = 1; i < g->n; i++)
            at = g->kept[i].used < at->used ? &g->kept[i] : at;
    free_graph(g, at);
    *at = (struct step_graph){.key = *key};
    return at;
}

/* Memory is shared by all graphs: none needs any between its replays. */
static sr1__graph *any_graph(const struct sr1__step_graphs *g)
{
    for (size_t i = 0; i < g->n; i++)
        if (g->kept[i].graph)
            return g->kept[i].graph;
    return NULL;
}

/* ---- without graphs ---- */

static sr1_status launch_kernels(struct sr1__step_graphs *g, const char *label,
                                 void (*fn)(sr1_scope *s, void *arg), void *arg)
{
    sr1_scope *s = sr1__scope_open(g->device, "%s", label);

    sr1__scope_inference(s);
    fn(s, arg);
    return sr1__scope_close(s);
}

/* Graphs fail for good; the reason is the thread's error text. Once for each reason. */
static void give_up(struct sr1__step_graphs *g, const char *doing)
{
    static atomic_ullong last;

    g->failed = 1;
    sr1__step_graphs_drop(g);
    if (sr1__log_is_news(&last, sr1_last_error()))
        sr1__log(SR1_LOG_WARN,
                 "decoding on %s: %s, so steps are launched kernel by kernel, which is "
                 "slower (%s); set enforce_eager: true if that is wanted",
                 sr1__device_name(g->device), doing, sr1_last_error());
}

static int are_graphs_there(struct sr1__step_graphs *g)
{
    if (g->eager || g->failed)
        return 0;
    if (!g->table && sr1__capture_find(g->device, &g->table) != SR1_OK)
        give_up(g, "graphs cannot be captured");
    return !g->failed;
}

/* ---- with graphs ---- */

/* The kernels of fn into a new graph; they do not run. */
static sr1_status capture_step(struct sr1__step_graphs *g, const char *label,
                               void (*fn)(sr1_scope *s, void *arg), void *arg,
                               sr1__graph **out)
{
    struct sr1__capture_error error = {""};
    struct sr1__error first;
    sr1__graph *graph;
    sr1_status st, ended;

    SR1__TRY(sr1__capture_status(
        g->table->begin(&graph, sr1__capture_index(g->device), any_graph(g), &error),
        &error, label));
    st = launch_kernels(g, label, fn, arg);
    sr1__error_save(&first, st);
    ended = sr1__capture_status(g->table->end(graph, &error), &error, label);
    if (st == SR1_OK && ended == SR1_OK) {
        *out = graph;
        g->stats.captures++;
        return SR1_OK;
    }
    g->table->free(graph);
    return st == SR1_OK ? ended : sr1__error_raise(&first);
}

static sr1_status replay_step(struct sr1__step_graphs *g, const char *label,
                              sr1__graph *graph)
{
    struct sr1__capture_error error = {""};

    SR1__TRY(sr1__capture_status(g->table->replay(graph, &error), &error, label));
    g->stats.replays++;
    return SR1_OK;
}

/* A lack of host memory is the step's failure, not that of graphs. */
static sr1_status launch_graph(struct sr1__step_graphs *g, const char *label,
                               struct step_graph *step,
                               void (*fn)(sr1_scope *s, void *arg), void *arg)
{
    sr1_status st = SR1_OK;

    if (!step->graph)
        st = capture_step(g, label, fn, arg, &step->graph);
    if (st == SR1_E_NOMEM)
        return st;
    if (st == SR1_OK && replay_step(g, label, step->graph) == SR1_OK)
        return SR1_OK;
    give_up(g, st == SR1_OK ? "a graph could not be launched"
                            : "a graph could not be captured");
    return launch_kernels(g, label, fn, arg);
}

sr1_status sr1__step_graphs_run(struct sr1__step_graphs *g, const char *label,
                                const struct sr1__step_key *key,
                                void (*fn)(sr1_scope *s, void *arg), void *arg)
{
    struct step_graph *step;
    sr1_status st;

    if (!key || !are_graphs_there(g))
        return launch_kernels(g, label, fn, arg);
    step = find_step(g, key);
    if (step) {
        step->used = ++g->runs;
        return launch_graph(g, label, step, fn, arg);
    }
    st = launch_kernels(g, label, fn, arg);
    if (st == SR1_OK)
        add_step(g, key)->used = ++g->runs;
    return st;
}
