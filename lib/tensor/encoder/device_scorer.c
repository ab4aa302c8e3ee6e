/* tensor/encoder/device_scorer.c - the device half of exact search
 * (retrieval/search/vector_scorer.h): blocks of vectors lie on the device as the index
 * keeps them; for each block
 *
 *     scores [n, rows] = queries [n, dim] . block [rows, dim]^T * scales [rows]
 *
 * in fp32, and its best are merged with the best so far. Nothing is copied to the host
 * before the last block is done. */
#include "tensor/encoder/device_scorer.h"

#include "base/mem.h"
#include "tensor/ops/ops.h"

#include <string.h>

struct scorer {
    sr1__device device;
    size_t n; /* rows */
    size_t dim;
    size_t block;
    size_t n_blocks;
    sr1_tensor **blocks; /* [n_blocks] of [rows, dim] */
    sr1_tensor **scales; /* [n_blocks] of fp32 [rows]; NULL: none */
};

static size_t count_block_rows(const struct scorer *c, size_t b)
{
    size_t first = b * c->block;

    return c->n - first < c->block ? c->n - first : c->block;
}

/* ---- taking the rows over ---- */

static const int32_t dtypes[] = {
    [SR1__DOT_FP32] = SR1__F32,
    [SR1__DOT_FP16] = SR1__F16,
    [SR1__DOT_INT8] = SR1__I8,
};

static sr1_status upload_block(struct scorer *c, const struct sr1__scorer_rows *rows,
                               size_t b)
{
    int32_t dtype = dtypes[rows->type];
    size_t first = b * c->block;
    const char *from =
        (const char *)rows->rows + first * c->dim * sr1__torch_dtype_size(dtype);
    int64_t n = (int64_t)count_block_rows(c, b);
    sr1_scope *s = sr1__scope_open(c->device, "vectors from %zu", first);

    c->blocks[b] = t_hold(s, t_from_host(s, from, dtype, T_SHAPE(n, (int64_t)c->dim)));
    if (rows->scales != NULL)
        c->scales[b] = t_hold(s, t_from_f32(s, rows->scales + first, T_SHAPE(n)));
    return sr1__scope_close(s);
}

static sr1_status upload_vectors(struct scorer *c, const struct sr1__scorer_rows *rows)
{
    SR1__CALLOC(c->blocks, c->n_blocks, "vectors");
    if (rows->scales != NULL) {
        SR1__CALLOC(c->scales, c->n_blocks, "vectors");
    }
    for (size_t b = 0; b < c->n_blocks; b++)
        SR1__TRY(upload_block(c, rows, b));
    return SR1_OK;
}

static sr1_status check_room(const struct scorer *c, uint64_t bytes)
{
    const double mib = 0x1p-20;
    uint64_t room = 0;

    SR1__TRY(sr1__device_release(c->device));
    SR1__TRY(sr1__device_room(c->device, &room));
    if (bytes > room)
        return sr1__fail(SR1_E_DEVICE_NOMEM,
                         "the vectors and a search of them need %.0f MiB of memory on "
                         "%s, %.0f are free; keep them as fp16 or int8, or search them "
                         "on the CPU (search_index_device, --index-device)",
                         (double)bytes * mib, sr1__device_name(c->device),
                         (double)room * mib);
    return SR1_OK;
}

static sr1_status check_products(void)
{
    int full = 0;

    SR1__TRY(sr1__torch_full_products(&full));
    if (!full)
        return sr1__fail(SR1_E_STATE,
                         "this process lets libtorch round fp32 products to TF32 or "
                         "bf16, which an exact search cannot use: leave float32 matmul "
                         "precision at highest, and TORCH_ALLOW_TF32_CUBLAS_OVERRIDE "
                         "unset");
    return SR1_OK;
}

static sr1_status choose_device(struct scorer *c, const char *device)
{
    SR1__TRY(sr1__device_resolve(device, &c->device));
    if (c->device == SR1__CPU && strcmp(device, "auto") == 0)
        return sr1__fail(SR1_E_DEVICE, "there is no CUDA device that can be used");
    return SR1_OK;
}

static void scorer_close(void *self)
{
    struct scorer *c = self;

    for (size_t b = 0; b < c->n_blocks; b++) {
        if (c->blocks != NULL)
            sr1__tensor_free(c->blocks[b]);
        if (c->scales != NULL)
            sr1__tensor_free(c->scales[b]);
    }
    sr1__free(c->blocks);
    sr1__free(c->scales);
    sr1__free(c);
}

static sr1_status init_device_scorer(struct scorer *c, const char *device,
                                     const struct sr1__scorer_rows *rows)
{
    SR1__TRY(choose_device(c, device));
    SR1__TRY(check_room(c, rows->bytes));
    SR1__TRY(check_products());
    c->n = rows->n;
    c->dim = rows->dim;
    c->block = rows->block;
    c->n_blocks = (rows->n + rows->block - 1) / rows->block;
    return upload_vectors(c, rows);
}

static sr1_status scorer_open(void **out, const char *device,
                              const struct sr1__scorer_rows *rows)
{
    struct scorer *c = sr1__calloc(1, sizeof(*c));

    SR1__CHECK_ALLOC(c, "vectors");
    SR1__RETURN_NEW(out, c, init_device_scorer(c, device, rows), scorer_close);
}

static const char *scorer_device(const void *self)
{
    return sr1__device_name(((const struct scorer *)self)->device);
}

/* ---- scoring ---- */

/* The best rows so far, as tensors of the call's scope. */
struct best {
    sr1_tensor *scores; /* [n, k] */
    sr1_tensor *rows;   /* i64 [n, k] */
    int64_t k;
};

/* Of two lists of best rows the `most` best. */
static void merge_device_top_k(sr1_scope *s, struct best *all, const struct best *more,
                               int64_t most)
{
    sr1_tensor *scores[] = {all->scores, more->scores};
    sr1_tensor *rows[] = {all->rows, more->rows};
    sr1_tensor *places;

    all->k = all->k + more->k < most ? all->k + more->k : most;
    t_topk(s, t_cat(s, scores, 2, -1), all->k, &all->scores, &places);
    all->rows = t_gather(s, t_cat(s, rows, 2, -1), -1, places);
}

static void score_device_block(sr1_scope *all, const struct scorer *c, size_t b,
                               sr1_tensor *queries, int64_t most, struct best *best)
{
    sr1_scope *s = sr1__scope_nest(all, "vectors from %zu", b * c->block);
    struct best before = *best;
    struct best here = {.k = (int64_t)count_block_rows(c, b)};
    sr1_tensor *first = t_full(s, (double)(b * c->block), SR1__I64, T_SHAPE(1));
    sr1_tensor *y = t_linear(s, queries, t_to(s, c->blocks[b], SR1__F32), NULL);

    if (c->scales != NULL)
        y = t_mul(s, y, c->scales[b]);
    here.k = here.k < most ? here.k : most;
    t_topk(s, y, here.k, &here.scores, &here.rows);
    here.rows = t_add(s, here.rows, first);
    if (before.k > 0)
        merge_device_top_k(s, &here, &before, most);
    *best = (struct best){t_keep(s, here.scores), t_keep(s, here.rows), here.k};
    (void)sr1__scope_close(s);
    t_drop(all, before.scores);
    t_drop(all, before.rows);
}

/* `most` is at most the number of rows, so exactly `most` results exist after the last
 * block. */
static sr1_status find_top_k_rows(void *self, const float *queries, size_t n, size_t most,
                                  float *scores, int64_t *rows)
{
    const struct scorer *c = self;
    struct best best = {0};
    sr1_scope *s;
    sr1_tensor *q;

    SR1__TRY(check_products());
    s = sr1__scope_open(c->device, "search");
    sr1__scope_inference(s);
    q = t_from_f32(s, queries, T_SHAPE((int64_t)n, (int64_t)c->dim));
    for (size_t b = 0; b < c->n_blocks; b++)
        score_device_block(s, c, b, q, (int64_t)most, &best);
    t_to_host_f32(s, best.scores, scores, n * most);
    t_to_host_i64(s, best.rows, rows, n * most);
    return sr1__scope_close(s);
}

const struct sr1__scorer_ops sr1__scorer_torch = {scorer_open, scorer_device,
                                                  find_top_k_rows, scorer_close};

/* Runs when the library is loaded, before it has threads. */
__attribute__((constructor)) static void register_device_scorer(void)
{
    sr1__scorer_offer(&sr1__scorer_torch);
}
