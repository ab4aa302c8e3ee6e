/* tensor/model/host_pass.c - a decoder's layers as loops of a team of threads.
 *
 *     x = embed[ids]
 *     a layer:  h = norm(x);  qkv = Wqkv h;  q, k = rope(norm(..));  cache k, v
 *               a = attention(q);             x += Wo a
 *               h = norm(x);  f = silu(Wgate h) * (Wup h);  x += Wdown f
 *
 * or what the architecture's row says in place of it (weights/decoder_archs.h).
 * A product's task is a group of outputs for some rows; what follows the product (an
 * adapter's, bias, gate, sum) is done to its tile while that is in a cache. x, q and sums
 * are fp32 in any model. In a bf16 model the inputs of products, keys and values are
 * rounded to bf16. A long pass is cut into pieces: a token needs nothing but the cache of
 * those before.
 *
 * Where there are many rows each thread takes some of them, a *lot*, through all layers
 * by itself: none waits for another, and while one reads a cache from memory another
 * multiplies. */
#include "tensor/model/host_pass_internal.h"

#include "kernels/attention.h"
#include "kernels/bf16.h"
#include "kernels/layer.h"

#include <string.h>

/* ---- rows ---- */

/* E numbers of the weights' type as fp32. */
static void widen_hidden(const struct sr1__host_pass *p, const void *from, float *to)
{
    if (p->weights->bf16)
        sr1__bf16_to_f32(from, to, p->e);
    else
        memcpy(to, from, p->e * sizeof *to);
}

static void embed_token(const struct sr1__host_pass *p, int32_t id, float *x)
{
    const unsigned char *rows = p->weights->embed;

    widen_hidden(p, rows + (size_t)id * p->e * p->size, x);
    for (size_t i = 0; p->embed_scale != 1 && i < p->e; i++)
        x[i] *= p->embed_scale;
}

static void norm_row(const struct sr1__host_pass *p, size_t i, const float *w, float *row,
                     void *to)
{
    const float *x = p->x + i * round_width(p->e);
    float *y = p->weights->bf16 ? row : to;

    sr1__rms_norm(x, w, y, 1, (int64_t)p->e, p->m->config.rms_norm_eps);
    sr1__host_store(p->weights, y, to, p->e);
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

static struct sr1__host_rows list_rows(const struct product_task *t)
{
    return (struct sr1__host_rows){t->in, t->width, t->p->quantized};
}

#define QUANTIZED_ROWS 8 /* of a task */

/* Rows [i, i + 1) * QUANTIZED_ROWS. */
static void quantize_rows(void *arg, size_t i, int32_t thread)
{
    const struct product_task *t = arg;
    const struct sr1__host_rows rows = list_rows(t);
    size_t first = i * QUANTIZED_ROWS;
    size_t n = t->n - first < QUANTIZED_ROWS ? t->n - first : QUANTIZED_ROWS;

    sr1__host_quantize(t->p->weights, &rows, t->w->k, first, n,
                       t->p->scratch[thread].row);
}

static int has_lora(const struct product_task *t)
{
    return t->lora && t->lora->a.n_out > 0;
}

static void run_product(void *arg, size_t i, int32_t thread)
{
    const struct product_task *t = arg;
    const struct sr1__host_rows rows = list_rows(t);
    struct host_scratch *s = &t->p->scratch[thread];
    size_t cuts = (t->n + ROWS - 1) / ROWS;
    size_t first = i % cuts * ROWS;
    size_t n = t->n - first < ROWS ? t->n - first : ROWS;

    sr1__host_multiply(t->w, i / cuts, &rows, first, n, s->tile);
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
    if (t->w->type == SR1__PANELS_INT8)
        sr1__team_run(t->p->team, (t->n + QUANTIZED_ROWS - 1) / QUANTIZED_ROWS,
                      quantize_rows, (void *)(uintptr_t)t);
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

    (p->m->arch->gelu ? sr1__geglu : sr1__swiglu)(s->tile, s->gated, (int64_t)n,
                                                  SR1__HOST_GATES);
    for (size_t r = 0; r < n; r++)
        sr1__host_store(p->weights, s->gated + r * SR1__HOST_GATES,
                        p->gated + ((first + r) * round_width(p->f) + at) * p->size,
                        width);
}

/* ---- heads ---- */

static void fill_angles(const struct sr1__host_pass *p, int64_t position, float *angles)
{
    size_t d = (size_t)p->m->config.head_dim;
    int32_t turn = sr1__hf_config_turn(&p->m->config, p->layer_index);
    const struct sr1__rope *rope =
        turn == SR1__TURN_LOCAL ? &p->m->local_rope : &p->m->rope;
    const float *cos = sr1__shim_data(rope->cos);
    const float *sin = sr1__shim_data(rope->sin);

    if (turn == SR1__TURN_NONE) {
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

    fill_angles(p, p->positions[i], s->angles);
    sr1__heads_rope(&heads, qkv, s->angles, s->angles + c->head_dim, q, s->row, 1);
    for (size_t j = 0; j < p->q; j++)
        q[j] *= p->query_scale;
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
        sr1__host_store(p->weights, l->list[i].out, l->to[i], (size_t)h->dim);
    l->n = 0;
}

/* The cache that item i of the attention reads: key-value head i % heads of a block. */
static struct sr1__page_head locate_item(const struct sr1__host_pass *p, size_t i)
{
    size_t heads = (size_t)p->m->config.n_kv_heads;
    const struct host_block *b = &p->blocks[i / heads];

    return sr1__kv_paged_head(p->kv, p->layer_index, b->row, (int64_t)(i % heads),
                              b->past + b->n);
}

/* The first keys that an item reads. */
static const unsigned char *locate_first_keys(const struct sr1__host_pass *p, size_t i)
{
    const struct host_block *b = &p->blocks[i / (size_t)p->m->config.n_kv_heads];
    struct sr1__page_head h = locate_item(p, i);
    int64_t window = sr1__hf_config_window(&p->m->config, p->layer_index);

    return h.pages[sr1__window_start(b->past + 1, window) / SR1__PAGE] + h.keys;
}

/* next: the item that this thread goes on with. */
static void attend_item(const struct sr1__host_pass *p, size_t i, size_t next,
                        struct host_scratch *s)
{
    const struct sr1__hf_config *c = &p->m->config;
    const struct host_block *b = &p->blocks[i / (size_t)c->n_kv_heads];
    size_t head = i % (size_t)c->n_kv_heads;
    size_t d = (size_t)c->head_dim;
    size_t group = (size_t)(c->n_heads / c->n_kv_heads);
    struct sr1__page_head h = locate_item(p, i);
    struct query_list l = {.n = 0};
    int64_t window = sr1__hf_config_window(c, p->layer_index);

    h.next = next == i ? NULL : locate_first_keys(p, next);

    for (int64_t t = 0; t < b->n; t++) {
        int64_t end = b->past + t + 1;

        for (size_t g = 0; g < group; g++) {
            size_t at = (head * group + g) * d;
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

/* A task's items lie side by side. */
static void attend_items(void *arg, size_t i, int32_t thread)
{
    const struct sr1__host_pass *p = arg;
    size_t all = p->n_blocks * (size_t)p->m->config.n_kv_heads;
    size_t end = (i + 1) * p->items < all ? (i + 1) * p->items : all;

    for (size_t k = i * p->items; k < end; k++)
        attend_item(p, k, k + 1 < end ? k + 1 : k, &p->scratch[thread]);
}

static void attend_piece(struct sr1__host_pass *p)
{
    size_t all = p->n_blocks * (size_t)p->m->config.n_kv_heads;
    size_t most = (size_t)sr1__team_threads(p->team) * ATTEND_TASKS;

    p->items = (all + most - 1) / most;
    sr1__team_run(p->team, (all + p->items - 1) / p->items, attend_items, p);
}

/* ---- a piece ---- */

/* Rows [i, i + 1) * NORM_ROWS of what a matrix gave, normalised and added to x. */
static void add_normed_rows(void *arg, size_t i, int32_t thread)
{
    const struct norm_task *t = arg;
    const struct sr1__host_pass *p = t->p;
    size_t end = (i + 1) * NORM_ROWS < p->n ? (i + 1) * NORM_ROWS : p->n;
    float *row = p->scratch[thread].row;

    for (size_t r = i * NORM_ROWS; r < end; r++) {
        float *x = p->x + r * round_width(p->e);

        sr1__rms_norm(p->output + r * round_width(p->e), t->w, row, 1, (int64_t)p->e,
                      p->m->config.rms_norm_eps);
        for (size_t j = 0; j < p->e; j++)
            x[j] += row[j];
    }
}

/* x += the product, through a norm where there is one. */
static void add_product(struct sr1__host_pass *p, struct product_task t,
                        const float *norm)
{
    struct norm_task after = {p, norm};

    t.finish = norm ? finish_store : finish_add;
    t.out = norm ? p->output : p->x;
    t.out_width = round_width(p->e);
    multiply_rows(&t);
    if (norm)
        sr1__team_run(p->team, (p->n + NORM_ROWS - 1) / NORM_ROWS, add_normed_rows,
                      &after);
}

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
    attend_piece(p);
}

static void add_attended(struct sr1__host_pass *p)
{
    const struct sr1__host_layer *l = p->layer;

    add_product(p,
                (struct product_task){.p = p,
                                      .w = &l->o,
                                      .lora = &l->o_lora,
                                      .in = p->attended,
                                      .width = round_width(p->q),
                                      .n = p->n,
                                      .bias = l->o_bias},
                l->attention_norm);
}

static void feed_forward_layer(struct sr1__host_pass *p)
{
    const struct sr1__host_layer *l = p->layer;

    norm_piece(p, l->post_norm);
    if (l->experts) {
        sr1__host_experts_run(
            p->experts, p->weights, l,
            &(struct sr1__expert_rows){p->h, p->x, round_width(p->e), p->n});
        return;
    }
    multiply_rows(&(struct product_task){.p = p,
                                         .w = &l->mlp.gate_up,
                                         .lora = &l->gate_up_lora,
                                         .in = p->h,
                                         .width = round_width(p->e),
                                         .n = p->n,
                                         .finish = finish_gate});
    add_product(p,
                (struct product_task){.p = p,
                                      .w = &l->mlp.down,
                                      .lora = &l->down_lora,
                                      .in = p->gated,
                                      .width = round_width(p->f),
                                      .n = p->n},
                l->mlp_norm);
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
    for (size_t i = 0; i < n; i++)
        embed_token(p, in->ids[from + (int64_t)i], p->x + i * round_width(p->e));
}

/* Behind the last attention nothing reads the tokens that are not wanted: the piece, from
 * token `from` on, is the wanted ones from wanted[first] on. */
static void leave_wanted(struct sr1__host_pass *p, const struct sr1__host_input *in,
                         int64_t from, size_t first)
{
    size_t x = round_width(p->e), attended = round_width(p->q) * p->size, n = 0;

    for (size_t i = first; i < in->n_wanted && in->wanted[i] < from + (int64_t)p->n;
         i++) {
        size_t row = (size_t)(in->wanted[i] - from);

        if (row != n) {
            memcpy(p->x + n * x, p->x + row * x, x * sizeof *p->x);
            memcpy(p->attended + n * attended, p->attended + row * attended, attended);
        }
        n++;
    }
    p->n = n;
}

/* The hidden states of what is left of the piece, behind those kept before. */
static size_t keep_hidden(struct sr1__host_pass *p, size_t kept)
{
    for (size_t i = 0; i < p->n; i++)
        norm_row(p, i, p->weights->final_norm, p->scratch[0].row,
                 p->hidden + (kept + i) * round_width(p->e) * p->size);
    return kept + p->n;
}

/* The tokens of a lot, or all of them. */
static void run_tokens(struct sr1__host_pass *p, const struct sr1__host_input *in,
                       const struct host_lot *lot)
{
    size_t kept = lot->kept;

    for (int64_t from = lot->from; from < lot->end; from += PIECE) {
        size_t n = (size_t)(lot->end - from < PIECE ? lot->end - from : PIECE);

        begin_piece(p, in, from, n);
        for (int32_t i = 0; i < p->m->config.n_layers; i++) {
            p->layer = &p->weights->layers[i];
            p->layer_index = i;
            attend_layer(p);
            if (i + 1 == p->m->config.n_layers)
                leave_wanted(p, in, from, kept);
            if (p->n == 0)
                break;
            add_attended(p);
            feed_forward_layer(p);
        }
        kept = keep_hidden(p, kept);
    }
}

struct lot_task {
    struct sr1__host_pass *p;
    const struct sr1__host_input *in;
};

static void run_lot(void *arg, size_t i, int32_t thread)
{
    const struct lot_task *t = arg;
    struct sr1__host_pass *lane = t->p->lanes[thread];

    lane->weights = t->p->weights;
    lane->hidden = t->p->hidden;
    run_tokens(lane, t->in, &t->p->lots[i]);
    lane->weights = NULL;
    lane->hidden = NULL;
}

sr1_status sr1__host_pass_run(struct sr1__host_pass *p, const struct sr1__host_input *in)
{
    const struct host_lot all = {0, (int64_t)count_input_tokens(in), 0};
    struct lot_task t = {p, in};

    SR1__TRY(sr1__causal_lm_begin(p->m));
    if (p->n_lots > 0)
        sr1__team_run(p->team, p->n_lots, run_lot, &t);
    else
        run_tokens(p, in, &all);
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
