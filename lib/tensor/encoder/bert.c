/* tensor/encoder/bert.c - the forward pass of BERT (Devlin et al. 2018) over packed
 * tokens.
 *
 *     x = norm(words[id] + types[type] + positions[place])
 *     a layer:  x = norm(x + Wo attention(Wq x, Wk x, Wv x))
 *               x = norm(x + Wdown act(Wup x))
 *
 * All with biases; norm is the layer norm. DPR's encoders are the same. */
#include "tensor/encoder/encoder.h"

static sr1_tensor *embed_bert_tokens(sr1_scope *s, const struct sr1__encoder *e,
                                     const struct sr1__encoder_pass *p)
{
    sr1_tensor *x = t_embedding(s, e->words, p->ids);

    t_add_(s, x, t_embedding(s, e->types, p->types), 1.0);
    t_add_(s, x, t_embedding(s, e->positions, p->positions), 1.0);
    return t_layer_norm(s, x, e->norm, e->norm_bias, e->config.eps);
}

static sr1_tensor *run_bert_attention(sr1_scope *s, const struct sr1__encoder *e,
                                      const struct sr1__encoder_layer *w,
                                      const struct sr1__packing *p, sr1_tensor *x)
{
    const struct sr1__encoder_config *c = &e->config;
    sr1_tensor *y = t_linear(s, x, w->qkv, w->qkv_bias);
    sr1_tensor *part[3];

    y = t_reshape(s, y, T_SHAPE(t_size(x, 0), 3 * c->n_heads, c->head_dim));
    t_split(s, y, (int64_t[]){c->n_heads, c->n_heads, c->n_heads}, 3, 1, part);
    y = sr1__packing_attend(s, p, part[0], part[1], part[2], NULL, 0);
    y = t_linear(s, y, w->o, w->o_bias);
    t_add_(s, y, x, 1.0);
    return t_layer_norm(s, y, w->norm, w->norm_bias, c->eps);
}

static sr1_tensor *run_bert_mlp(sr1_scope *s, const struct sr1__encoder *e,
                                const struct sr1__encoder_layer *w, sr1_tensor *x)
{
    sr1_tensor *y = t_linear(s, x, w->up, w->up_bias);

    y = t_linear(s, sr1__encoder_act(s, e->config.act, y), w->down, w->down_bias);
    t_add_(s, y, x, 1.0);
    return t_layer_norm(s, y, w->ff_norm, w->ff_norm_bias, e->config.eps);
}

/* In a scope of its own, so that its activations go as early as they can. */
static sr1_tensor *run_bert_layer(sr1_scope *outer, const struct sr1__encoder *e,
                                  int64_t i, const struct sr1__packing *p, sr1_tensor *x)
{
    const struct sr1__encoder_layer *w = &e->layers[i];
    sr1_scope *s = sr1__scope_nest(outer, "layer %lld", (long long)i);
    sr1_tensor *y = run_bert_mlp(s, e, w, run_bert_attention(s, e, w, p, x));

    y = t_keep(s, y);
    (void)sr1__scope_close(s);
    return y;
}

sr1_tensor *sr1__bert_hidden(sr1_scope *s, const struct sr1__encoder *e,
                             const struct sr1__encoder_pass *p)
{
    sr1_tensor *x = embed_bert_tokens(s, e, p);

    for (int64_t i = 0; i < e->config.n_layers; i++) {
        sr1_tensor *y = run_bert_layer(s, e, i, &p->packing, x);

        t_drop(s, x);
        x = y;
    }
    return x;
}
