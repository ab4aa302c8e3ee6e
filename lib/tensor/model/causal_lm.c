/* tensor/model/causal_lm.c - the forward pass of a decoder, a causal language model, over
 * packed tokens.
 *
 *     x = embed[ids]
 *     a layer:  x += Wo attention(rope(norm(Wq h)), rope(norm(Wk h)), Wv h),  h = norm(x)
 *               x += Wdown (silu(Wgate h) * (Wup h)),                         h = norm(x)
 *     hidden = norm(x)
 *
 * What architectures do otherwise stands in their table (weights/decoder_archs.h) and, by
 * layer, in the configuration: norms of heads, biases, layers without positions, windows.
 * Which tokens a token attends to is decided by the caller: packed sequences here, a
 * key-value cache in the decoder. */
#include "tensor/model/adapter.h"

#include "base/mem.h"
#include "tensor/model/capture_bridge.h"
#include "tensor/model/decode_tables.h"
#include "tensor/model/experts.h"
#include "tensor/ops/fused.h"
#include "tensor/ops/int8_linear.h"
#include "tensor/ops/linear.h"

#include <math.h>

/* How the heads of a layer are turned to their positions. */
struct rotation {
    sr1_tensor *cos; /* [N,D] */
    sr1_tensor *sin;
    sr1_tensor *turn; /* [N,D,D], of few tokens in place once asked for; else NULL */
};

/* The values shared by all layers of one forward pass. Kept by checkpointed layers until
 * backward has run. */
struct causal_lm_pass {
    sr1_model *m;
    struct rotation rotations[SR1__TURNS]; /* those that layers have */
    struct sr1__attention attention;
    int64_t *cu_seqlens; /* a copy; NULL with an attention of the caller's */
    int32_t *continues;  /* a copy; NULL: none continues another */
    size_t n_seqs;
    int64_t longest; /* tokens of a sequence, with the one that it continues */
    struct sr1__lora_dropout dropout;    /* a copy; p 0: none */
    struct sr1__expert_balance *balance; /* NULL: routers have no auxiliary loss */
    struct sr1__routes routes;           /* places: a copy; log NULL: none */
    sr1_tensor **head;                   /* of the options */
    sr1_tensor *rows;                    /* that are wanted; NULL: all */
    int again; /* a layer runs a second time, for its gradients */
    int32_t refs;
};

struct layer_segment {
    struct causal_lm_pass *pass;
    int32_t layer;
    int computed; /* once, forward */
};

static void free_rotations(struct causal_lm_pass *p)
{
    for (int i = 0; i < SR1__TURNS; i++) {
        sr1__tensor_free(p->rotations[i].cos);
        sr1__tensor_free(p->rotations[i].sin);
        sr1__tensor_free(p->rotations[i].turn);
    }
}

static void pass_release(struct causal_lm_pass *p)
{
    if (!p || --p->refs > 0)
        return;
    free_rotations(p);
    sr1__tensor_free(p->rows);
    sr1__free(p->cu_seqlens);
    sr1__free(p->continues);
    sr1__free((void *)(uintptr_t)p->dropout.keys);
    sr1__expert_balance_release(p->balance);
    sr1__free((void *)(uintptr_t)p->routes.places);
    sr1__free(p);
}

static void layer_segment_free(void *self)
{
    struct layer_segment *g = self;

    pass_release(g->pass);
    sr1__free(g);
}

static sr1_tensor *packed_attention(sr1_scope *s, void *self, int32_t layer,
                                    sr1_tensor *q, sr1_tensor *k, sr1_tensor *v)
{
    const struct causal_lm_pass *p = self;
    const struct sr1__sequence_spans spans = {p->cu_seqlens, p->continues, p->n_seqs};
    int64_t window = sr1__hf_config_window(&p->m->config, layer);

    if (window && p->longest > window)
        return sr1__nn_window_attention(s, q, k, v, &spans, window);
    if (p->continues)
        return sr1__nn_shared_attention(s, q, k, v, &spans);
    return sr1__nn_attention(s, q, k, v, p->cu_seqlens, p->n_seqs);
}

/* A matrix of one or more linear layers. */
struct linear {
    sr1_tensor *w, *scale, *bias; /* scale: w is int8; both may be NULL */
    struct sr1__lora_span span;   /* the adapters they may have */
    int unread;                   /* only gradients of the product are wanted */
};

static sr1_tensor *multiply_layer_weight(sr1_scope *s, const struct causal_lm_pass *p,
                                         sr1_tensor *x, const struct linear *l)
{
    if (l->scale)
        return sr1__int8_linear(s, x, l->w, l->scale, l->bias);
    if (p->attention.linear)
        return p->attention.linear(s, p->attention.self, x, l->w, l->bias);
    return (l->unread ? sr1__linear_unread : sr1__linear)(s, x, l->w, l->bias);
}

static sr1_tensor *apply_layer_linear(sr1_scope *s, const struct causal_lm_pass *p,
                                      sr1_tensor *x, struct linear l)
{
    return sr1__lora_add(s, p->m, &p->attention, &p->dropout, x,
                         multiply_layer_weight(s, p, x, &l), l.span);
}

/* x + y w^T + bias, and what the adapter of w adds. */
static sr1_tensor *add_linear(sr1_scope *s, const struct causal_lm_pass *p, sr1_tensor *x,
                              sr1_tensor *y, struct linear l)
{
    if (!p->attention.in_place || l.scale)
        return t_add(s, x, apply_layer_linear(s, p, y, l));
    t_addmm_(s, x, y, t_transpose(s, l.w, 0, 1));
    if (l.bias)
        t_add_(s, x, l.bias, 1.0);
    return sr1__lora_add(s, p->m, &p->attention, &p->dropout, y, x, l.span);
}

/* What a norm multiplies by. */
static sr1_tensor *get_norm_weight(sr1_scope *s, const sr1_model *m, sr1_tensor *w)
{
    return w && m->arch->norm_plus_one ? t_add_scalar(s, t_to(s, w, SR1__F32), 1.0) : w;
}

static sr1_tensor *normalise_hidden(sr1_scope *s, const sr1_model *m, sr1_tensor *x,
                                    sr1_tensor *w)
{
    return sr1__fused_rms_norm(s, x, get_norm_weight(s, m, w), m->config.rms_norm_eps);
}

/* x + y w^T + bias, the product normalised where there is a norm of it. */
static sr1_tensor *add_output(sr1_scope *s, const struct causal_lm_pass *p, sr1_tensor *x,
                              sr1_tensor *y, struct linear l, sr1_tensor *norm)
{
    return norm ? t_add(s, x,
                        normalise_hidden(s, p->m, apply_layer_linear(s, p, y, l), norm))
                : add_linear(s, p, x, y, l);
}

/* Norms that add 1 are not done in the model's type. */
static void make_turn(sr1_scope *s, struct causal_lm_pass *p, struct rotation *r)
{
    if (!r->turn && p->attention.in_place && t_size(r->cos, 0) <= SR1__TURN_TOKENS &&
        !p->m->arch->norm_plus_one)
        r->turn = t_hold(s, sr1__decode_turn(s, p->m, r->cos, r->sin));
}

/* From the product qkv to attention's result. */
static sr1_tensor *attend_product(sr1_scope *s, struct causal_lm_pass *p, int32_t layer,
                                  struct sr1__heads_op *heads, sr1_tensor *y)
{
    const struct sr1__hf_config *c = &p->m->config;
    struct rotation *r = &p->rotations[sr1__hf_config_turn(c, layer)];
    double scale = sr1__hf_config_query_scale(c);
    sr1_tensor *qkv[3], *attended = NULL;

    if (p->attention.qkv_fn && scale == 1.0 && !p->m->arch->norm_plus_one)
        attended = p->attention.qkv_fn(s, p->attention.self, layer, heads, y);
    if (attended || sr1__scope_status(s) != SR1_OK)
        return attended;
    make_turn(s, p, r);
    heads->turn = r->turn;
    if (r->turn && heads->q_norm)
        heads->qk_norm = p->m->tables->qk_norms[layer];
    sr1__fused_heads(s, heads, y, qkv);
    if (scale != 1.0)
        qkv[0] = t_mul_scalar(s, qkv[0], scale);
    return p->attention.fn(s, p->attention.self, layer, qkv[0], qkv[1], qkv[2]);
}

/* Behind the last attention no other token reads those that are not wanted. Dropout has a
 * key for each token, and routers are balanced over all of them, or replayed for all. */
static int leaves_rows(const struct causal_lm_pass *p, int32_t layer)
{
    return p->rows && layer + 1 == p->m->config.n_layers && p->dropout.p == 0.0 &&
           !p->balance && !p->routes.log;
}

static sr1_tensor *run_decoder_attention(sr1_scope *s, struct causal_lm_pass *p,
                                         int32_t layer, sr1_tensor *x)
{
    const struct sr1__hf_config *c = &p->m->config;
    const struct sr1__layer *w = &p->m->layers[layer];
    const struct rotation *r = &p->rotations[sr1__hf_config_turn(c, layer)];
    struct sr1__heads_op heads = {.n_q = c->n_heads,
                                  .n_kv = c->n_kv_heads,
                                  .dim = c->head_dim,
                                  .q_norm = get_norm_weight(s, p->m, w->q_norm),
                                  .k_norm = get_norm_weight(s, p->m, w->k_norm),
                                  .eps = c->rms_norm_eps,
                                  .cos = r->cos,
                                  .sin = r->sin};
    sr1_tensor *y = normalise_hidden(s, p->m, x, w->input_norm);

    y = apply_layer_linear(
        s, p, y,
        (struct linear){w->qkv, w->qkv_scale, w->qkv_bias, {layer, SR1__LORA_Q, 3}});
    y = attend_product(s, p, layer, &heads, y);
    if (leaves_rows(p, layer)) {
        x = t_index_select(s, x, 0, p->rows);
        y = t_index_select(s, y, 0, p->rows);
    }
    return add_output(
        s, p, x, y, (struct linear){w->o, w->o_scale, w->o_bias, {layer, SR1__LORA_O, 1}},
        w->attention_norm);
}

static sr1_tensor *apply_gate(sr1_scope *s, const struct causal_lm_pass *p,
                              sr1_tensor *gate_up)
{
    if (p->m->arch->gelu)
        return sr1__nn_geglu(s, gate_up);
    return p->attention.in_place ? sr1__capture_swiglu(s, gate_up)
                                 : sr1__fused_swiglu(s, gate_up);
}

static sr1_tensor *run_decoder_mlp(sr1_scope *s, const struct causal_lm_pass *p,
                                   int32_t layer, sr1_tensor *x)
{
    const struct sr1__layer *w = &p->m->layers[layer];
    sr1_tensor *y = normalise_hidden(s, p->m, x, w->post_norm);

    if (w->router)
        return t_add(s, x,
                     sr1__experts_run(s, p->m, &p->attention, layer, y, p->balance,
                                      p->routes.log ? &p->routes : NULL));
    y = apply_layer_linear(
        s, p, y,
        (struct linear){w->gate_up, w->gate_up_scale, NULL, {layer, SR1__LORA_GATE, 2}});
    y = apply_gate(s, p, y);
    return add_output(s, p, x, y,
                      (struct linear){.w = w->down,
                                      .scale = w->down_scale,
                                      .span = {layer, SR1__LORA_DOWN, 1},
                                      .unread = p->again && !w->mlp_norm},
                      w->mlp_norm);
}

/* One layer in a scope of its own, so that its activations go as early as they can. */
static sr1_tensor *run_decoder_layer(sr1_scope *outer, struct causal_lm_pass *p,
                                     int32_t layer, sr1_tensor *x)
{
    sr1_scope *s = sr1__scope_nest(outer, "layer %d", layer);
    sr1_tensor *y = run_decoder_mlp(s, p, layer, run_decoder_attention(s, p, layer, x));

    y = t_keep(s, y);
    (void)sr1__scope_close(s);
    return y;
}

static sr1_tensor *run_layer_segment(sr1_scope *s, void *self, sr1_tensor *x)
{
    struct layer_segment *g = self;
    sr1_tensor *y;

    g->pass->again = g->computed;
    y = run_decoder_layer(s, g->pass, g->layer, x);
    g->computed = 1;
    return y;
}

static sr1_tensor *run_checkpointed(sr1_scope *s, struct causal_lm_pass *p, int32_t layer,
                                    sr1_tensor *x)
{
    struct layer_segment *g = sr1__malloc(sizeof *g);

    if (!g) {
        sr1__scope_check(s, sr1__fail_nomem("checkpointed layer"));
        return NULL;
    }
    *g = (struct layer_segment){p, layer, 0};
    p->refs++;
    return t_checkpoint(s, run_layer_segment, g, layer_segment_free, x);
}

/* Rows of a rotary table for the tokens' positions. */
static void pick_angles(sr1_scope *s, const struct sr1__rope *rope, struct rotation *r,
                        sr1_tensor *index, int32_t dtype)
{
    r->cos = t_hold(s, t_to(s, t_index_select(s, rope->cos, 0, index), dtype));
    r->sin = t_hold(s, t_to(s, t_index_select(s, rope->sin, 0, index), dtype));
}

/* A turn by nothing. */
static void fill_no_angles(sr1_scope *s, const sr1_model *m, struct rotation *r,
                           int64_t n)
{
    r->cos = t_hold(s, t_full(s, 1.0, m->dtype, T_SHAPE(n, m->config.head_dim)));
    r->sin = t_hold(s, t_full(s, 0.0, m->dtype, T_SHAPE(n, m->config.head_dim)));
}

/* The rotations of these positions; the rotary tables grow to the largest. */
static void pick_positions(sr1_scope *s, struct causal_lm_pass *p,
                           const struct sr1__placed_tokens *in)
{
    sr1_tensor *index = in->positions_there;
    int64_t top = 0;

    for (size_t i = 0; i < in->n; i++)
        top = in->positions[i] > top ? in->positions[i] : top;
    sr1__scope_check(s, sr1__model_reserve_positions(p->m, top + 1));
    if (!index)
        index = t_from_i64(s, in->positions, T_SHAPE((int64_t)in->n));
    pick_angles(s, &p->m->rope, &p->rotations[SR1__TURN_ROPE], index, p->m->dtype);
    if (sr1__hf_config_has(&p->m->config, SR1__LAYER_LOCAL))
        pick_angles(s, &p->m->local_rope, &p->rotations[SR1__TURN_LOCAL], index,
                    p->m->dtype);
    if (sr1__hf_config_has(&p->m->config, SR1__LAYER_NO_ROPE))
        fill_no_angles(s, p->m, &p->rotations[SR1__TURN_NONE], (int64_t)in->n);
}

static sr1_status check_packed_ids(const sr1_model *m, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= m->config.vocab_size)
            return sr1__fail(SR1_E_INVALID, "token %zu: id %d is not in [0, %lld)", i,
                             (int)ids[i], (long long)m->config.vocab_size);
    return n > 0 ? SR1_OK : sr1__fail(SR1_E_INVALID, "no tokens");
}

/* ---- units ---- */

static void enter_unit(sr1_scope *s, const sr1_model *m, int32_t unit)
{
    if (m->hooks && sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, m->hooks->before(m->hooks->self, unit, 0));
}

static void leave_unit(sr1_scope *s, const sr1_model *m, int32_t unit)
{
    if (m->hooks && sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, m->hooks->after(m->hooks->self, unit, 0));
}

/* A place that backward passes before a unit, or after it. */
struct unit_mark {
    const struct sr1__unit_hooks *hooks;
    int32_t unit;
    int after;
};

static void pass_mark(sr1_scope *s, void *self, sr1_tensor *const *grads_y,
                      sr1_tensor **grads)
{
    const struct unit_mark *k = self;

    sr1__scope_check(
        s, (k->after ? k->hooks->after : k->hooks->before)(k->hooks->self, k->unit, 1));
    grads[0] = grads_y[0];
}

static sr1_tensor *mark_unit(sr1_scope *s, const sr1_model *m, int32_t unit, int after,
                             sr1_tensor *x)
{
    struct unit_mark *k = m->hooks ? sr1__malloc(sizeof *k) : NULL;
    sr1_tensor *y = x;

    if (!m->hooks || sr1__scope_status(s) != SR1_OK) {
        sr1__free(k);
        return x;
    }
    if (!k) {
        sr1__scope_check(s, sr1__fail_nomem("mark of a unit"));
        return NULL;
    }
    *k = (struct unit_mark){m->hooks, unit, after};
    t_with_backward(s, &y, 1, &x, 1, pass_mark, k, sr1__free);
    t_drop(s, x);
    return y;
}

/* The factor is of the model's type, as in transformers. */
static sr1_tensor *embed_tokens(sr1_scope *s, const struct causal_lm_pass *p,
                                sr1_tensor *ids)
{
    const sr1_model *m = p->m;
    sr1_tensor *x = p->head && m->head == m->embed
                        ? sr1__nn_tied_embedding(s, m->embed, ids, p->head)
                        : t_embedding(s, m->embed, ids);
    double root = sqrt((double)m->config.hidden_size);

    return m->arch->embedding_scale ? t_mul(s, x, t_full(s, root, m->dtype, T_SHAPE(1)))
                                    : x;
}

static sr1_tensor *run_decoder_layers(sr1_scope *s, struct causal_lm_pass *p,
                                      const struct sr1__placed_tokens *in, int checkpoint)
{
    sr1_model *m = p->m;
    sr1_tensor *ids, *x;

    pick_positions(s, p, in);
    ids = in->ids_there ? in->ids_there : t_from_i32(s, in->ids, in->n);
    enter_unit(s, m, 0);
    x = embed_tokens(s, p, ids);
    leave_unit(s, m, 0);
    if ((checkpoint || m->hooks) && m->adapter) /* backward goes through a unit's input */
        t_require_grad(s, x, 1);
    for (int32_t i = 0; i < m->config.n_layers; i++) {
        sr1_tensor *y;

        enter_unit(s, m, i + 1);
        x = mark_unit(s, m, i + 1, 1, x);
        y = checkpoint ? run_checkpointed(s, p, i, x) : run_decoder_layer(s, p, i, x);
        t_drop(s, x);
        x = mark_unit(s, m, i + 1, 0, y);
        leave_unit(s, m, i + 1);
    }
    if (p->rows && !leaves_rows(p, m->config.n_layers - 1))
        x = t_index_select(s, x, 0, p->rows);
    enter_unit(s, m, m->config.n_layers + 1);
    return normalise_hidden(s, m, x, m->final_norm);
}

/* A pass may replace the rotary tables, so a second thread in one model is refused. */
sr1_status sr1__causal_lm_begin(sr1_model *m)
{
    if (atomic_exchange(&m->busy, 1))
        return sr1__fail(SR1_E_STATE, "another thread is using this model; one thread at "
                                      "a time may");
    return SR1_OK;
}

void sr1__causal_lm_end(sr1_model *m)
{
    atomic_store(&m->busy, 0);
}

static sr1_tensor *run_decoder_forward(sr1_scope *s, struct causal_lm_pass *p,
                                       const struct sr1__placed_tokens *in,
                                       int checkpoint)
{
    sr1_tensor *hidden;
    sr1_status st;

    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    st = check_packed_ids(p->m, in->ids, in->n);
    if (st == SR1_OK)
        st = sr1__causal_lm_begin(p->m);
    sr1__scope_check(s, st);
    if (st != SR1_OK)
        return NULL;
    hidden = run_decoder_layers(s, p, in, checkpoint);
    sr1__causal_lm_end(p->m);
    return hidden;
}

sr1_tensor *sr1__causal_lm_body(sr1_scope *s, sr1_model *m,
                                const struct sr1__placed_tokens *in,
                                const struct sr1__attention *attention)
{
    struct causal_lm_pass p = {.m = m, .attention = *attention, .refs = 1};
    sr1_tensor *hidden = run_decoder_forward(s, &p, in, 0);

    free_rotations(&p);
    return hidden;
}

static sr1_status check_packed(const struct sr1__packed *in)
{
    for (size_t i = 0; i < in->n_seqs; i++) {
        int32_t from = in->continues ? in->continues[i] : -1;

        if (in->cu_seqlens[i + 1] <= in->cu_seqlens[i] || in->cu_seqlens[0] != 0)
            return sr1__fail(SR1_E_INVALID, "sequence %zu is empty or out of order", i);
        if (from >= 0 && ((size_t)from >= i || in->continues[from] >= 0))
            return sr1__fail(SR1_E_INVALID,
                             "sequence %zu continues %d, which is not one before it that "
                             "begins anew",
                             i, (int)from);
    }
    return SR1_OK;
}

int64_t sr1__packed_start(const struct sr1__packed *in, size_t i)
{
    int32_t from = in->continues ? in->continues[i] : -1;

    return from < 0 ? 0 : in->cu_seqlens[from + 1] - in->cu_seqlens[from];
}

static int64_t find_longest(const struct sr1__packed *in)
{
    int64_t longest = 0;

    for (size_t i = 0; i < in->n_seqs; i++) {
        int64_t n = sr1__packed_start(in, i) + in->cu_seqlens[i + 1] - in->cu_seqlens[i];

        longest = n > longest ? n : longest;
    }
    return longest;
}

sr1_status sr1__causal_lm_check_packed(const sr1_model *m, const struct sr1__packed *in,
                                       int64_t *longest)
{
    SR1__TRY(check_packed(in));
    *longest = find_longest(in);
    return check_packed_ids(m, in->ids,
                            (size_t)(in->n_seqs ? in->cu_seqlens[in->n_seqs] : 0));
}

/* Positions of packed tokens. */
static sr1_status packed_positions(const struct sr1__packed *in, int64_t **out)
{
    int64_t n = in->n_seqs ? in->cu_seqlens[in->n_seqs] : 0;
    int64_t *pos;

    SR1__TRY(check_packed(in));
    SR1__CALLOC(pos, (size_t)n + 1, "token positions");
    for (size_t i = 0; i < in->n_seqs; i++)
        for (int64_t t = in->cu_seqlens[i]; t < in->cu_seqlens[i + 1]; t++)
            pos[t] = sr1__packed_start(in, i) + t - in->cu_seqlens[i];
    *out = pos;
    return SR1_OK;
}

/* The keys as backward may need them again. */
static int copy_dropout(struct causal_lm_pass *p, const struct sr1__lora_dropout *dropout,
                        int64_t n)
{
    if (!dropout || dropout->p == 0.0)
        return 1;
    p->dropout.p = dropout->p;
    p->dropout.keys = sr1__memdup(dropout->keys, (size_t)n * sizeof *dropout->keys);
    return p->dropout.keys != NULL;
}

/* The sequences that each token stands for: those that continue its own, else itself. */
static float *count_copies(const struct sr1__packed *in)
{
    float *copies = sr1__calloc((size_t)in->cu_seqlens[in->n_seqs] + 1, sizeof *copies);

    for (size_t i = 0; copies && i < in->n_seqs; i++)
        if (in->continues[i] >= 0)
            copies[in->cu_seqlens[in->continues[i]]]++;
    for (size_t i = 0; copies && i < in->n_seqs; i++) {
        float n = copies[in->cu_seqlens[i]];

        for (int64_t t = in->cu_seqlens[i]; t < in->cu_seqlens[i + 1]; t++)
            copies[t] = n > 0 ? n : 1;
    }
    return copies;
}

static struct sr1__expert_balance *
balance_new(sr1_scope *s, const sr1_model *m, const struct sr1__packed *in, double weight)
{
    float *copies = in->continues ? count_copies(in) : NULL;
    struct sr1__expert_balance *b = NULL;

    if (in->continues && !copies)
        sr1__scope_check(s, sr1__fail_nomem("balance of experts"));
    else
        b = sr1__expert_balance_new(s, m->config.n_experts, copies,
                                    in->cu_seqlens[in->n_seqs], weight);
    sr1__free(copies);
    return b;
}

/* 0 without memory. */
static int copy_routes(struct causal_lm_pass *p, const struct sr1__routes *routes,
                       int64_t n)
{
    if (!routes)
        return 1;
    p->routes = *routes;
    p->routes.places = sr1__memdup(routes->places, (size_t)n * sizeof(int64_t));
    return p->routes.places != NULL;
}

static struct causal_lm_pass *pass_new(sr1_scope *s, sr1_model *m,
                                       const struct sr1__packed *in,
                                       const struct sr1__forward_options *opt)
{
    struct causal_lm_pass *p = sr1__calloc(1, sizeof *p);

    if (p) {
        p->m = m;
        p->refs = 1;
        p->head = opt ? opt->head : NULL;
        p->attention = (struct sr1__attention){.fn = packed_attention, .self = p};
        p->n_seqs = in->n_seqs;
        p->longest = find_longest(in);
        p->cu_seqlens = sr1__memdup(in->cu_seqlens, (in->n_seqs + 1) * sizeof(int64_t));
        if (in->continues)
            p->continues = sr1__memdup(in->continues, in->n_seqs * sizeof(int32_t));
    }
    if (p && p->cu_seqlens && !p->continues == !in->continues &&
        copy_dropout(p, opt ? opt->dropout : NULL, in->cu_seqlens[in->n_seqs]) &&
        copy_routes(p, opt ? opt->routes : NULL, in->cu_seqlens[in->n_seqs]))
        return p;
    pass_release(p);
    sr1__scope_check(s, sr1__fail_nomem("forward pass"));
    return NULL;
}

sr1_tensor *sr1__causal_lm_forward(sr1_scope *s, sr1_model *m,
                                   const struct sr1__packed *in,
                                   const struct sr1__forward_options *opt)
{
    int64_t *positions = NULL;
    sr1_tensor *hidden = NULL;
    struct causal_lm_pass *p;

    if (opt && opt->head)
        *opt->head = m->head;
    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    sr1__scope_check(s, packed_positions(in, &positions));
    p = positions ? pass_new(s, m, in, opt) : NULL;
    if (p) {
        const struct sr1__placed_tokens tokens = {
            .ids = in->ids,
            .positions = positions,
            .n = (size_t)in->cu_seqlens[in->n_seqs],
        };

        if (opt && opt->rows)
            p->rows = t_hold(s, t_from_i32(s, opt->rows, opt->n_rows));
        if (opt && opt->router)
            p->balance = balance_new(s, m, in, opt->router->weight);
        hidden = run_decoder_forward(s, p, &tokens, opt && opt->checkpoint);
        if (p->balance)
            opt->router->value = sr1__expert_balance_end(s, p->balance);
    }
    pass_release(p);
    sr1__free(positions);
    return hidden;
}

sr1_tensor *sr1__causal_lm_logits(sr1_scope *s, sr1_model *m, sr1_tensor *hidden)
{
    if (!m->head)
        sr1__scope_fail(s, SR1_E_STATE,
                        "this model is a critic: it gives values, not logits");
    return t_linear(s, hidden, m->head, NULL);
}

sr1_tensor *sr1__causal_lm_values(sr1_scope *s, sr1_model *m, sr1_tensor *hidden)
{
    if (!m->value_head)
        sr1__scope_fail(s, SR1_E_STATE,
                        "this model is no critic: it gives logits, not values");
    return t_squeeze(s, t_linear(s, hidden, m->value_head, m->value_bias), -1);
}
