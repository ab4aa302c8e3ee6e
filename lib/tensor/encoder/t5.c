/* tensor/encoder/t5.c - the forward pass of T5 (Raffel et al. 2019) over packed
 * tokens, and the first step of its decoder.
 *
 *     x = words[id]
 *     a layer:  x += Wo attention(Wq h, Wk h, Wv h), scores + bias,   h = norm(x)
 *               x += Wdown act(Wup h), or Wdown (act(Wgate h) * Wup h),   h = norm(x)
 *     hidden = norm(x)
 *
 * No biases but one: each head adds a number to a score that depends on the distance of
 * the two tokens, by buckets that grow with it. norm is w x / sqrt(mean(x^2) + eps).
 * Scores are not divided by sqrt(D): Wq was multiplied by it when it was loaded.
 *
 * The decoder reads its start token. A token alone looks at itself only, so its own
 * attention is Wo Wv h; then it looks at the encoder's states:
 *
 *     x += Wo attention(Wq h, Wk hidden, Wv hidden),  h = norm(x) */
#include "tensor/encoder/encoder.h"

#include "base/mem.h"

#include <math.h>

/* ---- relative positions ---- */

/* Distances below buckets/2 have one bucket each; those of a power series up to
 * max_distance share the others:
 *
 *     exact + log(d / exact) / log(max_distance / exact) * (buckets - exact)
 *
 * Rounded down in single precision as libtorch computes it, since whole buckets hang on
 * the last bit. */
sr1_status sr1__t5_buckets(int64_t n, int64_t buckets, int64_t max_distance, int64_t *out)
{
    int64_t exact = buckets / 2;
    float *far = sr1__calloc((size_t)n, sizeof *far);
    sr1_tensor *t;
    sr1_scope *s;

    SR1__CHECK_ALLOC(far, "position buckets");
    s = sr1__scope_open(SR1__CPU, "position buckets");
    sr1__scope_no_grad(s);
    for (int64_t d = 0; d < n; d++)
        far[d] = (float)(d > exact ? d : exact); /* none is -inf */
    t = t_from_f32(s, far, T_SHAPE(n));
    t = t_log(s, t_div(s, t, t_full(s, (double)exact, SR1__F32, T_SHAPE(1))));
    t = t_div(s, t,
              t_full(s, log((double)max_distance / (double)exact), SR1__F32, T_SHAPE(1)));
    t_to_host_f32(s, t_mul_scalar(s, t, (double)(buckets - exact)), far, (size_t)n);
    for (int64_t d = 0; d < n && sr1__scope_status(s) == SR1_OK; d++) {
        int64_t bucket = d < exact ? d : exact + (int64_t)far[d];

        out[d] = bucket < buckets ? bucket : buckets - 1;
    }
    sr1__free(far);
    return sr1__scope_close(s);
}

/* The bucket of each pair of places: i64 [t*t]. Half of all buckets are for keys before
 * the query, half for those after it. */
static sr1_status fill_position_buckets(const struct sr1__encoder_config *c, int64_t t,
                                        int64_t *of, int64_t *out)
{
    int64_t half = c->n_buckets / 2;

    SR1__TRY(sr1__t5_buckets(t, half, c->max_distance, of));
    for (int64_t q = 0; q < t; q++)
        for (int64_t k = 0; k < t; k++)
            out[q * t + k] = k > q ? half + of[k - q] : of[q - k];
    return SR1_OK;
}

/* The position bias that a head adds to its scores: [1,H,T,T] */
static sr1_tensor *make_position_bias(sr1_scope *s, const struct sr1__encoder *e,
                                      int64_t t)
{
    int64_t *of = sr1__calloc((size_t)t, sizeof *of);
    int64_t *pairs = sr1__calloc((size_t)(t * t), sizeof *pairs);
    sr1_tensor *bias = NULL;

    sr1__scope_check(s, of && pairs ? fill_position_buckets(&e->config, t, of, pairs)
                                    : sr1__fail_nomem("position buckets"));
    if (sr1__scope_status(s) == SR1_OK) {
        bias = t_embedding(s, e->buckets, t_from_i64(s, pairs, T_SHAPE(t * t)));
        bias = t_contiguous(s, t_transpose(s, bias, 0, 1));
        bias = t_reshape(s, bias, T_SHAPE(1, e->config.n_heads, t, t));
    }
    sr1__free(of);
    sr1__free(pairs);
    return bias;
}

/* ---- layers ---- */

static sr1_tensor *run_t5_mlp(sr1_scope *s, const struct sr1__encoder *e,
                              const struct sr1__encoder_layer *w, sr1_tensor *x)
{
    const struct sr1__encoder_config *c = &e->config;
    sr1_tensor *y = t_linear(s, t_rms_norm(s, x, w->ff_norm, c->eps), w->up, NULL);
    sr1_tensor *part[2];

    if (c->gated) {
        t_split(s, y, (int64_t[]){c->intermediate_size, c->intermediate_size}, 2, -1,
                part);
        y = t_mul(s, sr1__encoder_act(s, c->act, part[0]), part[1]);
    } else {
        y = sr1__encoder_act(s, c->act, y);
    }
    return t_add(s, x, t_linear(s, y, w->down, NULL));
}

static sr1_tensor *run_t5_attention(sr1_scope *s, const struct sr1__encoder *e,
                                    const struct sr1__encoder_layer *w,
                                    const struct sr1__packing *p, sr1_tensor *bias,
                                    sr1_tensor *x)
{
    const struct sr1__encoder_config *c = &e->config;
    sr1_tensor *y = t_linear(s, t_rms_norm(s, x, w->norm, c->eps), w->qkv, NULL);
    sr1_tensor *part[3];

    y = t_reshape(s, y, T_SHAPE(t_size(x, 0), 3 * c->n_heads, c->head_dim));
    t_split(s, y, (int64_t[]){c->n_heads, c->n_heads, c->n_heads}, 3, 1, part);
    y = sr1__packing_attend(s, p, part[0], part[1], part[2], bias, 0);
    return t_add(s, x, t_linear(s, y, w->o, NULL));
}

/* In a scope of its own, so that its activations go as early as they can. */
static sr1_tensor *run_t5_layer(sr1_scope *outer, const struct sr1__encoder *e, int64_t i,
                                const struct sr1__packing *p, sr1_tensor *bias,
                                sr1_tensor *x)
{
    const struct sr1__encoder_layer *w = &e->layers[i];
    sr1_scope *s = sr1__scope_nest(outer, "layer %lld", (long long)i);
    sr1_tensor *y = run_t5_mlp(s, e, w, run_t5_attention(s, e, w, p, bias, x));

    y = t_keep(s, y);
    (void)sr1__scope_close(s);
    return y;
}

sr1_tensor *sr1__t5_hidden(sr1_scope *s, const struct sr1__encoder *e,
                           const struct sr1__encoder_pass *p)
{
    sr1_tensor *bias = make_position_bias(s, e, p->packing.longest);
    sr1_tensor *x = t_embedding(s, e->words, p->ids);

    for (int64_t i = 0; i < e->config.n_layers; i++) {
        sr1_tensor *y = run_t5_layer(s, e, i, &p->packing, bias, x);

        t_drop(s, x);
        x = y;
    }
    return t_rms_norm(s, x, e->norm, e->config.eps);
}

/* ---- the decoder's first step ---- */

static sr1_tensor *run_t5_self_attention(sr1_scope *s, const struct sr1__encoder *e,
                                         const struct sr1__encoder_layer *w,
                                         sr1_tensor *x)
{
    int64_t a = t_size(w->qkv, 0) / 3;
    sr1_tensor *v = t_narrow(s, w->qkv, 0, 2 * a, a);
    sr1_tensor *y = t_linear(s, t_rms_norm(s, x, w->norm, e->config.eps), v, NULL);

    return t_add(s, x, t_linear(s, y, w->o, NULL));
}

static sr1_tensor *run_t5_cross_attention(sr1_scope *s, const struct sr1__encoder *e,
                                          const struct sr1__encoder_layer *w,
                                          const struct sr1__packing *p,
                                          sr1_tensor *hidden, sr1_tensor *x)
{
    int64_t h = e->config.n_heads;
    int64_t d = e->config.head_dim;
    sr1_tensor *y = t_rms_norm(s, x, w->cross_norm, e->config.eps);
    sr1_tensor *q =
        t_reshape(s, t_linear(s, y, w->cross_q, NULL), T_SHAPE(t_size(x, 0), h, d));
    sr1_tensor *kv = t_reshape(s, t_linear(s, hidden, w->cross_kv, NULL),
                               T_SHAPE(t_size(hidden, 0), 2 * h, d));
    sr1_tensor *part[2];

    t_split(s, kv, (int64_t[]){h, h}, 2, 1, part);
    y = sr1__packing_attend(s, p, q, part[0], part[1], NULL, 1);
    return t_add(s, x, t_linear(s, y, w->cross_o, NULL));
}

static sr1_tensor *run_t5_decoder_layer(sr1_scope *outer, const struct sr1__encoder *e,
                                        int64_t i, const struct sr1__packing *p,
                                        sr1_tensor *hidden, sr1_tensor *x)
{
    const struct sr1__encoder_layer *w = &e->decoder[i];
    sr1_scope *s = sr1__scope_nest(outer, "decoder layer %lld", (long long)i);
    sr1_tensor *y =
        run_t5_cross_attention(s, e, w, p, hidden, run_t5_self_attention(s, e, w, x));

    y = t_keep(s, run_t5_mlp(s, e, w, y));
    (void)sr1__scope_close(s);
    return y;
}

sr1_tensor *sr1__t5_decoder(sr1_scope *s, const struct sr1__encoder *e,
                            const struct sr1__packing *p, sr1_tensor *hidden)
{
    sr1_tensor *x = t_narrow(s, e->words, 0, e->config.decoder_start, 1);

    x = t_expand(s, x, T_SHAPE(p->n_seqs, e->config.hidden_size));
    for (int64_t i = 0; i < e->config.n_decoder_layers; i++)
        x = run_t5_decoder_layer(s, e, i, p, hidden, x);
    return t_rms_norm(s, x, e->decoder_norm, e->config.eps);
}
