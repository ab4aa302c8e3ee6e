/* tensor/model/host_weights.c - making and sharing the weights of the CPU's decode path.
 */
#include "tensor/model/host_weights.h"

#include "base/mem.h"
#include "kernels/attention.h"
#include "kernels/bf16.h"
#include "kernels/product_int8.h"
#include "tensor/model/model.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#define MATRICES 4    /* of a layer that may have adapters */
#define VECTORS_AT 16 /* floats that a vector's memory is rounded up to */
#define LEAST_TRIM                                                                       \
    ((size_t)64 << 20) /* bytes; below, giving memory back takes longer                  \
                        */

struct sr1__host_share {
    pthread_mutex_t lock; /* guards the rest */
    int32_t refs;
    uint64_t version;
    struct sr1__host_weights *made[2]; /* the newest, and of int8; NULL: nobody has any */
};

/* ---- sharing ---- */

sr1_status sr1__host_share_new(struct sr1__host_share **out)
{
    struct sr1__host_share *s;

    SR1__CALLOC(s, 1, "decode weights");
    pthread_mutex_init(&s->lock, NULL);
    s->refs = 1;
    *out = s;
    return SR1_OK;
}

struct sr1__host_share *sr1__host_share_retain(struct sr1__host_share *s)
{
    pthread_mutex_lock(&s->lock);
    s->refs++;
    pthread_mutex_unlock(&s->lock);
    return s;
}

void sr1__host_share_free(struct sr1__host_share *s)
{
    int32_t refs;

    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    refs = --s->refs;
    pthread_mutex_unlock(&s->lock);
    if (refs > 0)
        return;
    pthread_mutex_destroy(&s->lock);
    sr1__free(s);
}

void sr1__host_share_touch(struct sr1__host_share *s)
{
    pthread_mutex_lock(&s->lock);
    s->version++;
    pthread_mutex_unlock(&s->lock);
}

int sr1__host_supports(const sr1_model *m)
{
    return m->device == SR1__CPU && (m->dtype == SR1__F32 || m->dtype == SR1__BF16) &&
           m->head && !m->quantized && m->config.head_dim <= SR1__HEAD_DIM_MAX;
}

void sr1__host_store(const struct sr1__host_weights *w, const float *from, void *to,
                     size_t n)
{
    if (w->bf16)
        sr1__f32_to_bf16(from, to, n);
    else if ((const void *)from != to)
        memcpy(to, from, n * sizeof *from);
}

const float *sr1__host_load(const struct sr1__host_weights *w, const void *from,
                            float *room, size_t n)
{
    if (!w->bf16)
        return from;
    sr1__bf16_to_f32(from, room, n);
    return room;
}

void sr1__host_quantize(const struct sr1__host_weights *w,
                        const struct sr1__host_rows *rows, size_t k, size_t first,
                        size_t n, float *room)
{
    size_t bytes = rows->width * (w->bf16 ? sizeof(uint16_t) : sizeof(float));

    for (size_t r = first; r < first + n; r++)
        sr1__int8_row_fill(sr1__host_load(w, rows->x + r * bytes, room, k), k,
                           rows->quantized + r * sr1__int8_row(k));
}

void sr1__host_multiply(const struct sr1__panels *m, size_t group,
                        const struct sr1__host_rows *rows, size_t first, size_t n,
                        float *tile)
{
    size_t size = m->type == SR1__PANELS_BF16 ? sizeof(uint16_t) : sizeof(float);

    if (m->type == SR1__PANELS_INT8)
        sr1__int8_product(m, group, rows->quantized + first * sr1__int8_row(m->k), n,
                          tile);
    else
        sr1__product(m, group, rows->x + first * rows->width * size, rows->width, n,
                     tile);
}

/* ---- layout ---- */

/* Rows of gate and up in panels, by groups of both. */
static size_t gate_up_rows(size_t ffn)
{
    return (ffn + SR1__HOST_GATES - 1) / SR1__HOST_GATES * SR1__GROUP_OUT;
}

static double mlp_bytes(size_t hidden, size_t ffn, int type)
{
    return (double)sr1__panels_bytes(gate_up_rows(ffn), hidden, type) +
           (double)sr1__panels_bytes(hidden, ffn, type);
}

static int get_matrix_type(int bf16, int int8)
{
    return int8 ? SR1__PANELS_INT8 : bf16 ? SR1__PANELS_BF16 : SR1__PANELS_F32;
}

double sr1__host_panels_bytes(const struct sr1__hf_config *c, int bf16, int int8)
{
    size_t e = (size_t)c->hidden_size, q = (size_t)(c->n_heads * c->head_dim);
    size_t kv = (size_t)(c->n_kv_heads * c->head_dim), n = (size_t)c->n_experts;
    int type = get_matrix_type(bf16, int8);
    double sparse = (double)sr1__hf_config_count(c, SR1__LAYER_EXPERTS);
    double attention = (double)sr1__panels_bytes(q + 2 * kv, e, type) +
                       (double)sr1__panels_bytes(e, q, type);
    double experts = (double)sr1__panels_bytes(n, e, SR1__PANELS_F32) +
                     (double)n * mlp_bytes(e, (size_t)c->expert_size, type);

    return (double)c->n_layers * attention + sparse * experts +
           ((double)c->n_layers - sparse) *
               mlp_bytes(e, (size_t)c->intermediate_size, type) +
           (double)sr1__panels_bytes((size_t)c->vocab_size, e, type);
}

/* A matrix to pack: `half` rows of gate and as many of up by turns; 0: as they are. */
struct matrix_packing {
    struct sr1__panels *panels;
    const void *w;
    size_t half;
    int bf16; /* w is; else fp32 */
};

/* Those of a model. */
struct packing_list {
    struct matrix_packing *list;
    size_t n;
    int bf16;
    int type; /* of panels, but routers' */
};

static void list_matrix(struct packing_list *to, struct sr1__panels *p, const void *w,
                        size_t n_out, size_t k, size_t half)
{
    *p = (struct sr1__panels){NULL, n_out, k, to->type};
    to->list[to->n++] = (struct matrix_packing){p, w, half, to->bf16};
}

/* Expert i of the layer's, or its only MLP. */
static void list_mlp(struct packing_list *to, struct sr1__host_mlp *mlp,
                     const struct sr1__layer *w, size_t i, size_t hidden, size_t ffn)
{
    const unsigned char *gate_up = sr1__shim_data(w->gate_up);
    const unsigned char *down = sr1__shim_data(w->down);
    size_t bytes = hidden * ffn * (to->bf16 ? sizeof(uint16_t) : sizeof(float));

    list_matrix(to, &mlp->gate_up, gate_up ? gate_up + 2 * i * bytes : NULL,
                gate_up_rows(ffn), hidden, ffn);
    list_matrix(to, &mlp->down, down ? down + i * bytes : NULL, hidden, ffn, 0);
}

static void list_layer(struct packing_list *to, const sr1_model *m, int64_t i,
                       struct sr1__host_layer *l)
{
    const struct sr1__hf_config *c = &m->config;
    const struct sr1__layer *w = &m->layers[i];
    size_t e = (size_t)c->hidden_size, q = (size_t)(c->n_heads * c->head_dim);
    size_t kv = (size_t)(c->n_kv_heads * c->head_dim);

    list_matrix(to, &l->qkv, sr1__shim_data(w->qkv), q + 2 * kv, e, 0);
    list_matrix(to, &l->o, sr1__shim_data(w->o), e, q, 0);
    if (!w->router) {
        list_mlp(to, &l->mlp, w, 0, e, (size_t)c->intermediate_size);
        return;
    }
    l->router = (struct sr1__panels){NULL, (size_t)c->n_experts, e, SR1__PANELS_F32};
    to->list[to->n++] = (struct matrix_packing){&l->router, l->router_rows, 0, 0};
    for (size_t k = 0; k < (size_t)c->n_experts; k++)
        list_mlp(to, &l->experts[k], w, k, e, (size_t)c->expert_size);
}

/* Their number, or more. */
static size_t count_packings(const struct sr1__hf_config *c)
{
    return (size_t)c->n_layers * 5 +
           (size_t)(sr1__hf_config_count(c, SR1__LAYER_EXPERTS) * c->n_experts) * 2 + 1;
}

static void list_packings(struct packing_list *to, const sr1_model *m,
                          struct sr1__host_weights *w)
{
    for (int64_t i = 0; i < m->config.n_layers; i++)
        list_layer(to, m, i, &w->layers[i]);
    list_matrix(to, &w->head, sr1__shim_data(m->head), (size_t)m->config.vocab_size,
                (size_t)m->config.hidden_size, 0);
}

/* ---- packing ---- */

/* The rows of a panel: from the first of them on, and how many. */
static size_t find_panel_rows(const struct matrix_packing *p, size_t panel, size_t *n)
{
    size_t at = panel * SR1__PANEL;
    size_t end = p->half ? p->half : p->panels->n_out;
    size_t first = 0;

    if (p->half) {
        size_t in_group = at % SR1__GROUP_OUT;

        first = in_group < SR1__HOST_GATES ? 0 : p->half;
        at = at / SR1__GROUP_OUT * SR1__HOST_GATES + in_group % SR1__HOST_GATES;
    }
    *n = at >= end ? 0 : end - at < SR1__PANEL ? end - at : SR1__PANEL;
    return *n ? first + at : 0;
}

static void pack_group(void *arg, size_t group, int32_t thread)
{
    const struct matrix_packing *p = arg;
    size_t row_bytes = p->panels->k * (p->bf16 ? sizeof(uint16_t) : sizeof(float));

    (void)thread;
    for (size_t i = group * SR1__PANEL_GROUP; i < (group + 1) * SR1__PANEL_GROUP; i++) {
        size_t n;
        const void *w =
            (const unsigned char *)p->w + find_panel_rows(p, i, &n) * row_bytes;

        if (p->panels->type == SR1__PANELS_INT8)
            sr1__int8_pack(p->panels, i, w, p->bf16, n);
        else
            sr1__panels_pack(p->panels, i, w, n);
    }
}

/* All of them into one block of memory, which the caller frees. Gradients that an update
 * freed are about as large, and the C library would keep them beside it. */
static sr1_status pack_matrices(void **memory, const struct matrix_packing *list,
                                size_t n, struct sr1__team *team)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++) {
        const struct sr1__panels *p = list[i].panels;

        if (!list[i].w)
            return sr1__fail(SR1_E_STATE, "decode weights: a matrix is not contiguous");
        bytes += sr1__panels_bytes(p->n_out, p->k, p->type);
    }
    if (bytes >= LEAST_TRIM)
        sr1__mem_trim();
    *memory = sr1__malloc_aligned(bytes);
    SR1__CHECK_ALLOC(*memory, "decode weights");
    bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct sr1__panels *p = list[i].panels;
        struct matrix_packing one = list[i];

        p->data = (unsigned char *)*memory + bytes;
        bytes += sr1__panels_bytes(p->n_out, p->k, p->type);
        sr1__team_run(team, sr1__panels_groups(p->n_out), pack_group, &one);
    }
    return SR1_OK;
}

/* ---- the adapter ---- */

/* The matrices of a layer that may have adapters: their modules, and where a and b are.
 */
static const struct adapted_matrix {
    int32_t module, n;
    size_t at; /* of its struct sr1__host_lora */
    int gates; /* its rows are gate and up */
} adapted[MATRICES] = {
    {SR1__LORA_Q, 3, offsetof(struct sr1__host_layer, qkv_lora), 0},
    {SR1__LORA_O, 1, offsetof(struct sr1__host_layer, o_lora), 0},
    {SR1__LORA_GATE, 2, offsetof(struct sr1__host_layer, gate_up_lora), 1},
    {SR1__LORA_DOWN, 1, offsetof(struct sr1__host_layer, down_lora), 0},
};

static struct sr1__host_lora *get_host_lora(const struct sr1__host_weights *w, int64_t i,
                                            size_t matrix)
{
    return (struct sr1__host_lora *)(void *)((char *)&w->layers[i] + adapted[matrix].at);
}

/* Inputs, outputs and ranks of the adapters of a matrix. */
struct lora_shape {
    size_t n_in, n_out, rank;
};

static struct lora_shape measure_lora(const struct sr1__lora *lora, int32_t n)
{
    struct lora_shape shape = {0, 0, 0};

    for (int32_t k = 0; k < n; k++) {
        shape.n_out += (size_t)lora[k].n_out;
        shape.rank += lora[k].a ? (size_t)t_size(lora[k].a, 0) : 0;
        shape.n_in = lora[k].a ? (size_t)t_size(lora[k].a, 1) : shape.n_in;
    }
    return shape;
}

size_t sr1__host_ranks(const sr1_model *m)
{
    size_t most = 0;

    for (int64_t i = 0; i < m->config.n_layers * MATRICES; i++) {
        const struct adapted_matrix *x = &adapted[i % MATRICES];
        size_t rank = measure_lora(&m->layers[i / MATRICES].lora[x->module], x->n).rank;

        most = rank > most ? rank : most;
    }
    return most;
}

/* A [rank, in] and s B [out, rank] of some modules of a matrix, at `to`. */
static sr1_status copy_lora(const struct sr1__lora *lora, int32_t n, float *to)
{
    struct lora_shape shape = measure_lora(lora, n);
    float *b = to + shape.rank * shape.n_in;
    size_t out = 0, rank = 0;

    for (int32_t k = 0; k < n; out += (size_t)lora[k++].n_out) {
        size_t own = lora[k].a ? (size_t)t_size(lora[k].a, 0) : 0;
        const float *from_a = own ? sr1__shim_data(lora[k].a) : NULL;
        const float *from_b = own ? sr1__shim_data(lora[k].b) : NULL;

        if (own && (!from_a || !from_b))
            return sr1__fail(SR1_E_STATE, "decode weights: an adapter is not contiguous");
        if (own)
            memcpy(to + rank * shape.n_in, from_a, own * shape.n_in * sizeof *to);
        for (size_t o = 0; own && o < (size_t)lora[k].n_out; o++)
            for (size_t r = 0; r < own; r++)
                b[(out + o) * shape.rank + rank + r] =
                    (float)lora[k].scale * from_b[o * own + r];
        rank += own;
    }
    return SR1_OK;
}

/* Packings of all adapters, their numbers copied to `to`; with `to` NULL only the room
 * for the numbers is counted. */
static sr1_status list_adapters(const sr1_model *m, const struct sr1__host_weights *w,
                                float *to, struct matrix_packing *list, size_t *n,
                                size_t *floats)
{
    *n = *floats = 0;
    for (int64_t i = 0; i < m->config.n_layers * MATRICES; i++) {
        const struct adapted_matrix *x = &adapted[i % MATRICES];
        const struct sr1__lora *lora = &m->layers[i / MATRICES].lora[x->module];
        struct lora_shape s = measure_lora(lora, x->n);
        struct sr1__host_lora *h = get_host_lora(w, i / MATRICES, (size_t)(i % MATRICES));
        size_t f = (size_t)m->config.intermediate_size;

        if (s.rank == 0)
            continue;
        if (to) {
            h->a = (struct sr1__panels){NULL, s.rank, s.n_in, SR1__PANELS_F32};
            h->b = (struct sr1__panels){NULL, x->gates ? gate_up_rows(f) : s.n_out,
                                        s.rank, SR1__PANELS_F32};
            list[(*n)++] = (struct matrix_packing){&h->a, to + *floats, 0, 0};
            list[(*n)++] = (struct matrix_packing){&h->b, to + *floats + s.rank * s.n_in,
                                                   x->gates ? f : 0, 0};
            SR1__TRY(copy_lora(lora, x->n, to + *floats));
        }
        *floats += s.rank * (s.n_in + s.n_out);
    }
    return SR1_OK;
}

static sr1_status pack_adapter(struct sr1__host_weights *w, const sr1_model *m,
                               struct sr1__team *team)
{
    size_t n, floats, most = (size_t)m->config.n_layers * MATRICES * 2;
    struct matrix_packing *list;
    float *numbers = NULL;
    sr1_status st;

    SR1__TRY(list_adapters(m, w, NULL, NULL, &n, &floats));
    if (floats == 0)
        return SR1_OK;
    SR1__CALLOC(list, most, "decode weights");
    numbers = sr1__calloc(floats, sizeof *numbers);
    st = numbers ? list_adapters(m, w, numbers, list, &n, &floats)
                 : sr1__fail_nomem("decode weights");
    if (st == SR1_OK)
        st = pack_matrices(&w->adapter, list, n, team);
    sr1__free(numbers);
    sr1__free(list);
    return st;
}

static size_t add_ranks(const struct adapted_matrix *x, int64_t rank, uint32_t targets)
{
    size_t ranks = 0;

    for (int32_t k = x->module; k < x->module + x->n; k++)
        ranks += targets & 1u << k ? (size_t)rank : 0;
    return ranks;
}

size_t sr1__host_adapter_ranks(int64_t rank, uint32_t targets)
{
    size_t most = 0;

    for (size_t i = 0; i < MATRICES; i++) {
        size_t ranks = add_ranks(&adapted[i], rank, targets);

        most = ranks > most ? ranks : most;
    }
    return most;
}

double sr1__host_adapter_bytes(const struct sr1__hf_config *c, int64_t rank,
                               uint32_t targets)
{
    int64_t hidden = c->hidden_size, q = c->n_heads * c->head_dim;
    int64_t kv = c->n_kv_heads * c->head_dim, ffn = c->intermediate_size;
    const int64_t outs[SR1__LORA_MODULES] = {
        [SR1__LORA_Q] = q,        [SR1__LORA_K] = kv,     [SR1__LORA_V] = kv,
        [SR1__LORA_O] = hidden,   [SR1__LORA_GATE] = ffn, [SR1__LORA_UP] = ffn,
        [SR1__LORA_DOWN] = hidden};
    const int64_t ins[MATRICES] = {hidden, q, hidden, ffn};
    double dense = (double)(c->n_layers - sr1__hf_config_count(c, SR1__LAYER_EXPERTS));
    double sum = 0;

    for (size_t i = 0; i < MATRICES; i++) {
        double layers = adapted[i].module < SR1__LORA_GATE ? (double)c->n_layers : dense;
        size_t n_out = 0, ranks = add_ranks(&adapted[i], rank, targets);

        for (int32_t k = adapted[i].module; k < adapted[i].module + adapted[i].n; k++)
            n_out += (size_t)outs[k];
        if (ranks > 0)
            sum += layers *
                   (double)(sr1__panels_bytes(ranks, (size_t)ins[i], SR1__PANELS_F32) +
                            sr1__panels_bytes(adapted[i].gates ? gate_up_rows((size_t)ffn)
                                                               : n_out,
                                              ranks, SR1__PANELS_F32));
    }
    return sum;
}

/* ---- vectors ---- */

/* The next room in w->vectors; with none (a first pass) only the room is counted. */
struct vector_room {
    float *at;
    size_t used;
};

/* more: what is added to each number. */
static void copy_vector(struct vector_room *r, float **to, sr1_tensor *from, float more)
{
    size_t n = from ? (size_t)t_numel(from) : 0;

    if (!from)
        return;
    if (r->at) {
        *to = r->at + r->used;
        if (t_dtype(from) == SR1__BF16)
            sr1__bf16_to_f32(sr1__shim_data(from), *to, n);
        else
            memcpy(*to, sr1__shim_data(from), n * sizeof **to);
        for (size_t i = 0; i < n; i++)
            (*to)[i] += more;
    }
    r->used += (n + VECTORS_AT - 1) / VECTORS_AT * VECTORS_AT;
}

static void copy_vectors(const sr1_model *m, struct sr1__host_weights *w,
                         struct vector_room *r)
{
    float more = m->arch->norm_plus_one ? 1 : 0;

    for (int64_t i = 0; i < m->config.n_layers; i++) {
        const struct sr1__layer *from = &m->layers[i];
        struct sr1__host_layer *to = &w->layers[i];

        copy_vector(r, &to->input_norm, from->input_norm, more);
        copy_vector(r, &to->attention_norm, from->attention_norm, more);
        copy_vector(r, &to->post_norm, from->post_norm, more);
        copy_vector(r, &to->mlp_norm, from->mlp_norm, more);
        copy_vector(r, &to->q_norm, from->q_norm, more);
        copy_vector(r, &to->k_norm, from->k_norm, more);
        copy_vector(r, &to->qkv_bias, from->qkv_bias, 0);
        copy_vector(r, &to->o_bias, from->o_bias, 0);
        copy_vector(r, &to->router_rows, from->router, 0);
    }
    copy_vector(r, &w->final_norm, m->final_norm, more);
}

static sr1_status make_vectors(const sr1_model *m, struct sr1__host_weights *w)
{
    struct vector_room room = {NULL, 0};

    copy_vectors(m, w, &room);
    w->vectors = sr1__malloc_aligned(room.used * sizeof *w->vectors);
    SR1__CHECK_ALLOC(w->vectors, "decode weights");
    room = (struct vector_room){w->vectors, 0};
    copy_vectors(m, w, &room);
    return SR1_OK;
}

/* ---- the whole ---- */

static void free_host_weights(struct sr1__host_weights *w)
{
    sr1__free(w->layers);
    sr1__free(w->experts);
    sr1__free(w->vectors);
    sr1__free(w->panels);
    sr1__free(w->adapter);
    sr1__free(w);
}

static sr1_status make_experts(struct sr1__host_weights *w, const sr1_model *m)
{
    const struct sr1__hf_config *c = &m->config;
    struct sr1__host_mlp *next;

    if (!sr1__hf_config_has(c, SR1__LAYER_EXPERTS))
        return SR1_OK;
    SR1__CALLOC(w->experts,
                (size_t)(sr1__hf_config_count(c, SR1__LAYER_EXPERTS) * c->n_experts),
                "decode weights");
    next = w->experts;
    for (int64_t i = 0; i < c->n_layers; i++) {
        if (!m->layers[i].router)
            continue;
        w->layers[i].experts = next;
        next += c->n_experts;
    }
    return SR1_OK;
}

static sr1_status fill_host_weights(struct sr1__host_weights *w, const sr1_model *m,
                                    struct sr1__team *team)
{
    struct packing_list l = {.bf16 = w->bf16, .type = get_matrix_type(w->bf16, w->int8)};
    sr1_status st;

    SR1__CALLOC(w->layers, (size_t)m->config.n_layers, "decode weights");
    SR1__TRY(make_vectors(m, w));
    SR1__TRY(make_experts(w, m));
    SR1__CALLOC(l.list, count_packings(&m->config), "decode weights");
    list_packings(&l, m, w);
    st = pack_matrices(&w->panels, l.list, l.n, team);
    sr1__free(l.list);
    return st == SR1_OK && m->adapter ? pack_adapter(w, m, team) : st;
}

static sr1_status make_host_weights(struct sr1__host_weights **out, const sr1_model *m,
                                    int int8, struct sr1__team *team)
{
    struct sr1__host_weights *w;

    SR1__CALLOC(w, 1, "decode weights");
    w->bf16 = m->dtype == SR1__BF16;
    w->int8 = int8;
    w->embed = sr1__shim_data(m->embed);
    SR1__RETURN_NEW(out, w, fill_host_weights(w, m, team), free_host_weights);
}

/* With the lock held. */
static void drop_reference(struct sr1__host_share *s, struct sr1__host_weights **w)
{
    struct sr1__host_weights *old = *w;

    *w = NULL;
    if (!old || --old->refs > 0)
        return;
    if (s->made[old->int8] == old)
        s->made[old->int8] = NULL;
    free_host_weights(old);
}

sr1_status sr1__host_weights_renew(struct sr1__host_weights **w, const sr1_model *m,
                                   int int8, struct sr1__team *team)
{
    struct sr1__host_share *s = m->host;
    struct sr1__host_weights **newest = &s->made[int8];
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&s->lock);
    if (*w && (*w)->version == s->version) {
        pthread_mutex_unlock(&s->lock);
        return SR1_OK;
    }
    drop_reference(s, w);
    if (!*newest || (*newest)->version != s->version) {
        struct sr1__host_weights *made = NULL;

        st = make_host_weights(&made, m, int8, team);
        if (st == SR1_OK) {
            made->version = s->version;
            *newest = made; /* older ones are their holders' */
        }
    }
    if (st == SR1_OK) {
        *w = *newest;
        (*w)->refs++;
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

void sr1__host_weights_release(struct sr1__host_weights **w, const sr1_model *m)
{
    if (!*w)
        return;
    pthread_mutex_lock(&m->host->lock);
    drop_reference(m->host, w);
    pthread_mutex_unlock(&m->host->lock);
}
