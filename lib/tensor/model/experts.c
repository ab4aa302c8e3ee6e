/* tensor/model/experts.c - the MLP of experts over tensors: one product for each expert
 * that has any rows. */
#include "tensor/model/experts.h"

#include "base/mem.h"
#include "tensor/model/routing.h"
#include "tensor/ops/fused.h"
#include "tensor/ops/int8_linear.h"
#include "tensor/ops/linear.h"

/* The experts of r go into the log, or become those of it; their probabilities [N,k] out
 * of p [N,E]. */
static sr1_tensor *replay_experts(sr1_scope *s, const struct sr1__routes *routes,
                                  int32_t layer, sr1_tensor *p, struct sr1__routing *r)
{
    int64_t n = t_size(p, 0);

    sr1__route_log_apply(routes, (size_t)n, layer, r->chosen);
    return t_gather(s, p, 1, t_from_i64(s, r->chosen, T_SHAPE(n, r->k)));
}

/* Probabilities [N,k] of each token's experts, in x's type, and who they are. Logits are
 * fp32 in any model, as generation has them: rounded to bf16 many are equal. */
static sr1_tensor *choose_experts(sr1_scope *s, const sr1_model *m, int32_t layer,
                                  sr1_tensor *x, struct sr1__expert_balance *balance,
                                  const struct sr1__routes *routes,
                                  struct sr1__routing *r)
{
    const struct sr1__hf_config *c = &m->config;
    sr1_tensor *p = sr1__linear_f32(s, x, m->layers[layer].router), *best, *chosen;

    p = t_softmax(s, p, -1);
    if (balance)
        p = sr1__expert_balance_mark(s, balance, p);
    t_topk(s, p, c->experts_per_token, &best, &chosen);
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(
            s, sr1__routing_new(r, t_size(x, 0), c->experts_per_token, c->n_experts));
    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    t_to_host_i64(s, chosen, r->chosen, (size_t)r->n);
    if (routes && sr1__scope_status(s) == SR1_OK)
        best = replay_experts(s, routes, layer, p, r);
    if (c->norm_expert_probs)
        best = t_div(s, best, t_sum_dim(s, best, -1, 1));
    if (sr1__scope_status(s) == SR1_OK)
        sr1__routing_sort(r, t_size(x, 0));
    if (balance)
        sr1__expert_balance_count(s, balance, p, r->chosen, r->k);
    return t_to(s, best, t_dtype(x));
}

/* A matrix of all experts, each rows of it. */
struct expert_matrix {
    sr1_tensor *w, *scale; /* scale: w is int8; else NULL */
    int64_t rows;
    sr1_tensor **parts; /* [n_experts] all of them, or NULL: they are cut when needed */
};

/* The gradient of all parts is put together once, where each that is cut by itself gives
 * one of the whole matrix; without gradients a few are not worth the others. */
static void split_matrix(sr1_scope *s, struct expert_matrix *a, int64_t n_experts,
                         int64_t used, int trains)
{
    int64_t *sizes;

    if (a->scale || (used < n_experts / 2 && !(trains && t_needs_grad(a->w))))
        return;
    sizes = sr1__calloc((size_t)n_experts, sizeof *sizes);
    a->parts = sr1__calloc((size_t)n_experts, sizeof(sr1_tensor *));
    if (!sizes || !a->parts) {
        sr1__scope_check(s, sr1__fail_nomem("experts"));
    } else {
        for (int64_t i = 0; i < n_experts; i++)
            sizes[i] = a->rows;
        t_split(s, a->w, sizes, (size_t)n_experts, 0, a->parts);
    }
    sr1__free(sizes);
}

static sr1_tensor *multiply_expert(sr1_scope *s, const struct sr1__attention *by,
                                   const struct expert_matrix *a, int64_t expert,
                                   sr1_tensor *x)
{
    int64_t at = expert * a->rows;
    sr1_tensor *w = a->parts ? a->parts[expert] : t_narrow(s, a->w, 0, at, a->rows);

    if (a->scale)
        return sr1__int8_linear(s, x, w, t_narrow(s, a->scale, 0, at, a->rows), NULL);
    return by->linear ? by->linear(s, by->self, x, w, NULL) : sr1__linear(s, x, w, NULL);
}

/* x and the result [n,E] in the order of experts. */
static sr1_tensor *run_experts(sr1_scope *s, const struct sr1__attention *by,
                               const struct expert_matrix *gate_up,
                               const struct expert_matrix *down,
                               const struct sr1__routing *r, sr1_tensor *x,
                               int64_t n_experts)
{
    sr1_tensor **parts = sr1__calloc(2 * (size_t)r->used, sizeof(sr1_tensor *)), *y;
    int64_t *sizes = sr1__calloc((size_t)r->used, sizeof *sizes);
    size_t n = 0;

    if (!parts || !sizes) {
        sr1__scope_check(s, sr1__fail_nomem("experts"));
        sr1__free(parts);
        sr1__free(sizes);
        return NULL;
    }
    for (int64_t e = 0; e < n_experts; e++)
        if (r->counts[e] > 0)
            sizes[n++] = r->counts[e];
    t_split(s, x, sizes, n, 0, parts);
    n = 0;
    for (int64_t e = 0; e < n_experts; e++) {
        if (r->counts[e] == 0)
            continue;
        y = sr1__fused_swiglu(s, multiply_expert(s, by, gate_up, e, parts[n]));
        parts[r->used + (int64_t)n++] = multiply_expert(s, by, down, e, y);
    }
    y = n == 1 ? parts[r->used] : t_cat(s, parts + r->used, n, 0);
    sr1__free(parts);
    sr1__free(sizes);
    return y;
}

static sr1_tensor *route_tokens(sr1_scope *s, const sr1_model *m,
                                const struct sr1__attention *by, int32_t layer,
                                sr1_tensor *x, sr1_tensor *p,
                                const struct sr1__routing *r)
{
    const struct sr1__hf_config *c = &m->config;
    const struct sr1__layer *w = &m->layers[layer];
    struct expert_matrix gate_up = {w->gate_up, w->gate_up_scale, 2 * c->expert_size,
                                    NULL};
    struct expert_matrix down = {w->down, w->down_scale, c->hidden_size, NULL};
    sr1_tensor *y = t_index_select(s, x, 0, t_from_i64(s, r->token, T_SHAPE(r->n)));

    split_matrix(s, &gate_up, c->n_experts, r->used, t_needs_grad(y));
    split_matrix(s, &down, c->n_experts, r->used, t_needs_grad(y));
    y = run_experts(s, by, &gate_up, &down, r, y, c->n_experts);
    sr1__free(gate_up.parts);
    sr1__free(down.parts);
    p = t_index_select(s, t_reshape(s, p, T_SHAPE(r->n)), 0,
                       t_from_i64(s, r->order, T_SHAPE(r->n)));
    y = t_mul(s, y, t_unsqueeze(s, p, 1));
    y = t_index_select(s, y, 0, t_from_i64(s, r->back, T_SHAPE(r->n)));
    return t_sum_dim(s, t_reshape(s, y, T_SHAPE(r->n / r->k, r->k, c->hidden_size)), 1,
                     0);
}

sr1_tensor *sr1__experts_run(sr1_scope *s, const sr1_model *m,
                             const struct sr1__attention *by, int32_t layer,
                             sr1_tensor *x, struct sr1__expert_balance *balance,
                             const struct sr1__routes *routes)
{
    struct sr1__routing r = {.n = 0};
    sr1_tensor *p, *y = NULL;

    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    p = choose_experts(s, m, layer, x, balance, routes, &r);
    if (sr1__scope_status(s) == SR1_OK)
        y = route_tokens(s, m, by, layer, x, p, &r);
    sr1__routing_free(&r);
    return y;
}
