/* tensor/model/device_head.c - next tokens of rows whose hidden states are on a device.
 */
#include "tensor/model/device_head.h"

#include "base/mem.h"
#include "tensor/ops/sample_logits.h"

#include <string.h>

#define CHUNK_BYTES ((int64_t)128 << 20) /* of fp32 logits drawn from at once */

struct sr1__device_head {
    sr1_model *model;
    int32_t n_rows;
    sr1_tensor *hidden; /* [n_rows+1,E]; NULL until reserved */
    /* scratch of one draw */
    int64_t *up;              /* [2,n]: rows, bits of the uniforms */
    double *columns;          /* [n,SR1__SAMPLE_COLUMNS] */
    struct sr1__rng *streams; /* [n] before the draw */
};

sr1_status sr1__device_head_new(struct sr1__device_head **out, sr1_model *m,
                                int32_t n_rows)
{
    struct sr1__device_head *h;
    size_t n = (size_t)n_rows;

    SR1__CALLOC(h, 1, "decoder head");
    h->model = m;
    h->n_rows = n_rows;
    h->up = sr1__calloc(2 * n, sizeof *h->up);
    h->columns = sr1__calloc(n, SR1__SAMPLE_COLUMNS * sizeof *h->columns);
    h->streams = sr1__calloc(n, sizeof *h->streams);
    SR1__RETURN_NEW(out, h,
                    h->up && h->columns && h->streams ? SR1_OK
                                                      : sr1__fail_nomem("decoder head"),
                    sr1__device_head_free);
}

void sr1__device_head_free(struct sr1__device_head *h)
{
    if (!h)
        return;
    sr1__device_head_reset(h);
    sr1__free(h->up);
    sr1__free(h->columns);
    sr1__free(h->streams);
    sr1__free(h);
}

sr1_status sr1__device_head_reserve(struct sr1__device_head *h)
{
    sr1_scope *s;

    if (h->hidden)
        return SR1_OK;
    s = sr1__scope_open(h->model->device, "decoder head");
    sr1__scope_no_grad(s);
    h->hidden = t_hold(s, t_full(s, 0.0, h->model->dtype,
                                 T_SHAPE(h->n_rows + 1, h->model->config.hidden_size)));
    return sr1__scope_close(s);
}

void sr1__device_head_reset(struct sr1__device_head *h)
{
    sr1__tensor_free(h->hidden);
    h->hidden = NULL;
}

void sr1__device_head_store(sr1_scope *s, struct sr1__device_head *h, sr1_tensor *hidden,
                            sr1_tensor *rows)
{
    t_index_copy_(s, h->hidden, rows, hidden);
}

sr1_status sr1__device_head_copy(struct sr1__device_head *h, int32_t from, int32_t to)
{
    sr1_scope *s = sr1__scope_open(h->model->device, "decoder head");

    sr1__scope_inference(s);
    t_copy_(s, t_narrow(s, h->hidden, 0, to, 1), t_narrow(s, h->hidden, 0, from, 1));
    return sr1__scope_close(s);
}

/* ---- the draw ---- */

static void take_uniforms(struct sr1__device_head *h, size_t n,
                          struct sr1__rng *const *rngs)
{
    for (size_t i = 0; i < n; i++) {
        double u;

        h->streams[i] = *rngs[i];
        u = sr1__rng_uniform(rngs[i]);
        memcpy(h->up + n + i, &u, sizeof u);
    }
}

/* Backwards: of a stream that served several rows the oldest state is the last. */
static void give_uniforms_back(const struct sr1__device_head *h, size_t n,
                               struct sr1__rng *const *rngs)
{
    for (size_t i = n; i-- > 0;)
        *rngs[i] = h->streams[i];
}

static int64_t choose_draw_rows(const struct sr1__device_head *h)
{
    int64_t fit = CHUNK_BYTES / 4 / h->model->config.vocab_size;

    return fit > 0 ? fit : 1;
}

/* Samples of rows [from, from + n) of hidden into their columns. */
static void sample_chunk(sr1_scope *outer, const struct sr1__device_head *h,
                         const struct sr1__sampling *how, sr1_tensor *hidden,
                         sr1_tensor *uniforms, int64_t from, int64_t n,
                         sr1_tensor *columns)
{
    sr1_scope *s = sr1__scope_nest(outer, "rows %lld", (long long)from);
    sr1_tensor *u = uniforms ? t_narrow(s, uniforms, 0, from, n) : NULL;
    sr1_tensor *logits =
        t_linear(s, t_narrow(s, hidden, 0, from, n), h->model->head, NULL);

    t_copy_(s, t_narrow(s, columns, 0, from, n), sr1__nn_sample(s, logits, u, how));
    (void)sr1__scope_close(s);
}

static sr1_status run_draw(struct sr1__device_head *h, const struct sr1__sampling *how,
                           int64_t n, int draws)
{
    sr1_scope *s = sr1__scope_open(h->model->device, "sample");
    int64_t chunk = choose_draw_rows(h);
    sr1_tensor *up, *hidden, *columns, *uniforms = NULL;

    sr1__scope_inference(s);
    up = t_from_i64(s, h->up, T_SHAPE(1 + draws, n));
    hidden = t_index_select(s, h->hidden, 0, t_squeeze(s, t_narrow(s, up, 0, 0, 1), 0));
    if (draws)
        uniforms =
            t_reshape(s, t_view_as(s, t_narrow(s, up, 0, 1, 1), SR1__F64), T_SHAPE(n, 1));
    columns = t_empty(s, SR1__F64, T_SHAPE(n, SR1__SAMPLE_COLUMNS));
    for (int64_t at = 0; at < n; at += chunk)
        sample_chunk(s, h, how, hidden, uniforms, at, n - at < chunk ? n - at : chunk,
                     columns);
    t_to_host_f64(s, columns, h->columns, (size_t)n * SR1__SAMPLE_COLUMNS);
    return sr1__scope_close(s);
}

sr1_status sr1__device_head_sample(struct sr1__device_head *h, const int32_t *rows,
                                   size_t n, const struct sr1__sampling *how,
                                   struct sr1__rng *const *rngs, struct sr1__sample *out)
{
    int draws = how->temperature > 0;
    sr1_status st;

    SR1__TRY(sr1__sampling_check(how));
    for (size_t i = 0; i < n; i++)
        h->up[i] = rows[i];
    if (draws)
        take_uniforms(h, n, rngs);
    st = run_draw(h, how, (int64_t)n, draws);
    if (st == SR1_OK)
        st = sr1__samples_unpack(h->columns, n, out);
    if (st != SR1_OK && draws)
        give_uniforms_back(h, n, rngs);
    return st;
}

sr1_status sr1__device_head_logits(struct sr1__device_head *h, int32_t row, float *logits)
{
    sr1_scope *s = sr1__scope_open(h->model->device, "logits");

    sr1__scope_inference(s);
    t_to_host_f32(s, t_linear(s, t_narrow(s, h->hidden, 0, row, 1), h->model->head, NULL),
                  logits, (size_t)h->model->config.vocab_size);
    return sr1__scope_close(s);
}
