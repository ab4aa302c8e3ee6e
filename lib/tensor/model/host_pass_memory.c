/* tensor/model/host_pass_memory.c - making a pass, its memory, and cutting its tokens
 * into lots. */
#include "tensor/model/host_pass_internal.h"

#include "base/mem.h"
#include "kernels/bf16.h"

#include <math.h>
#include <string.h>

/* ---- memory ---- */

static size_t piece_floats(const struct sr1__host_pass *p, size_t tokens)
{
    size_t typed = round_width(p->e) + round_width(p->q) + round_width(p->f);

    return tokens * ((p->normed ? 2 : 1) * round_width(p->e) +
                     round_width(p->q + 2 * p->kv_width) + round_width(p->q) +
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
    p->output = p->lora + tokens * round_width(p->ranks);
    at = (unsigned char *)(p->output + (p->normed ? tokens * round_width(p->e) : 0));
    p->h = at;
    p->attended = p->h + tokens * round_width(p->e) * p->size;
    p->gated = p->attended + tokens * round_width(p->q) * p->size;
    p->tokens = tokens;
    return SR1_OK;
}

/* Of the inputs of matrices. */
static size_t find_widest(const struct sr1__host_pass *p)
{
    size_t widest = p->e > p->q ? p->e : p->q;

    return widest > p->f ? widest : p->f;
}

static size_t quantized_bytes(const struct sr1__host_pass *p, size_t n)
{
    return p->int8 ? n * sr1__int8_row(find_widest(p)) * sizeof(int16_t) : 0;
}

static sr1_status reserve_quantized(struct sr1__host_pass *p, size_t n)
{
    if (!p->int8 || n <= p->quantized_cap)
        return SR1_OK;
    sr1__free(p->quantized);
    p->quantized_cap = 0;
    p->quantized = sr1__malloc_aligned(quantized_bytes(p, n));
    SR1__CHECK_ALLOC(p->quantized, "decode pass");
    p->quantized_cap = n;
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

static size_t scratch_row(const struct sr1__host_pass *p)
{
    size_t input = find_widest(p);

    return round_width(input > p->kv_width ? input : p->kv_width);
}

/* Of a thread; heads have d numbers. */
static size_t scratch_floats(const struct sr1__host_pass *p, size_t d)
{
    size_t wide = !p->ranks || p->size == sizeof(float) ? 0 : round_width(find_widest(p));

    return ROWS * (SR1__GROUP_OUT + SR1__HOST_GATES) + scratch_row(p) + QUERIES * d +
           2 * d + LORA_ROWS * wide;
}

static sr1_status make_scratch(struct sr1__host_pass *p)
{
    size_t n = (size_t)sr1__team_threads(p->team);
    size_t d = round_width((size_t)p->m->config.head_dim);
    size_t each = scratch_floats(p, d);
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
        s->heads = s->row + scratch_row(p);
        s->angles = s->heads + QUERIES * d;
        s->widened = s->angles + 2 * d;
        at += each;
    }
    return SR1_OK;
}

static sr1_status make_lanes(struct sr1__host_pass *p)
{
    size_t threads = (size_t)sr1__team_threads(p->team);

    if (threads == 1)
        return SR1_OK;
    SR1__CALLOC(p->lots, threads * LOTS, "decode pass");
    p->lanes = sr1__calloc(threads, sizeof(struct sr1__host_pass *));
    SR1__CHECK_ALLOC(p->lanes, "decode pass");
    return SR1_OK;
}

static void fill_shape(struct sr1__host_pass *p, const struct sr1__hf_config *c, int bf16)
{
    p->size = bf16 ? sizeof(uint16_t) : sizeof(float);
    p->e = (size_t)c->hidden_size;
    p->q = (size_t)(c->n_heads * c->head_dim);
    p->kv_width = (size_t)(c->n_kv_heads * c->head_dim);
    p->f = (size_t)c->intermediate_size;
    p->normed = sr1__archs[c->arch].post_norms;
}

/* As in training, where the factor is of the model's type. */
static float scale_embeddings(const struct sr1__hf_config *c, int bf16)
{
    float scale = sqrtf((float)c->hidden_size);
    uint16_t half;

    if (!sr1__archs[c->arch].embedding_scale)
        return 1;
    if (bf16) {
        sr1__f32_to_bf16(&scale, &half, 1);
        sr1__bf16_to_f32(&half, &scale, 1);
    }
    return scale;
}

static sr1_status fill_host_pass(struct sr1__host_pass *p)
{
    const struct sr1__hf_config *c = &p->m->config;
    int bf16 = p->m->dtype == SR1__BF16;

    fill_shape(p, c, bf16);
    p->embed_scale = scale_embeddings(c, bf16);
    p->query_scale = (float)sr1__hf_config_query_scale(c) / sqrtf((float)c->head_dim);
    p->ranks = sr1__host_ranks(p->m);
    SR1__CALLOC(p->rows, PIECE, "decode pass");
    SR1__CALLOC(p->positions, PIECE, "decode pass");
    if (c->n_experts)
        SR1__TRY(sr1__host_experts_new(&p->experts, p->m, p->team, p->int8));
    SR1__TRY(make_lanes(p));
    return make_scratch(p);
}

sr1_status sr1__host_pass_new(struct sr1__host_pass **out, sr1_model *m,
                              struct sr1__kv *kv, struct sr1__team *team, int int8)
{
    struct sr1__host_pass *p;

    SR1__CALLOC(p, 1, "decode pass");
    p->m = m;
    p->kv = kv;
    p->team = team;
    p->int8 = int8;
    SR1__RETURN_NEW(out, p, fill_host_pass(p), sr1__host_pass_free);
}

void sr1__host_pass_reset(struct sr1__host_pass *p)
{
    for (int32_t i = 0; p->lanes && i < sr1__team_threads(p->team); i++)
        if (p->lanes[i])
            sr1__host_pass_reset(p->lanes[i]);
    sr1__host_weights_release(&p->weights, p->m);
    sr1__host_experts_reset(p->experts);
    sr1__free(p->memory);
    sr1__free(p->hidden);
    sr1__free(p->quantized);
    sr1__free(p->blocks);
    p->memory = NULL;
    p->hidden = NULL;
    p->quantized = NULL;
    p->blocks = NULL;
    p->tokens = p->hidden_cap = p->quantized_cap = p->blocks_cap = 0;
}

void sr1__host_pass_free(struct sr1__host_pass *p)
{
    if (!p)
        return;
    sr1__host_pass_reset(p);
    for (int32_t i = 0; p->lanes && i < sr1__team_threads(p->team); i++)
        sr1__host_pass_free(p->lanes[i]);
    sr1__free(p->lanes);
    sr1__free(p->lots);
    sr1__host_experts_free(p->experts);
    sr1__free(p->scratch);
    sr1__free(p->scratch_memory);
    sr1__free(p->rows);
    sr1__free(p->positions);
    sr1__free(p);
}

/* ---- lots ---- */

/* 0: no lots are taken. */
static size_t choose_lot_tokens(const struct sr1__host_pass *p,
                                const struct sr1__hf_config *c, size_t threads,
                                size_t total)
{
    double weights = sr1__host_panels_bytes(c, p->size == sizeof(uint16_t), p->int8);
    size_t least = weights > CACHED_WEIGHTS ? LOT_TOKENS_READ : LOT_TOKENS;
    size_t each = total / threads / least; /* lots of a thread */

    each = each < LOTS ? each : LOTS;
    return each > 0 && threads > 1 ? (total + threads * each - 1) / (threads * each) : 0;
}

/* Whole spans, until each lot has so many tokens; returns those of the largest lot. */
static size_t fill_lots(struct sr1__host_pass *p, const struct sr1__host_input *in,
                        size_t tokens)
{
    size_t most = 0, kept = 0;
    int64_t from = 0;

    p->n_lots = 0;
    for (size_t i = 0; i < in->n_spans; i++) {
        int64_t end = in->spans[i].first + in->spans[i].n;

        if ((size_t)(end - from) < tokens && i + 1 < in->n_spans)
            continue;
        p->lots[p->n_lots++] = (struct host_lot){from, end, kept};
        while (kept < in->n_wanted && in->wanted[kept] < end)
            kept++;
        most = (size_t)(end - from) > most ? (size_t)(end - from) : most;
        from = end;
    }
    return most;
}

/* Lots are taken where no thread would wait long for the last one: one of each thread has
 * few more tokens together than the pass. */
static void cut_lots(struct sr1__host_pass *p, const struct sr1__host_input *in,
                     size_t *tokens)
{
    size_t threads = (size_t)sr1__team_threads(p->team), total = count_input_tokens(in);
    size_t each = choose_lot_tokens(p, &p->m->config, threads, total), most;

    p->n_lots = 0;
    *tokens = total;
    if (each == 0)
        return;
    most = fill_lots(p, in, each);
    if ((p->n_lots + threads - 1) / threads * most * threads > total + total / LOT_WASTE)
        p->n_lots = 0;
    else
        *tokens = most;
}

static sr1_status reserve_tokens(struct sr1__host_pass *p, size_t tokens)
{
    size_t n = tokens < PIECE ? tokens : PIECE;

    SR1__TRY(reserve_piece(p, n));
    SR1__TRY(reserve_quantized(p, n));
    SR1__TRY(sr1__host_experts_reserve(p->experts, n));
    SR1__RESERVE(p->blocks, p->blocks_cap, n, "decode pass");
    return SR1_OK;
}

static sr1_status reserve_lanes(struct sr1__host_pass *p, size_t tokens)
{
    for (int32_t i = 0; i < sr1__team_threads(p->team); i++) {
        if (!p->lanes[i])
            SR1__TRY(sr1__host_pass_new(&p->lanes[i], p->m, p->kv, NULL, p->int8));
        SR1__TRY(reserve_tokens(p->lanes[i], tokens));
    }
    return SR1_OK;
}

sr1_status sr1__host_pass_reserve(struct sr1__host_pass *p,
                                  const struct sr1__host_input *in)
{
    size_t tokens;

    if (sr1__host_ranks(p->m) != p->ranks)
        return sr1__fail(SR1_E_STATE, "decode pass: the model's adapter is another one");
    cut_lots(p, in, &tokens);
    SR1__TRY(p->n_lots > 0 ? reserve_lanes(p, tokens) : reserve_tokens(p, tokens));
    SR1__TRY(reserve_hidden(p, in->n_wanted));
    SR1__TRY(reserve_quantized(p, in->n_wanted));
    return sr1__host_weights_renew(&p->weights, p->m, p->int8, p->team);
}

/* Passes with lots and passes without leave their memory beside one another. */
double sr1__host_pass_bytes(const struct sr1__hf_config *c,
                            const struct sr1__host_need *need)
{
    struct sr1__host_pass p = {.int8 = need->int8, .ranks = need->ranks};
    double piece = fmin(need->tokens, PIECE), threads = need->threads, lanes;

    fill_shape(&p, c, need->bf16);
    if (choose_lot_tokens(&p, c, (size_t)threads, (size_t)need->tokens) > 0) {
        lanes = fmin(need->tokens * (1 + 1.0 / LOT_WASTE), threads * PIECE);
        threads += need->threads;
    } else {
        lanes = 0;
    }
    return (piece + lanes) * 4.0 * (double)piece_floats(&p, 1) +
           need->wanted * (double)(round_width(p.e) * p.size) +
           (lanes + fmax(piece, need->wanted)) * (double)quantized_bytes(&p, 1) +
           threads * 4.0 * (double)scratch_floats(&p, round_width((size_t)c->head_dim)) +
           sr1__host_experts_bytes(c, piece + lanes, threads, need->bf16, need->int8);
}
