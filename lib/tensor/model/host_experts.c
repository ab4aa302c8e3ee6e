/* tensor/model/host_experts.c - experts as loops of a team of threads.
 *
 *     choose experts by token;  rows of h in the order of experts;
 *     a = silu(gate) * up;  y = Wdown a;  x += sum_k p_k y_k, back in the order of tokens
 *
 * A product's task is a group of outputs for some rows of an expert, a *cut*. */
#include "tensor/model/host_experts.h"

#include "base/mem.h"
#include "kernels/layer.h"
#include "kernels/product_int8.h"
#include "tensor/model/model.h"
#include "tensor/model/routing.h"

#include <math.h>
#include <string.h>

#define ROWS 128      /* of a cut, at most */
#define ROUTED_ROWS 8 /* of a task that is not a product */

struct expert_cut {
    size_t expert;
    size_t first; /* place */
    size_t n;
};

struct sr1__host_experts {
    const sr1_model *m;
    struct sr1__team *team;
    size_t size; /* of an element of the weights */
    size_t e, f; /* hidden size, of an expert */
    int int8;
    float *tiles; /* [threads, ROWS * (SR1__GROUP_OUT + SR1__HOST_GATES), and rows] */
    size_t tile;  /* floats of one */
    /* of a pass */
    size_t tokens; /* that there is room for */
    struct sr1__routing routing;
    struct expert_cut *cuts;
    size_t n_cuts;
    float *p;           /* [tokens, k] */
    float *scores;      /* [tokens, experts] */
    unsigned char *in;  /* [places, depth(e)] of the weights' type */
    unsigned char *mid; /* [places, depth(f)] likewise */
    float *out;         /* [places, e] */
    int16_t *quantized; /* [places, row of the wider] in, then mid; NULL: not int8 */
    /* of the layer under way */
    const struct sr1__host_weights *w;
    const struct sr1__host_layer *l;
    const struct sr1__expert_rows *rows;
};

/* ---- memory ---- */

#define TILE_FLOATS ((size_t)ROWS * (SR1__GROUP_OUT + SR1__HOST_GATES))

static size_t count_cuts(const struct sr1__hf_config *c, size_t tokens)
{
    return (size_t)c->n_experts + tokens * (size_t)c->experts_per_token / ROWS;
}

/* Bytes of the rows of a place: in, mid and out. */
static size_t place_bytes(const struct sr1__hf_config *c, size_t size)
{
    return (sr1__panels_depth((size_t)c->hidden_size) +
            sr1__panels_depth((size_t)c->expert_size)) *
               size +
           (size_t)c->hidden_size * sizeof(float);
}

static size_t find_wider(const struct sr1__hf_config *c)
{
    return (size_t)(c->hidden_size > c->expert_size ? c->hidden_size : c->expert_size);
}

static size_t quantized_place_bytes(const struct sr1__hf_config *c)
{
    return sr1__int8_row(find_wider(c)) * sizeof(int16_t);
}

/* Of a thread. */
static size_t tile_floats(const struct sr1__hf_config *c)
{
    return TILE_FLOATS + ROUTED_ROWS * sr1__panels_depth(find_wider(c));
}

double sr1__host_experts_bytes(const struct sr1__hf_config *c, double tokens,
                               double threads, int bf16, int int8)
{
    size_t size = bf16 ? sizeof(uint16_t) : sizeof(float);

    if (!c->n_experts)
        return 0;
    return tokens * (double)c->experts_per_token *
               (double)(place_bytes(c, size) + (int8 ? quantized_place_bytes(c) : 0)) +
           threads * (double)(tile_floats(c) * sizeof(float));
}

static sr1_status reserve_experts(struct sr1__host_experts *e, size_t tokens)
{
    const struct sr1__hf_config *c = &e->m->config;
    size_t k = (size_t)c->experts_per_token, places = tokens * k;
    size_t bytes = places * place_bytes(c, e->size);

    SR1__TRY(sr1__routing_new(&e->routing, (int64_t)tokens, c->experts_per_token,
                              c->n_experts));
    SR1__CALLOC(e->cuts, count_cuts(c, tokens), "decode pass");
    SR1__CALLOC(e->p, places, "decode pass");
    SR1__CALLOC(e->scores, tokens * (size_t)c->n_experts, "decode pass");
    e->in = sr1__malloc_aligned(bytes);
    SR1__CHECK_ALLOC(e->in, "decode pass");
    memset(e->in, 0, bytes); /* what lies behind the rows of products' inputs stays so */
    e->mid = e->in + places * sr1__panels_depth(e->e) * e->size;
    e->out = (float *)(void *)(e->mid + places * sr1__panels_depth(e->f) * e->size);
    if (e->int8) {
        e->quantized = sr1__malloc_aligned(places * quantized_place_bytes(c));
        SR1__CHECK_ALLOC(e->quantized, "decode pass");
    }
    e->tokens = tokens;
    return SR1_OK;
}

sr1_status sr1__host_experts_reserve(struct sr1__host_experts *e, size_t tokens)
{
    if (!e || tokens <= e->tokens)
        return SR1_OK;
    sr1__host_experts_reset(e);
    return reserve_experts(e, tokens);
}

void sr1__host_experts_reset(struct sr1__host_experts *e)
{
    if (!e)
        return;
    sr1__routing_free(&e->routing);
    sr1__free(e->cuts);
    sr1__free(e->p);
    sr1__free(e->scores);
    sr1__free(e->in);
    sr1__free(e->quantized);
    e->cuts = NULL;
    e->p = e->scores = NULL;
    e->in = NULL;
    e->quantized = NULL;
    e->tokens = 0;
}

void sr1__host_experts_free(struct sr1__host_experts *e)
{
    if (!e)
        return;
    sr1__host_experts_reset(e);
    sr1__free(e->tiles);
    sr1__free(e);
}

sr1_status sr1__host_experts_new(struct sr1__host_experts **out, const sr1_model *m,
                                 struct sr1__team *team, int int8)
{
    struct sr1__host_experts *e;

    SR1__CALLOC(e, 1, "decode pass");
    e->m = m;
    e->team = team;
    e->size = m->dtype == SR1__BF16 ? sizeof(uint16_t) : sizeof(float);
    e->e = (size_t)m->config.hidden_size;
    e->f = (size_t)m->config.expert_size;
    e->int8 = int8;
    e->tile = tile_floats(&m->config);
    e->tiles =
        sr1__malloc_aligned((size_t)sr1__team_threads(team) * e->tile * sizeof(float));
    SR1__RETURN_NEW(out, e, e->tiles ? SR1_OK : sr1__fail_nomem("decode pass"),
                    sr1__host_experts_free);
}

/* ---- routing ---- */

/* The k largest, the lower numbers of equals, and their softmax. */
static void choose_token_experts(const struct sr1__host_experts *e, size_t token)
{
    const struct sr1__hf_config *c = &e->m->config;
    size_t n = (size_t)c->n_experts, k = (size_t)c->experts_per_token;
    float *scores = e->scores + token * n;
    float *p = e->p + token * k;
    double top, all = 0, kept = 0;

    top = (double)scores[0];
    for (size_t i = 1; i < n; i++)
        top = (double)scores[i] > top ? (double)scores[i] : top;
    for (size_t i = 0; i < n; i++)
        all += exp((double)scores[i] - top);
    for (size_t j = 0; j < k; j++) {
        size_t best = 0;

        for (size_t i = 1; i < n; i++)
            best = scores[i] > scores[best] ? i : best;
        e->routing.chosen[token * k + j] = (int64_t)best;
        p[j] = (float)(exp((double)scores[best] - top) / all);
        kept += (double)p[j];
        scores[best] = -INFINITY;
    }
    for (size_t j = 0; j < k && c->norm_expert_probs; j++)
        p[j] = (float)((double)p[j] / kept);
}

static float *get_tile(const struct sr1__host_experts *e, int32_t thread)
{
    return e->tiles + (size_t)thread * e->tile;
}

static size_t count_rows(size_t i, size_t n)
{
    return n - i * ROUTED_ROWS < ROUTED_ROWS ? n - i * ROUTED_ROWS : ROUTED_ROWS;
}

/* Rows [i, i + 1) * ROUTED_ROWS, in fp32 in any model: what is nearly a draw is decided
 * by little. */
static void route_rows(void *arg, size_t i, int32_t thread)
{
    struct sr1__host_experts *e = arg;
    const struct sr1__panels *router = &e->l->router;
    size_t first = i * ROUTED_ROWS, n = count_rows(i, e->rows->n);
    size_t depth = sr1__panels_depth(e->e);
    float *tile = get_tile(e, thread), *h = tile + TILE_FLOATS;

    for (size_t r = 0; r < n; r++) {
        sr1__rms_norm(e->rows->x + (first + r) * e->rows->width, e->l->post_norm,
                      h + r * depth, 1, (int64_t)e->e, e->m->config.rms_norm_eps);
        memset(h + r * depth + e->e, 0, (depth - e->e) * sizeof *h);
    }
    for (size_t g = 0; g < sr1__panels_groups(router->n_out); g++) {
        size_t at = g * SR1__GROUP_OUT, left = router->n_out - at;

        sr1__product(router, g, h, depth, n, tile);
        for (size_t r = 0; r < n; r++)
            memcpy(e->scores + (first + r) * router->n_out + at,
                   tile + r * SR1__GROUP_OUT,
                   (left < SR1__GROUP_OUT ? left : SR1__GROUP_OUT) * sizeof *tile);
    }
    for (size_t r = first; r < first + n; r++)
        choose_token_experts(e, r);
}

static void list_cuts(struct sr1__host_experts *e)
{
    size_t at = 0;

    e->n_cuts = 0;
    for (size_t i = 0; i < (size_t)e->routing.n_experts; i++) {
        size_t end = at + (size_t)e->routing.counts[i];

        for (size_t n; at < end; at += n) {
            n = end - at < ROWS ? end - at : ROWS;
            e->cuts[e->n_cuts++] = (struct expert_cut){i, at, n};
        }
    }
}

static void gather_rows(void *arg, size_t i, int32_t thread)
{
    const struct sr1__host_experts *e = arg;
    size_t first = i * ROUTED_ROWS, n = count_rows(i, (size_t)e->routing.n);

    (void)thread;
    for (size_t r = first; r < first + n; r++)
        memcpy(e->in + r * sr1__panels_depth(e->e) * e->size,
               e->rows->h + (size_t)e->routing.token[r] * e->rows->width * e->size,
               e->e * e->size);
}

/* ---- products ---- */

/* By a matrix of each expert, of the places of all. */
struct expert_product {
    struct sr1__host_experts *e;
    struct sr1__host_rows in;
    int down; /* else gate_up */
};

static const struct sr1__panels *get_panels(const struct expert_product *t, size_t expert)
{
    const struct sr1__host_mlp *mlp = &t->e->l->experts[expert];

    return t->down ? &mlp->down : &mlp->gate_up;
}

static void quantize_places(void *arg, size_t i, int32_t thread)
{
    const struct expert_product *t = arg;

    sr1__host_quantize(t->e->w, &t->in, get_panels(t, 0)->k, i * ROUTED_ROWS,
                       count_rows(i, (size_t)t->e->routing.n),
                       get_tile(t->e, thread) + TILE_FLOATS);
}

static void finish_gates(const struct sr1__host_experts *e, const struct expert_cut *c,
                         size_t group, float *tile)
{
    size_t at = group * SR1__HOST_GATES;
    size_t width = e->f - at < SR1__HOST_GATES ? e->f - at : SR1__HOST_GATES;
    float *gated = tile + (size_t)ROWS * SR1__GROUP_OUT;

    sr1__swiglu(tile, gated, (int64_t)c->n, SR1__HOST_GATES);
    for (size_t r = 0; r < c->n; r++)
        sr1__host_store(
            e->w, gated + r * SR1__HOST_GATES,
            e->mid + ((c->first + r) * sr1__panels_depth(e->f) + at) * e->size, width);
}

static void finish_down(const struct sr1__host_experts *e, const struct expert_cut *c,
                        size_t group, const float *tile)
{
    size_t at = group * SR1__GROUP_OUT;
    size_t width = e->e - at < SR1__GROUP_OUT ? e->e - at : SR1__GROUP_OUT;

    for (size_t r = 0; r < c->n; r++)
        memcpy(e->out + (c->first + r) * e->e + at, tile + r * SR1__GROUP_OUT,
               width * sizeof *tile);
}

/* A group of outputs for the rows of a cut. */
static void multiply_cut(void *arg, size_t i, int32_t thread)
{
    const struct expert_product *t = arg;
    size_t groups = sr1__panels_groups(get_panels(t, 0)->n_out);
    const struct expert_cut *c = &t->e->cuts[i / groups];
    float *tile = get_tile(t->e, thread);

    sr1__host_multiply(get_panels(t, c->expert), i % groups, &t->in, c->first, c->n,
                       tile);
    if (t->down)
        finish_down(t->e, c, i % groups, tile);
    else
        finish_gates(t->e, c, i % groups, tile);
}

static void run_rows(const struct sr1__host_experts *e, size_t n, sr1__team_fn fn,
                     void *arg)
{
    sr1__team_run(e->team, (n + ROUTED_ROWS - 1) / ROUTED_ROWS, fn, arg);
}

static void multiply_places(struct sr1__host_experts *e, int down)
{
    struct expert_product t = {
        e,
        {down ? e->mid : e->in, sr1__panels_depth(down ? e->f : e->e), e->quantized},
        down};

    if (e->int8)
        run_rows(e, (size_t)e->routing.n, quantize_places, &t);
    sr1__team_run(e->team, e->n_cuts * sr1__panels_groups(get_panels(&t, 0)->n_out),
                  multiply_cut, &t);
}

/* In the order of a token's choices. */
static void add_experts(void *arg, size_t i, int32_t thread)
{
    const struct sr1__host_experts *e = arg;
    size_t first = i * ROUTED_ROWS, n = count_rows(i, e->rows->n);
    size_t k = (size_t)e->routing.k;

    (void)thread;
    for (size_t j = first * k; j < (first + n) * k; j++) {
        const float *y = e->out + (size_t)e->routing.back[j] * e->e;
        float *x = e->rows->x + j / k * e->rows->width;

        for (size_t o = 0; o < e->e; o++)
            x[o] += e->p[j] * y[o];
    }
}

void sr1__host_experts_run(struct sr1__host_experts *e, const struct sr1__host_weights *w,
                           const struct sr1__host_layer *l,
                           const struct sr1__expert_rows *rows)
{
    e->w = w;
    e->l = l;
    e->rows = rows;
    run_rows(e, rows->n, route_rows, e);
    sr1__routing_sort(&e->routing, (int64_t)rows->n);
    list_cuts(e);
    run_rows(e, (size_t)e->routing.n, gather_rows, e);
    multiply_places(e, 0);
    multiply_places(e, 1);
    run_rows(e, rows->n, add_experts, e);
}
