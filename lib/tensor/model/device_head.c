/* tensor/model/device_head.c - next tokens of rows whose hidden states are on a device.
 */
#include "tensor/model/device_head.h"

#include "base/mem.h"
#include "tensor/ops/sample_logits.h"

#include <string.h>

#define CHUNK_BYTES ((int64_t)128 << 20) /* of fp32 logits drawn from at once */

/* What goes up for a draw of n rows, [n] each. */
enum {
    PRESENT,  /* place of the row's hidden state */
    UNIFORMS, /* their bits */
    LANES,    /* where the id goes */
    NUMBERS
};

struct sr1__device_head {
    sr1_model *model;
    struct sr1__step_graphs *graphs;
    int32_t n_rows;
    unsigned char *side; /* [n_rows] 0, 1: the present one of a row's two places */
    /* on the device; NULL until reserved */
    sr1_tensor *hidden;  /* [2 n_rows + 1, E] */
    sr1_tensor *numbers; /* i64 [NUMBERS n_rows] */
    sr1_tensor *columns; /* fp64 [n_rows, SR1__SAMPLE_COLUMNS], */
    sr1_tensor *here;    /* and their copy on the host */
    sr1__event *copied;
    /* scratch of one draw */
    int64_t *up;              /* [NUMBERS n] */
    struct sr1__rng *streams; /* [n] before the draw */
};

sr1_status sr1__device_head_new(struct sr1__device_head **out, sr1_model *m,
                                int32_t n_rows, struct sr1__step_graphs *graphs)
{
    struct sr1__device_head *h;
    size_t n = (size_t)n_rows;

    SR1__CALLOC(h, 1, "decoder head");
    h->model = m;
    h->graphs = graphs;
    h->n_rows = n_rows;
    h->side = sr1__calloc(n, sizeof *h->side);
    h->up = sr1__calloc(NUMBERS * n, sizeof *h->up);
    h->streams = sr1__calloc(n, sizeof *h->streams);
    SR1__RETURN_NEW(
        out, h, h->side && h->up && h->streams ? SR1_OK : sr1__fail_nomem("decoder head"),
        sr1__device_head_free);
}

void sr1__device_head_free(struct sr1__device_head *h)
{
    if (!h)
        return;
    sr1__device_head_reset(h);
    sr1__free(h->side);
    sr1__free(h->up);
    sr1__free(h->streams);
    sr1__free(h);
}

static sr1_tensor *make_pinned(sr1_scope *s, int32_t dtype, int64_t n, int64_t width)
{
    sr1_tensor *t = NULL;

    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, sr1__shim_pinned(&t, dtype, T_SHAPE(n, width)));
    return sr1__scope_own(s, t);
}

static sr1_status reserve_head(struct sr1__device_head *h)
{
    sr1_scope *s = sr1__scope_open(h->model->device, "decoder head");
    int64_t n = h->n_rows;

    sr1__scope_no_grad(s);
    h->hidden = t_hold(s, t_full(s, 0.0, h->model->dtype,
                                 T_SHAPE(2 * n + 1, h->model->config.hidden_size)));
    h->numbers = t_hold(s, t_full(s, 0.0, SR1__I64, T_SHAPE(NUMBERS * n)));
    h->columns = t_hold(s, t_full(s, 0.0, SR1__F64, T_SHAPE(n, SR1__SAMPLE_COLUMNS)));
    h->here = t_hold(s, make_pinned(s, SR1__F64, n, SR1__SAMPLE_COLUMNS));
    if (sr1__scope_status(s) == SR1_OK)
        sr1__scope_check(s, sr1__shim_event_new(&h->copied, h->model->device));
    return sr1__scope_close(s);
}

sr1_status sr1__device_head_reserve(struct sr1__device_head *h)
{
    sr1_status st;

    if (h->hidden)
        return SR1_OK;
    st = reserve_head(h);
    if (st != SR1_OK)
        sr1__device_head_reset(h);
    return st;
}

void sr1__device_head_reset(struct sr1__device_head *h)
{
    sr1_tensor **all[] = {&h->hidden, &h->numbers, &h->columns, &h->here};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        sr1__tensor_free(*all[i]);
        *all[i] = NULL;
    }
    sr1__shim_event_free(h->copied);
    h->copied = NULL;
}

/* ---- hidden states ---- */

static int64_t locate_present(const struct sr1__device_head *h, int32_t row)
{
    return row < h->n_rows ? 2 * row + h->side[row] : 2 * (int64_t)h->n_rows;
}

int64_t sr1__device_head_next(const struct sr1__device_head *h, int32_t row)
{
    return row < h->n_rows ? 2 * row + !h->side[row] : 2 * (int64_t)h->n_rows;
}

void sr1__device_head_store(sr1_scope *s, struct sr1__device_head *h, sr1_tensor *hidden,
                            sr1_tensor *places)
{
    t_index_copy_(s, h->hidden, places, hidden);
}

void sr1__device_head_advance(struct sr1__device_head *h, int32_t row)
{
    h->side[row] = !h->side[row];
}

static sr1_tensor *view_present(sr1_scope *s, const struct sr1__device_head *h,
                                int32_t row)
{
    return t_narrow(s, h->hidden, 0, locate_present(h, row), 1);
}

sr1_status sr1__device_head_copy(struct sr1__device_head *h, int32_t from, int32_t to)
{
    sr1_scope *s = sr1__scope_open(h->model->device, "decoder head");

    sr1__scope_inference(s);
    t_copy_(s, view_present(s, h, to), view_present(s, h, from));
    return sr1__scope_close(s);
}

/* ---- the draw ---- */

static int is_random(const struct sr1__sampling *how)
{
    return how->temperature > 0;
}

/* A power of two: draws of few sizes, which graphs can be used for again. */
static int64_t bucket_draws(const struct sr1__device_head *h, size_t n)
{
    int64_t bucket = 1;

    while (bucket < (int64_t)n)
        bucket *= 2;
    return bucket < h->n_rows ? bucket : h->n_rows;
}

static void take_uniforms(struct sr1__device_head *h, size_t n,
                          struct sr1__rng *const *rngs, int64_t *bits)
{
    for (size_t i = 0; i < n; i++) {
        double u;

        h->streams[i] = *rngs[i];
        u = sr1__rng_uniform(rngs[i]);
        memcpy(&bits[i], &u, sizeof u);
    }
}

/* Backwards: of a stream that served several rows the oldest state is the last. */
static void give_uniforms_back(const struct sr1__device_head *h, size_t n,
                               struct sr1__rng *const *rngs)
{
    for (size_t i = n; i-- > 0;)
        *rngs[i] = h->streams[i];
}

void sr1__device_head_undo(struct sr1__device_head *h,
                           const struct sr1__device_draw *draw)
{
    if (is_random(draw->how))
        give_uniforms_back(h, draw->n, draw->rngs);
}

static int64_t choose_draw_rows(const struct sr1__device_head *h)
{
    int64_t fit = CHUNK_BYTES / 4 / h->model->config.vocab_size;

    return fit > 0 ? fit : 1;
}

/* One draw whose kernels can be captured: of n rows, those behind the draw's own are
 * nobody's. */
struct draw_step {
    struct sr1__device_head *h;
    const struct sr1__sampling *how;
    sr1_tensor *ids;
    int64_t n;
    sr1_tensor *numbers[NUMBERS]; /* [n] */
    sr1_tensor *hidden;           /* [n,E] */
};

/* Tokens of rows [from, from + n). */
static void draw_chunk(sr1_scope *outer, const struct draw_step *step, int64_t from,
                       int64_t n)
{
    sr1_scope *s = sr1__scope_nest(outer, "rows %lld", (long long)from);
    const struct sr1__device_head *h = step->h;
    sr1_tensor *logits =
        t_linear(s, t_narrow(s, step->hidden, 0, from, n), h->model->head, NULL);
    sr1_tensor *u = NULL, *ids, *columns;

    if (is_random(step->how))
        u = t_unsqueeze(
            s, t_view_as(s, t_narrow(s, step->numbers[UNIFORMS], 0, from, n), SR1__F64),
            1);
    columns = sr1__nn_sample(s, logits, u, step->how, &ids);
    t_copy_(s, t_narrow(s, h->columns, 0, from, n), columns);
    t_index_copy_(s, step->ids, t_narrow(s, step->numbers[LANES], 0, from, n),
                  t_squeeze(s, ids, 1));
    (void)sr1__scope_close(s);
}

static void launch_draw(sr1_scope *s, void *arg)
{
    struct draw_step *step = arg;
    struct sr1__device_head *h = step->h;
    int64_t n = step->n, chunk = choose_draw_rows(h);

    for (int i = 0; i < NUMBERS; i++)
        step->numbers[i] = t_narrow(s, h->numbers, 0, i * n, n);
    step->hidden = t_index_select(s, h->hidden, 0, step->numbers[PRESENT]);
    for (int64_t at = 0; at < n; at += chunk)
        draw_chunk(s, step, at, n - at < chunk ? n - at : chunk);
}

static struct sr1__step_key make_draw_key(const struct draw_step *step)
{
    struct sr1__step_key key = {{'d', step->n, step->how->top_k, 0, 0, 0}};

    memcpy(&key.part[3], &step->how->temperature, sizeof(double));
    memcpy(&key.part[4], &step->how->top_p, sizeof(double));
    return key;
}

static sr1_status upload_draw(struct sr1__device_head *h, int64_t n)
{
    sr1_scope *s = sr1__scope_open(h->model->device, "sample");

    sr1__scope_inference(s);
    t_upload_i64(s, t_narrow(s, h->numbers, 0, 0, NUMBERS * n), h->up);
    return sr1__scope_close(s);
}

static sr1_status begin_download(struct sr1__device_head *h, int64_t n)
{
    sr1_scope *s = sr1__scope_open(h->model->device, "sample");

    sr1__scope_inference(s);
    t_copy_later_(s, t_narrow(s, h->here, 0, 0, n), t_narrow(s, h->columns, 0, 0, n));
    SR1__TRY(sr1__scope_close(s));
    return sr1__shim_event_record(h->copied, h->model->device);
}

static void fill_draw(struct sr1__device_head *h, const struct sr1__device_draw *draw,
                      int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int is_row = i < (int64_t)draw->n;

        h->up[PRESENT * n + i] = locate_present(h, is_row ? draw->rows[i] : h->n_rows);
        h->up[UNIFORMS * n + i] = 0;
        h->up[LANES * n + i] = is_row ? draw->lanes[i] : draw->nobody;
    }
}

sr1_status sr1__device_head_draw(struct sr1__device_head *h,
                                 const struct sr1__device_draw *draw)
{
    struct draw_step step = {
        .h = h, .how = draw->how, .ids = draw->ids, .n = bucket_draws(h, draw->n)};
    struct sr1__step_key key = make_draw_key(&step);
    sr1_status st;

    SR1__TRY(sr1__sampling_check(draw->how));
    fill_draw(h, draw, step.n);
    if (is_random(draw->how))
        take_uniforms(h, draw->n, draw->rngs, h->up + UNIFORMS * step.n);
    st = upload_draw(h, step.n);
    if (st == SR1_OK)
        st = sr1__step_graphs_run(h->graphs, "sample", &key, launch_draw, &step);
    if (st == SR1_OK)
        st = begin_download(h, (int64_t)draw->n);
    if (st != SR1_OK)
        sr1__device_head_undo(h, draw);
    return st;
}

sr1_status sr1__device_head_read(struct sr1__device_head *h,
                                 const struct sr1__device_draw *draw,
                                 struct sr1__sample *out)
{
    sr1_status st = sr1__shim_event_wait(h->copied);

    if (st == SR1_OK)
        st = sr1__samples_unpack(sr1__shim_data(h->here), draw->n, out);
    if (st != SR1_OK)
        sr1__device_head_undo(h, draw);
    return st;
}

sr1_status sr1__device_head_logits(struct sr1__device_head *h, int32_t row, float *logits)
{
    sr1_scope *s = sr1__scope_open(h->model->device, "logits");

    sr1__scope_inference(s);
    t_to_host_f32(s, t_linear(s, view_present(s, h, row), h->model->head, NULL), logits,
                  (size_t)h->model->config.vocab_size);
    return sr1__scope_close(s);
}
