/* tensor/model/decode_tables.c - constants and rearranged weights of decode steps. */
#include "tensor/model/decode_tables.h"

#include "base/mem.h"

static void free_qk_norms(struct sr1__decode_tables *t)
{
    for (int32_t i = 0; i < t->n_layers; i++) {
        sr1__tensor_free(t->qk_norms[i]);
        t->qk_norms[i] = NULL;
    }
}

void sr1__decode_tables_free(struct sr1__decode_tables *t)
{
    if (!t)
        return;
    if (t->qk_norms)
        free_qk_norms(t);
    sr1__free(t->qk_norms);
    sr1__tensor_free(t->same);
    sr1__tensor_free(t->swapped);
    sr1__free(t);
}

/* With a half of D: elements [d, d] of same, [d+half, d] and [d, d+half] of swapped. */
static void make_turn_constants(sr1_scope *s, const sr1_model *m,
                                struct sr1__decode_tables *t)
{
    int64_t d = m->config.head_dim, half = d / 2;
    float *v = sr1__calloc((size_t)(2 * d * d), sizeof *v);
    sr1_tensor *both;

    if (!v) {
        sr1__scope_check(s, sr1__fail_nomem("decode tables"));
        return;
    }
    for (int64_t i = 0; i < d; i++)
        v[i * d + i] = 1;
    for (int64_t i = 0; i < half; i++) {
        v[(d + i + half) * d + i] = -1;
        v[(d + i) * d + i + half] = 1;
    }
    both = t_to(s, t_from_f32(s, v, T_SHAPE(2, d, d)), m->dtype);
    t->same = t_hold(s, t_squeeze(s, t_narrow(s, both, 0, 0, 1), 0));
    t->swapped = t_hold(s, t_squeeze(s, t_narrow(s, both, 0, 1, 1), 0));
    sr1__free(v);
}

static void fill_qk_norms(sr1_scope *s, const sr1_model *m, struct sr1__decode_tables *t)
{
    const struct sr1__hf_config *c = &m->config;

    for (int32_t i = 0; i < t->n_layers && m->layers[i].q_norm; i++) {
        sr1_tensor *by_head[2] = {
            t_expand(s, m->layers[i].q_norm, T_SHAPE(c->n_heads, c->head_dim)),
            t_expand(s, m->layers[i].k_norm, T_SHAPE(c->n_kv_heads, c->head_dim))};

        t->qk_norms[i] = t_hold(s, t_cat(s, by_head, 2, 0));
    }
    t->version = m->version;
}

static sr1_status make_tables(sr1_model *m)
{
    struct sr1__decode_tables *t;
    sr1_scope *s;
    sr1_status st;

    SR1__CALLOC(t, 1, "decode tables");
    t->n_layers = (int32_t)m->config.n_layers;
    t->qk_norms = sr1__calloc((size_t)t->n_layers, sizeof(sr1_tensor *));
    s = sr1__scope_open(m->device, "decode tables");
    sr1__scope_no_grad(s);
    if (t->qk_norms) {
        make_turn_constants(s, m, t);
        fill_qk_norms(s, m, t);
    } else {
        sr1__scope_check(s, sr1__fail_nomem("decode tables"));
    }
    st = sr1__scope_close(s);
    if (st != SR1_OK) {
        sr1__decode_tables_free(t);
        return st;
    }
    sr1__decode_tables_free(m->tables);
    m->tables = t;
    return SR1_OK;
}

sr1_tensor *sr1__decode_turn(sr1_scope *s, sr1_model *m, sr1_tensor *cos, sr1_tensor *sin)
{
    sr1_tensor *turn;

    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    if (!m->tables || m->tables->version != m->version)
        sr1__scope_check(s, make_tables(m));
    if (sr1__scope_status(s) != SR1_OK)
        return NULL;
    turn = t_mul(s, m->tables->same, t_unsqueeze(s, cos, 1));
    t_addcmul_(s, turn, m->tables->swapped, t_unsqueeze(s, sin, 1));
    return turn;
}
