/* tensor/model/model_memory.c - what a decoder allocates, as a table of the tensors that
 * one layer makes in turn. */
#include "tensor/model/model_memory.h"

#include "tensor/model/host_pass.h"
#include "tensor/model/host_score.h"
#include "tensor/model/kv_layout.h"
#include "tensor/ops/int8_linear.h"
#include "tensor/ops/optimizer.h"
#include "tensor/torch/shim.h"
#include "tensor/weights/decoder_archs.h"

#include <math.h>
#include <stddef.h>

/* ---- parameters ---- */

struct widths {
    double e; /* hidden size */
    double q; /* of all query heads */
    double k; /* of all key-value heads */
    double f; /* intermediate size; of what a token's experts make together */
    double x; /* hidden sizes of what they read */
};

/* Is there a layer without experts? */
static int has_dense(const struct sr1__hf_config *c)
{
    return sr1__hf_config_count(c, SR1__LAYER_EXPERTS) < c->n_layers;
}

/* The wider MLP of those that there are. */
static struct widths widths_of(const struct sr1__hf_config *c)
{
    double all = (double)c->experts_per_token;

    return (struct widths){(double)c->hidden_size, (double)(c->n_heads * c->head_dim),
                           (double)(c->n_kv_heads * c->head_dim),
                           fmax(has_dense(c) ? (double)c->intermediate_size : 0,
                                all * (double)c->expert_size),
                           all * (double)c->hidden_size};
}

/* The matrices of all layers' MLPs: numbers, and rows. */
struct mlp_counts {
    double matrices, rows;
};

static struct mlp_counts count_mlps(const struct sr1__hf_config *c)
{
    double e = (double)c->hidden_size, f = (double)c->intermediate_size;
    double with_experts = (double)sr1__hf_config_count(c, SR1__LAYER_EXPERTS);
    double dense = (double)c->n_layers - with_experts;
    double experts = with_experts * (double)c->n_experts, g = (double)c->expert_size;

    return (struct mlp_counts){3 * e * (dense * f + experts * g),
                               dense * (2 * f + e) + experts * (2 * g + e)};
}

static double count_routers(const struct sr1__hf_config *c)
{
    return (double)sr1__hf_config_count(c, SR1__LAYER_EXPERTS) * (double)c->n_experts *
           (double)c->hidden_size;
}

static double count_embedding(const struct sr1__hf_config *c)
{
    return (double)c->vocab_size * (double)c->hidden_size;
}

double sr1__memory_parameters(const struct sr1__hf_config *c)
{
    struct widths w = widths_of(c);
    double biases = (c->qkv_bias ? w.q + 2 * w.k : 0) + (c->o_bias ? w.e : 0);
    double norms = (sr1__archs[c->arch].post_norms ? 4 : 2) * w.e +
                   (c->qk_norm ? 2 * (double)c->head_dim : 0);
    double layer = w.e * (w.q + 2 * w.k) + w.q * w.e + norms + biases;
    double head =
        c->value_head ? w.e + 1 : (c->tie_word_embeddings ? 0 : count_embedding(c));

    return count_embedding(c) + (double)c->n_layers * layer + count_mlps(c).matrices +
           count_routers(c) + w.e + head;
}

double sr1__memory_adapter(const struct sr1__memory_model *m)
{
    struct widths w = widths_of(&m->config);
    double f = (double)m->config.intermediate_size, n = (double)m->config.n_layers;
    double dense = n - (double)sr1__hf_config_count(&m->config, SR1__LAYER_EXPERTS);
    const double ends[SR1__LORA_MODULES] = {
        [SR1__LORA_Q] = n * (w.e + w.q),      [SR1__LORA_K] = n * (w.e + w.k),
        [SR1__LORA_V] = n * (w.e + w.k),      [SR1__LORA_O] = n * (w.q + w.e),
        [SR1__LORA_GATE] = dense * (w.e + f), [SR1__LORA_UP] = dense * (w.e + f),
        [SR1__LORA_DOWN] = dense * (f + w.e)};
    double sum = 0;

    for (int32_t i = 0; i < SR1__LORA_MODULES; i++)
        sum += m->lora.targets & 1u << i ? ends[i] : 0;
    return (double)m->lora.rank * sum;
}

static const struct sr1__arch_row *arch_of(const struct sr1__memory_model *m)
{
    return &sr1__archs[m->config.arch];
}

static double size_of(const struct sr1__memory_model *m)
{
    return (double)sr1__weight_dtype_size(m->dtype);
}

static int is_narrow(const struct sr1__memory_model *m)
{
    return m->dtype != SR1__WEIGHT_F32;
}

double sr1__memory_trained(const struct sr1__memory_model *m)
{
    return m->lora.rank > 0 ? sr1__memory_adapter(m) : sr1__memory_parameters(&m->config);
}

/* What the layers' matrices take less as int8, with their scales. */
static double int8_saving(const struct sr1__memory_model *m)
{
    struct widths w = widths_of(&m->config);
    struct mlp_counts mlps = count_mlps(&m->config);
    double n = (double)m->config.n_layers;
    double matrices = n * (w.e * (w.q + 2 * w.k) + w.q * w.e) + mlps.matrices;
    double rows = n * (w.q + 2 * w.k + w.e) + mlps.rows;

    return m->quantized ? matrices * (size_of(m) - 1) - 4 * rows : 0;
}

/* A block of the largest matrix in numbers again, and what it gives for each token. */
static double int8_block(const struct sr1__memory_model *m, double tokens)
{
    struct widths w = widths_of(&m->config);
    double n_in = w.e, all = 2 * w.f, rows = fmin(all, (double)SR1__INT8_BLOCK / n_in);

    if (!m->quantized)
        return 0;
    return rows * n_in * (4 + (is_narrow(m) ? size_of(m) : 0)) +
           (rows < all ? tokens * rows * size_of(m) : 0);
}

double sr1__memory_weights(const struct sr1__memory_model *m)
{
    return size_of(m) * sr1__memory_parameters(&m->config) + 4 * sr1__memory_adapter(m) -
           int8_saving(m);
}

double sr1__memory_moments(const struct sr1__memory_model *m)
{
    return 8 * sr1__memory_trained(m);
}

/* An adapter is fp32 itself. */
static int has_narrow_gradients(const struct sr1__memory_model *m)
{
    return is_narrow(m) && m->lora.rank == 0;
}

double sr1__memory_masters(const struct sr1__memory_model *m)
{
    return has_narrow_gradients(m) ? 4 * sr1__memory_trained(m) : 0;
}

/* Gate and up, of all experts where there are any. */
static double largest_mlp_leaf(const struct sr1__hf_config *c)
{
    return 2 * (double)c->hidden_size *
           fmax((double)c->intermediate_size, (double)(c->n_experts * c->expert_size));
}

static double largest_leaf(const struct sr1__memory_model *m)
{
    struct widths w = widths_of(&m->config);

    return m->lora.rank > 0
               ? (double)m->lora.rank * fmax(w.f, fmax(w.e, w.q))
               : fmax(count_embedding(&m->config), largest_mlp_leaf(&m->config));
}

double sr1__memory_offload_piece(const struct sr1__memory_model *m)
{
    return (has_narrow_gradients(m) ? 12 : 8) *
           fmin(largest_leaf(m), (double)SR1__OFFLOAD_PIECE);
}

/* The CPU's norm of a narrow gradient is that of a copy. */
double sr1__memory_grad_piece(const struct sr1__memory_model *m)
{
    double leaf = largest_leaf(m);

    if (!has_narrow_gradients(m))
        return 0;
    return 4 * (m->device == SR1__CPU ? leaf : fmin(leaf, (double)SR1__OFFLOAD_PIECE));
}

double sr1__memory_gradients(const struct sr1__memory_model *m)
{
    return (has_narrow_gradients(m) ? size_of(m) : 4) * sr1__memory_trained(m);
}

double sr1__memory_sums(const struct sr1__memory_model *m)
{
    return sr1__memory_masters(m);
}

/* Twice the last size, from the first on, until it suffices. */
static double grow_size(double first, double want, double most)
{
    double n = first;

    while (n < want)
        n *= 2;
    return n < most ? n : most;
}

double sr1__memory_rope(const struct sr1__memory_model *m, double positions)
{
    return (arch_of(m)->local_rope_theta > 0 ? 2 : 1) * 8 * (double)m->config.head_dim *
           grow_size(1024, positions, 1e9);
}

/* ---- a layer ---- */

/* What decides which tensors a layer makes and keeps. */
enum {
    NARROW = 1 << 0,      /* weights are not fp32 */
    STEPS = 1 << 1,       /* rope and swiglu are several operations */
    KEEPS_INPUT = 1 << 2, /* norms keep their input for backward, */
    UPCASTS = 1 << 3,     /* or a copy in fp32 */
    SCALES = 1 << 4,      /* and what they multiply by their weight */
    FULL = 1 << 5,        /* all weights are trained */
    HEAD_NORMS = 1 << 6,
    MIXED = 1 << 7,
    SCORES = 1 << 8, /* attention keeps its weights */
    /* By groups of linear layers: has an adapter, and keeps its input. */
    LORA_QKV = 1 << 9,
    LORA_O = 1 << 10,
    LORA_GATE = 1 << 11,
    LORA_DOWN = 1 << 12,
    FEEDS_QKV = 1 << 13,
    FEEDS_O = 1 << 14,
    FEEDS_GATE = 1 << 15,
    FEEDS_DOWN = 1 << 16,
    EXPERTS = 1 << 17,    /* rows are copied to the experts and back */
    POST_NORMS = 1 << 18, /* outputs are normalised */
    NEVER = 1 << 30
};

enum life { HELD, PASSING }; /* until the layer is done, or for a moment */

/* A tensor of a layer, in the order in which they are made: numbers for each token as
 * multiples of the widths, and of heads times the longest sequence. */
static const struct layer_tensor {
    double e, q, k, f, x, scores;
    int fp32; /* else the model's type */
    enum life life;
    uint32_t made; /* all of these must hold */
    uint32_t kept; /* for backward, likewise */
} layer_tensors[] = {
    /* attention: norm, product, heads, rope, attention, product */
    {.e = 1, .kept = KEEPS_INPUT},
    {.e = 1, .fp32 = 1, .life = PASSING, .made = UPCASTS, .kept = UPCASTS},
    {.e = 1, .fp32 = 1, .life = PASSING, .made = SCALES, .kept = SCALES | FULL},
    {.e = 3, .fp32 = 1, .life = PASSING, .made = UPCASTS, .kept = NEVER},
    {.e = 1, .kept = FEEDS_QKV},
    {.q = 1, .k = 2, .kept = 0},
    {.e = 1, .fp32 = 1, .made = NARROW | LORA_QKV, .kept = 0},
    {.q = 2, .k = 4, .fp32 = 1, .life = PASSING, .made = LORA_QKV, .kept = NEVER},
    {.q = 1, .k = 2, .made = LORA_QKV, .kept = NEVER},
    {.q = 1, .k = 1, .fp32 = 1, .life = PASSING, .made = HEAD_NORMS | UPCASTS},
    {.q = 1,
     .k = 1,
     .fp32 = 1,
     .life = PASSING,
     .made = HEAD_NORMS | SCALES,
     .kept = SCALES | FULL},
    {.q = 3,
     .k = 1,
     .fp32 = 1,
     .life = PASSING,
     .made = HEAD_NORMS | UPCASTS,
     .kept = NEVER},
    {.q = 4.5, .life = PASSING, .made = STEPS, .kept = NEVER},
    {.q = 1, .k = 1},
    {.q = 1},
    {.q = 1, .made = MIXED, .kept = FEEDS_O},
    {.scores = 2, .fp32 = 1, .life = PASSING, .made = SCORES, .kept = NEVER},
    {.scores = 1, .fp32 = 1, .life = PASSING, .made = SCORES},
    {.e = 1, .kept = NEVER},
    {.q = 1, .fp32 = 1, .made = NARROW | LORA_O},
    {.e = 2, .fp32 = 1, .life = PASSING, .made = LORA_O, .kept = NEVER},
    {.e = 1, .made = LORA_O, .kept = NEVER},
    {.e = 1, .made = POST_NORMS, .kept = POST_NORMS | KEEPS_INPUT},
    {.e = 1, .fp32 = 1, .life = PASSING, .made = POST_NORMS | UPCASTS, .kept = UPCASTS},
    /* mlp: sum, norm, product, swiglu, product, sum */
    {.e = 1, .kept = KEEPS_INPUT},
    {.e = 1, .fp32 = 1, .life = PASSING, .made = UPCASTS, .kept = UPCASTS},
    {.e = 1, .fp32 = 1, .life = PASSING, .made = SCALES, .kept = SCALES | FULL},
    {.e = 1, .kept = FEEDS_GATE},
    {.x = 1, .made = EXPERTS, .kept = EXPERTS | FULL},
    {.f = 2},
    {.e = 1, .fp32 = 1, .made = NARROW | LORA_GATE},
    {.f = 4, .fp32 = 1, .life = PASSING, .made = LORA_GATE, .kept = NEVER},
    {.f = 2, .made = LORA_GATE, .kept = NEVER},
    {.f = 1, .life = PASSING, .made = STEPS},
    {.f = 1, .kept = FEEDS_DOWN},
    {.x = 1, .made = EXPERTS},
    {.x = 1, .made = EXPERTS, .kept = NEVER},
    {.x = 2, .made = EXPERTS, .kept = NEVER},
    {.e = 1, .kept = NEVER},
    {.f = 1, .fp32 = 1, .made = NARROW | LORA_DOWN},
    {.e = 2, .fp32 = 1, .life = PASSING, .made = LORA_DOWN, .kept = NEVER},
    {.e = 1, .made = LORA_DOWN, .kept = NEVER},
    {.e = 1, .made = POST_NORMS, .kept = POST_NORMS | KEEPS_INPUT},
    {.e = 1, .fp32 = 1, .life = PASSING, .made = POST_NORMS | UPCASTS, .kept = UPCASTS},
    {.e = 1, .kept = NEVER},
};
#define LAYER_TENSORS (sizeof layer_tensors / sizeof layer_tensors[0])

/* Multiples of the intermediate size that the backward pass of an MLP makes. */
#define BACKWARD_WIDTHS 6.0

int sr1__memory_is_cuda(const struct sr1__memory_model *m)
{
    return m->device >= SR1__CUDA && m->device < SR1__NAMED;
}

/* Kernels of lib/tensor/ops/fused.c. */
static int is_fused(const struct sr1__memory_model *m)
{
    return m->device == SR1__CPU && m->dtype != SR1__F16;
}

static uint32_t traits_of_kernels(const struct sr1__memory_model *m)
{
    const struct sr1__hf_config *c = &m->config;
    int fused = is_fused(m), cuda = sr1__memory_is_cuda(m);
    int wide = is_narrow(m) && arch_of(m)->norm_plus_one; /* norms of a copy in fp32 */
    int norms =
        (fused || m->device != SR1__CPU) && !wide; /* one kernel, which keeps its input */
    uint32_t t = 0;

    t |= is_narrow(m) ? NARROW : 0;
    t |= fused && !arch_of(m)->gelu ? 0 : STEPS;
    t |= arch_of(m)->post_norms ? POST_NORMS : 0;
    t |= norms || !is_narrow(m) ? KEEPS_INPUT : UPCASTS;
    t |= norms ? 0 : SCALES;
    t |= c->qk_norm ? HEAD_NORMS : 0;
    t |= c->n_experts ? EXPERTS : 0;
    /* CUDA's attention without them takes neither fp32 nor shared heads in fp32 */
    t |= cuda && !is_narrow(m) && c->n_heads != c->n_kv_heads ? SCORES : 0;
    return t;
}

static uint32_t traits_of_training(const struct sr1__memory_model *m)
{
    static const struct {
        uint32_t modules, lora, feeds;
    } groups[] = {
        {1u << SR1__LORA_Q | 1u << SR1__LORA_K | 1u << SR1__LORA_V, LORA_QKV, FEEDS_QKV},
        {1u << SR1__LORA_O, LORA_O, FEEDS_O},
        {1u << SR1__LORA_GATE | 1u << SR1__LORA_UP, LORA_GATE, FEEDS_GATE},
        {1u << SR1__LORA_DOWN, LORA_DOWN, FEEDS_DOWN}};
    uint32_t t = m->lora.rank > 0 ? 0 : FULL;

    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        int adapted = m->lora.rank > 0 && (m->lora.targets & groups[i].modules);

        t |= adapted ? groups[i].lora : 0;
        t |= t & FULL || (adapted && !is_narrow(m)) ? groups[i].feeds : 0;
    }
    return t;
}

struct layer_bytes {
    double kept; /* for backward, by each token */
    double peak; /* while it runs, by each token */
};

static double tensor_bytes(const struct layer_tensor *t,
                           const struct sr1__memory_model *m, double longest)
{
    struct widths w = widths_of(&m->config);
    double n = t->e * w.e + t->q * w.q + t->k * w.k + t->f * w.f + t->x * w.x +
               t->scores * (double)m->config.n_heads * longest;

    return n * (t->fp32 ? 4 : size_of(m));
}

/* One pass over the table; train: what backward needs is kept. */
static struct layer_bytes measure_layer(const struct sr1__memory_model *m,
                                        const struct sr1__memory_pass *p, int train)
{
    uint32_t traits = traits_of_kernels(m) | traits_of_training(m);
    struct layer_bytes sum = {0, 0};
    double now = 0;

    traits |= p->mixed ? MIXED : 0;
    for (size_t i = 0; i < LAYER_TENSORS; i++) {
        const struct layer_tensor *t = &layer_tensors[i];
        double n = tensor_bytes(t, m, p->longest);
        int kept = train && (t->kept & ~traits) == 0;

        if (t->made & ~traits)
            continue;
        sum.kept += kept ? n : 0;
        sum.peak = fmax(sum.peak, now + n);
        now += kept || t->life == HELD ? n : 0;
    }
    return sum;
}

/* ---- around the layers ---- */

/* Rotations, ids and positions, for the whole pass. */
static double pass_inputs(const struct sr1__memory_model *m,
                          const struct sr1__memory_pass *p)
{
    return p->tokens * (2 * (double)m->config.head_dim * size_of(m) + 16);
}

/* The last layer's output, its norm, and the rows that predict targets: at most, since
 * the output and norm may be of those rows alone, as what the layer keeps behind its
 * attention (leaves_rows in causal_lm.c). */
static double pass_outputs(const struct sr1__memory_model *m,
                           const struct sr1__memory_pass *p, int train)
{
    double e = (double)m->config.hidden_size, size = size_of(m);
    uint32_t traits = traits_of_kernels(m) | traits_of_training(m);
    double kept = (traits & UPCASTS ? 4 : 0) + (traits & SCALES && traits & FULL ? 4 : 0);

    return p->tokens * e * (2 * size + (train ? kept : 0)) + p->targets * (e * size + 48);
}

static double chunk_rows(const struct sr1__memory_model *m,
                         const struct sr1__memory_pass *p)
{
    double fit = fmax(1, floor(33554432.0 / 4 / (double)m->config.vocab_size));

    return fmin(p->targets, p->chunk > 0 ? p->chunk : fit);
}

/* Logits of a chunk of rows: forward z and the sum of its powers; backward z and dz. */
static double head_forward(const struct sr1__memory_model *m,
                           const struct sr1__memory_pass *p)
{
    double each = (is_narrow(m) ? size_of(m) : 0) + 8 + (p->entropy ? 12 : 0);

    if (m->config.value_head)
        return p->targets * 8;
    return chunk_rows(m, p) * (double)m->config.vocab_size * each;
}

static double head_backward(const struct sr1__memory_model *m,
                            const struct sr1__memory_pass *p)
{
    double each = (is_narrow(m) ? 2 * size_of(m) : 0) + 4 + (p->entropy ? 8 : 0);
    double gradient = traits_of_training(m) & FULL
                          ? count_embedding(&m->config) * (4 + (is_narrow(m) ? 2 : 0))
                          : 0;

    if (m->config.value_head)
        return p->targets * 8;
    return chunk_rows(m, p) * (double)m->config.vocab_size * each + gradient +
           p->targets * (double)m->config.hidden_size * size_of(m);
}

double sr1__memory_forward(const struct sr1__memory_model *m,
                           const struct sr1__memory_pass *p)
{
    double layers = measure_layer(m, p, 0).peak * p->tokens + int8_block(m, p->tokens);

    return pass_inputs(m, p) + fmax(layers, pass_outputs(m, p, 0) + head_forward(m, p));
}

/* What n layers keep for backward. */
static double layers_kept(const struct sr1__memory_model *m,
                          const struct sr1__memory_pass *p, double n)
{
    double input = (double)m->config.hidden_size * size_of(m);

    return n * p->tokens * (p->checkpoint ? input : measure_layer(m, p, 1).kept);
}

/* The backward pass of one layer, beyond what is kept; with checkpoints its forward pass
 * again, and what that keeps. */
static double layer_backward(const struct sr1__memory_model *m,
                             const struct sr1__memory_pass *p)
{
    struct layer_bytes again = measure_layer(m, p, 1);
    struct widths w = widths_of(&m->config);
    double work = (BACKWARD_WIDTHS * w.f + 2 * w.x) * size_of(m);
    double grads = 2 * (double)m->config.hidden_size * size_of(m);

    return p->tokens *
           (grads + (p->checkpoint ? fmax(again.peak, again.kept + work) : work));
}

/* ---- units ---- */

/* The largest. */
static double count_layer(const struct sr1__hf_config *c)
{
    double e = (double)c->hidden_size, n = (double)c->n_experts;
    double heads = c->value_head || c->tie_word_embeddings ? 1 : 2;
    double layers = sr1__memory_parameters(c) - heads * count_embedding(c);
    double dense = 3 * e * (double)c->intermediate_size;
    double experts = n * e * (3 * (double)c->expert_size + 1);

    if (sr1__hf_config_has(c, SR1__LAYER_EXPERTS))
        layers -= count_mlps(c).matrices + count_routers(c) -
                  (double)c->n_layers * fmax(experts, has_dense(c) ? dense : 0);
    return layers / (double)c->n_layers;
}

double sr1__memory_layer(const struct sr1__memory_model *m)
{
    return count_layer(&m->config);
}

double sr1__memory_unit(const struct sr1__memory_model *m)
{
    return fmax(count_embedding(&m->config), count_layer(&m->config));
}

double sr1__memory_units_at_once(const struct sr1__memory_model *m)
{
    double head = m->config.value_head ? 0 : count_embedding(&m->config);

    return fmax(count_embedding(&m->config), head + count_layer(&m->config));
}

double sr1__memory_backward(const struct sr1__memory_model *m,
                            const struct sr1__memory_pass *p)
{
    double all = (double)m->config.n_layers;
    double around = pass_inputs(m, p) + pass_outputs(m, p, 1);
    double kept = around + layers_kept(m, p, all);
    double grads = sr1__memory_gradients(m);
    int full = (traits_of_training(m) & FULL) != 0;
    double embedding = full ? count_embedding(&m->config) * size_of(m) : 0;
    double head = full && !m->config.value_head ? embedding : 0;
    double forward = pass_inputs(m, p) + layers_kept(m, p, all - 1) +
                     measure_layer(m, p, !p->checkpoint).peak * p->tokens;
    double top = kept + fmax(head_forward(m, p),
                             fmax(head_backward(m, p), head + layer_backward(m, p)));
    double gone = p->by_unit && full ? sr1__memory_unit(m) * size_of(m) : grads;
    double bottom =
        around + gone + fmax(embedding, layers_kept(m, p, 1) + layer_backward(m, p));

    return fmax(forward, fmax(top, bottom));
}

/* ---- decoding ---- */

/* Pages in host memory (kv_paged.c), or slots (kv_slots.c). */
static int is_paged(const struct sr1__memory_model *m)
{
    return m->device == SR1__CPU && m->dtype != SR1__WEIGHT_F16;
}

static double token_cache(const struct sr1__memory_model *m)
{
    struct widths w = widths_of(&m->config);
    double size = m->narrow_cache && is_paged(m) ? sizeof(uint16_t) : size_of(m);

    return 2 * (double)m->config.n_layers * w.k * size;
}

/* Tables and masks are as large as the blocks that rows look at (kv_slots.c). */
static double slots_bytes(const struct sr1__memory_model *m,
                          const struct sr1__memory_rows *r, double tail)
{
    const struct sr1__hf_config *c = &m->config;
    double group = fmin(r->group, r->n), queries = (double)(c->n_heads / c->n_kv_heads);
    const struct sr1__kv_family family = {(int64_t)group, (int64_t)r->prompt};
    const struct sr1__kv_need need = {.families = &family,
                                      .n_families = 1,
                                      .times = (int64_t)ceil(r->n / group),
                                      .tail = (int64_t)tail,
                                      .max_rows = (int64_t)r->most,
                                      .max_tokens = (int64_t)r->tokens,
                                      .queries = (int64_t)queries};
    struct sr1__kv_layout l = sr1__kv_layout_choose(&need);
    double looks = (double)(l.n_blocks * l.rows * sr1__kv_layout_block(&l));

    return (double)sr1__kv_layout_places(&l) * token_cache(m) +
           looks * (sizeof(int64_t) + size_of(m) * (l.rows > 1 ? 1 + queries : 1));
}

double sr1__memory_cache(const struct sr1__memory_model *m,
                         const struct sr1__memory_rows *r)
{
    double own = r->tokens - r->prompt * (1 - 1 / r->group);

    if (is_paged(m))
        return r->n * ceil(own / SR1__PAGE) * SR1__PAGE * token_cache(m);
    return slots_bytes(m, r, r->tokens - r->prompt);
}

/* A layer moves into a larger tensor while the old one is still there. */
double sr1__memory_cache_peak(const struct sr1__memory_model *m,
                              const struct sr1__memory_rows *r)
{
    double full = sr1__memory_cache(m, r), tail = r->tokens - r->prompt;

    if (is_paged(m))
        return full;
    return full + slots_bytes(m, r, tail - fmax(SR1__KV_STEP, tail / 8)) /
                      (double)m->config.n_layers;
}

/* What a step of single tokens works with stays its graphs': of a pass, which is none
 * where experts are chosen, and of a draw. */
static double graphs_kept(const struct sr1__memory_model *m, double rows, double longest)
{
    struct sr1__memory_pass p = {.tokens = rows, .targets = rows, .longest = longest};
    double draw = rows * (double)m->config.vocab_size * (4 + size_of(m));

    if (m->device == SR1__CPU)
        return 0;
    if (sr1__hf_config_has(&m->config, SR1__LAYER_EXPERTS))
        return draw;
    return fmax(measure_layer(m, &p, 0).peak * rows, draw);
}

/* The C pass of a CPU (host_pass.h), which has the weights once more, in panels. */
static int is_host_pass(const struct sr1__memory_model *m)
{
    return is_paged(m) && !m->quantized && !m->config.value_head;
}

static double host_panels(const struct sr1__memory_model *m, int int8)
{
    return sr1__host_panels_bytes(&m->config, is_narrow(m), int8) +
           sr1__host_adapter_bytes(&m->config, m->lora.rank, m->lora.targets);
}

static double host_pass(const struct sr1__memory_model *m, double rows, double tokens,
                        int int8)
{
    return sr1__host_pass_bytes(
        &m->config, &(struct sr1__host_need){
                        .tokens = tokens,
                        .wanted = rows,
                        .threads = fmax(1, m->threads),
                        .ranks = sr1__host_adapter_ranks(m->lora.rank, m->lora.targets),
                        .bf16 = is_narrow(m),
                        .int8 = int8});
}

double sr1__memory_decode(const struct sr1__memory_model *m, double rows, double tokens,
                          double longest, double workers)
{
    struct sr1__memory_pass p = {.tokens = tokens, .targets = rows, .longest = longest};

    if (is_host_pass(m))
        return host_panels(m, m->decodes_int8) +
               workers * host_pass(m, rows / workers, tokens / workers, m->decodes_int8) +
               rows * (double)m->config.vocab_size * 4;
    return pass_inputs(m, &p) + graphs_kept(m, rows, longest) +
           fmax(measure_layer(m, &p, 0).peak * tokens,
                pass_outputs(m, &p, 0) +
                    rows * (double)m->config.vocab_size * (4 + size_of(m)));
}

/* Prompts of a cut, and some of what continues them (host_score.c). */
double sr1__memory_score(const struct sr1__memory_model *m,
                         const struct sr1__memory_pass *p, double workers)
{
    double row = (double)m->config.vocab_size * sizeof(float);
    double tokens = fmin(p->tokens, 2 * (SR1__SCORE_TOKENS + p->longest));
    const struct sr1__memory_rows one = {1, 1, 1, 0, tokens};
    struct sr1__memory_model exact = *m;

    if (!is_host_pass(m) || m->dtype != SR1__F32)
        return workers * sr1__memory_forward(m, p);
    exact.narrow_cache = 0;
    return host_panels(m, 0) +
           workers * (host_pass(m, fmin(p->targets, tokens), tokens, 0) +
                      sr1__memory_cache(&exact, &one) +
                      fmin(p->targets * row, fmax(row, (double)SR1__SCORE_LOGITS)));
}
