/* tensor/model/expert_balance.c - see expert_balance.h.
 *
 * The choice of experts has no gradient, so a token's is  d loss / d p_e = E f_e / tokens
 * in each layer. f_e is known once the last layer has been through; the gradient is
 * therefore added in the backward pass (as Megatron's MoEAuxLossAutoScaler does), and no
 * layer's probabilities are kept for it. */
#include "tensor/model/expert_balance.h"

#include "base/mem.h"

struct sr1__expert_balance {
    int64_t n_experts;
    double weight;
    float *copies;      /* [N], a copy; NULL: 1 each */
    sr1_tensor *column; /* [N,1] of them, there; NULL: 1 each */
    double *tokens;     /* [E] that chose each */
    double rows;        /* tokens, of all layers */
    sr1_tensor *probs;  /* [E] sums of probabilities; NULL: no layer was counted */
    sr1_tensor *slope;  /* [1,E] the gradient of each token; NULL until the pass ends */
    int32_t refs;
};

static int copy_shares(sr1_scope *s, struct sr1__expert_balance *b, const float *copies,
                       int64_t n)
{
    if (!copies)
        return 1;
    b->copies = sr1__memdup(copies, (size_t)n * sizeof *copies);
    b->column = t_hold(s, t_from_f32(s, copies, T_SHAPE(n, 1)));
    return b->copies != NULL;
}

struct sr1__expert_balance *sr1__expert_balance_new(sr1_scope *s, int64_t n_experts,
                                                    const float *copies, int64_t n,
                                                    double weight)
{
    struct sr1__expert_balance *b;

    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    b = sr1__calloc(1, sizeof *b);
    if (b) {
        b->n_experts = n_experts;
        b->weight = weight;
        b->refs = 1;
        b->tokens = sr1__calloc((size_t)n_experts + 1, sizeof *b->tokens);
    }
    if (b && b->tokens && copy_shares(s, b, copies, n))
        return b;
    sr1__expert_balance_release(b);
    sr1__scope_check(s, sr1__fail_nomem("balance of experts"));
    return NULL;
}

void sr1__expert_balance_release(struct sr1__expert_balance *b)
{
    if (!b || --b->refs > 0)
        return;
    sr1__tensor_free(b->column);
    sr1__tensor_free(b->probs);
    sr1__tensor_free(b->slope);
    sr1__free(b->copies);
    sr1__free(b->tokens);
    sr1__free(b);
}

static void release_mark(void *self)
{
    sr1__expert_balance_release(self);
}

static void add_slope(sr1_scope *s, void *self, sr1_tensor *const *grads_y,
                      sr1_tensor **grads)
{
    const struct sr1__expert_balance *b = self;

    grads[0] = t_add(s, grads_y[0], b->column ? t_mul(s, b->column, b->slope) : b->slope);
}

sr1_tensor *sr1__expert_balance_mark(sr1_scope *s, struct sr1__expert_balance *b,
                                     sr1_tensor *p)
{
    sr1_tensor *y = p;

    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    b->refs++;
    t_with_backward(s, &y, 1, &p, 1, add_slope, b, release_mark);
    return y;
}

/* [E] */
static sr1_tensor *sum_tokens(sr1_scope *s, const struct sr1__expert_balance *b,
                              sr1_tensor *p)
{
    p = t_detach(s, p);
    return t_sum_dim(s, b->column ? t_mul(s, p, b->column) : p, 0, 0);
}

void sr1__expert_balance_count(sr1_scope *s, struct sr1__expert_balance *b, sr1_tensor *p,
                               const int64_t *chosen, int64_t k)
{
    int64_t n;

    if (sr1__scope_status(s) != SR1_OK || b->slope)
        return;
    n = t_size(p, 0);
    for (int64_t i = 0; i < n; i++) {
        double copies = b->copies ? (double)b->copies[i] : 1.0;

        b->rows += copies;
        for (int64_t j = 0; j < k; j++)
            b->tokens[chosen[i * k + j]] += copies;
    }
    if (b->probs)
        t_add_(s, b->probs, sum_tokens(s, b, p), 1.0);
    else
        b->probs = t_hold(s, sum_tokens(s, b, p));
}

double sr1__expert_balance_end(sr1_scope *s, struct sr1__expert_balance *b)
{
    size_t n = (size_t)b->n_experts;
    float *probs, *slope;
    double value = 0.0, scale;

    if (sr1__scope_status(s) != SR1_OK || !b->probs)
        return 0.0;
    probs = sr1__calloc(2 * n, sizeof *probs);
    if (!probs) {
        sr1__scope_check(s, sr1__fail_nomem("balance of experts"));
        return 0.0;
    }
    slope = probs + n;
    scale = (double)n / (b->rows * b->rows);
    t_to_host_f32(s, b->probs, probs, n);
    for (size_t e = 0; e < n; e++) {
        value += scale * b->tokens[e] * (double)probs[e];
        slope[e] = (float)(b->weight * scale * b->tokens[e]);
    }
    b->slope = t_hold(s, t_from_f32(s, slope, T_SHAPE(1, (int64_t)n)));
    sr1__free(probs);
    return value;
}
