/* tensor/model/host_weights.c - making and sharing the weights of the CPU's decode path.
 */
#include "tensor/model/host_weights.h"

#include "base/mem.h"
#include "kernels/attention.h"
#include "tensor/model/model.h"

#include <pthread.h>
#include <string.h>

#define MATRICES 4    /* of a layer */
#define VECTORS_AT 16 /* floats that a vector's memory is rounded up to */

struct sr1__host_share {
    pthread_mutex_t lock; /* guards the rest */
    int32_t refs;
    uint64_t version;
    struct sr1__host_weights *made; /* the newest; NULL: nobody has any */
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
           m->head && !m->quantized && !m->adapter && !m->arch->experts &&
           !m->arch->norm_plus_one && m->config.head_dim <= SR1__HEAD_DIM_MAX;
}

/* ---- layout ---- */

/* Rows of gate and up in panels, by groups of both. */
static size_t gate_up_rows(size_t ffn)
{
    return (ffn + SR1__HOST_GATES - 1) / SR1__HOST_GATES * SR1__GROUP_OUT;
}

double sr1__host_panels_bytes(int64_t hidden, int64_t q, int64_t kv, int64_t ffn,
                              int64_t n_layers, int64_t vocab, int bf16)
{
    size_t e = (size_t)hidden;
    double layer = (double)sr1__panels_bytes((size_t)(q + 2 * kv), e, bf16) +
                   (double)sr1__panels_bytes(e, (size_t)q, bf16) +
                   (double)sr1__panels_bytes(gate_up_rows((size_t)ffn), e, bf16) +
                   (double)sr1__panels_bytes(e, (size_t)ffn, bf16);

    return (double)n_layers * layer + (double)sr1__panels_bytes((size_t)vocab, e, bf16);
}

/* A matrix to pack: `half` rows of gate and as many of up by turns; 0: as they are. */
struct matrix_packing {
    struct sr1__panels *panels;
    const void *w;
    size_t half;
};

static void list_layer_packings(const sr1_model *m, int64_t i, struct sr1__host_layer *l,
                                struct matrix_packing *list)
{
    const struct sr1__hf_config *c = &m->config;
    const struct sr1__layer *w = &m->layers[i];
    size_t e = (size_t)c->hidden_size;
    size_t q = (size_t)(c->n_heads * c->head_dim);
    size_t kv = (size_t)(c->n_kv_heads * c->head_dim);
    size_t f = (size_t)c->intermediate_size;
    int bf16 = m->dtype == SR1__BF16;

    l->qkv = (struct sr1__panels){NULL, q + 2 * kv, e, bf16};
    l->o = (struct sr1__panels){NULL, e, q, bf16};
    l->gate_up = (struct sr1__panels){NULL, gate_up_rows(f), e, bf16};
    l->down = (struct sr1__panels){NULL, e, f, bf16};
    list[0] = (struct matrix_packing){&l->qkv, sr1__shim_data(w->qkv), 0};
    list[1] = (struct matrix_packing){&l->o, sr1__shim_data(w->o), 0};
    list[2] = (struct matrix_packing){&l->gate_up, sr1__shim_data(w->gate_up), f};
    list[3] = (struct matrix_packing){&l->down, sr1__shim_data(w->down), 0};
}

static size_t list_packings(const sr1_model *m, struct sr1__host_weights *w,
                            struct matrix_packing *list)
{
    size_t n = 0;

    for (int64_t i = 0; i < m->config.n_layers; i++, n += MATRICES)
        list_layer_packings(m, i, &w->layers[i], list + n);
    w->head = (struct sr1__panels){NULL, (size_t)m->config.vocab_size,
                                   (size_t)m->config.hidden_size, w->bf16};
    list[n++] = (struct matrix_packing){&w->head, sr1__shim_data(m->head), 0};
    return n;
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
    size_t row_bytes =
        p->panels->k * (p->panels->bf16 ? sizeof(uint16_t) : sizeof(float));

    (void)thread;
    for (size_t i = group * SR1__PANEL_GROUP; i < (group + 1) * SR1__PANEL_GROUP; i++) {
        size_t n;
        size_t row = find_panel_rows(p, i, &n);

        sr1__panels_pack(p->panels, i, (const unsigned char *)p->w + row * row_bytes, n);
    }
}

static sr1_status pack_matrices(struct sr1__host_weights *w,
                                const struct matrix_packing *list, size_t n,
                                struct sr1__team *team)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++) {
        const struct sr1__panels *p = list[i].panels;

        if (!list[i].w)
            return sr1__fail(SR1_E_STATE, "decode weights: a matrix is not contiguous");
        bytes += sr1__panels_bytes(p->n_out, p->k, p->bf16);
    }
    w->panels = sr1__malloc_aligned(bytes);
    SR1__CHECK_ALLOC(w->panels, "decode weights");
    bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct sr1__panels *p = list[i].panels;
        struct matrix_packing one = list[i];

        p->data = (unsigned char *)w->panels + bytes;
        bytes += sr1__panels_bytes(p->n_out, p->k, p->bf16);
        sr1__team_run(team, sr1__panels_groups(p->n_out), pack_group, &one);
    }
    return SR1_OK;
}

/* ---- vectors ---- */

/* The next room in w->vectors; with none (a first pass) only the room is counted. */
struct vector_room {
    float *at;
    size_t used;
};

static void copy_vector(struct vector_room *r, float **to, sr1_tensor *from)
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
    }
    r->used += (n + VECTORS_AT - 1) / VECTORS_AT * VECTORS_AT;
}

static void copy_vectors(const sr1_model *m, struct sr1__host_weights *w,
                         struct vector_room *r)
{
    for (int64_t i = 0; i < m->config.n_layers; i++) {
        const struct sr1__layer *from = &m->layers[i];
        struct sr1__host_layer *to = &w->layers[i];

        copy_vector(r, &to->input_norm, from->input_norm);
        copy_vector(r, &to->post_norm, from->post_norm);
        copy_vector(r, &to->q_norm, from->q_norm);
        copy_vector(r, &to->k_norm, from->k_norm);
        copy_vector(r, &to->qkv_bias, from->qkv_bias);
        copy_vector(r, &to->o_bias, from->o_bias);
    }
    copy_vector(r, &w->final_norm, m->final_norm);
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
    sr1__free(w->vectors);
    sr1__free(w->panels);
    sr1__free(w);
}

static sr1_status fill_host_weights(struct sr1__host_weights *w, const sr1_model *m,
                                    struct sr1__team *team)
{
    size_t n = (size_t)m->config.n_layers * MATRICES + 1;
    struct matrix_packing *list;
    sr1_status st;

    SR1__CALLOC(w->layers, (size_t)m->config.n_layers, "decode weights");
    SR1__TRY(make_vectors(m, w));
    SR1__CALLOC(list, n, "decode weights");
    st = pack_matrices(w, list, list_packings(m, w, list), team);
    sr1__free(list);
    return st;
}

static sr1_status make_host_weights(struct sr1__host_weights **out, const sr1_model *m,
                                    struct sr1__team *team)
{
    struct sr1__host_weights *w;

    SR1__CALLOC(w, 1, "decode weights");
    w->bf16 = m->dtype == SR1__BF16;
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
    if (s->made == old)
        s->made = NULL;
    free_host_weights(old);
}

sr1_status sr1__host_weights_renew(struct sr1__host_weights **w, const sr1_model *m,
                                   struct sr1__team *team)
{
    struct sr1__host_share *s = m->host;
    sr1_status st = SR1_OK;

    pthread_mutex_lock(&s->lock);
    if (*w && (*w)->version == s->version) {
        pthread_mutex_unlock(&s->lock);
        return SR1_OK;
    }
    drop_reference(s, w);
    if (!s->made || s->made->version != s->version) {
        struct sr1__host_weights *made = NULL;

        st = make_host_weights(&made, m, team);
        if (st == SR1_OK) {
            made->version = s->version;
            s->made = made; /* older ones are their holders' */
        }
    }
    if (st == SR1_OK) {
        *w = s->made;
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
