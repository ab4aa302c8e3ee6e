/* tensor/model/host_pass.c - a decoder's layers as loops of a team of threads.
 *
 *     x = embed[ids]
 *     a layer:  h = norm(x);  qkv = Wqkv h;  q, k = rope(norm(..));  cache k, v
 *               a = attention(q);             x += Wo a
 *               h = norm(x);  f = silu(Wgate h) * (Wup h);  x += Wdown f
 *
 * A product's task is a group of outputs for some rows; what follows the product (an
 * adapter's, bias, gate, sum) is done to its tile while that is in a cache. x, q and sums
 * are fp32 in any model. In a bf16 model the inputs of products, keys and values are
 * rounded to bf16. A long pass is cut into pieces: a token needs nothing but the cache of
 * those before. */
#include "tensor/model/host_pass.h"

#include "base/mem.h"
#include "kernels/attention.h"
#include "kernels/bf16.h"
#include "kernels/layer.h"
#include "tensor/model/model.h"

#include <math.h>
#include <string.h>

#define PIECE 512   /* tokens that go through the layers together */
#define ROWS 128    /* of a product's tile */
#define NORM_ROWS 8 /* of a task */
#define ROPE_ROWS 4
#define LORA_ROWS 16
#define ATTEND_TOKENS 16 /* of a span, of a task */
#define QUERIES 64       /* that a task hands to the kernel at once */
#define WIDTH_AT 32      /* elements that rows are rounded up to, as products want */

/* A thread's own. */
struct host_scratch {
    float *tile;    /* [ROWS, SR1__GROUP_OUT] */
    float *gated;   /* [ROWS, SR1__HOST_GATES] */
    float *row;     /* [widest] */
    float *heads;   /* [QUERIES, D] */
    float *angles;  /* [2, D] */
    float *widened; /* [LORA_ROWS, widest] */
};

/* Tokens of one span in a piece, at most ATTEND_TOKENS. */
struct host_block {
    int32_t row;
    int64_t first; /* of the piece */
    int64_t past;
    int64_t n;
};

struct sr1__host_pass {
    sr1_model *m;
    struct sr1__kv *kv;
    struct sr1__team *team;
    struct sr1__host_weights *weights;
    size_t size; /* of an element of the weights */
    size_t e, q, kv_width, f;
    float *memory;                /* all below */
    size_t tokens;                /* that it has room for */
    float *x;                     /* [tokens, e] */
    float *qkv;                   /* [tokens, q + 2 kv_width] */
    float *queries;               /* [tokens, q], scaled */
    unsigned char *h;             /* [tokens, depth(e)] of the weights' type */
    unsigned char *attended;      /* [tokens, depth(q)] */
    unsigned char *gated;         /* [tokens, depth(f)] */
    size_t ranks;                 /* of the adapters of a matrix, at most */
    float *lora;                  /* [tokens, depth(ranks)]: x A^T */
    struct host_scratch *scratch; /* [threads] */
    float *scratch_memory;
    unsigned char *hidden; /* [wanted, depth(e)] of the weights' type */
    size_t hidden_cap;
    struct host_block *blocks;
    size_t n_blocks, blocks_cap;
    /* the piece under way */
    const struct sr1__host_layer *layer;
    int32_t layer_index;
    size_t n;
    int32_t *rows;      /* [PIECE] of its tokens */
    int64_t *positions; /* [PIECE] */
};

/* ---- memory ---- */

static size_t round_width(size_t n)
{
    return (n + WIDTH_AT - 1) / WIDTH_AT * WIDTH_AT;
}

static size_t piece_floats(const struct sr1__host_pass *p, size_t tokens)
{
    size_t typed = round_width(p->e) + round_width(p->q) + round_width(p->f);

    return tokens *
           (round_width(p->e) + round_width(p->q + 2 * p->kv_width) + round_width(p->q) +
            round_width(p->ranks) + typed * p->size / sizeof(float));
}

/* The rows of products' inputs end in zeros that nothing overwrites. */
static sr1_status reserve_piece(struct sr1__host_pass *p, size_t tokens)
{
    unsigned char *at;

    if (tokens <= p->tokens)
        return SR1_OK;
    sr1__free(p->memory);
    p->tokens = 0;
    p->memory = sr1__malloc_aligned(piece_floats(p, tokens) * sizeof(float));
    SR1__CHECK_ALLOC(p->memory, "decode pass");
    memset(p->memory, 0, piece_floats(p, tokens) * sizeof(float));
    p->x = p->memory;
    p->qkv = p->x + tokens * round_width(p->e);
    p->queries = p->qkv + tokens * round_width(p->q + 2 * p->kv_width);
    p->lora = p->queries + tokens * round_width(p->q);
    at = (unsigned char *)(p->lora + tokens * round_width(p->ranks));
    p->h = at;
    p->attended = p->h + tokens * round_width(p->e) * p->size;
    p->gated = p->attended + tokens * round_width(p->q) * p->size;
    p->tokens = tokens;
    return SR1_OK;
}

static sr1_status reserve_hidden(struct sr1__host_pass *p, size_t n)
{
    size_t bytes = n * round_width(p->e) * p->size;

    if (n <= p->hidden_cap)
        return SR1_OK;
    sr1__free(p->hidden);
    p->hidden_cap = 0;
    p->hidden = sr1__malloc_aligned(bytes);
    SR1__CHECK_ALLOC(p->hidden, "decode pass");
    memset(p->hidden, 0, bytes);
    p->hidden_cap = n;
    return SR1_OK;
}

/* Of the inputs of matrices. */
static size_t find_widest(const struct sr1__host_pass *p)
{
    size_t widest = p->e > p->q ? p->e : p->q;

    return widest > p->f ? widest : p->f;
}

static sr1_status make_scratch(struct sr1__host_pass *p)
{
    size_t n = (size_t)sr1__team_threads(p->team);
    size_t d = round_width((size_t)p->m->config.head_dim);
    size_t widest = round_width(p->e > p->kv_width ? p->e : p->kv_width);
    size_t wide = !p->ranks || p->size == sizeof(float) ? 0 : round_width(find_widest(p));
    size_t each = ROWS * (SR1__GROUP_OUT + SR1__HOST_GATES) + widest + QUERIES * d +
                  2 * d + LORA_ROWS * wide;
    float *at;

    SR1__CALLOC(p->scratch, n, "decode pass");
    p->scratch_memory = sr1__malloc_aligned(n * each * sizeof(float));
    SR1__CHECK_ALLOC(p->scratch_memory, "decode pass");
    at = p->scratch_memory;
    for (size_t i = 0; i < n; i++) {
        struct host_scratch *s = &p->scratch[i];

        s->tile = at;
        s->gated = s->tile + (size_t)ROWS * SR1__GROUP_OUT;
        s->row = s->gated + (size_t)ROWS * SR1__HOST_GATES;
        s->heads = s->row + widest;
        s->angles = s->heads + QUERIES * d;
        s->widened = s->angles + 2 * d;
        at += each;
    }
    return SR1_OK;
}

static sr1_status fill_host_pass(struct sr1__host_pass *p)
{
    SR1__CALLOC(p->rows, PIECE, "decode pass");
    SR1__CALLOC(p->positions, PIECE, "decode pass");
    return make_scratch(p);
}

sr1_status sr1__host_pass_new(struct sr1__host_pass **out, sr1_model *m,
                              struct sr1__kv *kv, struct sr1__team *team)
{
    const struct sr1__hf_config *c = &m->config;
    struct sr1__host_pass *p;

    SR1__CALLOC(p, 1, "decode pass");
    p->m = m;
    p->kv = kv;
    p->team = team;
    p->size = m->dtype == SR1__BF16 ? sizeof(uint16_t) : sizeof(float);
    p->e = (size_t)c->hidden_size;
    p->q = (size_t)(c->n_heads * c->head_dim);
    p->kv_width = (size_t)(c->n_kv_heads * c->head_dim);
    p->f = (size_t)c->intermediate_size;
    p->ranks = sr1__host_ranks(m);
    SR1__RETURN_NEW(out, p, fill_host_pass(p), sr1__host_pass_free);
}

void sr1__host_pass_reset(struct sr1__host_pass *p)
{
    sr1__host_weights_release(&p->weights, p->m);
    sr1__free(p->memory);
    sr1__free(p->hidden);
    sr1__free(p->blocks);
    p->memory = NULL;
    p->hidden = NULL;
    p->blocks = NULL;
    p->tokens = p->hidden_cap = p->blocks_cap = 0;
}

void sr1__host_pass_free(struct sr1__host_pass *p)
{
    if (!p)
        return;
    sr1__host_pass_reset(p);
    sr1__free(p->scratch);
    sr1__free(p->scratch_memory);
    sr1__free(p->rows);
    sr1__free(p->positions);
    sr1__free(p);
}

static size_t count_input_tokens(const struct sr1__host_input *in)
{
    const struct sr1__kv_span *last = &in->spans[in->n_spans - 1];

    return (size_t)(last->first + last->n);
}

sr1_status sr1__host_pass_reserve(struct sr1__host_pass *p,
                                  const struct sr1__host_input *in)
{
    size_t total = count_input_tokens(in);
    size_t blocks = total < PIECE ? total : PIECE;

    if (sr1__host_ranks(p->m) != p->ranks)
        return sr1__fail(SR1_E_STATE, "decode pass: the model's adapter is another one");
    SR1__TRY(reserve_piece(p, blocks));
    SR1__TRY(reserve_hidden(p, in->n_wanted));
    SR1__RESERVE(p->blocks, p->blocks_cap, blocks, "decode pass");
    return sr1__host_weights_renew(&p->weights, p->m, p->team);
}

double sr1__host_pass_bytes(int64_t hidden, int64_t q, int64_t kv, int64_t ffn,
                            double tokens, double wanted, int bf16)
{
    const struct sr1__host_pass p = {.size = bf16 ? sizeof(uint16_t) : sizeof(float),
                                     .e = (size_t)hidden,
                                     .q = (size_t)q,
                                     .kv_width = (size_t)kv,
                                     .f = (size_t)ffn};

    return (tokens < PIECE ? tokens : PIECE) * 4.0 * (double)piece_floats(&p, 1) +
           wanted * (double)(round_width(p.e) * p.size);
}

/* ---- rows ---- */

static const float *get_embedding(const struct sr1__host_pass *p, int32_t id, float *row)
{
    const unsigned char *at =
        (const unsigned char *)p->weights->embed + (size_t)id * p->e * p->size;

    if (!p->weights->bf16)
        return (const float *)(const void *)at;
    sr1__bf16_to_f32((const uint16_t *)(const void *)at, row, p->e);
    return row;
}

/* A row of fp32 as the weights' type. */
static void store_typed(const struct sr1__host_pass *p, const float *from, void *to,
                        size_t n)
{
    if (p->weights->bf16)
        sr1__f32_to_bf16(from, to, n);
    else if ((const void *)from != to)
        memcpy(to, from, n * sizeof *from);
}

static void norm_row(const struct sr1__host_pass *p, size_t i, const float *w, float *row,
                     void *to)
{
    const float *x = p->x + i * round_width(p->e);
    float *y = p->weights->bf16 ? row : to;

    sr1__rms_norm(x, w, y, 1, (int64_t)p->e, p->m->config.rms_norm_eps);
    store_typed(p, y, to, p->e);
}

/* Rows [i, i + 1) * NORM_ROWS of the piece; w is the norm's weights. */
struct norm_task {
    struct sr1__host_pass *p;
    const float *w;
};

static void norm_rows(void *arg, size_t i, int32_t thread)
{
    const struct norm_task *t = arg;
    struct sr1__host_pass *p = t->p;
    size_t end = (i + 1) * NORM_ROWS < p->n ? (i + 1) * NORM_ROWS : p->n;

    for (size_t r = i * NORM_ROWS; r < end; r++)
        norm_row(p, r, t->w, p->scratch[thread].row,
                 p->h + r * round_width(p->e) * p->size);
}

static void norm_piece(struct sr1__host_pass *p, const float *w)
{
    struct norm_task t = {p, w};

    sr1__team_run(p->team, (p->n + NORM_ROWS - 1) / NORM_ROWS, norm_rows, &t);
}

/* ---- products ---- */

/* What is done with a tile of sums of a group, rows [first, first + n) of the piece. */
struct product_task;
typedef void (*finish_fn)(const struct product_task *t, size_t group, size_t first,
                          size_t n, struct host_scratch *s);

struct product_task {
    struct sr1__host_pass *p;
    const struct sr1__panels *w;
    const struct sr1__host_lora *lora; /* NULL: the matrix cannot have any */
    const unsigned char *in;           /* [n, width] of the weights' type */
    size_t width;
    size_t n;
    const float *bias;
    finish_fn finish;
    float *out; /* where it goes, by rows of out_width, */
    size_t out_width;
    float *const *out_rows; /* or by these */
};

static int has_lora(const struct product_task *t)
{
    return t->lora && t->lora->a.n_out > 0;
}

static void run_product(void *arg, size_t i, int32_t thread)
{
    const struct product_task *t = arg;
    struct host_scratch *s = &t->p->scratch[thread];
    size_t cuts = (t->n + ROWS - 1) / ROWS;
    size_t first = i % cuts * ROWS;
    size_t n = t->n - first < ROWS ? t->n - first : ROWS;

    sr1__product(t->w, i / cuts, t->in + first * t->width * t->p->size, t->width, n,
                 s->tile);
    if (has_lora(t))
        sr1__product_add(&t->lora->b, i / cuts,
                         t->p->lora + first * round_width(t->p->ranks),
                         round_width(t->p->ranks), n, s->tile);
    t->finish(t, i / cuts, first, n, s);
}

/* Of a bf16 model x is widened, as what an adapter adds is fp32. */
static void widen_rows(const struct product_task *t, size_t first, size_t n, float *to)
{
    for (size_t r = 0; r < n; r++)
        sr1__bf16_to_f32((const uint16_t *)(const void *)t->in + (first + r) * t->width,
                         to + r * t->width, t->width);
}

/* x A^T of rows [i, i + 1) * LORA_ROWS. */
static void run_lora(void *arg, size_t i, int32_t thread)
{
    const struct product_task *t = arg;
    const struct sr1__panels *a = &t->lora->a;
    struct host_scratch *s = &t->p->scratch[thread];
    size_t first = i * LORA_ROWS;
    size_t n = t->n - first < LORA_ROWS ? t->n - first : LORA_ROWS;
    const void *x = t->in + first * t->width * t->p->size;

    if (t->p->weights->bf16) {
        widen_rows(t, first, n, s->widened);
        x = s->widened;
    }
    for (size_t g = 0; g < sr1__panels_groups(a->n_out); g++) {
        size_t at = g * SR1__GROUP_OUT;
        size_t width = a->n_out - at < SR1__GROUP_OUT ? a->n_out - at : SR1__GROUP_OUT;

        sr1__product(a, g, x, t->width, n, s->tile);
        for (size_t r = 0; r < n; r++)
            memcpy(t->p->lora + (first + r) * round_width(t->p->ranks) + at,
                   s->tile + r * SR1__GROUP_OUT, width * sizeof(float));
    }
    for (size_t r = first; r < first + n; r++) /* another matrix may have more ranks */
        memset(t->p->lora + r * round_width(t->p->ranks) + a->n_out, 0,
               (round_width(t->p->ranks) - a->n_out) * sizeof(float));
}

static void multiply_rows(const struct product_task *t)
{
    size_t cuts = (t->n + ROWS - 1) / ROWS;

    if (has_lora(t))
        sr1__team_run(t->p->team, (t->n + LORA_ROWS - 1) / LORA_ROWS, run_lora,
                      (void *)(uintptr_t)t);
    sr1__team_run(t->p->team, sr1__panels_groups(t->w->n_out) * cuts, run_product,
                  (void *)(uintptr_t)t);
}

/* Outputs of a group that there are. */
static size_t count_group_outputs(const struct product_task *t, size_t group)
{
    size_t left = t->w->n_out - group * SR1__GROUP_OUT;

    return left < SR1__GROUP_OUT ? left : SR1__GROUP_OUT;
}

static void finish_store(const struct product_task *t, size_t group, size_t first,
                         size_t n, struct host_scratch *s)
{
    size_t at = group * SR1__GROUP_OUT;
    size_t width = count_group_outputs(t, group);

    for (size_t r = 0; r < n; r++) {
        const float *tile = s->tile + r * SR1__GROUP_OUT;
        float *out =
            t->out_rows ? t->out_rows[first + r] : t->out + (first + r) * t->out_width;

        memcpy(out + at, tile, width * sizeof *out);
        for (size_t o = 0; t->bias && o < width; o++)
            out[at + o] += t->bias[at + o];
    }
}

static void finish_add(const struct product_task *t, size_t group, size_t first, size_t n,
                       struct host_scratch *s)
{
    size_t at = group * SR1__GROUP_OUT;
    size_t width = count_group_outputs(t, group);

    for (size_t r = 0; r < n; r++) {
        const float *tile = s->tile + r * SR1__GROUP_OUT;
        float *out = t->out + (first + r) * t->out_width + at;

        for (size_t o = 0; o < width; o++)
            out[o] += tile[o];
        for (size_t o = 0; t->bias && o < width; o++)
            out[o] += t->bias[at + o];
    }
}

static void finish_gate(const struct product_task *t, size_t group, size_t first,
                        size_t n, struct host_scratch *s)
{
    const struct sr1__host_pass *p = t->p;
    size_t at = group * SR1__HOST_GATES;
    size_t width = p->f - at < SR1__HOST_GATES ? p->f - at : SR1__HOST_GATES;

    sr1__swiglu(s->tile, s->gated, (int64_t)n, SR1__HOST_GATES);
    for (size_t r = 0; r < n; r++)
        store_typed(p, s->gated + r * SR1__HOST_GATES,
                    p->gated + ((first + r) * round_width(p->f) + at) * p->size, width);
}

/* ---- heads ---- */

static void fill_angles(const struct sr1__host_pass *p, int64_t position, float *angles)
{
    size_t d = (size_t)p->m->config.head_dim;
    const float *cos = sr1__shim_data(p->m->rope.cos);
    const float *sin = sr1__shim_data(p->m->rope.sin);

    if (sr1__hf_config_turn(&p->m->config, p->layer_index) == SR1__TURN_NONE) {
        for (size_t i = 0; i < 2 * d; i++)
            angles[i] = i < d;
        return;
    }
    memcpy(angles, cos + (size_t)position * d, d * sizeof *angles);
    memcpy(angles + d, sin + (size_t)position * d, d * sizeof *angles);
    if (p->weights->bf16) { /* as in training, where they are of the model's type */
        uint16_t half[2 * SR1__HEAD_DIM_MAX];

        sr1__f32_to_bf16(angles, half, 2 * d);
        sr1__bf16_to_f32(half, angles, 2 * d);
    }
}

static void store_key_value(const struct sr1__host_pass *p, size_t i, const float *k,
                            const float *v)
{
    size_t d = (size_t)p->m->config.head_dim;
    int64_t at = p->positions[i];

    for (int64_t head = 0; head < p->m->config.n_kv_heads; head++) {
        struct sr1__page_head h =
            sr1__kv_paged_head(p->kv, p->layer_index, p->rows[i], head, at + 1);
        const float *key = k + (size_t)head * d;
        const float *value = v + (size_t)head * d;
        uint16_t key16[SR1__HEAD_DIM_MAX];
        uint16_t value16[SR1__HEAD_DIM_MAX];

        if (h.bf16) {
            sr1__f32_to_bf16(key, key16, d);
            sr1__f32_to_bf16(value, value16, d);
            sr1__page_put(&h, at, key16, value16);
        } else {
            sr1__page_put(&h, at, key, value);
        }
    }
}

/* Queries normalised, turned and scaled; keys likewise, into the cache with values. */
static void turn_token(struct sr1__host_pass *p, size_t i, struct host_scratch *s)
{
    const struct sr1__hf_config *c = &p->m->config;
    const struct sr1__heads heads = {c->n_heads,       c->n_kv_heads,    c->head_dim,
                                     p->layer->q_norm, p->layer->k_norm, c->rms_norm_eps};
    const float *qkv = p->qkv + i * round_width(p->q + 2 * p->kv_width);
    float *q = p->queries + i * round_width(p->q);
    float scale = 1.0F / sqrtf((float)c->head_dim);

    fill_angles(p, p->positions[i], s->angles);
    sr1__heads_rope(&heads, qkv, s->angles, s->angles + c->head_dim, q, s->row, 1);
    for (size_t j = 0; j < p->q; j++)
        q[j] *= scale;
    store_key_value(p, i, s->row, qkv + p->q + p->kv_width);
}

static void turn_rows(void *arg, size_t i, int32_t thread)
{
    struct sr1__host_pass *p = arg;
    size_t end = (i + 1) * ROPE_ROWS < p->n ? (i + 1) * ROPE_ROWS : p->n;

    for (size_t r = i * ROPE_ROWS; r < end; r++)
        turn_token(p, r, &p->scratch[thread]);
}

/* ---- attention ---- */

/* Some queries of one key-value head, to be computed together. */
struct query_list {
    struct sr1__page_query list[QUERIES];
    unsigned char *to[QUERIES]; /* where each result goes, of the weights' type */
    size_t n;
};

static void attend_queries(const struct sr1__host_pass *p, const struct sr1__page_head *h,
                           struct query_list *l)
{
    sr1__page_attend(h, l->list, l->n);
    for (size_t i = 0; i < l->n; i++)
        store_typed(p, l->list[i].out, l->to[i], (size_t)h->dim);
    l->n = 0;
}

static void attend_block(const struct sr1__host_pass *p, const struct host_block *b,
                         int64_t head, struct host_scratch *s)
{
    const struct sr1__hf_config *c = &p->m->config;
    size_t d = (size_t)c->head_dim;
    size_t group = (size_t)(c->n_heads / c->n_kv_heads);
    struct sr1__page_head h =
        sr1__kv_paged_head(p->kv, p->layer_index, b->row, head, b->past + b->n);
    struct query_list l = {.n = 0};
    int64_t window = sr1__hf_config_window(c, p->layer_index);

    for (int64_t t = 0; t < b->n; t++) {
        int64_t end = b->past + t + 1;

        for (size_t g = 0; g < group; g++) {
            size_t at = ((size_t)head * group + g) * d;
            size_t token = (size_t)(b->first + t);

            l.to[l.n] = p->attended + (token * round_width(p->q) + at) * p->size;
            l.list[l.n] = (struct sr1__page_query){
                p->queries + token * round_width(p->q) + at, s->heads + l.n * d, end,
                sr1__window_start(end, window)};
            if (++l.n == QUERIES)
                attend_queries(p, &h, &l);
        }
    }
    if (l.n > 0)
        attend_queries(p, &h, &l);
}

static void attend_head(void *arg, size_t i, int32_t thread)
{
    struct sr1__host_pass *p = arg;
    size_t heads = (size_t)p->m->config.n_kv_heads;

    attend_block(p, &p->blocks[i / heads], (int64_t)(i % heads), &p->scratch[thread]);
}

/* ---- a piece ---- */

static void attend_layer(struct sr1__host_pass *p)
{
    const struct sr1__host_layer *l = p->layer;

    norm_piece(p, l->input_norm);
    multiply_rows(
        &(struct product_task){.p = p,
                               .w = &l->qkv,
                               .lora = &l->qkv_lora,
                               .in = p->h,
                               .width = round_width(p->e),
                               .n = p->n,
                               .bias = l->qkv_bias,
                               .finish = finish_store,
                               .out = p->qkv,
                               .out_width = round_width(p->q + 2 * p->kv_width)});
    sr1__team_run(p->team, (p->n + ROPE_ROWS - 1) / ROPE_ROWS, turn_rows, p);
    sr1__team_run(p->team, p->n_blocks * (size_t)p->m->config.n_kv_heads, attend_head, p);
    multiply_rows(&(struct product_task){.p = p,
                                         .w = &l->o,
                                         .lora = &l->o_lora,
                                         .in = p->attended,
                                         .width = round_width(p->q),
                                         .n = p->n,
                                         .bias = l->o_bias,
                                         .finish = finish_add,
                                         .out = p->x,
                                         .out_width = round_width(p->e)});
}

static void feed_forward_layer(struct sr1__host_pass *p)
{
    const struct sr1__host_layer *l = p->layer;

    norm_piece(p, l->post_norm);
    multiply_rows(&(struct product_task){.p = p,
                                         .w = &l->gate_up,
                                         .lora = &l->gate_up_lora,
                                         .in = p->h,
                                         .width = round_width(p->e),
                                         .n = p->n,
                                         .finish = finish_gate});
    multiply_rows(&(struct product_task){.p = p,
                                         .w = &l->down,
                                         .lora = &l->down_lora,
                                         .in = p->gated,
                                         .width = round_width(p->f),
                                         .n = p->n,
                                         .finish = finish_add,
                                         .out = p->x,
                                         .out_width = round_width(p->e)});
}

/* The tokens [from, from + n) of the input: their rows, positions, blocks, embeddings. */
static void begin_piece(struct sr1__host_pass *p, const struct sr1__host_input *in,
                        int64_t from, size_t n)
{
    int64_t end = from + (int64_t)n;

    p->n = n;
    p->n_blocks = 0;
    for (size_t i = 0; i < in->n_spans; i++) {
        const struct sr1__kv_span *sp = &in->spans[i];
        int64_t t = sp->first > from ? sp->first : from;
        int64_t stop = sp->first + sp->n < end ? sp->first + sp->n : end;

        while (t < stop) {
            int64_t m = stop - t < ATTEND_TOKENS ? stop - t : ATTEND_TOKENS;

            p->blocks[p->n_blocks++] =
                (struct host_block){sp->row, t - from, sp->past + t - sp->first, m};
            for (int64_t j = 0; j < m; j++) {
                p->rows[t - from + j] = sp->row;
                p->positions[t - from + j] = sp->past + t - sp->first + j;
            }
            t += m;
        }
    }
    for (size_t i = 0; i < n; i++) {
        float *x = p->x + i * round_width(p->e);
        const float *e = get_embedding(p, in->ids[from + (int64_t)i], x);

        if (e != x)
            memcpy(x, e, p->e * sizeof *x);
    }
}

/* Hidden states of the wanted tokens of the piece; returns how many are kept now. */
static size_t keep_hidden(struct sr1__host_pass *p, const struct sr1__host_input *in,
                          int64_t from, size_t kept)
{
    while (kept < in->n_wanted && in->wanted[kept] < from + (int64_t)p->n) {
        norm_row(p, (size_t)(in->wanted[kept] - from), p->weights->final_norm,
                 p->scratch[0].row, p->hidden + kept * round_width(p->e) * p->size);
        kept++;
    }
    return kept;
}

sr1_status sr1__host_pass_run(struct sr1__host_pass *p, const struct sr1__host_input *in)
{
    size_t total = count_input_tokens(in);
    size_t kept = 0;

    SR1__TRY(sr1__causal_lm_begin(p->m));
    for (size_t from = 0; from < total; from += PIECE) {
        size_t n = total - from < PIECE ? total - from : PIECE;

        begin_piece(p, in, (int64_t)from, n);
        for (int32_t i = 0; i < p->m->config.n_layers; i++) {
            p->layer = &p->weights->layers[i];
            p->layer_index = i;
            attend_layer(p);
            feed_forward_layer(p);
        }
        kept = keep_hidden(p, in, (int64_t)from, kept);
    }
    sr1__causal_lm_end(p->m);
    return SR1_OK;
}

void sr1__host_pass_logits(struct sr1__host_pass *p, size_t first, size_t n,
                           float *const *logits)
{
    multiply_rows(
        &(struct product_task){.p = p,
                               .w = &p->weights->head,
                               .in = p->hidden + first * round_width(p->e) * p->size,
                               .width = round_width(p->e),
                               .n = n,
                               .finish = finish_store,
                               .out_rows = logits});
}

void sr1__host_pass_hidden(const struct sr1__host_pass *p, size_t i, float *out)
{
    const unsigned char *h = p->hidden + i * round_width(p->e) * p->size;

    if (p->weights->bf16)
        sr1__bf16_to_f32((const uint16_t *)(const void *)h, out, p->e);
    else
        memcpy(out, h, p->e * sizeof *out);
}
